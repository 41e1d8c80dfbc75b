//! Asks two policies about the same past requests and shows where they differ.
//!
//! Guarantee: nothing is guessed and nothing is left out. Arguments are not in the log, so each side
//! is asked for every verdict that some arguments would give: a difference that all of them make is
//! certain, one that only some make is possible, and is said to be.
//!
//! Non-guarantees: tokens and grants are not part of a replay, and capabilities only where a
//! [`Judge`] asks about them; a change of reasons or limits alone is no difference. Conditions that
//! differ count as if each could hold without the other, so a possible difference may be none; and
//! of a possible one the limits are not known.

mod possible;

use crate::decision::{Decision, Verdict};
use crate::engine::Engine;
use airlock_core::{Request, Timestamp};
use possible::{Side, pairs};
use serde::Serialize;
use std::borrow::Cow;

/// What another policy would have changed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Replay {
    /// How many requests were decided under both.
    pub replayed: usize,
    /// How many of them may differ or not, by their arguments.
    pub undecided: usize,
    /// How many were decided without the manifest of the plugin that asked.
    pub without_manifest: usize,
    /// Where the verdicts differ or may, in the order of the requests. A request has one entry, or
    /// one for each way in which it may differ.
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
    /// Whether it is one whatever the arguments were.
    pub certain: bool,
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
    /// How many differences certainly break what worked.
    pub fn breaking(&self) -> usize {
        self.count(Change::Breaking, true)
    }

    /// How many certainly allow more.
    pub fn widening(&self) -> usize {
        self.count(Change::Widening, true)
    }

    /// How many requests may break what worked, by their arguments.
    pub fn possibly_breaking(&self) -> usize {
        self.count(Change::Breaking, false)
    }

    /// How many may allow more, by their arguments.
    pub fn possibly_widening(&self) -> usize {
        self.count(Change::Widening, false)
    }

    /// How many differences are certain.
    pub fn certain(&self) -> usize {
        self.differences.iter().filter(|one| one.certain).count()
    }

    fn count(&self, change: Change, certain: bool) -> usize {
        let same = |one: &&Difference| one.change == change && one.certain == certain;
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
    for (seq, request) in requests {
        let (asked, asking) = (old.received(request), new.received(request));
        let before = Side::of(old.engine(), &asked, old.judge(&asked, now));
        let after = Side::of(new.engine(), &asking, new.judge(&asking, now));
        replay.replayed += 1;
        if !old.knows_manifest(request) || !new.knows_manifest(request) {
            replay.without_manifest += 1;
        }
        let found = differences(*seq, request, pairs(&before, &after));
        if found.iter().any(|one| !one.certain) {
            replay.undecided += 1;
        }
        replay.differences.extend(found);
    }
    replay
}

/// What kinds of difference these decisions make, of which one was taken on `request`: each kind
/// once.
fn differences(seq: u64, request: &Request, pairs: Vec<(Decision, Decision)>) -> Vec<Difference> {
    let mut found: Vec<Difference> = Vec::new();
    let mut may_be_none = false;
    for (old, new) in pairs {
        match Change::between(old.verdict, new.verdict) {
            None => may_be_none = true,
            Some(change) if found.iter().any(|one| one.change == change) => {}
            Some(change) => found.push(Difference {
                seq,
                request: request.clone(),
                old,
                new,
                change,
                certain: false,
            }),
        }
    }
    if let [only] = found.as_mut_slice() {
        only.certain = !may_be_none;
    }
    found
}
