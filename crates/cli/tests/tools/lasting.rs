//! A kernel that stays: one sandbox for many commands, calls side by side, in order where they meet.

use super::support::{Place, done, failed, put_back};
use airlock_kernel::{Done, Front, Lifetime};
use serde_json::json;
use std::time::{Duration, Instant};

const POLICY: &str = "\
version: 1
commands:
  - executable: cat
  - executable: sh
  - executable: sleep
rules:
  - name: read
    match: { effect: read, path_glob: \"**\" }
    action: allow
  - name: run
    match: { syscall: exec.run }
    action: allow
  - name: change
    match: { effect: [write, delete], path_glob: [\"src/**\", \"script\"] }
    action: allow
";

fn place() -> Place {
    Place::with(
        POLICY,
        &[("src/a", "a\n"), ("other", "o\n")],
        Lifetime::Long,
    )
}

fn sandbox(done: &Done) -> String {
    done.ran.as_ref().unwrap().sandbox.clone()
}

#[test]
fn a_sandbox_serves_many_commands_that_are_granted_the_same() {
    let place = place();
    let first = place.script("echo one >src/a; echo left >/tmp/left; sleep 300 &");
    let second = place.script("cat src/a /tmp/left; set -- /proc/[0-9]*; echo $#");
    assert_eq!(sandbox(&first), sandbox(&second));
    let seen = second.value["stdout"].as_str().unwrap();
    // Files stay; nothing that ran does: init and the shell are all there are.
    assert!(
        seen.starts_with("one\nleft\n") && seen.ends_with("\n2\n"),
        "{seen}"
    );
    let write = json!({ "path": "src/b", "text": "b\n" });
    let written = done(place.call("fs.write", write));
    assert_eq!(sandbox(&written), sandbox(&first));
    let read = done(place.call("fs.read", json!({ "path": "src/b" })));
    assert_eq!(read.value["text"], "b\n");
    let other = json!({ "command": ["cat", "/tmp/left"], "memory": "256MiB" });
    let other = done(place.call("exec.run", other));
    assert_ne!(
        sandbox(&other),
        sandbox(&first),
        "other limits are another sandbox"
    );
    assert_ne!(other.value["exit"], 0);
    let mcp = json!({ "command": ["cat", "/tmp/left"] });
    let mcp = done(place.submit(Front::Mcp, "exec.run", mcp));
    assert_ne!(
        mcp.value["exit"], 0,
        "another caller finds nothing: {}",
        mcp.value
    );
}

#[test]
fn a_sandbox_whose_changes_were_put_back_is_not_used_again() {
    let place = place();
    let first = place.script("echo good >src/a");
    let bad = place.script("echo evil >other; cat other");
    assert_eq!(
        (sandbox(&bad), put_back(&bad)),
        (sandbox(&first), vec!["other"])
    );
    let after = place.script("cat other src/a");
    assert_ne!(sandbox(&after), sandbox(&bad));
    assert_eq!(after.value["stdout"], "o\ngood\n");
    let late = json!({ "command": ["sleep", "60"], "timeout": "1s" });
    let late = done(place.call("exec.run", late.clone()));
    assert_eq!(late.value["outcome"], "timed_out");
    // Nobody has the stage once it is dropped, though a sandbox waited in it.
    place.script("true");
    done(place.submit(Front::Cli, "stage.drop", json!({ "stage": "default" })));
    assert_eq!(place.staged("src/a").as_deref(), Some("a\n"));
}

#[test]
fn a_sandbox_nobody_uses_is_ended() {
    let place = place();
    let first = place.script("true");
    let stage = place.kernel().stages();
    let in_use = || stage.list().unwrap()[0].as_ref().unwrap().in_use;
    assert!(in_use());
    std::thread::sleep(Duration::from_secs(11));
    assert!(!in_use());
    assert_ne!(sandbox(&place.script("true")), sandbox(&first));
}

#[test]
fn calls_side_by_side_all_succeed_and_none_is_lost() {
    let place = place();
    std::thread::scope(|scope| {
        for n in 0..6 {
            let place = &place;
            scope.spawn(move || {
                let path = format!("src/f{n}");
                let write =
                    json!({ "path": path, "text": format!("{n}\n"), "expect_digest": "absent" });
                done(place.call("fs.write", write));
                let read = done(place.call("fs.read", json!({ "path": path })));
                assert_eq!(read.value["text"], format!("{n}\n"));
                done(place.call("search.grep", json!({ "pattern": "." })));
                let script = format!("src/run{n}");
                let append = format!("echo {n} >>src/all");
                let write = json!({ "path": script, "text": append, "expect_digest": "absent" });
                done(place.call("fs.write", write));
                done(place.call("exec.run", json!({ "command": ["sh", script] })));
            });
        }
    });
    let all = place.staged("src/all").unwrap();
    assert_eq!(all.lines().count(), 6, "{all}");
    let listed = done(place.call("search.glob", json!({ "pattern": "src/f*" })));
    assert_eq!(listed.value["paths"].as_array().unwrap().len(), 6);
}

#[test]
fn what_meets_runs_in_order_and_what_does_not_runs_at_once() {
    let place = place();
    let script = json!({ "path": "src/slow", "text": "sleep 1; echo late >src/a" });
    done(place.call("fs.write", script));
    let slow = json!({ "command": ["sh", "src/slow"] });
    std::thread::scope(|scope| {
        let running = scope.spawn(|| done(place.call("exec.run", slow)));
        std::thread::sleep(Duration::from_millis(400));
        // It arrived later, so it sees what the program wrote.
        let read = done(place.call("fs.read", json!({ "path": "src/a" })));
        assert_eq!(read.value["text"], "late\n");
        running.join().unwrap();
    });
}

#[test]
fn a_read_that_fails_in_a_way_that_may_pass_is_tried_once_more() {
    let place = place();
    let begun = Instant::now();
    // The operating system's own error, which a read takes for one that may pass.
    let failure = failed(place.call("fs.read", json!({ "path": "x".repeat(300) })));
    assert!(failure.retryable, "{}", failure.what);
    assert!(begun.elapsed() >= Duration::from_millis(100));
    place.kernel().log().flush().unwrap();
    let records = place.kernel().log().read(airlock_audit::Filter::default());
    let attempts = records.unwrap().filter(|record| {
        let entry = &record.as_ref().unwrap().entry;
        entry.action.as_ref() == Some(&failure.action)
            && entry.stage == airlock_audit::Stage::Attempt
    });
    assert_eq!(attempts.count(), 1, "one call is one attempt");
}
