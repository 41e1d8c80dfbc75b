//! Plugins that go: none holds up the others, nor whoever noticed.

use crate::fake::{FakeInstance, Place, call, one_call, wait_for, write_plugin};
use airlock_plugin::{CallError, ManageError, Manager, Origin, Source, State};
use serde_json::json;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Its own manifest gives it all the time there is.
const STUBBORN: &str = "lifecycle: { graceful_shutdown_timeout: 10m, hot_reload: false }";
/// Less than that.
const SOON: Duration = Duration::from_secs(20);

fn workspace(root: &Path) -> Vec<Source> {
    vec![Source {
        path: root.join("workspace"),
        origin: Origin::Workspace,
    }]
}

fn is_known(place: &Place, name: &str) -> bool {
    place.notes.grants.lock().unwrap().contains_key(name)
}

#[test]
fn one_that_does_not_go_holds_up_neither_the_others_nor_the_watch() {
    let place = Place::new();
    let stays = Arc::clone(&place.host.script.lock().unwrap().stays);
    for (name, more) in [("a", STUBBORN), ("b", ""), ("c", "")] {
        place.install(name, "1.0.0", more);
        place.manager.start(name).unwrap();
    }
    // Another process switches two of them off, and the third ends by itself.
    let other = place.again();
    let held = stays.lock().unwrap();
    for name in ["a", "b"] {
        other.disable(name).unwrap();
    }
    place.instance(2).gone.store(true, Ordering::SeqCst);
    let begun = Instant::now();
    place.manager.tend();
    place.manager.tend();
    assert!(begun.elapsed() < Duration::from_secs(3), "the watch waits");
    assert_eq!(place.manager.get("c").unwrap().state, State::Error);
    let notes = place.notes.take();
    for name in ["a", "b"] {
        // From now on they ask for nothing but for calls they serve.
        let told = notes
            .iter()
            .filter(|line| **line == format!("leaves {name}"));
        assert!(told.count() > 0, "{notes:?}");
    }
    // Its manifest says ten minutes; nobody answers for it, so that is not what it gets.
    wait_for(|| !is_known(&place, "a") && !is_known(&place, "b"));
    assert!(begun.elapsed() < SOON);
    drop(held);
}

#[test]
fn whoever_finds_another_of_its_name_does_not_wait_and_the_other_comes_after_it() {
    let place = Place::with(|root| {
        write_plugin(&root.join("workspace"), "x", "9.0.0", STUBBORN);
        workspace(root)
    });
    let stays = Arc::clone(&place.host.script.lock().unwrap().stays);
    place.manager.start("x").unwrap();
    let held = stays.lock().unwrap();
    let begun = Instant::now();
    place.install("x", "1.0.0", "");
    let x = place.manager.get("x").unwrap();
    assert_eq!((x.origin, x.state), (Origin::User, State::Discovered));
    assert!(
        begun.elapsed() < Duration::from_secs(3),
        "it was waited for"
    );
    assert!(is_known(&place, "x"), "the old one is still going");
    assert!(!place.instance(0).stopped.load(Ordering::SeqCst));
    drop(held);
    place.manager.start("x").unwrap();
    assert_eq!(place.call("x", "echo").unwrap(), json!("1.0.0"));
    let notes = place.notes.take();
    let at = |line: &str| notes.iter().position(|one| one == line).unwrap();
    assert!(at("unregister x") < at("start x 1.0.0"), "{notes:?}");
    assert!(at("stop x 9.0.0 busy 0") < at("start x 1.0.0"), "{notes:?}");
}

#[test]
fn trust_that_ends_and_comes_back_waits_for_nobody_and_loses_nobody() {
    let place = Place::with(|root| {
        write_plugin(&root.join("workspace"), "x", "1.0.0", STUBBORN);
        workspace(root)
    });
    let stays = Arc::clone(&place.host.script.lock().unwrap().stays);
    place.manager.start("x").unwrap();
    let held = stays.lock().unwrap();
    let begun = Instant::now();
    place.manager.set_sources(Vec::new()).unwrap();
    assert_eq!(
        place.call("x", "echo").unwrap_err().code(),
        "plugin_unknown"
    );
    place
        .manager
        .set_sources(workspace(place.root.path()))
        .unwrap();
    assert!(
        begun.elapsed() < Duration::from_secs(3),
        "it was waited for"
    );
    drop(held);
    place.manager.start("x").unwrap();
    assert_eq!(place.call("x", "echo").unwrap(), json!("1.0.0"));
    assert!(place.instance(0).stopped.load(Ordering::SeqCst));
}

