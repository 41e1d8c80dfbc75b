//! What a run of changed code says of one test: whether it noticed.

use crate::roster::{Ended, Known, Printed, Roster, began};
use crate::runs::Framework;
use crate::trial::Mutation;
use crate::whence::{Place, raised};

/// A run with a mutation, as it is read.
#[derive(Debug, Clone, Copy)]
pub struct Mutated<'a> {
    /// What ran it.
    pub framework: Framework,
    /// What it printed.
    pub printed: Printed<'a>,
    /// Whether it failed as a whole.
    pub failed: bool,
    /// The tests it told of.
    pub roster: &'a Roster,
}

/// What is known of a test after a run of changed code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// It noticed the change.
    Noticed,
    /// It was run, and did not.
    Overlooked,
    /// Nobody told how it ended: another one may have ended the run.
    Silent,
}

impl Mutated<'_> {
    /// Whether the tests ran at all: what cannot be compiled or loaded shows nothing.
    pub fn took_effect(&self) -> bool {
        !self.roster.is_empty() || began(self.framework, self.printed)
    }

    /// Whether the test noticed `mutation` that is `known` so by its runner. One that failed in
    /// `before` has noticed nothing.
    ///
    /// Of a test that the runner does not tell of the run as a whole has to speak.
    pub fn heard(
        &self,
        known: Option<&Known>,
        before: Option<&Roster>,
        mutation: &Mutation,
    ) -> Heard {
        let noticed = |noticed: bool| {
            if noticed {
                Heard::Noticed
            } else {
                Heard::Overlooked
            }
        };
        let Some(known) = known else {
            return noticed(self.failed);
        };
        if before.is_some_and(|before| before.ended(known) == Ended::Failed) {
            return Heard::Overlooked;
        }
        match self.roster.ended(known) {
            Ended::Silent => Heard::Silent,
            Ended::Passed => Heard::Overlooked,
            Ended::Failed => noticed(!self.is_excused(known, mutation)),
        }
    }

    /// Whether the failure of the test began within what was changed: the product broke.
    fn is_excused(&self, known: &Known, mutation: &Mutation) -> bool {
        let output = format!("{}\n{}", self.printed.stdout, self.printed.stderr);
        let heads = known.heads(self.framework).into_iter();
        let places: Vec<Option<Place>> = heads
            .flat_map(|head| raised(self.framework, &output, head))
            .collect();
        let excused = |place: &Option<Place>| {
            place.as_ref().is_some_and(|place| {
                let mut excused = mutation.excused.iter();
                excused.any(|(path, from, to)| {
                    place.is_of(path) && (*from..=*to).contains(&place.line)
                })
            })
        };
        if self.roster.has_namesakes(known) {
            // Which of them broke so is not told.
            return places.iter().any(excused);
        }
        !places.is_empty() && places.iter().all(excused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::TestItem;

    #[test]
    fn a_failure_within_the_changed_source_is_no_look_at_it() {
        let named = |name: &str| TestItem {
            name: name.to_owned(),
            path: "tests/t.py".to_owned(),
            ..TestItem::default()
        };
        let all = [named("test_a"), named("test_b"), named("test_c")];
        let read = |stdout| {
            let printed = Printed { stdout, stderr: "" };
            Roster::read(Framework::Pytest, printed, None)
        };
        let before = read(
            "tests/t.py::test_a PASSED\ntests/t.py::test_b PASSED\ntests/t.py::test_c PASSED\n",
        );
        let mutation = |excused: &[(&str, u32, u32)]| Mutation {
            what: String::new(),
            edits: Vec::new(),
            excused: excused
                .iter()
                .map(|(path, from, to)| ((*path).to_owned(), *from, *to))
                .collect(),
            instead: false,
        };
        let stdout = "tests/t.py::test_a FAILED\ntests/t.py::test_b PASSED\n____ test_a ____\n\n    def test_a():\n>       assert f(1)\n\ntests/t.py:3: \n_ _ _\n\n    def f(a):\n>       return a - 'x'\nE       TypeError: no\n\napp.py:2: TypeError\n";
        let roster = read(stdout);
        let run = Mutated {
            framework: Framework::Pytest,
            printed: Printed { stdout, stderr: "" },
            failed: true,
            roster: &roster,
        };
        assert!(run.took_effect());
        let heard = |number: usize, excused: &[(&str, u32, u32)]| {
            let known = before.known(&all[number], &all);
            run.heard(known.as_ref(), Some(&before), &mutation(excused))
        };
        assert_eq!(heard(0, &[("app.py", 1, 3)]), Heard::Overlooked);
        assert_eq!(heard(0, &[("app.py", 5, 9)]), Heard::Noticed);
        assert_eq!(heard(0, &[]), Heard::Noticed);
        assert_eq!(heard(1, &[]), Heard::Overlooked);
        // One that another kept from being run.
        assert_eq!(heard(2, &[]), Heard::Silent);
        // A name nobody told of: the run speaks.
        let other = before.known(&named("other"), &all);
        assert_eq!(other, None);
        let spoken = run.heard(None, Some(&before), &mutation(&[("app.py", 1, 3)]));
        assert_eq!(spoken, Heard::Noticed);
        // One that failed by itself has noticed nothing.
        let known = before.known(&all[0], &all);
        let held = run.heard(known.as_ref(), Some(&roster), &mutation(&[]));
        assert_eq!(held, Heard::Overlooked);
    }

    #[test]
    fn a_run_that_was_ended_before_any_test_was_told_of_took_effect_all_the_same() {
        for (framework, stdout, want) in [
            (Framework::Cargo, "\nrunning 2 tests\n", true),
            (Framework::Cargo, "", false),
            (Framework::Go, "=== RUN   TestA\npanic: x\n", true),
            (Framework::Go, "FAIL\tdemo [build failed]\n", false),
            (
                Framework::Pytest,
                "tests/t.py::test_a Fatal Python error\n",
                true,
            ),
            (Framework::Pytest, "ERROR tests/t.py - ImportError\n", false),
            (Framework::Node, "not ok 1 - /w/a.test.js\n", true),
        ] {
            let printed = Printed { stdout, stderr: "" };
            let run = Mutated {
                framework,
                printed,
                failed: true,
                roster: &Roster::read(framework, printed, None),
            };
            assert_eq!(run.took_effect(), want, "{stdout}");
        }
    }
}
