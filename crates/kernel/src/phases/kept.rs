//! What became of the tests that were there before the session.
//!
//! A run in which all tests pass says nothing of those that are gone, are left out by a mark, a
//! setting or another test, or were never found. So each test of the real tree is looked up by its
//! name: in the text of its file, and in what the runner tells. Only where one is not told of does
//! the kernel run the tests of the real tree as they are, to see whether it ever was.
//!
//! Non-guarantee: a test that keeps its name may assert less, and one that no file shows by name is
//! not known to be there. Of a runner that tells no names only the files are looked at.

use super::facts::{Staged, text};
use super::sites::files;
use crate::tools::ToolFailure;
use airlock_phases::{Ended, Framework, Language, Proof, Roster, TestItem, lost_tests, tests_of};

/// What is known of the tests now.
pub(super) struct Kept<'a> {
    pub(super) staged: &'a Staged,
    pub(super) framework: Framework,
    /// The tests that the stage adds or changes.
    pub(super) fresh: &'a [TestItem],
    /// What the run told.
    pub(super) roster: &'a Roster,
}

/// What came of it.
#[derive(Default)]
pub(super) struct Lost {
    /// The tests that are gone or no longer run, by name.
    pub(super) tests: Vec<String>,
    /// Whether the tests of the real tree were run for it.
    pub(super) ran: bool,
}

/// Every test of the real tree that is known by name.
struct Before {
    tests: Vec<TestItem>,
    /// Whether all files could be looked into.
    complete: bool,
}

impl Kept<'_> {
    /// Tests that no file of the stage holds any more.
    pub(super) fn gone(&self) -> Vec<TestItem> {
        let staged = self.staged;
        let changed = staged.changed.tests.iter().chain(&staged.changed.source);
        let mut found = Vec::new();
        for path in changed {
            let (Some(language), Some(old)) = (Language::of(path), staged.old(path)) else {
                continue;
            };
            // Source holds inline tests in Rust alone.
            if language != Language::Rust && !staged.is_test(path) {
                continue;
            }
            let lost = lost_tests(language, &old, staged.new_text(path).as_deref());
            found.extend(lost.into_iter().map(|test| TestItem {
                path: path.clone(),
                ..test
            }));
        }
        // One that was moved is a new one where it is now.
        found.retain(|test| !self.fresh.iter().any(|fresh| fresh.name == test.name));
        found
    }

    /// The same by what they are called.
    pub(super) fn gone_by_name(&self) -> Vec<String> {
        let gone = self.gone();
        gone.iter().map(|test| test.label(&gone)).collect()
    }

    /// Tests that are gone, or no longer run: `of_the_tree` says what the tests of the real tree tell,
    /// and is asked only where that cannot be told without.
    pub(super) fn lost(
        &self,
        proof: Proof,
        of_the_tree: &dyn Fn() -> Result<Roster, ToolFailure>,
    ) -> Result<Lost, ToolFailure> {
        let gone = self.gone();
        let before = self.before();
        let is_told = |roster: &Roster, test: &TestItem, passed: bool| {
            let known = roster.known(test, &before.tests);
            known.is_some_and(|known| match roster.ended(&known) {
                Ended::Passed => true,
                Ended::Failed => !passed,
                Ended::Silent => false,
            })
        };
        let is_gone = |test: &TestItem| {
            let mut gone = gone.iter();
            gone.any(|gone| {
                (&gone.path, &gone.within, &gone.name) == (&test.path, &test.within, &test.name)
            })
        };
        let mut missing: Vec<&TestItem> = before.tests.iter().collect();
        missing.retain(|test| !is_gone(test) && !is_told(self.roster, test, true));
        let mut lost = Lost::default();
        match proof {
            // Where there are no tests now, each that was there is missed.
            Proof::NoTests => missing.retain(|test| !test.may_be_left_out()),
            // Without names nobody can be looked up.
            Proof::Green if self.roster.is_empty() => missing.clear(),
            Proof::Green => {
                let certain = missing.iter().all(|test| test.may_be_left_out());
                if certain && before.complete {
                    missing.clear();
                } else {
                    let tree = of_the_tree()?;
                    lost.ran = true;
                    missing.retain(|test| is_told(&tree, test, false));
                }
            }
            Proof::Red | Proof::Nothing => missing.clear(),
        }
        let all = gone.iter().chain(missing.iter().copied());
        lost.tests = all.map(|test| test.label(&before.tests)).collect();
        Ok(lost)
    }

    fn before(&self) -> Before {
        let staged = self.staged;
        let wanted = |path: &str| {
            let known = Language::of(path).filter(|one| one.tested_by() == self.framework);
            known.is_some_and(|language| {
                staged.is_test(path) || language == Language::Rust && staged.is_source(path)
            })
        };
        let (paths, mut complete) = files(staged.real(), &wanted);
        let mut tests = Vec::new();
        for path in paths {
            let found = (Language::of(&path), text(staged.real(), &path));
            let (Some(language), Some(text)) = found else {
                complete = false;
                continue;
            };
            // Most source of Rust holds none, and is long to read.
            if language == Language::Rust && !text.contains("test") {
                continue;
            }
            tests.extend(tests_of(language, &text).into_iter().map(|test| TestItem {
                path: path.clone(),
                ..test
            }));
        }
        Before { tests, complete }
    }
}
