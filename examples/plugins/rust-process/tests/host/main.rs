//! The example in its box, under the host that Airlock runs plugins with.

#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod kernel;
mod support;

use airlock_plugin::{CallError, Instance as _, Sink, StartError};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use support::{Fixture, PATIENCE, call, tool_call, until};

#[test]
fn it_knows_where_it_runs() {
    let fixture = Fixture::new();
    let plugin = fixture.started();
    let names: Vec<&str> = plugin.tools().iter().map(|tool| &*tool.name).collect();
    assert_eq!(names, ["longest-lines", "copy", "wait-for", "where"]);
    let (_, said) = call(&plugin, "where", json!({}));
    let said = said.unwrap();
    assert_eq!(said["plugin"], "file-tools");
    assert_eq!(
        (&said["session"], &said["mode"]),
        (&json!("session-1"), &json!("plan"))
    );
    assert_eq!(said["data"], json!(fixture.path("own/data")));
    assert!(
        said["sandbox"].is_string() && said["home"].is_string(),
        "{said}"
    );
    plugin.health().unwrap();
}

#[test]
fn what_it_says_is_streamed_and_what_it_prints_is_kept() {
    let mut fixture = Fixture::new();
    fixture.configuration = json!({ "longest": 2 });
    let plugin = fixture.started();
    let (pieces, came) = call(&plugin, "longest-lines", json!({ "path": "a.txt" }));
    assert_eq!(came, Ok(json!({ "shown": 2 })));
    assert_eq!(pieces, ["the longest line\n", "thirteen\n"]);
    until(|| {
        plugin
            .output()
            .contains("up to 2 lines are shown")
            .then_some(())
    });
}

