//! The transitions: one row each, with the guards that hold it.

use crate::coverage::{Ledger, Loss};
use crate::exemption::{Category, Exemption};
use crate::guards::{can_fail, fresh, green, nothing_lost, passes, same_tests};
use crate::progress::{Changed, Place, Progress, Route};
use crate::runs::{Framework, Proof};
use crate::suite::Language;
use airlock_core::{Digest, Mode, Phase};
use std::collections::BTreeMap;

/// What happened, or is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A task arrived.
    Begin,
    /// The plan is made.
    PlanComplete,
    /// The plan is to change lines that tests hold in place.
    Refactor(BTreeMap<String, Vec<(u32, u32)>>),
    /// A person granted an exemption.
    Exempted(Exemption),
    /// The tests are written.
    TestsWritten,
    /// The work is done.
    ChangesMade,
    /// The tests ran.
    Validated,
    /// The tests or the reviewer want more work.
    SentBack,
    /// Explored code is to get tests after all.
    AddTests,
    /// The changes with this digest may be merged.
    MergeApproved(Digest),
    /// They were.
    Committed,
    /// Whatever it was is given up.
    Cancel,
}

/// What is so, as the kernel found it just now.
pub struct Facts<'a> {
    /// What the stage changes.
    pub changed: &'a Changed,
    /// What it holds, as one digest; none: nothing.
    pub stage: Option<Digest>,
    /// Whether a category's globs hold a path.
    pub within: &'a dyn Fn(Category, &str) -> bool,
    /// The first file whose inline tests are not what they were when the tests were done.
    pub edited_tests: Option<&'a str>,
    /// The first line of those to be refactored that no test runs; or why that cannot be told.
    pub uncovered: Option<&'a str>,
    /// The workspace's coverage budget.
    pub ledger: Ledger,
    /// A loss above this many points warns.
    pub warn_points: u32,
    /// A loss above this many locks explore mode.
    pub lock_points: u32,
}

/// What follows a step, beside the new place.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Effects {
    /// What somebody should know.
    pub warning: Option<String>,
    /// The coverage budget afterwards, where it changes.
    pub ledger: Option<Ledger>,
}

/// What kept a step from being taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guard {
    /// There is no such row in the table.
    Transition,
    /// The mode has no such way.
    Mode,
    /// Tests were written.
    TestsExist,
    /// The kernel saw them fail, for the right reason.
    Red,
    /// The tree is as it was but for the tests.
    WithoutTheChange,
    /// There is something to validate.
    ChangesExist,
    /// Tests are as they were.
    TestsUntouched,
    /// Tests are no part of the product.
    TestsStayTests,
    /// Nothing but what the way allows was changed.
    WithinTheWay,
    /// The kernel saw all tests pass, as the stage is now.
    Green,
    /// There are as many tests as before.
    SameTests,
    /// Every new test can fail.
    TestsCanFail,
    /// The lines to be changed are covered.
    Covered,
    /// The exemption's paths are within its category.
    Exemption,
    /// The coverage budget is not overdrawn, and can be told.
    CoverageBudget,
    /// The changes are the approved ones.
    Approved,
}

impl Guard {
    /// The word used in results.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Transition => "transition",
            Self::Mode => "mode",
            Self::TestsExist => "tests_exist",
            Self::Red => "red",
            Self::WithoutTheChange => "without_the_change",
            Self::ChangesExist => "changes_exist",
            Self::TestsUntouched => "tests_untouched",
            Self::TestsStayTests => "tests_stay_tests",
            Self::WithinTheWay => "within_the_way",
            Self::Green => "green",
            Self::SameTests => "same_tests",
            Self::TestsCanFail => "tests_can_fail",
            Self::Covered => "covered",
            Self::Exemption => "exemption",
            Self::CoverageBudget => "coverage_budget",
            Self::Approved => "approved",
        }
    }
}

