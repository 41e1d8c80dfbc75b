//! Every row of the table of states, every guard, and walks that try to get around them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod walk;

use airlock_core::{Digest, Mode, Phase};
use airlock_phases::{
    Category, Changed, Coverage, Event, Exemption, Facts, Framework, Guard, Ledger, Place,
    Progress, Proof, Route, TestRun, Unsure, advance_event, mode_switch, step,
};
use std::collections::BTreeMap;

fn digest(text: &str) -> Digest {
    Digest::of(text.as_bytes())
}

fn run(proof: Proof) -> TestRun {
    TestRun {
        stage: Some(digest("stage")),
        framework: None,
        proof,
        why: "so it ended".to_owned(),
        passed: if proof == Proof::Green { 3 } else { 2 },
        failed: u64::from(proof == Proof::Red),
        ignored: 0,
        stopped: false,
        names: digest("names"),
        suspects: Vec::new(),
        unheard: Vec::new(),
        noticed: Vec::new(),
        unnoticed: Vec::new(),
        lost: Vec::new(),
        unsure: None,
        partial: None,
        coverage: None,
        unmeasured: None,
        proven: None,
        lines: None,
    }
}

/// Facts that a test bends.
#[derive(Clone)]
struct World {
    changed: Changed,
    stage: Option<Digest>,
    edited: Option<String>,
    uncovered: Option<String>,
    ledger: Ledger,
}

impl World {
    fn new() -> Self {
        Self {
            changed: Changed::default(),
            stage: Some(digest("stage")),
            edited: None,
            uncovered: None,
            ledger: Ledger::default(),
        }
    }

    fn changing(tests: &[&str], source: &[&str], other: &[&str]) -> Self {
        let owned = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect();
        let changed = Changed {
            tests: owned(tests),
            source: owned(source),
            other: owned(other),
            smuggled: None,
        };
        Self {
            changed,
            ..Self::new()
        }
    }

    fn with<T>(&self, then: impl FnOnce(&Facts<'_>) -> T) -> T {
        let within = |category: Category, path: &str| {
            category == Category::Documentation && path.starts_with("docs/")
                || category == Category::TypeRefactor && path.starts_with("types/")
        };
        then(&Facts {
            changed: &self.changed,
            stage: self.stage,
            within: &within,
            edited_tests: self.edited.as_deref(),
            uncovered: self.uncovered.as_deref(),
            ledger: self.ledger,
            warn_points: 2,
            lock_points: 5,
        })
    }
}

fn place(mode: Mode, state: Phase, progress: Progress) -> Place {
    Place {
        mode,
        state,
        progress,
    }
}

fn progress(route: Option<Route>, last: Option<Proof>, before: Option<Proof>) -> Progress {
    Progress {
        route,
        last: last.map(run),
        before: before.map(run),
        ..Progress::default()
    }
}

fn documentation(path: &str) -> Exemption {
    Exemption {
        category: Category::Documentation,
        paths: vec![path.to_owned()],
        reason: "a typo".to_owned(),
    }
}

fn lines() -> BTreeMap<String, Vec<(u32, u32)>> {
    BTreeMap::from([("src/a.rs".to_owned(), vec![(1, 2)])])
}

fn ends(place: &Place, event: &Event, world: &World) -> Result<Phase, Guard> {
    let after = world.with(|facts| step(place, event, facts));
    after.map(|(place, _)| place.state).map_err(|refusal| {
        assert!(!refusal.why.is_empty() && !refusal.fix.is_empty());
        refusal.guard
    })
}

/// A case: its name, where the session stands, what happens, what is so, where it leads.
type Row<'w> = (
    &'static str,
    Mode,
    Phase,
    Progress,
    Event,
    &'w World,
    Result<Phase, Guard>,
);

