//! The kernel: one road that every action takes, and the built-in tools on it.
//!
//! Identify, validate, decide, execute, sanitise, record. [`Kernel::submit`] is the only entry;
//! command line, servers, plugins and the agent loop are fronts that call it. The kernel itself
//! only reads the workspace; what it writes there, after review, is the policy and what is merged.
//! Programs run in sandboxes, against a stage.

mod adapters;
mod agents;
mod approvals;
mod asking;
mod beneath;
mod book;
mod cancel;
mod clock;
mod content;
mod control;
mod defined;
mod definitions;
mod extensions;
mod fronts;
mod hold;
mod kernel;
mod person;
mod phases;
mod plugins;
mod policy_stamp;
mod policy_store;
mod preview;
mod process;
mod results;
mod road;
mod sanitise;
mod sessions;
mod showing;
#[cfg(test)]
mod some_caller;
mod starter;
mod tokens;
pub mod tools;
mod upkeep;
mod workflows;
mod workspace;

pub use agents::{AgentCaller, Models, NoModel, handed, handed_pending, is_agents_work};
pub use approvals::{AnswerFailure, Answering};
#[cfg(target_os = "linux")]
pub use beneath::Staged;
pub use beneath::{OpenError, Root, RootError};
pub use cancel::{Aside, Cancel};
pub use clock::Clock;
pub use definitions::{
    AdapterEntry, AgentEntry, DefinedBy, DefinitionProblem, Definitions, OwnDefinitions,
    WorkflowEntry,
};
pub use extensions::{ExtensionProblem, WorkerProgram, serve_request, serve_worker};
pub use fronts::{Front, Whence};
pub use kernel::{Errand, Kernel, KernelConfig, Lifetime, StartError};
pub use person::{Person, PersonError};
#[cfg(target_os = "linux")]
pub use plugins::{Hosting, MakeHosts};
pub use plugins::{
    PluginAsk, PluginRoad, PluginSettings, PluginSockets, PluginWords, SettingsFile, WordsChange,
};
pub use policy_store::{PolicyInForce, PolicyOrigin, UpdateError};
pub use preview::Explained;
pub use process::{
    Attached, CheckId, FileRefusal, Inside, Job, Ladder, LimitHit, Machine, ProcessFailure,
    PutBack, Ran, Reception, Rung, Sandboxes, StageHold, Steering, Visitors, Within,
    required_classes, serve_files,
};
pub use road::{Call, Denied, Done, Failed, Outcome, Review};
pub use sanitise::{
    DEFAULT_OUTPUT_BYTES, Flag, Origin, Sanitised, not_held, sanitise, sanitise_line, strip_control,
};
pub use showing::shown_lines;
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
