//! What a run of the tests means for the session that asked for it.

use super::anew::{Ground, Plain};
use super::clean::Own;
use super::facts::Staged;
use super::hearing::module_of;
use super::kept::{Kept, Tree};
use super::mutating::Drill;
use super::named::suspicion;
use super::tools::place_of;
use super::trial::Trial;
use crate::control::Desk;
use crate::control::for_caller::failure;
use crate::kernel::Kernel;
use crate::process::{Finished, Job, ProcessFailure, SaidBy, TestJob};
use crate::tools::ToolFailure;
use airlock_core::{Caller, Digest, Phase};
use airlock_phases::{
    Coverage, Ended, Event, Framework, Language, Lines, Observed, Printed, Proof, Reading, Roster,
    Spans, TestItem, TestRun, Unsure, judge, names, new_tests, stopped,
};
use airlock_state::Session;
use serde_json::{Map, Value, json};

/// Runs a job of this call once more, on the same ground.
pub(crate) type Again<'a> = &'a dyn Fn(&Job) -> Result<Finished, ToolFailure>;

impl Kernel {
    pub(crate) fn desk(&self) -> Desk {
        Desk {
            store: self.store_shared(),
            hold: self.hold_shared(),
            clock: self.clock().clone(),
            sanitisers: self.sanitisers_shared(),
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
        if let Some(why) = not_all(tests) {
            return Ok(Some(json!({
                "proof": Proof::Nothing.as_str(),
                "why": why,
                "state": session.phase,
            })));
        }
        let staged = desk.staged(&session)?;
        let plain = Examined::new(&staged, tests, finished);
        let known = plain.known_by(session.phase);
        let ground = self.ground(&session, job, &staged, &known, again)?;
        let further = |job: &Job| ground.again(job, again);
        let again: Again<'_> = &further;
        let (job, finished) = ground.run(job, finished);
        let examined = match ground {
            Ground::Stage | Ground::Unmade(_) | Ground::Tried(_) => plain,
            Ground::Anew(_) => Examined::new(&staged, tests, finished),
        };
        let mut run = examined.run(&staged);
        let mut tried = ground.told(&mut run);
        run.unmeasured = unmeasured(&session, &run);
        if session.phase == Phase::Planning {
            run.lines = finished.lines().map(Spans::of).filter(is_kept);
        }
        let beside = beside(&session, job, &staged, &mut run, again)?;
        run.partial = partial(tests, &beside);
        if let Some(why) = ground.partial() {
            reserve(&mut run, &why);
        }
        if let Some(why) = suspicion(&staged) {
            reserve(&mut run, &why);
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
        tried.extend(self.compared(&session, &drill, &mut run)?);
        let trial = Trial {
            drill,
            examined: &examined,
            finished,
            known: ground.known(finished),
        };
        tried.extend(trial.run(&session, ledger, &mut run)?);
        let run = in_review(&session, run);
        let mut told = settle(&desk, &session, &staged, &run)?;
        if let Some(object) = told.as_object_mut() {
            object.extend(tried);
        }
        Ok(Some(told))
    }

    /// Notes in `run` which tests of the real tree are gone or no longer run, and says how that was
    /// found out.
    fn compared(
        &self,
        session: &Session,
        drill: &Drill<'_>,
        run: &mut TestRun,
    ) -> Result<Map<String, Value>, ToolFailure> {
        let kept = Kept {
            staged: drill.staged,
            framework: drill.tests.framework,
            fresh: drill.fresh,
            roster: drill.before,
        };
        let mut told = Map::new();
        match session.phase {
            Phase::TestWriting => run.lost = kept.gone_by_name(),
            Phase::Validating => {
                let of_the_tree = || {
                    let own = Own::new(self, "tree");
                    let own =
                        own.map_err(|error| ToolFailure::from(ProcessFailure::from(error)))?;
                    let finished = (drill.again)(&drill.job.of_the_tree(own.name()))?;
                    let stream = |name: &str| {
                        let text = finished.value.get(name).and_then(Value::as_str);
                        text.unwrap_or_default().to_owned()
                    };
                    Ok(Tree {
                        roster: drill.roster(&stream("stdout"), &stream("stderr")),
                        ended: finished.ran.exited().is_some(),
                    })
                };
                let lost = kept.lost(run.proof, &of_the_tree)?;
                (run.lost, run.unsure) = (lost.tests, lost.unsure);
                told.insert("ran_the_tree".to_owned(), json!(lost.ran));
            }
            Phase::Idle
            | Phase::Planning
            | Phase::CodeWriting
            | Phase::Refactoring
            | Phase::Reviewing
            | Phase::Committing
            | Phase::Exploring
            | Phase::RetroactiveTesting => {}
        }
        Ok(told)
    }
}

/// Runs the tests of further languages whose files the stage changes: they have to pass as well.
/// Those that were not run, by name.
fn beside(
    session: &Session,
    job: &Job,
    staged: &Staged,
    run: &mut TestRun,
    again: Again<'_>,
) -> Result<Vec<&'static str>, ToolFailure> {
    let mut left = Vec::new();
    for other in job.other_tests() {
        let Some(tests) = other.tests() else {
            continue;
        };
        // A change is reviewed as it was validated.
        let judged = matches!(session.phase, Phase::Validating | Phase::Reviewing);
        let concerned = judged && run.proof == Proof::Green && staged.concerns(tests.framework);
        if !concerned {
            left.push(tests.framework.as_str());
            continue;
        }
        let finished = again(&other)?;
        let (proof, why) = Examined::new(staged, tests, &finished).reading;
        match proof {
            Proof::Green | Proof::NoTests => {}
            Proof::Red | Proof::Nothing => {
                let why = format!("`{}`: {why}", tests.framework.as_str());
                (run.proof, run.why) = (proof, crate::sanitise::sanitise_line(&why, 300));
            }
        }
    }
    Ok(left)
}

/// Why a run is not one of all tests, if it is not.
fn not_all(tests: TestJob) -> Option<&'static str> {
    match tests.said_by {
        _ if !tests.whole => Some("a filter leaves tests out"),
        SaidBy::CallerAlone => Some("the real tree is tested by another framework than this one"),
        SaidBy::Policy | SaidBy::Tree | SaidBy::Caller => None,
    }
}

