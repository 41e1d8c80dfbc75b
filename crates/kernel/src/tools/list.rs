//! `fs.list`: what a directory holds, a few levels deep.
//!
//! Guarantee: entries come in order, a directory before what is in it; what policy denies is
//! counted, not shown, and not entered.

use super::arguments::{self, Arguments};
use super::contract::{
    InvalidArguments, Keep, Prepared, RunContext, Tool, ToolFailure, ToolOutput, ToolSpec,
};
use super::schema::ToolSchema;
use super::target::Target;
use super::walk::{self, Ignores, Joined};
use crate::beneath::{Directory, Kind, Listing, OpenError, Root};
use airlock_core::{RequestPath, Tier, WorkspacePath};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The tool.
pub(super) struct List;

/// Most entries one call returns.
const MAX_ENTRIES: usize = 20_000;
/// Deepest listing: each level holds one directory open.
const MAX_DEPTH: u64 = 32;

static SPEC: ToolSpec = ToolSpec {
    name: "fs.list",
    summary: "List a directory of the workspace with the kind and size of each entry",
    syscall: "fs.list",
    tier: Tier::Kernel,
    read_only: true,
    keep: Keep::Head,
    schema: ToolSchema::of::<ListArguments>(),
    examples: &["{}", r#"{"path": "src", "depth": 2}"#],
};

/// Arguments of `fs.list`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListArguments {
    /// The directory (default: the workspace root).
    #[serde(default)]
    path: Option<String>,
    /// How many levels to list (default 1).
    #[serde(default)]
    #[schemars(range(min = 1, max = 32))]
    depth: Option<u64>,
    /// Also hidden entries and those ignored by git.
    #[serde(default)]
    all: Option<bool>,
}

impl Arguments for ListArguments {
    const FIELDS: &'static [&'static str] = &["path", "depth", "all"];
}

impl Tool for List {
    fn spec(&self) -> &'static ToolSpec {
        &SPEC
    }

    fn prepare(&self, value: &Value, root: &Root) -> Result<Box<dyn Prepared>, InvalidArguments> {
        let arguments: ListArguments = arguments::parse(value)?;
        Ok(Box::new(PreparedList {
            depth: arguments::bounded("depth", arguments.depth, 1, 1..=MAX_DEPTH)?,
            all: arguments.all.unwrap_or(false),
            target: Target::reach(arguments.path.as_deref().unwrap_or("."), root)?,
            root: root.clone(),
        }))
    }
}

struct PreparedList {
    depth: u64,
    all: bool,
    target: Target,
    root: Root,
}

impl Prepared for PreparedList {
    fn paths(&self) -> &[RequestPath] {
        self.target.paths()
    }

    fn run(self: Box<Self>, context: &RunContext<'_>) -> Result<ToolOutput, ToolFailure> {
        let shown = self.target.shown();
        let opened = self.target.open_directory()?;
        let mut tree = Tree {
            root: &self.root,
            all: self.all,
            depth: self.depth,
            context,
            entries: Vec::new(),
            size: 0,
            hidden: 0,
            unreadable_directories: 0,
            truncated: false,
        };
        tree.list(&opened.real)
            .map_err(|source| ToolFailure::Open {
                path: shown.clone(),
                source,
            })?;
        if context.cancelled.load(Ordering::Relaxed) {
            return Err(ToolFailure::Cancelled);
        }
        Ok(ToolOutput {
            value: json!({
                "path": shown,
                "entries": tree.entries,
                "truncated": tree.truncated,
                "unreadable_directories": tree.unreadable_directories,
            }),
            hidden: tree.hidden,
        })
    }
}

struct Tree<'a> {
    root: &'a Root,
    all: bool,
    depth: u64,
    context: &'a RunContext<'a>,
    entries: Vec<Value>,
    size: u64,
    hidden: u64,
    unreadable_directories: u64,
    truncated: bool,
}

/// A directory being listed: what is left of it, last first.
struct Level {
    directory: Directory,
    path: String,
    ignores: Option<Arc<Ignores>>,
    left: Vec<(Vec<u8>, Kind)>,
}

impl Tree<'_> {
    fn list(&mut self, start: &WorkspacePath) -> Result<(), OpenError> {
        let above = if self.all {
            None
        } else {
            Ignores::above(self.root, start)
        };
        let mut levels = vec![self.enter(start.as_str(), above)?];
        while let Some(level) = levels.last_mut() {
            if self.truncated || self.context.cancelled.load(Ordering::Relaxed) {
                break;
            }
            let Some((name, kind)) = level.left.pop() else {
                levels.pop();
                continue;
            };
            let Some(path) = self.show(level, &name, kind) else {
                continue;
            };
            let ignores = level.ignores.clone();
            if kind == Kind::Directory && (levels.len() as u64) < self.depth {
                match self.enter(&path, ignores) {
                    Ok(level) => levels.push(level),
                    Err(error) if error.is_gone() => {}
                    Err(_) => self.unreadable_directories += 1,
                }
            }
        }
        Ok(())
    }

    fn enter(&self, path: &str, above: Option<Arc<Ignores>>) -> Result<Level, OpenError> {
        let directory = self.root.open_directory(path)?;
        let mut listing = Listing::default();
        directory.list(&mut listing)?;
        let ignores = if self.all {
            None
        } else {
            Ignores::within(above, self.root, path, &listing)
        };
        let mut left: Vec<(Vec<u8>, Kind)> = listing
            .iter()
            .filter(|(name, _)| *name != b".git")
            .map(|(name, kind)| (name.to_vec(), kind))
            .collect();
        left.sort_unstable_by(|(a, _), (b, _)| b.cmp(a));
        Ok(Level {
            directory,
            path: path.to_owned(),
            ignores,
            left,
        })
    }

    /// Adds the entry, unless it is ignored or withheld; its path, if it is shown and usable.
    fn show(&mut self, level: &Level, name: &[u8], kind: Kind) -> Option<String> {
        let readable = Joined::new(&level.path).with(name).map(str::to_owned);
        let path = readable.clone().or_else(|| {
            Joined::new(&level.path)
                .with(escaped(name).as_bytes())
                .map(str::to_owned)
        });
        let Some(path) = path else {
            // Too long for any rule to judge.
            self.hidden += 1;
            return None;
        };
        let is_directory = kind == Kind::Directory;
        if !self.all && walk::skips(level.ignores.as_ref(), &path, name, is_directory) {
            return None;
        }
        if !WorkspacePath::new(&path).is_ok_and(|path| self.context.filter.may_read(&path)) {
            self.hidden += 1;
            return None;
        }
        self.size = self.size.saturating_add(path.len() as u64);
        if self.entries.len() >= MAX_ENTRIES || self.size > self.context.max_output {
            self.truncated = true;
            return None;
        }
        let mut entry = json!({ "path": path, "kind": kind.word() });
        if let Some(object) = entry.as_object_mut() {
            if kind == Kind::File
                && let Some(size) = level.directory.size(name)
            {
                object.insert("size".to_owned(), json!(size));
            }
            if readable.is_none() {
                object.insert("unreadable_name".to_owned(), json!(true));
            }
        }
        self.entries.push(entry);
        readable
    }
}

/// The name with every byte that is not UTF-8 written as `\xNN`.
fn escaped(name: &[u8]) -> String {
    let mut text = String::with_capacity(name.len() + 8);
    for chunk in name.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            // Writing to a string cannot fail.
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}
