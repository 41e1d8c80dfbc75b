//! The test-first discipline on the road: where a session stands, what leads on, and what its runs
//! and merges prove.
//!
//! The steps themselves are decided by `airlock-phases`, which is pure. Here the facts are found -
//! what the stage changes, what the kernel's own run of the tests showed, what a person approved -
//! and the result is kept with the session. What may be written is a matter of rules; the two
//! exceptions to them, exemptions and inline tests, are in [`Held`].
//!
//! Guarantee: no step is taken on anything a caller says. A run counts if the kernel ran it, whole,
//! and the stage is still what it was; an approval counts for the changes it was given for.
//!
//! Non-guarantee: a session outside the discipline is not touched by any of this.

mod anew;
mod automatic;
mod challenge;
mod clean;
mod covering;
mod ended;
mod facts;
mod hearing;
mod held;
mod kept;
mod merging;
mod mutating;
mod named;
mod sites;
mod tested;
mod tools;
mod trial;

pub(crate) use held::{After, Held};
pub(crate) use merging::unavailable;
pub(crate) use tested::Again;
pub(crate) use tools::register;
