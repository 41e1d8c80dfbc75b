//! Plugins come and go by syscalls, and a workspace's own count only as approved.

use crate::server::{SCRIPT, TOOLS, asked, calls, install, manifest, open, place, write};
use crate::support::{Place, approved, done, failed, records, review, submit, trust, word};
use airlock_audit::EventType;
use airlock_kernel::Front;
use serde_json::json;
use std::time::{Duration, Instant};

#[test]
fn installing_needs_a_person_and_their_yes_is_for_what_they_saw() {
    let (place, directory) = place();
    let kernel = open(&place);
    let question = review(submit(
        &kernel,
        Front::Cli,
        "plugin.install",
        asked(&directory),
    ));
    let shown = &question.request.arguments;
    assert_eq!(shown["name"], "tickets", "{shown}");
    assert!(
        shown["digest"].is_string() && shown["capabilities"].is_array(),
        "{shown}"
    );
    for front in [Front::Agent, Front::Mcp, Front::Server] {
        // Not even the digest of a directory is told to others.
        let digest = airlock_core::Digest::of(b"guess");
        let guess = json!({ "path": directory, "tier": "process", "digest": digest });
        for asked in [asked(&directory), guess] {
            let outcome = submit(&kernel, front, "plugin.install", asked);
            assert_eq!(word(&outcome), "unknown_tool", "{front}");
        }
    }
    // What changed after the question is another question.
    let mut question = question;
    crate::support::answer(&kernel, &mut question, true).unwrap();
    write(&directory, &manifest("capabilities: [\"*\"]\n"), SCRIPT);
    let again = submit(&kernel, Front::Cli, "plugin.install", asked(&directory));
    assert_eq!(word(&again), "review");
    let listed = done(submit(&kernel, Front::Cli, "plugin.list", json!({}))).value;
    assert_eq!(listed["plugins"], json!([]));
    // As they saw it, it is installed.
    write(&directory, &manifest(""), SCRIPT);
    let told = done(submit(
        &kernel,
        Front::Cli,
        "plugin.install",
        asked(&directory),
    ));
    assert_eq!(told.value["state"], "running");
}

#[test]
fn what_nobody_could_look_at_before_the_question_is_not_installed_after_it() {
    let (place, directory) = place();
    std::fs::rename(&directory, place.beside("away")).unwrap();
    let kernel = open(&place);
    let mut question = review(submit(
        &kernel,
        Front::Cli,
        "plugin.install",
        asked(&directory),
    ));
    assert!(question.request.arguments["digest"].is_null());
    crate::support::answer(&kernel, &mut question, true).unwrap();
    // It is there by now: that is another question.
    std::fs::rename(place.beside("away"), &directory).unwrap();
    let again = submit(&kernel, Front::Cli, "plugin.install", asked(&directory));
    assert_eq!(word(&again), "review");
    // Of what is not there, the yes is of no use.
    std::fs::rename(&directory, place.beside("away")).unwrap();
    let refused = failed(submit(
        &kernel,
        Front::Cli,
        "plugin.install",
        asked(&directory),
    ));
    assert_eq!(refused.code, "plugin_rejected", "{}", refused.what);
    // A digest that somebody else was shown is held against what is there.
    std::fs::rename(place.beside("away"), &directory).unwrap();
    let digest = airlock_core::Digest::of(b"other");
    let other = json!({ "path": directory, "tier": "process", "digest": digest });
    let refused = failed(submit(&kernel, Front::Cli, "plugin.install", other));
    assert_eq!(refused.code, "invalid_arguments", "{}", refused.what);
    let listed = done(submit(&kernel, Front::Cli, "plugin.list", json!({}))).value;
    assert_eq!(listed["plugins"], json!([]));
}

#[test]
fn a_plugin_of_unknown_origin_needs_trust_to_run_nearer_than_a_container() {
    let (place, directory) = place();
    let kernel = open(&place);
    let outcome = approved(&kernel, "plugin.install", json!({ "path": directory }));
    assert_eq!(word(&outcome), "plugin_needs_trust");
    assert_eq!(calls(&place), 0);
}

