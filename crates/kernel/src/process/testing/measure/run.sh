# Runs the tests with other contents in some files, puts the files back, and hands on what was
# measured between two marks.
#
# Arguments: a directory to make, what of a report is kept, pairs of file and size, `--`, a command.
# Standard input: the mark in a line of its own, empty for no measuring; then the contents.
# The mark is in no argument and no variable of the environment: a test cannot print it.
set -u
dir=$1 keep=$2
shift 2
IFS= read -r mark || exit 125
mkdir -m 700 -- "$dir" || exit 125

# What they were is kept in memory: a test could else hold a copy against what it is run with, and
# tell a changed file without a look at what it does.
put() {
	number=0
	while [ "$1" != -- ]; do
		number=$((number + 1))
		kept=$(base64 <"$1") || exit 125
		eval "kept$number=\$kept"
		head -c "$2" >"$1" || exit 125
		shift 2
	done
}

# With a new date: a build goes by dates, and would else go on with what it made of other contents.
back() {
	number=0
	while [ "$1" != -- ]; do
		number=$((number + 1))
		eval "kept=\$kept$number"
		printf '%s\n' "$kept" | base64 -d >"$1"
		shift 2
	done
}

run() {
	while [ "$1" != -- ]; do shift 2; done
	shift
	"$@" </dev/null
}

put "$@"
run "$@"
code=$?
back "$@"
if [ -n "$mark" ]; then
	printf '\n%s\n' "$mark"
	if [ -f "$dir/report" ]; then
		grep -E -- "$keep" "$dir/report" | head -c 8388609
	elif [ -f "$dir/missing" ]; then
		head -c 64 "$dir/missing"
	fi
	printf '\n%s\n' "$mark"
fi
rm -rf -- "$dir"
exit "$code"