#[test]
#[expect(clippy::too_many_lines, reason = "one table, a row each")]
fn every_row_leads_where_the_table_says_and_every_guard_holds_it() {
    use Mode::{Debug, Explore, Strict};
    use Phase::{
        CodeWriting, Committing, Exploring, Idle, Planning, Refactoring, RetroactiveTesting,
        Reviewing, TestWriting, Validating,
    };
    let none = Progress::default;
    let with_last = |proof| progress(None, Some(proof), None);
    let way = |route: Route, last, before| progress(Some(route), last, before);
    let tests = World::changing(&["tests/a.rs"], &[], &[]);
    let code = World::changing(&["tests/a.rs"], &["src/a.rs"], &[]);
    let docs = World::changing(&[], &[], &["docs/a.md"]);
    let source = World::changing(&[], &["src/a.rs"], &[]);
    let clean = World::new();
    let later = World {
        stage: Some(digest("changed since")),
        ..code.clone()
    };
    let approve = Event::MergeApproved(digest("stage"));
    let locked = World {
        ledger: Ledger {
            baseline: Some(Coverage {
                found: 100,
                hit: 90,
            }),
            locked: Some(9_000),
            framework: None,
        },
        ..World::new()
    };
    let mut suspected = way(Route::TestFirst, Some(Proof::Green), Some(Proof::Red));
    suspected.last.as_mut().unwrap().suspects = vec!["t".to_owned()];
    let mut suspicious = with_last(Proof::Red);
    suspicious.last.as_mut().unwrap().suspects = vec!["t".to_owned()];
    let mut fewer = way(Route::TestFirst, Some(Proof::Green), Some(Proof::Red));
    fewer.last.as_mut().unwrap().passed = 2;
    let mut skipped = way(Route::TestFirst, Some(Proof::Green), Some(Proof::Red));
    skipped.last.as_mut().unwrap().ignored = 1;
    let mut uncounted = skipped.clone();
    uncounted.before.as_mut().unwrap().stopped = true;
    let mut others = way(
        Route::Refactoring(lines()),
        Some(Proof::Green),
        Some(Proof::Green),
    );
    others.last.as_mut().unwrap().names = digest("other names");
    let losing = |mut progress: Progress| {
        progress.last.as_mut().unwrap().lost = vec!["old".to_owned()];
        progress
    };
    let mut others_ran = way(Route::TestFirst, Some(Proof::Green), Some(Proof::Red));
    others_ran.before.as_mut().unwrap().framework = Some(Framework::Cargo);
    others_ran.last.as_mut().unwrap().framework = Some(Framework::Node);
    let exempt = Route::Exempt(documentation("docs/a.md"));
    let types = Exemption {
        category: Category::TypeRefactor,
        paths: vec!["types/a.ts".to_owned()],
        reason: "a better name".to_owned(),
    };
    let smuggled = World {
        changed: Changed {
            smuggled: Some("`src/a.rs` takes from `tests/b.rs`".to_owned()),
            ..code.changed.clone()
        },
        ..code.clone()
    };
    let edited = World {
        edited: Some("src/a.rs".to_owned()),
        ..code.clone()
    };
    let uncovered = World {
        uncovered: Some("line 2 of `src/a.rs` is not covered".to_owned()),
        ..World::new()
    };
    let budgeted = World {
        ledger: Ledger {
            baseline: Some(Coverage {
                found: 100,
                hit: 90,
            }),
            locked: None,
            framework: None,
        },
        ..code.clone()
    };
    let first = || way(Route::TestFirst, Some(Proof::Green), Some(Proof::Red));
    let explored = || way(Route::Exploring, Some(Proof::Green), None);
    let untested = World {
        stage: None,
        ..tests.clone()
    };
    let manifest = World::changing(&[], &["src/a.rs"], &["Cargo.toml"]);
    let elsewhere = World::changing(&[], &["src/b.rs"], &[]);
    let untouched = World {
        stage: None,
        ..clean.clone()
    };
    let beyond = World::changing(&[], &["src/a.rs"], &["docs/a.md"]);
    #[rustfmt::skip]
    let rows: Vec<Row<'_>> = vec![
        ("a task", Strict, Idle, none(), Event::Begin, &clean, Ok(Planning)),
        ("planned, strictly", Strict, Planning, none(), Event::PlanComplete, &clean, Ok(TestWriting)),
        ("planned, exploring", Explore, Planning, none(), Event::PlanComplete, &clean, Ok(Exploring)),
        ("planned, debugging", Debug, Planning, none(), Event::PlanComplete, &clean, Ok(Exploring)),
        ("explore is locked", Explore, Planning, none(), Event::PlanComplete, &locked, Err(Guard::CoverageBudget)),
        ("strict never is", Strict, Planning, none(), Event::PlanComplete, &locked, Ok(TestWriting)),
        ("red", Strict, TestWriting, with_last(Proof::Red), Event::TestsWritten, &tests, Ok(CodeWriting)),
        ("red, beside a test that cannot fail", Strict, TestWriting, suspicious, Event::TestsWritten, &tests, Err(Guard::TestsCanFail)),
        ("red, and an old test is gone", Strict, TestWriting, losing(with_last(Proof::Red)), Event::TestsWritten, &tests, Err(Guard::SameTests)),
        ("no test written", Strict, TestWriting, with_last(Proof::Red), Event::TestsWritten, &clean, Err(Guard::TestsExist)),
        ("not run", Strict, TestWriting, none(), Event::TestsWritten, &tests, Err(Guard::Red)),
        ("run before it was changed", Strict, TestWriting, with_last(Proof::Red), Event::TestsWritten, &untested, Err(Guard::Red)),
        ("all pass", Strict, TestWriting, with_last(Proof::Green), Event::TestsWritten, &tests, Err(Guard::Red)),
        ("nothing ran", Strict, TestWriting, with_last(Proof::Nothing), Event::TestsWritten, &tests, Err(Guard::Red)),
        ("no tests", Strict, TestWriting, with_last(Proof::NoTests), Event::TestsWritten, &tests, Err(Guard::Red)),
        ("the change is there already", Strict, TestWriting, with_last(Proof::Red), Event::TestsWritten, &code, Err(Guard::WithoutTheChange)),
        ("code", Strict, CodeWriting, first(), Event::ChangesMade, &code, Ok(Validating)),
        ("no code", Strict, CodeWriting, first(), Event::ChangesMade, &tests, Err(Guard::ChangesExist)),
        ("nothing", Strict, CodeWriting, first(), Event::ChangesMade, &clean, Err(Guard::ChangesExist)),
        ("nothing, exploring", Explore, Exploring, none(), Event::ChangesMade, &untouched, Err(Guard::ChangesExist)),
        ("only a directory", Explore, Exploring, none(), Event::ChangesMade, &clean, Ok(Validating)),
        ("tests in the product", Strict, CodeWriting, first(), Event::ChangesMade, &smuggled, Err(Guard::TestsStayTests)),
        ("inline tests edited", Strict, CodeWriting, first(), Event::ChangesMade, &edited, Err(Guard::TestsUntouched)),
        ("something else as well", Strict, CodeWriting, first(), Event::ChangesMade, &manifest, Err(Guard::WithinTheWay)),
        ("green", Strict, Validating, first(), Event::Validated, &code, Ok(Reviewing)),
        ("still red", Strict, Validating, way(Route::TestFirst, Some(Proof::Red), Some(Proof::Red)), Event::Validated, &code, Err(Guard::Green)),
        ("no tests any more", Strict, Validating, way(Route::TestFirst, Some(Proof::NoTests), Some(Proof::Red)), Event::Validated, &code, Err(Guard::Green)),
        ("never run", Strict, Validating, way(Route::TestFirst, None, Some(Proof::Red)), Event::Validated, &code, Err(Guard::Green)),
        ("run before a change", Strict, Validating, first(), Event::Validated, &later, Err(Guard::Green)),
        ("fewer tests", Strict, Validating, fewer, Event::Validated, &code, Err(Guard::SameTests)),
        ("tests left out that were not come to before", Strict, Validating, uncounted, Event::Validated, &code, Ok(Reviewing)),
        ("tests left out", Strict, Validating, skipped, Event::Validated, &code, Err(Guard::SameTests)),
        ("an old test is gone", Strict, Validating, losing(first()), Event::Validated, &code, Err(Guard::SameTests)),
        ("the tests of another language", Strict, Validating, others_ran, Event::Validated, &code, Err(Guard::SameTests)),
        ("a test that cannot fail", Strict, Validating, suspected, Event::Validated, &code, Err(Guard::TestsCanFail)),
        ("sent back", Strict, Validating, first(), Event::SentBack, &code, Ok(CodeWriting)),
        ("sent back by the reviewer", Strict, Reviewing, first(), Event::SentBack, &code, Ok(CodeWriting)),
        ("approved", Strict, Reviewing, first(), approve.clone(), &code, Ok(Committing)),
        ("others approved", Strict, Reviewing, first(), Event::MergeApproved(digest("other")), &code, Err(Guard::Approved)),
        ("changed after it was tested", Strict, Reviewing, first(), approve.clone(), &later, Err(Guard::Green)),
        ("failed in a later run", Strict, Reviewing, way(Route::TestFirst, Some(Proof::Red), Some(Proof::Red)), approve.clone(), &code, Err(Guard::Green)),
        ("nothing ran in a later run", Strict, Reviewing, way(Route::TestFirst, Some(Proof::Nothing), Some(Proof::Red)), approve.clone(), &code, Err(Guard::Green)),
        ("merged", Strict, Committing, first(), Event::Committed, &clean, Ok(Idle)),
        ("explored", Explore, Exploring, explored(), Event::ChangesMade, &code, Ok(Validating)),
        ("explored what is neither", Explore, Exploring, explored(), Event::ChangesMade, &docs, Err(Guard::WithinTheWay)),
        ("explored without tests", Explore, Validating, way(Route::Exploring, Some(Proof::NoTests), None), Event::Validated, &source, Ok(Reviewing)),
        ("explored, and an old test is gone", Explore, Validating, losing(explored()), Event::Validated, &code, Ok(Reviewing)),
        ("explored, and all old tests are gone", Explore, Validating, losing(way(Route::Exploring, Some(Proof::NoTests), None)), Event::Validated, &source, Err(Guard::SameTests)),
        ("explored and broken", Explore, Validating, way(Route::Exploring, Some(Proof::Red), None), Event::Validated, &source, Err(Guard::Green)),
        ("back to exploring", Explore, Validating, explored(), Event::SentBack, &code, Ok(Exploring)),
        ("tests after all", Explore, Reviewing, explored(), Event::AddTests, &code, Ok(RetroactiveTesting)),
        ("only for what was explored", Strict, Reviewing, first(), Event::AddTests, &code, Err(Guard::Mode)),
        ("tests written after all", Explore, RetroactiveTesting, explored(), Event::ChangesMade, &code, Ok(Validating)),
        ("committed unverified", Explore, Reviewing, explored(), approve.clone(), &code, Ok(Committing)),
        ("committed without a report", Explore, Reviewing, explored(), approve.clone(), &budgeted, Err(Guard::CoverageBudget)),
        ("refactoring", Strict, Planning, with_last(Proof::Green), Event::Refactor(lines()), &clean, Ok(Refactoring)),
        ("refactoring nothing", Strict, Planning, with_last(Proof::Green), Event::Refactor(BTreeMap::new()), &clean, Err(Guard::Covered)),
        ("refactoring what is not covered", Strict, Planning, with_last(Proof::Green), Event::Refactor(lines()), &uncovered, Err(Guard::Covered)),
        ("refactoring what is broken", Strict, Planning, with_last(Proof::Red), Event::Refactor(lines()), &clean, Err(Guard::Green)),
        ("refactoring what nobody ran", Strict, Planning, none(), Event::Refactor(lines()), &clean, Err(Guard::Green)),
        ("refactoring on top of changes", Strict, Planning, with_last(Proof::Green), Event::Refactor(lines()), &code, Err(Guard::WithoutTheChange)),
        ("refactoring is strict", Explore, Planning, with_last(Proof::Green), Event::Refactor(lines()), &clean, Err(Guard::Mode)),
        ("refactored", Strict, Refactoring, way(Route::Refactoring(lines()), None, Some(Proof::Green)), Event::ChangesMade, &source, Ok(Validating)),
        ("refactored with the tests", Strict, Refactoring, way(Route::Refactoring(lines()), None, Some(Proof::Green)), Event::ChangesMade, &code, Err(Guard::TestsUntouched)),
        ("refactored another file", Strict, Refactoring, way(Route::Refactoring(lines()), None, Some(Proof::Green)), Event::ChangesMade, &elsewhere, Err(Guard::WithinTheWay)),
        ("refactored, the same tests", Strict, Validating, way(Route::Refactoring(lines()), Some(Proof::Green), Some(Proof::Green)), Event::Validated, &source, Ok(Reviewing)),
        ("refactored, other tests", Strict, Validating, others, Event::Validated, &source, Err(Guard::SameTests)),
        ("back to refactoring", Strict, Reviewing, way(Route::Refactoring(lines()), None, None), Event::SentBack, &source, Ok(Refactoring)),
        ("exempted", Strict, Planning, none(), Event::Exempted(documentation("docs/a.md")), &clean, Ok(Exploring)),
        ("exempted beyond its globs", Strict, Planning, none(), Event::Exempted(documentation("src/a.rs")), &clean, Err(Guard::Exemption)),
        ("exempted for nothing", Strict, Planning, none(), Event::Exempted(Exemption { paths: vec![], ..documentation("") }), &clean, Err(Guard::Exemption)),
        ("exempted without a reason", Strict, Planning, none(), Event::Exempted(Exemption { reason: " ".to_owned(), ..documentation("docs/a.md") }), &clean, Err(Guard::Exemption)),
        ("exempted on top of changes", Strict, Planning, none(), Event::Exempted(documentation("docs/a.md")), &source, Err(Guard::WithoutTheChange)),
        ("types without a run", Strict, Planning, none(), Event::Exempted(types.clone()), &clean, Err(Guard::Green)),
        ("types with passing tests", Strict, Planning, with_last(Proof::Green), Event::Exempted(types), &clean, Ok(Exploring)),
        ("what was exempted", Strict, Exploring, way(exempt.clone(), None, None), Event::ChangesMade, &docs, Ok(Validating)),
        ("more than was exempted", Strict, Exploring, way(exempt.clone(), None, None), Event::ChangesMade, &beyond, Err(Guard::WithinTheWay)),
        ("more, slipped in later", Strict, Validating, way(exempt.clone(), Some(Proof::Green), None), Event::Validated, &source, Err(Guard::WithinTheWay)),
        ("exempted and tested", Strict, Validating, way(exempt, Some(Proof::Green), None), Event::Validated, &docs, Ok(Reviewing)),
        ("exempted before a test was written", Strict, TestWriting, none(), Event::Exempted(documentation("docs/a.md")), &clean, Ok(Exploring)),
        ("exempted beyond its globs, later", Strict, TestWriting, none(), Event::Exempted(documentation("src/a.rs")), &clean, Err(Guard::Exemption)),
        ("exempted once there are tests", Strict, TestWriting, with_last(Proof::Red), Event::Exempted(documentation("docs/a.md")), &tests, Err(Guard::WithoutTheChange)),
        ("an exemption while writing code", Strict, CodeWriting, first(), Event::Exempted(documentation("docs/a.md")), &clean, Err(Guard::Transition)),
    ];
    for (case, mode, state, progress, event, world, want) in rows {
        assert_eq!(
            ends(&place(mode, state, progress), &event, world),
            want,
            "{case}"
        );
    }
}