#[test]
fn everything_ends_together_what_needs_others_first_and_in_a_time_of_ours() {
    let place = Place::new();
    let stays = Arc::clone(&place.host.script.lock().unwrap().stays);
    place.install("base", "1.0.0", STUBBORN);
    for name in ["one", "two", "three"] {
        let more = format!("{STUBBORN}\ndependencies: {{ base: '*' }}");
        place.install(name, "1.0.0", &more);
        place.manager.start(name).unwrap();
    }
    place.notes.take();
    let _held = stays.lock().unwrap();
    let begun = Instant::now();
    place.manager.shutdown();
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    let notes = place.notes.take();
    let stopped: Vec<&String> = notes
        .iter()
        .filter(|line| line.starts_with("stop "))
        .collect();
    assert_eq!(stopped.len(), 4, "{notes:?}");
    assert_eq!(stopped[3], "stop base 1.0.0 busy 0");
}

#[test]
fn everything_ends_in_a_time_of_ours_whoever_is_at_it() {
    let place = Place::new();
    let stays = Arc::clone(&place.host.script.lock().unwrap().stays);
    let gate = Arc::<Mutex<()>>::default();
    place.script(|script| script.takes = Duration::from_mins(5));
    for (name, hot) in [("hot", true), ("cold", false), ("stopped", true)] {
        let more = "graceful_shutdown_timeout: 10m";
        let more = format!("lifecycle: {{ {more}, hot_reload: {hot} }}");
        place.install(name, "1.0.0", &more);
        place.manager.start(name).unwrap();
    }
    place.install("late", "1.0.0", "");
    let state = |name: &str| place.manager.get(name).unwrap().state;
    let code = |result: Result<(), ManageError>| result.unwrap_err().code();
    std::thread::scope(|scope| {
        // Two are exchanged, with calls that do not end.
        for name in ["hot", "cold"] {
            let place = &place;
            scope.spawn(move || place.call(name, "echo"));
        }
        let is_busy = |number| place.instance(number).calls.load(Ordering::SeqCst) == 1;
        wait_for(|| is_busy(0) && is_busy(1));
        let hot = scope.spawn(|| place.manager.reload("hot"));
        wait_for(|| place.host.instances.lock().unwrap().len() == 4);
        let cold = scope.spawn(|| place.manager.reload("cold"));
        wait_for(|| state("cold") == State::Loading);
        // One does not stop, and one does not get to the end of its start.
        let stubborn = stays.lock().unwrap();
        let stopped = scope.spawn(|| place.manager.stop("stopped"));
        wait_for(|| state("stopped") == State::Stopped);
        let held = gate.lock().unwrap();
        place.script(|script| script.begins = Arc::clone(&gate));
        let late = scope.spawn(|| place.manager.start("late"));
        wait_for(|| is_known(&place, "late"));
        let begun = Instant::now();
        place.manager.shutdown();
        assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
        for name in ["hot", "cold", "stopped"] {
            assert!(!is_known(&place, name), "{name}");
        }
        drop(held);
        for ended in [hot, cold, late] {
            assert_eq!(code(ended.join().unwrap()), "plugin_not_running");
        }
        stopped.join().unwrap().unwrap();
        drop(stubborn);
    });
    assert!(!is_known(&place, "late"), "whoever started it ended it");
    let instances = place.host.instances.lock().unwrap();
    let has_stopped = |one: &Arc<FakeInstance>| one.stopped.load(Ordering::SeqCst);
    assert!(instances.iter().all(has_stopped));
    assert_eq!(code(place.manager.start("late")), "plugin_not_running");
}

/// Its calls have all the time there is.
fn patient(hot: bool) -> String {
    format!("lifecycle: {{ graceful_shutdown_timeout: 10m, hot_reload: {hot} }}")
}

fn have_all_stopped(place: &Place) -> bool {
    let instances = place.host.instances.lock().unwrap();
    let has_stopped = |one: &Arc<FakeInstance>| one.stopped.load(Ordering::SeqCst);
    instances.iter().all(has_stopped)
}

/// A plugin whose first version has a call that does not end, and the second of which is to be loaded.
fn busy(hot: bool) -> Place {
    let place = Place::new();
    place.install("x", "1.0.0", &patient(hot));
    // Longer than anything here is waited for.
    place.script(|script| script.takes = Duration::from_mins(1));
    place.manager.start("x").unwrap();
    place.install("x", "2.0.0", &patient(hot));
    place
}

