//! A merge that ends out of turn. Whoever is killed in the middle of it: the next command completes
//! it, the session's task ends, and what it cost is counted.

use super::support::{denied, done};
use super::work::{APP, DOUBLE, POLICY, Work};
use airlock_audit::Filter;
use airlock_core::{Digest, SessionId, Timestamp};
use airlock_kernel::Front;
use airlock_merge::{MergeError, Merges, Selection, Task};
use airlock_sandbox::stage::{DiffOptions, Stages};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A session whose changes were approved, and wait to be merged.
fn approved() -> Work {
    approved_under("")
}

/// The same where the policy has further rules.
fn approved_under(rules: &str) -> Work {
    let policy = POLICY.replace(
        "rules:",
        "phases: { test_command: [sh, -c, \"echo '# pass 3'; echo '# fail 0'\"] }\nrules:",
    ) + rules;
    let work = Work::new(&policy, &[("app.py", APP)], "explore").planned();
    work.wrote("app.py", DOUBLE);
    work.advance();
    assert_eq!(work.test()["phase"]["state"], "reviewing");
    committing(work)
}

fn committing(work: Work) -> Work {
    let call = work.call("phase.commit", json!({ "digest": work.digest() }));
    let approved = work.place.approved(Front::Agent, &call);
    assert_eq!(approved.value["state"], "committing");
    work
}

fn state_of(work: &Work) -> PathBuf {
    work.place.kernel().workspace().state().path().to_owned()
}

fn task_of(work: &Work) -> Task {
    let asked = json!({ "session": work.session });
    let shown = done(work.place.submit(Front::Cli, "session.show", asked)).value;
    let status = work.done("phase.status", json!({})).value;
    let owner = |name: &str| shown["owner"][name].as_str().unwrap().to_owned();
    Task {
        tenant: owner("tenant").parse().unwrap(),
        user: owner("user").parse().unwrap(),
        session: work.session.clone(),
        approved: serde_json::from_value(status["approved"].clone()).unwrap(),
    }
}

/// Merges what waits, as the kernel does for `task`, and dies at `moment`.
fn dies_at(work: &Work, task: Task, moment: &'static str) {
    work.place.kernel().release_idle();
    let kept = state_of(work);
    let stages = Stages::open(&kept.join("stages")).unwrap();
    let mut stage = stages.find("default").unwrap().unwrap();
    let reviewed: Digest =
        Selection::default().reviewed(&stage.diff(&DiffOptions::default()).unwrap());
    let merges = Merges::new(
        &kept.join("merges"),
        &work.place.real("").canonicalize().unwrap(),
    );
    let merges = merges.ending(Some(task));
    let die = |now: &'static str| assert_ne!(now, moment, "killed");
    let died = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let now = Timestamp::from_micros(1);
        merges.merge_watched("m", &mut stage, &Selection::default(), reviewed, now, &die)
    }));
    assert!(died.is_err(), "it did not come to `{moment}`");
}

fn reopened(work: Work) -> Work {
    let Work { place, session } = work;
    Work {
        place: place.reopened(),
        session,
    }
}

#[test]
fn a_task_ends_whenever_its_merge_was_interrupted() {
    for moment in ["journal", "written", "result", "told"] {
        let work = approved();
        let task = task_of(&work);
        dies_at(&work, task, moment);
        let work = reopened(work);
        assert_eq!(work.state(), "idle", "{moment}");
        let merged = std::fs::read_to_string(work.place.real("app.py")).unwrap();
        assert_eq!(merged, DOUBLE, "{moment}");
        let left = state_of(&work).join("stages/default");
        assert!(
            !left.exists(),
            "{moment}: a stage that changes nothing stays"
        );
        let again = reopened(work);
        assert_eq!(again.state(), "idle", "{moment}");
    }
}

#[test]
fn what_was_interrupted_before_it_began_is_still_approved() {
    let work = approved();
    let task = task_of(&work);
    dies_at(&work, task, "prepare");
    let work = reopened(work);
    assert_eq!(work.state(), "committing");
    let merge = work.done("phase.status", json!({})).value["merge"].clone();
    let merged = work.done("merge.apply", merge).value;
    assert_eq!(merged["state"], "idle", "{merged}");
}