#[test]
fn what_is_not_a_row_is_refused_and_cancelling_leads_to_idle_from_anywhere() {
    let world = World::changing(&["tests/a.rs"], &["src/a.rs"], &[]);
    let rows: &[(Phase, &[&str])] = &[
        (Phase::Idle, &["begin"]),
        (Phase::Planning, &["plan", "refactor", "exempt"]),
        (Phase::TestWriting, &["tests", "exempt"]),
        (Phase::CodeWriting, &["changes"]),
        (Phase::Refactoring, &["changes"]),
        (Phase::Validating, &["validated", "back"]),
        (Phase::Reviewing, &["back", "add", "approved"]),
        (Phase::Committing, &["committed"]),
        (Phase::Exploring, &["changes"]),
        (Phase::RetroactiveTesting, &["changes"]),
    ];
    let events = [
        ("begin", Event::Begin),
        ("plan", Event::PlanComplete),
        ("refactor", Event::Refactor(lines())),
        ("exempt", Event::Exempted(documentation("docs/a.md"))),
        ("tests", Event::TestsWritten),
        ("changes", Event::ChangesMade),
        ("validated", Event::Validated),
        ("back", Event::SentBack),
        ("add", Event::AddTests),
        ("approved", Event::MergeApproved(digest("stage"))),
        ("committed", Event::Committed),
    ];
    assert_eq!(rows.len(), Phase::ALL.len());
    for mode in Mode::ALL.iter().copied() {
        for (state, known) in rows {
            let place = place(mode, *state, Progress::default());
            for (name, event) in &events {
                let refused = ends(&place, event, &world) == Err(Guard::Transition);
                assert_eq!(refused, !known.contains(name), "{mode} {state} {name}");
            }
            assert_eq!(ends(&place, &Event::Cancel, &world), Ok(Phase::Idle));
            assert_eq!(advance_event(&place, Some(Phase::Idle)), Ok(Event::Cancel));
        }
    }
}

