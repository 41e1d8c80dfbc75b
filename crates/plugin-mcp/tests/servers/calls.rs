//! What a good server can do.

use crate::support::PATIENCE;
use crate::talk::{ask, call, question, server, start};
use airlock_plugin::{CallError, StartError};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

#[test]
fn tools_are_described_and_called_and_their_failures_are_theirs() {
    let fixture = server("garbage");
    let instance = start(&fixture).unwrap();
    let echo = instance
        .tools()
        .iter()
        .find(|tool| tool.name == "echo")
        .unwrap();
    assert_eq!(
        (&*echo.summary, &echo.schema["type"]),
        ("The tool echo", &json!("object"))
    );
    instance.health().unwrap();
    let given = json!({ "text": "a\nb", "n": [1, null] });
    for (tool, want) in [
        ("echo", Ok(json!("a\nb"))),
        ("structured", Ok(json!({ "given": given }))),
        ("fails", Err(CallError::Tool("it is raining".to_owned()))),
        (
            "meta",
            Ok(json!({ "airlock/action": "a", "airlock/session": null, "airlock/mode": null })),
        ),
    ] {
        assert_eq!(call(&*instance, tool, given.clone()), want, "{tool}");
    }
    assert!(!instance.has_ended());
    assert!(instance.report()["enforced"]["walls"].is_object());
    instance.stop(Duration::from_secs(5));
    assert!(instance.has_ended());
    let gone = call(&*instance, "echo", given);
    assert!(matches!(gone, Err(CallError::Ended(_))), "{gone:?}");
}

#[test]
fn a_hundred_calls_at_once_each_get_their_own_answer() {
    let fixture = server("plain");
    let instance = start(&fixture).unwrap();
    std::thread::scope(|scope| {
        let calls: Vec<_> = (0..100)
            .map(|number: u32| {
                let instance = &instance;
                scope.spawn(move || {
                    let text = number.to_string();
                    let given = json!({ "text": text, "seconds": f64::from(number % 7) / 50.0 });
                    let answer = call(&**instance, "slow", given);
                    assert_eq!(answer, Ok(json!(format!("slow {text}"))));
                })
            })
            .collect();
        for call in calls {
            call.join().unwrap();
        }
    });
}

#[test]
fn what_nobody_wants_any_more_is_taken_back() {
    let fixture = server("plain");
    let instance = start(&fixture).unwrap();
    let cancelled = AtomicBool::new(false);
    let slow = question("slow", json!({ "text": "x", "seconds": 60 }));
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| instance.call(&slow, &mut Vec::new(), &cancelled));
        std::thread::sleep(Duration::from_millis(100));
        cancelled.store(true, Ordering::Relaxed);
        assert_eq!(waiting.join().unwrap(), Err(CallError::Cancelled));
    });
    let mut short = slow.clone();
    short.deadline = Duration::from_millis(200);
    assert_eq!(
        ask(&*instance, &short),
        Err(CallError::TimedOut(short.deadline))
    );
    assert!(begun.elapsed() < Duration::from_secs(10));
    // The server was told of both, and is as well as before.
    let told = || call(&*instance, "cancelled", json!({})).unwrap();
    while told() != json!("2") && begun.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(told(), json!("2"));
}

#[test]
fn questions_of_a_servers_own_are_refused_and_pings_answered() {
    let fixture = server("plain");
    let instance = start(&fixture).unwrap();
    let begun = Instant::now();
    loop {
        let replies = call(&*instance, "replies", json!({})).unwrap();
        let replies: Vec<Value> = serde_json::from_str(replies.as_str().unwrap()).unwrap();
        if replies.len() == 4 || begun.elapsed() > PATIENCE {
            for (question, error) in [
                ("sampling/createMessage", json!(-32601)),
                ("roots/list", json!(-32601)),
                ("elicitation/create", json!(-32601)),
                ("ping", Value::Null),
            ] {
                let reply = json!([format!("s-{question}"), error]);
                assert!(replies.contains(&reply), "{question}: {replies:?}");
            }
            return;
        }
    }
}

#[test]
fn lists_of_several_pages_are_one_list() {
    let fixture = server("pages");
    let instance = start(&fixture).unwrap();
    let names: Vec<_> = instance.tools().iter().map(|tool| &*tool.name).collect();
    assert!(names.starts_with(&["first", "echo"]), "{names:?}");
}

#[test]
fn a_server_that_is_not_what_its_manifest_says_does_not_start() {
    let mut fixture = server("words");
    let honest = start(&server("plain")).unwrap();
    fixture.manifest.tools = honest
        .tools()
        .iter()
        .filter(|tool| tool.name == "echo")
        .cloned()
        .collect();
    match start(&fixture) {
        Err(StartError::Protocol(why)) => assert!(why.contains("`echo`"), "{why}"),
        other => panic!("{:?}", other.err()),
    }
}

#[test]
fn a_server_that_will_not_go_is_made_to() {
    let fixture = server("stays");
    let instance = start(&fixture).unwrap();
    let begun = Instant::now();
    instance.stop(Duration::from_millis(600));
    assert!(instance.has_ended() && begun.elapsed() < Duration::from_secs(5));
}
