//! Runs the tests on source with one line changed, to see who notices.
//!
//! Guarantee: the stage is afterwards what it was. The script puts the file back; and because no
//! source may be written in the states this happens in, the check after each run would put it back
//! as well.

use super::facts::Staged;
use super::sites::sites;
use super::tested::Again;
use crate::process::{Job, TestJob};
use crate::tools::ToolFailure;
use airlock_phases::{Language, Mutant, Observed, TestItem, mutants, names, noticing};
use serde_json::Value;

/// Most runs for one question: each is a whole run of the tests.
const MOST: usize = 5;

/// One series of such runs.
pub(super) struct Drill<'a> {
    pub(super) job: &'a Job,
    pub(super) tests: TestJob,
    pub(super) staged: &'a Staged,
    pub(super) before: &'a Observed,
}

impl Drill<'_> {
    /// Of `suspects`, those that noticed none of the mutations.
    pub(super) fn survivors(
        &self,
        suspects: &[TestItem],
        again: Again<'_>,
    ) -> Result<Vec<String>, ToolFailure> {
        let mut left: Vec<String> = suspects.iter().map(|test| test.name.clone()).collect();
        if left.is_empty() {
            return Ok(left);
        }
        for mutant in self.mutants(suspects) {
            if left.is_empty() || crate::cancel::is_set() {
                break;
            }
            let job = self.job.mutated(&mutant.path, mutant.text);
            let finished = again(&job)?;
            let noticed = noticing(&left, self.before, &self.observed(&finished.value));
            let noticed: Vec<String> = noticed.into_iter().cloned().collect();
            left.retain(|name| !noticed.contains(name));
        }
        Ok(left)
    }

    fn observed(&self, value: &Value) -> Observed {
        let stream = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
        let output = format!("{}\n{}", stream("stdout"), stream("stderr"));
        names(self.tests.framework, &output)
    }

    /// Mutants of what the suspects are about, taken in turn from each file.
    fn mutants(&self, suspects: &[TestItem]) -> Vec<Mutant> {
        let mut found: Vec<std::vec::IntoIter<Mutant>> = Vec::new();
        for (path, lines) in sites(self.staged, suspects) {
            if let (Some(language), Some(text)) = (Language::of(&path), self.staged.new_text(&path))
            {
                let some = mutants(language, &path, &text, &lines, MOST);
                found.push(some.into_iter());
            }
        }
        let mut chosen = Vec::new();
        while chosen.len() < MOST {
            let round: Vec<Mutant> = found.iter_mut().filter_map(Iterator::next).collect();
            if round.is_empty() {
                break;
            }
            chosen.extend(round);
        }
        chosen.truncate(MOST);
        chosen
    }
}
