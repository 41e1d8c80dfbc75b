//! `search.glob`: the files whose path matches a glob.
//!
//! Guarantee: the same tree and policy give the same answer, in order of path.

use super::arguments::{self, Arguments};
use super::contract::{
    InvalidArguments, Keep, Prepared, RunContext, Tool, ToolFailure, ToolOutput, ToolSpec,
};
use super::pattern::Pattern;
use super::schema::ToolSchema;
use super::target::Target;
use super::walk::{Visitor, Walk};
use crate::beneath::Root;
use airlock_core::{RequestPath, Tier};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// The tool.
pub(super) struct Glob;

const DEFAULT_LIMIT: u64 = 1_000;
const MAX_LIMIT: u64 = 1_000_000;
/// Most paths one thread keeps before the walk is called incomplete.
const KEPT_PATHS: usize = 1_000_000;

static SPEC: ToolSpec = ToolSpec {
    name: "search.glob",
    summary: "List the workspace's files whose path matches a glob",
    syscall: "search.glob",
    tier: Tier::Kernel,
    read_only: true,
    keep: Keep::Head,
    schema: ToolSchema::of::<GlobArguments>(),
    examples: &[
        r#"{"pattern": "*.rs"}"#,
        r#"{"pattern": "tests/**/*.py", "path": "backend", "limit": 50}"#,
    ],
};

/// Arguments of `search.glob`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GlobArguments {
    /// The glob: `*.rs` matches at any depth, `src/*.rs` from `path` on; `!` in front excludes.
    pattern: String,
    /// The directory to search (default: the workspace root).
    #[serde(default)]
    path: Option<String>,
    /// Also hidden files and files ignored by git.
    #[serde(default)]
    all: Option<bool>,
    /// Most paths to return (default 1000).
    #[serde(default)]
    #[schemars(range(min = 1, max = 1_000_000))]
    limit: Option<u64>,
}

impl Arguments for GlobArguments {
    const FIELDS: &'static [&'static str] = &["pattern", "path", "all", "limit"];
}

impl Tool for Glob {
    fn spec(&self) -> &'static ToolSpec {
        &SPEC
    }

    fn prepare(&self, value: &Value, root: &Root) -> Result<Box<dyn Prepared>, InvalidArguments> {
        let arguments: GlobArguments = arguments::parse(value)?;
        Ok(Box::new(PreparedGlob {
            pattern: Pattern::new("pattern", &arguments.pattern)?,
            limit: arguments::bounded("limit", arguments.limit, DEFAULT_LIMIT, 1..=MAX_LIMIT)?,
            all: arguments.all.unwrap_or(false),
            target: Target::reach(arguments.path.as_deref().unwrap_or("."), root)?,
            root: root.clone(),
        }))
    }
}

struct PreparedGlob {
    pattern: Pattern,
    limit: u64,
    all: bool,
    target: Target,
    root: Root,
}

impl Prepared for PreparedGlob {
    fn paths(&self) -> &[RequestPath] {
        self.target.paths()
    }

    fn run(self: Box<Self>, context: &RunContext<'_>) -> Result<ToolOutput, ToolFailure> {
        let opened = self.target.open_directory()?;
        let walk = Walk {
            root: &self.root,
            start: &opened.real,
            all: self.all,
            batch: usize::MAX,
            context,
        };
        let (kept, totals) = walk.run(&Matching {
            pattern: &self.pattern,
        })?;
        let incomplete = kept.iter().any(|kept| kept.overflowed);
        let mut paths: Vec<Box<str>> = kept.into_iter().flat_map(|kept| kept.paths).collect();
        // Each thread's paths are sorted already: a stable sort merges such runs cheaply.
        paths.sort();
        let showing = Showing {
            pattern: &self.pattern,
            limit: self.limit,
            context,
        };
        let allowed = showing.first(paths);
        let mut value = json!({
            "truncated": allowed.truncated || incomplete,
            "unreadable_names": totals.unreadable_names,
            "unreadable_directories": totals.unreadable_directories,
        });
        if let Some(object) = value.as_object_mut() {
            // Moved in: the macro would copy every path.
            object.insert("paths".to_owned(), allowed.paths.into());
        }
        Ok(ToolOutput {
            value,
            // Counted by name, what is withheld would tell which names there are.
            hidden: 0,
        })
    }
}

/// Paths put to policy in one go by all threads.
const BATCH: usize = 16_384;
/// Fewer than this are not worth a second thread.
const SHARED: usize = 2_048;

struct Allowed {
    paths: Vec<Value>,
    truncated: bool,
}

/// What of the paths that match is shown.
struct Showing<'a> {
    pattern: &'a Pattern,
    limit: u64,
    context: &'a RunContext<'a>,
}

impl Showing<'_> {
    /// The first paths policy lets the caller see, in order, until the limit or the room is used up.
    fn first(&self, paths: Vec<Box<str>>) -> Allowed {
        let mut allowed = Allowed {
            paths: Vec::new(),
            truncated: false,
        };
        let mut size = 0u64;
        let mut paths = paths.into_iter();
        loop {
            // No more than could be returned are asked about, as long as policy allows most of them.
            let most = usize::try_from(self.limit)
                .unwrap_or(usize::MAX)
                .clamp(SHARED, BATCH);
            let batch: Vec<Box<str>> = paths.by_ref().take(most).collect();
            if batch.is_empty() {
                return allowed;
            }
            let answers = self.may_show(&batch);
            for (path, may_show) in batch.into_iter().zip(answers) {
                if !may_show {
                    continue;
                }
                size = size.saturating_add(path.len() as u64);
                if allowed.paths.len() as u64 >= self.limit || size > self.context.max_output {
                    allowed.truncated = true;
                    return allowed;
                }
                allowed.paths.push(Value::String(path.into()));
            }
        }
    }

    /// For each path, whether the caller may see it, and may know that it matches.
    fn may_show(&self, paths: &[Box<str>]) -> Vec<bool> {
        let context = self.context;
        let show = |part: &[Box<str>]| -> Vec<bool> {
            let readable = context.filter.may_read_each(part).into_iter();
            let shown = readable
                .zip(part)
                .map(|(may_read, path)| may_read && self.pattern.may_tell(path, context));
            shown.collect()
        };
        let threads = context.thread_count();
        if threads < 2 || paths.len() < SHARED {
            return show(paths);
        }
        let share = paths.len().div_ceil(threads);
        std::thread::scope(|scope| {
            let mut parts = paths.chunks(share);
            let own = parts.next().unwrap_or_default();
            let parts: Vec<_> = parts
                .map(|part| (part.len(), scope.spawn(move || show(part))))
                .collect();
            let mut answers = show(own);
            for (length, part) in parts {
                // A thread that died gave no answer, and no answer is a no.
                answers.extend(part.join().unwrap_or_else(|_| vec![false; length]));
            }
            answers
        })
    }
}

struct Matching<'a> {
    pattern: &'a Pattern,
}

#[derive(Default)]
struct Kept {
    paths: Vec<Box<str>>,
    overflowed: bool,
}

impl Visitor for Matching<'_> {
    type Local = Kept;

    fn local(&self) -> Kept {
        Kept::default()
    }

    fn visit(&self, local: &mut Kept, path: &str, relative: &str) {
        if !self.pattern.wants(relative) {
            return;
        }
        if local.paths.len() >= KEPT_PATHS {
            local.overflowed = true;
            return;
        }
        local.paths.push(path.into());
    }

    fn finish(&self, local: &mut Kept) {
        local.paths.sort_unstable();
    }
}
