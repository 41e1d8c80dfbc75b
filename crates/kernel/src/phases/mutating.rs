//! Runs the tests on source with one line changed, to see who notices.
//!
//! Guarantee: the stage is afterwards what it was. The script puts the file back; and because each
//! such run is judged as in a state in which nothing may be written, the check after it would put it
//! back as well.

use super::covering::Covering;
use super::facts::Staged;
use super::sites::sites;
use super::tested::Again;
use crate::process::{Job, TestJob, Variation};
use crate::tools::ToolFailure;
use airlock_phases::{
    Language, LineSet, Mutant, Observed, Sample, TestItem, mutants, names, noticing, samples,
};
use serde_json::Value;
use std::time::{Duration, Instant};

/// Fewest and most runs for one question: each is a whole run of the tests.
const FEW: usize = 5;
pub(super) const MOST: usize = 20;
/// No further run is begun after this.
const LONGEST: Duration = Duration::from_mins(10);

/// One series of such runs.
pub(super) struct Drill<'a> {
    pub(super) job: &'a Job,
    pub(super) tests: TestJob,
    pub(super) staged: &'a Staged,
    pub(super) before: &'a Observed,
    pub(super) again: Again<'a>,
}

/// What came of it for tests that have to show that they can fail.
pub(super) struct Drilled {
    /// Those that noticed nothing.
    pub(super) survivors: Vec<String>,
    /// Whether the lines were those that the new tests newly cover.
    pub(super) newly_covered: bool,
    /// How many mutations were tried.
    pub(super) tried: usize,
}

/// What came of it for lines that have to be shown to be tested.
pub(super) struct Proven {
    /// Lines whose mutation a new test noticed.
    pub(super) noticed: LineSet,
    /// How many mutations were tried.
    pub(super) tried: usize,
}

impl Drill<'_> {
    /// Tries `suspects` on what they newly cover, or else on what they seem to be about.
    pub(super) fn survivors(
        &self,
        suspects: &[TestItem],
        covering: Option<&Covering>,
    ) -> Result<Drilled, ToolFailure> {
        let mut left: Vec<String> = suspects.iter().map(|test| test.name.clone()).collect();
        let most = (2 * left.len()).clamp(FEW, MOST);
        let new = covering.map(|covering| &covering.new);
        let mut newly_covered = true;
        let mut chosen = new.map_or_else(Vec::new, |new| self.mutants(new.clone(), most));
        if chosen.is_empty() {
            newly_covered = false;
            chosen = self.mutants(sites(self.staged, suspects), most);
        }
        let begun = Instant::now();
        let mut tried = 0;
        for mutant in chosen {
            if left.is_empty() || is_over(begun) {
                break;
            }
            tried += 1;
            let noticed = self.noticing(&left, &mutant)?;
            left.retain(|name| !noticed.contains(name));
        }
        Ok(Drilled {
            survivors: left,
            newly_covered,
            tried,
        })
    }

    /// Which of the newly covered lines the tests called `new` look at.
    pub(super) fn proven(
        &self,
        new: &[String],
        covering: &Covering,
    ) -> Result<Proven, ToolFailure> {
        let begun = Instant::now();
        let mut proven = Proven {
            noticed: LineSet::new(),
            tried: 0,
        };
        for sample in self.samples(&covering.new) {
            if is_over(begun) {
                break;
            }
            proven.tried += 1;
            if !self.noticing(new, &sample.mutant)?.is_empty() {
                let lines = proven.noticed.entry(sample.mutant.path).or_default();
                lines.extend(sample.lines);
            }
        }
        Ok(proven)
    }

    /// Of `tests`, those that fail with `mutant` and do not without.
    fn noticing(&self, tests: &[String], mutant: &Mutant) -> Result<Vec<String>, ToolFailure> {
        let job = self.job.varied(&Variation {
            measured: false,
            files: vec![(mutant.path.clone(), mutant.text.clone())],
            longest: None,
        });
        let finished = (self.again)(&job)?;
        let value = &finished.value;
        let stream = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
        let output = format!("{}\n{}", stream("stdout"), stream("stderr"));
        let mutated = names(self.tests.framework, &output);
        let noticed = noticing(tests, self.before, &mutated);
        Ok(noticed.into_iter().cloned().collect())
    }

    /// Up to `most` mutants of `lines`, taken in turn from each file.
    fn mutants(&self, lines: LineSet, most: usize) -> Vec<Mutant> {
        let mut found: Vec<std::vec::IntoIter<Mutant>> = Vec::new();
        for (path, lines) in lines {
            if let (Some(language), Some(text)) = (Language::of(&path), self.staged.new_text(&path))
            {
                let some = mutants(language, &path, &text, &lines, most);
                found.push(some.into_iter());
            }
        }
        let mut chosen = Vec::new();
        while chosen.len() < most {
            let round: Vec<Mutant> = found.iter_mut().filter_map(Iterator::next).collect();
            if round.is_empty() {
                break;
            }
            chosen.extend(round);
        }
        chosen.truncate(most);
        chosen
    }

    /// Samples that speak for `lines`, each file with its share. Which lines are tried is nobody's
    /// to foresee.
    fn samples(&self, lines: &LineSet) -> Vec<Sample> {
        let all: usize = lines.values().map(std::collections::BTreeSet::len).sum();
        let mut found = Vec::new();
        for (path, lines) in lines {
            let room = MOST.saturating_sub(found.len());
            let share = (MOST * lines.len()).div_ceil(all.max(1)).min(room);
            let text = self.staged.new_text(path);
            if let (Some(language), Some(text), 1..) = (Language::of(path), text, share) {
                let mut pick = |count: usize| rand::random_range(0..count.max(1));
                found.extend(samples(language, path, &text, lines, share, &mut pick));
            }
        }
        found
    }
}

pub(super) fn is_over(begun: Instant) -> bool {
    crate::cancel::is_set() || begun.elapsed() > LONGEST
}
