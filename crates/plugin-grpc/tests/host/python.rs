//! Plugins in Python, on the SDK.

use crate::support::{Fixture, PATIENCE, call, root, tool_call, until};
use airlock_plugin::{CallError, Host as _, Instance as _, Manifest, StartError, ToolDescription};
use serde_json::json;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

pub(crate) const TOOLS: &str = include_str!("plugins/tools.py");

#[test]
fn a_python_plugin_is_told_where_it_runs_and_streams_what_it_says() {
    for argument in ["secured", "plain"] {
        let mut fixture = Fixture::python(TOOLS).argument(argument);
        fixture.manifest.execution.tls = argument == "secured";
        let plugin = fixture.started();
        let about = call(&plugin, "about", json!({})).unwrap();
        let data = fixture.path("own/data");
        let wanted = json!({
            "plugin": "tried", "version": "1.2.3", "mode": "plan", "session": "session-1",
            "action": "action-1", "sandbox": true, "cookie": true, "data": data.to_str().unwrap(),
        });
        assert_eq!(about, wanted, "{argument}");
        let mut said = Vec::new();
        let called = tool_call("numbers", json!({"times": 3}));
        let result = plugin.call(&called, &mut said, &AtomicBool::new(false));
        assert_eq!(result, Ok(json!(3)));
        assert_eq!(said, ["0\n", "1\n", "2\n"]);
    }
}

#[test]
fn one_that_cannot_secure_the_connection_says_what_it_needs() {
    let error = Fixture::python(TOOLS).argument("plain").refused();
    assert!(matches!(error, StartError::Ended(_)), "{error}");
    assert!(
        error.to_string().contains("python3-cryptography"),
        "{error}"
    );
}

#[test]
fn what_it_prints_and_logs_is_kept() {
    let plugin = Fixture::python(TOOLS).started();
    call(&plugin, "prints", json!({})).unwrap();
    for text in ["to standard output", "to standard error", "to the log"] {
        until(|| plugin.output().contains(text).then_some(()));
    }
}

#[test]
fn failures_of_a_tool_are_its_own() {
    let plugin = Fixture::python(TOOLS).started();
    for (tool, wanted) in [
        ("fail", "there is no such ticket"),
        ("raises", "KeyError: 'absent'"),
        ("strange", "TypeError"),
        ("absent", "there is no tool `absent`"),
    ] {
        match call(&plugin, tool, json!({})) {
            Err(CallError::Tool(why)) => assert!(why.contains(wanted), "{tool}: {why}"),
            other => panic!("{tool}: {other:?}"),
        }
    }
    plugin.health().unwrap();
}

/// Wants nothing.
struct Stop;
impl airlock_plugin::Sink for Stop {
    fn piece(&mut self, _text: &str) -> bool {
        false
    }
}

#[test]
fn cancelling_reaches_the_tool() {
    let fixture = Fixture::python(TOOLS);
    let plugin = fixture.started();
    let cancelled = AtomicBool::new(false);
    let called = plugin.call(&tool_call("wait", json!({})), &mut Stop, &cancelled);
    assert_eq!(called, Err(CallError::Cancelled));
    assert_eq!(fixture.written("cancelled"), "yes");
    assert_eq!(call(&plugin, "echo", json!({"a": 1})), Ok(json!({"a": 1})));
}

#[test]
fn many_calls_run_side_by_side_and_none_gets_anothers_answer() {
    let plugin = Fixture::python(TOOLS).started();
    std::thread::scope(|scope| {
        for thread in 0..16 {
            let plugin = &plugin;
            scope.spawn(move || {
                for number in 0..10 {
                    let value = json!({"thread": thread, "number": number});
                    assert_eq!(call(plugin, "echo", value.clone()), Ok(value));
                }
            });
        }
    });
}

#[test]
fn its_health_is_what_it_says() {
    let fixture = Fixture::python(TOOLS);
    let plugin = fixture.started();
    plugin.health().unwrap();
    std::fs::write(fixture.path("own/data/tired"), "").unwrap();
    let error = plugin.health().unwrap_err();
    assert!(error.to_string().contains("tired"), "{error}");
    assert!(!plugin.has_ended());
}

#[test]
fn it_is_told_before_it_ends_and_ended_if_it_does_not() {
    let fixture = Fixture::python(TOOLS);
    let plugin = fixture.started();
    plugin.stop(PATIENCE);
    assert_eq!(fixture.written("stopped"), "yes");
    assert!(plugin.has_ended());
    let fixture = Fixture::python(TOOLS).argument("stubborn");
    let plugin = fixture.started();
    let begun = Instant::now();
    plugin.stop(Duration::from_millis(500));
    assert_eq!(fixture.written("stopped"), "yes");
    assert!(begun.elapsed() < PATIENCE / 2 && plugin.has_ended());
}

#[test]
fn a_configuration_it_refuses_keeps_it_from_starting() {
    let mut fixture = Fixture::python(TOOLS);
    fixture.configuration = json!({"bad": true});
    let error = fixture.refused();
    assert!(
        matches!(&error, StartError::Protocol(why) if why.contains("bad configuration")),
        "{error}"
    );
}

#[test]
fn tools_other_than_the_manifests_keep_it_from_starting() {
    let mut fixture = Fixture::python(TOOLS);
    fixture.manifest.tools = vec![ToolDescription {
        name: "echo".to_owned(),
        summary: "Say the arguments again".to_owned(),
        schema: json!({"type": "object"}),
        read_only: true,
    }];
    let error = fixture.refused();
    assert!(
        error
            .to_string()
            .contains("not those its manifest describes"),
        "{error}"
    );
}

#[test]
fn several_plugins_of_one_host_do_not_meet() {
    let (one, two) = (Fixture::python(TOOLS), Fixture::python(TOOLS));
    let host = one.host();
    let (first, second) = (
        host.start(one.start()).unwrap(),
        host.start(two.start()).unwrap(),
    );
    drop(host);
    first.stop(PATIENCE);
    assert_eq!(
        call(second.as_ref(), "echo", json!({"a": 1})),
        Ok(json!({"a": 1}))
    );
    assert!(first.report().is_object());
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "tests in Python, which run outside any sandbox"
)]
fn the_sdks_and_the_examples_own_tests_pass() {
    for tests in ["sdk/python/tests", "examples/plugins/python-grpc/tests"] {
        let mut python = Command::new("/usr/bin/python3");
        python
            .args(["-B", "-m", "unittest", "discover", "-s"])
            .arg(root().join(tests));
        let ran = python.output().unwrap();
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(
            ran.status.success() && said.contains("Ran "),
            "{tests}: {said}"
        );
        assert!(!said.contains("Ran 0 tests"), "{tests}: {said}");
    }
}

#[test]
fn the_example_runs_as_its_manifest_says() {
    let example = root().join("examples/plugins/python-grpc");
    let manifest = Manifest::parse(&std::fs::read(example.join("plugin.yaml")).unwrap()).unwrap();
    let program = std::fs::read_to_string(example.join(&manifest.execution.entry)).unwrap();
    let mut fixture = Fixture::python(&program);
    fixture.manifest = manifest;
    fixture.manifest.execution.entry = "bin/run".to_owned();
    let plugin = fixture.started();
    let counted = call(&plugin, "count", json!({"text": "a b\n"}));
    assert_eq!(
        counted,
        Ok(json!({"lines": 1, "words": 2, "characters": 4}))
    );
}
