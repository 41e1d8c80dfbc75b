//! Plugins that start well, or nearly, and then misbehave. The host goes on.

use crate::python::TOOLS;
use crate::support::{Fixture, PATIENCE, call, mark, running, runs, tool_call, until};
use airlock_core::ByteSize;
use airlock_plugin::{CallError, Instance as _, Sink, StartError};
use serde_json::json;
use std::os::unix::net::UnixListener;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

pub(crate) const RAW: &str = include_str!("plugins/raw.py");

#[test]
fn answers_that_are_none_keep_it_from_starting() {
    for (case, wanted) in [
        ("not-serving", "it says that it is NOT_SERVING"),
        (
            "no-health",
            "grpc.health.v1.Health.Check: it does not serve this",
        ),
        ("init-garbage", "PluginLifecycle.Init"),
        ("describe-garbage", "Tool.Describe"),
        (
            "describe-many",
            "it describes 1000 tools; at most 256 are taken",
        ),
        ("describe-huge", "Tool.Describe"),
        (
            "describe-schema",
            "its tool `t` has a schema that is no JSON",
        ),
    ] {
        let error = Fixture::python(RAW).in_the_clear().argument(case).refused();
        assert_eq!(error.code(), "plugin_protocol", "{case}: {error}");
        assert!(error.to_string().contains(wanted), "{case}: {error}");
    }
}

#[test]
fn waiting_for_what_never_comes_ends_at_the_deadline() {
    for case in ["init-hangs", "serve-unannounced"] {
        let limit = Duration::from_secs(8);
        let error = Fixture::python(RAW)
            .in_the_clear()
            .argument(case)
            .patience(limit)
            .refused();
        assert!(matches!(error, StartError::TimedOut(_)), "{case}: {error}");
    }
}

#[test]
fn without_a_lifecycle_it_runs_only_without_a_configuration() {
    let mut fixture = Fixture::python(RAW).in_the_clear().argument("no-lifecycle");
    fixture.started();
    fixture.configuration = json!({"key": 1});
    let error = fixture.refused();
    assert!(
        error
            .to_string()
            .contains("PluginLifecycle.Init: it does not serve"),
        "{error}"
    );
}

#[test]
fn wrong_answers_of_a_call_are_typed_and_the_next_call_works() {
    let plugin = Fixture::python(RAW)
        .in_the_clear()
        .argument("good")
        .started();
    for (tool, wanted) in [
        ("garbage", "plugin_protocol"),
        ("no-json", "plugin_protocol"),
        ("nothing", "plugin_protocol"),
        ("no-result", "plugin_protocol"),
        ("abort", "tool_error"),
        ("huge", "output_too_large"),
        ("empty-flood", "output_too_large"),
    ] {
        let mut small = tool_call(tool, json!({}));
        small.max_output = 10_000;
        let called = plugin.call(&small, &mut Vec::new(), &AtomicBool::new(false));
        let error = called.unwrap_err();
        assert_eq!(error.code(), wanted, "{tool}: {error}");
        assert!(!error.to_string().contains('\x1b'), "{tool}");
        assert_eq!(
            call(&plugin, "twice", json!({})),
            Ok(json!(1)),
            "after {tool}"
        );
    }
    assert!(!plugin.has_ended());
}

#[test]
fn a_flood_ends_the_call_and_nothing_else() {
    let plugin = Fixture::python(TOOLS).started();
    let mut small = tool_call("flood", json!({}));
    small.max_output = 100_000;
    let mut said = Vec::new();
    let called = plugin.call(&small, &mut said, &AtomicBool::new(false));
    assert_eq!(called, Err(CallError::TooMuch(100_000)));
    assert!(said.concat().len() <= 100_000);
    assert_eq!(call(&plugin, "echo", json!({"a": 1})), Ok(json!({"a": 1})));
}

/// Takes nothing more once it has a piece, until it is let go.
struct Stalled<'a>(&'a Mutex<Option<Receiver<()>>>);

impl Sink for Stalled<'_> {
    fn piece(&mut self, _text: &str) -> bool {
        let freed = self.0.lock().unwrap().take();
        freed.is_none_or(|freed| freed.recv_timeout(PATIENCE).is_ok())
    }
}

#[test]
fn a_reader_that_stalls_holds_up_no_other_call() {
    let plugin = Fixture::python(TOOLS).started();
    let (free, freed) = channel();
    let freed = Mutex::new(Some(freed));
    std::thread::scope(|scope| {
        let flooded = scope.spawn(|| {
            let mut call = tool_call("flood", json!({}));
            call.max_output = 8 << 20;
            plugin.call(&call, &mut Stalled(&freed), &AtomicBool::new(false))
        });
        until(|| freed.lock().unwrap().is_none().then_some(()));
        // So much that what nobody reads could have filled the connection meanwhile.
        let text = "x".repeat(100_000);
        for _ in 0..10 {
            let value = json!({"text": text});
            assert_eq!(call(&plugin, "echo", value.clone()), Ok(value));
        }
        free.send(()).unwrap();
        let flooded = flooded.join().unwrap();
        assert_eq!(flooded, Err(CallError::TooMuch(8 << 20)));
    });
}

