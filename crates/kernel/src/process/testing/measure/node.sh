# Runs a command that leads to node, has it note what it ran, and makes lcov of that.
#
# Arguments: where the report goes, the program that makes it, then the command.
set -u
report=$1 convert=$2
shift 2
dir=${report%/*}
if ! node -e 'process.exit(parseInt(process.versions.node) >= 20 ? 0 : 1)' 2>/dev/null; then
	printf 'missing:node' >"$dir/missing"
	exec "$@"
fi
NODE_V8_COVERAGE="$dir/v8" "$@"
code=$?
node -e "$convert" "$dir/v8" "$report" 2>/dev/null
[ -s "$report" ] || { rm -f "$report"; printf 'missing:script' >"$dir/missing"; }
exit "$code"
