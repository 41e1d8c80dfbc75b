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
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use support::{Place, action, at, done, failed, in_session, of_action, session, submit};

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
    /// What goes away once it was planned with.
    goes: Option<PathBuf>,
}

impl Ladder for Told {
    fn known(&self) -> Option<Rung> {
        // Asked when the sandbox is raised: by then it was planned.
        if let Some(goes) = &self.goes {
            std::fs::remove_dir(goes).unwrap();
        }
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
        goes: None,
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
fn what_a_denied_name_leads_to_is_not_in_the_copy_either() {
    let place = place();
    symlink("a.txt", place.path("link.txt")).unwrap();
    let kernel = open(&place, &told(Some(Rung::Bwrap), nothing()));
    let arguments = json!({
        "command": ["sh", "-c", "cat link.txt a.txt; ls"],
        "deny": ["link.txt"],
    });
    let ran = done(submit(&kernel, Front::Cli, "exec.own", arguments)).value;
    let said = ran["stdout"].as_str().unwrap();
    assert!(!said.contains("hello") && !said.contains("a.txt"), "{ran}");
    assert!(said.contains("run.sh"), "{ran}");
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

/// Nothing can be laid over a copy, so what would be merged cannot be tested by itself.
#[test]
fn a_change_that_was_tested_in_a_copy_only_waits_for_a_person_who_is_told() {
    let command = "phases: { test_command: [sh, -c, \"echo '# pass 1'; echo '# fail 0'\"], \
                   source_paths: [\"**\"], test_paths: [\"tests/**\"] }\nrules:";
    let policy = RUNS
        .replace(
            "rules:",
            &format!(
                "approvals: {{ automatic: [AG-01] }}\nmerge: {{ automatic: true }}\n{command}"
            ),
        )
        .replace("syscall: exec.run", "syscall: [exec.run, test.run]");
    for (rung, told_of_it) in [(Rung::Bwrap, true), (Rung::Native, false)] {
        let place = Place::governed(&policy, &[("run.sh", "echo staged > b.txt\n")]);
        let kernel = open(&place, &told(Some(rung), nothing()));
        let held = session(&kernel, json!({ "mode": "explore" }));
        let call = |name: &str, arguments: Value| {
            in_session(&kernel, Front::Agent, &held, name, arguments)
        };
        done(call("phase.advance", json!({})));
        done(call("plan.complete", json!({})));
        done(call("exec.run", json!({ "command": ["sh", "run.sh"] })));
        done(call("phase.advance", json!({})));
        let phase = done(call("test.run", json!({}))).value["phase"].clone();
        assert_eq!(phase["state"], "reviewing", "{phase}");
        let partial = phase["partial"].as_str().unwrap_or_default();
        assert_eq!(partial.contains("stages are copies"), told_of_it, "{phase}");
        assert_eq!(phase["anew"].is_null(), told_of_it, "{phase}");
        let status = done(call("phase.status", json!({}))).value;
        let digest = status["changes"]["digest"].clone();
        let commit = call("phase.commit", json!({ "digest": digest }));
        let asked = matches!(commit, airlock_kernel::Outcome::NeedsReview(_));
        assert_eq!(asked, told_of_it, "{commit:?}");
    }
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
    // A place that is gone is not the machine's fault, but that has to be found out.
    let goes = place.beside("goes");
    std::fs::create_dir_all(&goes).unwrap();
    let arguments = json!({ "command": ["true"], "allow_read": [&goes] });
    let ladder = Arc::new(Told {
        known: None,
        found: Rung::Native,
        asked: AtomicUsize::new(0),
        goes: Some(goes),
    });
    let kernel = open(&place, &ladder);
    let failure = failed(submit(&kernel, Front::Cli, "exec.own", arguments));
    assert_eq!(failure.code, "sandbox_failed", "{failure:?}");
    assert_eq!(ladder.asked.load(Ordering::SeqCst), 1);
}

fn own(kernel: &Kernel, command: &[&str]) -> Value {
    let arguments = json!({ "command": command });
    done(submit(kernel, Front::Cli, "exec.own", arguments)).value
}

fn paths(value: &Value) -> Vec<&str> {
    let back = value["put_back"].as_array().unwrap();
    back.iter()
        .map(|one| one["path"].as_str().unwrap())
        .collect()
}

#[expect(clippy::disallowed_methods, reason = "a repository is made with git")]
fn repository(place: &Place) {
    let ran = std::process::Command::new("git")
        .args(["init", "-q", "-b", "main"])
        // Whatever a hook of git's says in the environment is about another repository.
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .current_dir(place.root())
        .status();
    assert!(ran.unwrap().success());
}

#[test]
fn a_command_that_bubblewrap_ends_by_force_leaves_a_copy_that_is_of_use_and_unchanged() {
    let place = Place::new(&[("a.txt", "hello\n")]);
    repository(&place);
    let kernel = open(&place, &told(Some(Rung::Bwrap), nothing()));
    let arguments = json!({ "command": ["sleep", "60"], "timeout": "1s" });
    let slept = done(submit(&kernel, Front::Cli, "exec.own", arguments)).value;
    assert_eq!(
        (&slept["outcome"], &slept["changes"]),
        (&json!("timed_out"), &json!(0)),
        "{slept}"
    );
    // A workspace without `.airlock` has places that are only there to be denied.
    let again = own(&kernel, &["true"]);
    assert_eq!(
        (&again["exit"], &again["changes"]),
        (&json!(0), &json!(0)),
        "{again}"
    );
    assert_eq!(paths(&again), Vec::<&str>::new());
}

#[test]
fn git_works_in_a_copy() {
    let place = Place::new(&[("a.txt", "hello\n")]);
    repository(&place);
    let kernel = open(&place, &told(Some(Rung::Bwrap), nothing()));
    let script = "set -e; git add a.txt; git -c user.name=a -c user.email=a@b commit -q -m first; \
                  git worktree list | grep -q main; test -z \"$(git status --porcelain)\"; \
                  echo x 2>/dev/null >.git/commondir && exit 3; \
                  echo x 2>/dev/null >.git/config.worktree && exit 4; exit 0";
    let ran = own(&kernel, &["sh", "-c", script]);
    assert_eq!(ran["exit"], 0, "{ran}");
    assert_eq!(paths(&ran), Vec::<&str>::new(), "{ran}");
}

const KEEPS: &str = "  - name: keep
    match: { effect: [write, delete], path_glob: \"kept/**\" }
    action: deny
";

#[test]
fn what_is_denied_in_a_copy_is_put_back_and_the_rest_stays() {
    let place = Place::governed(
        &format!("{RUNS}{KEEPS}"),
        &[
            ("kept/a", "a\n"),
            ("kept/b", "b\n"),
            ("kept/sub/c", "c\n"),
            (
                "bad.sh",
                "echo evil >kept/a; rm -r kept/b kept/sub; echo evil >kept/new; \
                        mkdir kept/made; chmod 000 kept/made; mkdir free; \
                 echo x >free/.bashrc; chmod 000 free; echo ok >ok; rm run.sh",
            ),
            ("run.sh", "true\n"),
            (
                "look.sh",
                "cat kept/a kept/b kept/sub/c ok; ls kept; ls run.sh\n",
            ),
        ],
    );
    let kernel = open(&place, &told(Some(Rung::Bwrap), nothing()));
    let bad = run(&kernel, &["sh", "bad.sh"]);
    let want = [
        "free/.bashrc",
        "kept/a",
        "kept/b",
        "kept/made",
        "kept/new",
        "kept/sub",
        "kept/sub/c",
    ];
    assert_eq!(
        (&bad["exit"], paths(&bad)),
        (&json!(0), want.to_vec()),
        "{bad}"
    );
    let look = run(&kernel, &["sh", "look.sh"]);
    assert_eq!(look["stdout"], "a\nb\nc\nok\na\nb\nsub\n", "{look}");
    assert_eq!(paths(&look), Vec::<&str>::new(), "{look}");
}

#[test]
fn what_is_deeper_than_any_path_does_not_cost_a_stage() {
    let script = "echo ok >ok; n=$(printf '%0200d' 0); p=$n/$n/$n/$n/$n/$n/$n/$n/$n/$n/$n; \
                  mkdir -p x/$p y/$p; echo x >x/$p/x; mv x y/$p/x";
    for rung in [Rung::Native, Rung::Bwrap] {
        let place = Place::new(&[("a.txt", "hello\n")]);
        let kernel = open(&place, &told(Some(rung.clone()), nothing()));
        let ran = own(&kernel, &["sh", "-c", script]);
        assert_eq!(ran["exit"], 0, "{rung:?}: {ran}");
        assert!(!paths(&ran).is_empty(), "{rung:?}: {ran}");
        let again = own(&kernel, &["cat", "ok"]);
        assert_eq!(
            (&again["exit"], paths(&again)),
            (&json!(0), vec![]),
            "{rung:?}: {again}"
        );
    }
}
