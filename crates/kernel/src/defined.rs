//! The definitions in force: read again once what is approved is no longer what they were read from.
//!
//! Guarantee: a kernel that stays has the adapters, workflows and agents that one opened now would
//! have of the workspace. Non-guarantee: the person's own files are looked at when it is opened and
//! when those of the workspace change; [`OwnDefinitions::digest`] tells whether they are the same.

use crate::adapters;
use crate::definitions::{Definitions, OwnDefinitions};
use crate::extensions::WorkerProgram;
use crate::policy_store::{PolicyInForce, PolicyStore};
use crate::tools::{Further, Registry, Tool};
use crate::workspace::Trust;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// What was read, and what it follows from.
struct Loaded {
    policy: Arc<PolicyInForce>,
    definitions: Arc<Definitions>,
    tools: Arc<[Arc<dyn Tool>]>,
}

/// The definitions of a kernel.
pub(crate) struct Defined {
    own: OwnDefinitions,
    store: Arc<PolicyStore>,
    worker: Option<WorkerProgram>,
    /// Names of tools that no adapter takes.
    taken: BTreeSet<&'static str>,
    loaded: Mutex<Loaded>,
}

impl Defined {
    /// Those of the person, `own`, and of the workspace, beside the tools in `registry`.
    pub(crate) fn new(
        own: &OwnDefinitions,
        store: &Arc<PolicyStore>,
        worker: Option<&WorkerProgram>,
        registry: &Registry,
    ) -> Self {
        let taken = registry.fixed_names();
        let policy = store.current();
        let loaded = load(own, store, worker, &taken, policy);
        Self {
            own: own.clone(),
            store: Arc::clone(store),
            worker: worker.cloned(),
            taken,
            loaded: Mutex::new(loaded),
        }
    }

    /// The definitions there are now.
    pub(crate) fn now(&self) -> Arc<Definitions> {
        self.with(|loaded| Arc::clone(&loaded.definitions))
    }

    /// What there would be if the workspace's files were approved as they stand in `trust`. None of it
    /// is used.
    pub(crate) fn if_approved(&self, trust: &Trust) -> Definitions {
        let mut definitions = Definitions::load(&self.own, trust.untrusted_definitions());
        let (store, worker) = (&self.store, self.worker.as_ref());
        // Which adapters cannot be used shows as their tools are made.
        let _unused = adapters::tools(&self.taken, &mut definitions, &self.own, store, worker);
        definitions
    }

    fn tools(&self) -> Arc<[Arc<dyn Tool>]> {
        self.with(|loaded| Arc::clone(&loaded.tools))
    }

    fn with<T>(&self, look: impl FnOnce(&Loaded) -> T) -> T {
        let policy = self.store.current();
        // What is behind this lock is replaced whole.
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if !Arc::ptr_eq(&loaded.policy, &policy) {
            if loaded.policy.definitions() == policy.definitions() {
                loaded.policy = policy;
            } else {
                let worker = self.worker.as_ref();
                *loaded = load(&self.own, &self.store, worker, &self.taken, policy);
            }
        }
        look(&loaded)
    }
}

fn load(
    own: &OwnDefinitions,
    store: &Arc<PolicyStore>,
    worker: Option<&WorkerProgram>,
    taken: &BTreeSet<&'static str>,
    policy: Arc<PolicyInForce>,
) -> Loaded {
    let mut definitions = Definitions::load(own, policy.definitions());
    let tools = adapters::tools(taken, &mut definitions, own, store, worker);
    Loaded {
        policy,
        definitions: Arc::new(definitions),
        tools: tools.into(),
    }
}

/// The adapters' tools, which come and go with their files.
pub(crate) struct AdapterTools(pub(crate) Arc<Defined>);

impl Further for AdapterTools {
    fn find(&self, name: &str) -> Option<Arc<dyn Tool>> {
        let tools = self.0.tools();
        tools.iter().find(|tool| tool.spec().name == name).cloned()
    }

    fn list(&self) -> Vec<Arc<dyn Tool>> {
        self.0.tools().to_vec()
    }
}
