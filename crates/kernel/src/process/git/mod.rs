//! `git.status`, `git.diff`, `git.log` and `git.commit`, in a sandbox, with a configuration of
//! Airlock's own.
//!
//! A repository's configuration and attributes name programs that git runs: hooks, monitors, diff
//! drivers, filters, pagers, signers. None of that is read: git is given a directory of its own,
//! in the sandbox's temporary directory, with the repository's objects, references and index and
//! nothing else of it. So there is nothing to turn off, and nothing to forget to.
//!
//! Guarantee: no program a repository names is run, and what a caller may not read is not shown.
//! Non-guarantee: files that a filter changes on their way (large file storage, encryption) are
//! compared as they lie; submodules are not looked into.

mod arguments;
mod read;

pub(crate) use arguments::{Commit, GitDiff, Log, Status};
pub(super) use read::answer;

use super::denials::Denials;
use super::job::{Job, Work};

/// What is made of git's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    Status,
    Diff,
    Log,
    Commit,
}

impl Job {
    /// The commit with what it is of: the paths of the stage that are `gone` and those that are
    /// `there`, none of them a directory, and the trailer of its message.
    pub(crate) fn committing(
        &self,
        (gone, there): (&[String], &[String]),
        trailer: &str,
        user: &str,
    ) -> Self {
        let listed = |paths: &[String]| -> String {
            let paths = paths.iter().map(String::as_str);
            paths.flat_map(|path| [path, "\0"]).collect()
        };
        let (gone, there) = (listed(gone), listed(there));
        let mut job = self.clone();
        let length = gone.len().to_string();
        job.command
            .extend([trailer.to_owned(), user.to_owned(), length]);
        job.stdin = Some(gone + &there);
        job.work = Work::Git(Reading::Commit);
        job
    }
}

impl Job {
    /// Whether git is kept from what its caller may not read. A log shows no path, but that of a
    /// directory would tell which commits touch what is in it.
    pub(super) fn keeps_git_from_denied(&self) -> bool {
        match &self.work {
            Work::Git(Reading::Status | Reading::Diff) => true,
            Work::Git(Reading::Log) => self.about.is_some(),
            Work::Git(Reading::Commit)
            | Work::Command
            | Work::Files(_)
            | Work::Tests(_)
            | Work::Unavailable(_) => false,
        }
    }
}

/// Pathspecs that keep git from what is denied. It could not open it either, and gives up at the
/// first such file.
pub(super) fn excludes(denied: &Denials, root: &str) -> Vec<String> {
    let below = format!("{}/", root.trim_end_matches('/'));
    let inside = |text: &str| text.strip_prefix(&below).map(str::to_owned);
    let globs = denied.patterns.iter().filter_map(|text| inside(text));
    let globs = globs.flat_map(|glob| {
        let all = format!(":(top,exclude,glob){glob}/**");
        [format!(":(top,exclude,glob){glob}"), all]
    });
    let paths = denied.paths.iter().filter_map(|text| inside(text));
    let paths = paths.map(|path| format!(":(top,exclude,literal){path}"));
    globs.chain(paths).collect()
}

/// Whether `path` is what a commit brings: objects, its branch and the index.
pub(crate) fn is_of_commit(path: &str) -> bool {
    let Some(below) = path.strip_prefix(".git/") else {
        return false;
    };
    below == "index"
        || ["objects", "refs/heads"].iter().any(|place| {
            below == *place
                || below
                    .strip_prefix(place)
                    .is_some_and(|rest| rest.starts_with('/'))
        })
}

/// Makes git's directory and runs git with the words given: objects, references and index of the
/// repository; of its configuration only what says how objects and files are to be read.
pub(super) const SCRIPT: &str = r#"set -eu
if [ ! -d .git ] || [ ! -d .git/objects ]; then
    echo 'there is no repository here, or only a link to one' >&2
    exit 128
fi
own=$(mktemp -d /tmp/airlock-git.XXXXXX)
for name in HEAD index packed-refs shallow MERGE_HEAD CHERRY_PICK_HEAD REVERT_HEAD; do
    if [ -f ".git/$name" ] && [ ! -L ".git/$name" ]; then cp ".git/$name" "$own/$name"; fi
done
for shared in .git/sharedindex.*; do
    if [ -f "$shared" ] && [ ! -L "$shared" ]; then cp "$shared" "$own/"; fi
