//! What a kernel keeps of plugins, and what it does not.

use crate::server::{TOOLS, calls, data, install, manifest, open, place, write};
use crate::support::{Place, done, failed, state, submit, update, word};
use airlock_kernel::Front;
use serde_json::json;
use std::fs;
use std::path::PathBuf;

#[test]
fn a_first_look_that_fails_costs_no_later_one_its_hosts() {
    let (place, directory) = place();
    let kernel = open(&place);
    let home = place.beside("state/airlock/plugins");
    fs::create_dir_all(&home).unwrap();
    fs::write(home.join("plugins.json"), "{").unwrap();
    let list = || submit(&kernel, Front::Cli, "plugin.list", json!({}));
    assert_eq!(word(&list()), "plugin_records");
    fs::remove_file(home.join("plugins.json")).unwrap();
    done(list());
    assert_eq!(install(&kernel, &directory).value["state"], "running");
    // Nor does ending all of them.
    let pid = || done(submit(&kernel, Front::Agent, "tickets.pid", json!({}))).value;
    let before = pid();
    kernel.stop_plugins();
    assert_ne!(pid(), before, "another process");
}

#[test]
fn why_there_is_no_host_is_told_and_mended_without_a_restart() {
    let (place, directory) = place();
    let kernel = open(&place);
    let home = place.beside("state/airlock/plugins");
    fs::create_dir_all(&home).unwrap();
    // What running boxes are noted in cannot be made.
    fs::write(home.join("running"), "in the way").unwrap();
    let told = install(&kernel, &directory).value;
    let problem = told["problem"].as_str().unwrap();
    assert!(problem.contains("running` cannot be used"), "{told}");
    fs::remove_file(home.join("running")).unwrap();
    let name = json!({ "name": "tickets" });
    let told = done(submit(&kernel, Front::Cli, "plugin.reload", name)).value;
    assert_eq!(told["state"], "running", "{told}");
}

#[test]
fn what_a_killed_kernel_shared_with_plugins_is_removed() {
    let (place, directory) = place();
    let kernel = open(&place);
    // Where a socket's address fits.
    let shared = state(&kernel).join("run/p");
    let is_short = shared.as_os_str().len() <= 80;
    let left = if is_short {
        shared.join("0badcafe")
    } else {
        let user = rustix::process::geteuid().as_raw();
        PathBuf::from(format!("/tmp/airlock-{user}-{:08x}", std::process::id()))
    };
    fs::create_dir_all(left.join("deep")).unwrap();
    fs::write(left.join("deep/file"), "f").unwrap();
    install(&kernel, &directory);
    assert!(!left.exists());
    if is_short {
        let own: Vec<_> = fs::read_dir(&shared).unwrap().flatten().collect();
        assert_eq!(own.len(), 1, "{own:?}");
        // Another kernel leaves alone what is in use.
        airlock_plugin::HeldDirectory::sweep(&shared, "");
        assert!(own[0].path().exists());
        kernel.stop_plugins();
        assert_eq!(fs::read_dir(&shared).unwrap().count(), 0);
    }
}

#[test]
fn whoever_has_the_name_of_one_that_was_removed_is_looked_at_anew() {
    let (place, directory) = place();
    let kernel = open(&place);
    install(&kernel, &directory);
    let pins = place.beside("state/airlock/plugins/tools.json");
    assert!(fs::read_to_string(&pins).unwrap().contains("user:tickets"));
    let name = json!({ "name": "tickets" });
    // What cannot be forgotten keeps all the rest.
    fs::write(&pins, "{").unwrap();
    let refused = submit(&kernel, Front::Cli, "plugin.remove", name.clone());
    assert_eq!(word(&refused), "plugin_records", "{refused:?}");
    assert!(data(&place).exists());
    fs::remove_file(&pins).unwrap();
    done(submit(&kernel, Front::Cli, "plugin.remove", name));
    let left = fs::read_to_string(&pins).unwrap_or_default();
    assert!(!left.contains("user:tickets") && !data(&place).exists());
}

#[test]
fn memory_that_policy_allows_is_what_its_box_has_or_it_does_not_run() {
    let limited = |limit: &str| {
        TOOLS.replace(
            "    match: { syscall: tool.call }\n    action: allow\n",
            &format!(
                "    match: {{ syscall: tool.call }}\n    action: allow\n    constraints: {{ max_memory: {limit} }}\n"
            ),
        )
    };
    let place = Place::governed(TOOLS, &[]);
    let directory = place.beside("source");
    let kernel = open(&place);
    for (box_memory, limit, is_held) in [
        ("", "1023MiB", false),
        ("", "1GiB", true),
        ("    memory_limit: 128MiB\n", "127MiB", false),
        ("    memory_limit: 128MiB\n", "128MiB", true),
    ] {
        let sandbox = match box_memory {
            "" => String::new(),
            memory => format!("  sandbox:\n{memory}"),
        };
        update(&kernel, TOOLS);
        write(&directory, &manifest(&sandbox), crate::server::SCRIPT);
        install(&kernel, &directory);
        update(&kernel, &limited(limit));
        let before = calls(&place);
        let outcome = submit(&kernel, Front::Agent, "tickets.pid", json!({}));
        let case = format!("{box_memory:?} {limit}");
        if is_held {
            assert_eq!(word(&outcome), "done", "{case}: {outcome:?}");
        } else {
            let refused = failed(outcome);
            assert_eq!(refused.code, "limit_not_enforceable", "{case}");
            assert_eq!(calls(&place), before, "{case}");
        }
    }
}
