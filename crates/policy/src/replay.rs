//! Asks two policies about the same past requests and shows where they differ.
//!
//! Guarantee: nothing is guessed. Arguments are not in the log, so a request whose decision may
//! hang on them, under either policy, is counted as undecided: unless a denial settles it whatever
//! the arguments were.
//!
//! Non-guarantees: tokens and grants are not part of a replay, and capabilities only where a
//! [`Judge`] asks about them; a change of reasons or limits alone is no difference.

use crate::decision::{Contribution, Decision, Layer, Verdict};
use crate::document::Action;
use crate::engine::Engine;
use crate::rules::Policy;
use airlock_core::{Request, Timestamp};
use serde::Serialize;
use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

/// What another policy would have changed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Replay {
    /// How many requests were decided under both.
    pub replayed: usize,
    /// How many could not be, for want of their arguments.
    pub undecided: usize,
    /// How many were decided without the manifest of the plugin that asked.
    pub without_manifest: usize,
    /// Where the verdicts differ, in the order of the requests.
    pub differences: Vec<Difference>,
}

/// A request the two policies judge differently.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Difference {
    /// Its number in the log.
    pub seq: u64,
    /// The request.
    pub request: Request,
    /// The decision under the old policy.
    pub old: Decision,
    /// The decision under the new one.
    pub new: Decision,
    /// What kind of difference it is.
    pub change: Change,
}

/// What a difference means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// What was allowed is denied.
    Breaking,
    /// What was denied is allowed, or what needed a person no longer does.
    Widening,
    /// Anything else that differs: a person is asked who was not, or no longer can be.
    Other,
}

impl Change {
    /// The kind of difference between two verdicts; `None` if there is none.
    pub const fn between(old: Verdict, new: Verdict) -> Option<Self> {
        use Verdict::{Allow, Deny, RequireReview};
        match (old, new) {
            (Allow, Allow) | (Deny, Deny) | (RequireReview, RequireReview) => None,
            (Allow, Deny) => Some(Self::Breaking),
            // Without a person is more than with one: a reviewer must not miss it.
            (Deny | RequireReview, Allow) => Some(Self::Widening),
            (Allow | Deny, RequireReview) | (RequireReview, Deny) => Some(Self::Other),
        }
    }
}

impl Replay {
    /// How many differences break what worked.
    pub fn breaking(&self) -> usize {
        self.count(Change::Breaking)
    }

    /// How many differences allow more.
    pub fn widening(&self) -> usize {
        self.count(Change::Widening)
    }

    fn count(&self, change: Change) -> usize {
        let same = |difference: &&Difference| difference.change == change;
        self.differences.iter().filter(same).count()
    }
}

/// One side of a replay: an engine, and whatever else has a say where it is in force.
pub trait Judge {
    /// The engine.
    fn engine(&self) -> &Engine;

    /// A past request as it would come to this judge: who asks may have other tags by now.
    fn received<'r>(&self, request: &'r Request) -> Cow<'r, Request> {
        Cow::Borrowed(request)
    }

    /// Whether what the plugin that asks was granted is known.
    fn knows_manifest(&self, _request: &Request) -> bool {
        true
    }

    /// What is decided about `request`.
    fn judge(&self, request: &Request, now: Timestamp) -> Decision {
        self.engine().decide(request, None, now)
    }
}

impl Judge for Engine {
    fn engine(&self) -> &Engine {
        self
    }
}

/// Decides every request, by its number in the log, under both judges, as of `now`.
pub fn replay(
    requests: &[(u64, Request)],
    old: &impl Judge,
    new: &impl Judge,
    now: Timestamp,
) -> Replay {
    let mut replay = Replay {
        replayed: 0,
        undecided: 0,
        without_manifest: 0,
        differences: Vec::new(),
    };
    let (old_side, new_side) = (Side::of(old.engine()), Side::of(new.engine()));
    for (seq, request) in requests {
        let (asked, asking) = (old.received(request), new.received(request));
        let before = old.judge(&asked, now);
        let after = new.judge(&asking, now);
        if !old_side.settles(&asked, &before) || !new_side.settles(&asking, &after) {
            replay.undecided += 1;
            continue;
        }
        replay.replayed += 1;
        if !old.knows_manifest(request) || !new.knows_manifest(request) {
            replay.without_manifest += 1;
        }
        if let Some(change) = Change::between(before.verdict, after.verdict) {
            replay.differences.push(Difference {
                seq: *seq,
                request: request.clone(),
                old: before,
                new: after,
                change,
            });
        }
    }
    replay
}

/// One engine, with the names of its policy's denials.
struct Side<'a> {
    engine: &'a Engine,
    policy: Arc<Policy>,
    denials: HashSet<Arc<str>>,
}

impl<'a> Side<'a> {
    fn of(engine: &'a Engine) -> Self {
        let policy = engine.policy();
        let denials = policy.rules.iter();
        Self {
            engine,
            denials: denials
                .filter(|rule| rule.action == Action::Deny)
                .map(|rule| Arc::clone(&rule.name))
                .collect(),
            policy,
        }
    }

    /// Whether `decision` would be the same whatever the arguments were.
    fn settles(&self, request: &Request, decision: &Decision) -> bool {
        if !request.arguments.is_null() || self.is_firm(decision) {
            return true;
        }
        // A script may look at anything.
        let scripted = |one: &Contribution| one.layer == Layer::Extension;
        !decision.contributions.iter().any(scripted)
            && !self.engine.built_ins().asks_arguments(request)
            && !self.policy.asks_arguments(request)
    }

    /// Whether some denial holds whatever the arguments were: a rule that matched without them has
    /// no condition on them, and a denial has no exceptions. An allow that denies for its
    /// constraints may have one.
    fn is_firm(&self, decision: &Decision) -> bool {
        decision.verdict == Verdict::Deny
            && decision.deciding().any(|denial| match denial.layer {
                Layer::Rules => self.denials.contains(&denial.rule),
                Layer::BuiltIn | Layer::Capability => true,
                Layer::Extension | Layer::Token | Layer::Grant | Layer::Gate | Layer::Default => {
                    false
                }
            })
    }
}