/// Notes in `run` one more thing that is to be known of it.
pub(super) fn reserve(run: &mut TestRun, why: &str) {
    run.partial = Some(match run.partial.take() {
        Some(known) => format!("{known}; {why}"),
        None => why.to_owned(),
    });
}

/// What is to be known of a run beside which the tests in `left` were not run.
fn partial(tests: TestJob, left: &[&str]) -> Option<String> {
    if tests.said_by == SaidBy::Caller {
        let why =
            "nothing in the real tree says how it is tested: whoever called chose these tests";
        return Some(why.to_owned());
    }
    let left = left.join(", ");
    (!left.is_empty())
        .then(|| format!("there are other tests, which were not run: those of {left}"))
}

/// Why an earlier run of the task of `session` could not be measured, unless `run` was.
fn unmeasured(session: &Session, run: &TestRun) -> Option<String> {
    let last = place_of(session).progress.last;
    let why = last.and_then(|last| last.unmeasured);
    why.filter(|_| run.coverage.is_none())
}

/// A further run of what is reviewed says whether the tests still pass. All else was found out when
/// they were validated.
fn in_review(session: &Session, run: TestRun) -> TestRun {
    let last = place_of(session).progress.last;
    let same = |last: &TestRun| session.phase == Phase::Reviewing && last.stage == run.stage;
    let Some(last) = last.filter(same) else {
        return run;
    };
    reviewed(last, run)
}

/// The run `last` that a change was validated by, after a further one. Tests of another framework may
/// speak against it, and never for it.
fn reviewed(last: TestRun, run: TestRun) -> TestRun {
    if last.framework == run.framework {
        return TestRun {
            proof: run.proof,
            why: run.why,
            coverage: last.coverage.or(run.coverage),
            ..last
        };
    }
    let passes = |proof: Proof| match proof {
        Proof::Green | Proof::NoTests => true,
        Proof::Red | Proof::Nothing => false,
    };
    if passes(run.proof) || !passes(last.proof) {
        return last;
    }
    let by = run.framework.map_or("other tests", Framework::as_str);
    let why = format!("`{by}`: {}", run.why);
    TestRun {
        proof: run.proof,
        why: crate::sanitise::sanitise_line(&why, 300),
        ..last
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
        "lost": run.lost,
        "lost_why": run.unsure.map(Unsure::why),
        "partial": run.partial,
        "refused": refused,
        "state": session.phase,
        "next": super::tools::next(session.phase),
    }))
}

