//! Changed runs of the tests, and further ones of those tests that said nothing in them.
//!
//! One test can end the run of all: a panic ends that of a package of Go's, an abort that of a
//! binary, an exit that of a file. What comes behind it says nothing then, which is not the same as
//! having noticed nothing. So it is asked again by the runner's own filter, all of it at once and,
//! where that ends the same way, each test alone.
//!
//! Guarantee: what is noticed so counts only if the same tests, filtered the same way, pass where
//! nothing is changed. There are no more such runs than the constants say. None has the source to the
//! letter, and none meets what another run of the tests wrote: each lies in a layer of its own over a
//! stage in which no test has run.
//!
//! Non-guarantee: a command of the project's own takes no filter, and nobody is asked again there.
//! Where stages are copies nothing lies over them: what git ignores stays for the next run.

use super::mutating::{Drill, is_over};
use crate::process::Variation;
use crate::tools::ToolFailure;
use airlock_core::Span;
use airlock_phases::{
    Ended, Framework, Heard, Known, Language, Mutated, Mutation, Printed, Roster, TestItem,
    go_module,
};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Instant;

/// Most runs of tests that said nothing.
const REPEATS: usize = 40;
/// Most of them that may have to be ended by force before no further one is begun.
const HANGS: usize = 3;
/// Most tests that are asked for at once.
const TOGETHER: usize = 200;

/// Files, with what they are to hold.
pub(super) type Files = Vec<(String, String)>;

/// A change of the source for some runs.
pub(super) struct Change<'m> {
    pub(super) mutation: &'m Mutation,
    /// The files with it.
    pub(super) files: Files,
    /// The same files as they are.
    pub(super) own: Files,
}

/// What one run gave.
pub(super) struct Answer {
    stdout: String,
    stderr: String,
    /// Whether it failed, and came to that by itself.
    pub(super) failed: bool,
    /// Whether it had to be ended by force.
    hung: bool,
    /// Tests that failed, as the runner counted them.
    pub(super) counted: u64,
    pub(super) roster: Roster,
}

/// A series of runs.
pub(super) struct Hearing<'a, 'd> {
    drill: &'a Drill<'d>,
    pub(super) begun: Instant,
    longest: Option<Span>,
    pub(super) repeated: usize,
    hangs: usize,
    /// What tests said of code that is not changed, by what was asked for.
    unchanged: BTreeMap<Vec<String>, Roster>,
    /// Whether files of tests can be loaded with these contents.
    loads: BTreeMap<Files, bool>,
}

impl<'a, 'd> Hearing<'a, 'd> {
    pub(super) fn new(drill: &'a Drill<'d>, longest: Option<Span>) -> Self {
        Self {
            drill,
            begun: Instant::now(),
            longest,
            repeated: 0,
            hangs: 0,
            unchanged: BTreeMap::new(),
            loads: BTreeMap::new(),
        }
    }

    /// What all tests say with `files`.
    pub(super) fn whole(&self, files: Files) -> Result<Answer, ToolFailure> {
        self.run(files, &[])
    }

    fn run(&self, files: Files, only: &[String]) -> Result<Answer, ToolFailure> {
        let job = self.drill.job.varied(&Variation {
            files: files.into_iter().map(remarked).collect(),
            longest: self.longest,
            only: only.to_vec(),
            ..Variation::default()
        });
        let finished = (self.drill.again)(&job)?;
        let value = &finished.value;
        let stream = |name: &str| {
            let text = value.get(name).and_then(Value::as_str);
            text.unwrap_or_default().to_owned()
        };
        let (stdout, stderr) = (stream("stdout"), stream("stderr"));
        let counted = value.pointer("/tests/failed").and_then(Value::as_u64);
        Ok(Answer {
            failed: finished.ran.exited().is_some_and(|code| code != 0),
            hung: finished.ran.exited().is_none(),
            counted: counted.unwrap_or(0),
            roster: self.drill.roster(&stdout, &stderr),
            stdout,
            stderr,
        })
    }

    /// How the tests that are known so took `change`, by the `answer` of all of them to it; those
    /// that said nothing are asked again.
    pub(super) fn heard(
        &mut self,
        answer: &Answer,
        before: &Roster,
        change: &Change<'_>,
        tests: &[&Known],
    ) -> Result<Vec<Heard>, ToolFailure> {
        let run = self.mutated(answer);
        let mut heard: Vec<Heard> = tests
            .iter()
            .map(|known| run.heard(Some(known), Some(before), change.mutation))
            .collect();
        let silent = |heard: &[Heard]| -> Vec<usize> {
            let all = heard.iter().enumerate();
            all.filter(|(_, heard)| **heard == Heard::Silent)
                .map(|(number, _)| number)
                .collect()
        };
        let all = silent(&heard);
        for some in all.chunks(TOGETHER).filter(|some| some.len() > 1) {
            self.ask(change, tests, some, &mut heard)?;
        }
        for one in silent(&heard) {
            self.ask(change, tests, &[one], &mut heard)?;
        }
        Ok(heard)
    }

