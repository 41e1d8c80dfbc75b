//! Adapters: how a tool runs, as a versioned file.
//!
//! A file has up to four documents, one for each level, so that a listing of a thousand adapters
//! parses a thousand small headers and nothing else:
//!
//! | level | adds |
//! | --- | --- |
//! | L0 | id, name, tool, type |
//! | L1 | summary, version, status |
//! | L2 | interface, how it runs, output, errors, sandbox, retry, fallback |
//! | L3 | examples and fixtures |

mod api;
mod arguments;
mod body;
mod cli;
mod how;
mod output;
mod resolve;
mod samples;

pub use api::{Api, Call};
pub use arguments::{ArgumentError, Interface};
pub use body::{Adapter, ErrorCase, Retry, Sandbox};
pub use cli::{Cli, Invocation};
pub use how::{How, Mcp};
pub use output::{Output, OutputError};
pub use resolve::{Resolved, Unresolved, resolve};
pub use samples::{CheckFailure, Example, FIXTURES_AT_ONCE, Fixture, Samples, check_samples};

use airlock_yaml::{
    DefinitionError, Mapping, Names, Node, Problems, Spot, code, documents, read, text,
};
use serde::Serialize;
use std::sync::Arc;

/// The version of the format this code reads.
const FORMAT: i64 = 1;

/// How much of an adapter is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Id, name, tool, type.
    L0,
    /// And what it is for, its version and status.
    L1,
    /// And all that is needed to run it.
    L2,
    /// And examples and fixtures.
    L3,
}

impl Level {
    /// The level of this number.
    pub fn of(number: u8) -> Option<Self> {
        [Self::L0, Self::L1, Self::L2, Self::L3]
            .get(usize::from(number))
            .copied()
    }
}

/// How a tool runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A program in a sandbox.
    Cli,
    /// A request to a host.
    Api,
    /// A tool of an MCP server in a sandbox.
    Mcp,
}

impl Kind {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cli => "cli",
            Self::Api => "api",
            Self::Mcp => "mcp",
        }
    }
}

/// Whether an adapter may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Yes.
    Active,
    /// Yes, with a warning.
    Deprecated,
    /// Only where it was switched on.
    Experimental,
}

impl Status {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Deprecated => "deprecated",
            Self::Experimental => "experimental",
        }
    }
}

/// L0: what a listing shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Header {
    /// The adapter's own name.
    pub id: String,
    /// A name for people.
    pub name: String,
    /// The tool it is an adapter of.
    pub tool: String,
    /// How it runs.
    #[serde(rename = "type")]
    pub kind: Kind,
}

/// L1: what a choice is made by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// One line on what it does.
    pub summary: String,
    /// The version of the definition.
    pub version: String,
    /// Whether it may be used.
    pub status: Status,
}

/// The text of an adapter, of which only what is asked for is parsed.
#[derive(Debug, Clone)]
pub struct AdapterFile {
    text: Arc<str>,
}