#[test]
fn it_asks_the_kernel_as_part_of_its_call_and_takes_no_for_an_answer() {
    let fixture = Fixture::new();
    let plugin = fixture.started();
    let copy = |to: &str| call(&plugin, "copy", json!({ "from": "a.txt", "to": to })).1;
    assert_eq!(copy("copies/b.txt"), Ok(json!({ "bytes": 34 })));
    until(|| plugin.output().contains("info: copied a.txt").then_some(()));
    let denied = CallError::Tool("`elsewhere` is not for plugins".to_owned());
    assert_eq!(copy("elsewhere"), Err(denied));
    let asked = fixture.asked.lock().unwrap();
    let names: Vec<&str> = asked
        .iter()
        .map(|one| one["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["fs.read", "fs.write", "fs.read", "fs.write"]);
    assert!(
        asked.iter().all(|one| one["within"] == "action-1"),
        "{asked:?}"
    );
}

#[test]
fn whoever_has_not_the_hosts_certificate_is_not_served() {
    let fixture = Fixture::new();
    let plugin = fixture.started();
    let socket = fixture.sockets().pop().unwrap();
    let mut stranger = UnixStream::connect(socket).unwrap();
    stranger.set_read_timeout(Some(PATIENCE)).unwrap();
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    stranger.write_all(preface).unwrap();
    let mut said = Vec::new();
    stranger.read_to_end(&mut said).unwrap();
    // An alert of TLS at most; a server without it would say what its settings are.
    assert!(said.is_empty() || said[0] == 21, "{said:?}");
    assert!(call(&plugin, "where", json!({})).1.is_ok());
}

/// Wants so many pieces.
struct Few(u32);

impl Sink for Few {
    fn piece(&mut self, _text: &str) -> bool {
        self.0 -= 1;
        self.0 > 0
    }
}

#[test]
fn a_call_that_nobody_wants_any_more_ends() {
    let fixture = Fixture::new();
    let plugin = fixture.started();
    let waiting = tool_call("wait-for", json!({ "path": "absent" }));
    let came = plugin.call(&waiting, &mut Few(3), &AtomicBool::new(false));
    assert_eq!(came, Err(CallError::Cancelled));
    until(|| {
        plugin
            .output()
            .contains("nobody waits any more")
            .then_some(())
    });
    let mut short = waiting;
    short.deadline = Duration::from_millis(300);
    let came = plugin.call(&short, &mut Vec::new(), &AtomicBool::new(false));
    assert_eq!(came, Err(CallError::TimedOut(short.deadline)));
    assert!(call(&plugin, "where", json!({})).1.is_ok());
}

#[test]
fn calls_run_side_by_side_and_none_gets_anothers_answer() {
    let fixture = Fixture::new();
    let plugin = fixture.started();
    std::thread::scope(|scope| {
        for thread in 0..16 {
            let plugin = &plugin;
            scope.spawn(move || {
                for number in 0..10 {
                    let path = format!("copies/{thread}-{number}");
                    let refused = format!("no/{thread}-{number}");
                    let copy =
                        |to: &str| call(plugin, "copy", json!({ "from": "a.txt", "to": to }));
                    assert_eq!(copy(&path).1, Ok(json!({ "bytes": 34 })));
                    let denied = format!("`{refused}` is not for plugins");
                    assert_eq!(copy(&refused).1, Err(CallError::Tool(denied)));
                }
            });
        }
    });
}

/// The process whose arguments have `mark`, the innermost if they are several.
fn process(mark: &str) -> Option<Pid> {
    let entries = std::fs::read_dir("/proc").ok()?.flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let marked = numbers.filter(|number| {
        std::fs::read(format!("/proc/{number}/cmdline"))
            .is_ok_and(|line| line.windows(mark.len()).any(|part| part == mark.as_bytes()))
    });
    marked.max().and_then(Pid::from_raw)
}

#[test]
fn a_crash_under_a_call_is_the_end_of_both() {
    let now = Instant::now();
    let mark = format!("mark-{}-{:p}", std::process::id(), &raw const now);
    let fixture = Fixture::new().marked(&mark);
    let plugin = fixture.started();
    let began = AtomicBool::new(false);
    let came = std::thread::scope(|scope| {
        let calling = scope.spawn(|| {
            let mut sink = Began(&began);
            let waiting = tool_call("wait-for", json!({ "path": "absent" }));
            plugin.call(&waiting, &mut sink, &AtomicBool::new(false))
        });
        until(|| began.load(Ordering::SeqCst).then_some(()));
        kill_process(process(&mark).unwrap(), Signal::KILL).unwrap();
        calling.join().unwrap()
    });
    assert!(matches!(came, Err(CallError::Ended(_))), "{came:?}");
    assert!(plugin.has_ended());
    assert!(call(&plugin, "where", json!({})).1.is_err());
}

struct Began<'a>(&'a AtomicBool);

impl Sink for Began<'_> {
    fn piece(&mut self, _text: &str) -> bool {
        self.0.store(true, Ordering::SeqCst);
        true
    }
}

#[test]
fn it_ends_by_itself_when_it_is_told_and_leaves_nothing() {
    let fixture = Fixture::new();
    let plugin = fixture.started();
    assert_eq!(fixture.sockets().len(), 1);
    let begun = Instant::now();
    plugin.stop(PATIENCE);
    assert!(begun.elapsed() < PATIENCE / 4, "{:?}", begun.elapsed());
    assert!(plugin.has_ended());
    assert!(fixture.sockets().is_empty());
}

#[test]
fn a_configuration_it_refuses_keeps_it_from_starting() {
    let mut fixture = Fixture::new();
    fixture.configuration = json!({ "longest": 0 });
    let refused = fixture.launch().map(|_| ()).unwrap_err();
    assert!(
        matches!(&refused, StartError::Protocol(why) if why.contains("`longest` is no number")),
        "{refused}"
    );
}

#[test]
fn run_by_hand_it_says_what_it_is() {
    #[expect(
        clippy::disallowed_methods,
        reason = "the program itself, by hand and outside any sandbox"
    )]
    let mut program = std::process::Command::new(env!("CARGO_BIN_EXE_file-tools"));
    let ran = program.env_clear().output().unwrap();
    let said = String::from_utf8(ran.stderr).unwrap();
    assert!(!ran.status.success());
    assert!(said.contains("airlock plugin install"), "{said}");
    assert!(ran.stdout.is_empty());
}
