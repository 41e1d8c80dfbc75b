//! Whether the tests that led to the code look at it at all.
//!
//! A test that failed only because a name was missing passes with any body of it. So every new test
//! of a strict task has to notice one of several changes of the code it led to, once that is there:
//! functions emptied, returning something else, as they were before, single lines changed. A test
//! that notices none of the code that the stage changes is tried on the functions that it names, so
//! that one which covers old code beside the new is not taken for empty.
//!
//! What they are held against is a run made in the same way of code that is not changed: a test that
//! fails there knows how it is run, or fails by chance, and has noticed nothing.
//!
//! Guarantee: which changes are tried is decided by the source alone, and they are so many at most
//! and no longer than the constants say. A test is refused only if at least one change could really
//! be run, and the stage is afterwards what it was.
//!
//! Non-guarantee: a test can look at the wrong thing, at the source's text, or fail by chance.

use super::facts::Staged;
use super::mutating::{Drill, MOST, is_over};
use super::sites::{changed, named};
use crate::process::{Finished, Variation};
use crate::tools::ToolFailure;
use airlock_core::Span;
use airlock_phases::{
    Ground, Language, LineSet, Mutated, Mutation, Observed, TestItem, apart, coarse, fine, names,
};
use serde_json::{Value, json};
use std::time::Instant;

/// Most changes of single lines, and of single functions, in one round.
const FINE: usize = 8;
const APART: usize = 6;
/// What a changed run may take beyond a few times what the unchanged one took: time to compile.
const GRACE: u64 = 30_000;
const TIMES: u64 = 4;

/// What came of it.
pub(super) struct Challenged {
    /// Tests that noticed nothing.
    pub(super) survivors: Vec<String>,
    /// Those that noticed something.
    pub(super) noticed: Vec<String>,
    /// What was changed and could be run, in words.
    pub(super) changes: Vec<String>,
    /// How many changes were tried.
    tried: usize,
}

impl Challenged {
    /// What the answer of the call says of it.
    pub(super) fn told(&self) -> Value {
        json!({
            "lines": "changed_or_named",
            "why": "every new test has to notice a change of the code it led to",
            "tried": self.tried,
            "changes": self.changes,
            "noticed_by": self.noticed,
        })
    }
}

/// One series of runs.
struct Round<'a, 'd> {
    drill: &'a Drill<'d>,
    begun: Instant,
    longest: Span,
    left: Vec<TestItem>,
    /// What the tests said of code that was not changed; none before they were asked.
    before: Option<Observed>,
    challenged: Challenged,
}

/// What one run gave.
struct Answer {
    output: String,
    failed: bool,
    /// Tests that failed, as the runner counted them.
    counted: u64,
    observed: Observed,
}

impl Drill<'_> {
    /// Tries `tests` on the code, in which they passed in the run that `finished`.
    pub(super) fn challenge(
        &self,
        tests: &[TestItem],
        finished: &Finished,
    ) -> Result<Challenged, ToolFailure> {
        let wall = finished.ran.wall_ms;
        let mut round = Round {
            drill: self,
            begun: Instant::now(),
            longest: Span::from_millis(GRACE.saturating_add(wall.saturating_mul(TIMES))),
            left: tests.to_vec(),
            before: None,
            challenged: Challenged {
                survivors: Vec::new(),
                noticed: Vec::new(),
                changes: Vec::new(),
                tried: 0,
            },
        };
        let new = changed(self.staged);
        round.through(&grounds(self.staged, &new))?;
        if !round.is_done() {
            let mut old = named(self.staged, &round.left);
            old.retain(|path, lines| {
                let tried = new.get(path);
                lines.retain(|line| tried.is_none_or(|tried| !tried.contains(line)));
                !lines.is_empty()
            });
            round.through(&grounds(self.staged, &old))?;
        }
        Ok(round.ended())
    }
}

fn grounds(staged: &Staged, lines: &LineSet) -> Vec<Ground> {
    let ground = |(path, lines): (&String, &std::collections::BTreeSet<u32>)| {
        Some(Ground {
            path: path.clone(),
            language: Language::of(path)?,
            old: staged.old(path),
            new: staged.new_text(path)?,
            lines: lines.clone(),
        })
    };
    lines.iter().filter_map(ground).collect()
}