/// Why a step was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Refusal {
    /// The guard that failed.
    pub guard: Guard,
    /// What it found.
    pub why: String,
    /// What would make it hold.
    pub fix: String,
}

pub(crate) fn refuse<T>(
    guard: Guard,
    why: impl Into<String>,
    fix: impl Into<String>,
) -> Result<T, Refusal> {
    Err(Refusal {
        guard,
        why: why.into(),
        fix: fix.into(),
    })
}

/// Where a session stands after `event`, if the guards hold.
pub fn step(place: &Place, event: &Event, facts: &Facts<'_>) -> Result<(Place, Effects), Refusal> {
    let mut next = place.clone();
    let mut effects = Effects::default();
    next.state = match (place.state, event) {
        (_, Event::Cancel) => {
            next.progress = Progress::default();
            Phase::Idle
        }
        (Phase::Idle, Event::Begin) => {
            next.progress = Progress::default();
            Phase::Planning
        }
        (Phase::Planning, Event::PlanComplete) => plan_complete(place, facts, &mut next)?,
        (Phase::Planning, Event::Refactor(lines)) => refactor(place, lines, facts, &mut next)?,
        // Whoever finds that there is nothing to test has not written a test yet.
        (Phase::Planning | Phase::TestWriting, Event::Exempted(exemption)) => {
            exempt(place, exemption, facts, &mut next)?
        }
        (Phase::TestWriting, Event::TestsWritten) => tests_written(place, facts, &mut next)?,
        (
            Phase::CodeWriting | Phase::Refactoring | Phase::Exploring | Phase::RetroactiveTesting,
            Event::ChangesMade,
        ) => changes_made(place, facts)?,
        (Phase::Validating, Event::Validated) => validated(place, facts)?,
        (Phase::Validating | Phase::Reviewing, Event::SentBack) => {
            next.progress.approved = None;
            working_state(place)
        }
        (Phase::Reviewing, Event::AddTests) => add_tests(place)?,
        (Phase::Reviewing, Event::MergeApproved(digest)) => {
            effects.warning = budget(place, facts)?;
            next.progress.warning.clone_from(&effects.warning);
            next.progress.approved = Some(*digest);
            approved(place, digest, facts)?
        }
        (Phase::Committing, Event::Committed) => {
            effects.ledger = Some(spent(place, facts)).filter(|ledger| *ledger != facts.ledger);
            next.progress = Progress::default();
            Phase::Idle
        }
        (state, event) => no_row(state, event)?,
    };
    Ok((next, effects))
}

fn no_row(state: Phase, event: &Event) -> Result<Phase, Refusal> {
    let what = match event {
        Event::Begin => "begin a task",
        Event::PlanComplete => "end planning",
        Event::Refactor(_) => "begin refactoring",
        Event::Exempted(_) => "use an exemption",
        Event::TestsWritten => "begin to write code",
        Event::ChangesMade => "be validated",
        Event::Validated => "be reviewed",
        Event::SentBack => "be sent back",
        Event::AddTests => "add tests",
        Event::MergeApproved(_) => "be committed",
        Event::Committed => "be done",
        Event::Cancel => "be cancelled",
    };
    let why = format!("a session in `{state}` cannot {what}");
    refuse(Guard::Transition, why, after(state))
}

/// What can be done in `state` to get on.
fn after(state: Phase) -> &'static str {
    match state {
        Phase::Idle => "`phase.advance` begins a task",
        Phase::Planning => {
            "`plan.complete` ends planning; an exemption can be asked for with `phase.request_exemption`"
        }
        Phase::TestWriting => "write tests, see them fail with `test.run`, then `phase.advance`",
        Phase::CodeWriting => "write the code, then `phase.advance`",
        Phase::Refactoring => "change the source, then `phase.advance`",
        Phase::Validating => "`test.run` decides how it goes on",
        Phase::Reviewing => {
            "`phase.commit` asks for the merge, `phase.advance` with `to` goes back to work"
        }
        Phase::Committing => "`git.commit` and `merge.apply` end it",
        Phase::Exploring => "change source and tests, then `phase.advance`",
        Phase::RetroactiveTesting => "write tests, then `phase.advance`",
    }
}