fn is_busy(place: &Place, number: usize) -> bool {
    place.instance(number).calls.load(Ordering::SeqCst) == 1
}

/// Whether the new version has the place of the old one, or waits for it.
fn is_exchanged(place: &Place, hot: bool) -> bool {
    let listed = place.manager.get("x").unwrap();
    if hot {
        listed.manifest.version.to_string() == "2.0.0" && listed.state == State::Running
    } else {
        listed.state == State::Loading
    }
}

/// What becomes of a plugin while its first version still ends a call.
#[derive(Clone, Copy)]
struct Meanwhile {
    case: &'static str,
    hot: bool,
    /// The second version ends by itself.
    crashes: bool,
    /// It is removed, not just switched off.
    is_removed: bool,
    /// How it is noticed.
    notice: fn(&Manager),
}

fn goes(meanwhile: Meanwhile) {
    let Meanwhile { case, hot, .. } = meanwhile;
    let place = busy(hot);
    std::thread::scope(|scope| {
        let place = &place;
        let old = scope.spawn(move || place.call("x", "echo"));
        wait_for(|| is_busy(place, 0));
        let exchanged = scope.spawn(move || place.manager.reload("x"));
        wait_for(|| is_exchanged(place, hot));
        if meanwhile.crashes {
            place.instance(1).gone.store(true, Ordering::SeqCst);
        }
        let other = place.again();
        if meanwhile.is_removed {
            other.remove("x").unwrap();
        } else {
            other.disable("x").unwrap();
        }
        (meanwhile.notice)(&place.manager);
        wait_for(|| !is_known(place, "x") && have_all_stopped(place));
        let error = old.join().unwrap().unwrap_err();
        assert_eq!(error.code(), "plugin_ended", "{case}");
        assert_eq!(exchanged.join().unwrap().is_ok(), hot, "{case}");
    });
    let started = place.host.instances.lock().unwrap().len();
    assert_eq!(started, if hot { 2 } else { 1 }, "{case}");
    assert!(!is_known(&place, "x"), "{case}");
}

#[test]
fn one_that_nobody_wants_goes_whatever_is_being_done_to_it() {
    let let_go = |manager: &Manager| {
        manager.follow().unwrap();
        manager.let_go("x");
    };
    let usual = Meanwhile {
        case: "its new version serves",
        hot: true,
        crashes: false,
        is_removed: false,
        notice: Manager::tend,
    };
    let cases = [
        usual,
        Meanwhile {
            case: "its new version serves, and it is removed",
            is_removed: true,
            ..usual
        },
        Meanwhile {
            case: "its new version ended",
            crashes: true,
            ..usual
        },
        Meanwhile {
            case: "it is stopped to be started again",
            hot: false,
            ..usual
        },
        Meanwhile {
            case: "it is stopped to be started again, and is removed",
            hot: false,
            is_removed: true,
            ..usual
        },
        Meanwhile {
            case: "somebody comes across it",
            hot: false,
            notice: let_go,
            ..usual
        },
    ];
    std::thread::scope(|scope| {
        for case in cases {
            scope.spawn(move || goes(case));
        }
    });
}

#[test]
fn whoever_switches_one_off_or_removes_it_waits_for_no_reload() {
    type Work = fn(&Manager) -> Result<(), ManageError>;
    let works: [Work; 2] = [
        |manager| manager.disable("x"),
        |manager| manager.remove("x"),
    ];
    std::thread::scope(|scope| {
        for work in works {
            scope.spawn(move || {
                let place = busy(true);
                std::thread::scope(|scope| {
                    let place = &place;
                    scope.spawn(move || place.call("x", "echo"));
                    wait_for(|| is_busy(place, 0));
                    scope.spawn(move || place.manager.reload("x"));
                    wait_for(|| is_exchanged(place, true));
                    let begun = Instant::now();
                    work(&place.manager).unwrap();
                    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
                    assert!(!is_known(place, "x") && have_all_stopped(place));
                });
            });
        }
    });
}

#[test]
fn switching_one_off_ends_what_serves_though_a_new_version_is_just_being_started() {
    let place = Place::new();
    let begins = Arc::clone(&place.host.script.lock().unwrap().begins);
    place.install("x", "1.0.0", "");
    place.manager.start("x").unwrap();
    let held = begins.lock().unwrap();
    std::thread::scope(|scope| {
        let exchanged = scope.spawn(|| place.manager.reload("x"));
        wait_for(|| has_noted(&place, "replace x"));
        place.again().disable("x").unwrap();
        place.manager.tend();
        wait_for(|| place.instance(0).stopped.load(Ordering::SeqCst));
        drop(held);
        exchanged.join().unwrap().unwrap();
    });
    wait_for(|| !is_known(&place, "x"));
    assert!(have_all_stopped(&place));
}

