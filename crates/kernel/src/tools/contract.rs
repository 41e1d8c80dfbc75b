//! What a built-in tool is: a description, a check of its arguments, and one run.
//!
//! Guarantee: [`Tool::prepare`] has no effect beyond opening what will be read, and
//! [`Prepared::run`] reads from those very descriptors, so what was decided on is what is read.
//! Non-guarantee: a tool decides nothing. Whoever calls `run` has put every path of
//! [`Prepared::paths`] to the decision first.

use super::schema::ToolSchema;
use crate::adapters::Speaker;
use crate::agents::Invocation;
use crate::beneath::{OpenError, Root};
use crate::fronts::Front;
use crate::policy_store::UpdateError;
use crate::process::{Job, ProcessFailure};
use crate::road::NoTurn;
use airlock_core::{ActionId, ByteSize, Request, RequestPath, Span, Tier, WorkspacePath};
use std::borrow::Cow;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

pub use airlock_sanitise::{Keep, Sanitiser};

/// What follows a failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Nothing: it is told as it is.
    Stop,
    /// The same call, after a while.
    Again(Duration),
    /// The same call to another tool.
    Instead(String),
}

/// What is known of a tool before it is called.
#[derive(Debug)]
pub struct ToolSpec {
    /// The tool's name, `area.verb`.
    pub name: &'static str,
    /// One line for people and models.
    pub summary: &'static str,
    /// The syscall a call of this tool is.
    pub syscall: &'static str,
    /// Where it runs.
    pub tier: Tier,
    /// Whether it changes nothing.
    pub read_only: bool,
    /// What is kept when its output is too long.
    pub keep: Keep,
    /// JSON Schema of the arguments.
    pub schema: ToolSchema,
    /// Argument objects, as JSON text, that are valid.
    pub examples: &'static [&'static str],
}

impl ToolSpec {
    /// The same of a tool that changes nothing.
    #[must_use]
    pub(crate) const fn reading(mut self) -> Self {
        self.read_only = true;
        self
    }

    /// The same of a tool that changes something.
    #[must_use]
    pub(crate) const fn changing(mut self) -> Self {
        self.read_only = false;
        self
    }

    /// The same with arguments that are valid.
    #[must_use]
    pub(crate) const fn with_examples(mut self, examples: &'static [&'static str]) -> Self {
        self.examples = examples;
        self
    }
}

/// A built-in tool.
pub trait Tool: Send + Sync {
    /// Its description.
    fn spec(&self) -> &'static ToolSpec;

    /// Whether `front` may know of it at all. To others it does not exist.
    fn open_to(&self, front: Front) -> bool {
        let _ = front;
        true
    }

    /// Whether only a person may use it, at a terminal: see [`crate::Person`].
    fn needs_person(&self) -> bool {
        false
    }

    /// Whether it is said to change nothing, by somebody whose word a person took: a hint for clients.
    /// What is retried or done again goes by [`ToolSpec::read_only`] alone. A plugin's word on itself
    /// is not passed on: nobody read its code.
    fn says_read_only(&self) -> bool {
        self.spec().read_only
    }

    /// JSON Schema of the arguments.
    fn schema(&self) -> Cow<'_, serde_json::Value> {
        Cow::Borrowed(self.spec().schema.get())
    }

    /// What to do after it failed with `code` the `attempt`th time. The next attempt is a call of
    /// its own, decided and recorded like any other.
    fn after(&self, code: &str, attempt: u32) -> Next {
        let _ = (code, attempt);
        Next::Stop
    }

    /// Validates arguments and opens what will be used. Nothing is read or changed yet.
    ///
    /// A path that is absent, refused or outside still prepares: the decision is taken on the
    /// asked path, so a caller who may not read there learns nothing from the difference.
    fn prepare(
        &self,
        arguments: &serde_json::Value,
        root: &Root,
    ) -> Result<Box<dyn Prepared>, InvalidArguments>;
}

