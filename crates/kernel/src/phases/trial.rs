//! What new tests are put to, once it is known how they ran; and what is measured for the coverage
//! budget.

use super::covering::Covering;
use super::mutating::Drill;
use super::tested::{Examined, reserve};
use super::tools::place_of;
use crate::process::{Finished, Measured, Variation};
use crate::tools::ToolFailure;
use airlock_core::{Mode, Phase, Span};
use airlock_phases::{Coverage, Ledger, LineSet, Proof, Route, TestRun};
use airlock_state::Session;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// What a measured run may take beyond a few times what the plain one took: time to compile.
const GRACE: u64 = 60_000;
const TIMES: u64 = 8;

/// What whoever is asked about a change is told if its new tests were held against no other code.
const UNASKED: &str = "nothing of the change could be changed so that the tests still ran: no new \
                       test has shown that it looks at it";

/// A run of the tests, and what further ones are made with.
pub(super) struct Trial<'a> {
    pub(super) drill: Drill<'a>,
    pub(super) examined: &'a Examined,
    pub(super) finished: &'a Finished,
    /// The same, if it was made where the further ones are.
    pub(super) known: Option<&'a Finished>,
}

/// What is to be found out.
struct Asked {
    /// Whether every new test has to look at the code.
    challenged: bool,
    /// What has to be covered again, while explore mode is locked.
    regains: Option<u64>,
    /// Whether what new tests cover counts for a budget that exploring may spend.
    spends: bool,
    /// Whether the budget is what is covered now.
    sets: bool,
}

impl Asked {
    fn of(session: &Session, ledger: Ledger, run: &TestRun) -> Self {
        let route = place_of(session).progress.route;
        let passed = session.phase == Phase::Validating && run.proof == Proof::Green;
        let explored = passed && route == Some(Route::Exploring);
        let strict = passed && session.mode == Mode::Strict;
        let ours = match (ledger.framework, run.framework) {
            (Some(own), Some(by)) => own == by,
            (_, _) => true,
        };
        Self {
            challenged: passed && route == Some(Route::TestFirst) || explored,
            regains: ledger.locked.filter(|_| strict && ours),
            spends: explored && ours && ledger.baseline.is_some(),
            sets: strict && ours && !matches!(route, Some(Route::Exempt(_)) | None),
        }
    }
}

