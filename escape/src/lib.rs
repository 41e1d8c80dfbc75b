//! The escape suite: attacks on the sandbox by a program that means it.
//!
//! Each [`Attack`] has a control, which shows the same probe succeeding unconfined in the same
//! scene, and names the exact denials it may meet confined. The host is looked at from outside as
//! well: an attack that believes it failed and changed something has escaped.
//!
//! Not guaranteed: that there is no other way out. The table is what was thought of.
//!
//! Invariant: a row is `held` only if its control succeeded, or the row says why it could not be
//! run here (it needs root, or the host has nothing to attack).

mod attack;
mod confine;
mod judge;
mod paper;
mod scene;
mod suite;
mod table;

pub use airlock_sandbox::Launcher;
pub use attack::{Attack, Class, Control, Judge, Limit};
pub use paper::{Run, markdown};
pub use suite::{LAUNCHERS, Row, Suite, Verdict, hold};
pub use table::attacks;
