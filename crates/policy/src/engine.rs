//! Decides: built-in rules, then a token or the policy's rules and the extensions, to one result.
//!
//! Guarantees: deny wins, nothing in favour is a denial, and the order of rules never matters. A
//! decision sees one policy from beginning to end; [`Engine::reload`] swaps policies atomically.
//! A valid token skips the policy's rules and the extensions, never the built-in ones, and its own
//! constraints hold.
//!
//! Non-guarantees: the engine checks no capability and redeems no token; the caller does both with
//! the time it took at the start and hands the outcome in.

use crate::decision::{
    Contribution, Contributions, Decision, Generation, Imposed, Layer, Opinion, Verdict, combine,
};
use crate::extension::ExtensionHost;
use crate::rules::Policy;
use crate::rules::built_in::BuiltIns;
use crate::rules::conditions::Asked;
use crate::rules::constraint::{self, TokenUse};
use crate::token::Redeemed;
use airlock_core::{Request, Timestamp, UnknownSyscall};
use arc_swap::ArcSwap;
use std::sync::Arc;

/// The three layers and what decides over them.
#[derive(Debug)]
pub struct Engine {
    policy: ArcSwap<Policy>,
    built_ins: BuiltIns,
    extensions: ExtensionHost,
    texts: Texts,
}

/// Whether the rules on a session's state are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Discipline {
    Holds,
    Excepted,
}

/// Texts of contributions that belong to no rule, made once.
#[derive(Debug)]
struct Texts {
    default_rule: Arc<str>,
    default_reason: Arc<str>,
    token_reason: Arc<str>,
}

impl Engine {
    /// An engine over these layers.
    pub fn new(policy: Policy, built_ins: BuiltIns, extensions: ExtensionHost) -> Self {
        Self {
            policy: ArcSwap::from_pointee(policy),
            built_ins,
            extensions,
            texts: Texts {
                default_rule: "default".into(),
                default_reason: "no rule allows this".into(),
                token_reason: "a valid token covers this".into(),
            },
        }
    }

    /// The policy in force.
    pub fn policy(&self) -> Arc<Policy> {
        self.policy.load_full()
    }

    /// The generation of the policy in force.
    pub fn generation(&self) -> Generation {
        self.policy.load().generation()
    }

    /// Puts another policy in force. Decisions under way finish with the one they began with.
    pub fn reload(&self, policy: Policy) {
        self.policy.store(Arc::new(policy));
    }

    /// The extensions, to reload or inspect.
    pub const fn extensions(&self) -> &ExtensionHost {
        &self.extensions
    }

    /// The built-in layer.
    pub(crate) const fn built_ins(&self) -> &BuiltIns {
        &self.built_ins
    }

    /// Decides on `request`. `token` was redeemed for exactly this request, `now` is the time the
    /// whole evaluation goes by.
    pub fn decide(&self, request: &Request, token: Option<&Redeemed>, now: Timestamp) -> Decision {
        self.decide_by(request, token, now, Discipline::Holds)
    }

    /// The same for what the discipline's own exceptions allow: everything else is still asked.
    pub fn decide_past_phases(
        &self,
        request: &Request,
        token: Option<&Redeemed>,
        now: Timestamp,
    ) -> Decision {
        self.decide_by(request, token, now, Discipline::Excepted)
    }

    fn decide_by(
        &self,
        request: &Request,
        token: Option<&Redeemed>,
        now: Timestamp,
        discipline: Discipline,
    ) -> Decision {
        let asked = Asked::new(request);
        match token {
            Some(token) => self.decide_by_token(asked, token, discipline),
            None => self.decide_by_rules(asked, now, discipline),
        }
    }

