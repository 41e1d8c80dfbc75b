//! Hostile servers: each is contained with an error that says what it did.

use crate::support::Fixture;
use crate::talk::{all_is_well, ask, call, question, server, start, start_within};
use airlock_core::ByteSize;
use airlock_plugin::{CallError, Instance, StartError};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};

#[test]
fn servers_that_do_not_come_to_be_ready_do_not_start() {
    for (mode, want) in [
        ("silent", "plugin_not_ready"),
        ("gigabytes", "plugin_protocol"),
        ("babble", "plugin_protocol"),
        ("version", "plugin_protocol"),
        ("toolless", "plugin_protocol"),
        ("refuses", "plugin_protocol"),
        ("names", "plugin_protocol"),
        ("quits", "plugin_ended"),
    ] {
        let fixture = server(mode);
        let begun = Instant::now();
        let patience = if mode == "silent" { 1 } else { 20 };
        let error = start_within(&fixture, Duration::from_secs(patience))
            .err()
            .unwrap();
        assert_eq!(error.code(), want, "{mode}: {error}");
        assert!(begun.elapsed() < Duration::from_secs(15), "{mode}");
        if mode == "quits" {
            let told = error.to_string();
            assert!(
                told.contains("code 4") && told.contains("no licence"),
                "{told}"
            );
        }
    }
    all_is_well();
}

#[test]
fn programs_that_are_no_servers_do_not_start() {
    for (script, want) in [
        ("#!/no/such/interpreter\n", "plugin_ended"),
        ("#!/bin/sh\nexit 0\n", "plugin_ended"),
        ("#!/bin/sh\ncat\n", "plugin_protocol"),
        ("#!/bin/sh\nkill -9 $$\n", "plugin_ended"),
        ("#!/bin/sh\nexec 1>&-\nsleep 60\n", "plugin_not_ready"),
    ] {
        let fixture = Fixture::new(script);
        let error = start_within(&fixture, Duration::from_secs(2))
            .err()
            .unwrap();
        assert_eq!(error.code(), want, "{script}: {error}");
    }
}

fn small() -> (Fixture, Arc<dyn Instance>) {
    let mut fixture = server("plain");
    fixture.manifest.execution.sandbox.memory_limit = Some(ByteSize::from_bytes(64 << 20));
    let instance = start(&fixture).unwrap();
    (fixture, instance)
}

#[test]
fn calls_of_a_hostile_server_end_in_an_error_of_their_own() {
    let json = "{}\n";
    for (tool, arguments, want) in [
        ("exit", json!({ "code": 3 }), "plugin_ended"),
        ("half", json!({}), "plugin_ended"),
        ("close", json!({}), "timed_out"),
        ("memory", json!({}), "plugin_limit"),
        ("disk", json!({}), "plugin_limit"),
        ("flood", json!({ "text": json }), "plugin_protocol"),
        ("flood", json!({ "text": "chatter\n" }), "plugin_protocol"),
        ("flood", json!({ "text": "x" }), "output_too_large"),
        ("raw", json!({ "text": "x".repeat(100) }), "timed_out"),
        ("never", json!({}), "timed_out"),
        ("large", json!({ "bytes": 2 << 20 }), "output_too_large"),
        ("large", json!({ "bytes": 5 << 20 }), "output_too_large"),
        ("none", json!({}), "timed_out"),
    ] {
        let (_fixture, instance) = small();
        let mut asked = question(tool, arguments.clone());
        if want == "timed_out" {
            asked.deadline = Duration::from_millis(500);
        }
        let begun = Instant::now();
        let error = ask(&*instance, &asked).unwrap_err();
        assert_eq!(error.code(), want, "{tool} {arguments}: {error}");
        assert!(
            begun.elapsed() < asked.deadline + Duration::from_secs(10),
            "{tool}"
        );
        if error == CallError::Ended(String::new()) || want == "plugin_limit" {
            assert!(instance.has_ended(), "{tool}");
            assert!(instance.health().is_err(), "{tool}");
        }
    }
    all_is_well();
}

#[test]
fn a_limit_is_named_and_an_end_has_its_last_words() {
    for (tool, want) in [
        ("memory", "memory"),
        ("disk", "disk"),
        ("exit", "saying `out of patience`"),
    ] {
        let (_fixture, instance) = small();
        let error = call(&*instance, tool, json!({ "code": 3 })).unwrap_err();
        assert!(error.to_string().contains(want), "{tool}: {error}");
    }
}

#[test]
fn answers_of_the_wrong_kind_are_errors_and_the_server_goes_on() {
    let fixture = server("plain");
    let instance = start(&fixture).unwrap();
    for (result, want) in [
        (json!("text"), Err("plugin_protocol")),
        (json!([1]), Err("plugin_protocol")),
        (json!({}), Ok(json!(""))),
        (json!({ "content": "text" }), Ok(json!(""))),
        (
            json!({ "content": [1, null, {}] }),
            Ok(json!(
                ["[a part that is no text was left out]"; 3].join("\n")
            )),
        ),
        (json!({ "isError": "yes", "content": [] }), Ok(json!(""))),
    ] {
        let answer = call(&*instance, "wrong", json!({ "result": result }));
        assert_eq!(answer.map_err(|error| error.code()), want, "{result}");
    }
    assert_eq!(
        call(&*instance, "echo", json!({ "text": "on" })),
        Ok(json!("on"))
    );
}

#[test]
fn answers_nobody_asked_for_reach_nobody() {
    let fixture = server("plain");
    let instance = start(&fixture).unwrap();
    // Answers to every question that may come next, before it comes: the one it is asked for is last.
    let forged = |id| json!({ "id": id, "result": { "content": [{ "text": "forged" }] } });
    let early: Vec<String> = (1..60).rev().map(|id| forged(id).to_string()).collect();
    let early = early.join("\n") + "\n";
    let mut raw = question("raw", json!({ "text": early }));
    raw.deadline = Duration::from_secs(2);
    // Its own answer is among them: that one is the server's to give.
    assert_eq!(ask(&*instance, &raw), Ok(json!("forged")));
    assert_eq!(
        call(&*instance, "echo", json!({ "text": "real" })),
        Ok(json!("real"))
    );
}

#[test]
fn processes_are_bounded_and_gone_with_the_plugin() {
    let fixture = server("plain");
    let instance = start(&fixture).unwrap();
    match call(&*instance, "fork", json!({})) {
        Ok(Value::String(count)) => assert!(count.parse::<u32>().unwrap() <= 100, "{count}"),
        Err(error) => assert_eq!(error, CallError::Limit("processes")),
        other => panic!("{other:?}"),
    }
    drop(instance);
    all_is_well();
}

#[test]
fn a_server_that_was_changed_since_its_approval_does_not_start() {
    let fixture = server("plain");
    let approved = fixture.digest();
    fixture.write("plugin/bin/run", "#!/bin/sh\necho hello\n");
    let error = fixture.start_as(approved).err().unwrap();
    assert!(matches!(error, StartError::Entry { .. }), "{error}");
}
