//! One evaluation leaves nothing for the next, and nothing of the machine is in reach.

use crate::support::{PATIENT, ask, confined, extension, javascript, read, said, script};
use airlock_policy::{Extension, ExtensionFailure, Opinion};
use airlock_script::{ServeError, Served, StartError};
use std::sync::Arc;

#[test]
fn nothing_is_left_for_the_next_evaluation() {
    for (case, source) in [
        (
            "a module variable",
            "let seen = 0; export default () => seen++ ? 'deny' : 'allow'",
        ),
        (
            "a global",
            "export default () => { const seen = globalThis.seen; globalThis.seen = 1; return seen ? 'deny' : 'allow' }",
        ),
        (
            "a prototype",
            "export default () => { const seen = {}.seen; Object.prototype.seen = 1; return seen ? 'deny' : 'allow' }",
        ),
        (
            "an overridden built-in",
            "export default () => { const seen = Math.max(1, 2) === 0; Math.max = () => 0; return seen ? 'deny' : 'allow' }",
        ),
        (
            "a registered symbol",
            "const s = Symbol.for('s'); export default () => { const seen = s.constructor[s]; s.constructor[s] = 1; return seen ? 'deny' : 'allow' }",
        ),
        (
            "a frozen global",
            "export default () => { const seen = Object.isFrozen(Array); Object.freeze(Array); return seen ? 'deny' : 'allow' }",
        ),
        (
            "the request",
            "export default (r) => { const seen = r.paths.length > 1; r.paths.push('b'); return seen ? 'deny' : 'allow' }",
        ),
        (
            "a weak map",
            "const m = new WeakMap(); export default () => { const seen = m.has(Array); m.set(Array, 1); return seen ? 'deny' : 'allow' }",
        ),
        (
            "a pending job",
            "export default () => { const seen = globalThis.x; (async () => { await 0; globalThis.x = 1 })(); return seen ? 'deny' : 'allow' }",
        ),
    ] {
        let extension = javascript(source, PATIENT);
        for _ in 0..3 {
            assert_eq!(said(&extension).0, Opinion::Allow, "{case}");
        }
    }
}

#[test]
fn only_the_listed_globals_are_there() {
    let source = "export default () => ({ decision: 'pass', reason: Reflect.ownKeys(globalThis).map(String).filter((name) => !/Array$|Error$/.test(name)).sort().join(' ') })";
    let (_, names) = said(&javascript(source, PATIENT));
    assert!(!names.ends_with('…'), "cut short: {names}");
    for gone in [
        "Date",
        "eval",
        "Function",
        "Promise",
        "WeakRef",
        "FinalizationRegistry",
        "Atomics",
        "SharedArrayBuffer",
        "performance",
        "console",
        "queueMicrotask",
        "escape",
        "Symbol(Symbol.toStringTag)",
    ] {
        assert!(
            !names.split(' ').any(|name| name == gone),
            "{gone} in {names}"
        );
    }
    for kept in ["Object", "JSON", "Map", "RegExp", "parseInt"] {
        assert!(
            names.split(' ').any(|name| name == kept),
            "{kept} not in {names}"
        );
    }
}

#[test]
fn the_filter_is_in_force_once_the_worker_is_ready() {
    let (extension, workers) = extension("guard.js", "export default () => 'allow'");
    extension.start().unwrap();
    let pid = workers.pids()[0];
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let read = |path: &std::path::Path| std::fs::read_to_string(path).unwrap();
    // The filter is a thread's own; the test harness gives the worker one named like the test.
    let serving: Vec<_> = threads
        .map(|thread| thread.unwrap().path())
        .filter(|thread| read(&thread.join("comm")).trim() == "worker")
        .collect();
    assert_eq!(serving.len(), 1);
    let status = read(&serving[0].join("status"));
    assert!(status.contains("\nSeccomp:\t2\n"), "{status}");
    assert!(status.contains("\nNoNewPrivs:\t1\n"), "{status}");
}

