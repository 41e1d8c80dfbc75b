//! The road: identify, validate, decide, execute, sanitise, record.
//!
//! Invariant 2 lives here: the attempt is in the log before anything happens - on disk, where the
//! effect is more than reading - and if the log cannot take it, nothing happens.

mod crossing;
mod decide;
mod execute;
mod outcome;
mod record;
mod validate;

pub use outcome::{Denied, Done, Failed, Outcome, Review};

use crate::fronts::{Front, Origin};
use crate::kernel::Kernel;
use crate::process::Attached;
use airlock_core::SessionId;
use airlock_policy::Verdict;
use record::Trail;

/// What a front asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// The tool or syscall, `area.verb`.
    pub name: String,
    /// Its arguments, not yet validated.
    pub arguments: serde_json::Value,
    /// The session it belongs to.
    pub session: Option<SessionId>,
}

impl Call {
    /// A call outside any session.
    pub fn new(name: impl Into<String>, arguments: serde_json::Value) -> Self {
        Self {
            name: name.into(),
            arguments,
            session: None,
        }
    }
}

impl Kernel {
    /// Takes `call` down the road. Every action of every front goes through here.
    pub fn submit(&self, front: Front, call: &Call) -> Outcome {
        self.submit_with(front, call, None)
    }

    /// The same for a call that may run a program, with the streams of whoever waits for it. Without
    /// them its output is kept, within bounds, and is part of the result.
    pub fn submit_with(
        &self,
        front: Front,
        call: &Call,
        attached: Option<Attached<'_>>,
    ) -> Outcome {
        self.submit_from(front, &Origin::default(), call, attached)
    }

    /// The same for a call that another process makes.
    pub fn submit_from(
        &self,
        front: Front,
        origin: &Origin,
        call: &Call,
        attached: Option<Attached<'_>>,
    ) -> Outcome {
        let mut trail = Trail::begin(self, call);
        match self.travel(front, origin, call, attached, &mut trail) {
            Ok(outcome) | Err(outcome) => outcome,
        }
    }

    fn travel(
        &self,
        front: Front,
        origin: &Origin,
        call: &Call,
        attached: Option<Attached<'_>>,
        trail: &mut Trail<'_>,
    ) -> Result<Outcome, Outcome> {
        let policy = self.policy();
        let caller = self
            .identify(front, origin, call, &policy)
            .map_err(|error| trail.fail(error))?;
        trail.identified(&caller);
        let mut valid = self
            .validate(front, call, caller)
            .map_err(|invalid| trail.refuse(&invalid))?;
        valid.machine.clone_from(&origin.machine);
        let ruling = self.decide(&policy, &valid.request, trail);
        match ruling.decision.verdict {
            Verdict::Deny => return Err(trail.deny(&policy, &valid.request, ruling)),
            Verdict::RequireReview => return Err(trail.ask(&policy, &valid.request, ruling)),
            Verdict::Allow => {}
        }
        // What cannot be planned was attempted all the same, and fails after its record.
        let planned = self.plan(&policy, &valid, &ruling);
        trail.attempt(&valid.request, &ruling.decision, planned.as_ref().ok())?;
        let result =
            planned.and_then(|planned| self.execute(&policy, valid, &ruling, planned, attached));
        Ok(trail.finish(result))
    }
}