impl Round<'_, '_> {
    fn is_done(&self) -> bool {
        self.left.is_empty() || self.challenged.tried >= MOST || is_over(self.begun)
    }

    /// All changes of `grounds`, the coarse ones first, until every test has noticed one.
    fn through(&mut self, grounds: &[Ground]) -> Result<(), ToolFailure> {
        if !self.each(&coarse(grounds), MOST)? {
            // One function whose change cannot be compiled keeps all others from being tried.
            let single: Vec<Mutation> = apart(grounds)
                .iter()
                .flat_map(|ground| coarse(std::slice::from_ref(ground)))
                .collect();
            self.each(&single, APART)?;
        }
        self.each(&fine(grounds, FINE), FINE).map(drop)
    }

    /// Up to `most` of `mutations`. Whether all of them could be run.
    fn each(&mut self, mutations: &[Mutation], most: usize) -> Result<bool, ToolFailure> {
        let (mut all, mut ran) = (true, true);
        for mutation in mutations.iter().take(most) {
            if self.is_done() {
                break;
            }
            if mutation.instead && ran {
                continue;
            }
            ran = self.once(mutation)?;
            all &= ran || mutation.instead;
        }
        Ok(all)
    }

    /// Whether the tests ran with `mutation`; those that noticed it are done.
    fn once(&mut self, mutation: &Mutation) -> Result<bool, ToolFailure> {
        let before = match self.before.take() {
            Some(before) => before,
            None => self.unchanged(mutation)?,
        };
        let noticed = self.held_against(&before, mutation);
        self.before = Some(before);
        noticed
    }

    /// What the tests say where the files of `mutation` are written as they are.
    fn unchanged(&mut self, mutation: &Mutation) -> Result<Observed, ToolFailure> {
        let own = |(path, _): &(String, String)| {
            let text = self.drill.staged.new_text(path)?;
            Some((path.clone(), text))
        };
        let answer = self.run(mutation.files.iter().filter_map(own).collect())?;
        let mut observed = answer.observed;
        if observed.passed.is_empty() && observed.failed.is_empty() && answer.failed {
            // Without names the run as a whole speaks, and this one says no already.
            let left = self.left.iter().map(|test| test.name.clone());
            observed.failed.extend(left);
        }
        Ok(observed)
    }

    fn run(&mut self, files: Vec<(String, String)>) -> Result<Answer, ToolFailure> {
        self.challenged.tried += 1;
        let job = self.drill.job.varied(&Variation {
            measured: false,
            files,
            longest: Some(self.longest),
        });
        let finished = (self.drill.again)(&job)?;
        let value = &finished.value;
        let stream = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
        let output = format!("{}\n{}", stream("stdout"), stream("stderr"));
        let counted = value.pointer("/tests/failed").and_then(Value::as_u64);
        Ok(Answer {
            failed: finished.ran.exited().is_some_and(|code| code != 0),
            counted: counted.unwrap_or(0),
            observed: names(self.drill.tests.framework, &output),
            output,
        })
    }

    fn held_against(
        &mut self,
        before: &Observed,
        mutation: &Mutation,
    ) -> Result<bool, ToolFailure> {
        let answer = self.run(mutation.files.clone())?;
        let run = Mutated {
            framework: self.drill.tests.framework,
            output: &answer.output,
            failed: answer.failed,
            observed: &answer.observed,
        };
        let nameless = before.passed.is_empty() && before.failed.is_empty();
        // Without names, only tests that were counted tell a test from what cannot be compiled.
        let silent = nameless && answer.failed && answer.counted == 0;
        if silent || !nameless && !run.took_effect() {
            return Ok(false);
        }
        self.challenged
            .changes
            .push(crate::sanitise::sanitise_line(&mutation.what, 200));
        let noticed = &mut self.challenged.noticed;
        self.left.retain(|test| {
            let looks = run.noticed(&test.name, before, mutation);
            if looks {
                noticed.push(test.name.clone());
            }
            !looks
        });
        Ok(true)
    }

    fn ended(mut self) -> Challenged {
        // What was never changed cannot have been overlooked.
        if !self.challenged.changes.is_empty() {
            let left = self.left.into_iter();
            self.challenged.survivors = left.map(|test| test.name).collect();
        }
        self.challenged
    }
}
