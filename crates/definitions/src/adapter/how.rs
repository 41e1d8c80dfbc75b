//! How an adapter runs: a program, a request, or a tool of another server.

use super::Kind;
use super::api::Api;
use super::arguments::{ArgumentError, Interface};
use super::cli::Cli;
use airlock_yaml::{Mapping, Names, Node, Problems, Tree, code};
use serde_json::Value;

/// Most words a mapping has of its own.
pub(super) const WORDS: usize = 200;

/// How an adapter runs.
#[derive(Debug, Clone)]
pub enum How {
    /// A program in a sandbox.
    Cli(Cli),
    /// A request to a host.
    Api(Api),
    /// A tool of an MCP server in a sandbox.
    Mcp(Mcp),
}

/// A value of the definition's own, or of an input.
#[derive(Debug, Clone)]
pub(super) enum Place {
    Fixed(String),
    From(String),
}

impl Place {
    /// The value, or the name of the input whose value will be there: `<name>`.
    pub(super) fn pattern(&self) -> String {
        match self {
            Self::Fixed(text) => text.clone(),
            Self::From(name) => format!("<{name}>"),
        }
    }
}

/// A tool of an MCP server in a sandbox.
#[derive(Debug, Clone)]
pub struct Mcp {
    /// The server and its arguments.
    pub command: Vec<String>,
    /// The server's name for the tool.
    pub tool: String,
}

impl How {
    pub(super) fn parse(
        kind: Kind,
        node: &Node,
        interface: &Interface,
        problems: &mut Problems,
    ) -> Option<Self> {
        match kind {
            Kind::Cli => Cli::parse(node, interface, problems).map(Self::Cli),
            Kind::Api => Api::parse(node, interface, problems).map(Self::Api),
            Kind::Mcp => Mcp::parse(node, problems).map(Self::Mcp),
        }
    }
}

/// The name of an input, which must be one of `types`.
pub(super) fn input(
    node: &Node,
    interface: &Interface,
    types: &[&str],
    problems: &mut Problems,
) -> Option<String> {
    let name = node.text(problems)?;
    let Some(schema) = interface.input.property(name) else {
        let known: Vec<&str> = interface.input.names().collect();
        problems.unknown(code::REFERENCE, node.spot, ("input", name), &known);
        return None;
    };
    let all = [
        "null", "boolean", "integer", "number", "string", "array", "object",
    ];
    let other = all
        .iter()
        .any(|one| !types.contains(one) && schema.may_be(one));
    if other {
        let what = format!(
            "the input `{name}` may be something else than {}",
            types.join(" or ")
        );
        problems.error(
            code::SCHEMA,
            node.spot,
            what,
            "give it that `type` in the schema",
        );
        return None;
    }
    Some(name.to_owned())
}

pub(super) const SCALARS: &[&str] = &["string", "integer", "number", "boolean"];

/// The fixed words a command begins with.
pub(super) fn command(node: &Node, problems: &mut Problems) -> Option<Vec<String>> {
    let nodes = node.list(WORDS, problems)?;
    let Some((program, _)) = nodes.split_first() else {
        problems.error(
            code::VALUE,
            node.spot,
            "no program is named",
            "write `[program, argument]`",
        );
        return None;
    };
    program.name(Names::Program, problems)?;
    nodes.iter().map(|node| word(node, problems)).collect()
}

/// A word of the definition's own.
pub(super) fn word(node: &Node, problems: &mut Problems) -> Option<String> {
    let text = node.text(problems)?;
    if text.contains("${") {
        let what = "`${...}` is not replaced here";
        problems.error(
            code::UNSAFE_ARGUMENT,
            node.spot,
            what,
            "use `value: NAME` in `arguments`",
        );
        return None;
    }
    Some(text.to_owned())
}

pub(super) fn place(node: &Node, interface: &Interface, problems: &mut Problems) -> Option<Place> {
    if let Tree::Map(_) = &node.tree {
        let mut fields = Mapping::of(node, "a value", problems)?;
        let from = fields.need("from", problems);
        fields.close(problems);
        return input(from?, interface, SCALARS, problems).map(Place::From);
    }
    word(node, problems).map(Place::Fixed)
}

/// A single value as one word.
pub(super) fn one(name: &str, value: &Value) -> Result<String, ArgumentError> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Bool(truth) => truth.to_string(),
        Value::Null | Value::Array(_) | Value::Object(_) => {
            return Err(ArgumentError::new(
                name,
                "this is not a single value",
                "give text or a number",
            ));
        }
    };
    if text.contains('\0') {
        return Err(ArgumentError::new(
            name,
            "this holds a NUL byte",
            "remove it",
        ));
    }
    Ok(text)
}

impl Mcp {
    fn parse(node: &Node, problems: &mut Problems) -> Option<Self> {
        let mut fields = Mapping::of(node, "`mcp`", problems)?;
        let command = fields
            .need("command", problems)
            .and_then(|node| command(node, problems));
        let tool = fields
            .need("tool", problems)
            .and_then(|node| node.name(Names::Model, problems));
        fields.close(problems);
        Some(Self {
            command: command?,
            tool: tool?,
        })
    }
}