fn plan_complete(place: &Place, facts: &Facts<'_>, next: &mut Place) -> Result<Phase, Refusal> {
    match place.mode {
        Mode::Strict => {
            next.progress.route = Some(Route::TestFirst);
            Ok(Phase::TestWriting)
        }
        Mode::Explore | Mode::Debug => {
            unlocked(facts.ledger)?;
            next.progress.route = Some(Route::Exploring);
            next.progress.before.clone_from(&place.progress.last);
            Ok(Phase::Exploring)
        }
    }
}

fn unlocked(ledger: Ledger) -> Result<(), Refusal> {
    match ledger.locked {
        None => Ok(()),
        Some(least) => {
            let why = format!(
                "explore mode is locked: line coverage fell too far, and has to be {} again",
                points(least)
            );
            let fix = "switch to strict, and cover what was lost by tests that notice something";
            refuse(Guard::CoverageBudget, why, fix)
        }
    }
}

/// Hundredths of a percentage point, for people.
fn points(hundredths: u64) -> String {
    format!("{}.{:02} %", hundredths / 100, hundredths % 100)
}

fn refactor(
    place: &Place,
    lines: &BTreeMap<String, Vec<(u32, u32)>>,
    facts: &Facts<'_>,
    next: &mut Place,
) -> Result<Phase, Refusal> {
    if place.mode != Mode::Strict {
        let fix = "explore has no need of it: `plan.complete`";
        return refuse(Guard::Mode, "refactoring is a way of strict mode", fix);
    }
    if lines.values().all(Vec::is_empty) {
        let fix = "name them in `lines`, by file: {\"src/a.rs\": [[10, 20]]}";
        return refuse(Guard::Covered, "no line to be changed is named", fix);
    }
    unchanged(facts)?;
    let run = green(place, facts)?;
    if let Some(why) = facts.uncovered {
        let fix = "run `test.run` with `coverage`, and write tests first for what is not covered";
        return refuse(Guard::Covered, why, fix);
    }
    next.progress.before = Some(run.clone());
    next.progress.route = Some(Route::Refactoring(lines.clone()));
    Ok(Phase::Refactoring)
}

/// The tree has to be as it is before work that is measured against it.
fn unchanged(facts: &Facts<'_>) -> Result<(), Refusal> {
    let Some(path) = facts.changed.paths().next() else {
        return Ok(());
    };
    let why = format!("the stage already changes `{path}`");
    let fix = "merge what is there, or drop it: airlock stage drop NAME";
    refuse(Guard::WithoutTheChange, why, fix)
}

fn exempt(
    place: &Place,
    exemption: &Exemption,
    facts: &Facts<'_>,
    next: &mut Place,
) -> Result<Phase, Refusal> {
    if let Some(why) = exemption.problem(facts.within) {
        let fix = "ask for paths within the category's globs (`phases.exemptions` in the policy), or write a test first";
        return refuse(Guard::Exemption, why, fix);
    }
    unchanged(facts)?;
    if exemption.category == Category::TypeRefactor {
        green(place, facts)?;
    }
    next.progress.before.clone_from(&place.progress.last);
    next.progress.route = Some(Route::Exempt(exemption.clone()));
    Ok(Phase::Exploring)
}

