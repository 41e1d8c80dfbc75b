# Runs a command that leads to node, has it note what it ran, and makes lcov of that.
#
# Arguments: where the report goes, `plain` or `nothing` for what is run where nothing can be measured,
# the program that makes the report, then the command.
set -u
report=$1 otherwise=$2 convert=$3
shift 3
dir=${report%/*}
if ! node -e 'process.exit(parseInt(process.versions.node) >= 20 ? 0 : 1)' 2>/dev/null; then
	printf 'missing:node' >"$dir/missing"
	[ "$otherwise" = nothing ] && exit 0
	exec "$@"
fi
NODE_V8_COVERAGE="$dir/v8" "$@"
code=$?
node -e "$convert" "$dir/v8" "$report" 2>/dev/null
[ -s "$report" ] || { rm -f "$report"; printf 'missing:script' >"$dir/missing"; }
exit "$code"