done
ln -sfn "$PWD/.git/refs" "$own/refs"
if [ -f .git/info/exclude ]; then mkdir -p "$own/info"; cp .git/info/exclude "$own/info/exclude"; fi
: >"$own/config"
export GIT_DIR="$own" GIT_WORK_TREE="$PWD" GIT_OBJECT_DIRECTORY="$PWD/.git/objects"
export GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null GIT_ATTR_NOSYSTEM=1
export GIT_OPTIONAL_LOCKS=0 GIT_TERMINAL_PROMPT=0 GIT_NO_LAZY_FETCH=1 GIT_NO_REPLACE_OBJECTS=1
export GIT_CONFIG_COUNT=0 GIT_PAGER=cat HOME="$own" XDG_CONFIG_HOME="$own"
carry() {
    value=$(git config --no-includes --file .git/config --get "$1" 2>/dev/null) || return 0
    case "$value" in
        true | false | 0 | 1 | sha1 | sha256 | input) git config --file "$own/config" "$1" "$value" ;;
        *) echo "the repository's \`$1\` is not known here" >&2; exit 128 ;;
    esac
}
for key in core.repositoryformatversion extensions.objectformat core.filemode core.symlinks \
    core.ignorecase core.autocrlf core.precomposeunicode; do
    carry "$key"
done
if git config --no-includes --file .git/config --get-regexp '^extensions\.' 2>/dev/null |
    grep -qv -e '^extensions\.objectformat ' -e '^extensions\.worktreeconfig '; then
    echo 'the repository uses an extension that is not known here' >&2
    exit 128
fi
if [ "$1" != airlock-commit ]; then
    exec git --no-pager -c core.fsmonitor=false -c core.hooksPath=/dev/null \
        -c core.untrackedCache=false -c submodule.recurse=false -c log.showSignature=false "$@"
fi
message=$2 trailer=$3 user=$4 length=$5
plain() {
    value=$(git config --no-includes --file .git/config --get "$1" 2>/dev/null) || value=$2
    case "$value" in '' | *[\<\>]*) value=$2 ;; esac
    printf %s "$value"
}
GIT_AUTHOR_NAME=$(plain user.name "$user") GIT_AUTHOR_EMAIL=$(plain user.email "$user@localhost")
export GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL
export GIT_COMMITTER_NAME="$GIT_AUTHOR_NAME" GIT_COMMITTER_EMAIL="$GIT_AUTHOR_EMAIL"
cat >"$own/paths"
if [ ! -s "$own/paths" ]; then exit 0; fi
head -c "$length" "$own/paths" >"$own/gone"
tail -c "+$((length + 1))" "$own/paths" >"$own/there"
# What is gone goes by its name alone: a link may be in the place of the directory it was in. What is
# there takes the place of a directory or of a file above it.
take() {
    git update-index --force-remove -z --stdin <"$own/gone"
    git update-index --add --remove --replace -z --stdin <"$own/there"
}
branch=$(git symbolic-ref -q HEAD) || { echo 'no branch is checked out' >&2; exit 1; }
case "$branch" in refs/heads/*) ;; *) echo 'no branch is checked out' >&2; exit 1 ;; esac
parent=$(git rev-parse -q --verify 'HEAD^{commit}') || parent=
if [ -n "$parent" ]; then
    GIT_INDEX_FILE="$own/commit-index" git read-tree "$parent"
else
    GIT_INDEX_FILE="$own/commit-index" git read-tree --empty
fi
(export GIT_INDEX_FILE="$own/commit-index"; take)
tree=$(GIT_INDEX_FILE="$own/commit-index" git write-tree)
if [ -n "$parent" ] && [ "$tree" = "$(git rev-parse "$parent^{tree}")" ]; then
    exit 0
fi
commit=$({ printf '%s\n' "$message"; if [ -n "$trailer" ]; then printf '\n%s\n' "$trailer"; fi; } |
    git commit-tree "$tree" ${parent:+-p "$parent"})
mkdir -p ".git/$(dirname "$branch")"
git update-ref "$branch" "$commit" "${parent:-$(printf %s "$commit" | tr 0-9a-f 0)}"
take
cp "$own/index" .git/index
printf '%s\0%s\0%s' "$commit" "$branch" "$parent"
"#;
