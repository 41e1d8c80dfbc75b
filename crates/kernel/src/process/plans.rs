//! The last plans, for calls that ask for the same again.
//!
//! Guarantee: a plan is handed out again only for an equal [`Origin`], and a plan is made of nothing
//! but its origin: of another policy, another approval, another machine or other arguments another
//! plan is made. Policies count as equal only if they are the very same value, which is made anew
//! whenever what is approved changes.

use super::failure::ProcessFailure;
use super::job::{Asked, Job, Listing, Staging};
use super::surround::Around;
use crate::policy_store::PolicyInForce;
use airlock_core::{Caller, Digest, Request};
use airlock_policy::Imposed;
use airlock_sandbox::{Plan, Template, View};
use std::collections::{BTreeMap, VecDeque};
use std::hash::{Hash as _, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many plans are remembered.
const MOST: usize = 8;

/// Everything a plan follows from.
#[derive(PartialEq)]
pub(super) struct Origin {
    policy: TheSame<PolicyInForce>,
    around: Arc<Around>,
    /// What of the call rules can ask about before a program runs: neither its arguments nor the
    /// process it comes from.
    pub(super) request: Request,
    pub(super) imposed: Imposed,
    pub(super) root: String,
    pub(super) template: &'static Template,
    pub(super) view: View,
    pub(super) directory: Option<String>,
    /// Where granted paths really lead.
    pub(super) reads: Vec<String>,
    pub(super) writes: Vec<String>,
    pub(super) denials: Vec<String>,
    pub(super) inherited: Vec<String>,
    pub(super) environment: BTreeMap<String, String>,
    pub(super) limits: Asked,
    /// Whether the execution contract bounds them, in place of the template.
    pub(super) contract: bool,
    /// Whether what runs in it may ask the kernel.
    pub(super) socket: bool,
}

/// Equal to itself alone.
struct TheSame<T>(Arc<T>);

impl<T> PartialEq for TheSame<T> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Origin {
    /// Of `job`, whose granted paths lead nowhere else.
    pub(super) fn of(
        job: &Job,
        policy: &Arc<PolicyInForce>,
        asked: &Request,
        imposed: Imposed,
        root: &str,
        around: &Arc<Around>,
    ) -> Self {
        let caller = Caller {
            peer: None,
            ..asked.caller.clone()
        };
        let mut request = Request::new(asked.syscall, asked.tier, caller);
        request.tool.clone_from(&asked.tool);
        request.template.clone_from(&asked.template);
        Self {
            policy: TheSame(Arc::clone(policy)),
            around: Arc::clone(around),
            request,
            imposed,
            root: root.to_owned(),
            template: job.template,
            view: match job.staging {
                Staging::Session | Staging::Stage(_) => View::Staged,
                Staging::None => View::ReadOnly,
            },
            directory: job.directory.clone(),
            reads: job.reads.clone(),
            writes: job.writes.clone(),
            denials: job.denials.clone(),
            inherited: job.inherited.clone(),
            environment: job.environment.clone(),
            limits: job.limits,
            contract: job.listing != Listing::Person,
            socket: false,
        }
    }

    pub(super) fn policy(&self) -> &PolicyInForce {
        &self.policy.0
    }

    pub(super) fn around(&self) -> &Around {
        &self.around
    }
}

/// A plan, and what stands for it.
pub(super) struct Made {
    pub(super) plan: Plan,
    /// Of all of it.
    pub(super) digest: Digest,
}

impl Made {
    pub(super) fn new(plan: Plan) -> Self {
        let mut all = Spelt::default();
        plan.hash(&mut all);
        let digest = Digest::of(&all.0);
        Self { plan, digest }
    }
}

/// What a value hashes, byte by byte: strings and lists say where they end, so that no two values are
/// spelt alike.
#[derive(Default)]
struct Spelt(Vec<u8>);

impl Hasher for Spelt {
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Nobody asks: the bytes are what is wanted.
    fn finish(&self) -> u64 {
        0
    }
}

/// The last plans of one kernel.
#[derive(Default)]
pub(crate) struct Plans(Mutex<VecDeque<(Origin, Arc<Made>)>>);

impl Plans {
    /// The plan of `origin`: the one there is, or what `build` makes of it.
    pub(super) fn of(
        &self,
        origin: Origin,
        build: impl FnOnce(&Origin) -> Result<Plan, ProcessFailure>,
    ) -> Result<Arc<Made>, ProcessFailure> {
        let found = self.lock().iter().find_map(|(known, made)| {
            let same = *known == origin;
            same.then(|| Arc::clone(made))
        });
        if let Some(made) = found {
            return Ok(made);
        }
        let made = Arc::new(Made::new(build(&origin)?));
        let mut known = self.lock();
        // Nobody asks by a policy that is no longer in force.
        known.retain(|(old, _)| old.policy == origin.policy);
        known.truncate(MOST - 1);
        known.push_front((origin, Arc::clone(&made)));
        Ok(made)
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(Origin, Arc<Made>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
