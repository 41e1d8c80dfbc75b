//! The built-in tools and the registry that names them.
//!
//! Guarantee of those that run in the kernel: nothing outside the workspace root is ever read, whatever is renamed or swapped
//! while a tool runs, and nothing about a file is returned before policy was asked about it.
//! Non-guarantee: ignore files decide what a search bothers with, never what may be read; that is
//! policy's alone.

mod arguments;
mod contract;
mod exists;
mod glob;
mod grep;
mod keys;
mod list;
mod pattern;
mod read;
mod target;
mod walk;

pub(crate) use arguments::{Arguments, parse as parse_arguments, schema as schema_of};
pub use contract::{
    InvalidArguments, Keep, Next, Prepared, ReadFilter, RunContext, Tool, ToolFailure, ToolOutput,
    ToolSpec,
};
pub(crate) use walk::GitIgnored;

/// A name that no tool has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no tool `{name}`")]
pub struct UnknownTool {
    /// The name asked for, shortened.
    pub name: String,
    /// The name probably meant.
    pub suggestion: Option<&'static str>,
}

impl UnknownTool {
    /// The name probably meant, as advice.
    pub fn hint(&self) -> Option<String> {
        self.suggestion
            .map(|name| format!("did you mean `{name}`?"))
    }
}

/// The tools there are.
pub struct Registry {
    tools: Vec<Box<dyn Tool>>,
}

impl Registry {
    /// The tools every front may call, in order of name.
    pub fn built_in() -> Self {
        Self {
            tools: vec![
                Box::new(crate::process::ExecRun),
                Box::new(crate::process::Delete),
                Box::new(exists::Exists),
                Box::new(list::List),
                Box::new(crate::process::Move),
                Box::new(crate::process::Patch),
                Box::new(read::Read),
                Box::new(crate::process::Write),
                Box::new(crate::process::Commit),
                Box::new(crate::process::GitDiff),
                Box::new(crate::process::Log),
                Box::new(crate::process::Status),
                Box::new(glob::Glob),
                Box::new(grep::Grep),
                Box::new(crate::process::ShellRun),
                Box::new(crate::process::TestRun::default()),
            ],
        }
    }

    /// Adds a tool; a name that is taken stays with the tool that has it.
    pub(crate) fn add(&mut self, tool: Box<dyn Tool>) {
        if !self.has(tool.spec().name) {
            self.tools.push(tool);
        }
    }

    /// Puts `tool` in the place of the one of its name, which knows less.
    pub(crate) fn replace(&mut self, tool: Box<dyn Tool>) {
        let name = tool.spec().name;
        if let Some(own) = self.tools.iter_mut().find(|own| own.spec().name == name) {
            *own = tool;
        }
    }

    /// Whether a tool is called `name`.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.list().any(|tool| tool.spec().name == name)
    }

    /// The tool called `name`.
    pub fn get(&self, name: &str) -> Result<&dyn Tool, UnknownTool> {
        self.list()
            .find(|tool| tool.spec().name == name)
            .ok_or_else(|| UnknownTool {
                name: name.chars().take(60).collect(),
                suggestion: airlock_core::closest(name, self.list().map(|tool| tool.spec().name)),
            })
    }

    /// Every tool, in an order that does not change.
    pub fn list(&self) -> impl Iterator<Item = &dyn Tool> {
        self.tools.iter().map(AsRef::as_ref)
    }
}