#[test]
fn a_call_that_hangs_ends_at_its_deadline_and_others_go_on() {
    let plugin = Fixture::python(TOOLS).started();
    let mut short = tool_call("hang", json!({}));
    short.deadline = Duration::from_millis(500);
    let begun = Instant::now();
    let called = plugin.call(&short, &mut Vec::new(), &AtomicBool::new(false));
    assert_eq!(called, Err(CallError::TimedOut(short.deadline)));
    assert!(begun.elapsed() < short.deadline + PATIENCE / 10);
    assert_eq!(call(&plugin, "echo", json!({"a": 1})), Ok(json!({"a": 1})));
}

#[test]
fn one_that_dies_in_a_call_has_ended_for_good() {
    for after in [0, 3] {
        let plugin = Fixture::python(TOOLS).started();
        let error = call(&plugin, "die", json!({"after": after})).unwrap_err();
        assert_eq!(
            error,
            CallError::Ended("it exited with code 7".to_owned()),
            "{after}"
        );
        assert!(plugin.has_ended());
        let again = call(&plugin, "echo", json!({})).unwrap_err();
        assert_eq!(again.code(), "plugin_ended");
        assert_eq!(plugin.health().unwrap_err().code(), "plugin_ended");
    }
}

#[test]
fn what_it_leaves_running_goes_with_it() {
    let mark = mark();
    let plugin = Fixture::python(TOOLS).started();
    call(&plugin, "fork", json!({"mark": mark})).unwrap();
    until(|| runs(&mark).then_some(()));
    plugin.stop(PATIENCE);
    assert!(!runs(&mark));
}

#[test]
fn its_limits_end_it_and_are_named() {
    for (tool, wanted) in [("memory", "memory"), ("disk", "disk")] {
        let mut fixture = Fixture::python(TOOLS);
        fixture.manifest.execution.sandbox.memory_limit = Some(ByteSize::from_bytes(256 << 20));
        let plugin = fixture.started();
        let error = call(&plugin, tool, json!({})).unwrap_err();
        let named = error == CallError::Limit(wanted);
        // Python may see that there is no memory before the limit ends it.
        let seen = matches!(&error, CallError::Tool(why) if why.contains("MemoryError"));
        assert!(named || (seen && tool == "memory"), "{tool}: {error:?}");
    }
}

#[test]
fn one_that_takes_all_processes_it_can_have_is_ended_all_the_same() {
    let mark = mark();
    let plugin = Fixture::python(TOOLS).started();
    let mut called = tool_call("pids", json!({"mark": mark}));
    called.deadline = Duration::from_secs(10);
    // It may have no thread left to answer with.
    let called = plugin.call(&called, &mut Vec::new(), &AtomicBool::new(false));
    let code = called.unwrap_err().code();
    let typed = ["tool_error", "timed_out", "plugin_limit", "plugin_ended"];
    assert!(typed.contains(&code), "{code}");
    assert!(running(&mark) <= 100);
    plugin.stop(Duration::from_secs(1));
    assert!(!runs(&mark));
}

#[test]
fn a_host_that_saw_the_worst_starts_the_next_plugin() {
    let good = Fixture::python(TOOLS);
    let host = good.host();
    for lines in ["exec cat /dev/zero", "echo hello", "exit 1", "kill -11 $$"] {
        let bad = Fixture::new(format!("#!/bin/sh\n{lines}\n"));
        assert!(host.launch(&bad.start()).is_err());
    }
    let dying = Fixture::python(TOOLS);
    let died = host.launch(&dying.start()).unwrap();
    assert_eq!(
        call(&died, "die", json!({})).unwrap_err().code(),
        "plugin_ended"
    );
    let plugin = host.launch(&good.start()).unwrap();
    assert_eq!(call(&plugin, "echo", json!({"a": 1})), Ok(json!({"a": 1})));
}

#[test]
fn a_connection_that_was_lost_is_not_made_again_whoever_waits_at_its_socket() {
    let fixture = Fixture::python(RAW).in_the_clear().argument("fine");
    let plugin = fixture.started();
    let left = call(&plugin, "leave", json!({}));
    assert!(left.is_err(), "{left:?}");
    // Somebody else has its address now.
    let path = fixture.path("own/reach/raw");
    if path.exists() {
        std::fs::remove_file(&path).unwrap();
    }
    let other = UnixListener::bind(&path).unwrap();
    other.set_nonblocking(true).unwrap();
    for _ in 0..3 {
        let again = call(&plugin, "twice", json!({}));
        assert!(matches!(again, Err(CallError::Ended(_))), "{again:?}");
        assert!(plugin.health().is_err());
    }
    assert!(plugin.has_ended());
    std::thread::sleep(Duration::from_millis(200));
    let nobody = other.accept().map(|_| ()).unwrap_err();
    assert_eq!(nobody.kind(), std::io::ErrorKind::WouldBlock);
}
