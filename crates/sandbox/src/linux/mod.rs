//! The launchers for Linux: the native one, and [`bwrap`], which shares its supervisor's side.
//!
//! [`prepared`] makes a child in namespaces of its own, [`resolve`] looks up what a launch means on
//! this machine, [`compile`] makes steps of it, [`sys`] carries them out in the child, which ends up
//! as init of a sandbox, and [`sandbox`] and [`supervise`] are its supervisor's side. [`nursery`] makes
//! such children for a process that stays. [`underlay`] is how one command after the other sees the
//! host's trees as they are by then.

mod beside;
mod broker;
mod bwrap;
mod collector;
mod compile;
mod control;
mod hold;
mod identity;
mod landlock;
mod led;
mod limits;
mod nursery;
mod outlet;
mod prepared;
pub mod probe;
mod program;
mod pump;
mod request;
mod resolve;
mod sandbox;
mod socket;
mod supervise;
mod sys;
mod underlay;
mod wire;

pub use beside::Beside;
pub use collector::{Collected, RegistryError, Trouble};
pub use control::Control;
pub use led::also_denied;
pub use limits::Nameless;
pub use nursery::Nursery;
pub use prepared::{Prepared, prepare};
pub use sandbox::{Sandbox, confine, hand_on_streams_alone, stage_owner, start, start_with};
pub use socket::Visits;

/// Removes what dead supervisors left, by the notes in `registry`. Cheap when there is nothing.
pub fn collect(registry: &std::path::Path) -> Result<Collected, RegistryError> {
    Ok(collector::Registry::open(registry)?.collect())
}