fn tests_written(place: &Place, facts: &Facts<'_>, next: &mut Place) -> Result<Phase, Refusal> {
    let Changed {
        tests,
        source,
        other,
        ..
    } = facts.changed;
    if tests.is_empty() {
        let fix = "write a test that fails, beneath the policy's `phases.test_paths`";
        return refuse(Guard::TestsExist, "no test was written", fix);
    }
    if let Some(path) = source.iter().chain(other).next() {
        let why = format!(
            "the stage already changes `{path}`, so that no test can fail without the change"
        );
        let fix = "merge what is there, or drop it: airlock stage drop NAME";
        return refuse(Guard::WithoutTheChange, why, fix);
    }
    let run = match place.progress.last.as_ref() {
        Some(run) if run.stage == facts.stage => run,
        Some(_) => {
            let why = "the tests were changed after they last ran";
            return refuse(Guard::Red, why, "run `test.run`, without a filter");
        }
        None => {
            let why = "the kernel has not run the tests";
            return refuse(Guard::Red, why, "run `test.run`, without a filter");
        }
    };
    nothing_lost(run)?;
    can_fail(&Route::TestFirst, run)?;
    match run.proof {
        Proof::Red => {
            next.progress.before = Some(run.clone());
            Ok(Phase::CodeWriting)
        }
        Proof::Green | Proof::NoTests | Proof::Nothing => {
            let fix = "write a test for what is missing: it has to fail by an assertion, or because what it calls is not there";
            refuse(
                Guard::Red,
                format!("no test fails as it should: {}", run.why),
                fix,
            )
        }
    }
}

fn changes_made(place: &Place, facts: &Facts<'_>) -> Result<Phase, Refusal> {
    // Directories that came or went are no paths of it, but the stage is not as it was.
    if facts.changed.is_empty() && facts.stage.is_none() {
        let fix = "change something, or give the task up with `phase.advance` to `idle`";
        return refuse(Guard::ChangesExist, "nothing was changed", fix);
    }
    if let (Route::TestFirst, true) = (route(place), facts.changed.source.is_empty()) {
        let why = "no source was changed, though a test fails";
        return refuse(Guard::ChangesExist, why, "write the code the tests ask for");
    }
    within_the_way(place, facts)?;
    Ok(Phase::Validating)
}

fn route(place: &Place) -> Route {
    let usual = match place.mode {
        Mode::Strict => Route::TestFirst,
        Mode::Explore | Mode::Debug => Route::Exploring,
    };
    place.progress.route.clone().unwrap_or(usual)
}

fn working_state(place: &Place) -> Phase {
    route(place).working_state()
}

/// Nothing but what the way allows, whoever changed it and when.
fn within_the_way(place: &Place, facts: &Facts<'_>) -> Result<(), Refusal> {
    let changed = facts.changed;
    if let Some(why) = &changed.smuggled {
        let fix = "keep tests out of the product, and the product out of test paths";
        return refuse(Guard::TestsStayTests, why, fix);
    }
    let untouched = |path: Option<&str>| match path {
        Some(path) => {
            let why = format!("tests of `{path}` were changed after they had failed");
            refuse(
                Guard::TestsUntouched,
                why,
                "put them back, or cancel and begin anew",
            )
        }
        None => Ok(()),
    };
    let beyond = |path: Option<&str>| match path {
        Some(path) => {
            let why = format!("`{path}` was changed, which this way does not allow");
            refuse(
                Guard::WithinTheWay,
                why,
                "put it back, or drop the stage and begin anew",
            )
        }
        None => Ok(()),
    };
    let first = |paths: &'_ [String]| paths.first().map(String::as_str).map(str::to_owned);
    match route(place) {
        Route::TestFirst => {
            untouched(facts.edited_tests)?;
            beyond(first(&changed.other).as_deref())
        }
        Route::Refactoring(lines) => {
            untouched(facts.edited_tests.or(first(&changed.tests).as_deref()))?;
            let named = |path: &&String| !lines.contains_key(*path);
            beyond(changed.source.iter().find(named).map(String::as_str))?;
            beyond(first(&changed.other).as_deref())
        }
        Route::Exploring => beyond(first(&changed.other).as_deref()),
        Route::Exempt(exemption) => beyond(changed.paths().find(|path| !exemption.covers(path))),
    }
}

