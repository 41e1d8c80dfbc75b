//! Runs the tests on source with one line changed, to see who notices.
//!
//! What a test makes of a change is held against runs made in the same way of the same files as they
//! are, before and afterwards: a test that fails there has noticed nothing.
//!
//! Guarantee: the stage is afterwards what it was. The script puts the file back; and because each
//! such run is judged as in a state in which nothing may be written, the check after it would put it
//! back as well.

use super::covering::Covering;
use super::facts::Staged;
use super::hearing::{Change, Files, Hearing};
use super::sites::sites;
use super::tested::Again;
use crate::process::{Job, TestJob};
use crate::tools::ToolFailure;
use airlock_phases::{
    Ended, Heard, Known, Language, LineSet, Mutant, Mutation, Roster, Sample, TestItem, mutants,
    samples,
};
use std::collections::BTreeSet;
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
    /// All new tests.
    pub(super) fresh: &'a [TestItem],
    /// What they said in the run that is looked at.
    pub(super) before: &'a Roster,
    /// The module of Go's that the workspace is.
    pub(super) module: Option<String>,
    pub(super) again: Again<'a>,
}

/// What changed runs are held against.
struct Scene<'a> {
    /// All files that are changed in one of them, as they are.
    own: &'a Files,
    /// What the tests said with those.
    unchanged: &'a Roster,
}

/// `own` with `mutant` in it.
fn changed_by(own: &[(String, String)], mutant: &Mutant) -> Files {
    let file = |(path, text): &(String, String)| {
        let text = if *path == mutant.path {
            mutant.of(text)
        } else {
            text.clone()
        };
        (path.clone(), text)
    };
    own.iter().map(file).collect()
}

/// Those of `noticed` that fail by now where the files are as they are: they count the runs, or
/// fail by chance.
fn refuted<'s>(
    hearing: &Hearing<'_, '_>,
    mut noticed: Vec<Suspect<'s>>,
    own: Files,
) -> Result<Vec<Suspect<'s>>, ToolFailure> {
    if noticed.is_empty() {
        return Ok(noticed);
    }
    let roster = hearing.whole(own)?.roster;
    noticed.retain_mut(|suspect| {
        suspect.heard = true;
        let known = suspect.known.as_ref();
        known.is_some_and(|known| roster.ended(known) == Ended::Failed)
    });
    Ok(noticed)
}

/// A test that has to show that it can fail.
struct Suspect<'a> {
    test: &'a TestItem,
    known: Option<Known>,
    /// Whether something is known of it but that it said nothing.
    heard: bool,
}

