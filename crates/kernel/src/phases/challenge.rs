//! Whether the tests that led to the code look at it at all.
//!
//! A test that failed only because a name was missing passes with any body of it. So every new test
//! of a strict task has to notice one of several changes of the code it led to, once that is there:
//! functions emptied, returning something else, as they were before, single lines changed. A test
//! that notices none of the code that the stage changes is tried on the functions that it names, so
//! that one which covers old code beside the new is not taken for empty.
//!
//! What they are held against is a run made in the same way of code that is not changed, once before
//! and once afterwards: a test that fails there knows how it is run, counts the runs, or fails by
//! chance, and has noticed nothing.
//!
//! Guarantee: which changes are tried is decided by the source alone, and they are so many at most
//! and no longer than the constants say. A test is said to notice nothing only if it was really run
//! with a change and not merely silent, because another ended the run; and the stage is afterwards
//! what it was.
//!
//! Non-guarantee: a test can look at the wrong thing, at the source's text, or fail by chance.

use super::facts::Staged;
use super::hearing::{Change, Files, Hearing};
use super::mutating::{Drill, MOST, is_over};
use super::sites::{changed, named};
use crate::process::Finished;
use crate::tools::ToolFailure;
use airlock_core::Span;
use airlock_phases::{
    Ended, Ground, Heard, Known, Language, LineSet, Mutation, Roster, TestItem, apart, coarse, fine,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Most changes of single lines, and of single functions, in one round.
const FINE: usize = 8;
const APART: usize = 6;
/// What a changed run may take beyond a few times what the unchanged one took: time to compile.
const GRACE: u64 = 30_000;
const TIMES: u64 = 4;

/// What came of it.
pub(super) struct Challenged {
    /// Tests that were run, and noticed nothing.
    pub(super) survivors: Vec<String>,
    /// Tests of which it was never told how they ended.
    pub(super) unheard: Vec<String>,
    /// Those that noticed something.
    pub(super) noticed: Vec<String>,
    /// What was changed and could be run, in words.
    pub(super) changes: Vec<String>,
    /// Whether none of them could be put to it: nothing of the code could be changed, or run so.
    pub(super) unasked: bool,
    /// How many changes were tried.
    tried: usize,
    /// How many further runs there were, of tests that had said nothing.
    repeated: usize,
}

impl Challenged {
    /// What the answer of the call says of it.
    pub(super) fn told(&self) -> Value {
        json!({
            "lines": "changed_or_named",
            "why": "every new test has to notice a change of the code it led to",
            "tried": self.tried,
            "asked_again": self.repeated,
            "unheard": self.unheard,
            "changes": self.changes,
            "noticed_by": self.noticed,
        })
    }
}

/// One series of runs.
struct Round<'a, 'd> {
    drill: &'a Drill<'d>,
    hearing: Hearing<'a, 'd>,
    left: Vec<Left>,
    /// Tests that have noticed something.
    done: Vec<Left>,
    /// What the tests said of code that was not changed; none before they were asked.
    before: Option<Before>,
    /// Tests that noticed something, and failed as well where there was nothing to notice.
    refuted: Vec<String>,
    /// Whether the runner tells tests by their names.
    named: bool,
    challenged: Challenged,
}

/// A test that has noticed nothing yet.
struct Left {
    test: TestItem,
    known: Option<Known>,
    /// Whether it was run with a change.
    ran: bool,
}

/// A run in which nothing is changed.
struct Before {
    roster: Roster,
    /// Whether it failed and named nobody.
    failed: bool,
    /// The files it was made with.
    own: Files,
}

/// `own` with what `changed` has in place of some of it.
fn laid_over(own: &[(String, String)], changed: Files) -> Files {
    let mut changed: BTreeMap<String, String> = changed.into_iter().collect();
    let file = |(path, text): &(String, String)| {
        let text = changed.remove(path).unwrap_or_else(|| text.clone());
        (path.clone(), text)
    };
    own.iter().map(file).collect()
}

impl Drill<'_> {
    /// Tries `tests` on the code, in which they passed in the run that `finished`.
    pub(super) fn challenge(
        &self,
        tests: &[TestItem],
        finished: &Finished,
    ) -> Result<Challenged, ToolFailure> {
        let wall = finished.ran.wall_ms;
        let longest = Span::from_millis(GRACE.saturating_add(wall.saturating_mul(TIMES)));
        let left = tests.iter().map(|test| Left {
            test: test.clone(),
            known: None,
            ran: false,
        });
        let mut round = Round {
            drill: self,
            hearing: Hearing::new(self, Some(longest)),
            left: left.collect(),
            done: Vec::new(),
            before: None,
            refuted: Vec::new(),
            named: false,
            challenged: Challenged {
                survivors: Vec::new(),
                unheard: Vec::new(),
                noticed: Vec::new(),
                changes: Vec::new(),
                unasked: false,
                tried: 0,
                repeated: 0,
            },
        };
        let new = changed(self.staged);
        round.through(&grounds(self.staged, &new))?;
        if !round.is_done() {
            let left: Vec<TestItem> = round.left.iter().map(|left| left.test.clone()).collect();
            let mut old = named(self.staged, &left);
            old.retain(|path, lines| {
                let tried = new.get(path);
                lines.retain(|line| tried.is_none_or(|tried| !tried.contains(line)));
                !lines.is_empty()
            });
            round.through(&grounds(self.staged, &old))?;
        }
        round.confirm()?;
        Ok(round.ended())
    }
}

