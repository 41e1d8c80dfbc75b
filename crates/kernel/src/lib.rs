//! The kernel: one road that every action takes, and the built-in tools on it.
//!
//! Identify, validate, decide, execute, sanitise, record. [`Kernel::submit`] is the only entry;
//! command line, servers, plugins and the agent loop are fronts that call it. The kernel itself
//! only reads the workspace; the one file it writes there is the policy, after review. Programs run
//! in sandboxes, against a stage.

mod approvals;
mod beneath;
mod cancel;
mod clock;
mod control;
mod extensions;
mod fronts;
mod kernel;
mod policy_store;
mod preview;
mod process;
mod road;
mod sanitise;
mod starter;
pub mod tools;
mod upkeep;
mod workspace;

pub use approvals::AnswerFailure;
pub use beneath::{OpenError, Root, RootError};
pub use cancel::Cancel;
pub use clock::Clock;
pub use extensions::{ExtensionProblem, WorkerProgram, serve_worker};
pub use fronts::Front;
pub use kernel::{Kernel, KernelConfig, Lifetime, StartError};
pub use policy_store::{PolicyInForce, PolicyOrigin, UpdateError};
pub use preview::Explained;
pub use process::{
    Attached, CheckId, Job, LimitHit, Machine, ProcessFailure, Ran, StageHold, Steering,
};
pub use road::{Call, Denied, Done, Failed, Outcome, Review};
pub use sanitise::{DEFAULT_OUTPUT_BYTES, Sanitised, sanitise, sanitise_line, strip_control};
pub use starter::{Language, Starter};
pub use workspace::{
    CONFIG_FILE, FileDigest, PLUGINS_DIR, POLICY_FILE, StateDir, StateError, Trust, TrustChange,
    TrustError, TrustReport, Workspace, WorkspaceError,
};
