//! A plugin in Go, on HashiCorp's library as Debian has it.

use crate::hostile::RAW;
use crate::support::{Fixture, PATIENCE, call, tool_call};
use airlock_plugin::{CallError, Instance as _, StartError};
use serde_json::json;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

#[test]
fn a_go_plugin_runs_with_mutual_tls_and_calls_the_kernel_through_the_broker() {
    let fixture = Fixture::go();
    let plugin = fixture.started();
    let names: Vec<&str> = plugin
        .tools()
        .iter()
        .map(|tool| tool.name.as_str())
        .collect();
    assert_eq!(names, ["echo", "ask", "slow", "about", "hit"]);
    assert_eq!(
        call(&plugin, "echo", json!({"a": [1, "ü"]})),
        Ok(json!({"a": [1, "ü"]}))
    );
    let answer = plain(&fixture, "plugin");
    assert!(!is_http2(&answer), "it speaks without TLS: {answer:?}");
    let about = call(&plugin, "about", json!({})).unwrap();
    let millis = u64::try_from(PATIENCE.as_millis()).unwrap();
    assert_eq!(
        about,
        json!(["tried", "action-1", "session-1", "plan", millis])
    );
    let asked = json!({"name": "fs.read", "arguments": {"path": "x"}});
    let answer = call(&plugin, "ask", asked).unwrap();
    assert_eq!(answer, json!({"text": "hello", "path": "x"}));
    let refused = call(&plugin, "ask", json!({"name": "exec.run", "arguments": {}}));
    let why = "denied: `exec.run` is not allowed here";
    assert_eq!(refused, Err(CallError::Tool(why.to_owned())));
    let seen = fixture.kernel.asked.lock().unwrap().clone();
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[0].2.as_deref(), Some("action-1"));
    plugin.health().unwrap();
    plugin.stop(PATIENCE);
    assert!(plugin.has_ended());
}

/// What the socket that begins with `name` answers to somebody who speaks HTTP/2 without TLS.
fn plain(fixture: &Fixture, name: &str) -> Vec<u8> {
    let entries = std::fs::read_dir(fixture.path("own/reach")).unwrap();
    let mut paths = entries.flatten().map(|entry| entry.path());
    let is_it = |path: &std::path::PathBuf| {
        let found = path.file_name().unwrap().to_str().unwrap();
        found.starts_with(name)
    };
    let path = paths.find(is_it).unwrap();
    let mut stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let settings = b"\0\0\0\x04\0\0\0\0\0";
    stream
        .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        .unwrap();
    // Whoever hung up at that has answered as well.
    let _hung_up = stream.write_all(settings);
    let mut answer = vec![0; 9];
    let read = stream.read(&mut answer).unwrap_or_default();
    answer.truncate(read);
    answer
}

/// Whether an answer begins as one of HTTP/2 has to: with a frame of settings.
fn is_http2(answer: &[u8]) -> bool {
    answer.get(3) == Some(&4)
}

#[test]
fn what_gives_no_certificate_is_spoken_to_only_if_its_manifest_says_so() {
    let error = Fixture::python(RAW).argument("fine").refused();
    assert_eq!(error.code(), "plugin_protocol", "{error}");
    assert!(error.to_string().contains("`tls: false`"), "{error}");
    let fixture = Fixture::python(RAW).in_the_clear().argument("fine");
    let _plugin = fixture.started();
    assert!(is_http2(&plain(&fixture, "raw")));
}

#[test]
fn a_library_that_can_secure_the_connection_does_not_where_the_manifest_says_so() {
    let fixture = Fixture::go().in_the_clear();
    let plugin = fixture.started();
    assert_eq!(call(&plugin, "echo", json!({"a": 1})), Ok(json!({"a": 1})));
    assert!(is_http2(&plain(&fixture, "plugin")));
    let asked = json!({"name": "fs.read", "arguments": {"path": "x"}});
    assert_eq!(call(&plugin, "ask", asked).unwrap()["text"], json!("hello"));
}

#[test]
fn a_plugin_that_asks_the_kernel_from_everywhere_waits_for_its_turn() {
    let fixture = Fixture::go();
    let plugin = fixture.started();
    let asked = json!({"name": "fs.read", "arguments": {"path": "x"}});
    std::thread::scope(|scope| {
        for _ in 0..48 {
            scope.spawn(|| call(&plugin, "ask", asked.clone()).unwrap());
        }
    });
    assert_eq!(fixture.kernel.asked.lock().unwrap().len(), 48);
    assert!(fixture.kernel.most.load(Ordering::SeqCst) <= fixture.settings.callbacks);
}

#[test]
fn its_tools_are_reached_through_the_broker_if_it_says_so() {
    let mut fixture = Fixture::go();
    fixture.configuration = json!({"serve": "broker"});
    let plugin = fixture.started();
    assert_eq!(call(&plugin, "echo", json!({"a": 1})), Ok(json!({"a": 1})));
    let asked = json!({"name": "fs.read", "arguments": {"path": "y"}});
    assert_eq!(call(&plugin, "ask", asked).unwrap()["text"], json!("hello"));
}

#[test]
fn a_go_plugin_ends_by_itself_when_it_is_asked_to() {
    let fixture = Fixture::go();
    let plugin = fixture.started();
    let begun = Instant::now();
    plugin.stop(PATIENCE);
    assert!(begun.elapsed() < PATIENCE / 2);
    assert!(call(&plugin, "echo", json!({})).is_err());
    let left: Vec<_> = std::fs::read_dir(fixture.path("own/reach"))
        .unwrap()
        .collect();
    drop(plugin);
    let after: Vec<_> = std::fs::read_dir(fixture.path("own/reach"))
        .unwrap()
        .flatten()
        .collect();
    assert!(after.is_empty(), "{left:?} {after:?}");
}

/// Cancels the call once it has said something, and counts.
struct Cancel<'a>(&'a AtomicBool, u32);
impl airlock_plugin::Sink for Cancel<'_> {
    fn piece(&mut self, _text: &str) -> bool {
        self.1 += 1;
        self.0.store(true, Ordering::Relaxed);
        true
    }
}

#[test]
fn cancelling_ends_the_call_in_go_too() {
    let fixture = Fixture::go();
    let plugin = fixture.started();
    let cancelled = AtomicBool::new(false);
    let mut sink = Cancel(&cancelled, 0);
    let called = plugin.call(&tool_call("slow", json!({})), &mut sink, &cancelled);
    assert_eq!((called, sink.1), (Err(CallError::Cancelled), 1));
    let mut short = tool_call("slow", json!({}));
    short.deadline = Duration::from_millis(300);
    let late = plugin.call(&short, &mut Vec::new(), &AtomicBool::new(false));
    assert_eq!(late, Err(CallError::TimedOut(short.deadline)));
    assert_eq!(call(&plugin, "echo", json!(1)), Ok(json!(1)));
}

#[test]
fn what_go_plugin_refuses_is_refused_for_its_reason() {
    for (argument, wanted) in [
        ("netrpc", "it speaks net/rpc"),
        (
            "version",
            "it speaks version `77` of Airlock's services, not 1",
        ),
    ] {
        let error = Fixture::go().argument(argument).refused();
        assert_eq!(error.code(), "plugin_protocol", "{argument}: {error}");
        assert!(error.to_string().contains(wanted), "{argument}: {error}");
    }
    let mut fixture = Fixture::go();
    fixture.configuration = json!({"fail": "no such key"});
    let error = fixture.refused();
    assert!(
        matches!(&error, StartError::Protocol(why) if why.contains("no such key")),
        "{error}"
    );
}
