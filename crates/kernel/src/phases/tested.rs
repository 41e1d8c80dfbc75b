//! What a run of the tests means for the session that asked for it.

use super::facts::Staged;
use super::mutating::Drill;
use super::tools::place_of;
use crate::control::Desk;
use crate::kernel::Kernel;
use crate::process::{Finished, Job, TestJob};
use crate::tools::ToolFailure;
use airlock_core::{Caller, Digest, Phase};
use airlock_phases::{
    Coverage, Event, Language, Observed, Proof, Reading, TestItem, TestRun, judge, names, new_tests,
};
use airlock_state::Session;
use serde_json::{Value, json};

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
        let suspects = examined.suspects(session.phase, run.proof);
        let drilled = match session.phase {
            Phase::TestWriting | Phase::Validating => {
                let drill = Drill {
                    job,
                    tests,
                    staged: &staged,
                    before: &examined.observed,
                };
                drill.survivors(&suspects, again)?
            }
            Phase::Idle
            | Phase::Planning
            | Phase::CodeWriting
            | Phase::Refactoring
            | Phase::Reviewing
            | Phase::Committing
            | Phase::Exploring
            | Phase::RetroactiveTesting => Vec::new(),
        };
        run.suspects = drilled;
        settle(&desk, &session, &staged, &run).map(Some)
    }
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
    fresh: Vec<TestItem>,
    coverage: Option<Coverage>,
}

impl Examined {
    fn new(staged: &Staged, tests: TestJob, finished: &Finished) -> Self {
        let value = &finished.value;
        let stream = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
        let output = format!("{}\n{}", stream("stdout"), stream("stderr"));
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
            fresh,
            coverage: number("/coverage/lines_found").map(|found| Coverage {
                found,
                hit: number("/coverage/lines_hit").unwrap_or(0),
            }),
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
            coverage: self.coverage,
        }
    }

    /// New tests that have not shown that they can fail.
    fn suspects(&self, state: Phase, proof: Proof) -> Vec<TestItem> {
        if proof != Proof::Red && proof != Proof::Green {
            return Vec::new();
        }
        let passed = |test: &TestItem| {
            let mut passed = self.observed.passed.iter();
            passed.any(|name| name == &test.name || name.ends_with(&format!("::{}", test.name)))
        };
        let mut found = self.fresh.clone();
        // Before there is code a new test has to fail; afterwards all of them pass.
        found.retain(|test| !test.asserts || (state == Phase::TestWriting && passed(test)));
        found
    }
}

/// The tests that the stage adds or changes.
fn fresh(staged: &Staged) -> Vec<TestItem> {
    let mut found = Vec::new();
    for path in &staged.changed.tests {
        if let (Some(language), Some(new)) = (Language::of(path), staged.new_text(path)) {
            found.extend(new_tests(language, staged.old(path).as_deref(), &new));
        }
    }
    found
}