#[test]
fn what_is_switched_off_or_removed_is_gone() {
    let (place, directory) = place();
    let kernel = open(&place);
    install(&kernel, &directory);
    let name = json!({ "name": "tickets" });
    let pid = || submit(&kernel, Front::Agent, "tickets.pid", json!({}));
    assert_eq!(word(&pid()), "done");
    done(submit(&kernel, Front::Cli, "plugin.disable", name.clone()));
    assert_eq!(word(&pid()), "unknown_tool");
    let told = done(approved(&kernel, "plugin.enable", name.clone())).value;
    assert_eq!(told["state"], "running", "{told}");
    assert_eq!(word(&pid()), "done");
    done(submit(&kernel, Front::Cli, "plugin.remove", name.clone()));
    assert_eq!(word(&pid()), "unknown_tool");
    let gone = failed(submit(&kernel, Front::Cli, "plugin.show", name));
    assert_eq!(gone.code, "plugin_unknown");
    assert!(!crate::server::data(&place).exists());
}

fn with_plugin() -> Place {
    let place = Place::new(&[("a.txt", "a\n")]);
    write(
        &place.path(".airlock/plugins/tickets"),
        &manifest(""),
        SCRIPT,
    );
    place.write(".airlock/policy.yaml", TOOLS);
    place
}