#[test]
fn the_mode_is_switched_between_tasks_only_and_never_into_what_is_locked() {
    let locked = Ledger {
        baseline: None,
        locked: Some(9_000),
        framework: None,
    };
    for state in Phase::ALL.iter().copied() {
        for to in Mode::ALL.iter().copied() {
            let place = place(Mode::Strict, state, Progress::default());
            let may = matches!(state, Phase::Idle | Phase::Planning);
            let free = mode_switch(&place, to, Ledger::default());
            assert_eq!(
                free.map(|place| place.mode).ok(),
                may.then_some(to),
                "{state} {to}"
            );
            let held = mode_switch(&place, to, locked).is_ok();
            assert_eq!(held, may && to == Mode::Strict, "{state} {to}");
        }
    }
}

#[test]
fn the_budget_warns_locks_and_is_only_spent_by_exploring() {
    let ledger = Ledger {
        baseline: Some(Coverage {
            found: 100,
            hit: 90,
        }),
        locked: None,
        framework: None,
    };
    let world = World {
        ledger,
        ..World::changing(&[], &["src/a.rs"], &[])
    };
    for (hit, warns, locks) in [(90, false, false), (87, true, false), (84, true, true)] {
        let mut shown = progress(Some(Route::Exploring), Some(Proof::Green), None);
        shown.last.as_mut().unwrap().coverage = Some(Coverage { found: 100, hit });
        let reviewing = place(Mode::Explore, Phase::Reviewing, shown);
        let approve = Event::MergeApproved(digest("stage"));
        let (next, effects) = world
            .with(|facts| step(&reviewing, &approve, facts))
            .unwrap();
        assert_eq!(effects.warning.is_some(), warns, "{hit}");
        let (_, effects) = world
            .with(|facts| step(&next, &Event::Committed, facts))
            .unwrap();
        let after = effects.ledger.unwrap_or(ledger);
        assert_eq!(after.locked.is_some(), locks, "{hit}");
        let mut exempt = next.clone();
        exempt.progress.route = Some(Route::Exempt(documentation("docs/a.md")));
        let (_, effects) = world
            .with(|facts| step(&exempt, &Event::Committed, facts))
            .unwrap();
        assert_eq!(effects.ledger, None, "{hit}");
    }
}