impl Trial<'_> {
    /// Notes in `run` which tests cannot fail and what is proven to be covered, and says how that
    /// was found out.
    pub(super) fn run(
        &self,
        session: &Session,
        ledger: Ledger,
        run: &mut TestRun,
    ) -> Result<Map<String, Value>, ToolFailure> {
        let mut told = Map::new();
        if is_refused(session, run) {
            return Ok(told);
        }
        let asked = Asked::of(session, ledger, run);
        if asked.challenged {
            told.extend(self.challenged(session, run)?);
        }
        // All new tests were, these among them.
        let suspects = if asked.challenged {
            Vec::new()
        } else {
            self.examined.suspects(session.phase, run.proof)
        };
        let stands = run.suspects.is_empty() && run.unheard.is_empty();
        let spends = asked.spends && stands;
        let tried = match session.phase {
            Phase::TestWriting | Phase::Validating => {
                !suspects.is_empty() || asked.regains.is_some() || spends
            }
            Phase::Idle
            | Phase::Planning
            | Phase::CodeWriting
            | Phase::Refactoring
            | Phase::Reviewing
            | Phase::Committing
            | Phase::Exploring
            | Phase::RetroactiveTesting => false,
        };
        if !tried {
            if asked.sets && stands && run.lost.is_empty() && run.coverage.is_none() {
                told.insert("measured".to_owned(), self.measured(session, run)?);
            }
            return Ok(told);
        }
        let Drill { job, staged, .. } = self.drill;
        let measured = Covering::measure(job, self.known, staged, self.drill.again)?;
        let (covering, why) = match measured {
            Ok(covering) => (Some(covering), None),
            Err(why) => (None, Some(why)),
        };
        if !suspects.is_empty() {
            let drilled = self.drill.survivors(&suspects, covering.as_ref())?;
            let lines = if drilled.newly_covered {
                "newly_covered"
            } else {
                "changed_or_named"
            };
            let nothing_new = (!drilled.newly_covered).then_some("they cover nothing new");
            told.insert(
                "mutated".to_owned(),
                json!({ "lines": lines, "why": why.or(nothing_new), "tried": drilled.tried }),
            );
            run.suspects = drilled.survivors;
            run.unheard = drilled.unheard;
            let labels = suspects.iter().map(|test| test.label(self.drill.fresh));
            let left = |label: &String| run.suspects.contains(label) || run.unheard.contains(label);
            run.noticed = labels.filter(|label| !left(label)).collect();
        }
        let name = match (asked.regains, spends) {
            (Some(_), _) => "regained",
            (None, true) => "proven",
            (None, false) => return Ok(told),
        };
        let proven = match (covering, why) {
            (Some(covering), _) => self.proven(&covering, asked.regains, run)?,
            (None, why) => json!({ "why": why, "needed_hundredths": asked.regains }),
        };
        told.insert(name.to_owned(), proven);
        Ok(told)
    }

    /// Notes in `run` which new tests look at nothing of the code that they led to.
    fn challenged(
        &self,
        session: &Session,
        run: &mut TestRun,
    ) -> Result<Map<String, Value>, ToolFailure> {
        let mut told = Map::new();
        let progress = place_of(session).progress;
        let shown = progress.before.map(|before| before.noticed);
        let tests = self
            .examined
            .challenged(self.drill.staged, &shown.unwrap_or_default());
        // Exploring need not write tests, and may change what is none.
        let explores = progress.route == Some(Route::Exploring);
        if tests.is_empty() || explores && self.examined.fresh.is_empty() {
            return Ok(told);
        }
        // Only what speaks against tests is taken over.
        let fell = |last: &TestRun| !last.suspects.is_empty() || !last.unheard.is_empty();
        let last = progress.last;
        if let Some(last) = last.filter(|last| fell(last) && is_of_the_same(last, run)) {
            let why = "the same tests were refused with the same changes before";
            told.insert(
                "mutated".to_owned(),
                json!({ "why": why, "tried": 0, "earlier": true }),
            );
            (run.suspects, run.unheard) = (last.suspects, last.unheard);
            run.unnoticed = last.unnoticed;
            return Ok(told);
        }
        let challenged = self.drill.challenge(&tests, self.finished)?;
        told.insert("mutated".to_owned(), challenged.told());
        run.noticed = challenged.noticed;
        run.unnoticed = challenged.changes;
        run.suspects = challenged.survivors;
        run.unheard = challenged.unheard;
        if challenged.unasked {
            reserve(run, UNASKED);
        }
        if run.suspects.is_empty() {
            run.unnoticed.clear();
        }
        Ok(told)
    }

    /// What is covered for certain, noted in `run`: what was covered without the new tests, and what
    /// they look at.
    fn proven(
        &self,
        covering: &Covering,
        needed: Option<u64>,
        run: &mut TestRun,
    ) -> Result<Value, ToolFailure> {
        let proven = self.drill.proven(covering)?;
        let sure = Coverage::proven(&covering.before, &covering.after, &proven.noticed);
        run.coverage = Some(Coverage::of(&covering.after));
        run.proven = Some(sure);
        let count = |lines: &LineSet| -> usize { lines.values().map(BTreeSet::len).sum() };
        Ok(json!({
            "newly_covered": count(&covering.new),
            "noticed": count(&proven.noticed),
            "tried": proven.tried,
            "proven": sure,
            "proven_hundredths": sure.hundredths(),
            "needed_hundredths": needed,
        }))
    }

    /// Measures what the tests cover, which nobody asked for: what is committed strictly sets the
    /// budget. Where it cannot be measured, or takes too long, the budget stays as it is. Neither what
    /// is known of the same changes is measured again, nor is what failed tried twice in one task.
    fn measured(&self, session: &Session, run: &mut TestRun) -> Result<Value, ToolFailure> {
        let last = place_of(session).progress.last;
        let known = last.filter(|last| is_of_the_same(last, run));
        if let Some(coverage) = known.and_then(|last| last.coverage) {
            run.coverage = Some(coverage);
            return Ok(json!({ "coverage": coverage, "earlier": true }));
        }
        if let Some(why) = &run.unmeasured {
            let fix = "`test.run` with `coverage` tries it again";
            return Ok(json!({ "why": why, "fix": fix, "earlier": true }));
        }
        let wall = self.finished.ran.wall_ms;
        let longest = GRACE.saturating_add(wall.saturating_mul(TIMES));
        let job = self.drill.job.varied(&Variation {
            measured: true,
            or_nothing: true,
            longest: Some(Span::from_millis(longest)),
            ..Variation::default()
        });
        let measured = (self.drill.again)(&job)?.measured;
        Ok(match measured {
            Some(Ok(Measured { lines, .. })) => {
                let coverage = Coverage::of(&lines);
                run.coverage = Some(coverage);
                json!({ "coverage": coverage })
            }
            Some(Err(missing)) => {
                let why = missing.why().to_owned();
                run.unmeasured = Some(why).filter(|_| !crate::cancel::is_set());
                json!({ "why": missing.why(), "fix": missing.fix() })
            }
            None => json!({ "why": "nothing is measured here" }),
        })
    }
}

/// Whether `run` is refused for the tests that are lost, whatever else is found out.
fn is_refused(session: &Session, run: &TestRun) -> bool {
    let route = place_of(session).progress.route;
    // What goes while exploring, a person is told of.
    let strict = matches!(
        route,
        Some(Route::TestFirst | Route::Refactoring(_) | Route::Exempt(_))
    );
    strict && !run.lost.is_empty()
}

/// Whether all tests passed in both, by the same runner with the same changes.
fn is_of_the_same(last: &TestRun, run: &TestRun) -> bool {
    let passed = last.proof == Proof::Green && run.proof == Proof::Green;
    passed && (last.stage, last.framework) == (run.stage, run.framework)
}
