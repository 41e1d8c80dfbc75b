//! What gets in, as what, and what a change means.

use crate::fake::{Place, wait_for, write_plugin};
use airlock_plugin::{Approval, LaunchError, ManageError, Origin, Source, Tier};
use serde_json::json;
use std::fs;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn why(error: &ManageError) -> &LaunchError {
    match error {
        ManageError::Launch { error, .. } => error,
        other => panic!("{other}"),
    }
}

#[test]
fn what_is_of_unknown_origin_needs_trust_to_run_nearer_than_in_a_container() {
    let place = Place::new();
    for (name, more) in [
        ("proc", ""),
        ("wasm", "execution: { tier: wasm, entry: bin/wasm }"),
    ] {
        let source = write_plugin(&place.path("sources"), name, "1.0.0", more);
        let review = place.manager.review(&source).unwrap();
        assert!(review.needs_trust && review.replaces.is_none());
        let unknown = Approval::of_unknown_origin(review.directory);
        let error = place.manager.install(&source, &unknown).unwrap_err();
        assert_eq!(error.code(), "plugin_needs_trust");
        assert!(error.hint().is_some());
        assert!(place.manager.get(name).is_err());
        let trusted = unknown.trusting(Tier::Process);
        assert_eq!(
            place.manager.install(&source, &trusted).unwrap().as_str(),
            name
        );
        let tags = place.manager.get(name).unwrap().tags;
        assert_eq!(tags[0].as_str(), "third_party");
    }
}

#[test]
fn a_skill_has_no_code_and_needs_no_trust_to_be_read() {
    let place = Place::new();
    let source = place.path("sources/s");
    fs::create_dir_all(&source).unwrap();
    fs::write(
        source.join("plugin.yaml"),
        "name: s\nversion: 1.0.0\ntype: skill\n",
    )
    .unwrap();
    let error = place.manager.review(&source).unwrap_err();
    assert_eq!(error.code(), "plugin_entry", "its instructions are missing");
    fs::write(source.join("SKILL.md"), "do it well").unwrap();
    let review = place.manager.review(&source).unwrap();
    let approval = Approval::of_unknown_origin(review.directory);
    place.manager.install(&source, &approval).unwrap();
    assert!(matches!(
        why(&place.manager.start("s").unwrap_err()),
        LaunchError::Skill
    ));
    assert!(place.manager.start_all().is_empty());
}