#[test]
fn padded_coverage_spends_the_budget_and_another_language_does_not_touch_it() {
    let covered = |hit| Some(Coverage { found: 100, hit });
    let ledger = Ledger {
        baseline: covered(90),
        locked: None,
        framework: Some(Framework::Cargo),
    };
    let with = |tests: &[&str], source: &[&str]| World {
        ledger,
        ..World::changing(tests, source, &[])
    };
    let approve = Event::MergeApproved(digest("stage"));
    let after = |world: &World, by, coverage, proven| -> Result<bool, Guard> {
        let mut shown = progress(Some(Route::Exploring), Some(Proof::Green), None);
        let run = shown.last.as_mut().unwrap();
        (run.framework, run.coverage, run.proven) = (Some(by), coverage, proven);
        let reviewing = place(Mode::Explore, Phase::Reviewing, shown);
        let (next, _) = world
            .with(|facts| step(&reviewing, &approve, facts))
            .map_err(|refusal| refusal.guard)?;
        let (_, effects) = world
            .with(|facts| step(&next, &Event::Committed, facts))
            .map_err(|refusal| refusal.guard)?;
        Ok(effects.ledger.unwrap_or(ledger).locked.is_some())
    };
    let both = with(&["tests/a.rs"], &["src/a.rs"]);
    let (cargo, node) = (Framework::Cargo, Framework::Node);
    let unproven = after(&both, cargo, covered(95), None);
    assert_eq!(unproven, Err(Guard::CoverageBudget), "tests nobody tried");
    assert_eq!(after(&both, cargo, covered(95), covered(60)), Ok(true));
    assert_eq!(after(&both, cargo, covered(95), covered(90)), Ok(false));
    let code = with(&[], &["src/a.rs"]);
    assert_eq!(after(&code, cargo, covered(60), None), Ok(true));
    // What another runner measured is no measure of what changed.
    let other = after(&code, node, covered(99), None);
    assert_eq!(other, Err(Guard::CoverageBudget));
    let page = with(&[], &["src/a.js"]);
    assert_eq!(after(&page, node, covered(10), None), Ok(false));
}

