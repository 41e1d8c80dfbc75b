//! What a run of the tests means for the session that asked for it.

use super::covering::Covering;
use super::facts::Staged;
use super::hearing::module_of;
use super::mutating::Drill;
use super::tools::place_of;
use crate::control::Desk;
use crate::control::for_caller::failure;
use crate::kernel::Kernel;
use crate::process::{Finished, Job, TestJob};
use crate::tools::ToolFailure;
use airlock_core::{Caller, Digest, Mode, Phase};
use airlock_phases::{
    Coverage, Ended, Event, Language, Ledger, LineSet, Lines, Observed, Printed, Proof, Reading,
    Roster, Route, Spans, TestItem, TestRun, judge, names, new_tests,
};
use airlock_state::Session;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// Runs a job of this call once more, on the same ground.
pub(crate) type Again<'a> = &'a dyn Fn(&Job) -> Result<Finished, ToolFailure>;

impl Kernel {
    pub(crate) fn desk(&self) -> Desk {
        Desk {
            store: self.store_shared(),
            hold: self.hold_shared(),
            clock: self.clock().clone(),
        }
    }

    /// What the run that `finished` proves, kept with the session of `caller`; in `validating` it
    /// also decides how that goes on. None outside the discipline.
    pub(crate) fn after_tests(
        &self,
        caller: &Caller,
        job: &Job,
        finished: &Finished,
        again: Again<'_>,
    ) -> Result<Option<Value>, ToolFailure> {
        let (Some(_), Some(tests)) = (caller.phase, job.tests()) else {
            return Ok(None);
        };
        let desk = self.desk();
        let session = desk.held_session(caller, None)?;
        if !tests.whole {
            return Ok(Some(json!({
                "proof": Proof::Nothing.as_str(),
                "why": "a filter leaves tests out",
                "state": session.phase,
            })));
        }
        let staged = desk.staged(&session)?;
        let examined = Examined::new(&staged, tests, finished);
        let mut run = examined.run(&staged);
        if session.phase == Phase::Planning {
            run.lines = finished.lines().map(Spans::of).filter(is_kept);
        }
        let drill = Drill {
            job,
            tests,
            staged: &staged,
            fresh: &examined.fresh,
            before: &examined.roster,
            module: examined.module.clone(),
            again,
        };
        let ledger = desk.state()?.ledger(&session.workspace);
        let ledger = ledger.map_err(|error| failure(&error))?;
        let trial = Trial {
            drill,
            examined: &examined,
            finished,
        };
        let tried = trial.run(&session, ledger, &mut run)?;
        let mut told = settle(&desk, &session, &staged, &run)?;
        if let Some(object) = told.as_object_mut() {
            object.extend(tried);
        }
        Ok(Some(told))
    }
}

/// Most ranges of lines that are kept with a session.
const SPANS: usize = 50_000;

fn is_kept(spans: &Spans) -> bool {
    let sides = spans.run.values().chain(spans.missed.values());
    sides.map(Vec::len).sum::<usize>() <= SPANS
}

impl Finished {
    /// The lines that were measured.
    fn lines(&self) -> Option<&Lines> {
        let measured = self.measured.as_ref()?.as_ref().ok()?;
        Some(&measured.lines)
    }
}

/// What new tests are put to, once it is known how they ran.
struct Trial<'a> {
    drill: Drill<'a>,
    examined: &'a Examined,
    finished: &'a Finished,
}

impl Trial<'_> {
    /// Notes in `run` which tests cannot fail and what is proven to be covered, and says how that
    /// was found out.
    fn run(
        &self,
        session: &Session,
        ledger: Ledger,
        run: &mut TestRun,
    ) -> Result<Map<String, Value>, ToolFailure> {
        let mut told = Map::new();
        let is_challenged = is_challenged(session, run);
        if is_challenged {
            told.extend(self.challenged(session, run)?);
        }
        // All new tests were, these among them.
        let suspects = if is_challenged {
            Vec::new()
        } else {
            self.examined.suspects(session.phase, run.proof)
        };
        let regains = ledger
            .locked
            .filter(|_| session.mode == Mode::Strict && session.phase == Phase::Validating)
            .filter(|_| run.proof == Proof::Green);
        let tried = match session.phase {
            Phase::TestWriting | Phase::Validating => !suspects.is_empty() || regains.is_some(),
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
            return Ok(told);
        }
        let Drill { job, staged, .. } = self.drill;
        let measured = Covering::measure(job, self.finished, staged, self.drill.again)?;
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
        if let Some(needed) = regains {
            let regained = match (covering, why) {
                (Some(covering), _) => self.regained(&covering, needed, run)?,
                (None, why) => json!({ "why": why, "needed_hundredths": needed }),
            };
            told.insert("regained".to_owned(), regained);
        }
        Ok(told)
    }

    /// Notes in `run` which new tests look at nothing of the code that they led to.
    fn challenged(
        &self,
        session: &Session,
        run: &mut TestRun,
    ) -> Result<Map<String, Value>, ToolFailure> {
        let mut told = Map::new();
        let before = place_of(session).progress.before;
        let shown = before.map(|before| before.noticed).unwrap_or_default();
        let tests = self.examined.challenged(self.drill.staged, &shown);
        if tests.is_empty() {
            return Ok(told);
        }
        let challenged = self.drill.challenge(&tests, self.finished)?;
        told.insert("mutated".to_owned(), challenged.told());
        run.noticed = challenged.noticed;
        run.unnoticed = challenged.changes;
        run.suspects = challenged.survivors;
        run.unheard = challenged.unheard;
        if run.suspects.is_empty() {
            run.unnoticed.clear();
        }
        Ok(told)
    }

    /// What of the coverage that was lost is there again for certain.
    fn regained(
        &self,
        covering: &Covering,
        needed: u64,
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
}

