//! `search.grep`: the lines of files that match a regular expression.
//!
//! Guarantee: the same tree and policy give the same answer, in order of path and line. Policy is
//! asked before a file is searched, so neither results, counts nor limits depend on what a denied
//! file holds. What is searched under a path is what had that path when it was opened, after
//! policy was asked about it. A file is searched without its secrets: whatever is guessed about
//! one, the answer is the same.
//!
//! Non-guarantee: a match over several lines is not found.

mod collect;
mod matcher;
mod sink;
mod taken;
mod wide;

use super::arguments::{self, Arguments};
use super::contract::{
    InvalidArguments, Keep, Prepared, RunContext, Tool, ToolFailure, ToolOutput, ToolSpec,
};
use super::pattern::Pattern;
use super::schema::ToolSchema;
use super::target::Target;
use super::walk::{Totals, Visitor, Walk};
use crate::beneath::{Kind, OpenError, Root};
use airlock_core::{RequestPath, Tier, WorkspacePath};
use collect::{Bounds, Collected};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};
use matcher::Matchers;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use sink::{Cancellable, Finding, First, Lines, Shown, Whole};
use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::sync::atomic::Ordering;
use taken::{TakingOut, take_out};

/// The tool.
pub(super) struct Grep;

const DEFAULT_MATCHES: u64 = 200;
const MAX_MATCHES: u64 = 100_000;
const MAX_CONTEXT: u64 = 20;
/// A line may be no longer than this to be searched; a file of one endless line is skipped.
const LINE_BYTES: usize = 32 * 1024 * 1024;
/// A file shorter than this is read at once. As much is looked at to tell whether a file is binary.
const SMALL_FILE: usize = 64 * 1024;
/// Files of one directory a thread searches before others may help.
const BATCH: usize = 32;

static SPEC: ToolSpec = ToolSpec {
    name: "search.grep",
    summary: "Search the workspace's text files for lines that match a regular expression",
    syscall: "search.grep",
    tier: Tier::Kernel,
    read_only: true,
    keep: Keep::Head,
    schema: ToolSchema::of::<GrepArguments>(),
    examples: &[
        r#"{"pattern": "fn main"}"#,
        r#"{"pattern": "TODO", "path": "src", "glob": "*.rs", "fixed": true, "context": 2}"#,
    ],
};

/// Arguments of `search.grep`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option of its own, as callers know them"
)]
struct GrepArguments {
    /// The regular expression, in Rust's syntax; it matches within one line.
    pattern: String,
    /// The file or directory to search (default: the workspace root).
    #[serde(default)]
    path: Option<String>,
    /// Only files that match this glob; with `!` in front, only those that do not.
    #[serde(default)]
    glob: Option<String>,
    /// Upper and lower case are the same.
    #[serde(default)]
    ignore_case: bool,
    /// The pattern is plain text.
    #[serde(default)]
    fixed: bool,
    /// Only whole words.
    #[serde(default)]
    word: bool,
    /// Lines to show before and after each match (default 0).
    #[serde(default)]
    #[schemars(range(max = 20))]
    context: Option<u64>,
    /// Most matching lines to return (default 200); with `files_only`, most files.
    #[serde(default)]
    #[schemars(range(min = 1, max = 100_000))]
    max_matches: Option<u64>,
    /// Only the paths of files with a match.
    #[serde(default)]
    files_only: bool,
    /// Also hidden files and files ignored by git.
    #[serde(default)]
    all: bool,
}

impl Arguments for GrepArguments {
    const FIELDS: &'static [&'static str] = &[
        "pattern",
        "path",
        "glob",
        "ignore_case",
        "fixed",
        "word",
        "context",
        "max_matches",
        "files_only",
        "all",
    ];
}