/// The journal of another task, or of somebody else's session, ends nothing.
#[test]
fn a_task_is_ended_by_its_own_merge_alone() {
    for (case, change) in [
        (
            "another approval",
            (|task: &mut Task| task.approved = Digest::of(b"other")) as fn(&mut Task),
        ),
        ("another person", |task| task.user = "eve".parse().unwrap()),
        ("another session", |task| {
            task.session = SessionId::new("other").unwrap();
        }),
    ] {
        let work = approved();
        let mut task = task_of(&work);
        change(&mut task);
        dies_at(&work, task, "result");
        let work = reopened(work);
        assert_eq!(work.state(), "committing", "{case}");
    }
}

#[test]
fn a_task_is_not_given_up_while_its_merge_is_under_way() {
    let work = approved();
    let kept = state_of(&work);
    // Somebody is at it, in the middle.
    let task = task_of(&work);
    dies_at(&work, task, "written");
    let lock = std::fs::File::options()
        .write(true)
        .open(kept.join("merges/lock"))
        .unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let refused = work.refused("phase.advance", json!({ "to": "idle" }));
    assert!(refused.what.contains("under way"), "{refused:?}");
    assert_eq!(work.state(), "committing");
    drop(lock);
    // Now nobody is: whoever asks next completes it.
    work.place.kernel().release_idle();
    let told = work.done("phase.advance", json!({})).value;
    assert_eq!(told["state"], "planning", "the next task: {told}");
    let merged = std::fs::read_to_string(work.place.real("app.py")).unwrap();
    assert_eq!(merged, DOUBLE);
    let log = work.place.kernel().log();
    log.flush().unwrap();
    let mut records = log.read(Filter::default()).unwrap().map(Result::unwrap);
    let noted = records.find(|record| record.entry.metadata.contains_key("completed"));
    let told = noted.unwrap().entry.metadata;
    assert_eq!(told["ended_task_of"], work.session.to_string());
    assert!(
        told.contains_key("before") && told.contains_key("after"),
        "{told:?}"
    );
    let left = kept.join("stages/default");
    assert!(!left.exists(), "a stage that changes nothing stays");
}

/// What cannot be completed keeps the session whose task it is to end, and no other.
#[test]
fn a_merge_that_cannot_be_completed_keeps_nobody_else_committing() {
    for its_own in [true, false] {
        let work = approved();
        let mut task = task_of(&work);
        if !its_own {
            task.session = SessionId::new("other").unwrap();
        }
        dies_at(&work, task, "written");
        // It comes first, and nothing after it is completed.
        let damaged = state_of(&work).join("merges/open/a");
        std::fs::create_dir(&damaged).unwrap();
        std::fs::write(damaged.join("journal.json"), "{").unwrap();
        if its_own {
            let refused = work.refused("phase.advance", json!({ "to": "idle" }));
            assert!(refused.what.contains("not complete"), "{refused:?}");
            assert_eq!(work.state(), "committing");
        } else {
            let told = work.done("phase.advance", json!({ "to": "idle" })).value;
            assert_eq!(told["state"], "idle", "{told}");
        }
    }
}

#[test]
fn a_mode_that_is_refused_while_a_merge_is_under_way_leaves_its_task_to_be_counted() {
    let work = approved_under(
        "  - name: no-debug\n    match: { syscall: session.set_mode, arg: { mode: debug } }\n    action: deny\n",
    );
    let task = task_of(&work);
    dies_at(&work, task, "written");
    denied(work.submit("session.set_mode", json!({ "mode": "debug" })));
    let status = work.done("phase.status", json!({})).value;
    assert_eq!(
        (&status["mode"], &status["state"]),
        (&json!("strict"), &json!("committing"))
    );
    let work = reopened(work);
    assert_eq!(work.state(), "idle", "the merge ended the task");
}

