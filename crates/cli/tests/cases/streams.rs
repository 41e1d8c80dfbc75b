//! Streams that end early or take nothing.

use crate::support::{Ran, World, finished, program};
use std::process::Stdio;

fn shell(world: &World, script: &str) -> Ran {
    let mut command = program("sh");
    world.prepare(&mut command);
    command
        .args(["-c", script])
        .env("AIRLOCK", crate::support::binary());
    finished(&mut command)
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    let world = World::governed();
    for _ in 0..5 {
        world.quiet(&["tool", "call", "fs.list"]);
    }
    for line in [
        "audit log",
        "audit export",
        "audit export --format csv",
        "policy schema",
        "policy show",
        "completions bash",
        "init --print",
        "--help",
        "tool list",
        "demo",
    ] {
        // `true` reads nothing; the pause lets it end before the first line is written.
        let ran = shell(
            &world,
            &format!(
                "{{ sleep 0.1; \"$AIRLOCK\" {line} 2>err; echo $? >code; }} | true; cat code err"
            ),
        );
        let said = ran.stdout.replace("origin: ", "");
        assert!(said.starts_with("0\n"), "{line}: {ran:?}");
        assert!(
            !said.contains("error") && !said.contains("panicked"),
            "{line}: {ran:?}"
        );
    }
    let ran = shell(&world, "\"$AIRLOCK\" audit log | head -n 1");
    assert_eq!((ran.stdout.lines().count(), ran.stderr.as_str()), (1, ""));
}

#[test]
fn a_result_that_did_not_arrive_is_a_failure() {
    let world = World::governed();
    for line in [
        "policy show",
        "audit log",
        "audit export",
        "tool list --json",
        "version",
        "policy schema",
    ] {
        let ran = shell(&world, &format!("exec \"$AIRLOCK\" {line} >/dev/full"));
        assert_eq!(ran.code, Some(1), "{line}: {ran:?}");
        let said = "error: cannot write the result to stdout\n  why: No space left on device";
        assert!(ran.stderr.contains(said), "{line}: {ran:?}");
    }
}

#[test]
fn a_failure_in_json_that_did_not_arrive_is_told_in_words() {
    let world = World::governed();
    for line in ["audit export --json", "approvals show none --json"] {
        let ran = shell(&world, &format!("exec \"$AIRLOCK\" {line} >/dev/full"));
        assert_ne!(ran.code, Some(0), "{line}: {ran:?}");
        assert!(ran.stderr.contains("error: "), "{line}: {ran:?}");
    }
}

#[test]
fn a_command_whose_output_is_lost_is_ended_and_that_is_told() {
    let world = World::governed();
    for script in ["seq 1000; sleep 60", "seq 100000; sleep 60", "echo"] {
        let line = format!("exec \"$AIRLOCK\" exec -- sh -c '{script}' >/dev/full");
        let ran = shell(&world, &line);
        assert_eq!(ran.code, Some(125), "{script}: {ran:?}");
        let said = "error: the command was ended: what it says cannot be written\n  why: No space left on device";
        assert!(ran.stderr.contains(said), "{script}: {ran:?}");
    }
}

#[test]
fn a_closed_stderr_does_not_stop_the_data() {
    let world = World::governed();
    let ran = shell(&world, "exec \"$AIRLOCK\" policy show 2>&-");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("rules:"));
    let mut command = world.command(&["tool", "call", "fs.raed"]);
    command.stdin(Stdio::null()).stderr(Stdio::null());
    assert_eq!(finished(&mut command).code, Some(2));
}

#[test]
fn data_and_remarks_never_share_a_stream() {
    let world = World::governed();
    world.write(".airlock/policy.yaml", "version: 1\n");
    for line in [
        "tool call fs.read path=README.md --json",
        "audit stats --json",
        "trust show --json",
        "policy show --json",
    ] {
        let args: Vec<&str> = line.split_whitespace().collect();
        let ran = world.quiet(&args);
        assert!(ran.json().is_object(), "{line}");
        let warned = ran.stderr.starts_with("warning: ");
        // The trust commands say it themselves.
        assert_eq!(warned, !line.starts_with("trust"), "{line}: {ran:?}");
    }
}
