//! The kernel: one road that every action takes, and the built-in tools on it.
//!
//! Identify, validate, decide, execute, sanitise, record. [`Kernel::submit`] is the only entry;
//! command line, servers, plugins and the agent loop are fronts that call it. The kernel itself
//! only reads the workspace; the one file it writes there is the policy, after review. Programs run
//! in sandboxes, against a stage.

mod adapters;
mod approvals;
mod asking;
mod beneath;
mod clock;
mod control;
mod definitions;
mod extensions;
mod fronts;
mod hold;
mod kernel;
mod person;
mod policy_store;
mod preview;
mod process;
mod road;
mod sanitise;
mod sessions;
mod starter;
mod tokens;
pub mod tools;
mod upkeep;
mod workflows;
mod workspace;

pub use approvals::{AnswerFailure, Answering};
pub use beneath::{OpenError, Root, RootError};
pub use clock::Clock;
pub use definitions::{
    AdapterEntry, DefinitionProblem, Definitions, Origin, OwnDefinitions, WorkflowEntry,
};
pub use extensions::{ExtensionProblem, WorkerProgram, serve_worker};
pub use fronts::Front;
pub use kernel::{Kernel, KernelConfig, Lifetime, StartError};
pub use person::{Person, PersonError};
pub use policy_store::{PolicyInForce, PolicyOrigin, UpdateError};
pub use preview::Explained;
pub use process::{
    Attached, CheckId, Job, LimitHit, Machine, ProcessFailure, Ran, StageHold, Steering,
};
pub use road::{Call, Denied, Done, Failed, Outcome, Review};
pub use sanitise::{DEFAULT_OUTPUT_BYTES, Sanitised, sanitise, sanitise_line, strip_control};
pub use starter::{Language, Starter};
pub use tokens::{Presented, TokenFailure};
pub use workflows::{
    MemoryRuns, Resume, RunError, RunEvent, RunRecord, RunReport, RunState, RunStore,
    RunStoreError, StateRuns, Workflows,
};
pub use workspace::{
    CONFIG_FILE, DEFINITION_DIRS, FileDigest, PLUGINS_DIR, POLICY_FILE, StateDir, StateError,
    Trust, TrustChange, TrustError, TrustReport, Workspace, WorkspaceError,
};
