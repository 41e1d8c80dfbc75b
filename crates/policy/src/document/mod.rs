//! The policy file as data: what the loader produces and the compiler consumes.
//!
//! Everything here was checked: names are unique, units parsed, globs and patterns well formed.
//! Every section has the default the schema documents, and no default allows anything by itself. Each
//! mapping is one table (`fields!`), of which the struct, its default, its decoder and its JSON
//! Schema are made.

mod example;
mod governance;
mod rule;
mod running;
mod template;

pub use example::{Example, ExampleFields};
pub use governance::{
    Approvals, Audit, Coverage, Exemptions, Headless, Merge, OnFlag, Phases, Sanitise,
    SecretPattern, Secrets,
};
pub(crate) use rule::RuleFields;
pub use rule::{Action, ArgCondition, ArgTest, Conditions, Constraints, Rule};
pub use running::{Command, Destination, Extension, Network, Reach, Scheduler, Tag, Workspace};
pub(crate) use template::LeastTier;
pub use template::{Limit, Narrowing, TEMPLATES, Template};

use crate::load::{
    fields, many, name, named, one_or_many, rules, schema, table, tag, user, version,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A place in the policy file: 1-based line and column (in characters).
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Default,
    serde::Serialize,
    serde::Deserialize,
)]
pub struct Place {
    /// Line.
    pub line: u32,
    /// Column.
    pub column: u32,
}

fields! {
    /// A policy file: `.airlock/policy.yaml`. Everything but `version` may be left out.
    pub struct Document in "the policy" requires ["version"] {
        /// Version of the file format: 1.
        #[schemars(with = "schema::Version")]
        version: u32 = 1 => version;
        /// What anybody may do in this workspace at all, and the least isolation code runs under.
        workspace: Workspace = Workspace::default() => table;
        /// Permission sets: from a role to the capabilities its users have.
        #[schemars(with = "BTreeMap<Arc<str>, schema::OneOrMany<schema::CapabilityPattern>>")]
        roles: BTreeMap<Arc<str>, Vec<Arc<str>>> = BTreeMap::new()
            => named("`roles`", name, one_or_many(crate::load::capability));
        /// Who has which roles. A user that is not listed has none, but for the local owner.
        #[schemars(with = "BTreeMap<Arc<str>, schema::OneOrMany<schema::Name>>")]
        users: BTreeMap<Arc<str>, Vec<Arc<str>>> = BTreeMap::new()
            => named("`users`", user, one_or_many(name));
        /// Capability tags and who holds them; rules ask for them with `caller_tag`.
        #[schemars(with = "BTreeMap<Arc<str>, Tag>")]
        tags: BTreeMap<Arc<str>, Tag> = BTreeMap::new() => named("`tags`", tag, table);
        /// The programs tools may run (check IV-01). Empty: none.
        commands: Vec<Command> = Vec::new() => many(table);
        /// Which hosts can be reached at all, in named groups.
        network: Network = Network::default() => table;
        /// Sandbox templates made narrower; no limit can be raised.
        #[schemars(with = "BTreeMap<Arc<str>, Narrowing>")]
        templates: BTreeMap<Arc<str>, Narrowing> = BTreeMap::new()
            => named("`templates`", crate::load::template, table);
        /// The test-first discipline: paths, exemptions, coverage.
        phases: Phases = Phases::default() => table;
        /// Who answers a review, and how.
        approvals: Approvals = Approvals::default() => table;
        /// When a stage may be merged without a person.
        merge: Merge = Merge::default() => table;
        /// What else counts as a secret.
        secrets: Secrets = Secrets::default() => table;
        /// How results are sanitised.
        sanitise: Sanitise = Sanitise::default() => table;
        /// How the audit log is kept.
        audit: Audit = Audit::default() => table;
        /// How much runs at once.
        scheduler: Scheduler = Scheduler::default() => table;
        /// Scripts and Wasm modules that take part in decisions.
        extensions: Vec<Extension> = Vec::new() => many(table);
        /// The rules. Their order never matters.
        #[schemars(with = "Vec<RuleFields>")]
        rules: Vec<Rule> = Vec::new() => rules;
    }
}
