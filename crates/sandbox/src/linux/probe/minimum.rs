//! What policy asks for at least, and whether this machine has it. Pure.

use super::feature::{Findings, State, Step};
use super::judge::limit_features;
use crate::plan::{Class, Classes, Limit};
use airlock_core::Tier;

/// What policy asks for at least.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Needed {
    /// The least isolation foreign code may have.
    pub tier: Tier,
    /// How firmly each limit must hold.
    pub classes: Classes,
}

/// Everything of `needed` that the machine of `findings` does not have.
pub fn unmet(findings: &Findings, needed: &Needed) -> Vec<String> {
    let holds = |step: Step| {
        let mut rungs = findings.ladder.iter();
        rungs.any(|rung| rung.launcher == step && rung.state != State::Missing)
    };
    let tier = match needed.tier {
        // Guest code runs in a worker that is itself boxed.
        Tier::Kernel | Tier::Wasm | Tier::Process => findings.rung.is_some(),
        Tier::Container => holds(Step::Container),
    };
    let mut lacking = Vec::new();
    if !tier {
        lacking.push(format!("the tier `{}` cannot be had", needed.tier));
    }
    for (limit, feature) in limit_features() {
        let tried = findings
            .of(feature)
            .is_some_and(|finding| finding.state == State::Works);
        // The supervisor holds these by itself, whatever raised the walls.
        let own = matches!(limit, Limit::Duration | Limit::Output);
        let native = findings.rung == Some(Step::Native);
        let enforced = if native { tried } else { own };
        if tier && needed.classes.of(limit) == Class::Enforced && !enforced {
            lacking.push(format!("the limit `{limit}` must be enforced, and is not"));
        }
    }
    lacking
}