fn grounds(staged: &Staged, lines: &LineSet) -> Vec<Ground> {
    let ground = |(path, lines): (&String, &std::collections::BTreeSet<u32>)| {
        Some(Ground {
            path: path.clone(),
            language: Language::of(path)?,
            old: staged.old(path).map(Into::into),
            new: staged.new_text(path)?.into(),
            lines: lines.clone(),
        })
    };
    lines.iter().filter_map(ground).collect()
}

impl Round<'_, '_> {
    fn is_done(&self) -> bool {
        let over = is_over(self.hearing.begun);
        self.left.is_empty() || self.challenged.tried >= MOST || over
    }

    /// All changes of `grounds`, the coarse ones first, until every test has noticed one.
    fn through(&mut self, grounds: &[Ground]) -> Result<(), ToolFailure> {
        // Held against the same files, so that nobody can tell the runs by their dates.
        self.confirm()?;
        self.before = None;
        if !self.each(grounds, coarse(grounds), MOST)? {
            // One function whose change cannot be compiled keeps all others from being tried.
            let single = apart(grounds);
            let single = single
                .iter()
                .flat_map(|ground| coarse(std::slice::from_ref(ground)));
            self.each(grounds, single, APART)?;
        }
        self.each(grounds, fine(grounds, FINE), FINE).map(drop)
    }

    /// Up to `most` of `mutations` of `grounds`. Whether all of them could be run.
    fn each(
        &mut self,
        grounds: &[Ground],
        mutations: impl IntoIterator<Item = Mutation>,
        most: usize,
    ) -> Result<bool, ToolFailure> {
        let own = self
            .drill
            .own(grounds.iter().map(|ground| ground.path.as_str()));
        let (mut all, mut ran) = (true, true);
        for mutation in mutations.into_iter().take(most) {
            if self.is_done() {
                break;
            }
            if mutation.instead && ran {
                continue;
            }
            ran = self.once(&Change {
                files: laid_over(&own, mutation.files(grounds)),
                own: own.clone(),
                mutation: &mutation,
            })?;
            all &= ran || mutation.instead;
        }
        Ok(all)
    }