/// Whether the tests led to the code, and pass with it.
fn is_challenged(session: &Session, run: &TestRun) -> bool {
    let route = place_of(session).progress.route;
    session.phase == Phase::Validating
        && run.proof == Proof::Green
        && route == Some(Route::TestFirst)
}

/// Keeps the run, and takes the step that it leads to while validating.
fn settle(
    desk: &Desk,
    session: &Session,
    staged: &Staged,
    run: &TestRun,
) -> Result<Value, ToolFailure> {
    let mut place = place_of(session);
    place.progress.last = Some(run.clone());
    let mut session = desk.keep(session, place)?;
    let mut refused = None;
    if session.phase == Phase::Validating {
        session = match desk.step(&session, &Event::Validated, staged, None) {
            Ok((session, _)) => session,
            Err(failure) => {
                refused = Some(failure.to_string());
                desk.step(&session, &Event::SentBack, staged, None)?.0
            }
        };
    }
    Ok(json!({
        "proof": run.proof.as_str(),
        "why": run.why,
        "suspects": run.suspects,
        "unheard": run.unheard,
        "refused": refused,
        "state": session.phase,
        "next": super::tools::next(session.phase),
    }))
}

/// A run, and the tests it is about.
struct Examined {
    reading: (Proof, String),
    counts: (u64, u64, u64),
    observed: Observed,
    roster: Roster,
    module: Option<String>,
    fresh: Vec<TestItem>,
    coverage: Option<Coverage>,
}

impl Examined {
    fn new(staged: &Staged, tests: TestJob, finished: &Finished) -> Self {
        let value = &finished.value;
        let stream = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
        let (stdout, stderr) = (stream("stdout"), stream("stderr"));
        let output = format!("{stdout}\n{stderr}");
        let module = module_of(staged);
        let number = |pointer: &str| value.pointer(pointer).and_then(Value::as_u64);
        let counts = number("/tests/passed").map(|passed| {
            let of = |pointer| number(pointer).unwrap_or(0);
            (passed, of("/tests/failed"), of("/tests/ignored"))
        });
        let fresh = fresh(staged);
        let fresh_names: Vec<String> = fresh.iter().map(|test| test.name.clone()).collect();
        let reading = judge(&Reading {
            framework: tests.framework,
            exit: finished.ran.exited(),
            output: &output,
            counts,
            changed: &staged.changed.tests,
            new_tests: &fresh_names,
        });
        Self {
            reading,
            counts: counts.unwrap_or_default(),
            observed: names(tests.framework, &output),
            roster: Roster::read(
                tests.framework,
                Printed { stdout, stderr },
                module.as_deref(),
            ),
            module,
            fresh,
            coverage: finished.lines().map(Coverage::of),
        }
    }

    fn run(&self, staged: &Staged) -> TestRun {
        let passed: Vec<&str> = self.observed.passed.iter().map(String::as_str).collect();
        let (proof, why) = self.reading.clone();
        TestRun {
            stage: staged.digest,
            proof,
            why: crate::sanitise::sanitise_line(&why, 300),
            passed: self.counts.0,
            failed: self.counts.1,
            ignored: self.counts.2,
            names: Digest::of(passed.join("\n").as_bytes()),
            suspects: Vec::new(),
            noticed: Vec::new(),
            unnoticed: Vec::new(),
            unheard: Vec::new(),
            coverage: self.coverage,
            proven: None,
            lines: None,
        }
    }

    /// New tests that have not shown that they can fail.
    fn suspects(&self, state: Phase, proof: Proof) -> Vec<TestItem> {
        if proof != Proof::Red && proof != Proof::Green {
            return Vec::new();
        }
        let passed = |test: &TestItem| {
            let known = self.roster.known(test, &self.fresh);
            known.is_some_and(|known| self.roster.ended(&known) == Ended::Passed)
        };
        let mut found = self.fresh.clone();
        // Before there is code a new test has to fail; afterwards all of them pass.
        found.retain(|test| !test.asserts || (state == Phase::TestWriting && passed(test)));
        found
    }
}

impl Examined {
    /// The new tests that are yet to look at the code: all but those in `shown`, which looked at
    /// other code before. Where none is known by its name, the changed files of tests as they are.
    fn challenged(&self, staged: &Staged, shown: &[String]) -> Vec<TestItem> {
        if !self.fresh.is_empty() {
            let fresh = self.fresh.iter();
            return fresh
                .filter(|test| !shown.contains(&test.label(&self.fresh)))
                .cloned()
                .collect();
        }
        let whole = |path: &String| TestItem {
            name: path.clone(),
            path: path.clone(),
            body: staged.new_text(path).unwrap_or_default(),
            asserts: true,
            ..TestItem::default()
        };
        staged.changed.tests.iter().map(whole).collect()
    }
}

/// The tests that the stage adds or changes.
fn fresh(staged: &Staged) -> Vec<TestItem> {
    let mut found = Vec::new();
    // Source may hold inline tests.
    let source = staged.changed.source.iter();
    let rust = source.filter(|path| Language::of(path) == Some(Language::Rust));
    for path in staged.changed.tests.iter().chain(rust) {
        if let (Some(language), Some(new)) = (Language::of(path), staged.new_text(path)) {
            let tests = new_tests(language, staged.old(path).as_deref(), &new);
            found.extend(tests.into_iter().map(|test| TestItem {
                path: path.clone(),
                ..test
            }));
        }
    }
    found
}
