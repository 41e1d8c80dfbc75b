//! `airlock demo` where a machine is not as usual, and when somebody has seen enough. There is no
//! cargo on the path of these tests: the demo says so, and leaves the agent's work out.

use crate::support::World;
use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The demo with a temporary directory of its own.
fn demo(world: &World, temporary: &str) -> Command {
    let place = world.path("away").join(temporary);
    std::fs::create_dir_all(&place).unwrap();
    let mut command = world.command(&["demo"]);
    command
        .env("TMPDIR", &place)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn left(world: &World, temporary: &str) -> Vec<std::ffi::OsString> {
    let place = world.path("away").join(temporary);
    let found = std::fs::read_dir(place).unwrap();
    found.map(|entry| entry.unwrap().file_name()).collect()
}

#[test]
fn a_demo_goes_well_wherever_it_may_write_and_leaves_nothing_behind() {
    let world = World::new();
    let gone = world.path("no such home");
    for (case, temporary, home) in [
        ("spaces", "with spaces in it", Some(world.path("home"))),
        ("no home", "plain", None),
        ("a home that is not there", "plain", Some(gone)),
    ] {
        let mut command = demo(&world, temporary);
        match &home {
            Some(home) => command.env("HOME", home),
            None => command.env_remove("HOME"),
        };
        let ran = command.output().unwrap();
        let said = String::from_utf8_lossy(&ran.stdout);
        assert_eq!(
            ran.status.code(),
            Some(0),
            "{case}: {said}\n{}",
            String::from_utf8_lossy(&ran.stderr)
        );
        assert!(said.contains("That is the road"), "{case}: {said}");
        // Nothing is reviewed or undone where there is no work.
        assert!(!said.contains("undoable"), "{case}: {said}");
        assert!(said.contains("the fork bomb"), "{case}: {said}");
        assert_eq!(
            left(&world, temporary),
            Vec::<std::ffi::OsString>::new(),
            "{case}"
        );
    }
    assert!(!world.path("no such home").exists());
}

#[test]
fn a_demo_without_a_place_to_be_says_what_to_do() {
    let world = World::new();
    let mut command = world.command(&["demo"]);
    command.env("TMPDIR", world.path("away/no/such"));
    let ran = command.output().unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(1), "{said}");
    assert!(said.contains("fix: set TMPDIR"), "{said}");
}

/// Reads what `child` says until `text` is in it.
fn until(child: &mut Child, text: &str) {
    let stdout = child.stdout.as_mut().unwrap();
    let (mut said, mut byte) = (Vec::new(), [0]);
    while !String::from_utf8_lossy(&said).contains(text) {
        assert_eq!(
            stdout.read(&mut byte).unwrap(),
            1,
            "{}",
            String::from_utf8_lossy(&said)
        );
        said.extend(byte);
    }
}

#[test]
fn an_interrupted_demo_leaves_nothing_behind() {
    use rustix::process::{Pid, Signal, kill_process_group};
    for (signal, after) in [
        (Signal::INT, "A repository from somewhere"),
        (Signal::INT, "airlock init"),
        (Signal::INT, "airlock run"),
        (Signal::TERM, "bomb"),
        (Signal::HUP, "What it got"),
    ] {
        let world = World::new();
        let mut child = demo(&world, "t").process_group(0).spawn().unwrap();
        until(&mut child, after);
        assert_eq!(
            left(&world, "t").len(),
            1,
            "{after}: the demo is somewhere else"
        );
        let begun = Instant::now();
        // As a terminal does it: whatever the demo runs at that moment is hit, too.
        kill_process_group(Pid::from_child(&child), signal).unwrap();
        let ran = child.wait_with_output().unwrap();
        assert!(begun.elapsed() < Duration::from_secs(20), "{after}");
        let said = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(
            ran.status.code(),
            Some(128 + signal.as_raw()),
            "{after}: {said}"
        );
        assert!(said.contains("nothing is left behind"), "{after}: {said}");
        let told = String::from_utf8_lossy(&ran.stdout);
        let untrue = ["without git here", "UNEXPECTED", "That is the road"];
        assert!(
            !untrue.iter().any(|text| told.contains(text)),
            "{after}: {told}"
        );
        assert_eq!(
            left(&world, "t"),
            Vec::<std::ffi::OsString>::new(),
            "{after}"
        );
    }
}
