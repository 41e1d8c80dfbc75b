//! The rules of a policy, compiled once and asked many times.
//!
//! A [`Policy`] is immutable: reloading makes another one, and a decision holds on to the one it
//! began with. Asking it allocates for the rules that apply, never for those that do not.
//!
//! Invariant: the order of rules in the file decides the order in which contributions are listed
//! and nothing else; the index only skips rules that cannot match.

mod argument;
pub(crate) mod built_in;
mod candidates;
pub(crate) mod conditions;
pub(crate) mod constraint;
mod hanging;
mod index;
mod lint;
mod path_index;
mod phases;
mod protected;
mod rule;
mod syscalls;

pub(crate) use hanging::{Hanging, means};
pub use lint::COMPILE_CODES;
pub use phases::PathClass;
pub use protected::{Protected, Shape};
pub(crate) use rule::CompiledRule;

use crate::decision::{Contribution, Contributions, Generation, Imposed, Layer, Opinion};
use crate::document::Document;
use crate::glob::{Leaf, PathGlobs, PathText};
use crate::load::{self, Diagnostic, LoadError, Severity};
use airlock_core::{Digest, EffectSet, Request, Syscall};
use conditions::{Asked, Matcher};
use constraint::TokenUse;
use index::Index;
use phases::PhaseRules;
use std::sync::Arc;

/// Sets a policy's digest apart from digests of anything else with the same bytes.
const GENERATION_TAG: &[u8] = b"airlock policy generation 1\n";

/// The rule that `approvals.sensitive_paths` is.
pub(crate) const SENSITIVE_RULE: &str = "approvals/sensitive-paths";

/// A compiled policy.
#[derive(Debug)]
pub struct Policy {
    generation: Generation,
    document: Document,
    /// In file order.
    pub(crate) rules: Vec<CompiledRule>,
    index: Index,
    sensitive: PathGlobs,
    phases: Option<PhaseRules>,
    source: Option<Source>,
}

/// The file a policy was read from, to show it to people.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    pub(crate) name: Arc<str>,
    pub(crate) text: Arc<str>,
}

/// A policy that loaded, and what its author should look at again.
#[derive(Debug)]
pub struct Loaded {
    /// The policy.
    pub policy: Policy,
    /// What probably does not mean what was written.
    pub warnings: Vec<Diagnostic>,
}

impl Policy {
    /// A policy without rules: it allows nothing.
    pub fn empty() -> Self {
        Self {
            generation: generation(&[]),
            document: Document::default(),
            rules: Vec::new(),
            index: Index::build(std::iter::empty()),
            sensitive: PathGlobs::default(),
            phases: PhaseRules::compile(&crate::document::Phases::default()).ok(),
            source: None,
        }
    }

    /// Reads and compiles the policy file `name`, whose content is `bytes`.
    pub fn load(name: &str, bytes: &[u8]) -> Result<Loaded, LoadError> {
        let parsed = load::parse(bytes);
        let mut diagnostics = parsed.diagnostics;
        let broken = has_error(&diagnostics);
        let policy = match Self::compile(parsed.document, generation(bytes)) {
            Ok(mut loaded) => {
                diagnostics.extend(loaded.warnings);
                loaded.policy.source = std::str::from_utf8(bytes).ok().map(|text| Source {
                    name: name.into(),
                    text: text.into(),
                });
                Some(loaded.policy).filter(|_| !broken)
            }
            Err(problems) => {
                diagnostics.extend(problems);
                None
            }
        };
        diagnostics.sort_by_key(|problem| problem.place);
        match policy {
            Some(policy) => Ok(Loaded {
                policy,
                warnings: diagnostics,
            }),
            None => Err(LoadError {
                name: name.to_owned(),
                diagnostics,
            }),
        }
    }

    /// Compiles a checked document and looks for what only compiling shows. Fails with every
    /// problem if one of them is an error: there is no half-loaded policy.
    pub fn compile(document: Document, generation: Generation) -> Result<Loaded, Vec<Diagnostic>> {
        let (mut rules, mut problems) = (Vec::with_capacity(document.rules.len()), Vec::new());
        let mut effort = lint::Effort::new();
        for rule in &document.rules {
            match CompiledRule::compile(rule) {
                Ok(ready) => {
                    lint::examples(rule, &ready, &mut effort, &mut problems);
                    problems.extend(lint::token(rule));
                    rules.push(ready);
                }
                Err(error) => problems.push(lint::condition(rule, &error)),
            }
        }
        lint::shadows(&rules, &mut lint::Effort::new(), &mut problems);
        let sensitive = PathGlobs::parse(&document.approvals.sensitive_paths)
            .map_err(|error| problems.push(lint::sensitive(&error)))
            .unwrap_or_default();
        let phases = PhaseRules::compile(&document.phases)
            .map_err(|error| problems.push(lint::sensitive(&error)))
            .ok();
        if has_error(&problems) {
            return Err(lint::bounded(problems));
        }
        let policy = Self {
            sensitive,
            phases,
            generation,
            document,
            index: Index::build(rules.iter().map(|rule| &rule.when)),
            rules,
            source: None,
        };
        Ok(Loaded {
            policy,
            warnings: lint::bounded(problems),
        })
    }

    /// What the file says, beyond its rules.
    pub const fn document(&self) -> &Document {
        &self.document
    }

    /// Which policy this is.
    pub const fn generation(&self) -> Generation {
        self.generation
    }