    /// Whether the tests ran with `change`; those that noticed it are done.
    fn once(&mut self, change: &Change<'_>) -> Result<bool, ToolFailure> {
        let before = match self.before.take() {
            Some(before) => before,
            None => self.unchanged(change)?,
        };
        let noticed = self.held_against(&before, change);
        self.before = Some(before);
        noticed
    }

    /// What the tests say where the files of `change` are written as they are.
    fn unchanged(&mut self, change: &Change<'_>) -> Result<Before, ToolFailure> {
        let answer = self.hearing.whole(change.own.clone())?;
        for left in &mut self.left {
            left.known = answer.roster.known(&left.test, self.drill.fresh);
        }
        Ok(Before {
            // Without names the run as a whole speaks, and this one may say no already.
            failed: answer.roster.is_empty() && answer.failed,
            roster: answer.roster,
            own: change.own.clone(),
        })
    }

    /// Takes back what is said of tests that fail by now where nothing is changed: they count the
    /// runs, or fail by chance.
    fn confirm(&mut self) -> Result<(), ToolFailure> {
        let Some(before) = self.before.as_ref().filter(|_| !self.done.is_empty()) else {
            return Ok(());
        };
        let answer = self.hearing.whole(before.own.clone())?;
        let stands = |done: &Left| match &done.known {
            Some(known) => answer.roster.ended(known) != Ended::Failed,
            None => !answer.failed,
        };
        let done = std::mem::take(&mut self.done);
        let (stand, fall): (Vec<Left>, Vec<Left>) = done.into_iter().partition(stands);
        let label = |left: &Left| left.test.label(self.drill.fresh);
        self.refuted.extend(fall.iter().map(label));
        self.challenged.noticed.extend(stand.iter().map(label));
        Ok(())
    }

    fn held_against(&mut self, before: &Before, change: &Change<'_>) -> Result<bool, ToolFailure> {
        self.challenged.tried += 1;
        let answer = self.hearing.whole(change.files.clone())?;
        let run = self.hearing.mutated(&answer);
        let nameless = before.roster.is_empty();
        self.named |= !nameless;
        // Without names, only tests that were counted tell a test from what cannot be compiled.
        let silent = nameless && answer.failed && answer.counted == 0;
        if silent || !nameless && !run.took_effect() {
            return Ok(false);
        }
        let what = crate::sanitise::sanitise_line(&change.mutation.what, 200);
        self.challenged.changes.push(what);
        let known: Vec<&Known> = self
            .left
            .iter()
            .filter_map(|left| left.known.as_ref())
            .collect();
        let heard = self
            .hearing
            .heard(&answer, &before.roster, change, &known)?;
        let mut heard = heard.into_iter();
        for mut left in std::mem::take(&mut self.left) {
            let heard = match left.known {
                Some(_) => heard.next().unwrap_or(Heard::Silent),
                None if before.failed => Heard::Overlooked,
                None => run.heard(None, Some(&before.roster), change.mutation),
            };
            left.ran |= heard == Heard::Overlooked;
            match heard {
                Heard::Noticed => self.done.push(left),
                Heard::Overlooked | Heard::Silent => self.left.push(left),
            }
        }
        Ok(true)
    }

    fn ended(mut self) -> Challenged {
        self.challenged.repeated = self.hearing.repeated;
        // What was never changed cannot have been overlooked. Where it was, and no test ever began, the
        // tests may be what keeps them from it: a file that loads only with the code as it is.
        let kept_out = self.named && self.challenged.tried > 0;
        if kept_out || !self.challenged.changes.is_empty() {
            let (ran, silent): (Vec<Left>, Vec<Left>) =
                self.left.into_iter().partition(|left| left.ran);
            let label = |left: Left| left.test.label(self.drill.fresh);
            let survivors = ran.into_iter().map(label).chain(self.refuted);
            self.challenged.survivors = survivors.collect();
            self.challenged.unheard = silent.into_iter().map(label).collect();
        } else {
            self.challenged.unasked = !self.left.is_empty();
        }
        self.challenged
    }
}
