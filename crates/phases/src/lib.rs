//! Test first as a state machine: states, guards, exemptions, coverage budget. Pure: no I/O, no
//! clock.
//!
//! [`step`] takes where a session stands, what happened and the facts, and gives back where it
//! stands next, or the guard that failed with what would make it hold. What the facts say comes
//! from runs and files that the kernel looked at itself; reading them is here, too: what a test run
//! proves ([`judge`]), which tests a file holds ([`tests_of`]), whether a change of a Rust file
//! touches nothing but its inline tests ([`only_tests_differ`]), and mutations that a test worth
//! its name notices ([`mutants`], and [`coarse`] and [`fine`] where it is to be told whether it looks at
//! anything at all).
//!
//! Non-guarantee: a runner's output is text that the tests themselves can imitate. Whoever writes
//! the tests can lie about them; the exit status, the stage's digest and the mutations are what
//! makes lying hard.
//!
//! Invariant: a state is only ever left by a row of the table in `machine.rs`, and what may be
//! written in it is [`writable`]'s to say.

mod blank;
mod coverage;
mod exemption;
mod functions;
mod guards;
mod heard;
mod inline;
mod machine;
mod mutation;
mod node;
mod progress;
mod report;
mod roster;
mod runs;
mod smuggled;
mod suite;
mod table;
mod trial;
mod values;
mod variants;
mod whence;

pub use coverage::{Coverage, Ledger, Loss};
pub use exemption::{Category, Exemption};
pub use heard::{Heard, Mutated};
pub use inline::{inline_tests, only_tests_differ, product_of};
pub use machine::{Effects, Event, Facts, Guard, Refusal, advance_event, mode_switch, step};
pub use mutation::{Mutant, Sample, mutants, samples};
pub use progress::{Changed, Place, Progress, Route, Spans, TestRun, Unsure};
pub use report::{LineSet, Lines, go_module, newly_covered, parse_go_profile, parse_lcov};
pub use roster::{Ended, Known, Printed, Roster};
pub use runs::{Framework, Observed, Proof, Reading, judge, names, stopped};
pub use smuggled::{TestFile, Tree, names_tests, newly_evaluates, taken_from_tests};
pub use suite::{Language, TestItem, lost_tests, new_tests, tests_of};
pub use table::{Writable, writable};
pub use trial::{Edit, Ground, Mutation, apart, coarse, fine};