    /// The file it was read from, if it was.
    pub(crate) const fn source(&self) -> Option<&Source> {
        self.source.as_ref()
    }

    /// How many rules it has.
    pub const fn rule_count(&self) -> usize {
        self.rules.len()
    }

    /// Whether some rule could say one thing of a request for `one` and another of the same
    /// request for `other`, two syscalls of one effect.
    pub fn tells_apart(&self, one: Syscall, other: Syscall) -> bool {
        let (one, other) = (syscalls::position(one), syscalls::position(other));
        let takes =
            |matcher: &Matcher, at: Option<u32>| at.is_some_and(|at| matcher.syscalls.contains(at));
        // A tool is named after its syscall, so a rule on tools may tell them apart as well.
        let differs = |matcher: &Matcher| {
            matcher.tool.is_some() || takes(matcher, one) != takes(matcher, other)
        };
        let matchers =
            |rule: &'_ CompiledRule| differs(&rule.when) || rule.except.iter().any(differs);
        !self.document.extensions.is_empty() || self.rules.iter().any(matchers)
    }

    /// Whether `request` changes a path that `approvals.sensitive_paths` names.
    pub fn touches_sensitive(&self, request: &Request) -> bool {
        request.effects.intersects(EffectSet::CHANGES)
            && request.paths.iter().any(|path| {
                self.sensitive
                    .matches(PathText::new(path.as_str()), Leaf::Directory)
            })
    }

    /// Whether `request` changes a path that is sensitive: by `approvals.sensitive_paths`, or because a
    /// built-in rule wants a person to look at it.
    pub fn changes_sensitive(&self, request: &Request) -> bool {
        let changes = request.effects.intersects(EffectSet::CHANGES);
        self.touches_sensitive(request) || changes && request.paths.iter().any(built_in::is_guarded)
    }

    /// What `path` is to the test-first discipline.
    pub fn path_class(&self, path: &str) -> PathClass {
        let phases = self.phases.as_ref();
        phases.map_or(PathClass::Other, |phases| phases.class(path))
    }

    /// Whether the exemption category `name` covers `path`.
    pub fn exempts(&self, name: &str, path: &str) -> bool {
        let phases = self.phases.as_ref();
        phases.is_some_and(|phases| phases.exempts(name, path))
    }

    /// Adds the opinion of the rules on where a session stands.
    pub(crate) fn evaluate_phases(&self, request: &Request, contributions: &mut Contributions) {
        match &self.phases {
            Some(phases) => phases.evaluate(request, contributions),
            // Cannot be: a policy whose globs do not compile is none. If it were, nothing goes.
            None if request.caller.phase.is_some() => contributions.push(Contribution {
                layer: Layer::BuiltIn,
                rule: "phases/unknown".into(),
                opinion: Opinion::Deny,
                reason: "the policy's `phases` cannot be read".into(),
            }),
            None => {}
        }
    }

    /// Adds the opinion of every rule that applies.
    pub(crate) fn evaluate(
        &self,
        asked: Asked<'_>,
        contributions: &mut Contributions,
        imposed: &mut Imposed,
    ) {
        for id in self.index.candidates(asked).ascending() {
            let rule = self.rules.get(id as usize);
            if let Some(said) = rule.and_then(|rule| ask(rule, asked, imposed)) {
                contributions.push(said);
            }
        }
        if self.touches_sensitive(asked.request) {
            contributions.push(Contribution {
                layer: Layer::Rules,
                rule: SENSITIVE_RULE.into(),
                opinion: Opinion::RequireReview,
                reason: "the policy names this path in `approvals.sensitive_paths`".into(),
            });
        }
    }

    #[cfg(test)]
    fn evaluate_all(&self, request: &Request, imposed: &mut Imposed) -> Vec<Contribution> {
        let ask = |rule| ask(rule, Asked::new(request), imposed);
        self.rules.iter().filter_map(ask).collect()
    }
}

fn has_error(problems: &[Diagnostic]) -> bool {
    problems
        .iter()
        .any(|problem| problem.severity == Severity::Error)
}

/// The generation of the policy written in `bytes`.
pub(crate) fn generation(bytes: &[u8]) -> Generation {
    Generation::new(Digest::of(&[GENERATION_TAG, bytes].concat()))
}

/// One rule's contribution, and what it imposes.
fn ask(rule: &CompiledRule, asked: Asked<'_>, imposed: &mut Imposed) -> Option<Contribution> {
    let said = say(rule, rule.opinion(asked)?, asked.request);
    if said.opinion == Opinion::Allow {
        constraint::impose(imposed, &rule.constraints);
    }
    Some(said)
}

/// The contribution of a rule whose conditions come to `opinion`. An allow whose checked constraints
/// do not hold is a denial.
fn say(rule: &CompiledRule, opinion: Opinion, request: &Request) -> Contribution {
    let unmet = match opinion {
        Opinion::Allow => constraint::unmet(&rule.constraints, request, TokenUse::None),
        Opinion::Deny | Opinion::RequireReview | Opinion::Pass => None,
    };
    let (opinion, reason) = match unmet {
        Some(why) => (Opinion::Deny, why.into()),
        None => (opinion, Arc::clone(&rule.reason)),
    };
    Contribution {
        layer: Layer::Rules,
        rule: Arc::clone(&rule.name),
        opinion,
        reason,
    }
}

#[cfg(test)]
mod tests;
