//! Where a kernel runs, plugins are installed and switched in that one, at the word of the person at the
//! terminal of the command.

use crate::made::{Host, POLICY, call, data, governed, install};
use crate::support::{World, answering};
use serde_json::{Value, json};
use std::os::unix::fs::symlink;

/// How many calls the kernel that runs has answered.
fn calls(world: &World) -> u64 {
    let status = world.quiet(&["kernel", "status", "--json"]).json();
    status["calls"].as_u64().unwrap()
}

#[test]
fn what_a_person_says_of_a_plugin_is_done_at_once_by_the_kernel_that_runs() {
    let world = governed(POLICY);
    let served = world.serve();
    let state = || {
        let params = json!({ "name": "plugin.show", "arguments": { "name": "of-mcp" } });
        let answer = served.client("cli").call("call", params).unwrap();
        answer["outcome"]["done"]["value"]["state"].clone()
    };
    let before = calls(&world);
    let installed = Host::Mcp.install(&world, "").stdout;
    // It was asked, and asked again with the answer; nobody else had to take anything over.
    assert_eq!(calls(&world), before + 2);
    assert!(installed.contains("    + descriptors"), "{installed}");
    assert!(!installed.contains("warning"), "{installed}");
    assert_eq!(state(), "running");
    let hit = json!({ "id": "1" });
    call(&mut served.client("agent"), Host::Mcp, "hit", &hit);
    let before = calls(&world);
    let off = world.quiet(&["plugin", "disable", "of-mcp", "--json"]);
    assert_eq!(off.code, Some(0), "{off:?}");
    assert_eq!(off.json()["disabled"], true, "{off:?}");
    assert_eq!(calls(&world), before + 1);
    assert_ne!(state(), "running");
    let before = calls(&world);
    let on = answering(&world, "plugin enable of-mcp", &["y"]);
    assert_eq!(on.code, Some(0), "{on:?}");
    assert!(!on.stdout.contains("warning"), "{on:?}");
    assert_eq!(calls(&world), before + 2);
    assert_eq!(state(), "running");
    let before = calls(&world);
    let gone = world.quiet(&["plugin", "remove", "of-mcp", "--json"]);
    assert_eq!(gone.code, Some(0), "{gone:?}");
    assert_eq!(gone.json(), json!({ "removed": "of-mcp" }));
    assert_eq!(calls(&world), before + 1);
    assert_eq!(state(), Value::Null);
    assert!(!data(&world, "of-mcp").exists());
}

#[test]
fn a_person_sees_where_paths_lead_and_every_word_before_the_kernel_that_runs_does_it() {
    let world = governed(POLICY);
    let served = world.serve();
    let (way, real) = (world.path("away/way"), world.path("away/real"));
    std::fs::create_dir(&real).unwrap();
    symlink(&real, &way).unwrap();
    let directory = Host::Mcp.write(&world, "");
    let manifest = directory.join("plugin.yaml");
    let text = std::fs::read_to_string(&manifest).unwrap();
    let filesystem = format!("{{ read_allow: ['{}'] }}", way.display());
    let boxed = format!("entry: bin/run, sandbox: {{ filesystem: {filesystem} }} }}");
    std::fs::write(&manifest, text.replace("entry: bin/run }", &boxed)).unwrap();
    let words = format!("plugin install {} --trust process", directory.display());
    let no = answering(&world, &words, &["n"]);
    assert_eq!(no.code, Some(3), "{no:?}");
    let (seen, _) = no.stdout.split_once("approve?").unwrap();
    // However wide the terminal is.
    let seen: String = seen.split_whitespace().collect();
    let real = real.canonicalize().unwrap();
    let want = format!("itspath{}leadsto{}", way.display(), real.display());
    assert!(seen.contains(&want), "{no:?}");
    assert!(world.quiet(&["plugin", "list"]).stdout.is_empty());

    // Without such a path: words that changed are shown, approved, and count in the kernel that runs.
    std::fs::write(&manifest, text).unwrap();
    install(&world, &directory);
    let entry = directory.join("bin/run");
    let script = std::fs::read_to_string(&entry).unwrap();
    let other = script.replace("\"description\": name,", "\"description\": name + \"!\",");
    assert_ne!(script, other);
    std::fs::write(&entry, other).unwrap();
    let installed = install(&world, &directory).stdout;
    assert!(installed.contains("    + hit!"), "{installed}");
    let shown = world.quiet(&["plugin", "show", "of-mcp", "--json"]).json();
    let digest = shown["tools_digest"].as_str().unwrap();
    let words = format!("plugin enable of-mcp --tools {digest}");
    let yes = answering(&world, &words, &["y"]);
    assert_eq!(yes.code, Some(0), "{yes:?}");
    let (seen, _) = yes.stdout.split_once("approve?").unwrap();
    assert!(seen.contains("    + hit!"), "{yes:?}");
    let hit = json!({ "id": "1" });
    call(&mut served.client("agent"), Host::Mcp, "hit", &hit);
}
