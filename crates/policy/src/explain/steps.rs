//! From a decision to the steps that together would turn it into an allow.
//!
//! Guarantee: [`Steps::then`] is what the same request would get once every step is taken, as far
//! as rules go; where a step is not a change of rules, nothing is promised.

use super::fix::Fix;
use super::nearest::{Nearest, nearest};
use super::text::quoted;
use super::{allowing, elsewhere, lifting};
use crate::decision::{Contribution, Decision, Layer, Opinion, Verdict, combine};
use crate::document::Action;
use crate::rules::Policy;
use airlock_core::Request;
use std::collections::HashMap;

/// Denials for which the narrowest edit is looked for; a policy with more has other worries.
const MOST_TRIED: usize = 8;

/// Positions of rules by name.
pub(super) type Ids<'a> = HashMap<&'a str, usize>;

/// What to do, and what comes of it.
#[derive(Debug, Default)]
pub(super) struct Steps {
    pub(super) fixes: Vec<Fix>,
    pub(super) nearest: Option<Nearest>,
    /// The verdict after every step, where that is known.
    pub(super) then: Option<Verdict>,
}

/// The steps for `decision`, which `policy` took part in.
pub(super) fn steps(
    policy: &Policy,
    ids: &Ids<'_>,
    request: &Request,
    decision: &Decision,
) -> Steps {
    match decision.verdict {
        Verdict::Allow => Steps::default(),
        _ if decision.generation != policy.generation() => Steps {
            fixes: vec![elsewhere::stale()],
            ..Steps::default()
        },
        Verdict::RequireReview => Steps {
            fixes: vec![elsewhere::answer(policy, request)],
            ..Steps::default()
        },
        Verdict::Deny => lift(policy, ids, request, decision),
    }
}

fn lift(policy: &Policy, ids: &Ids<'_>, request: &Request, decision: &Decision) -> Steps {
    let built_in: Vec<Fix> = decision
        .deciding()
        .filter(|denial| denial.layer == Layer::BuiltIn)
        .map(elsewhere::built_in)
        .collect();
    // Nothing else is worth doing: no policy lifts a built-in denial.
    if !built_in.is_empty() {
        return Steps {
            fixes: built_in,
            ..Steps::default()
        };
    }
    let mut lifting = Lifting::default();
    for denial in decision.deciding() {
        lifting.one(policy, ids, request, denial);
    }
    lifting.conclude(policy, request, decision)
}

/// Steps gathered so far.
#[derive(Debug, Default)]
struct Lifting {
    fixes: Vec<Fix>,
    /// Allows that appear once their constraints hold.
    gained: Vec<Opinion>,
    /// A step that is no change of rules: what follows it is not known.
    outside: bool,
    /// Whether rules and extensions were left out because something denied before them.
    unasked: bool,
}

impl Lifting {
    fn one(&mut self, policy: &Policy, ids: &Ids<'_>, request: &Request, denial: &Contribution) {
        match denial.layer {
            Layer::Rules => self.rule(policy, ids.get(&*denial.rule), request),
            Layer::Capability => {
                self.outside = true;
                self.unasked = true;
                self.fixes
                    .push(elsewhere::capability(policy, request, denial));
            }
            Layer::Extension => self.elsewhere(elsewhere::extension(policy, denial)),
            Layer::Token => {
                self.unasked = true;
                self.elsewhere(elsewhere::token());
            }
            Layer::Grant => {
                self.unasked = true;
                self.elsewhere(elsewhere::grant());
            }
            Layer::Gate => {
                self.unasked = true;
                self.elsewhere(elsewhere::unattended());
            }
            Layer::BuiltIn | Layer::Default => {}
        }
    }

    fn elsewhere(&mut self, fix: Fix) {
        self.outside = true;
        self.fixes.push(fix);
    }

    fn rule(&mut self, policy: &Policy, id: Option<&usize>, request: &Request) {
        let Some((id, rule)) = id.and_then(|id| Some((*id, policy.rules.get(*id)?))) else {
            self.outside = true;
            return;
        };
        if rule.action == Action::Allow {
            self.gained.push(Opinion::Allow);
            self.fixes.extend(lifting::constraints(policy, request, id));
        } else if self.fixes.len() < MOST_TRIED {
            self.fixes.extend(lifting::narrow(policy, request, id));
        } else {
            self.fixes.extend(lifting::narrow_somehow(policy, id));
        }
    }

    fn conclude(mut self, policy: &Policy, request: &Request, decision: &Decision) -> Steps {
        let kept = decision.contributions.iter().map(|one| one.opinion);
        let mut after: Vec<Opinion> = kept.filter(|one| *one != Opinion::Deny).collect();
        after.append(&mut self.gained);
        let mut closest = None;
        if combine(after.iter().copied()) == Verdict::Deny && !self.unasked {
            closest = nearest(policy, request);
            let allow = allowing::allow(policy, request, closest.as_ref());
            self.outside |= !is_change(&allow);
            self.fixes.push(allow);
            after.push(Opinion::Allow);
        }
        let then = (!self.outside).then(|| combine(after));
        Steps {
            fixes: said_together(self.fixes, policy, decision, then),
            nearest: closest,
            then,
        }
    }
}

fn is_change(fix: &Fix) -> bool {
    fix.remedy != super::fix::Remedy::Otherwise
}

/// Says of several steps that all are needed, and of the last what comes after it.
fn said_together(
    mut fixes: Vec<Fix>,
    policy: &Policy,
    decision: &Decision,
    then: Option<Verdict>,
) -> Vec<Fix> {
    for fix in fixes.iter_mut().skip(1) {
        fix.text = format!("also needed: {}", fix.text);
    }
    if let (Some(verdict), Some(last)) = (then, fixes.last_mut()) {
        let after = afterwards(policy, decision, verdict);
        // A rule to paste stands on lines of its own.
        let pasted = last.text.contains('\n');
        let between = if pasted { "\n" } else { ", " };
        last.text = format!("{}{between}{after}", last.text.trim_end());
    }
    fixes
}

fn afterwards(policy: &Policy, decision: &Decision, then: Verdict) -> String {
    let mut text = "then: airlock policy update FILE".to_owned();
    if then == Verdict::RequireReview {
        let review = decision
            .contributions
            .iter()
            .find(|one| one.opinion == Opinion::RequireReview);
        let rule = review.map_or_else(String::new, |one| format!(" rule {}", quoted(&one.rule)));
        text = format!("{text};{rule} still asks for a person's approval");
    }
    let asked = |one: &Contribution| one.layer == Layer::Extension;
    if !policy.document().extensions.is_empty() && !decision.contributions.iter().any(asked) {
        text.push_str("; the extensions are asked then");
    }
    text
}
