//! The test-first discipline as rules on `state`: what a session may write where it stands.
//!
//! They are made from the policy's `phases` and asked with the built-in rules, always, even when a
//! token is valid. They hold for requests whose caller has a state, and for nobody else. No rule
//! of the policy can lift them: the way on is the next state.
//!
//! Invariant: a path that is both a test and source is a test.

use crate::decision::{Contribution, Contributions, Layer, Opinion};
use crate::document::Phases;
use crate::glob::{GlobError, Leaf, PathGlobs, PathText, Scanned};
use airlock_core::{EffectSet, Phase, Request};
use std::sync::Arc;

/// What a path is to the discipline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathClass {
    /// A test.
    Test,
    /// Source.
    Source,
    /// Neither.
    Other,
}

/// What a state lets be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum May {
    Nothing,
    Tests,
    Source,
    Both,
}

const fn may(state: Phase) -> May {
    match state {
        Phase::Idle
        | Phase::Planning
        | Phase::Validating
        | Phase::Reviewing
        | Phase::Committing => May::Nothing,
        Phase::TestWriting | Phase::RetroactiveTesting => May::Tests,
        Phase::CodeWriting | Phase::Refactoring => May::Source,
        Phase::Exploring => May::Both,
    }
}

/// The syscalls by which a session moves through its own states; the guards hold them.
const STEPS: &[&str] = &["plan.complete", "phase.advance", "phase.status"];
/// Those that a person decides.
const ASKED: &[&str] = &["phase.request_exemption", "phase.commit"];

/// The rules of one policy.
#[derive(Debug)]
pub(crate) struct PhaseRules {
    tests: PathGlobs,
    source: PathGlobs,
    exemptions: [(&'static str, PathGlobs); 4],
    only_tests: Arc<str>,
    only_source: Arc<str>,
}

impl PhaseRules {
    /// Compiles what the policy says of `phases`.
    pub(crate) fn compile(phases: &Phases) -> Result<Self, GlobError> {
        let exempt = &phases.exemptions;
        Ok(Self {
            tests: PathGlobs::parse(&phases.test_paths)?,
            source: PathGlobs::parse(&phases.source_paths)?,
            exemptions: [
                ("config_change", PathGlobs::parse(&exempt.config_change)?),
                ("type_refactor", PathGlobs::parse(&exempt.type_refactor)?),
                ("documentation", PathGlobs::parse(&exempt.documentation)?),
                ("asset_update", PathGlobs::parse(&exempt.asset_update)?),
            ],
            only_tests: format!("this state allows only {}", listed(&phases.test_paths)).into(),
            only_source: format!(
                "this state allows only source: {}",
                listed(&phases.source_paths)
            )
            .into(),
        })
    }

    /// What `path` is; where nobody knows whether it is a directory, it counts as a file.
    pub(crate) fn class(&self, path: &str) -> PathClass {
        let text = PathText::new(path);
        if self.tests.matches(text, Leaf::File) {
            PathClass::Test
        } else if self.source.matches(text, Leaf::File) {
            PathClass::Source
        } else {
            PathClass::Other
        }
    }

    /// Whether the exemption category `name` covers `path`.
    pub(crate) fn exempts(&self, name: &str, path: &str) -> bool {
        let text = PathText::new(path);
        let mut all = self.exemptions.iter();
        all.any(|(category, globs)| *category == name && globs.matches(text, Leaf::File))
    }

    /// Adds the opinion of every rule that applies.
    pub(crate) fn evaluate(&self, request: &Request, contributions: &mut Contributions) {
        let Some(state) = request.caller.phase else {
            return;
        };
        let name = request.syscall.name();
        if name.starts_with("fs.") {
            let changes = request.effects.intersects(EffectSet::CHANGES);
            if let Some(objection) = changes.then(|| self.objection(state, request)).flatten() {
                contributions.push(objection);
            }
        } else if STEPS.contains(&name) {
            let why = "a session may ask for its next state";
            contributions.push(said("phases/own-progress", Opinion::Allow, why.into()));
        } else if ASKED.contains(&name) {
            let why = "a person decides on exemptions and merges";
            contributions.push(said("phases/asked-for", Opinion::RequireReview, why.into()));
        }
    }

    fn objection(&self, state: Phase, request: &Request) -> Option<Contribution> {
        let any = |wrong: &dyn Fn(Scanned<'_>) -> bool| {
            let mut paths = request.paths.iter();
            paths.any(|path| wrong(Scanned::new(PathText::new(path.as_str()))))
        };
        let is_test = |path: Scanned<'_>| self.tests.matches_scanned(path, Leaf::File);
        let may_be_test = |path: Scanned<'_>| self.tests.matches_scanned(path, Leaf::Directory);
        let is_source = |path: Scanned<'_>| self.source.matches_scanned(path, Leaf::File);
        let deny = |rule, reason| Some(said(rule, Opinion::Deny, reason));
        match may(state) {
            May::Nothing => {
                let why = format!("nothing may be written in `{state}`");
                deny("phases/no-writes", why.into())
            }
            May::Tests if any(&|path| !is_test(path)) => {
                deny("phases/tests-first", Arc::clone(&self.only_tests))
            }
            May::Source if any(&|path| may_be_test(path) || !is_source(path)) => {
                if any(&may_be_test) {
                    let why = format!("tests are read-only in `{state}`");
                    return deny("phases/tests-are-read-only", why.into());
                }
                deny("phases/source-only", Arc::clone(&self.only_source))
            }
            May::Both if any(&|path| !is_test(path) && !is_source(path)) => {
                let why = "exploring allows source and tests, and what an exemption names";
                deny("phases/source-and-tests", why.into())
            }
            May::Tests | May::Source | May::Both => None,
        }
    }
}

fn said(rule: &str, opinion: Opinion, reason: Arc<str>) -> Contribution {
    Contribution {
        layer: Layer::BuiltIn,
        rule: rule.into(),
        opinion,
        reason,
    }
}

/// The first few globs, for people.
fn listed(globs: &[Arc<str>]) -> String {
    const SHOWN: usize = 4;
    let mut shown: Vec<&str> = globs.iter().take(SHOWN).map(|glob| &**glob).collect();
    if globs.len() > SHOWN {
        shown.push("...");
    }
    shown.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_paths_know_tests_from_source_in_every_language() {
        let rules = PhaseRules::compile(&Phases::default()).unwrap();
        for (path, want) in [
            ("tests/parse.rs", PathClass::Test),
            ("crates/a/tests/x/y.rs", PathClass::Test),
            ("src/lib.rs", PathClass::Source),
            ("crates/a/src/lib.rs", PathClass::Source),
            ("build.rs", PathClass::Source),
            ("pkg/parse_test.go", PathClass::Test),
            ("main.go", PathClass::Source),
            ("test_parse.py", PathClass::Test),
            ("app/test_parse.py", PathClass::Test),
            ("conftest.py", PathClass::Test),
            ("mine/parse.py", PathClass::Source),
            ("parse.test.js", PathClass::Test),
            ("ui/__tests__/a.tsx", PathClass::Test),
            ("ui/a.tsx", PathClass::Source),
            ("Cargo.toml", PathClass::Other),
            ("README.md", PathClass::Other),
            ("tests.md", PathClass::Other),
        ] {
            assert_eq!(rules.class(path), want, "{path}");
        }
        assert!(rules.exempts("documentation", "docs/a.md"));
        assert!(!rules.exempts("documentation", "src/a.rs"));
        assert!(!rules.exempts("anything", "docs/a.md"));
    }
}
