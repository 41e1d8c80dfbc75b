//! An agent's hands: its calls on the road, and the questions to its model.

use super::child::AgentCaller;
use super::told::{self, handed};
use crate::cancel;
use crate::fronts::{Front, Whence};
use crate::kernel::Kernel;
use crate::road::{Call, Outcome, Review};
use airlock_agent::{Asking, Handed, Hands, Leave, NoLeave, Spent, Tool};
use airlock_core::SessionId;
use airlock_model::{Cancel, Status};
use airlock_policy::approval::BudgetLeft;
use airlock_state::{Owner, Session, SessionState, Spent as Charged, StateError};
use serde_json::{Map, Value, json};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What the calls of one agent share.
pub(super) struct KernelHands<'k> {
    pub(super) kernel: &'k Kernel,
    pub(super) agent: Arc<AgentCaller>,
    /// As whom it acts.
    pub(super) acts: (Front, Whence),
    /// As whom its questions are put: whoever invoked it.
    pub(super) asks: (Front, Whence),
    /// The session its calls belong to.
    pub(super) acting: SessionId,
    pub(super) owner: Owner,
    pub(super) unattended: bool,
    pub(super) tools: Vec<Tool>,
    /// What is under way, to be taken back with the agent.
    pub(super) under_way: Mutex<Vec<cancel::Cancel>>,
    /// Calls that wait for a person.
    pub(super) waiting: Mutex<Vec<Review>>,
    /// Why the last question might not be put, in a word.
    pub(super) refusal: Mutex<Option<&'static str>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing is left half done under these locks.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl KernelHands<'_> {
    /// Takes back whatever is under way.
    pub(super) fn take_back(&self) {
        let under_way = locked(&self.under_way).clone();
        for call in under_way {
            call.cancel();
        }
    }

    /// Makes `call`, which [`KernelHands::take_back`] takes back.
    fn submit(&self, front: Front, whence: &Whence, mut call: Call, cancel: &Cancel) -> Outcome {
        call.session = Some(self.acting.clone());
        call.unattended = self.unattended;
        let own = cancel::Cancel::new();
        locked(&self.under_way).push(own.clone());
        // Taken back before it was listed: whoever did found nothing to take back.
        if cancel.is_cancelled() {
            own.cancel();
        }
        let outcome = own.cover(|| self.kernel.submit_from(front, whence, &call, None));
        locked(&self.under_way).retain(|one| !one.is_same(&own));
        outcome
    }

    fn is_own(&self, id: &SessionId) -> bool {
        self.agent.chain.last() == Some(id)
    }

    fn charge(&self, id: &SessionId, spent: Charged) -> Result<Option<Session>, StateError> {
        let now = self.kernel.clock().now();
        let spent = Charged {
            by_child: !self.is_own(id),
            ..spent
        };
        self.kernel
            .state()?
            .charge(&self.owner, id, spent, None, now)
    }

    /// Counts a call with every agent it is made for; the road counts it with the session it
    /// belongs to. Says whose calls are used up, if some are.
    fn count(&self) -> Result<(), String> {
        let spent = Charged {
            calls: 1,
            ..Charged::default()
        };
        let above = self.agent.chain.iter().filter(|id| **id != self.acting);
        for id in above {
            let session = self.charge(id, spent).map_err(|error| error.to_string())?;
            let over = session.filter(|session| {
                let most = session.budget.calls;
                most.is_some_and(|most| session.used.calls > most)
            });
            if let Some(over) = over {
                let whose = over.agent.unwrap_or_default();
                return Err(format!("the tool calls of agent `{whose}` are used up"));
            }
        }
        Ok(())
    }

    fn refuse(&self, code: &'static str, what: String, fix: Option<String>) -> NoLeave {
        *locked(&self.refusal) = Some(code);
        NoLeave {
            what,
            why: Vec::new(),
            fix: fix.into_iter().collect(),
        }
    }

    fn unknown(&self, error: &StateError) -> NoLeave {
        let what = format!("what was spent cannot be looked up or counted: {error}");
        self.refuse("state_unavailable", what, error.hint().map(str::to_owned))
    }

    /// What is left above and of its own, unless the question goes over what its own definition,
    /// or that of an agent it works for, allows.
    fn left(&self, asking: &Asking<'_>) -> Result<Vec<BudgetLeft>, NoLeave> {
        let state = self.kernel.state().map_err(|error| self.unknown(&error))?;
        let mut left = Vec::new();
        for id in &self.agent.chain {
            let found = state.session(&self.owner, id);
            let Some(session) = found.map_err(|error| self.unknown(&error))? else {
                continue;
            };
            if session.state != SessionState::Active {
                let what = format!("its session `{id}` is {}", session.state);
                return Err(self.refuse("session_ended", what, None));
            }
            let over = session.exceeded_by_question(asking.tokens, asking.cost_micros());
            if let Some(over) = over {
                let whose = session.agent.unwrap_or_default();
                let what = format!("the budget of agent `{whose}` does not cover it: {over}");
                let fix = "give it less to do, or a larger `budget` where it is defined";
                return Err(self.refuse("agent_budget", what, Some(fix.to_owned())));
            }
            left.push(session.left());
        }
        if !self.agent.chain.contains(&self.acting) {
            let found = state.session(&self.owner, &self.acting);
            let found = found.map_err(|error| self.unknown(&error))?;
            left.extend(found.map(|session| session.left()));
        }
        Ok(left)
    }
}

