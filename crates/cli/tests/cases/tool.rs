//! `airlock tool`: what there is, and calling it.

use crate::every;
use crate::support::{Typed, World, at_terminal, fed, unprivileged};
use airlock_audit::{Filter, read_log};
use std::collections::HashSet;

#[test]
fn tools_are_listed_and_described() {
    let mut world = World::new();
    world.run_all(&["tool list", "tool list --json"]);
    for tool in [
        "exec.run",
        "fs.delete",
        "fs.exists",
        "fs.list",
        "fs.move",
        "fs.patch",
        "fs.read",
        "fs.write",
        "git.commit",
        "git.diff",
        "git.log",
        "git.status",
        "search.glob",
        "search.grep",
        "shell.run",
        "test.run",
    ] {
        world.run(&["tool", "show", tool]);
    }
    world.run(&["tool", "show", "fs.exists", "--json"]);
    world.compare("tool_show");
}

#[test]
fn whatever_can_be_called_can_be_shown() {
    let world = World::governed();
    let ran = world.quiet(&["tool", "call", "session.create", "{\"calls\": 1}"]);
    let hint = "`airlock tool show session.create` shows its arguments";
    assert!(ran.stderr.contains(hint), "{ran:?}");
    for tool in [
        "session.create",
        "session.show",
        "session.set_mode",
        "phase.advance",
        "plan.complete",
        "merge.apply",
        "agent.invoke",
        "approval.read",
        "policy.update",
        "plugin.list",
        "workflow.run",
        "kernel.stop",
        "kernel.renew",
    ] {
        let ran = world.quiet(&["tool", "show", tool]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert!(ran.stdout.starts_with(&format!("{tool} - ")), "{ran:?}");
        let shown = world.quiet(&["tool", "show", tool, "--json"]);
        assert!(shown.json()["arguments"].is_object(), "{shown:?}");
    }
}

#[test]
fn every_tool_answers_in_text_and_json() {
    let mut world = World::governed();
    for line in [
        "tool call fs.read path=README.md",
        "tool call fs.list",
        "tool call fs.exists path=src",
        "tool call search.glob pattern=**/*.rs",
        "tool call search.grep pattern=TODO",
    ] {
        world.run_all(&[line, &format!("{line} --json")]);
    }
    world.run(&[
        "tool",
        "call",
        "fs.read",
        "{\"path\": \"src/main.rs\", \"offset_line\": 2}",
    ]);
    world.compare("tool_call");
}

#[test]
fn a_change_is_staged_and_what_it_may_not_be_is_said() {
    let mut world = World::governed();
    world.run_all(&[
        "tool call fs.write path=src/new.rs text=new --as agent",
        "tool call fs.write path=src/new.rs text=new expect_digest=absent --as agent",
        "tool call fs.read path=src/new.rs --as agent",
        "tool call fs.delete path=src --as agent",
        "tool call fs.write path=Cargo.toml text=x --as agent",
        "tool call git.commit message=x --as agent",
        "tool call shell.run command=ls --as agent",
        "tool call fs.wrte path=x",
    ]);
    assert!(!world.workspace().join("src/new.rs").exists());
    world.compare("tool_change");
}

#[test]
fn wrong_arguments_say_which_and_how_to_mend_them() {
    let mut world = World::governed();
    world.run_all(&[
        "tool call fs.read",
        "tool call fs.read pth=README.md",
        "tool call fs.read README.md",
        "tool call fs.read path=README.md path=src",
        "tool call fs.read path=README.md offset_line=-1",
        "tool call search.grep pattern=(",
        "tool call fs.read path=missing.md",
        "tool call fs.read path=src",
        "tool call fs.list path=README.md",
        "tool call fs.read {\"path",
        "tool call fs.read {\"path\":1}",
        "tool call fs.read path=missing.md --json",
    ]);
    world.compare("tool_wrong");
}

#[test]
fn denials_say_which_rule_and_what_would_help() {
    let mut world = World::governed();
    world.run_all(&[
        "tool call fs.read path=.env --as agent",
        "tool call fs.read path=.env --as agent --json",
        "tool call fs.read path=/etc/hostname",
        "tool call fs.list --as agent",
    ]);
    world.compare("tool_denied");
}

#[test]
fn long_results_are_cut_and_say_so() {
    let mut world = World::governed();
    world.write("long.txt", "a line of text\n".repeat(200));
    let mut command = world.command(&["tool", "call", "fs.read", "path=long.txt"]);
    command.env("AIRLOCK_OUTPUT_MAX_TOKENS", "100");
    let ran = world.record("tool call fs.read path=long.txt (100 tokens)", &mut command);
    assert!(ran.stdout.len() < 1_000);
    world.write("longer.txt", "\n".repeat(2_001));
    let cut = |args: &[&str]| world.quiet(args).stderr.contains("the result was cut");
    assert!(cut(&["tool", "call", "fs.read", "path=longer.txt"]));
    // Whoever asks for two lines knows that there are more.
    assert!(!cut(&[
        "tool",
        "call",
        "fs.read",
        "path=longer.txt",
        "limit_lines=2"
    ]));
    world.compare("tool_cut");
}

/// The same road as at every other entry: a rule about a syscall holds for its tools here too, and
/// each try has its decision in the log.
#[test]
fn a_rule_that_denies_a_syscall_stops_its_tools_whoever_calls() {
    let rule = |name: &str| {
        let called = name.replace('.', "-").replace('*', "all");
        format!("  - {{ name: not-{called}, match: {{ syscall: \"{name}\" }}, action: deny }}\n")
    };
    // Spelt out, the syscalls of trust would be taken for the question on the terminal.
    let names = airlock_core::SYSCALLS.iter().map(|syscall| syscall.name);
    let rules: String = names
        .filter(|name| !name.starts_with("trust."))
        .chain(["trust.*"])
        .map(rule)
        .collect();
    let world = World::project();
    world.write("a.txt", "a\n");
    let policy = format!("version: 1\nrules:\n{rules}");
    world.write(".airlock/policy.yaml", policy);
    let ran = at_terminal(&world, "trust", Typed::Line("yes"));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let every = every::arguments(&world.state(), &world.workspace());
    let mut denied = HashSet::new();
    for front in ["cli", "mcp"] {
        for (name, arguments) in &every {
            let arguments = arguments.to_string();
            let ran = world.quiet(&["tool", "call", name, &arguments, "--as", front, "--json"]);
            let error = ran.json()["error"].clone();
            let persons = [
                "exec.own",
                "kernel.stop",
                "kernel.renew",
                "agent.invoke",
                "model.chat",
                "plugin.install",
            ];
            let areas = ["approval.", "workflow."];
            let hidden =
                persons.contains(&name.as_str()) || areas.iter().any(|area| name.starts_with(area));
            if front != "cli" && hidden {
                assert_eq!(error["code"], "unknown_tool", "{front} {name}: {ran:?}");
            } else if name == "approval.decide" {
                assert_eq!(error["code"], "needs_person", "{front} {name}: {ran:?}");
            } else {
                assert_eq!(error["kind"], "denied", "{front} {name}: {ran:?}");
                let told = error["decision"].to_string();
                // A front whose manifest lacks the capability is stopped before the rules.
                let stopped = told.contains("\"not-") || told.contains("capability");
                assert!(stopped, "{front} {name}: {told}");
                denied.insert(error["action"].as_str().unwrap().to_owned());
            }
        }
    }
    // What a kernel that runs keeps back is written by then.
    world.alone();
    let entries = read_log(&world.state(), Filter::default()).unwrap();
    let decided: HashSet<String> = entries
        .map(|record| record.unwrap().entry)
        .filter(|entry| {
            let decision = entry.decision.as_ref();
            decision.is_some_and(|made| made.verdict == "deny")
        })
        .filter_map(|entry| entry.action)
        .map(|action| action.to_string())
        .collect();
    assert!(denied.len() > 60, "{}", denied.len());
    assert!(denied.is_subset(&decided));
}

#[test]
fn what_cannot_be_read_is_said_at_the_terminal_too() {
    use std::os::unix::fs::PermissionsExt as _;
    let world = World::governed();
    world.write("sub/a.txt", "hi\n");
    world.write("b.txt", "hi\n");
    let allow = |path: &str, mode| {
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(world.workspace().join(path), mode).unwrap();
    };
    for path in ["sub", "b.txt"] {
        allow(path, 0o000);
    }
    let asked = ["tool", "call", "search.grep", "pattern=hi"];
    let ran = fed(&mut unprivileged(&world, &asked), "");
    for path in ["sub", "b.txt"] {
        allow(path, 0o755);
    }
    assert_eq!(ran.code, Some(0), "{ran:?}");
    for told in [
        "1 path that cannot be read left out",
        "1 path below which nothing can be read left out",
    ] {
        assert!(ran.stderr.contains(told), "{ran:?}");
    }
}
