//! The tools: arguments, and the words git is given.

use super::{Reading, SCRIPT};
use crate::beneath::Root;
use crate::process::exec_run::{Bounds, invalid};
use crate::process::failure::CheckId;
use crate::process::job::{Job, Listing, Unavailable, Work};
use crate::tools::{
    Arguments, InvalidArguments, Keep, Prepared, RunContext, Tool, ToolFailure, ToolOutput,
    ToolSchema, ToolSpec, parse_arguments,
};
use airlock_core::{Request, RequestPath, Tier, WorkspacePath};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

/// Processes git may have.
const CHILDREN: u32 = 20;
const LOG_LIMIT: u64 = 20;
const LOG_MOST: u64 = 1_000;
/// Longest message of a commit, in bytes.
const MESSAGE: usize = 16 * 1024;

const fn spec(
    name: &'static str,
    summary: &'static str,
    schema: ToolSchema,
    examples: &'static [&'static str],
) -> ToolSpec {
    ToolSpec {
        name,
        summary,
        syscall: name,
        tier: Tier::Process,
        read_only: true,
        keep: Keep::Head,
        schema,
        examples,
    }
}

static STATUS: ToolSpec = spec(
    "git.status",
    "Show what differs between the last commit, git's index and the stage",
    ToolSchema::of::<StatusArguments>(),
    &["{}"],
);
static DIFF: ToolSpec = spec(
    "git.diff",
    "Show changes of the stage against git's index or a commit, as a patch",
    ToolSchema::of::<DiffArguments>(),
    &["{}", r#"{"from": "HEAD~1", "path": "src"}"#],
);
static LOG: ToolSpec = spec(
    "git.log",
    "Show commits, newest first",
    ToolSchema::of::<LogArguments>(),
    &["{}", r#"{"limit": 5, "path": "README.md"}"#],
);
static COMMIT: ToolSpec = spec(
    "git.commit",
    "Commit the stage; only while a session is committing",
    ToolSchema::of::<CommitArguments>(),
    &[r#"{"message": "Parse the empty file"}"#],
)
.changing();

/// Arguments of `git.status`: none.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct StatusArguments {}

impl Arguments for StatusArguments {
    const FIELDS: &'static [&'static str] = &[];
}

/// Arguments of `git.diff`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct DiffArguments {
    /// Compare with this commit instead of the index.
    #[serde(default)]
    from: Option<String>,
    /// Compare `from` with this commit instead of the stage.
    #[serde(default)]
    to: Option<String>,
    /// Compare the index with the last commit, or with `from`.
    #[serde(default)]
    staged: bool,
    /// Only this file or directory.
    #[serde(default)]
    path: Option<String>,
}

impl Arguments for DiffArguments {
    const FIELDS: &'static [&'static str] = &["from", "to", "staged", "path"];
}

/// Arguments of `git.log`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct LogArguments {
    /// Most commits (default 20).
    #[serde(default)]
    #[schemars(range(min = 1, max = 1_000))]
    limit: Option<u64>,
    /// Where to begin (default: the last commit).
    #[serde(default)]
    from: Option<String>,
    /// Only commits that touch this file or directory.
    #[serde(default)]
    path: Option<String>,
}

impl Arguments for LogArguments {
    const FIELDS: &'static [&'static str] = &["limit", "from", "path"];
}

/// Arguments of `git.commit`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CommitArguments {
    /// The commit's message.
    message: String,
}

impl Arguments for CommitArguments {
    const FIELDS: &'static [&'static str] = &["message"];
}

/// `git.status`.
pub(crate) struct Status;
/// `git.diff`.
pub(crate) struct GitDiff;
/// `git.log`.
pub(crate) struct Log;
/// `git.commit`.
pub(crate) struct Commit;

impl Tool for Status {
    fn spec(&self) -> &'static ToolSpec {
        &STATUS
    }

    fn prepare(&self, value: &Value, _: &Root) -> Result<Box<dyn Prepared>, InvalidArguments> {
        let StatusArguments {} = parse_arguments(value)?;
        let words = [
            "status",
            "--porcelain=v1",
            "-z",
            "--branch",
            "--no-renames",
            "--ignore-submodules=all",
            "--",
        ];
        ready(Reading::Status, words.map(str::to_owned).to_vec(), None)
    }
}

impl Tool for GitDiff {
    fn spec(&self) -> &'static ToolSpec {
        &DIFF
    }

    fn prepare(&self, value: &Value, root: &Root) -> Result<Box<dyn Prepared>, InvalidArguments> {
        let asked: DiffArguments = parse_arguments(value)?;
        let words = [
            "diff",
            "--raw",
            "-z",
            "--patch",
            "--no-renames",
            "--no-ext-diff",
            "--no-textconv",
            "--no-color",
            "--ignore-submodules=all",
        ];
        let mut words = words.map(str::to_owned).to_vec();
        if asked.staged {
            words.push("--cached".to_owned());
        } else if asked.from.is_none() {
            // A conflict is compared with this side of it, not with all sides in one.
            words.push("-2".to_owned());
        }
        if asked.to.is_some() && (asked.from.is_none() || asked.staged) {
            let fix = "give `from` as well, and no `staged`";
            return Err(invalid(CheckId::Arguments, "to", "it stands alone", fix));
        }
        words.extend(revision("from", asked.from)?);
        words.extend(revision("to", asked.to)?);
        let path = inside(asked.path.as_deref(), root)?;
        words.extend(pathspec(path.as_ref()));
        ready(Reading::Diff, words, path)
    }
}

