//! What a stage changes, by what it is to the discipline.

use crate::beneath::Root;
use crate::policy_store::PolicyInForce;
use crate::process::{ProcessFailure, StageHold, view};
use crate::tools::GitIgnored;
use crate::workspace::Workspace;
use airlock_core::{Digest, WorkspacePath};
use airlock_phases::{
    Category, Changed, Facts, Language, Ledger, Place, Route, inline_tests, only_tests_differ,
    pulls_in_tests,
};
use airlock_policy::{PathClass, Policy};
use airlock_sandbox::stage::{Change, ChangeKind, Diff};
use serde_json::json;
use std::collections::BTreeMap;
use std::io::Read as _;
use std::sync::Arc;

/// Longest text that is looked into.
const TEXT: u64 = 2 * 1024 * 1024;

/// A stage as it is now, looked at once.
pub(crate) struct Staged {
    policy: Arc<Policy>,
    real: Root,
    seen: Root,
    pub(super) changed: Changed,
    /// What the stage holds that git does not ignore, as one digest.
    pub(super) digest: Option<Digest>,
    /// The changes with all that a merge would bring.
    pub(super) diff: Option<Diff>,
}

impl Staged {
    /// Looks at the stage `name`.
    pub(super) fn look(
        workspace: &Workspace,
        policy: &PolicyInForce,
        name: &str,
    ) -> Result<Self, ProcessFailure> {
        let diff = StageHold(workspace).diff(name)?;
        let real = workspace.root().clone();
        let mut staged = Self {
            policy: policy.policy(),
            seen: view(workspace, name)?,
            real,
            changed: Changed::default(),
            digest: None,
            diff: None,
        };
        if let Some(diff) = diff {
            staged.sort(&diff);
            staged.diff = Some(diff);
        }
        Ok(staged)
    }

    fn sort(&mut self, diff: &Diff) {
        let real = self.real.clone();
        let mut ignored = GitIgnored::new(&real);
        let mut lines = String::new();
        for change in &diff.changes {
            let Some(path) = counted(change, &mut ignored) else {
                continue;
            };
            let line = json!([change.path, change.kind, change.old, change.new]);
            lines.push_str(&line.to_string());
            lines.push('\n');
            self.class(path.as_str());
            if let ChangeKind::Renamed { from } = &change.kind
                && let Some(from) = from.as_path().to_str()
            {
                self.class(from);
            }
        }
        self.digest = (!lines.is_empty()).then(|| Digest::of(lines.as_bytes()));
    }

    fn class(&mut self, path: &str) {
        let list = match self.policy.path_class(path) {
            PathClass::Test => &mut self.changed.tests,
            PathClass::Source if self.only_tests(path) => &mut self.changed.tests,
            PathClass::Source => {
                if self.changed.smuggled.is_none() {
                    self.changed.smuggled = self.smuggled(path);
                }
                &mut self.changed.source
            }
            PathClass::Other => &mut self.changed.other,
        };
        list.push(path.to_owned());
    }

    /// Whether nothing but inline tests of the Rust file `path` differs.
    fn only_tests(&self, path: &str) -> bool {
        Language::of(path) == Some(Language::Rust)
            && only_tests_differ(
                &self.old(path).unwrap_or_default(),
                &self.new_text(path).unwrap_or_default(),
            )
    }

    fn smuggled(&self, path: &str) -> Option<String> {
        let language = Language::of(path)?;
        let is_test = |path: &str| self.policy.path_class(path) == PathClass::Test;
        let taken = pulls_in_tests(language, path, &self.new_text(path)?, &is_test)?;
        let before = self.old(path).unwrap_or_default();
        // What was so before the session is not its doing.
        if pulls_in_tests(language, path, &before, &is_test).is_some() {
            return None;
        }
        Some(format!(
            "`{path}` makes `{taken}`, a test, part of the product"
        ))
    }

    /// The text of the real tree; none if there is none.
    pub(super) fn old(&self, path: &str) -> Option<String> {
        text(&self.real, path)
    }

    /// The text of the stage; none if there is none.
    pub(super) fn new_text(&self, path: &str) -> Option<String> {
        text(&self.seen, path)
    }