#[test]
fn only_what_was_reviewed_is_installed() {
    let place = Place::new();
    let source = write_plugin(&place.path("sources"), "x", "1.0.0", "");
    let review = place.manager.review(&source).unwrap();
    fs::write(source.join("bin/x"), "#!/bin/sh\nevil\n").unwrap();
    let approval = Approval::of_unknown_origin(review.directory).trusting(Tier::Process);
    let error = place.manager.install(&source, &approval).unwrap_err();
    assert!(matches!(error, ManageError::NotReviewed { .. }), "{error}");
    assert!(place.manager.list().is_empty());
    let left: Vec<_> = fs::read_dir(place.path("home/installed"))
        .unwrap()
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn what_leads_out_or_is_no_plugin_is_not_taken() {
    let place = Place::new();
    let linked = write_plugin(&place.path("sources"), "linked", "1.0.0", "");
    symlink("/etc/passwd", linked.join("passwd")).unwrap();
    assert_eq!(
        place.manager.review(&linked).unwrap_err().code(),
        "plugin_files"
    );
    let broken = write_plugin(&place.path("sources"), "broken", "1", "");
    assert_eq!(
        place.manager.review(&broken).unwrap_err().code(),
        "plugin_rejected"
    );
    let engine = write_plugin(&place.path("sources"), "engine", "1.0.0", "engine: '<1'");
    assert_eq!(
        place.manager.review(&engine).unwrap_err().code(),
        "plugin_rejected"
    );
    let entry = write_plugin(
        &place.path("sources"),
        "entry",
        "1.0.0",
        "execution: { entry: bin/no }",
    );
    assert_eq!(
        place.manager.review(&entry).unwrap_err().code(),
        "plugin_entry"
    );
    let by_link = write_plugin(
        &place.path("sources"),
        "by-link",
        "1.0.0",
        "execution: { entry: run }",
    );
    symlink("bin/by-link", by_link.join("run")).unwrap();
    assert_eq!(
        place.manager.review(&by_link).unwrap_err().code(),
        "plugin_entry"
    );
    let absent = place.path("sources/absent");
    assert_eq!(
        place.manager.review(&absent).unwrap_err().code(),
        "plugin_rejected"
    );
}

#[test]
fn a_file_that_changed_after_the_approval_keeps_the_plugin_from_running() {
    type Change = fn(&std::path::Path);
    let changes: &[Change] = &[
        |at| fs::write(at.join("bin/x"), "#!/bin/sh\nevil\n").unwrap(),
        |at| fs::write(at.join("lib.py"), "evil").unwrap(),
        |at| {
            let manifest = "name: x\nversion: 1.0.0\ntype: tool\ncapabilities: ['*']\n";
            fs::write(at.join("plugin.yaml"), manifest).unwrap();
        },
    ];
    for change in changes {
        let place = Place::new();
        place.install("x", "1.0.0", "");
        change(&place.path("home/installed/x"));
        // Whether it was looked at again since or not.
        for _ in 0..2 {
            let error = place.manager.start("x").unwrap_err();
            assert!(matches!(why(&error), LaunchError::Changed), "{error}");
            place.manager.refresh().unwrap();
        }
        assert!(place.host.instances.lock().unwrap().is_empty());
        assert!(place.notes.take().is_empty(), "not even registered");
    }
}

#[test]
fn what_nobody_installed_does_not_run_because_it_lies_there() {
    let place = Place::new();
    write_plugin(&place.path("home/installed"), "stray", "1.0.0", "");
    place.manager.refresh().unwrap();
    let error = place.manager.start("stray").unwrap_err();
    assert!(matches!(why(&error), LaunchError::NotApproved), "{error}");
}

#[test]
fn plugins_of_a_workspace_run_as_they_were_when_it_was_trusted() {
    let place = Place::with(|root| {
        write_plugin(&root.join("workspace"), "x", "1.0.0", "");
        vec![Source {
            path: root.join("workspace"),
            origin: Origin::Workspace,
        }]
    });
    place.manager.start("x").unwrap();
    assert_eq!(
        place.manager.remove("x").unwrap_err().code(),
        "plugin_of_workspace"
    );
    fs::write(place.path("workspace/x/bin/x"), "#!/bin/sh\nevil\n").unwrap();
    let error = place.manager.reload("x").unwrap_err();
    assert!(matches!(why(&error), LaunchError::Changed), "{error}");
    assert!(place.call("x", "echo").is_ok(), "the old one serves");
    let source = Source {
        path: place.path("workspace"),
        origin: Origin::Workspace,
    };
    place.manager.set_sources(vec![source]).unwrap();
    place.manager.reload("x").unwrap();
    place.manager.set_sources(Vec::new()).unwrap();
    assert!(
        place.manager.get("x").is_err(),
        "without trust there is no plugin"
    );
    wait_for(|| place.instance(1).stopped.load(Ordering::SeqCst));
    wait_for(|| !place.notes.grants.lock().unwrap().contains_key("x"));
}

#[test]
fn switched_off_stays_off_over_restarts_and_installing_switches_on() {
    let place = Place::new();
    place.install("x", "1.0.0", "");
    place.manager.start("x").unwrap();
    place.manager.disable("x").unwrap();
    assert_eq!(
        place.call("x", "echo").unwrap_err().code(),
        "plugin_disabled"
    );
    assert_eq!(
        place.manager.start("x").unwrap_err().code(),
        "plugin_disabled"
    );
    assert!(place.again().get("x").unwrap().disabled);
    place.manager.enable("x").unwrap();
    assert_eq!(
        place.call("x", "echo").unwrap_err().code(),
        "plugin_not_running"
    );
    place.manager.start("x").unwrap();
    place.manager.disable("x").unwrap();
    place.install("x", "1.1.0", "");
    assert!(!place.manager.get("x").unwrap().disabled);
}

#[test]
fn an_installation_that_cannot_be_written_down_leaves_the_version_that_works() {
    let place = Place::new();
    place.install("x", "1.0.0", "");
    let source = write_plugin(&place.path("sources"), "x", "2.0.0", "");
    let review = place.manager.review(&source).unwrap();
    let approval = Approval::of_unknown_origin(review.directory).trusting(Tier::Process);
    // Nothing can be written where the record comes to be.
    let record = place.path("home").join("plugins.json.new");
    std::fs::create_dir(&record).unwrap();
    assert!(place.manager.install(&source, &approval).is_err());
    place.manager.refresh().unwrap();
    place.manager.start("x").unwrap();
    assert_eq!(place.call("x", "echo").unwrap(), json!("1.0.0"));
    std::fs::remove_dir(&record).unwrap();
    place.manager.install(&source, &approval).unwrap();
    place.manager.reload("x").unwrap();
    assert_eq!(place.call("x", "echo").unwrap(), json!("2.0.0"));
}

#[test]
fn an_installation_that_was_killed_on_the_way_leaves_the_version_that_worked() {
    for (case, is_there, is_written, want) in [
        ("between its renames", false, false, "1.0.0"),
        ("before its record", true, false, "1.0.0"),
        ("after its record", true, true, "2.0.0"),
    ] {
        let place = Place::new();
        place.install("a-b", "1.0.0", "");
        let installed = place.path("home/installed");
        let before = installed.join(".before-a-b-1-2-3");
        if is_written {
            let old = write_plugin(&place.path("old"), "a-b", "1.0.0", "");
            place.install("a-b", "2.0.0", "");
            fs::rename(old, &before).unwrap();
        } else {
            fs::rename(installed.join("a-b"), &before).unwrap();
        }
        if is_there {
            write_plugin(&installed, "a-b", "2.0.0", "");
        }
        let started = place.manager.reload("a-b");
        started.unwrap_or_else(|error| panic!("{case}: {error}"));
        let told = place.call("a-b", "echo").unwrap();
        assert_eq!(told, json!(want), "{case}");
        assert!(!before.exists(), "{case}");
        // What is there now is what the next one finds as well.
        let again = place.again();
        assert_eq!(
            again.get("a-b").unwrap().manifest.version.to_string(),
            want,
            "{case}"
        );
    }
}

#[test]
fn what_is_removed_leaves_neither_approval_nor_settings_nor_data() {
    let place = Place::new();
    place.install("x", "1.0.0", "");
    place.manager.start("x").unwrap();
    fs::write(place.path("home/data/x/secret"), "s").unwrap();
    // While what is set for it stays, everything does.
    place.notes.keeps.store(true, Ordering::SeqCst);
    place.manager.remove("x").unwrap_err();
    assert!(place.path("home/data/x/secret").exists());
    assert!(place.manager.get("x").unwrap().approved.is_some());
    place.notes.keeps.store(false, Ordering::SeqCst);
    place.manager.start("x").unwrap();
    place.notes.take();
    place.manager.remove("x").unwrap();
    assert!(place.notes.take().contains(&"forget x".to_owned()));
    assert!(place.manager.get("x").is_err());
    assert!(!place.path("home/data/x").exists() && !place.path("home/installed/x").exists());
    assert!(place.instance(0).stopped.load(Ordering::SeqCst));
    // The very same bytes count as nothing now.
    write_plugin(&place.path("home/installed"), "x", "1.0.0", "");
    place.manager.refresh().unwrap();
    assert!(place.manager.start("x").is_err());
}

#[test]
fn one_whose_data_somebody_still_writes_to_is_removed_and_the_rest_is_swept_later() {
    let place = Place::new();
    place.install("x", "1.0.0", "");
    place.manager.start("x").unwrap();
    let flags = rustix::fs::OFlags::DIRECTORY;
    let data =
        rustix::fs::open(place.path("home/data/x"), flags, rustix::fs::Mode::empty()).unwrap();
    let done = AtomicBool::new(false);
    // As another kernel's instance would, which has the directory by another way than its name.
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let (data, done) = (&data, &done);
            scope.spawn(move || {
                let mut number = 0_u64;
                while !done.load(Ordering::Relaxed) {
                    number += 1;
                    let mode = rustix::fs::Mode::RWXU;
                    let _made = rustix::fs::mkdirat(data, format!("{writer}-{number}"), mode);
                    // Not so fast that what is left at the end is more than one sweep removes.
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
        }
        let removed = place.manager.remove("x");
        done.store(true, Ordering::Relaxed);
        removed.unwrap();
    });
    assert_eq!(place.manager.get("x").unwrap_err().code(), "plugin_unknown");
    assert!(!place.path("home/data/x").exists());
    let gone = place.path("home/data/.gone-1-1-1");
    fs::create_dir_all(gone.join("deep")).unwrap();
    let left = || -> Vec<_> {
        let entries = fs::read_dir(place.path("home/data")).unwrap();
        entries.flatten().collect()
    };
    // One sweep takes so long and no longer, and on a busy machine gets less done.
    let mut sweeps = (0..30).map(|_| drop(place.again()));
    assert!(sweeps.any(|()| left().is_empty()), "{:?}", left());
}

#[test]
fn one_that_broke_can_be_removed() {
    let place = Place::new();
    place.install("x", "1.0.0", "");
    fs::write(place.path("home/installed/x/plugin.yaml"), "name: [").unwrap();
    place.manager.refresh().unwrap();
    assert!(place.manager.get("x").is_err());
    place.manager.remove("x").unwrap();
    assert!(place.manager.rejected().is_empty());
    let outside = place.path("outside");
    fs::create_dir(&outside).unwrap();
    symlink(&outside, place.path("home/installed/linked")).unwrap();
    place.manager.remove("linked").unwrap();
    assert!(outside.exists() && !place.path("home/installed/linked").exists());
    for name in ["x", "../outside", "."] {
        assert_eq!(
            place.manager.remove(name).unwrap_err().code(),
            "plugin_unknown"
        );
    }
}