/// A run, and the tests it is about.
pub(super) struct Examined {
    framework: Framework,
    reading: (Proof, String),
    stopped: bool,
    counts: (u64, u64, u64),
    observed: Observed,
    roster: Roster,
    module: Option<String>,
    pub(super) fresh: Vec<TestItem>,
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
        let reading = Reading {
            framework: tests.framework,
            exit: finished.ran.exited(),
            output: &output,
            counts,
            changed: &staged.changed.tests,
            new_tests: &fresh_names,
        };
        Self {
            framework: tests.framework,
            reading: judge(&reading),
            stopped: stopped(&reading),
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

    /// What further runs are chosen by.
    fn known_by(&self, state: Phase) -> Plain {
        let proof = self.reading.0;
        Plain {
            proof,
            suspected: !self.suspects(state, proof).is_empty(),
        }
    }

    fn run(&self, staged: &Staged) -> TestRun {
        let passed: Vec<&str> = self.observed.passed.iter().map(String::as_str).collect();
        let (proof, why) = self.reading.clone();
        TestRun {
            stage: staged.digest,
            framework: Some(self.framework),
            proof,
            why: crate::sanitise::sanitise_line(&why, 300),
            passed: self.counts.0,
            failed: self.counts.1,
            ignored: self.counts.2,
            stopped: self.stopped,
            names: Digest::of(passed.join("\n").as_bytes()),
            suspects: Vec::new(),
            noticed: Vec::new(),
            unnoticed: Vec::new(),
            unheard: Vec::new(),
            lost: Vec::new(),
            unsure: None,
            partial: None,
            coverage: self.coverage,
            unmeasured: None,
            proven: None,
            lines: None,
        }
    }

    /// New tests that have not shown that they can fail.
    pub(super) fn suspects(&self, state: Phase, proof: Proof) -> Vec<TestItem> {
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
    pub(super) fn challenged(&self, staged: &Staged, shown: &[String]) -> Vec<TestItem> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn run(framework: Framework, proof: Proof, hit: Option<u64>) -> TestRun {
        TestRun {
            stage: None,
            framework: Some(framework),
            proof,
            why: proof.as_str().to_owned(),
            passed: 1,
            failed: 0,
            ignored: 0,
            stopped: false,
            names: Digest::of(b""),
            suspects: Vec::new(),
            noticed: Vec::new(),
            unnoticed: Vec::new(),
            unheard: Vec::new(),
            lost: Vec::new(),
            unsure: None,
            partial: None,
            coverage: hit.map(|hit| Coverage { found: 9, hit }),
            unmeasured: None,
            proven: None,
            lines: None,
        }
    }

    #[test]
    fn in_review_the_tests_of_another_framework_speak_only_against_a_change() {
        use Framework::{Cargo, Node};
        use Proof::{Green, NoTests, Nothing, Red};
        for (was, by, is, want) in [
            (Green, Cargo, Red, (Red, "red")),
            (Red, Cargo, Green, (Green, "green")),
            (Green, Cargo, Nothing, (Nothing, "nothing")),
            (Red, Node, Green, (Red, "red")),
            (Nothing, Node, Green, (Nothing, "nothing")),
            (NoTests, Node, Green, (NoTests, "no_tests")),
            (Green, Node, Green, (Green, "green")),
            (Green, Node, NoTests, (Green, "green")),
            (Green, Node, Red, (Red, "`node`: red")),
            (Green, Node, Nothing, (Nothing, "`node`: nothing")),
            (Red, Node, Nothing, (Red, "red")),
        ] {
            let found = reviewed(run(Cargo, was, None), run(by, is, Some(3)));
            let case = format!("{was:?}, then {is:?} by {by:?}");
            assert_eq!((found.proof, found.why.as_str()), want, "{case}");
            assert_eq!(found.framework, Some(Cargo), "{case}");
            assert_eq!(found.coverage.is_some(), by == Cargo, "{case}");
        }
    }
}