impl Hands for KernelHands<'_> {
    fn tools(&self) -> Vec<Tool> {
        self.tools.clone()
    }

    fn call(&self, name: &str, arguments: &Map<String, Value>, cancel: &Cancel) -> Handed {
        let taken_back = || told::own(Status::Cancelled, "the call was taken back".to_owned());
        if cancel.is_cancelled() {
            return taken_back();
        }
        if let Err(what) = self.count() {
            return told::own(Status::Denied, what);
        }
        let call = Call::new(name, Value::Object(arguments.clone()));
        let (front, whence) = &self.acts;
        let outcome = self.submit(*front, whence, call, cancel);
        let came = if let Outcome::NeedsReview(review) = outcome {
            let pending = told::handed_pending(&review);
            locked(&self.waiting).push(*review);
            pending
        } else {
            handed(outcome)
        };
        // What came to its end before it could be taken back happened; what was taken back on the
        // way says so itself, with what it had to say until then.
        let settled = matches!(came.status, Status::Ok | Status::Cancelled);
        if cancel.is_cancelled() && !settled {
            return taken_back();
        }
        came
    }

    fn phase(&self) -> Option<String> {
        let state = self.kernel.state().ok()?;
        let session = state.session(&self.owner, &self.acting).ok()??;
        let held = session.progress.is_some();
        held.then(|| format!("{} mode, {}", session.mode, session.phase))
    }

    fn leave(&self, asking: Asking<'_>) -> Result<Leave, NoLeave> {
        let left = self.left(&asking)?;
        let mut call = Call::new(
            "model.chat",
            json!({
                "model": asking.model,
                "hosts": asking.hosts,
                "tokens": asking.tokens,
                "cost_micros": asking.cost_micros(),
            }),
        );
        call.asks = true;
        let (front, whence) = &self.asks;
        match self.submit(*front, whence, call, &Cancel::new()) {
            Outcome::Done(_) => {}
            Outcome::Denied(denied) => {
                let fix = denied.explanation.fixes().next();
                let what = denied.explanation.headline().to_owned();
                return Err(self.refuse("denied", what, fix));
            }
            Outcome::NeedsReview(review) => {
                let fix = review.how_to_answer();
                let reasons = review.decision.deciding().map(|one| one.reason.to_string());
                let what = reasons.collect::<Vec<_>>().join("; ");
                locked(&self.waiting).push(*review);
                let what = format!("it needs a person's approval: {what}");
                return Err(self.refuse("needs_review", what, Some(fix)));
            }
            Outcome::Failed(failed) => {
                return Err(self.refuse(failed.code, failed.what, failed.fix));
            }
        }
        let answers = left
            .iter()
            .filter_map(|left| asking.answer_within(left.tokens, left.cost_micros));
        Ok(Leave {
            // What a person let go beyond its budget is not cut to nothing by it.
            answer: answers.min().filter(|most| *most > 0),
        })
    }

    fn spend(&self, spent: Spent) -> Result<(), NoLeave> {
        if spent == Spent::default() {
            return Ok(());
        }
        let charged = Charged {
            turns: spent.turns,
            tokens: spent.tokens,
            cost_micros: spent.cost_micros,
            ..Charged::default()
        };
        let mut sessions: Vec<&SessionId> = self.agent.chain.iter().collect();
        if !sessions.contains(&&self.acting) {
            sessions.push(&self.acting);
        }
        for id in sessions {
            self.charge(id, charged)
                .map_err(|error| self.unknown(&error))?;
        }
        Ok(())
    }
}
