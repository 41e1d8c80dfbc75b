//! Adapters, workflows and agents as files: read, checked, explained. Pure: no I/O, no clock.
//!
//! Guarantee: what loads means what is written. Every key is known or refused, every reference
//! leads somewhere, nothing in a file is code, and no file makes memory or time grow beyond its own
//! size. Non-guarantee: whether a file may be used at all (who wrote it, who approved it) and
//! whether what it describes may happen are the kernel's questions.

mod adapter;
mod agent;
mod workflow;

pub use adapter::{
    Adapter, AdapterFile, Api, ArgumentError, Call, CheckFailure, Cli, ErrorCase, Example,
    FIXTURES_AT_ONCE, Fixture, Header, How, Interface, Invocation, Kind, Level, Mcp, Output,
    OutputError, Resolved, Retry, Samples, Sandbox, Status, Summary, Unresolved, check_samples,
    resolve,
};
pub use agent::{Agent, Budget};
pub use airlock_yaml::{CODES, DefinitionError, Mismatch, Schema};
pub use workflow::{
    Condition, Expression, LookupError, Scope, Step, StepKind, Workflow, WorkflowLimits,
};
