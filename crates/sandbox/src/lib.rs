//! The sandbox: what a foreign process is granted, and what confines it to that.
//!
//! This is the pure half: nothing here starts a process, looks at the machine or changes it. A
//! [`Plan`] says what is granted and nothing about a platform; [`seccomp`] has the allowed system
//! calls as data; [`generate`] turns a plan into what bubblewrap and Seatbelt read; a [`Report`]
//! says what was enforced; [`lifecycle`] which state follows which.
//!
//! Not here yet: the launchers, the stage, the proxy. They consume a plan and are the only ones who
//! can make an [`Enforced`], without which nothing is started.

pub mod generate;
pub mod launch;
pub mod lifecycle;
#[cfg(target_os = "linux")]
mod linux;
pub mod plan;
mod report;
pub mod seccomp;
#[cfg(target_os = "linux")]
pub mod stage;
mod template;

pub use plan::{HostPath, Plan, PlanBuilder, PlanError, Problem, Surroundings, View};
pub use report::{Enforced, Held, Launcher, Minimum, NotEnforced, Report, Shortfall, Wall};
pub use template::{Reach, TEMPLATES, Template};
