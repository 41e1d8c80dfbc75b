//! What a run of the tests has to show before a step is taken on it.

use crate::exemption::Category;
use crate::machine::{Facts, Guard, Refusal, refuse};
use crate::progress::{Place, Route, TestRun, Unsure};
use crate::runs::{Framework, Proof};

/// The last run, if all its tests passed with the stage as it is.
pub(crate) fn green<'p>(place: &'p Place, facts: &Facts<'_>) -> Result<&'p TestRun, Refusal> {
    let run = fresh(place, facts)?;
    match run.proof {
        Proof::Green => Ok(run),
        Proof::Red | Proof::NoTests | Proof::Nothing => {
            let fix = "make every test pass, and run `test.run` again";
            refuse(
                Guard::Green,
                format!("not every test passes: {}", run.why),
                fix,
            )
        }
    }
}

/// The last run, if it is of the stage as it is.
pub(crate) fn fresh<'p>(place: &'p Place, facts: &Facts<'_>) -> Result<&'p TestRun, Refusal> {
    let run = place.progress.last.as_ref();
    match run {
        Some(run) if run.stage == facts.stage => Ok(run),
        Some(_) => refuse(
            Guard::Green,
            "the stage was changed after the tests last ran",
            "run `test.run`, without a filter",
        ),
        None => refuse(
            Guard::Green,
            "the kernel has not run the tests",
            "run `test.run`, without a filter",
        ),
    }
}

/// Whether `run` is enough on this `way`: all pass; or there are none and never were, where that will
/// do.
pub(crate) fn passes(way: &Route, run: &TestRun) -> Result<(), Refusal> {
    match (way, run.proof) {
        (_, Proof::Green) => Ok(()),
        (Route::Exploring | Route::Exempt(_), Proof::NoTests) => nothing_lost(run),
        (Route::TestFirst | Route::Refactoring(_), Proof::NoTests)
        | (_, Proof::Red | Proof::Nothing) => {
            let fix = "go on working, and run `test.run` again";
            refuse(
                Guard::Green,
                format!("not every test passes: {}", run.why),
                fix,
            )
        }
    }
}

/// Tests that were there are there, and run.
pub(crate) fn nothing_lost(run: &TestRun) -> Result<(), Refusal> {
    if run.lost.is_empty() {
        return Ok(());
    }
    let tests = some(&run.lost, |test| format!("`{test}`"));
    let unsure = run.unsure.map(|unsure| format!("; {}", unsure.why()));
    let unsure = unsure.unwrap_or_default();
    let why = format!("tests that were there are gone, or no longer run: {tests}{unsure}");
    let fix = "bring them back under their names; a test that is to go is taken out while exploring, where a person is told of it";
    refuse(Guard::SameTests, why, run.unsure.map_or(fix, Unsure::fix))
}

/// Every new test has shown that it can fail.
pub(crate) fn can_fail(way: &Route, run: &TestRun) -> Result<(), Refusal> {
    let Some(first) = run.suspects.first() else {
        return was_heard(way, run);
    };
    if run.unnoticed.is_empty() {
        let why = format!(
            "`{first}` passed before there was anything to pass for, or asserts nothing, and notices no mutation"
        );
        let fix = "make it assert something that is not so without the change";
        return refuse(Guard::TestsCanFail, why, fix);
    }
    let tests = some(&run.suspects, |test| format!("`{test}`"));
    let unnoticed = some(&run.unnoticed, String::clone);
    let why = format!(
        "{tests} would pass whatever the code does: what was changed in it and not noticed is {unnoticed}"
    );
    let what = "a test that asserts what the code gives back, does or raises";
    refuse(Guard::TestsCanFail, why, again(way, what))
}

/// A test of which nobody knows how it ended has shown nothing, which is not to say that it could not.
fn was_heard(way: &Route, run: &TestRun) -> Result<(), Refusal> {
    if run.unheard.is_empty() {
        return Ok(());
    }
    let tests = some(&run.unheard, |test| format!("`{test}`"));
    let why = format!(
        "it is not known whether the code matters to {tests}: where it was changed, the run ended before its result was told, also when nothing else was asked for"
    );
    let what = "fewer tests at a time, which fail by an assertion rather than end the process that runs them or keep their file from loading";
    refuse(Guard::TestsCanFail, why, again(way, what))
}

/// How to come to `what` from where tests are validated.
fn again(way: &Route, what: &str) -> String {
    match way {
        Route::Exploring => format!("go on with {what}"),
        // Tests are read-only by then.
        Route::TestFirst | Route::Refactoring(_) | Route::Exempt(_) => {
            format!("begin anew with {what}: `phase.advance` to `idle`, airlock stage drop NAME")
        }
    }
}

/// The first few of `all`, and how many more there are.
fn some(all: &[String], told: impl Fn(&String) -> String) -> String {
    const FEW: usize = 4;
    let shown: Vec<String> = all.iter().take(FEW).map(told).collect();
    let shown = shown.join(", ");
    match all.len().saturating_sub(FEW) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// `now` ran no fewer tests than `before`, by the same runner.
pub(crate) fn same_tests(way: &Route, before: &TestRun, now: &TestRun) -> Result<(), Refusal> {
    if let (Some(was), Some(is)) = (before.framework, now.framework)
        && was != is
    {
        let (was, is) = (Framework::as_str(was), Framework::as_str(is));
        let why = format!("these are the tests of `{is}`, and `{was}` ran before");
        let fix = format!("run `test.run` with `framework: {was}`");
        return refuse(Guard::SameTests, why, fix);
    }
    let count = before.passed + before.failed;
    if now.passed < count {
        let why = format!("{} tests ran where there were {count}", now.passed);
        return refuse(Guard::SameTests, why, "bring back the tests that are gone");
    }
    // Of what could not be loaded nothing was counted.
    if count > 0 && !before.stopped && now.ignored > before.ignored {
        let why = format!(
            "{} tests are left out where {} were",
            now.ignored, before.ignored
        );
        return refuse(Guard::SameTests, why, "run them again");
    }
    let same = match way {
        Route::Refactoring(_) => before.names == now.names,
        Route::Exempt(exemption) if exemption.category == Category::TypeRefactor => {
            before.names == now.names
        }
        Route::TestFirst | Route::Exploring | Route::Exempt(_) => true,
    };
    if !same {
        let why = "other tests passed than before";
        return refuse(Guard::SameTests, why, "leave the tests as they were");
    }
    Ok(())
}
