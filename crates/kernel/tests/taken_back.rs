//! Calls that are taken back while they run.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod support;

use airlock_audit::Stage;
use airlock_kernel::{Call, Cancel, Front, Kernel, Machine};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use support::{Place, action, at, done, of_action, word};

const RUNS: &str = "\
version: 1
commands:
  - executable: sleep
rules:
  - { name: read-all, match: { effect: read, path_glob: \"**\" }, action: allow }
  - { name: run, match: { syscall: exec.run }, action: allow }
";

fn open(place: &Place) -> Kernel {
    std::fs::create_dir_all(place.beside("home")).unwrap();
    place.open().on(Machine {
        home: place.beside("home"),
        own: vec![place.beside("state")],
        environment: BTreeMap::new(),
    })
}

fn sleep() -> Call {
    let arguments: Value = json!({ "command": ["sleep", "25"], "timeout": "30s" });
    Call::new("exec.run", arguments)
}

#[test]
fn a_program_that_is_not_wanted_any_more_ends_and_has_its_record() {
    let place = Place::governed(RUNS, &[]);
    let kernel = open(&place);
    for before in [true, false] {
        let cancel = Cancel::new();
        let begun = Instant::now();
        let outcome = std::thread::scope(|scope| {
            if before {
                cancel.cancel();
            } else {
                scope.spawn(|| {
                    std::thread::sleep(Duration::from_millis(700));
                    cancel.cancel();
                });
            }
            cancel.cover(|| kernel.submit(Front::Mcp, &sleep()))
        });
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "it ran to its end"
        );
        let entries = of_action(&kernel, &action(&outcome));
        at(&entries, Stage::Attempt);
        at(&entries, Stage::Outcome);
        assert_eq!(done(outcome).value["outcome"], "cancelled");
    }
}

#[test]
fn a_call_that_is_not_covered_is_not_taken_back() {
    let place = Place::governed(RUNS, &[("a.txt", "a\n")]);
    let kernel = open(&place);
    let cancel = Cancel::new();
    cancel.cancel();
    let search = Call::new("search.grep", json!({ "pattern": "a" }));
    let outcome = cancel.cover(|| kernel.submit(Front::Mcp, &search));
    assert_eq!(word(&outcome), "cancelled");
    assert_eq!(word(&kernel.submit(Front::Mcp, &search)), "done");
}