fn validated(place: &Place, facts: &Facts<'_>) -> Result<Phase, Refusal> {
    within_the_way(place, facts)?;
    let way = route(place);
    let run = fresh(place, facts)?;
    passes(&way, run)?;
    if let Some(before) = &place.progress.before {
        same_tests(&way, before, run)?;
    }
    match way {
        // What goes while exploring, a person is told of.
        Route::Exploring => {}
        Route::TestFirst | Route::Refactoring(_) | Route::Exempt(_) => nothing_lost(run)?,
    }
    can_fail(&way, run)?;
    Ok(Phase::Reviewing)
}

fn add_tests(place: &Place) -> Result<Phase, Refusal> {
    match (place.mode, route(place)) {
        (Mode::Explore | Mode::Debug, Route::Exploring) => Ok(Phase::RetroactiveTesting),
        (Mode::Strict | Mode::Explore | Mode::Debug, _) => {
            let why = "only explored code gets its tests afterwards";
            refuse(Guard::Mode, why, "go back to work with `phase.advance`")
        }
    }
}

/// Whether exploring may be committed, and what is to be said of it.
fn budget(place: &Place, facts: &Facts<'_>) -> Result<Option<String>, Refusal> {
    if route(place) != Route::Exploring || facts.ledger.baseline.is_none() {
        return Ok(None);
    }
    let run = place.progress.last.as_ref();
    let by = run.and_then(|run| run.framework);
    if is_other(by, facts.ledger) {
        return measured_otherwise(facts);
    }
    let now = match run {
        // What new tests cover counts where they were shown to look at it.
        Some(run) if facts.changed.tests.is_empty() => run.proven.or(run.coverage),
        Some(run) => run.proven,
        None => None,
    };
    let Some(now) = now else {
        let why = "this workspace has a coverage budget, and what the tests cover is not known";
        let fix = "go back to work, and validate anew; `test.run` with `coverage` says what is missing to measure it";
        return refuse(Guard::CoverageBudget, why, fix);
    };
    Ok(
        match facts.ledger.loss(now, facts.warn_points, facts.lock_points) {
            Loss::None => None,
            Loss::Warns(lost) => Some(format!("line coverage falls by {}", points(lost))),
            Loss::Locks(lost) => Some(format!(
                "line coverage falls by {}: explore mode is locked until a strict session regains it",
                points(lost)
            )),
        },
    )
}

/// Whether a run `by` some tests says nothing of what the budget is about.
fn is_other(by: Option<Framework>, ledger: Ledger) -> bool {
    match (by, ledger.framework) {
        (Some(by), Some(own)) => by != own,
        (_, _) => false,
    }
}

/// Tests of another language measured nothing of the budget: that is well if nothing of it changed.
fn measured_otherwise(facts: &Facts<'_>) -> Result<Option<String>, Refusal> {
    let own = facts.ledger.framework;
    let touched = |path: &&String| Language::of(path).map(Language::tested_by) == own;
    let Some(path) = facts.changed.source.iter().find(touched) else {
        return Ok(None);
    };
    let own = own.map_or("another", Framework::as_str);
    let why = format!("`{path}` was changed, and the coverage budget is measured by `{own}`");
    let fix = format!("go back to work, and validate with `test.run` and `framework: {own}`");
    refuse(Guard::CoverageBudget, why, fix)
}

fn approved(place: &Place, digest: &Digest, facts: &Facts<'_>) -> Result<Phase, Refusal> {
    let run = fresh(place, facts)?;
    passes(&route(place), run)?;
    if facts.stage != Some(*digest) || run.stage != facts.stage {
        let why = "the changes are not those that were approved";
        return refuse(Guard::Approved, why, "ask again: `phase.commit`");
    }
    Ok(Phase::Committing)
}