/// A call whose arguments are valid and whose files are open.
pub trait Prepared: Send {
    /// Every path the decision must look at: as asked, and as really reached.
    fn paths(&self) -> &[RequestPath];

    /// Adds to the request what the decision must see besides paths.
    fn describe(&self, request: &mut Request) {
        let _ = request;
    }

    /// What it asks of the process tier, if it runs there. The road then runs that instead of
    /// [`Prepared::run`].
    fn job(&self) -> Option<&Job> {
        None
    }

    /// The task it hands to an agent, if that is what it does. The road then runs that instead of
    /// [`Prepared::run`].
    fn invocation(&self) -> Option<&Invocation> {
        None
    }

    /// Fails if it cannot be used as things are. Asked once it is allowed: whoever may not use it
    /// learns nothing else.
    fn ready(&self) -> Result<(), ToolFailure> {
        Ok(())
    }

    /// The stage it changes or takes away as a whole, if that is what it does: nobody else may be at
    /// work there meanwhile.
    fn has_to_itself(&self) -> Option<&str> {
        None
    }

    /// Whether it runs in a box of its own that lasts, as plugins do, instead of as a job.
    fn is_hosted(&self) -> bool {
        false
    }

    /// The most memory it takes, and so the least that a limit can promise: built-in tools keep within
    /// fixed buffers below this.
    fn memory(&self) -> ByteSize {
        ByteSize::from_bytes(64 << 20)
    }

    /// Told, once the attempt is recorded and before it is run, which action this is and how long it
    /// may take.
    fn begun(&self, action: &ActionId, limit: Option<Span>) {
        let _ = (action, limit);
    }

    /// Talks with the program the job runs, instead of keeping what it writes.
    fn speaker(&self) -> Option<Speaker> {
        None
    }

    /// Makes the result of the job into that of the tool.
    fn shape(&self, value: serde_json::Value) -> Result<serde_json::Value, ToolFailure> {
        Ok(value)
    }

    /// Does it.
    fn run(self: Box<Self>, context: &RunContext<'_>) -> Result<ToolOutput, ToolFailure>;
}

/// Policy's answer for files a search or listing comes across.
pub trait ReadFilter: Sync {
    /// Whether policy lets this caller read `path`.
    fn may_read(&self, path: &WorkspacePath) -> bool;

    /// The same for each of `paths`, which are relative to the workspace root.
    fn may_read_each(&self, paths: &[Box<str>]) -> Vec<bool> {
        let ask = |path: &str| WorkspacePath::new(path).is_ok_and(|path| self.may_read(&path));
        paths.iter().map(|path| ask(path)).collect()
    }

    /// Whether policy denies this caller the content of `path`, however it asks for it.
    fn forbids_content(&self, path: &WorkspacePath) -> bool {
        let _ = path;
        false
    }
}

/// What a run may use.
pub struct RunContext<'a> {
    /// Asked for each file before anything about it is returned.
    pub filter: &'a dyn ReadFilter,
    /// Bytes of text the result may hold.
    pub max_output: u64,
    /// Set when the caller no longer wants the answer.
    pub cancelled: &'a AtomicBool,
    /// Threads a search may use; zero means as many as there are processors.
    pub threads: usize,
    /// Knows what will be taken out of the result. A tool that shows parts of something, or tells
    /// what something holds, asks it first: afterwards a part is no longer known for what it is.
    pub secrets: &'a Sanitiser,
}

impl RunContext<'_> {
    /// How many threads that is.
    pub(crate) fn thread_count(&self) -> usize {
        match self.threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            threads => threads,
        }
    }
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolOutput {
    /// The value returned to the caller, before sanitising.
    pub value: serde_json::Value,
    /// Files and directories withheld because policy denies reading them.
    pub hidden: u64,
}