#[test]
fn a_session_that_cannot_be_told_is_told_later_and_keeps_nobody_from_merging() {
    let work = approved();
    work.place.kernel().release_idle();
    let kept = state_of(&work);
    let stages = Stages::open(&kept.join("stages")).unwrap();
    let mut stage = stages.find("default").unwrap().unwrap();
    let reviewed = Selection::default().reviewed(&stage.diff(&DiffOptions::default()).unwrap());
    let root = work.place.real("").canonicalize().unwrap();
    let task = task_of(&work);
    work.place.kernel().release_idle();
    let deaf = || {
        let merges = Merges::new(&kept.join("merges"), &root).ending(Some(task.clone()));
        merges.telling(|_, _| Err("the store is full".to_owned()))
    };
    let now = Timestamp::from_micros(1);
    let told = deaf().merge("m", &mut stage, &Selection::default(), reviewed, now);
    assert!(matches!(told, Err(MergeError::Untold { .. })), "{told:?}");
    let recovered = deaf().recover().unwrap();
    assert!(recovered.untold.is_some() && recovered.ended.is_empty());
    assert_eq!(work.state(), "committing");
    let work = reopened(work);
    assert_eq!(work.state(), "idle");
}

const LOST: &str = "def add(a, b):\n    return a + b\n\n\ndef double(a):\n    return a * 2\n\n\n\
                    def lost(a):\n    low = a + 1\n    wide = a * 10\n    note = wide + 7\n    \
                    more = note + 5\n    return (low, wide, note, more)\n";

fn journals(kept: &std::path::Path) -> usize {
    let open = std::fs::read_dir(kept.join("merges/open"));
    let open = open.into_iter().flatten().flatten();
    open.filter(|one| one.path().join("journal.json").exists())
        .count()
}

/// `airlock tool call merge.apply` in the session, killed as soon as it has begun.
#[expect(clippy::disallowed_methods, reason = "a process is killed")]
fn killed(work: &Work, merge: &Value) {
    let place = &work.place;
    let outer = place.real("").parent().unwrap().to_owned();
    let mut child = Command::new(env!("CARGO_BIN_EXE_airlock"))
        .args(["tool", "call", "merge.apply", &merge.to_string()])
        .args(["--as", "agent", "--session", work.session.as_str()])
        .current_dir(place.real(""))
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", outer.join("home"))
        .env("XDG_STATE_HOME", outer.join("state"))
        .env("XDG_CONFIG_HOME", outer.join("config"))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let kept = state_of(work);
    let until = Instant::now() + Duration::from_mins(2);
    while journals(&kept) == 0 && child.try_wait().unwrap().is_none() {
        assert!(Instant::now() < until, "it never began");
    }
    let _ = child.kill();
    let ran = child.wait_with_output().unwrap();
    let begun = kept.join("merges/done").exists();
    assert!(begun, "{}", String::from_utf8_lossy(&ran.stderr));
}

#[test]
fn an_explored_commit_whose_merge_is_killed_still_costs_what_it_costs() {
    let work = Work::python("strict").red();
    work.wrote("app.py", LOST.split_once("\n\ndef lost").unwrap().0);
    work.advance();
    assert_eq!(work.measured()["phase"]["state"], "reviewing");
    let work = work.merged().next("explore").planned();
    work.wrote("app.py", LOST);
    // So many that nobody is done with them before they are noticed.
    work.sneak("i=0; while [ $i -lt 400 ]; do echo \"X = $i\" >m$i.py; i=$((i+1)); done");
    work.advance();
    let ran = work.measured();
    assert_eq!(ran["phase"]["state"], "reviewing", "{ran}");
    let work = committing(work);
    let merge = work.done("phase.status", json!({})).value["merge"].clone();
    work.place.kernel().release_idle();
    // Wherever that was: what follows holds for every moment.
    killed(&work, &merge);
    let work = reopened(work);
    assert_eq!(work.state(), "idle");
    assert_eq!(
        std::fs::read_to_string(work.place.real("app.py")).unwrap(),
        LOST
    );
    assert!(work.place.real("m399.py").exists());
    let work = work.next("explore");
    work.advance();
    let refused = work.refused("plan.complete", json!({}));
    let locked = refused.what.contains("explore mode is locked");
    assert!(locked, "{}", refused.what);
}