#[test]
fn one_without_calls_has_a_few_seconds_to_end_whatever_its_manifest_says() {
    let place = Place::new();
    let stays = Arc::clone(&place.host.script.lock().unwrap().stays);
    place.install("x", "1.0.0", &patient(true));
    place.manager.start("x").unwrap();
    let held = stays.lock().unwrap();
    std::thread::scope(|scope| {
        let exchanged = scope.spawn(|| place.manager.reload("x"));
        wait_for(|| place.instance(0).stopped.load(Ordering::SeqCst));
        exchanged.join().unwrap().unwrap();
        drop(held);
    });
}

#[test]
fn once_everything_is_about_to_end_a_reload_adds_no_wait_to_that() {
    let place = busy(true);
    std::thread::scope(|scope| {
        let place = &place;
        scope.spawn(move || call(&place.manager, "x", "echo", "old"));
        wait_for(|| is_busy(place, 0));
        let exchanged = scope.spawn(move || place.manager.reload("x"));
        wait_for(|| is_exchanged(place, true));
        scope.spawn(move || call(&place.manager, "x", "echo", "new"));
        wait_for(|| is_busy(place, 1));
        let begun = Instant::now();
        place.manager.hasten();
        exchanged.join().unwrap().unwrap();
        // What its calls have was counted from then on: each apart would take as long as both.
        place.manager.shutdown();
        assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    });
    assert!(!is_known(&place, "x") && have_all_stopped(&place));
}

#[test]
fn one_whose_name_another_has_goes_even_if_it_was_just_let_stay() {
    let place = Place::with(|root| {
        write_plugin(&root.join("workspace"), "x", "9.0.0", "");
        workspace(root)
    });
    place.install("x", "1.0.0", "");
    place.manager.start("x").unwrap();
    let other = place.again();
    let begins = Arc::clone(&place.host.script.lock().unwrap().begins);
    let before = std::thread::scope(|scope| {
        // It is switched off and on again while somebody is at it.
        let held = begins.lock().unwrap();
        let reload = scope.spawn(|| place.manager.reload("x"));
        wait_for(|| has_noted(&place, "replace x"));
        switch(&place, &other, true);
        place.manager.tend();
        switch(&place, &other, false);
        // Whoever came to end it lets it go on, and has not ended yet itself.
        let before = place.notes.stayed.load(Ordering::SeqCst);
        let hears = place.notes.stays.lock().unwrap();
        drop(held);
        wait_for(|| place.notes.stayed.load(Ordering::SeqCst) > before);
        // Now that of the workspace has its name.
        other.remove("x").unwrap();
        place.manager.refresh().unwrap();
        drop(hears);
        reload.join().unwrap().unwrap();
        place.instance(1)
    });
    wait_for(|| {
        place.manager.tend();
        before.stopped.load(Ordering::SeqCst)
    });
    place.manager.start("x").unwrap();
    assert_eq!(place.call("x", "echo").unwrap(), json!("9.0.0"));
}

fn has_noted(place: &Place, what: &str) -> bool {
    let lines = place.notes.lines.lock().unwrap();
    lines.iter().any(|line| line == what)
}

/// Another process switches `x` off or on, and it is noticed.
fn switch(place: &Place, other: &Manager, off: bool) {
    if off {
        other.disable("x").unwrap();
    } else {
        other.enable("x").unwrap();
    }
    place.manager.refresh().unwrap();
    assert_eq!(place.manager.get("x").unwrap().disabled, off);
}

#[test]
fn a_start_that_fails_for_many_calls_is_tried_once_and_not_for_one_that_is_switched_off() {
    for is_switched_off in [false, true] {
        let place = Place::new();
        let begins = Arc::clone(&place.host.script.lock().unwrap().begins);
        place.install("x", "1.0.0", "");
        place.script(|script| script.start = Err("no"));
        place.notes.take();
        let go_on = AtomicBool::new(false);
        let codes: Vec<&str> = std::thread::scope(|scope| {
            let held = begins.lock().unwrap();
            let start = || place.manager.start_for("x", SOON, &go_on);
            let starts: Vec<_> = (0..4).map(|_| scope.spawn(start)).collect();
            wait_for(|| has_noted(&place, "start x 1.0.0"));
            // Until the others wait for the one that began.
            std::thread::sleep(Duration::from_millis(200));
            if is_switched_off {
                switch(&place, &place.again(), true);
            }
            drop(held);
            let ended = starts.into_iter().map(|start| start.join().unwrap());
            ended.map(|start| start.unwrap_err().code()).collect()
        });
        let began = place.notes.take();
        let began = began.iter().filter(|line| line.starts_with("start "));
        assert_eq!(began.count(), 1, "{is_switched_off}");
        let waited = if is_switched_off {
            "plugin_disabled"
        } else {
            "plugin_failed"
        };
        let count = |code: &str| codes.iter().filter(|one| **one == code).count();
        assert_eq!((count("plugin_ended"), count(waited)), (1, 3), "{codes:?}");
    }
}