/// Arguments that do not fit the tool's schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{what}", location(.at))]
pub struct InvalidArguments {
    /// Dotted path to the argument at fault; empty for the object itself.
    pub at: String,
    /// What is wrong with it.
    pub what: String,
    /// How to put it right, where that is known.
    pub fix: Option<String>,
}

impl InvalidArguments {
    /// How to put it right, where that is known.
    pub fn hint(&self) -> Option<&str> {
        self.fix.as_deref()
    }
}

fn location(at: &str) -> String {
    if at.is_empty() {
        String::new()
    } else {
        format!("`{at}`: ")
    }
}

/// Why a run gave no result.
#[derive(Debug, thiserror::Error)]
pub enum ToolFailure {
    /// The file or directory could not be opened.
    #[error("cannot read `{path}`: {source}")]
    Open {
        /// The path as asked.
        path: String,
        /// Why not.
        #[source]
        source: OpenError,
    },
    /// The path lies outside the workspace.
    #[error("`{path}` is outside the workspace")]
    Outside {
        /// The path as asked.
        path: String,
    },
    /// Reading failed after opening.
    #[error("cannot read `{path}`: {source}")]
    Io {
        /// The path being read.
        path: String,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The caller took the request back.
    #[error("the call was cancelled")]
    Cancelled,
    /// Too many calls wait for their turn.
    #[error("others use what it touches, and too many calls wait for their turn already")]
    Crowded,
    /// It took longer than policy lets it.
    #[error("it took longer than the {limit} that policy allows")]
    TimedOut {
        /// How long it might take.
        limit: Span,
    },
    /// A limit that policy imposes cannot be kept here.
    #[error("policy limits it to {limit} of memory, and no less than {least} can be promised here")]
    MemoryLimit {
        /// How much it might use.
        limit: ByteSize,
        /// The least that can be promised.
        least: ByteSize,
    },
    /// Policy denies the content of a file by another name of the same reading.
    #[error("policy does not let this caller read `{path}`")]
    Withheld {
        /// The path as asked.
        path: String,
    },
    /// The path leads elsewhere than when it was decided on.
    #[error("`{path}` was changed while the call waited")]
    Moved {
        /// The path as asked.
        path: String,
    },
    /// Nothing here can run code in that tier.
    #[error("nothing here runs code in the `{tier}` tier")]
    TierUnavailable {
        /// The tier asked for.
        tier: Tier,
    },
    /// A program was not run.
    #[error(transparent)]
    Process(#[from] ProcessFailure),
    /// The tool cannot be used as things are.
    #[error("`{tool}` cannot be used: {why}")]
    Unavailable {
        /// The tool.
        tool: String,
        /// Why.
        why: String,
        /// How to change that.
        fix: &'static str,
    },
    /// What an adapter leads to failed.
    #[error("{what}")]
    Adapter {
        /// The definition's word for it.
        code: &'static str,
        /// What failed.
        what: String,
    },
    /// A merge or an undo did not begin.
    #[error("{what}")]
    Merge {
        /// What failed and why.
        what: String,
        /// How to put it right.
        fix: Option<String>,
        /// Whether another merge is under way.
        busy: bool,
    },
    /// A syscall that steers Airlock itself could not be carried out.
    #[error("{what}")]
    Control {
        /// What failed and why.
        what: String,
        /// How to put it right.
        fix: &'static str,
    },
    /// Sessions, approvals or what they hold could not be looked at or changed.
    #[error("{what}")]
    Stored {
        /// A stable word for the kind of failure.
        code: &'static str,
        /// What failed and why.
        what: String,
        /// How to put it right.
        fix: Option<String>,
        /// Whether the same may succeed later.
        retryable: bool,
    },
    /// An agent was not invoked, or gave no answer.
    #[error("{what}")]
    Agent {
        /// A stable word for the kind of failure.
        code: &'static str,
        /// What failed and why.
        what: String,
        /// How to put it right.
        fix: Option<String>,
        /// Whether the same may succeed later.
        retryable: bool,
    },
    /// The result may hold instructions, and policy does not let such results through.
    #[error("the result is withheld: it holds what may be instructions ({rules})")]
    Flagged {
        /// The rules that flagged it.
        rules: String,
        /// How to put it right.
        fix: String,
    },
}

impl From<NoTurn> for ToolFailure {
    fn from(why: NoTurn) -> Self {
        match why {
            NoTurn::TakenBack => Self::Cancelled,
            NoTurn::Crowded => Self::Crowded,
        }
    }
}

impl ToolFailure {
    /// A control syscall that failed.
    pub(crate) fn control(error: &UpdateError) -> Self {
        let mut what = error.to_string();
        let mut source = std::error::Error::source(error);
        while let Some(cause) = source {
            what = format!("{what}: {cause}");
            source = cause.source();
        }
        Self::Control {
            what,
            fix: error.hint(),
        }
    }

    /// A stable word for the kind of failure.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Open { source, .. } => source.code(),
            Self::Outside { .. } => "outside_workspace",
            Self::Io { .. } => "io",
            Self::Cancelled => "cancelled",
            Self::Crowded => "busy",
            Self::TimedOut { .. } => "timed_out",
            Self::MemoryLimit { .. } => "limit_not_enforceable",
            Self::Withheld { .. } => "withheld",
            Self::Moved { .. } => "moved",
            Self::TierUnavailable { .. } => "tier_unavailable",
            Self::Process(failure) => failure.code(),
            Self::Unavailable { .. } => "tool_unavailable",
            Self::Merge { .. } => "merge_failed",
            Self::Control { .. } => "control_failed",
            Self::Adapter { code, .. } | Self::Stored { code, .. } | Self::Agent { code, .. } => {
                code
            }
            Self::Flagged { .. } => "flagged_output",
        }
    }