impl Tool for Log {
    fn spec(&self) -> &'static ToolSpec {
        &LOG
    }

    fn prepare(&self, value: &Value, root: &Root) -> Result<Box<dyn Prepared>, InvalidArguments> {
        let asked: LogArguments = parse_arguments(value)?;
        let limit = asked.limit.unwrap_or(LOG_LIMIT);
        if !(1..=LOG_MOST).contains(&limit) {
            let fix = format!("give 1 to {LOG_MOST}");
            return Err(invalid(CheckId::Sizes, "limit", "it is out of range", &fix));
        }
        let words = [
            "log",
            "-z",
            "--no-color",
            "--no-show-signature",
            "--no-notes",
            "--format=%H%x1f%an%x1f%aI%x1f%s",
        ];
        let mut words = words.map(str::to_owned).to_vec();
        words.push(format!("--max-count={limit}"));
        words.extend(revision("from", asked.from)?);
        let path = inside(asked.path.as_deref(), root)?;
        words.extend(pathspec(path.as_ref()));
        ready(Reading::Log, words, path)
    }
}

impl Tool for Commit {
    fn spec(&self) -> &'static ToolSpec {
        &COMMIT
    }

    fn prepare(&self, value: &Value, _: &Root) -> Result<Box<dyn Prepared>, InvalidArguments> {
        let CommitArguments { message } = parse_arguments(value)?;
        if message.trim().is_empty() {
            let fix = "say what the commit does";
            return Err(invalid(CheckId::Arguments, "message", "it is empty", fix));
        }
        if message.contains('\0') || message.len() > MESSAGE {
            let fix = "say what the commit does, and why";
            return Err(invalid(CheckId::Sizes, "message", "it is too long", fix));
        }
        let words = ["sh", "-c", SCRIPT, "git", "airlock-commit"];
        let mut command = words.map(str::to_owned).to_vec();
        command.push(message);
        let bounds = Bounds {
            child_processes: Some(CHILDREN),
            ..Bounds::default()
        };
        let mut job = Job::of(command)?;
        job.limits = bounds.limits()?;
        job.listing = Listing::Own;
        // Outside the discipline it stays so; the road makes a job of it for whoever may commit.
        job.work = Work::Unavailable(Unavailable {
            state: "no session",
            reason: "a commit is made only by a session that is committing",
            available: "git.status, git.diff and git.log, and `airlock diff` for the stage",
        });
        Ok(Box::new(Ready {
            job,
            shown: vec!["git".to_owned(), "commit".to_owned()],
        }))
    }
}

/// A commit by any name git knows; never an option, a path or a range.
fn revision(at: &str, text: Option<String>) -> Result<Option<String>, InvalidArguments> {
    let Some(text) = text else {
        return Ok(None);
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || "._/~^@{}-".contains(c);
    let wrong = text.is_empty()
        || text.len() > 200
        || text.starts_with('-')
        || text.contains("..")
        || !text.chars().all(plain);
    if wrong {
        let fix = "name one commit, such as HEAD~1, a branch or a digest";
        return Err(invalid(CheckId::Arguments, at, "it names no commit", fix));
    }
    // Whatever it is, git shall take it for a commit and nothing else.
    Ok(Some(format!("{text}^{{commit}}")))
}

/// A path beneath the workspace, if one is given (IV-03).
fn inside(text: Option<&str>, root: &Root) -> Result<Option<WorkspacePath>, InvalidArguments> {
    let Some(text) = text else {
        return Ok(None);
    };
    let parsed = RequestPath::parse(text, root.path()).ok();
    let inside = parsed.as_ref().and_then(RequestPath::inside);
    inside.cloned().map(Some).ok_or_else(|| {
        let (what, fix) = (
            "it is not beneath the workspace",
            "name a file or directory of it",
        );
        invalid(CheckId::Paths, "path", what, fix)
    })
}

/// `--`, and the path as git is to read it: by letter.
fn pathspec(path: Option<&WorkspacePath>) -> Vec<String> {
    let path = path.map(|path| format!(":(top,literal){path}"));
    ["--".to_owned()].into_iter().chain(path).collect()
}

/// git with `words`, which tell of `path` alone if there is one.
fn ready(
    reading: Reading,
    words: Vec<String>,
    path: Option<WorkspacePath>,
) -> Result<Box<dyn Prepared>, InvalidArguments> {
    let bounds = Bounds {
        child_processes: Some(CHILDREN),
        ..Bounds::default()
    };
    let mut shown = vec!["git".to_owned()];
    shown.extend(words.iter().cloned());
    let mut command = ["sh", "-c", SCRIPT, "git"].map(str::to_owned).to_vec();
    command.extend(words);
    Ok(Box::new(Ready {
        job: Job {
            limits: bounds.limits()?,
            listing: Listing::Own,
            work: Work::Git(reading),
            // Of the root git tells what it tells without a path.
            about: path.filter(|path| !path.is_root()),
            ..Job::of(command)?
        },
        shown,
    }))
}

/// A call of git whose arguments are valid.
struct Ready {
    job: Job,
    /// The command as rules and the log know it.
    shown: Vec<String>,
}

impl Prepared for Ready {
    fn paths(&self) -> &[RequestPath] {
        &[]
    }

    fn describe(&self, request: &mut Request) {
        request.command = self.shown.iter().map(|word| word.as_str().into()).collect();
        request.template = Some(self.job.template.name.into());
    }

    fn job(&self) -> Option<&Job> {
        Some(&self.job)
    }

    fn run(self: Box<Self>, _: &RunContext<'_>) -> Result<ToolOutput, ToolFailure> {
        Err(ToolFailure::TierUnavailable {
            tier: Tier::Process,
        })
    }
}
