//! The road: identify, validate, decide, execute, sanitise, record.
//!
//! Invariant 2 lives here: the attempt is in the log before anything happens - on disk, where the
//! effect is more than reading - and if the log cannot take it, nothing happens.

mod crossing;
mod decide;
mod execute;
mod notes;
mod outcome;
mod record;
mod summary;
mod turns;
mod validate;

pub(crate) use notes::is_merge;
pub use outcome::{Denied, Done, Failed, Outcome, Review};
pub(crate) use summary::note_put_back;
pub(crate) use turns::{NoTurn, Turns};

use crate::agents::Invoker;
use crate::control::says_nothing;
use crate::fronts::{Front, Whence};
use crate::kernel::Kernel;
use crate::policy_store::PolicyInForce;
use crate::process::{Attached, Within};
use crate::tokens::Presented;
use airlock_core::SessionId;
use airlock_policy::Verdict;
use airlock_state::Session;
use outcome::Invalid;
use record::Trail;

/// Where one call happens: what every step of the road may look at.
#[derive(Clone, Copy)]
pub(crate) struct Scene<'a> {
    pub(crate) front: Front,
    pub(crate) policy: &'a PolicyInForce,
    pub(crate) session: Option<&'a Session>,
    pub(crate) token: Option<&'a Presented>,
    pub(crate) unattended: bool,
    /// The command it comes out of, if one that is being run asks.
    pub(crate) within: Option<&'a Within>,
    /// Whether it is part of a call that a plugin serves.
    pub(crate) serves: bool,
}

/// What a front asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// The tool or syscall, `area.verb`.
    pub name: String,
    /// Its arguments, not yet validated.
    pub arguments: serde_json::Value,
    /// The session it belongs to.
    pub session: Option<SessionId>,
    /// A token it presents. A bad one is none at all.
    pub token: Option<Presented>,
    /// Nobody is there to answer a question: policy says whether it waits or is denied.
    pub unattended: bool,
    /// A person at a terminal makes it: see [`crate::Person`].
    pub(crate) person: bool,
    /// The kernel's own loop puts it, before it asks a model.
    pub(crate) asks: bool,
    /// Most bytes of its result, where no model reads it; absent: as much as one is given.
    pub(crate) room: Option<usize>,
}

impl Call {
    /// A call outside any session.
    pub fn new(name: impl Into<String>, arguments: serde_json::Value) -> Self {
        Self {
            name: name.into(),
            arguments,
            session: None,
            token: None,
            unattended: false,
            person: false,
            asks: false,
            room: None,
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
        self.submit_from(front, &Whence::default(), call, attached)
    }

    /// The same for a call that another process makes.
    pub fn submit_from(
        &self,
        front: Front,
        whence: &Whence,
        call: &Call,
        attached: Option<Attached<'_>>,
    ) -> Outcome {
        let attended = attached.is_some();
        let outcome = self.once(front, whence, call, attached);
        if attended {
            return outcome;
        }
        self.persist(front, whence, call, outcome)
    }

    /// Takes `call` down the road once.
    pub(crate) fn once(
        &self,
        front: Front,
        whence: &Whence,
        call: &Call,
        attached: Option<Attached<'_>>,
    ) -> Outcome {
        let mut trail = Trail::begin(self, call, whence);
        match self.travel(front, whence, call, attached, &mut trail) {
            Ok(outcome) | Err(outcome) => outcome,
        }
    }

    fn travel(
        &self,
        front: Front,
        whence: &Whence,
        call: &Call,
        attached: Option<Attached<'_>>,
        trail: &mut Trail<'_>,
    ) -> Result<Outcome, Outcome> {
        let policy = self.policy();
        // Before anything of the call is kept: what it says may be a secret of a plugin's.
        let held = self.plugins().desk().hold_secrets();
        trail.looks_for(&policy, call);
        if held.is_err() {
            trail.withholds();
        }
        let mut caller = self
            .identify(front, whence, call, &policy)
            .map_err(|error| trail.fail(error))?;
        let entered = self.enter(call, &mut caller);
        trail.identified(&caller);
        // Whoever cannot read what is set can still end the kernel.
        if !says_nothing(&call.name, &call.arguments) {
            held.map_err(|unheld| trail.refuse(&unheld.into()))?;
        }
        if self.stops(&call.name) {
            let name = trail.name().to_owned();
            return Err(trail.refuse(&Invalid::Stopped { name }));
        }
        let session = entered.map_err(|problem| trail.refuse(&Invalid::Session(problem)))?;
        // Outside any session, writes wait in the stage that every workspace has.
        let stage = session.as_ref().map_or("default", |session| &session.stage);
        // Whoever asks out of a command means what that sees.
        let within = whence.within.as_deref();
        let stage = within.map_or(stage, Within::stage);
        let mut valid = self
            .validate(front, whence, call, caller, stage, trail)
            .map_err(|invalid| trail.refuse(&invalid))?;
        valid.machine.clone_from(&whence.machine);
        trail.keeps_content(&policy, &call.arguments);
        let scene = Scene {
            front,
            policy: &policy,
            session: session.as_ref(),
            token: call.token.as_ref(),
            unattended: call.unattended,
            within,
            serves: whence.serves.is_some(),
        };
        let mut ruling = self
            .decide(scene, &valid, trail)
            .map_err(|unheard| trail.refuse(&unheard.into()))?;
        if let Some(session) = scene.session
            && ruling.decision.verdict == Verdict::Allow
        {
            self.count(scene, session, &valid, &mut ruling, trail)?;
        }
        match ruling.decision.verdict {
            Verdict::Deny => {
                if valid.request.syscall.name() == "session.set_mode" {
                    self.mode_refused(&valid.request);
                }
                return Err(trail.deny(&policy, &valid.request, ruling));
            }
            Verdict::RequireReview => return Err(trail.ask(scene, &valid.request, ruling)),
            Verdict::Allow => {}
        }
        let planned = self.attempt(&policy, &valid, &ruling, trail)?;
        let limit = ruling.decision.imposed.max_duration;
        valid.prepared.begun(trail.action(), limit);
        let inside = valid.within.clone();
        let inside = inside.filter(|_| valid.prepared.is_hosted());
        let _served = inside.map(|within| self.serving().begin(trail.action(), &within));
        let invoker = Invoker {
            front,
            whence,
            session: scene.session,
            unattended: call.unattended,
            action: trail.action(),
            limit,
        };
        let result = match (planned, valid.prepared.invocation().cloned()) {
            (Ok(None), Some(asked)) => self.run_agent(&policy, &valid, &ruling, &invoker, &asked),
            (planned, _) => planned.and_then(|planned| {
                self.execute(&policy, valid, &ruling, planned, attached, &invoker)
            }),
        };
        Ok(trail.finish(&policy, result))
    }
}
