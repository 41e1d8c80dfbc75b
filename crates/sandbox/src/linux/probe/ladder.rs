//! The rungs, best first, and which of them hold. Pure.

use super::feature::{Rung, State, Step};
use super::machine::{Bubble, Engine, Forbidden, Refusals, Trial};
use crate::plan::Limit;

/// Airlock's own launcher.
pub(super) fn native(trial: &Result<Trial, String>) -> Rung {
    let rung = |state, reason: String| Rung {
        launcher: Step::Native,
        state,
        reason,
    };
    let trial = match trial {
        Ok(trial) => trial,
        Err(reason) => return rung(State::Missing, reason.clone()),
    };
    let mut broken: Vec<String> = Forbidden::ALL
        .iter()
        .filter_map(|forbidden| passed(&trial.refusals, *forbidden))
        .collect();
    let limits = Limit::ALL.iter().filter_map(|limit| {
        let tried = trial.limits.get(limit).map(|limited| &limited.tried);
        match tried {
            Some(Ok(_)) => None,
            Some(Err(why)) => Some(format!("limit on {limit}: {why}")),
            None => Some(format!("limit on {limit}: it is not held")),
        }
    });
    broken.extend(limits);
    if !broken.is_empty() {
        return rung(State::Missing, broken.join("; "));
    }
    rung(
        State::Works,
        "a sandbox started, and everything forbidden was refused".to_owned(),
    )
}

/// What got past a wall, if it did: also what was never attempted.
pub(super) fn passed(refusals: &Refusals, forbidden: Forbidden) -> Option<String> {
    let name = forbidden.name();
    match refusals.get(&forbidden) {
        Some(Ok(_)) => None,
        Some(Err(what)) => Some(format!("{name}: {what}")),
        None => Some(format!("{name}: it was not attempted")),
    }
}

/// Bubblewrap: what its launcher adds by itself is not asked of it here.
pub(super) const OF_BWRAP: &[Forbidden] = &[
    Forbidden::ReadCanary,
    Forbidden::ReadShadow,
    Forbidden::ReadDenied,
    Forbidden::WriteSystem,
    Forbidden::WriteSettings,
    Forbidden::Mount,
    Forbidden::Unshare,
    Forbidden::AbstractSocket,
    Forbidden::PathSocket,
    Forbidden::Port,
    Forbidden::Kill,
    Forbidden::Memory,
];

pub(super) fn bwrap(bubble: Option<&Bubble>) -> Rung {
    let rung = |state, reason: String| Rung {
        launcher: Step::Bwrap,
        state,
        reason,
    };
    let Some(bubble) = bubble else {
        return rung(State::Missing, "it is not installed".to_owned());
    };
    let refusals = match &bubble.refusals {
        Ok(refusals) => refusals,
        Err(reason) => return rung(State::Missing, reason.clone()),
    };
    let broken: Vec<String> = OF_BWRAP
        .iter()
        .filter_map(|forbidden| passed(refusals, *forbidden))
        .collect();
    if broken.is_empty() {
        rung(
            State::Works,
            "it started, and everything forbidden was refused".to_owned(),
        )
    } else {
        rung(State::Missing, broken.join("; "))
    }
}

/// A container engine. Nothing here starts containers yet, so the rung cannot hold.
pub(super) fn container(engines: &[Engine]) -> Rung {
    let answering = engines.iter().find(|engine| engine.answers.is_ok());
    let reason = match (answering, engines.first()) {
        (Some(engine), _) => format!(
            "{} answers, but this version starts no containers",
            engine.name
        ),
        (None, Some(engine)) => format!("{} does not answer", engine.name),
        (None, None) => "no engine is installed".to_owned(),
    };
    Rung {
        launcher: Step::Container,
        state: State::Missing,
        reason,
    }
}