/// The coverage budget after the commit.
fn spent(place: &Place, facts: &Facts<'_>) -> Ledger {
    let run = place.progress.last.as_ref();
    let now = run.and_then(|run| run.coverage);
    let proven = run.and_then(|run| run.proven);
    let by = run.and_then(|run| run.framework);
    if is_other(by, facts.ledger) {
        return facts.ledger;
    }
    match route(place) {
        Route::TestFirst | Route::Refactoring(_) => {
            let mut ledger = facts.ledger.strictly(now, proven);
            ledger.framework = ledger.framework.or(now.and(by));
            ledger
        }
        Route::Exploring => {
            let sure = proven.or(now);
            let (warn, lock) = (facts.warn_points, facts.lock_points);
            facts.ledger.explored(sure, warn, lock)
        }
        Route::Exempt(_) => facts.ledger,
    }
}

/// The event that leads from `place` to `to`, or to what comes next.
pub fn advance_event(place: &Place, to: Option<Phase>) -> Result<Event, Refusal> {
    let usual = match place.state {
        Phase::Idle => Phase::Planning,
        Phase::Planning => match place.mode {
            Mode::Strict => Phase::TestWriting,
            Mode::Explore | Mode::Debug => Phase::Exploring,
        },
        Phase::TestWriting => Phase::CodeWriting,
        Phase::CodeWriting | Phase::Refactoring | Phase::Exploring | Phase::RetroactiveTesting => {
            Phase::Validating
        }
        Phase::Validating => Phase::Reviewing,
        Phase::Reviewing => Phase::Committing,
        Phase::Committing => Phase::Idle,
    };
    // Given up by name, never by chance.
    let gives_up = to == Some(Phase::Idle);
    let to = to.unwrap_or(usual);
    Ok(match (place.state, to) {
        (_, Phase::Idle) if gives_up => Event::Cancel,
        // The last step is the merge's, never asked for.
        (Phase::Reviewing, Phase::Committing) | (Phase::Committing, Phase::Idle) => {
            let why = "what is reviewed is committed by a merge";
            return refuse(Guard::Approved, why, after(place.state));
        }
        (Phase::Idle, Phase::Planning) => Event::Begin,
        (Phase::Planning, Phase::TestWriting | Phase::Exploring) if to == usual => {
            Event::PlanComplete
        }
        (Phase::TestWriting, Phase::CodeWriting) => Event::TestsWritten,
        (
            Phase::CodeWriting | Phase::Refactoring | Phase::Exploring | Phase::RetroactiveTesting,
            Phase::Validating,
        ) => Event::ChangesMade,
        (Phase::Validating, Phase::Reviewing) => Event::Validated,
        (Phase::Validating | Phase::Reviewing, to) if to == working_state(place) => Event::SentBack,
        (Phase::Reviewing, Phase::RetroactiveTesting) => Event::AddTests,
        (state, to) => {
            let why = format!("nothing leads from `{state}` to `{to}`");
            return refuse(Guard::Transition, why, after(state));
        }
    })
}

/// The place after a switch to `to`: only between tasks, and never into what is locked.
pub fn mode_switch(place: &Place, to: Mode, ledger: Ledger) -> Result<Place, Refusal> {
    match place.state {
        Phase::Idle | Phase::Planning => {}
        Phase::TestWriting
        | Phase::CodeWriting
        | Phase::Refactoring
        | Phase::Validating
        | Phase::Reviewing
        | Phase::Committing
        | Phase::Exploring
        | Phase::RetroactiveTesting => {
            let why = format!("the mode cannot be switched in `{}`", place.state);
            let fix = "finish the task, or give it up with `phase.advance` to `idle`";
            return refuse(Guard::Transition, why, fix);
        }
    }
    match to {
        Mode::Strict => {}
        Mode::Explore | Mode::Debug => unlocked(ledger)?,
    }
    let mut next = place.clone();
    next.mode = to;
    Ok(next)
}
