//! The sandbox: what a foreign process is granted, and what confines it to that.
//!
//! The pure half looks at nothing: a [`Plan`] says what is granted and nothing about a platform;
//! [`seccomp`] has the allowed system calls as data; [`generate`] turns a plan into what bubblewrap
//! and Seatbelt read; [`lifecycle`] says which state follows which. The other half looks at the
//! machine and acts: [`base`] and [`presets`] find what a sandbox sees of it, [`start`] raises the
//! walls, and a [`Report`] says which stand. Only a launcher can make an [`Enforced`], without
//! which nothing is started.
//!
//! Not here yet: the proxy.

pub mod base;
pub mod generate;
mod kept;
pub mod launch;
pub mod lifecycle;
#[cfg(target_os = "linux")]
mod linux;
mod looked;
mod outfit;
pub mod plan;
pub mod presets;
mod report;
pub mod seccomp;
#[cfg(target_os = "linux")]
pub mod stage;
mod template;

#[cfg(target_os = "linux")]
pub use linux::probe;
#[cfg(target_os = "linux")]
pub use linux::{
    Beside, Collected, Control, Nameless, Nursery, Prepared, RegistryError, Sandbox, Trouble,
    Visits, also_denied, collect, confine, hand_on_streams_alone, prepare, stage_owner, start,
    start_with,
};

pub use outfit::{Outfit, Remembered};
pub use plan::{HostPath, Plan, PlanBuilder, PlanError, Problem, Surroundings, View};
pub use report::{Enforced, Held, Launcher, Minimum, NotEnforced, Report, Shortfall, Wall};
pub use template::{Reach, TEMPLATES, Template};