    /// Under the policy the token was redeemed for: no rule of the one in force is asked, but for
    /// those a session's state is held by.
    fn decide_by_token(
        &self,
        asked: Asked<'_>,
        token: &Redeemed,
        discipline: Discipline,
    ) -> Decision {
        let mut decision = undecided(token.generation);
        self.built_ins.evaluate(asked, &mut decision.contributions);
        if discipline == Discipline::Holds && asked.request.caller.phase.is_some() {
            let policy = self.policy.load();
            policy.evaluate_phases(asked.request, &mut decision.contributions);
        }
        self.honour(token, asked.request, &mut decision);
        self.conclude(&mut decision);
        decision
    }

    fn decide_by_rules(
        &self,
        asked: Asked<'_>,
        now: Timestamp,
        discipline: Discipline,
    ) -> Decision {
        let policy = self.policy.load();
        let mut decision = undecided(policy.generation());
        let contributions = &mut decision.contributions;
        self.built_ins.evaluate(asked, contributions);
        if discipline == Discipline::Holds {
            policy.evaluate_phases(asked.request, contributions);
        }
        policy.evaluate(asked, contributions, &mut decision.imposed);
        if !denied(contributions) {
            self.extensions.evaluate(asked.request, now, contributions);
        }
        self.conclude(&mut decision);
        decision
    }

    /// Who of the built-in rules and the policy's says no to `request`, whatever else is said. None
    /// where nobody does; no extension is asked.
    pub fn objection(&self, request: &Request) -> Option<Contribution> {
        let mut said = self.said(request).into_iter();
        said.find(|one| one.opinion == Opinion::Deny)
    }

    /// The same, and who wants a person to look.
    pub fn reservation(&self, request: &Request) -> Option<Contribution> {
        let mut said = self.said(request).into_iter();
        said.find(|one| one.opinion != Opinion::Allow)
    }

    fn said(&self, request: &Request) -> Contributions {
        let (asked, policy) = (Asked::new(request), self.policy.load());
        let mut contributions = Contributions::new();
        self.built_ins.evaluate(asked, &mut contributions);
        policy.evaluate(asked, &mut contributions, &mut Imposed::default());
        contributions
    }

    /// The decision on a syscall that does not exist.
    pub fn refuse_unknown(&self, unknown: &UnknownSyscall) -> Decision {
        let contribution = Contribution {
            layer: Layer::Default,
            rule: "unknown-syscall".into(),
            opinion: Opinion::Deny,
            reason: unknown.to_string().into(),
        };
        let mut decision = undecided(self.generation());
        decision.contributions.push(contribution);
        self.conclude(&mut decision);
        decision
    }

    /// Adds a token's word: an allow, unless what it is held to does not hold.
    fn honour(&self, token: &Redeemed, request: &Request, decision: &mut Decision) {
        let unmet = constraint::unmet(&token.constraints, request, TokenUse::Redeemed);
        let (opinion, reason) = match unmet {
            Some(why) => (Opinion::Deny, why.into()),
            None => (Opinion::Allow, Arc::clone(&self.texts.token_reason)),
        };
        constraint::impose(&mut decision.imposed, &token.constraints);
        decision.contributions.push(Contribution {
            layer: Layer::Token,
            rule: Arc::clone(&token.name),
            opinion,
            reason,
        });
    }

    /// Makes the verdict out of what was said.
    pub(crate) fn conclude(&self, decision: &mut Decision) {
        let contributions = &mut decision.contributions;
        decision.verdict = combine(contributions.iter().map(|one| one.opinion));
        if decision.verdict == Verdict::Deny && !denied(contributions) {
            contributions.push(Contribution {
                layer: Layer::Default,
                rule: Arc::clone(&self.texts.default_rule),
                opinion: Opinion::Deny,
                reason: Arc::clone(&self.texts.default_reason),
            });
        }
    }
}

/// A decision nobody has said anything to: no. It is filled where it stands, because moving one
/// costs as much as asking a rule.
fn undecided(generation: Generation) -> Decision {
    Decision {
        verdict: Verdict::Deny,
        contributions: Contributions::new(),
        imposed: Imposed::default(),
        generation,
    }
}

fn denied(contributions: &[Contribution]) -> bool {
    contributions.iter().any(|one| one.opinion == Opinion::Deny)
}