#[test]
fn the_budget_is_set_by_the_language_it_was_first_measured_in() {
    let covered = |hit| Some(Coverage { found: 100, hit });
    let committed = |ledger, by, hit| {
        let mut shown = progress(Some(Route::TestFirst), Some(Proof::Green), None);
        let run = shown.last.as_mut().unwrap();
        (run.framework, run.coverage) = (Some(by), covered(hit));
        let world = World {
            ledger,
            ..World::new()
        };
        let committing = place(Mode::Strict, Phase::Committing, shown);
        let stepped = world.with(|facts| step(&committing, &Event::Committed, facts));
        stepped.unwrap().1.ledger.unwrap_or(ledger)
    };
    let first = committed(Ledger::default(), Framework::Cargo, 90);
    assert_eq!(first.baseline, covered(90));
    assert_eq!(first.framework, Some(Framework::Cargo));
    assert_eq!(committed(first, Framework::Node, 5), first);
    assert_eq!(committed(first, Framework::Cargo, 80).baseline, covered(80));
}

/// What a test did not notice is told with the test, by name, and what to do about it.
#[test]
fn a_test_that_notices_nothing_is_named_with_what_it_did_not_notice() {
    let mut world = World::changing(&["tests/a"], &["src/a"], &[]);
    world.edited = None;
    let mut progress = Progress {
        route: Some(Route::TestFirst),
        before: Some(run(Proof::Red)),
        last: Some(run(Proof::Green)),
        ..Progress::default()
    };
    let last = progress.last.as_mut().unwrap();
    last.suspects = ["a", "b", "c", "d", "e", "f"].map(str::to_owned).to_vec();
    last.unnoticed = vec!["`double` emptied".to_owned()];
    let place = Place {
        mode: Mode::Strict,
        state: Phase::Validating,
        progress,
    };
    let refused = world.with(|facts| step(&place, &Event::Validated, facts));
    let refusal = refused.unwrap_err();
    assert_eq!(refusal.guard, Guard::TestsCanFail);
    for part in ["`a`, `b`, `c`, `d` and 2 more", "`double` emptied"] {
        assert!(refusal.why.contains(part), "{}", refusal.why);
    }
    assert!(refusal.fix.contains("begin anew"), "{}", refusal.fix);
}