/// What came of it for tests that have to show that they can fail.
pub(super) struct Drilled {
    /// Those that noticed nothing.
    pub(super) survivors: Vec<String>,
    /// Those that said nothing at all.
    pub(super) unheard: Vec<String>,
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
        let most = (2 * suspects.len()).clamp(FEW, MOST);
        let new = covering.map(|covering| &covering.new);
        let mut newly_covered = true;
        let mut chosen = new.map_or_else(Vec::new, |new| self.mutants(new.clone(), most));
        if chosen.is_empty() {
            newly_covered = false;
            chosen = self.mutants(sites(self.staged, suspects), most);
        }
        let mut hearing = Hearing::new(self, None);
        let known = self.known(self.before, suspects);
        let mut left: Vec<Suspect<'_>> = suspects
            .iter()
            .zip(known)
            .map(|(test, known)| Suspect {
                test,
                heard: known.is_none(),
                known,
            })
            .collect();
        let paths: BTreeSet<&str> = chosen.iter().map(|mutant| mutant.path.as_str()).collect();
        let own = self.own(paths);
        let (mut tried, mut noticed) = (0, Vec::new());
        if !chosen.is_empty() {
            let unchanged = hearing.whole(own.clone())?.roster;
            let scene = Scene {
                own: &own,
                unchanged: &unchanged,
            };
            for mutant in &chosen {
                if left.is_empty() || is_over(hearing.begun) {
                    break;
                }
                tried += 1;
                noticed.extend(self.suspected(&mut hearing, &mut left, mutant, &scene)?);
            }
        }
        left.extend(refuted(&hearing, noticed, own)?);
        let label = |suspect: &Suspect<'_>| suspect.test.label(self.fresh);
        // Where nothing was changed nobody was asked.
        let (survivors, unheard): (Vec<_>, Vec<_>) =
            left.iter().partition(|suspect| suspect.heard || tried == 0);
        Ok(Drilled {
            survivors: survivors.into_iter().map(label).collect(),
            unheard: unheard.into_iter().map(label).collect(),
            newly_covered,
            tried,
        })
    }

    /// Takes from `left` those who notice `mutant`, and gives them back.
    fn suspected<'s>(
        &self,
        hearing: &mut Hearing<'_, '_>,
        left: &mut Vec<Suspect<'s>>,
        mutant: &Mutant,
        scene: &Scene<'_>,
    ) -> Result<Vec<Suspect<'s>>, ToolFailure> {
        let mutation = Mutation {
            what: mutant.what.clone(),
            edits: Vec::new(),
            excused: Vec::new(),
            instead: false,
        };
        let change = Change {
            mutation: &mutation,
            files: changed_by(scene.own, mutant),
            own: scene.own.clone(),
        };
        let answer = hearing.whole(change.files.clone())?;
        if !hearing.mutated(&answer).took_effect() {
            // What cannot be compiled or loaded nobody could notice.
            for suspect in left.iter_mut() {
                suspect.heard = true;
            }
            return Ok(Vec::new());
        }
        let known: Vec<&Known> = left.iter().filter_map(|one| one.known.as_ref()).collect();
        let heard = hearing.heard(&answer, scene.unchanged, &change, &known)?;
        let (mut heard, mut noticed) = (heard.into_iter(), Vec::new());
        for mut suspect in std::mem::take(left) {
            let known = suspect.known.as_ref();
            let failed = known.is_some_and(|known| self.before.ended(known) == Ended::Failed);
            let heard = known.and_then(|_| heard.next());
            suspect.heard |= failed || heard == Some(Heard::Overlooked);
            if heard == Some(Heard::Noticed) && !failed {
                noticed.push(suspect);
            } else {
                left.push(suspect);
            }
        }
        Ok(noticed)
    }

    /// Which of the newly covered lines the new tests look at.
    pub(super) fn proven(&self, covering: &Covering) -> Result<Proven, ToolFailure> {
        let hearing = Hearing::new(self, None);
        let mut proven = Proven {
            noticed: LineSet::new(),
            tried: 0,
        };
        let known = self.known(self.before, self.fresh);
        let mut known: Vec<&Known> = known.iter().flatten().collect();
        known.retain(|known| self.before.ended(known) != Ended::Failed);
        let samples = self.samples(&covering.new);
        if samples.is_empty() {
            return Ok(proven);
        }
        let paths = samples.iter().map(|sample| sample.mutant.path.as_str());
        let own = self.own(paths.collect::<BTreeSet<_>>());
        let unchanged = hearing.whole(own.clone())?.roster;
        known.retain(|known| unchanged.ended(known) != Ended::Failed);
        let mut noticed: Vec<(Sample, Vec<&Known>)> = Vec::new();
        for sample in samples {
            if is_over(hearing.begun) {
                break;
            }
            proven.tried += 1;
            let answer = hearing.whole(changed_by(&own, &sample.mutant))?;
            let mut by = known.clone();
            by.retain(|known| answer.roster.ended(known) == Ended::Failed);
            noticed.push((sample, by));
        }
        // Who fails by now where nothing is changed has noticed nothing before.
        let unchanged = hearing.whole(own)?.roster;
        let stands = |known: &&Known| unchanged.ended(known) != Ended::Failed;
        for (sample, by) in noticed {
            if by.iter().any(stands) {
                let lines = proven.noticed.entry(sample.mutant.path).or_default();
                lines.extend(sample.lines);
            }
        }
        Ok(proven)
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
        let all: usize = lines.values().map(BTreeSet::len).sum();
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
