//! What this machine can enforce, found out by doing it.
//!
//! [`probe`] uses each kernel feature once, starts a sandbox on a workspace of its own and attempts
//! from inside what must not succeed: reading a canary, writing the system, mounting, reaching the
//! host's sockets and processes, going over its limits, outliving its supervisor. Settings of the
//! machine are read only to explain why something failed, never to conclude that it works.
//! [`cached`] answers from a record that holds until the next boot, kernel or binary.
//!
//! Guarantee: a rung of the ladder is said to hold only if everything forbidden was attempted on it
//! and refused, and each attempt had a control that succeeded outside.
//!
//! Not guaranteed: that nothing else could break out. That is for the escape suite.
//!
//! Invariant: `judge` and `fix` are pure; whatever they know of a machine comes through
//! [`Machine`], so a test can script one that lacks anything.

mod act;
mod bubble;
mod cache;
mod engine;
mod feature;
mod fix;
mod judge;
mod kernel;
mod ladder;
mod machine;
mod minimum;
mod place;
mod real;
mod settings;
mod trial;

#[cfg(test)]
mod tests;

pub use act::{TASK, act};
pub use cache::{CacheKey, cached, remember};
pub use feature::{Feature, Finding, Findings, Rung, State, Step};
pub use machine::{
    Ability, Bubble, Cgroups, Engine, Forbidden, Limited, Machine, Refusals, StateDirectory,
    Terminal, Toolchain, Trial, Who,
};
pub use minimum::{Needed, unmet};
pub use real::{ProbeOptions, Real};

/// Finds out what the machine of `options` can enforce.
pub fn probe(options: &ProbeOptions<'_>) -> Findings {
    probe_on(&Real::new(options))
}

/// Finds out what `machine` can enforce.
pub fn probe_on(machine: &dyn Machine) -> Findings {
    judge::judge(machine)
}

/// Puts what is so now - space, terminal - in the place of what was remembered of it.
pub fn refresh(findings: &mut Findings, options: &ProbeOptions<'_>) {
    judge::refresh(findings, &Real::new(options));
}