    /// Whether the same call may succeed a moment later.
    pub fn retryable(&self) -> bool {
        match self {
            Self::Open { source, .. } => source.retryable(),
            Self::Io { .. } | Self::Moved { .. } | Self::Crowded => true,
            Self::Process(failure) => failure.retryable(),
            Self::Stored { retryable, .. } | Self::Agent { retryable, .. } => *retryable,
            Self::Merge { busy, .. } => *busy,
            Self::Outside { .. }
            | Self::Cancelled
            | Self::TimedOut { .. }
            | Self::MemoryLimit { .. }
            | Self::Withheld { .. }
            | Self::TierUnavailable { .. }
            | Self::Unavailable { .. }
            | Self::Adapter { .. }
            | Self::Control { .. }
            | Self::Flagged { .. } => false,
        }
    }

    /// How to put it right, where that is known.
    pub fn hint(&self) -> Option<String> {
        let fix = match self {
            Self::Process(failure) => return failure.hint(),
            Self::Stored { fix, .. } | Self::Merge { fix, .. } | Self::Agent { fix, .. } => {
                return fix.clone();
            }
            Self::Flagged { fix, .. } => return Some(fix.clone()),
            Self::Open { source, .. } => source.hint(),
            Self::Outside { .. } => Some("name a path beneath the workspace root"),
            Self::TimedOut { .. } => Some("ask for less, or raise `max_duration` in the policy"),
            Self::MemoryLimit { .. } => Some(
                "allow at least that in `max_memory`; a plugin has less by its manifest's `memory_limit`",
            ),
            Self::Withheld { .. } => Some("`airlock policy explain fs.read --path PATH` says why"),
            Self::TierUnavailable { .. } => Some("only the kernel and process tiers run yet"),
            Self::Control { fix, .. } | Self::Unavailable { fix, .. } => Some(*fix),
            Self::Moved { .. } => Some("ask again"),
            Self::Crowded => Some("ask again when some of the calls before it have ended"),
            Self::Io { .. } | Self::Cancelled | Self::Adapter { .. } => None,
        };
        fix.map(str::to_owned)
    }
}