#[test]
fn a_start_takes_no_more_of_a_call_than_it_has() {
    let place = Place::new();
    let begins = Arc::clone(&place.host.script.lock().unwrap().begins);
    place.install("x", "1.0.0", "");
    let held = begins.lock().unwrap();
    let go_on = AtomicBool::new(false);
    let short = Duration::from_millis(50);
    let late = place.manager.start_for("x", short, &go_on).unwrap_err();
    assert!(
        matches!(late, ManageError::Call(CallError::TimedOut(_))),
        "{late}"
    );
    let unwanted = AtomicBool::new(true);
    let error = place.manager.start_for("x", SOON, &unwanted).unwrap_err();
    assert!(
        matches!(error, ManageError::Call(CallError::Cancelled)),
        "{error}"
    );
    drop(held);
    // It goes on to its end, and is there for the next.
    place.manager.start_for("x", SOON, &go_on).unwrap();
    assert_eq!(place.call("x", "echo").unwrap(), json!("1.0.0"));
    assert_eq!(place.host.instances.lock().unwrap().len(), 1);
    // One that ended by itself is started again in the same way.
    place.call("x", "crash").unwrap_err();
    place.clock.pass(100);
    let held = begins.lock().unwrap();
    let mut late = one_call("echo", "late");
    late.deadline = short;
    let error = place.manager.call("x", &late, &mut Vec::new(), &go_on);
    let error = error.unwrap_err();
    assert!(
        matches!(error, ManageError::Call(CallError::TimedOut(_))),
        "{error}"
    );
    drop(held);
    assert_eq!(
        call(&place.manager, "x", "echo", "b").unwrap(),
        json!("1.0.0")
    );
    assert_eq!(place.host.instances.lock().unwrap().len(), 2);
}

#[test]
fn one_that_gave_up_is_not_started_for_another_and_its_wait_is_not_cut_short() {
    let place = Place::new();
    place.install("base", "1.0.0", "");
    place.install("top", "1.0.0", "dependencies: { base: '>=1' }");
    place.manager.start("top").unwrap();
    let code = |result: Result<(), ManageError>| result.unwrap_err().code();
    place.call("base", "crash").unwrap_err();
    assert_eq!(code(place.manager.reload("top")), "plugin_dependency");
    for wait in [100, 1_000, 5_000] {
        place.clock.pass(wait);
        // Due by now: it is started for whoever needs it, which counts like any other start.
        place.manager.reload("top").unwrap();
        place.call("base", "crash").unwrap_err();
    }
    place.clock.pass(10_000);
    let before = place.host.instances.lock().unwrap().len();
    assert_eq!(code(place.manager.reload("top")), "plugin_dependency");
    assert_eq!(
        place.call("base", "echo").unwrap_err().code(),
        "plugin_failed"
    );
    assert_eq!(place.host.instances.lock().unwrap().len(), before);
    // A person starts it anew.
    place.manager.reload("base").unwrap();
    place.manager.reload("top").unwrap();
}

#[test]
fn a_version_that_does_not_do_for_what_runs_is_not_put_in_its_place() {
    for hot in [true, false] {
        let place = Place::new();
        let reload = format!("lifecycle: {{ hot_reload: {hot} }}");
        place.install("base", "1.0.0", &reload);
        place.install("top", "1.0.0", "dependencies: { base: '^1' }");
        place.manager.start("top").unwrap();
        place.install("base", "2.0.0", &reload);
        let error = place.manager.reload("base").unwrap_err();
        assert_eq!(error.code(), "plugin_dependency", "{error}");
        assert!(error.to_string().contains("`top`"), "{error}");
        assert_eq!(place.call("base", "echo").unwrap(), json!("1.0.0"));
        place.install("base", "1.1.0", &reload);
        place.manager.reload("base").unwrap();
        assert_eq!(place.call("base", "echo").unwrap(), json!("1.1.0"));
    }
}
