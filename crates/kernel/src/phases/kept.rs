//! What became of the tests that were there before the session.
//!
//! A run in which all tests pass says nothing of those that are gone, are left out by a mark, a
//! setting or another test, or were never found. So each test of the real tree is looked up by its
//! name: in the text of its file, and in what the runner tells. Only where one is not told of does
//! the kernel run the tests of the real tree as they are, to see whether it ever was.
//!
//! Guarantee: where that run does not come to its end, or the runner told names there and tells none
//! now, the tests that are not told of count as lost.
//!
//! Non-guarantee: a test that keeps its name may assert less, and one that no file shows by name is
//! not known to be there. Of a runner that never tells names only the files are looked at.

use super::facts::{Staged, text};
use super::sites::files;
use crate::tools::ToolFailure;
use airlock_phases::{
    Ended, Framework, Language, Proof, Roster, TestItem, Unsure, lost_tests, tests_of,
};
use std::collections::HashSet;

/// Most lost tests that are kept by name.
const LOST: usize = 200;

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
    /// Why it is only not known whether they run, where it is so.
    pub(super) unsure: Option<Unsure>,
    /// Whether the tests of the real tree were run for it.
    pub(super) ran: bool,
}

/// A run of the tests of the real tree.
pub(super) struct Tree {
    /// What it told.
    pub(super) roster: Roster,
    /// Whether it came to its end by itself.
    pub(super) ended: bool,
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
        let fresh: HashSet<&str> = self.fresh.iter().map(|test| test.name.as_str()).collect();
        found.retain(|test| !fresh.contains(test.name.as_str()));
        found
    }

    /// The same by what they are called.
    pub(super) fn gone_by_name(&self) -> Vec<String> {
        let gone = self.gone();
        let some = gone.iter().take(LOST);
        some.map(|test| test.label(&gone)).collect()
    }

    /// Tests that are gone, or no longer run: `of_the_tree` says what the tests of the real tree tell,
    /// and is asked only where that cannot be told without.
    pub(super) fn lost(
        &self,
        proof: Proof,
        of_the_tree: &dyn Fn() -> Result<Tree, ToolFailure>,
    ) -> Result<Lost, ToolFailure> {
        let (gone, before) = (self.gone(), self.before());
        before.lost(&gone, self.roster, proof, of_the_tree)
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

impl Before {
    /// Those of them that are `gone`, and those that no longer run by what a run told in `roster` that
    /// proves `proof`.
    fn lost(
        &self,
        gone: &[TestItem],
        roster: &Roster,
        proof: Proof,
        of_the_tree: &dyn Fn() -> Result<Tree, ToolFailure>,
    ) -> Result<Lost, ToolFailure> {
        let gone_from: HashSet<_> = gone.iter().map(place).collect();
        let now = roster.endings(&self.tests);
        let all = self.tests.iter().enumerate().zip(now);
        let mut missing: Vec<(usize, &TestItem)> = all
            .filter(|(_, ended)| *ended != Ended::Passed)
            .map(|(test, _)| test)
            .filter(|(_, test)| !gone_from.contains(&place(test)))
            .collect();
        let mut lost = Lost::default();
        match proof {
            // Where there are no tests now, each that was there is missed.
            Proof::NoTests => missing.retain(|(_, test)| !test.may_be_left_out()),
            Proof::Green => {
                let certain = missing.iter().all(|(_, test)| test.may_be_left_out());
                // Where nobody is missed there is nothing to ask for.
                if missing.is_empty() || (certain && self.complete) {
                    missing.clear();
                } else {
                    let tree = of_the_tree()?;
                    lost.ran = true;
                    self.ran_before(&mut missing, &tree);
                    lost.unsure = (!missing.is_empty())
                        .then(|| unsure(roster, &tree))
                        .flatten();
                }
            }
            Proof::Red | Proof::Nothing => missing.clear(),
        }
        let missing = missing.into_iter().map(|(_, test)| test);
        let some = gone.iter().chain(missing).take(LOST);
        lost.tests = some.map(|test| test.label(&self.tests)).collect();
        Ok(lost)
    }

    /// Leaves in `missing` what ran in the real tree; or what may have, if that was not found out.
    fn ran_before(&self, missing: &mut Vec<(usize, &TestItem)>, tree: &Tree) {
        if !tree.ended {
            missing.retain(|(_, test)| !test.may_be_left_out());
            return;
        }
        let then = tree.roster.endings(&self.tests);
        missing.retain(|(number, _)| {
            let ended = then.get(*number);
            ended.is_some_and(|ended| *ended != Ended::Silent)
        });
    }
}

/// What tells one test of the real tree from another.
fn place(test: &TestItem) -> (&str, &[String], &str) {
    (&test.path, &test.within, &test.name)
}

/// Why a run that told `roster` leaves it open whether tests that are missed were run.
fn unsure(roster: &Roster, tree: &Tree) -> Option<Unsure> {
    if !tree.ended {
        return Some(Unsure::Unended);
    }
    roster.is_empty().then_some(Unsure::Unnamed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use airlock_phases::Printed;

    fn told(stdout: &str) -> Roster {
        let printed = Printed { stdout, stderr: "" };
        Roster::read(Framework::Pytest, printed, None)
    }

    fn before(names: &[&str], complete: bool) -> Before {
        let test = |name: &&str| TestItem {
            name: (*name).to_owned(),
            path: "tests/t.py".to_owned(),
            ..TestItem::default()
        };
        Before {
            tests: names.iter().map(test).collect(),
            complete,
        }
    }

    const BOTH: &str = "tests/t.py::test_a PASSED\ntests/t.py::test_b PASSED\n";
    const ONE: &str = "tests/t.py::test_a PASSED\n";

    #[test]
    fn a_real_tree_that_does_not_tell_excuses_nobody() {
        for (case, now, (then, ended), lost, unsure) in [
            ("it ran before", ONE, (BOTH, true), vec!["test_b"], None),
            ("it never ran", ONE, (ONE, true), vec![], None),
            (
                "ended by force, before it came to it",
                ONE,
                (ONE, false),
                vec!["test_b"],
                Some(Unsure::Unended),
            ),
            (
                "ended by force at once",
                ONE,
                ("", false),
                vec!["test_b"],
                Some(Unsure::Unended),
            ),
            (
                "no names any more",
                "2 passed\n",
                (BOTH, true),
                vec!["test_a", "test_b"],
                Some(Unsure::Unnamed),
            ),
            ("never names", "2 passed\n", ("", true), vec![], None),
        ] {
            let tree = || {
                let roster = told(then);
                Ok(Tree { roster, ended })
            };
            let before = before(&["test_a", "test_b"], true);
            let found = before.lost(&[], &told(now), Proof::Green, &tree).unwrap();
            assert_eq!(found.tests, lost, "{case}");
            assert_eq!(found.unsure, unsure, "{case}");
            assert!(found.ran, "{case}");
        }
    }

    #[test]
    fn where_nobody_is_missed_the_real_tree_is_not_run() {
        let never = || -> Result<Tree, ToolFailure> { panic!("the real tree was run") };
        let both = vec!["test_a", "test_b"];
        for complete in [true, false] {
            for (names, now) in [(both.clone(), BOTH), (Vec::new(), "")] {
                let before = before(&names, complete);
                let found = before.lost(&[], &told(now), Proof::Green, &never).unwrap();
                assert!(found.tests.is_empty() && !found.ran, "{complete} {names:?}");
            }
        }
    }

    #[test]
    fn only_so_many_lost_tests_are_named() {
        let names: Vec<String> = (0..3 * LOST).map(|one| format!("test_{one}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let before = before(&names, true);
        let all = || -> Result<Tree, ToolFailure> { panic!("the real tree was run") };
        let found = before.lost(&before.tests, &told(""), Proof::NoTests, &all);
        assert_eq!(found.unwrap().tests.len(), LOST);
    }
}