/// Where it is only not known whether tests still run, that is told, with another way out.
#[test]
fn tests_of_which_it_is_not_known_whether_they_run_are_told_as_that() {
    let world = World::changing(&["tests/a"], &["src/a"], &[]);
    for (unsure, why, fix) in [
        (None, "no longer run: `old`", "bring them back"),
        (
            Some(Unsure::Unended),
            "`old`; these are not named",
            "longer `timeout`",
        ),
        (
            Some(Unsure::Unnamed),
            "`old`; the runner names no test now",
            "as before",
        ),
    ] {
        let mut last = run(Proof::Green);
        (last.lost, last.unsure) = (vec!["old".to_owned()], unsure);
        let place = Place {
            mode: Mode::Strict,
            state: Phase::Validating,
            progress: Progress {
                route: Some(Route::TestFirst),
                before: Some(run(Proof::Red)),
                last: Some(last),
                ..Progress::default()
            },
        };
        let refused = world.with(|facts| step(&place, &Event::Validated, facts));
        let refusal = refused.unwrap_err();
        assert_eq!(refusal.guard, Guard::SameTests, "{unsure:?}");
        assert!(refusal.why.contains(why), "{}", refusal.why);
        assert!(refusal.fix.contains(fix), "{}", refusal.fix);
    }
}
