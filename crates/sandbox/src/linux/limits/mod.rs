//! What holds a sandbox to its limits.
//!
//! [`Group`] is a cgroup, where one may be made: the kernel then stops the sandbox at its limits.
//! [`rlimits`] are what every process inherits. [`Watch`] looks at what neither holds, so that the
//! supervisor can end a sandbox that goes over, [`Meter`] counts what it uses of the processor, and
//! [`Throttle`] says when it must stand still.
//!
//! Time and output are not here: the supervisor holds them by itself.

mod group;
mod meter;
mod proc;
mod rlimits;
mod throttle;
mod watch;

pub(crate) use group::{Group, Tally, id_of, is_id, is_of};
pub(crate) use meter::Meter;
pub(crate) use proc::{Process, Stat, own_arguments};
pub(crate) use rlimits::{Rlimit, file_size_held, pids_held, rlimits};
pub(crate) use throttle::Throttle;
pub use watch::Nameless;
pub(crate) use watch::{Tree, Watch};

/// The tasks of a sandbox that are Airlock's own: its init. They come on top of what the plan
/// allows, or a plan of one process could run nothing.
const OWN_TASKS: u32 = 1;

#[cfg(test)]
pub(crate) mod testing;