impl AdapterFile {
    /// Takes `bytes`, which must be text that a reviewer sees as it is.
    pub fn new(bytes: &[u8]) -> Result<Self, DefinitionError> {
        let mut problems = Problems::default();
        let text = text(bytes, &mut problems).map(Arc::from);
        problems.settle(text).map(|text| Self { text })
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// L0. The rest of the file is not looked at.
    pub fn header(&self) -> Result<Header, DefinitionError> {
        let mut problems = Problems::default();
        let header = self
            .document(Level::L0, &mut problems)
            .and_then(|node| header(&node, &mut problems));
        problems.settle(header)
    }

    /// L1. What follows is not looked at.
    pub fn summary(&self) -> Result<Summary, DefinitionError> {
        let mut problems = Problems::default();
        let summary = self
            .document(Level::L1, &mut problems)
            .and_then(|node| summary(&node, &mut problems));
        problems.settle(summary)
    }

    /// L2, with what stands before it.
    pub fn adapter(&self) -> Result<Adapter, DefinitionError> {
        let mut problems = Problems::default();
        let header = self
            .document(Level::L0, &mut problems)
            .and_then(|node| header(&node, &mut problems));
        let summary = self
            .document(Level::L1, &mut problems)
            .and_then(|node| summary(&node, &mut problems));
        let body = self.document(Level::L2, &mut problems);
        let adapter = match (header, summary, body) {
            (Some(header), Some(summary), Some(body)) => {
                body::parse(header, summary, &body, &mut problems)
            }
            _ => None,
        };
        problems.settle(adapter)
    }

    /// L3; none if the file has no such document.
    pub fn samples(&self) -> Result<Samples, DefinitionError> {
        let mut problems = Problems::default();
        let mut parts = documents(&self.text).skip(Level::L3 as usize);
        let samples = match parts.next() {
            None => Some(Samples::default()),
            Some((before, text)) => {
                let node = read(text, before, &mut problems);
                node.and_then(|node| samples::parse(&node, &mut problems))
            }
        };
        if let Some((before, _)) = parts.next() {
            let what = "an adapter has at most four documents, and a fifth begins here";
            problems.error(code::VALUE, at_line(before + 1), what, "remove it");
        }
        problems.settle(samples)
    }

    fn document(&self, level: Level, problems: &mut Problems) -> Option<Node> {
        let mut parts = documents(&self.text).skip(level as usize);
        let Some((before, text)) = parts.next() else {
            let last = u32::try_from(self.text.lines().count()).unwrap_or(u32::MAX);
            let what = format!("the document of level {} is missing", level as u8);
            let fix = "an adapter has a document for each level, with a line `---` between them";
            problems.error(code::MISSING, at_line(last.max(1)), what, fix);
            return None;
        };
        let errors = problems.errors();
        let node = read(text, before, problems);
        if node.is_none() && problems.errors() == errors {
            let what = format!("the document of level {} is empty", level as u8);
            problems.error(
                code::MISSING,
                at_line(before + 1),
                what,
                "fill it, or remove the `---`",
            );
        }
        node
    }
}

fn at_line(line: u32) -> Spot {
    Spot {
        place: airlock_policy::Place { line, column: 1 },
        length: 1,
    }
}

fn header(node: &Node, problems: &mut Problems) -> Option<Header> {
    let mut fields = Mapping::of(node, "an adapter's header", problems)?;
    let format = fields
        .need("adapter", problems)
        .and_then(|node| node.number(FORMAT..=FORMAT, problems));
    let id = fields
        .need("id", problems)
        .and_then(|node| node.name(Names::Id, problems));
    let name = fields
        .need("name", problems)
        .and_then(|node| node.line(problems));
    let tool = fields
        .need("tool", problems)
        .and_then(|node| node.name(Names::Tool, problems));
    let kind = fields
        .need("type", problems)
        .and_then(|node| kind(node, problems));
    fields.close(problems);
    format?;
    Some(Header {
        id: id?,
        name: name?,
        tool: tool?,
        kind: kind?,
    })
}

fn kind(node: &Node, problems: &mut Problems) -> Option<Kind> {
    if node.text(problems)? == "sdk" {
        let what = "adapters of type `sdk` cannot be run: there is no SDK host";
        problems.error(code::VALUE, node.spot, what, "use `cli`, `api` or `mcp`");
        return None;
    }
    let kinds = [("cli", Kind::Cli), ("api", Kind::Api), ("mcp", Kind::Mcp)];
    node.word("type", &kinds, problems)
}

fn summary(node: &Node, problems: &mut Problems) -> Option<Summary> {
    let mut fields = Mapping::of(node, "an adapter's second document", problems)?;
    let summary = fields
        .need("summary", problems)
        .and_then(|node| node.line(problems));
    let version = fields
        .need("version", problems)
        .and_then(|node| node.name(Names::Version, problems));
    let statuses = [
        ("active", Status::Active),
        ("deprecated", Status::Deprecated),
        ("experimental", Status::Experimental),
    ];
    let status = fields
        .need("status", problems)
        .and_then(|node| node.word("status", &statuses, problems));
    fields.close(problems);
    Some(Summary {
        summary: summary?,
        version: version?,
        status: status?,
    })
}