    /// Asks `some` of `tests`, by their numbers, what they make of `change`.
    fn ask(
        &mut self,
        change: &Change<'_>,
        tests: &[&Known],
        some: &[usize],
        heard: &mut [Heard],
    ) -> Result<(), ToolFailure> {
        let asked: Vec<(usize, &Known)> = some
            .iter()
            .filter_map(|number| Some((*number, *tests.get(*number)?)))
            .collect();
        let names = asked.iter().flat_map(|(_, known)| known.names());
        let mut only: Vec<String> = names.map(str::to_owned).collect();
        only.sort_unstable();
        only.dedup();
        if !self.drill.job.is_filtered(&only) {
            return Ok(());
        }
        let Some(answer) = self.repeat(change.files.clone(), &only)? else {
            return Ok(());
        };
        for (number, known) in &asked {
            let run = self.mutated(&answer);
            let mut found = match answer.roster.ended(known) {
                // Alone in its run: if that failed without a word, the test did.
                Ended::Silent if self.is_its_failure(&answer, &asked, change)? => Heard::Noticed,
                Ended::Silent => Heard::Silent,
                Ended::Passed | Ended::Failed => run.heard(Some(known), None, change.mutation),
            };
            if found == Heard::Noticed {
                found = match self.unchanged(change, &only)?.map(|own| own.ended(known)) {
                    Some(Ended::Passed) => Heard::Noticed,
                    // It fails by how it is run.
                    Some(Ended::Failed) => Heard::Overlooked,
                    Some(Ended::Silent) | None => Heard::Silent,
                };
            }
            if let Some(place) = heard.get_mut(*number) {
                *place = found;
            }
        }
        Ok(())
    }

    /// What the tests called `only` say of code that is not changed; none if nobody can be asked.
    fn unchanged(
        &mut self,
        change: &Change<'_>,
        only: &[String],
    ) -> Result<Option<&Roster>, ToolFailure> {
        if !self.unchanged.contains_key(only)
            && let Some(answer) = self.repeat(change.own.clone(), only)?
        {
            self.unchanged.insert(only.to_vec(), answer.roster);
        }
        Ok(self.unchanged.get(only))
    }

    /// Whether what ended the run can be nothing but a failure of the only test that was `asked`.
    fn is_its_failure(
        &mut self,
        answer: &Answer,
        asked: &[(usize, &Known)],
        change: &Change<'_>,
    ) -> Result<bool, ToolFailure> {
        // Where it began is not told, so it counts only where that is all the same.
        if asked.len() != 1 || !answer.failed || !change.mutation.excused.is_empty() {
            return Ok(false);
        }
        match self.drill.tests.framework {
            // Of a file that fails it is not told whether a test of it had begun.
            Framework::Node => self.loads(change),
            // What fails before a test begins is the file, not the test.
            Framework::Cargo | Framework::Go | Framework::Pytest => {
                Ok(self.mutated(answer).took_effect())
            }
        }
    }

    /// Whether the files of tests can be loaded with `change`, where none of their tests is run.
    fn loads(&mut self, change: &Change<'_>) -> Result<bool, ToolFailure> {
        if let Some(known) = self.loads.get(&change.files) {
            return Ok(*known);
        }
        let nobody = format!("nobody {:032x}", rand::random::<u128>());
        let Some(answer) = self.repeat(change.files.clone(), &[nobody])? else {
            return Ok(false);
        };
        let loads = !answer.failed && !answer.hung;
        self.loads.insert(change.files.clone(), loads);
        Ok(loads)
    }

    fn repeat(&mut self, files: Files, only: &[String]) -> Result<Option<Answer>, ToolFailure> {
        if self.repeated >= REPEATS || self.hangs >= HANGS || is_over(self.begun) {
            return Ok(None);
        }
        self.repeated += 1;
        let answer = self.run(files, only)?;
        self.hangs += usize::from(answer.hung);
        Ok(Some(answer))
    }

    pub(super) fn mutated<'r>(&self, answer: &'r Answer) -> Mutated<'r> {
        Mutated {
            framework: self.drill.tests.framework,
            printed: Printed {
                stdout: &answer.stdout,
                stderr: &answer.stderr,
            },
            failed: answer.failed,
            roster: &answer.roster,
        }
    }
}

/// A file with a remark that is another in every run, whether something is changed or not: a test
/// that goes by the letters of the source, or by their hash, fails wherever it is asked.
fn remarked((path, text): (String, String)) -> (String, String) {
    let remark = format!("{:032x}", rand::random::<u128>());
    let text = match Language::of(&path) {
        Some(language) => language.remarked(&text, &remark),
        None => text,
    };
    (path, text)
}

impl Drill<'_> {
    /// What a run that printed this tells of its tests.
    pub(super) fn roster(&self, stdout: &str, stderr: &str) -> Roster {
        let printed = Printed { stdout, stderr };
        Roster::read(self.tests.framework, printed, self.module.as_deref())
    }

    /// What the runner calls each of `tests`, where it tells of it in `roster`.
    pub(super) fn known(&self, roster: &Roster, tests: &[TestItem]) -> Vec<Option<Known>> {
        let all = tests.iter();
        all.map(|test| roster.known(test, self.fresh)).collect()
    }

    /// `paths` as they are in the stage.
    pub(super) fn own<'p>(&self, paths: impl IntoIterator<Item = &'p str>) -> Files {
        let own = |path: &str| Some((path.to_owned(), self.staged.new_text(path)?));
        paths.into_iter().filter_map(own).collect()
    }
}

/// The module of Go's that a stage is, by its `go.mod`.
pub(super) fn module_of(staged: &super::facts::Staged) -> Option<String> {
    let text = staged.new_text("go.mod")?;
    go_module(&text).map(str::to_owned)
}
