//! Every pair of verdicts that two policies may have given of one request, whatever its arguments
//! were.
//!
//! What hangs on arguments either speaks or does not. What hangs on the same conditions speaks under
//! both policies or under neither, so a rule that both have makes no difference. Conditions that
//! differ are taken as free of each other, which can only add pairs.
//!
//! Invariant: the true pair of verdicts is among those returned.

use crate::decision::{Contribution, Decision, Layer, Opinion, Verdict};
use crate::document::Extension;
use crate::engine::Engine;
use crate::rules::{Hanging, means};
use airlock_core::Request;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// What one engine says of a request, and what it may say besides.
pub(super) struct Side<'a> {
    engine: &'a Engine,
    /// As it was decided without arguments.
    decided: Decision,
    /// What is said whatever the arguments are.
    firm: Vec<Contribution>,
    /// What is said by some arguments.
    hanging: Vec<Hanging>,
}

/// What is said together, if it is said.
#[derive(Debug, Default)]
struct Turn {
    old: Vec<Contribution>,
    new: Vec<Contribution>,
}

/// Which opinions were given, of those that make a verdict.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
struct Kinds {
    allow: bool,
    review: bool,
    deny: bool,
}

/// A way it may have been.
#[derive(Debug)]
struct State<'t> {
    old: Kinds,
    new: Kinds,
    taken: Vec<&'t Turn>,
}

impl<'a> Side<'a> {
    /// What `engine` says of `request`, of which `decided` was decided.
    pub(super) fn of(engine: &'a Engine, request: &Request, decided: Decision) -> Self {
        let mut hanging = Vec::new();
        if request.arguments.is_null() {
            hanging = engine.built_ins().hanging(request);
            hanging.extend(engine.policy().hanging(request));
            hanging.extend(scripts(engine, request));
        }
        let hangs = |one: &Contribution| {
            let mut loose = hanging.iter().map(|loose: &Hanging| &loose.said);
            loose.any(|said| (said.layer, &said.rule) == (one.layer, &one.rule))
        };
        let contributions = decided.contributions.iter();
        let firm: Vec<Contribution> = contributions
            // The default is not said, it is what is left.
            .filter(|one| one.layer != Layer::Default && !hangs(one))
            .cloned()
            .collect();
        if firm.iter().any(|one| one.opinion == Opinion::Deny) {
            // A denial holds whatever else is said.
            hanging.clear();
        }
        Self {
            engine,
            decided,
            firm,
            hanging,
        }
    }

    /// The decision where this is said besides.
    fn with<'c>(&self, said: impl Iterator<Item = &'c Contribution>) -> Decision {
        let mut decision = Decision {
            verdict: Verdict::Deny,
            contributions: self.firm.iter().cloned().chain(said.cloned()).collect(),
            imposed: self.decided.imposed,
            generation: self.decided.generation,
        };
        self.engine.conclude(&mut decision);
        decision
    }
}

/// What the scripts may say of `request`: anything, because they may look at anything.
fn scripts(engine: &Engine, request: &Request) -> Vec<Hanging> {
    let policy = engine.policy();
    let mut hanging = Vec::new();
    for name in engine.extensions().names() {
        let mut listed = policy.document().extensions.iter();
        let listed: Option<&Extension> = listed.find(|one| one.name == *name);
        let words = listed.and_then(|one| one.syscall.as_deref());
        if words.is_some_and(|words| !means(words, request.syscall)) {
            continue;
        }
        for opinion in [Opinion::Allow, Opinion::RequireReview, Opinion::Deny] {
            // The same script, asked by the same caller, says the same.
            let on = format!("{:?}", (name, listed, &request.caller.tags, opinion));
            hanging.push(Hanging {
                on,
                said: Contribution {
                    layer: Layer::Extension,
                    rule: Arc::clone(name),
                    opinion,
                    reason: "it may look at the arguments".into(),
                },
            });
        }
    }
    hanging
}

/// The decisions that may have been taken under both, for every pair of verdicts at least one.
pub(super) fn pairs(old: &Side<'_>, new: &Side<'_>) -> Vec<(Decision, Decision)> {
    if old.hanging.is_empty() && new.hanging.is_empty() {
        return vec![(old.decided.clone(), new.decided.clone())];
    }
    let turns = turns(old, new);
    let mut states = vec![State {
        old: Kinds::of(&old.firm),
        new: Kinds::of(&new.firm),
        taken: Vec::new(),
    }];
    for turn in &turns {
        let more: Vec<State<'_>> = states.iter().map(|state| state.with(turn)).collect();
        for next in more {
            if !states.iter().any(|state| state.is_like(&next)) {
                states.push(next);
            }
        }
    }
    let decisions = |state: &State<'_>| {
        let taken = || state.taken.iter();
        (
            old.with(taken().flat_map(|turn| &turn.old)),
            new.with(taken().flat_map(|turn| &turn.new)),
        )
    };
    states.iter().map(decisions).collect()
}

/// What hangs on the same, together; of several that come to the same, one.
fn turns(old: &Side<'_>, new: &Side<'_>) -> Vec<Turn> {
    let mut by_hinge: BTreeMap<&str, Turn> = BTreeMap::new();
    for one in &old.hanging {
        let turn = by_hinge.entry(&one.on).or_default();
        turn.old.push(one.said.clone());
    }
    for one in &new.hanging {
        let turn = by_hinge.entry(&one.on).or_default();
        turn.new.push(one.said.clone());
    }
    let mut known = HashSet::new();
    let mut turns: Vec<Turn> = by_hinge.into_values().collect();
    turns.retain(|turn| known.insert((Kinds::of(&turn.old), Kinds::of(&turn.new))));
    turns
}

impl Kinds {
    fn of(said: &[Contribution]) -> Self {
        let given = |opinion| said.iter().any(|one| one.opinion == opinion);
        Self {
            allow: given(Opinion::Allow),
            review: given(Opinion::RequireReview),
            deny: given(Opinion::Deny),
        }
    }

    const fn and(self, other: Self) -> Self {
        Self {
            allow: self.allow || other.allow,
            review: self.review || other.review,
            deny: self.deny || other.deny,
        }
    }
}

impl<'t> State<'t> {
    /// This, and `turn` is said as well.
    fn with(&self, turn: &'t Turn) -> Self {
        let mut taken = self.taken.clone();
        taken.push(turn);
        Self {
            old: self.old.and(Kinds::of(&turn.old)),
            new: self.new.and(Kinds::of(&turn.new)),
            taken,
        }
    }

    fn is_like(&self, other: &State<'_>) -> bool {
        (self.old, self.new) == (other.old, other.new)
    }
}
