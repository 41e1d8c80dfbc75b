//! Who an agent is, as the road knows it.

use crate::fronts::{Front, Whence};
use airlock_core::{ActionId, SessionId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Agents that work for each other, the first one counted.
pub(crate) const DEEPEST: usize = 3;

/// An agent at work. Only the kernel makes one, and whoever has one can do less, never more.
#[derive(Debug)]
pub struct AgentCaller {
    pub(super) name: String,
    /// The only tools it may call.
    pub(super) tools: BTreeSet<String>,
    /// The sessions of the agents it works for, the outermost first, and its own at the end.
    pub(super) chain: Vec<SessionId>,
    /// The call that invoked it.
    pub(super) within: ActionId,
}

impl AgentCaller {
    /// Its name, as it is defined.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it may call the tool `name`.
    pub(crate) fn may_use(&self, name: &str) -> bool {
        self.tools.contains(name)
    }

    /// How many agents work for each other, this one counted.
    pub(super) fn depth(&self) -> usize {
        self.chain.len()
    }

    /// What the log says of it beside every call it makes.
    pub(crate) fn notes(&self) -> BTreeMap<String, String> {
        let own = self.chain.last().map(ToString::to_string);
        [
            ("agent", Some(self.name.clone())),
            ("agent_session", own),
            ("agent_depth", Some(self.depth().to_string())),
            ("within", Some(self.within.to_string())),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)))
        .collect()
    }
}

/// The front an agent acts as that `front` invoked: the same, so that the same rules hold. A
/// person's agent is `agent`: it never has a person's rights.
pub(super) const fn acts_as(front: Front) -> Front {
    match front {
        Front::Cli | Front::Agent => Front::Agent,
        Front::Mcp => Front::Mcp,
        Front::Server => Front::Server,
        Front::Plugin => Front::Plugin,
    }
}

/// Where the calls of `agent` come from, which somebody at `whence` invoked. The environment of a
/// person stays theirs.
pub(super) fn whence_of(whence: &Whence, agent: &Arc<AgentCaller>) -> Whence {
    Whence {
        peer: whence.peer,
        sandbox: whence.sandbox.clone(),
        plugin: whence.plugin.clone(),
        machine: None,
        agent: Some(Arc::clone(agent)),
        within: whence.within.clone(),
        serves: whence.serves.clone(),
        user: whence.user.clone(),
    }
}