#[test]
fn a_worker_that_cannot_confine_itself_runs_nothing() {
    let source = script("guard.js", "export default () => 'allow'");
    let (extension, workers) = confined(source, "fails");
    let error = extension.start().unwrap_err();
    assert!(matches!(error, StartError::Unconfined { .. }), "{error}");
    assert!(error.to_string().ends_with("no filter [2J here"), "{error}");
    assert_eq!(ask(&extension), Err(ExtensionFailure::Crash));
    assert_eq!(
        workers.started(),
        1,
        "a crashed worker stays down until restarted"
    );
}

#[test]
fn the_worker_confines_itself_before_it_looks_at_anything() {
    let first = b"\0\0\0\x04nope";
    for (case, input, confines) in [
        ("nothing", &b""[..], false),
        ("half a frame", &first[..6], false),
        ("no script", &first[..], true),
    ] {
        let confined = std::cell::Cell::new(false);
        let mut output = Vec::new();
        let confine = || {
            confined.set(true);
            Ok(())
        };
        let served = airlock_script::serve(input, &mut output, confine);
        match served {
            Ok(ended) => assert_eq!(ended, Served::Closed, "{case}"),
            Err(ServeError::NotLoaded(_)) => assert!(confines, "{case}"),
            Err(ServeError::Pipe(_)) => assert_eq!(input.len(), 6, "{case}"),
            Err(ServeError::Confine(error)) => panic!("{case}: {error}"),
        }
        assert_eq!((confined.get(), output.len()), (confines, 0), "{case}");
    }
}

#[test]
fn the_worker_starts_at_the_first_question_and_stays() {
    let (extension, workers) = extension("guard.js", "export default () => 'allow'");
    assert_eq!(workers.started(), 0);
    for _ in 0..20 {
        assert_eq!(said(&extension).0, Opinion::Allow);
    }
    assert_eq!(workers.started(), 1);
}

#[test]
fn no_worker_outlives_its_extension() {
    let (extension, workers) = extension("guard.js", "export default () => 'allow'");
    said(&extension);
    extension.restart().unwrap();
    said(&extension);
    let pids = workers.pids();
    assert_eq!(pids.len(), 2);
    drop(extension);
    for pid in pids {
        assert!(
            !std::path::Path::new(&format!("/proc/{pid}")).exists(),
            "{pid}"
        );
    }
}

#[test]
fn many_threads_get_their_own_answers() {
    let source = "export default (r) => ({ decision: 'allow', reason: r.paths[0] })";
    let (extension, workers) = extension("guard.js", source);
    let extension = Arc::new(extension);
    let ask = |thread: usize| {
        let extension = Arc::clone(&extension);
        move || {
            for call in 0..25 {
                let path = format!("{thread}/{call}");
                let answer = extension.evaluate(&read(&path)).unwrap();
                assert_eq!(*answer.reason, *path);
            }
        }
    };
    std::thread::scope(|scope| {
        for thread in 0..8 {
            scope.spawn(ask(thread));
        }
    });
    assert_eq!(workers.started(), 1);
}

#[test]
fn a_request_too_large_for_the_worker_is_denied_without_asking() {
    let (extension, workers) = extension("guard.js", "export default () => 'allow'");
    let mut request = read("a");
    request.arguments = serde_json::json!({ "content": "x".repeat(1_100_000) });
    let answer = extension.evaluate(&request).unwrap();
    assert_eq!(answer.opinion, Opinion::Deny);
    request.arguments = serde_json::json!({ "content": "x".repeat(900_000) });
    assert_eq!(
        extension.evaluate(&request).unwrap().opinion,
        Opinion::Allow
    );
    assert_eq!(workers.started(), 1);
}

#[test]
fn an_extension_passes_on_what_it_is_not_asked_about() {
    let (extension, workers) = extension("guard.js", "export default () => 'deny'");
    let extension = extension.asked_about(|request| request.syscall.name() == "fs.write");
    assert_eq!(said(&extension).0, Opinion::Pass);
    assert_eq!(workers.started(), 0);
}
