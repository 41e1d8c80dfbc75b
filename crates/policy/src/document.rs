//! The policy file as data: what the loader produces and the compiler consumes.
//!
//! Everything here was checked: names are unique, units parsed, globs and patterns well formed.
//! Every section has the default the schema documents. The `JsonSchema` derives make the schema
//! that `airlock policy schema` prints.

use airlock_core::{ByteSize, EffectSet, Mode, Phase, Span, Tier};
use std::sync::Arc;

/// A place in the policy file: 1-based line and column (in characters).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, serde::Serialize)]
pub struct Place {
    /// Line.
    pub line: u32,
    /// Column.
    pub column: u32,
}

/// What a rule says when it applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// In favour.
    Allow,
    /// Against.
    Deny,
    /// Only after review.
    RequireReview,
}

/// One rule of the policy file.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// Unique name.
    pub name: Arc<str>,
    /// Where it stands.
    pub place: Place,
    /// When it applies.
    pub when: Conditions,
    /// What it says.
    pub action: Action,
    /// Why, in the author's words.
    pub reason: Option<Arc<str>>,
    /// Conditions that each make the rule pass.
    pub except: Vec<Conditions>,
    /// What an allow asks of the run.
    pub constraints: Constraints,
    /// Requests the author says match or do not.
    pub examples: Vec<Example>,
}

/// ANDed conditions; the values of one condition are ORed. `None`: not asked. An empty list is
/// asked and never met.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Conditions {
    /// Syscall names, or `area.*`.
    pub syscall: Option<Vec<Arc<str>>>,
    /// Effects.
    pub effect: Option<EffectSet>,
    /// Path globs with gitignore meaning, `!` excludes.
    pub path_glob: Option<Vec<Arc<str>>>,
    /// Capability tags of the caller.
    pub caller_tag: Option<Vec<Arc<str>>>,
    /// Plugin names.
    pub plugin: Option<Vec<Arc<str>>>,
    /// Tool names.
    pub tool: Option<Vec<Arc<str>>>,
    /// Session modes.
    pub mode: Option<Vec<Mode>>,
    /// Session phases.
    pub state: Option<Vec<Phase>>,
    /// Tiers.
    pub tier: Option<Vec<Tier>>,
    /// Sandbox templates.
    pub template: Option<Vec<Arc<str>>>,
    /// Hosts: exact, or `*.example.org`.
    pub host: Option<Vec<Arc<str>>>,
    /// Ports.
    pub port: Option<Vec<u16>>,
    /// Executables: the base name of the first command word.
    pub command: Option<Vec<Arc<str>>>,
    /// Users.
    pub user: Option<Vec<Arc<str>>>,
    /// Workspaces.
    pub workspace: Option<Vec<Arc<str>>>,
    /// Arguments.
    pub arg: Option<Vec<ArgCondition>>,
}

/// A condition on one argument; all of `arg`'s conditions must hold.
#[derive(Debug, Clone, PartialEq)]
pub struct ArgCondition {
    /// Dotted path into the arguments; list positions are numbers.
    pub path: Arc<str>,
    /// What is asked of the value there.
    pub test: ArgTest,
}

/// What is asked of an argument.
#[derive(Debug, Clone, PartialEq)]
pub enum ArgTest {
    /// Exactly this value.
    Equals(serde_json::Value),
    /// One of these values.
    OneOf(Vec<serde_json::Value>),
    /// A string the regular expression matches in full.
    Matches(Arc<str>),
}

/// What an allow asks of a run: checked ones first, imposed ones after.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Constraints {
    /// Least tier.
    pub require_sandbox: Option<Tier>,
    /// Only with a valid token.
    pub require_capability_token: bool,
    /// Largest file written.
    pub max_file_size: Option<ByteSize>,
    /// Longest run.
    pub max_duration: Option<Span>,
    /// Most output.
    pub max_output: Option<ByteSize>,
    /// Most memory.
    pub max_memory: Option<ByteSize>,
}

/// A request the author gave as an example, with what the rule should do with it.
#[derive(Debug, Clone, PartialEq)]
pub struct Example {
    /// Where it stands.
    pub place: Place,
    /// Whether the rule should match it.
    pub should_match: bool,
    /// The request, in the same words as `match`, with single values (`path` for a path).
    pub fields: ExampleFields,
}

/// The fields an example (or a table test) may give.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ExampleFields {
    /// Syscall.
    pub syscall: Arc<str>,
    /// Paths.
    pub path: Vec<Arc<str>>,
    /// Effects, where not the syscall's own.
    pub effect: Option<EffectSet>,
    /// Tags.
    pub caller_tag: Vec<Arc<str>>,
    /// Plugin; `cli` if not given.
    pub plugin: Option<Arc<str>>,
    /// Tool.
    pub tool: Option<Arc<str>>,
    /// Mode.
    pub mode: Option<Mode>,
    /// Phase.
    pub state: Option<Phase>,
    /// Tier.
    pub tier: Option<Tier>,
    /// Template.
    pub template: Option<Arc<str>>,
    /// Host.
    pub host: Option<Arc<str>>,
    /// Port.
    pub port: Option<u16>,
    /// Command words.
    pub command: Vec<Arc<str>>,
    /// User.
    pub user: Option<Arc<str>>,
    /// Workspace.
    pub workspace: Option<Arc<str>>,
    /// Arguments.
    pub arg: serde_json::Value,
    /// Size of the largest file written.
    pub file_size: Option<u64>,
}
