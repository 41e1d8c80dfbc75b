# Runs `cargo test` with the compiler's own instrumentation, and makes lcov of what it left.
#
# Arguments: where the report goes, `plain` or `nothing` for what is run where nothing can be measured,
# then the command as it is without measuring.
set -u
report=$1 otherwise=$2
shift 2
dir=${report%/*}
system=$(rustc --print sysroot 2>/dev/null)
tools=
for found in "$system"/lib/rustlib/*/bin/llvm-profdata; do
	[ -x "$found" ] && [ -x "${found%/*}/llvm-cov" ] && tools=${found%/*}
done
if [ -z "$tools" ]; then
	printf 'missing:llvm-tools' >"$dir/missing"
	[ "$otherwise" = nothing ] && exit 0
	exec "$@"
fi
if cargo llvm-cov --version >/dev/null 2>&1; then
	shift 2
	cargo llvm-cov test --no-report "$@"
	code=$?
	cargo llvm-cov report --lcov --output-path "$report" >/dev/null 2>&1
	exit "$code"
fi
# Apart from the usual build, which would else be made anew each time.
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/airlock-coverage"
export RUSTFLAGS="${RUSTFLAGS:-} -C instrument-coverage"
export LLVM_PROFILE_FILE="$dir/%p-%m.profraw"
"$@"
code=$?
cargo test --workspace --no-run --message-format=json 2>/dev/null |
	sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' >"$dir/objects"
set --
while IFS= read -r object; do set -- "$@" -object "$object"; done <"$dir/objects"
"$tools/llvm-profdata" merge -sparse -o "$dir/all.profdata" "$dir"/*.profraw &&
	"$tools/llvm-cov" export --format=lcov --instr-profile="$dir/all.profdata" "$@" >"$report"
exit "$code"
