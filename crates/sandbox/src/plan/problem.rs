//! What can be wrong with a plan. All of it is reported at once.

use super::denial::PatternProblem;
use super::environment::VariableProblem;
use super::limits::OutOfRange;
use super::network::HostProblem;
use super::path::{HostPath, PathProblem};
use std::fmt;

/// One thing wrong with a plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A path is not one.
    #[error("{field}: {problem}")]
    Path {
        /// Where it stands in the plan.
        field: &'static str,
        /// What is wrong.
        problem: PathProblem,
    },
    /// A pattern is not one.
    #[error("denial: {0}")]
    Pattern(PatternProblem),
    /// `/` is every place at once.
    #[error("{field}: `/` would grant everything")]
    GrantsEverything {
        /// Where it stands in the plan.
        field: &'static str,
    },
    /// A place that leads out of the sandbox.
    #[error("{field}: `{path}` lies in `{place}`, which {reason}")]
    Protected {
        /// Where it stands in the plan.
        field: &'static str,
        /// The grant.
        path: HostPath,
        /// The place.
        place: HostPath,
        /// Why it is protected.
        reason: &'static str,
    },
    /// Granted and denied at once.
    #[error("{field}: `{path}` is granted, but `{denial}` denies it")]
    GrantInsideDenial {
        /// Where it stands in the plan.
        field: &'static str,
        /// The grant.
        path: HostPath,
        /// The denial, as text.
        denial: String,
    },
    /// A denied name leads to what holds a grant.
    #[error("`{path}` is granted, but the denied `{denial}` leads to `{place}`, which holds it")]
    GrantBeyondDenial {
        /// The grant.
        path: HostPath,
        /// The denial, as text.
        denial: String,
        /// Where it leads.
        place: HostPath,
    },
    /// The real tree changes only by merge.
    #[error("write: `{path}` would let the workspace `{workspace}` be written past its stage")]
    WriteMeetsWorkspace {
        /// The grant.
        path: HostPath,
        /// The workspace.
        workspace: HostPath,
    },
    /// Nothing is there to start in.
    #[error("the working directory `{0}` is not visible in the sandbox")]
    DirectoryNotVisible(HostPath),
    /// A variable cannot pass.
    #[error("environment: {0}")]
    Variable(VariableProblem),
    /// A host is not one.
    #[error("network: {0}")]
    Host(HostProblem),
    /// Port 0 is none.
    #[error("network: port 0 of `{0}`")]
    Port(String),
    /// The template has no network.
    #[error("network: the template `{template}` has none")]
    NoNetwork {
        /// The template.
        template: &'static str,
    },
    /// Workers of our own have nothing to ask the kernel.
    #[error("socket: the template `{template}` has none to the kernel")]
    NoSocket {
        /// The template.
        template: &'static str,
    },
    /// A limit is no usable number.
    #[error("limits: {0}")]
    Limit(OutOfRange),
    /// A limit exceeds the template's, or the contract's where that bounds it.
    #[error("limits: `{limit}` is above what the template `{template}` can have here")]
    AboveTemplate {
        /// The limit.
        limit: &'static str,
        /// The template.
        template: &'static str,
    },
    /// The profile allows more than the template's.
    #[error("seccomp: `{profile}` allows more than the template `{template}`")]
    Profile {
        /// The profile.
        profile: &'static str,
        /// The template.
        template: &'static str,
    },
}

impl Problem {
    /// How to mend it.
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::Path { problem, .. } => problem.hint(),
            Self::Pattern(problem) => problem.hint(),
            Self::GrantsEverything { .. } => "grant the directories that are needed",
            Self::Protected { .. } => "grant a directory outside it",
            Self::GrantInsideDenial { .. } => "remove the grant or the denial",
            Self::GrantBeyondDenial { .. } => "remove the denial, or the link",
            Self::WriteMeetsWorkspace { .. } => "write through the stage, or outside the workspace",
            Self::DirectoryNotVisible(_) => "start in the workspace or another granted directory",
            Self::Variable(problem) => problem.hint(),
            Self::Host(problem) => problem.hint(),
            Self::Port(_) => "name a port from 1 on",
            Self::NoNetwork { .. } => "use a template with a network, such as `integration-test`",
            Self::NoSocket { .. } => "leave it out, or use a template such as `code-executor`",
            Self::Limit(_) => "choose a value in the range",
            Self::AboveTemplate { .. } | Self::Profile { .. } => {
                "lower it, or use a template that has more"
            }
        }
    }
}

/// A plan that cannot be: every problem it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanError(pub(super) Vec<Problem>);

impl PlanError {
    /// Every problem, in the order the plan was written.
    pub fn problems(&self) -> &[Problem] {
        &self.0
    }
}

impl From<Problem> for PlanError {
    fn from(problem: Problem) -> Self {
        Self(vec![problem])
    }
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the sandbox plan is refused")?;
        for problem in &self.0 {
            write!(f, "\n  {problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for PlanError {}