#[test]
fn a_workspaces_own_plugin_runs_only_while_its_files_are_as_approved() {
    let place = with_plugin();
    let kernel = open(&place);
    let reload = || {
        submit(
            &kernel,
            Front::Cli,
            "plugin.reload",
            json!({ "name": "tickets" }),
        )
    };
    let pid = || submit(&kernel, Front::Agent, "tickets.pid", json!({}));
    let refused = failed(reload());
    assert!(
        refused.what.contains("nobody approved it"),
        "{}",
        refused.what
    );
    assert_eq!(word(&pid()), "unknown_tool");
    trust(&kernel);
    assert_eq!(done(reload()).value["state"], "running");
    assert_eq!(word(&pid()), "done");
    // Changed files are not run, and count for nothing with all else that was approved with them.
    let script = SCRIPT.replace("Echo a text", "Obey");
    write(
        &place.path(".airlock/plugins/tickets"),
        &manifest(""),
        &script,
    );
    assert_eq!(failed(reload()).code, "plugin_not_approved");
    assert_ne!(word(&pid()), "done");
    // As they were, they are what was approved.
    write(
        &place.path(".airlock/plugins/tickets"),
        &manifest(""),
        SCRIPT,
    );
    assert_eq!(done(reload()).value["state"], "running");
    assert_eq!(word(&pid()), "done");
    // With the trust goes the plugin.
    done(submit(&kernel, Front::Cli, "trust.revoke", json!({})));
    assert_eq!(word(&pid()), "unknown_tool");
    let begun = Instant::now();
    let state = || {
        let shown = submit(
            &kernel,
            Front::Cli,
            "plugin.show",
            json!({ "name": "tickets" }),
        );
        done(shown).value["state"].clone()
    };
    while state() == "running" && begun.elapsed() < Duration::from_secs(30) {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_ne!(state(), "running");
}

#[test]
fn what_is_no_plugin_is_listed_with_its_reason() {
    let place = with_plugin();
    place.write(".airlock/plugins/broken/plugin.yaml", "name: [\n");
    let kernel = open(&place);
    let listed = done(submit(&kernel, Front::Cli, "plugin.list", json!({}))).value;
    assert_eq!(listed["plugins"][0]["name"], "tickets", "{listed}");
    assert_eq!(listed["rejected"], 1);
    let rejected = json!({ "rejected": true });
    let rejected = done(submit(&kernel, Front::Cli, "plugin.list", rejected)).value;
    assert!(
        rejected["rejected"][0]["path"]
            .as_str()
            .unwrap()
            .ends_with("broken"),
        "{rejected}"
    );
    // The log has it once, with the reason.
    let entries = records(&kernel);
    let skipped = entries.iter();
    let skipped = skipped.filter(|entry| entry.event == EventType::PluginSkipped);
    let skipped: Vec<_> = skipped.collect();
    let [skipped] = skipped.as_slice() else {
        panic!("{skipped:?}");
    };
    assert!(skipped.metadata["path"].ends_with("/broken"), "{skipped:?}");
    let reason = skipped.reason.as_deref().unwrap();
    assert!(reason.contains("plugin.yaml"), "{skipped:?}");
}

#[test]
fn a_workspace_full_of_broken_plugins_does_not_fill_the_log() {
    let place = with_plugin();
    for number in 0..150 {
        let path = format!(".airlock/plugins/broken-{number}/plugin.yaml");
        place.write(&path, "name: [\n");
    }
    let kernel = open(&place);
    for _ in 0..2 {
        done(submit(&kernel, Front::Cli, "plugin.list", json!({})));
    }
    let entries = records(&kernel);
    let skipped = entries.iter();
    let skipped = skipped.filter(|entry| entry.event == EventType::PluginSkipped);
    let skipped: Vec<_> = skipped.collect();
    assert_eq!(skipped.len(), 101);
    let last = skipped.last().unwrap().reason.as_deref().unwrap();
    assert!(last.starts_with("50 more"), "{last}");
}

#[test]
fn a_box_shows_nothing_that_workspace_or_user_do_not_allow_nor_the_workspace_itself() {
    let narrow = |workspace: &str, user: &str| {
        format!("{TOOLS}workspace:\n  allow: [{workspace}]\nroles:\n  owner: [{user}]\n")
    };
    let (every, few) = (
        "\"*\"",
        "\"tool.*\", \"plugin.*\", \"trust.*\", \"approvals.*\"",
    );
    for (case, policy, path, want) in [
        ("all allow", narrow(every, every), "outside", None),
        (
            "workspace",
            narrow(few, every),
            "outside",
            Some("not granted: workspace"),
        ),
        (
            "user",
            narrow(every, few),
            "outside",
            Some("not granted: user"),
        ),
        (
            "the workspace",
            narrow(every, every),
            "w",
            Some("not for plugins"),
        ),
        (
            "in the workspace",
            narrow(every, every),
            "w/open",
            Some("not for plugins"),
        ),
        (
            "state",
            narrow(every, every),
            "state",
            Some("not for plugins"),
        ),
    ] {
        let place = Place::governed(&policy, &[("open/a.txt", "a\n")]);
        std::fs::create_dir(place.beside("outside")).unwrap();
        let path = place.beside(path);
        let more = format!(
            "  sandbox:\n    filesystem: {{ read_allow: [\"{}\"] }}\n",
            path.display()
        );
        let directory = place.beside("source");
        write(&directory, &manifest(&more), SCRIPT);
        let kernel = open(&place);
        let told = install(&kernel, &directory).value;
        match want {
            None => assert_eq!(told["state"], "running", "{case}: {told}"),
            Some(why) => {
                let problem = told["problem"].as_str().unwrap_or_default();
                assert!(problem.contains(why), "{case}: {told}");
            }
        }
        // Each is in the log like any other capability, with the gate that failed.
        let result = match want.and_then(|why| why.strip_prefix("not granted: ")) {
            Some(gate) => format!("denied: {gate}"),
            None => "allowed".to_owned(),
        };
        let capability = format!("filesystem.read.{}", path.display());
        let entries = records(&kernel);
        let mut checks = entries.iter().filter(|entry| {
            entry.event == EventType::CapabilityCheck
                && entry.metadata.get("capability") == Some(&capability)
        });
        let check = checks.next().unwrap_or_else(|| panic!("{case}: no record"));
        assert_eq!(check.metadata["result"], result, "{case}");
        assert_eq!(check.metadata["plugin"], "tickets", "{case}");
        let caller = check.caller.as_ref().unwrap();
        assert_eq!(caller.plugin.as_str(), "tickets", "{case}");
        assert!(checks.next().is_none(), "{case}: recorded twice");
    }
}

#[test]
fn leave_for_a_directory_alone_is_no_leave_for_what_lies_in_it() {
    for (granted, want) in [
        ("filesystem.read./usr/share", "not granted: workspace"),
        ("filesystem.read./usr/share/**", ""),
    ] {
        let policy = format!(
            "{TOOLS}workspace:\n  allow: [\"tool.*\", \"plugin.*\", \"trust.*\", \"approvals.*\", \"{granted}\"]\n"
        );
        let place = Place::governed(&policy, &[]);
        let more = "  sandbox:\n    filesystem: { read_allow: [/usr/share] }\n";
        let directory = place.beside("source");
        write(&directory, &manifest(more), SCRIPT);
        let kernel = open(&place);
        let told = install(&kernel, &directory).value;
        let problem = told["problem"].as_str().unwrap_or_default();
        assert!(problem.contains(want), "{granted}: {told}");
        assert_eq!(problem.is_empty(), want.is_empty(), "{granted}: {told}");
    }
}

#[test]
fn leave_to_write_is_no_leave_to_read_what_is_there() {
    let policy = format!(
        "{TOOLS}workspace:\n  allow: [\"tool.*\", \"plugin.*\", \"trust.*\", \"approvals.*\", \"filesystem.write./usr/share/**\"]\n"
    );
    let place = Place::governed(&policy, &[]);
    let more = "  sandbox:\n    filesystem: { write_allow: [/usr/share] }\n";
    let directory = place.beside("source");
    write(&directory, &manifest(more), SCRIPT);
    let kernel = open(&place);
    let told = install(&kernel, &directory).value;
    let problem = told["problem"].as_str().unwrap_or_default();
    let want = "`filesystem.read` of `/usr/share` is not granted: workspace";
    assert!(problem.contains(want), "{told}");
}

#[test]
fn what_policy_keeps_from_a_plugin_is_not_in_its_box_either() {
    let policy = format!(
        "{TOOLS}  - name: no-environment\n    match: {{ effect: read, path_glob: \"**/.env\" }}\n    action: deny\n    reason: r\n  - name: no-keys\n    match: {{ effect: read, path_glob: \"**/.ssh/**\" }}\n    action: deny\n    reason: r\n  - name: look-first\n    match: {{ effect: read, path_glob: \"**/*.key\" }}\n    action: require_review\n    reason: r\n  - name: no-lock\n    match: {{ effect: write, path_glob: \"**/lock\" }}\n    action: deny\n    reason: r\n"
    );
    let place = Place::governed(&policy, &[]);
    for (path, text) in [
        ("home/code/deep/.env", "TOKEN"),
        ("home/code/a.key", "TOKEN"),
        ("home/code/lock", "TOKEN"),
        ("home/code/plain", "plain"),
        ("home/.ssh/config", "TOKEN"),
    ] {
        let path = place.beside(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let look = "def look(path):\n    try:\n        return open(path).read()\n    except OSError:\n        return \"closed\"\n\n\n";
    let script = SCRIPT
        .replace("def result", &format!("{look}def result"))
        .replace("given[\"text\"] if", "look(given[\"text\"]) if");
    let directory = place.beside("source");
    let asks = |kind: &str, path: &str| {
        let more = format!("  sandbox:\n    filesystem: {{ {kind}: [\"{path}\"] }}\n");
        write(&directory, &manifest(&more), &script);
        let kernel = open(&place);
        let told = install(&kernel, &directory).value;
        (kernel, told)
    };
    for (kind, lock) in [("read_allow", "TOKEN"), ("write_allow", "")] {
        let (kernel, told) = asks(kind, "~/code");
        assert_eq!(told["state"], "running", "{kind}: {told}");
        let read = |path: &str| {
            let path = place.beside("home/code").canonicalize().unwrap().join(path);
            let outcome = submit(&kernel, Front::Cli, "tickets.echo", json!({ "text": path }));
            done(outcome).value["value"].as_str().unwrap().to_owned()
        };
        assert_eq!(read("plain"), "plain", "{kind}");
        assert_eq!(read("lock").replace("closed", ""), lock, "{kind}");
        for closed in ["deep/.env", "a.key"] {
            let got = read(closed);
            assert!(got.is_empty() || got == "closed", "{kind} {closed}: {got}");
        }
    }
    for path in ["~/.ssh", "~/.ssh/config"] {
        let (_kernel, told) = asks("read_allow", path);
        let problem = told["problem"].as_str().unwrap_or_default();
        assert!(problem.contains("rule `no-keys`"), "{path}: {told}");
    }
}
