//! Fuzz targets for every parser of untrusted bytes, and a driver that needs no nightly compiler.
//!
//! A target is a function over bytes that panics when an invariant of the parser breaks. The
//! driver mutates seeds without looking at coverage: cheap enough to run with every test, and the
//! same seed always gives the same inputs. It does not replace a long coverage-guided hunt.

mod artifact;
mod driver;
mod mutate;
mod rng;
mod targets;
mod watchdog;

pub use artifact::keep;
pub use driver::{Budget, Failure, HANG, Reason, SLOW, Stats, fuzz, replay};
pub use targets::{TARGETS, Target, find};