    /// The same, if it is no longer than what is looked into.
    pub(super) fn whole_text(&self, path: &str) -> Option<String> {
        let file = self.seen.open_file(path).ok()?;
        let mut text = String::new();
        let read = file.take(TEXT + 1).read_to_string(&mut text).ok()?;
        (read as u64 <= TEXT).then_some(text)
    }

    pub(super) fn root(&self) -> &Root {
        &self.seen
    }

    pub(super) fn is_source(&self, path: &str) -> bool {
        self.policy.path_class(path) == PathClass::Source
    }

    /// What the tests of the stage are now: each file of tests, and the inline tests of each
    /// changed source file.
    pub(super) fn tests(&self) -> BTreeMap<String, Digest> {
        let mut tests = BTreeMap::new();
        for path in &self.changed.tests {
            let text = self.new_text(path).unwrap_or_default();
            let inline = self.is_source(path);
            let what = if inline { inline_of(&text) } else { text };
            tests.insert(path.clone(), Digest::of(what.as_bytes()));
        }
        tests
    }

    /// The first file whose tests are not those of `kept`.
    pub(super) fn edited(&self, kept: &BTreeMap<String, Digest>) -> Option<String> {
        let now = self.tests();
        let source = self.changed.source.iter();
        let rust = source.filter(|path| Language::of(path) == Some(Language::Rust));
        for path in rust {
            let text = self.new_text(path).unwrap_or_default();
            let found = Digest::of(inline_of(&text).as_bytes());
            let reference = match kept.get(path) {
                Some(kept) => *kept,
                None => Digest::of(inline_of(&self.old(path).unwrap_or_default()).as_bytes()),
            };
            if found != reference {
                return Some(path.clone());
            }
        }
        if let Some((path, _)) = now.iter().find(|(path, now)| kept.get(*path) != Some(*now)) {
            return Some(path.clone());
        }
        let mut gone = kept.keys().filter(|path| !now.contains_key(*path));
        gone.find(|path| !self.changed.source.contains(path))
            .cloned()
    }

    /// The facts for a step of `place`, handed to `then`.
    pub(super) fn facts<T>(
        &self,
        place: &Place,
        ledger: Ledger,
        uncovered: Option<&str>,
        then: impl FnOnce(&Facts<'_>) -> T,
    ) -> T {
        let edited = match &place.progress.route {
            Some(Route::TestFirst | Route::Refactoring(_)) => self.edited(&place.progress.tests),
            Some(Route::Exploring | Route::Exempt(_)) | None => None,
        };
        let policy = &self.policy;
        let within = |category: Category, path: &str| policy.exempts(category.as_str(), path);
        let coverage = policy.document().phases.coverage;
        then(&Facts {
            changed: &self.changed,
            stage: self.digest,
            within: &within,
            edited_tests: edited.as_deref(),
            uncovered,
            ledger,
            warn_points: coverage.warn_points,
            lock_points: coverage.lock_points,
        })
    }
}

/// The path of a change that counts: not git's own, and not what git ignores.
fn counted(change: &Change, ignored: &mut GitIgnored<'_>) -> Option<WorkspacePath> {
    use airlock_sandbox::stage::NodeKind;
    let text = change.path.as_path().to_str();
    // A name nobody can judge counts as itself, so that no way allows it.
    let lossy = change.path.as_path().to_string_lossy();
    let path = WorkspacePath::new(text.unwrap_or(&lossy)).ok()?;
    if path.as_str() == ".git" || path.as_str().starts_with(".git/") {
        return None;
    }
    let facts = change.new.as_ref().or(change.old.as_ref())?;
    let directory = facts.kind == NodeKind::Directory;
    (!directory && !ignored.holds(&path, directory)).then_some(path)
}

fn inline_of(text: &str) -> String {
    inline_tests(text).unwrap_or_else(|| text.to_owned())
}

pub(super) fn text(root: &Root, path: &str) -> Option<String> {
    let file = root.open_file(path).ok()?;
    let mut text = String::new();
    file.take(TEXT).read_to_string(&mut text).ok()?;
    Some(text)
}
