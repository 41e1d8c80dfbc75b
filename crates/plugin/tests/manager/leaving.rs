//! Plugins that go: none holds up the others, nor whoever noticed.

use crate::fake::{Place, call, one_call, wait_for, write_plugin};
use airlock_plugin::{CallError, ManageError, Origin, Source, State};
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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
