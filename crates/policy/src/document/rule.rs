//! Rules: when they apply, what they say, what they ask of a run.

use super::{Example, ExampleFields, Place};
use crate::load::{
    arguments, boolean, choice, condition, effects, fields, host, many, plugin, port, program,
    prose, sandbox_tier, schema, size, some, span, syscall_pattern, table, tag, template, tool,
    user, word, workspace,
};
use airlock_core::{ByteSize, EffectSet, Mode, Phase, Span, Tier};
use std::sync::Arc;

choice! {
    /// What a rule says when it applies.
    pub enum Action, "action" {
        /// In favour.
        Allow = "allow",
        /// Against.
        Deny = "deny",
        /// Only after review.
        RequireReview = "require_review",
    }
}

/// One rule of the policy file.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
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

fields! {
    /// One rule.
    #[schemars(rename = "Rule")]
    pub(crate) struct RuleFields in "a rule" requires ["name", "match", "action"] {
        /// A name no other rule has; decisions and the audit log show it.
        #[schemars(with = "schema::Name")]
        name: Arc<str> = Arc::from("") => crate::load::name;
        /// When the rule applies. Every condition must hold; of a list, one value is enough.
        when as "match": Conditions = Conditions::default() => table;
        /// What the rule says.
        action: Action = Action::Deny => word;
        /// Why, for the person or agent that meets the rule.
        reason: Option<Arc<str>> = None => some(prose);
        /// Conditions that each make the rule pass. Not on a denial: write a narrower one.
        except: Vec<Conditions> = Vec::new() => many(table);
        /// What an allow asks of the run. Over several allows the strictest value holds.
        constraints: Option<Constraints> = None => some(table);
        /// Requests that must, or must not, match; checked whenever the file is loaded.
        examples: ExampleLists = ExampleLists::default() => table;
    }
}

fields! {
    /// Requests that must, or must not, match a rule.
    #[schemars(rename = "Examples")]
    pub(crate) struct ExampleLists in "`examples`" requires [] {
        /// Requests the rule matches.
        #[schemars(with = "Vec<ExampleFields>")]
        matching as "match": Vec<(Place, ExampleFields)> = Vec::new() => many(crate::load::placed);
        /// Requests the rule does not match.
        #[schemars(with = "Vec<ExampleFields>")]
        not_match: Vec<(Place, ExampleFields)> = Vec::new() => many(crate::load::placed);
    }
}

fields! {
    /// ANDed conditions; the values of one condition are ORed. Absent: not asked. An empty list is
    /// asked and never met. A condition on something a request does not carry is not met.
    pub struct Conditions in "`match`" requires [] {
        /// Syscall names, `area.*`, or `*`.
        #[schemars(with = "Option<schema::OneOrMany<schema::SyscallPattern>>")]
        syscall: Option<Vec<Arc<str>>> = None => condition(syscall_pattern);
        /// Effects.
        #[schemars(with = "Option<schema::OneOrMany<schema::OneOf<airlock_core::Effect>>>")]
        effect: Option<EffectSet> = None => some(effects);
        /// Path globs with gitignore meaning; `!` excludes, and wins.
        #[schemars(with = "Option<schema::OneOrMany<schema::Glob>>")]
        path_glob: Option<Vec<Arc<str>>> = None => some(crate::load::path_globs);
        /// Capability tags of the caller.
        #[schemars(with = "Option<schema::OneOrMany<schema::TagName>>")]
        caller_tag: Option<Vec<Arc<str>>> = None => condition(tag);
        /// Plugin names; the built-in fronts are `cli`, `agent`, `mcp` and `server`.
        #[schemars(with = "Option<schema::OneOrMany<String>>")]
        plugin: Option<Vec<Arc<str>>> = None => condition(plugin);
        /// Tool names, `<plugin>.<tool>` for a plugin's.
        #[schemars(with = "Option<schema::OneOrMany<String>>")]
        tool: Option<Vec<Arc<str>>> = None => condition(tool);
        /// Session modes.
        #[schemars(with = "Option<schema::OneOrMany<schema::OneOf<Mode>>>")]
        mode: Option<Vec<Mode>> = None => condition(word::<Mode>);
        /// Session phases.
        #[schemars(with = "Option<schema::OneOrMany<schema::OneOf<Phase>>>")]
        state: Option<Vec<Phase>> = None => condition(word::<Phase>);
        /// Tiers.
        #[schemars(with = "Option<schema::OneOrMany<schema::OneOf<Tier>>>")]
        tier: Option<Vec<Tier>> = None => condition(word::<Tier>);
        /// Sandbox templates.
        #[schemars(with = "Option<schema::OneOrMany<schema::OneOf<super::Template>>>")]
        template: Option<Vec<Arc<str>>> = None => condition(template);
        /// Hosts: exact, or `*.example.org` for every name below it.
        #[schemars(with = "Option<schema::OneOrMany<schema::Host>>")]
        host: Option<Vec<Arc<str>>> = None => condition(host);
        /// Ports.
        #[schemars(with = "Option<schema::OneOrMany<schema::Port>>")]
        port: Option<Vec<u16>> = None => condition(port);
        /// Executables: the base name of the first command word.
        #[schemars(with = "Option<schema::OneOrMany<String>>")]
        command: Option<Vec<Arc<str>>> = None => condition(program);
        /// Users.
        #[schemars(with = "Option<schema::OneOrMany<String>>")]
        user: Option<Vec<Arc<str>>> = None => condition(user);
        /// Workspaces.
        #[schemars(with = "Option<schema::OneOrMany<String>>")]
        workspace: Option<Vec<Arc<str>>> = None => condition(workspace);
        /// Arguments; every one listed must pass.
        #[schemars(with = "Option<schema::Arguments>")]
        arg: Option<Vec<ArgCondition>> = None => some(arguments);
    }
}

/// A condition on one argument; all of `arg`'s conditions must hold.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct ArgCondition {
    /// Dotted path into the arguments; list positions are numbers.
    pub path: Arc<str>,
    /// What is asked of the value there.
    pub test: ArgTest,
}

/// What is asked of an argument.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ArgTest {
    /// Exactly this value.
    Equals(serde_json::Value),
    /// One of these values.
    OneOf(Vec<serde_json::Value>),
    /// A string the regular expression matches in full.
    Matches(Arc<str>),
}

fields! {
    /// What an allow asks of a run: the first three are checked, and unmet turn the allow into a
    /// denial; the others are imposed on the run.
    #[derive(Copy, Eq)]
    pub struct Constraints in "`constraints`" requires [] {
        /// Least tier: `process` or `container`.
        #[schemars(with = "Option<schema::OneOf<super::template::LeastTier>>")]
        require_sandbox: Option<Tier> = None => some(sandbox_tier);
        /// Only with a valid token.
        require_capability_token: bool = false => boolean;
        /// Largest file written.
        #[schemars(with = "Option<schema::Size>")]
        max_file_size: Option<ByteSize> = None => some(size);
        /// Longest run.
        #[schemars(with = "Option<schema::Time>")]
        max_duration: Option<Span> = None => some(span);
        /// Most output.
        #[schemars(with = "Option<schema::Size>")]
        max_output: Option<ByteSize> = None => some(size);
        /// Most memory.
        #[schemars(with = "Option<schema::Size>")]
        max_memory: Option<ByteSize> = None => some(size);
    }
}