impl Tool for Grep {
    fn spec(&self) -> &'static ToolSpec {
        &SPEC
    }

    fn prepare(&self, value: &Value, root: &Root) -> Result<Box<dyn Prepared>, InvalidArguments> {
        let arguments: GrepArguments = arguments::parse(value)?;
        let context = arguments::bounded("context", arguments.context, 0, 0..=MAX_CONTEXT)?;
        let limit = arguments::bounded(
            "max_matches",
            arguments.max_matches,
            DEFAULT_MATCHES,
            1..=MAX_MATCHES,
        )?;
        let glob = arguments
            .glob
            .as_deref()
            .map(|glob| Pattern::new("glob", glob))
            .transpose()?;
        Ok(Box::new(PreparedGrep {
            matchers: matcher::build(&arguments)?,
            glob,
            context: usize::try_from(context).unwrap_or(0),
            limit: usize::try_from(limit).unwrap_or(usize::MAX),
            files_only: arguments.files_only,
            all: arguments.all,
            target: Target::reach(arguments.path.as_deref().unwrap_or("."), root)?,
            root: root.clone(),
        }))
    }
}

struct PreparedGrep {
    matchers: Matchers,
    glob: Option<Pattern>,
    context: usize,
    limit: usize,
    files_only: bool,
    all: bool,
    target: Target,
    root: Root,
}

impl Prepared for PreparedGrep {
    fn paths(&self) -> &[RequestPath] {
        self.target.paths()
    }

    fn run(self: Box<Self>, context: &RunContext<'_>) -> Result<ToolOutput, ToolFailure> {
        let shown = self.target.shown();
        let opened = self.target.open()?;
        let search = Search {
            matchers: &self.matchers,
            glob: self.glob.as_ref(),
            lines_around: self.context,
            files_only: self.files_only,
            root: &self.root,
            context,
            collected: Collected::new(Bounds {
                matches: self.limit,
                bytes: context.max_output,
            }),
        };
        let failed = |source| ToolFailure::Open {
            path: shown.clone(),
            source,
        };
        let (locals, totals) = match opened.kind {
            Kind::Directory => Walk {
                root: &self.root,
                start: &opened.real,
                all: self.all,
                batch: BATCH,
                context,
            }
            .run(&search)?,
            Kind::File => {
                if context.filter.forbids_content(&opened.real) {
                    return Err(ToolFailure::Withheld { path: shown });
                }
                let mut local = search.local();
                let file = opened.read().map_err(failed)?;
                search.file(&mut local, opened.real.as_str(), &file);
                (vec![local], Totals::default())
            }
            Kind::Symlink | Kind::Other => return Err(failed(OpenError::NotAFile)),
        };
        if context.cancelled.load(Ordering::Relaxed) {
            return Err(ToolFailure::Cancelled);
        }
        let count = |of: fn(&Local) -> u64| locals.iter().map(of).sum::<u64>();
        let results = search.collected.finish();
        let mut value = json!({
            "matches": results.matches,
            "truncated": results.truncated,
            "binary_files": count(|local| local.binary),
            "unreadable_files": count(|local| local.unreadable),
            "unreadable_names": totals.unreadable_names,
            "unreadable_directories": totals.unreadable_directories,
        });
        if let Some(object) = value.as_object_mut() {
            // Moved in: the macro would copy it.
            object.insert("files".to_owned(), results.files.into());
            // Files past the last one shown may not have been looked at: what they are is not known.
            if results.truncated {
                object.remove("binary_files");
                object.remove("unreadable_files");
            }
        }
        // Counted by name, what is withheld would tell which names there are.
        let by_name = self.glob.is_some();
        let hidden = if by_name {
            0
        } else {
            count(|local| local.hidden)
        };
        Ok(ToolOutput { value, hidden })
    }
}

struct Search<'a> {
    matchers: &'a Matchers,
    glob: Option<&'a Pattern>,
    lines_around: usize,
    files_only: bool,
    root: &'a Root,
    context: &'a RunContext<'a>,
    collected: Collected,
}

struct Local {
    matchers: Matchers,
    searcher: Searcher,
    /// Holds a whole file, unless it is large.
    buffer: Vec<u8>,
    hidden: u64,
    binary: u64,
    unreadable: u64,
}

