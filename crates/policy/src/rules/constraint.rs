//! Constraints of an allow: the checked ones must hold, the imposed ones bind the run.

use crate::decision::Imposed;
use crate::document::Constraints;
use airlock_core::{Effect, Request};

/// Whether the request came with a capability token that was redeemed for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenUse {
    /// It did.
    Redeemed,
    /// It did not.
    None,
}

/// The first checked constraint `request` does not meet, in words that name it and what was found.
pub(crate) fn unmet(
    constraints: &Constraints,
    request: &Request,
    token: TokenUse,
) -> Option<String> {
    if let Some(wanted) = constraints.require_sandbox
        && !request.tier.satisfies(wanted)
    {
        let tier = request.tier;
        return Some(format!(
            "`require_sandbox: {wanted}` is not met: it would run in `{tier}`"
        ));
    }
    if constraints.require_capability_token && token == TokenUse::None {
        return Some("`require_capability_token` is not met: there is no valid token".to_owned());
    }
    let limit = constraints
        .max_file_size
        .filter(|_| request.effects.contains(Effect::Write))?;
    match request.file_size {
        Some(size) if size <= limit.as_bytes() => None,
        Some(size) => Some(format!(
            "`max_file_size: {limit}` is not met: it would write {size} bytes"
        )),
        None => Some(format!(
            "`max_file_size: {limit}` is not met: the size of the write is not known"
        )),
    }
}

/// Tightens `imposed` by what `constraints` impose.
pub(crate) fn impose(imposed: &mut Imposed, constraints: &Constraints) {
    tighten(&mut imposed.max_duration, constraints.max_duration);
    tighten(&mut imposed.max_output, constraints.max_output);
    tighten(&mut imposed.max_memory, constraints.max_memory);
}

fn tighten<T: Ord + Copy>(limit: &mut Option<T>, other: Option<T>) {
    *limit = match (*limit, other) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    };
}
