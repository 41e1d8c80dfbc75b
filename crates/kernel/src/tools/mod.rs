//! The built-in tools and the registry that names them.
//!
//! Guarantee of those that run in the kernel: nothing outside the workspace root is ever read, whatever is renamed or swapped
//! while a tool runs, and nothing about a file is returned before policy was asked about it. What a
//! search finds, and where anything is cut, does not depend on secrets that sanitising takes out.
//! Non-guarantee: ignore files decide what a search bothers with, never what may be read; that is
//! policy's alone.

mod arguments;
mod contract;
mod exists;
mod glob;
mod grep;
mod list;
pub(crate) mod lists;
mod pattern;
mod read;
mod schema;
mod target;
mod walk;

pub(crate) use arguments::{Arguments, parse as parse_arguments};
pub use contract::{
    InvalidArguments, Keep, Next, Prepared, ReadFilter, RunContext, Sanitiser, Tool, ToolFailure,
    ToolOutput, ToolSpec,
};
pub use schema::ToolSchema;
pub(crate) use walk::GitIgnored;

use crate::fronts::Front;
use airlock_core::Syscall;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A name that no tool has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no tool `{name}`")]
pub struct UnknownTool {
    /// The name asked for, shortened.
    pub name: String,
}

/// Why a tool that somebody knows of cannot be called as things are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Absent {
    /// What is in the way.
    pub(crate) why: String,
    /// How to change that.
    pub(crate) fix: String,
}

/// Tools that come and go while a kernel runs.
pub(crate) trait Further: Send + Sync {
    /// The tool called `name` now.
    fn find(&self, name: &str) -> Option<Arc<dyn Tool>>;

    /// Why the tool called `name` is not among them, if there is more to say than that.
    fn absent(&self, _name: &str) -> Option<Absent> {
        None
    }

    /// Every one there is now.
    fn list(&self) -> Vec<Arc<dyn Tool>>;
}

/// A tool, for as long as it is held.
#[derive(Clone)]
pub enum Found<'r> {
    /// One that stays as long as the registry.
    Fixed(&'r (dyn Tool + 'static)),
    /// One that may be gone tomorrow.
    Passing(Arc<dyn Tool>),
}

impl std::ops::Deref for Found<'_> {
    type Target = dyn Tool;

    fn deref(&self) -> &(dyn Tool + 'static) {
        match self {
            Self::Fixed(tool) => *tool,
            Self::Passing(tool) => &**tool,
        }
    }
}

impl std::fmt::Debug for Found<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Found({})", self.spec().name)
    }
}

/// The tools there are.
pub struct Registry {
    tools: Vec<Box<dyn Tool>>,
    further: Vec<Box<dyn Further>>,
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
            further: Vec::new(),
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

    /// Adds tools that come and go. None of them takes the name of one that stays.
    pub(crate) fn add_further(&mut self, further: Box<dyn Further>) {
        self.further.push(further);
    }

    /// The same, whose names come before those of any other that come and go.
    pub(crate) fn add_further_first(&mut self, further: Box<dyn Further>) {
        self.further.insert(0, further);
    }

    /// The names of the tools that stay.
    pub(crate) fn fixed_names(&self) -> BTreeSet<&'static str> {
        self.tools.iter().map(|tool| tool.spec().name).collect()
    }

    /// Whether a tool that stays is called `name`.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.fixed(name).is_some()
    }

    fn fixed(&self, name: &str) -> Option<&(dyn Tool + 'static)> {
        let mut tools = self.tools.iter().map(AsRef::as_ref);
        tools.find(|tool| tool.spec().name == name)
    }

    /// The tool called `name`. Those that stay come first: nothing that comes later shadows one.
    pub fn get(&self, name: &str) -> Result<Found<'_>, UnknownTool> {
        if let Some(tool) = self.fixed(name) {
            return Ok(Found::Fixed(tool));
        }
        let mut further = self.further.iter();
        let found = further.find_map(|further| further.find(name));
        found.map(Found::Passing).ok_or_else(|| UnknownTool {
            name: name.chars().take(60).collect(),
        })
    }

    /// The name probably meant by `name`, of a tool that `front` could use: no other is its to know of.
    pub fn nearest(&self, front: Front, name: &str) -> Option<&'static str> {
        let usable = |tool: &Found<'_>| {
            let syscall = Syscall::parse(tool.spec().syscall);
            tool.open_to(front) && syscall.is_ok_and(|syscall| front.could_use(syscall))
        };
        let names = self.list().filter(usable).map(|tool| tool.spec().name);
        airlock_core::closest(name, names)
    }

    /// Why there is no tool called `name`, if there is more to say than that.
    pub(crate) fn absent(&self, name: &str) -> Option<Absent> {
        let mut further = self.further.iter();
        further.find_map(|further| further.absent(name))
    }

    /// Every tool: those that stay, in an order that does not change, then the others.
    pub fn list(&self) -> impl Iterator<Item = Found<'_>> {
        let fixed = self.tools.iter().map(|tool| Found::Fixed(tool.as_ref()));
        let further = self
            .further
            .iter()
            .enumerate()
            .flat_map(move |(at, further)| {
                let earlier = move |name: &str| {
                    let mut before = self.further.iter().take(at);
                    before.any(|further| further.find(name).is_some())
                };
                let tools = further.list().into_iter();
                tools.filter(move |tool| !self.has(tool.spec().name) && !earlier(tool.spec().name))
            });
        fixed.chain(further.map(Found::Passing))
    }
}
