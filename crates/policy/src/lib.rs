//! The decision: capabilities, enforcer, rules, tokens, approvals.
//!
//! Pure and synchronous. In: a request, a snapshot of rules, the time. Out: a [`Decision`] that
//! lists every contribution. No clock, no files, no async, no randomness: whoever calls brings
//! them. An error while deciding is a denial.

// Lets the tests inside the crate share the helpers of those outside.
#[cfg(test)]
extern crate self as airlock_policy;

pub mod approval;
pub mod capability;
mod decision;
mod document;
mod enforcer;
mod engine;
mod explain;
mod extension;
mod glob;
mod hash;
mod load;
mod replay;
mod rules;
pub mod token;

pub use decision::{
    Contribution, Contributions, Decision, Generation, Imposed, Layer, Opinion, Verdict, combine,
};
pub use document::{
    Action, Approvals, ArgCondition, ArgTest, Audit, Command, Conditions, Constraints, Coverage,
    Destination, Document, Example, ExampleFields, Exemptions, Extension as ExtensionSource, Limit,
    Merge, Narrowing, Network, OnFlag, Phases, Place, Reach, Rule, Sanitise, Scheduler,
    SecretPattern, Secrets, TEMPLATES, Tag, Template, Workspace,
};
pub use enforcer::{
    AlreadyRegistered, CapabilityCheck, CapabilityGate, CapabilityGrants, CheckQuery, CheckResult,
    CheckSink, Enforcer, EnforcerSnapshot, NotRegistered,
};
pub use engine::Engine;
pub use explain::{
    Explanation, Fix, Mismatch, Nearest, Remedy, RuleSummary, SettingSummary, explain,
};
pub use extension::{Answer, Extension, ExtensionFailure, ExtensionHost};
pub use glob::GlobError;
pub use load::{
    CODES, DEFAULT_POLICY, Diagnostic, LoadError, PolicyTest, Severity, json_schema, parse_tests,
    read_document, render,
};
pub use replay::{Change, Difference, Judge, Replay, replay};
pub use rules::built_in::{BuiltInRule, BuiltIns, Trigger, built_in_rules};
pub use rules::{COMPILE_CODES, Loaded, PathClass, Policy, Protected, Shape};
