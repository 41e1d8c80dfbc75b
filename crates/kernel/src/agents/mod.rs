//! Agents at work for somebody: `agent.invoke` hands a task to a defined agent, whose model is asked
//! and whose calls take the road like anybody's.
//!
//! Guarantee: an agent never has more than whoever invoked it. It acts under the same name and tags
//! (for a person under the name `agent`, never as the person), so that every rule that holds for the
//! one holds for the other; in the same session and stage, so that phases, gates and answers do;
//! with the tools that its definition names and whoever invoked it may use; within what is left of
//! every budget above it. It ends when the call that invoked it is taken back, and agents invoke
//! each other only so deep.
//!
//! Non-guarantee: that a model does its task, or says the truth about it. Its answer is data.
//! Questions that are under way at the same time for one session are counted when they are
//! answered, so several may together go over its budget, each by itself may not.
//!
//! Invariant: nothing is asked of a model before `model.chat` was allowed and recorded.

mod budget;
mod child;
mod converse;
mod hands;
mod invoke;
mod output;
mod told;
mod tool;

pub use child::AgentCaller;
pub(crate) use invoke::Invoker;
pub use told::{handed, handed_pending};
pub(crate) use tool::{Invocation, register};

use crate::defined::Defined;
use crate::kernel::Kernel;
use crate::road::Review;
use airlock_core::ActionId;
use airlock_model::Model;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Questions of agents that are kept for whoever invoked them and can put them to a person.
const KEPT_QUESTIONS: usize = 64;

/// Knows the models that a person configured. The kernel has none of its own: keys and addresses
/// are for whoever reads the person's configuration.
pub trait Models: Send + Sync {
    /// The model called `name`, for one task.
    fn find(&self, name: &str) -> Result<Arc<dyn Model>, NoModel>;
}

/// Why there is no model of that name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct NoModel {
    /// What is wrong, and why.
    pub what: String,
    /// What would help.
    pub fix: Option<String>,
}

/// What a kernel knows of agents.
#[derive(Default)]
pub(crate) struct Agents {
    defined: OnceLock<Arc<Defined>>,
    models: OnceLock<Arc<dyn Models>>,
    /// The first call of each invocation that waits for a person.
    questions: Mutex<Vec<(ActionId, Box<Review>)>>,
}

impl Agents {
    /// Whether an agent is defined. While there is none, nobody but the person knows of the tool.
    pub(crate) fn are_defined(&self) -> bool {
        !self.known().is_empty()
    }

    /// Name and summary of each that is defined.
    fn known(&self) -> Vec<(String, String)> {
        let definitions = self.defined.get().map(|defined| defined.now());
        let agents = definitions.iter().flat_map(|known| known.agents());
        agents
            .map(|entry| (entry.agent.name.clone(), entry.agent.summary.clone()))
            .collect()
    }

    pub(crate) fn define(&self, defined: &Arc<Defined>) {
        let _first = self.defined.set(Arc::clone(defined));
    }

    fn models(&self) -> Option<&Arc<dyn Models>> {
        self.models.get()
    }

    fn keep_question(&self, action: ActionId, review: Box<Review>) {
        let mut questions = self
            .questions
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if questions.len() >= KEPT_QUESTIONS {
            questions.remove(0);
        }
        questions.push((action, review));
    }

    /// The question that the invocation `action` left for a person.
    pub(crate) fn take_question(&self, action: &ActionId) -> Option<Box<Review>> {
        let mut questions = self
            .questions
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let at = questions.iter().position(|(of, _)| of == action)?;
        Some(questions.swap_remove(at).1)
    }
}

impl Kernel {
    /// Lets agents ask the models that `models` knows. Without it, no agent can be invoked.
    #[must_use]
    pub fn asking(self, models: Arc<dyn Models>) -> Self {
        let _first = self.agents().models.set(models);
        self
    }
}

/// Syscalls that steer Airlock itself and are no work of an agent's, whatever its definition says.
const NOT_WORK: &[&str] = &[
    "approval.",
    "audit.",
    "policy.",
    "trust.",
    "stage.",
    "workflow.",
    "plugin.",
    "model.",
    "exec.own",
    "session.create",
    "session.list",
    "session.resume",
    "session.cancel",
    "session.archive",
    "merge.undo",
];

/// Whether the tool `name` can be an agent's work at all.
pub fn is_agents_work(name: &str) -> bool {
    !NOT_WORK.iter().any(|not| name.starts_with(not))
}