impl Visitor for Search<'_> {
    type Local = Local;

    fn local(&self) -> Local {
        let searcher = SearcherBuilder::new()
            .binary_detection(BinaryDetection::quit(0))
            .line_number(!self.files_only)
            .before_context(self.lines_around)
            .after_context(self.lines_around)
            .heap_limit(Some(LINE_BYTES))
            .build();
        Local {
            // Each thread's own: a shared one makes threads wait for its scratch space.
            matchers: self.matchers.clone(),
            searcher,
            buffer: vec![0; SMALL_FILE],
            hidden: 0,
            binary: 0,
            unreadable: 0,
        }
    }

    fn visit(&self, local: &mut Local, path: &str, relative: &str) {
        let wants = |glob: &Pattern| glob.wants(relative) && glob.may_tell(path, self.context);
        if !self.glob.is_none_or(wants) {
            return;
        }
        if !WorkspacePath::new(path).is_ok_and(|path| self.context.filter.may_read(&path)) {
            local.hidden += 1;
            return;
        }
        if !self.collected.wants(path) {
            return;
        }
        match self.root.open_file(path) {
            Ok(file) => self.file(local, path, &file),
            // Gone, or replaced by something else, since its directory was listed.
            Err(
                OpenError::NotFound
                | OpenError::Escapes
                | OpenError::NotADirectory
                | OpenError::NotAFile,
            ) => {}
            Err(
                OpenError::PermissionDenied
                | OpenError::UnreadableName
                | OpenError::TooOld
                | OpenError::Unsupported
                | OpenError::Io(_),
            ) => local.unreadable += 1,
        }
    }
}

impl Search<'_> {
    fn no_lines(&self) -> Lines {
        Lines::new(self.collected.bounds, self.files_only)
    }

    fn file(&self, local: &mut Local, path: &str, file: &File) {
        let mut lines = self.no_lines();
        if self.search(local, file, &mut lines).is_err() {
            local.unreadable += 1;
        } else if lines.binary {
            local.binary += 1;
        } else if lines.matches > 0 {
            self.collected.add(path, lines);
        }
    }

    /// Finds the lines of one file.
    fn search(&self, local: &mut Local, mut file: &File, lines: &mut Lines) -> io::Result<()> {
        let Local {
            matchers,
            searcher,
            buffer,
            ..
        } = local;
        let cancelled = self.context.cancelled;
        let mut reader = Cancellable { file, cancelled };
        let read = reader.fill(buffer)?;
        let begin = buffer.get(..read).unwrap_or_default();
        // Most files fit: searching them in memory saves reading the end in small pieces.
        if read < SMALL_FILE {
            return self.search_whole(matchers, searcher, begin, lines);
        }
        let mut first = First::default();
        let wide = matchers.wide.as_ref().unwrap_or(&matchers.exact);
        searcher.search_reader(wide, begin.chain(reader), &mut first)?;
        if !first.found {
            lines.binary = first.binary;
            return Ok(());
        }
        file.rewind()?;
        let reader = TakingOut::new(Cancellable { file, cancelled }, self.context.secrets);
        let shown = Shown::TakenOut;
        searcher.search_reader(&matchers.exact, reader, Finding { lines, shown })
    }

    /// The same for a file that is in memory.
    fn search_whole(
        &self,
        matchers: &Matchers,
        searcher: &mut Searcher,
        whole: &[u8],
        lines: &mut Lines,
    ) -> io::Result<()> {
        let exact = &matchers.exact;
        let found = if let Some(wide) = &matchers.wide {
            let mut first = First::default();
            searcher.search_slice(wide, whole, &mut first)?;
            lines.binary = first.binary;
            first.found
        } else {
            let shown = Shown::AsItIs;
            searcher.search_slice(exact, whole, Finding { lines, shown })?;
            lines.matches > 0
        };
        if !found {
            return Ok(());
        }
        let secrets = self.context.secrets;
        let found = secrets.find(whole);
        if found.is_empty() && matchers.wide.is_none() {
            return Ok(());
        }
        *lines = self.no_lines();
        if found.is_empty() {
            let shown = Shown::AsItIs;
            return searcher.search_slice(exact, whole, Finding { lines, shown });
        }
        let mut text = Vec::with_capacity(whole.len());
        take_out(whole, &found, 0..whole.len(), &mut text);
        let shown = Shown::Of(Whole::new(whole, &found, secrets));
        searcher.search_slice(exact, &text, Finding { lines, shown })
    }
}
