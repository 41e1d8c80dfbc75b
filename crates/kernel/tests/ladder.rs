//! What raises the walls: asked, gone down to where it must be, reported, and never below the least.

#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod support;

use airlock_audit::Stage;
use airlock_kernel::{Front, Kernel, Ladder, Machine, Rung, Sandboxes};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use support::{Place, action, at, done, failed, of_action, submit};

const RUNS: &str = "\
version: 1
commands:
  - executable: cat
  - executable: sh
  - executable: 'true'
rules:
  - name: read-all
    match: { effect: read, path_glob: \"**\" }
    action: allow
  - name: change-all
    match: { effect: [write, delete], path_glob: \"**\" }
    action: allow
  - name: keep-env
    match: { effect: read, path_glob: \"**/.env\" }
    action: deny
  - name: run
    match: { syscall: exec.run }
    action: allow
";

/// A machine of which a test says what it can do.
struct Told {
    known: Option<Rung>,
    found: Rung,
    asked: AtomicUsize,
}

impl Ladder for Told {
    fn known(&self) -> Option<Rung> {
        self.known.clone()
    }

    fn find_out(&self) -> Rung {
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.found.clone()
    }
}

fn told(known: Option<Rung>, found: Rung) -> Arc<Told> {
    Arc::new(Told {
        known,
        found,
        asked: AtomicUsize::new(0),
    })
}

fn nothing() -> Rung {
    Rung::Nothing {
        why: "native: no namespaces; bwrap: it is not installed".to_owned(),
    }
}

fn place() -> Place {
    Place::governed(
        RUNS,
        &[
            ("a.txt", "hello\n"),
            ("deep/.env", "password\n"),
            ("run.sh", "echo staged > b.txt\n"),
            ("look.sh", "cat deep/.env; ls -a deep\n"),
        ],
    )
}

fn open(place: &Place, ladder: &Arc<Told>) -> Kernel {
    std::fs::create_dir_all(place.beside("home")).unwrap();
    let ladder: Arc<dyn Ladder> = Arc::<Told>::clone(ladder);
    let machine = Machine {
        home: place.beside("home"),
        own: vec![place.beside("state")],
        environment: BTreeMap::new(),
    };
    place
        .open()
        .on(machine)
        .with_sandboxes(Sandboxes::by(ladder))
}

fn run(kernel: &Kernel, command: &[&str]) -> Value {
    let arguments = json!({ "command": command });
    done(submit(kernel, Front::Agent, "exec.run", arguments)).value
}

#[test]
fn below_the_native_launcher_commands_run_on_a_copy_and_that_is_on_record() {
    let place = place();
    let kernel = open(&place, &told(Some(Rung::Bwrap), nothing()));
    let arguments = json!({ "command": ["sh", "run.sh"] });
    let outcome = submit(&kernel, Front::Agent, "exec.run", arguments);
    let id = action(&outcome);
    let ran = done(outcome);
    assert_eq!(ran.value["exit"], 0, "{}", ran.value);
    assert_eq!(ran.value["changes"], 1);
    assert_eq!(ran.ran.unwrap().report["launcher"], "bwrap");
    let entries = of_action(&kernel, &id);
    assert_eq!(at(&entries, Stage::Outcome).metadata["launcher"], "bwrap");
    assert!(!place.path("b.txt").exists(), "the real tree stays");
    assert_eq!(run(&kernel, &["cat", "b.txt"])["stdout"], "staged\n");
}

#[test]
fn what_is_denied_is_not_even_in_the_copy() {
    let place = place();
    let kernel = open(&place, &told(Some(Rung::Bwrap), nothing()));
    let control = run(&kernel, &["cat", "a.txt"]);
    assert_eq!(control["stdout"], "hello\n", "{control}");
    let kept = run(&kernel, &["sh", "look.sh"]);
    let said = kept.to_string();
    assert!(!said.contains("password"), "{said}");
    assert!(said.contains("No such file"), "{said}");
}

#[test]
fn a_copy_without_changes_is_of_the_tree_as_it_is() {
    let place = place();
    let kernel = open(&place, &told(Some(Rung::Bwrap), nothing()));
    assert_eq!(run(&kernel, &["cat", "a.txt"])["stdout"], "hello\n");
    std::fs::write(place.path("a.txt"), "changed\n").unwrap();
    assert_eq!(run(&kernel, &["cat", "a.txt"])["stdout"], "changed\n");
    drop(kernel);
    // Back on the native launcher there is no copy left to be shown.
    let kernel = open(&place, &told(Some(Rung::Native), nothing()));
    std::fs::write(place.path("a.txt"), "again\n").unwrap();
    assert_eq!(run(&kernel, &["cat", "a.txt"])["stdout"], "again\n");
}

#[test]
fn changes_that_only_an_overlay_can_show_are_not_left_behind() {
    let place = place();
    let native = open(&place, &told(Some(Rung::Native), nothing()));
    assert_eq!(run(&native, &["sh", "run.sh"])["changes"], 1);
    drop(native);
    let kernel = open(&place, &told(Some(Rung::Bwrap), nothing()));
    let arguments = json!({ "command": ["cat", "b.txt"] });
    let failure = failed(submit(&kernel, Front::Agent, "exec.run", arguments));
    assert_eq!(failure.code, "stage_failed", "{failure:?}");
    drop(kernel);
    let native = open(&place, &told(Some(Rung::Native), nothing()));
    assert_eq!(run(&native, &["cat", "b.txt"])["stdout"], "staged\n");
}

#[test]
fn where_nothing_holds_nothing_runs_and_it_is_said_why_and_what_to_do() {
    let place = place();
    let kernel = open(&place, &told(Some(nothing()), nothing()));
    let arguments = json!({ "command": ["true"] });
    let failure = failed(submit(&kernel, Front::Agent, "exec.run", arguments));
    assert_eq!(failure.code, "not_enforceable");
    assert!(failure.what.contains("no namespaces"), "{failure:?}");
    assert!(failure.fix.unwrap().contains("airlock doctor"));
}

#[test]
fn what_is_not_known_is_found_out_only_once_the_native_launcher_fails() {
    let place = place();
    let ladder = told(None, nothing());
    let kernel = open(&place, &ladder);
    assert_eq!(run(&kernel, &["true"])["exit"], 0);
    assert_eq!(ladder.asked.load(Ordering::SeqCst), 0);
    // A place that is not there is not the machine's fault, but that has to be found out.
    let ladder = told(None, Rung::Native);
    let kernel = open(&place, &ladder);
    let arguments = json!({ "command": ["true"], "allow_read": ["/nowhere/at/all"] });
    let failure = failed(submit(&kernel, Front::Cli, "exec.own", arguments));
    assert_eq!(failure.code, "sandbox_failed", "{failure:?}");
    assert_eq!(ladder.asked.load(Ordering::SeqCst), 1);
}
