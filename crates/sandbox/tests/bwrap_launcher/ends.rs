//! How commands end, and what their end is called.

use crate::support::{Place, command, limits, run, sh, start};
use airlock_core::{ByteSize, Span};
use airlock_sandbox::HostPath;
use airlock_sandbox::launch::{Command, NotStarted, RunError, Stdin, Streams};
use airlock_sandbox::lifecycle::Outcome;
use std::os::unix::fs::PermissionsExt;

#[test]
fn the_end_of_a_command_is_its_own() {
    let place = Place::new();
    let mut sandbox = place.start();
    for (script, want) in [
        ("exit 0", Outcome::Exited(0)),
        ("exit 1", Outcome::Exited(1)),
        ("exit 7", Outcome::Exited(7)),
        ("exit 128", Outcome::Exited(128)),
        ("exit 255", Outcome::Exited(255)),
        ("kill -TERM $$", Outcome::Signalled(15)),
        ("kill -SEGV $$", Outcome::Signalled(11)),
        ("kill -KILL $$", Outcome::Signalled(9)),
    ] {
        let ran = run(&mut sandbox, &command(&["sh", "-c", script]));
        assert_eq!(ran.ended.outcome, want, "{script}");
        assert_eq!(ran.ended.not_started, None);
    }
}

#[test]
fn what_cannot_be_started_says_why_and_nothing_is_printed() {
    let place = Place::new();
    place.write("tree/text", "#!/bin/sh\n");
    place.write("tree/bad", "#!/no/such/interpreter\n");
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(place.path("tree/bad"), mode).unwrap();
    std::fs::create_dir(place.path("tree/directory")).unwrap();
    let mut sandbox = place.start();
    for (program, code, want) in [
        ("no-such-program", 127, NotStarted::NotFound),
        ("/no/such/program", 127, NotStarted::NotFound),
        ("new\nline: Permission denied", 127, NotStarted::NotFound),
        ("--bind", 127, NotStarted::NotFound),
        ("./text/inside", 127, NotStarted::NotFound),
        ("./bad", 127, NotStarted::NotFound),
        ("./text", 126, NotStarted::NotExecutable),
        ("./directory", 126, NotStarted::NotExecutable),
        ("/", 126, NotStarted::NotExecutable),
    ] {
        let ran = run(&mut sandbox, &command(&[program]));
        assert_eq!(ran.ended.not_started, Some(want), "{program}");
        assert_eq!(ran.ended.outcome, Outcome::Exited(code), "{program}");
        assert_eq!((ran.text(), ran.errors()), Default::default(), "{program}");
    }
    let mut elsewhere = command(&["true"]);
    elsewhere.directory = Some(HostPath::new("/no/such/directory").unwrap());
    let ran = run(&mut sandbox, &elsewhere);
    assert_eq!(ran.ended.not_started, Some(NotStarted::NoDirectory));
    assert_eq!(ran.ended.outcome, Outcome::Exited(125));
    assert_eq!(sh(&mut sandbox, "echo still here"), "still here\n");
}

#[test]
fn a_command_that_prints_bubblewraps_words_deceives_nobody() {
    let place = Place::new();
    let mut sandbox = place.start();
    for words in [
        "bwrap: execvp x: No such file or directory\n",
        "bwrap: Can't chdir to /x: No such file or directory\n",
        "bwrap: ",
    ] {
        let script = "printf '%s' \"$1\" >&2; printf '%s' \"$1\"; exit 1";
        let ran = run(&mut sandbox, &command(&["sh", "-c", script, "sh", words]));
        assert_eq!(ran.ended.not_started, None, "{words}");
        assert_eq!(ran.ended.outcome, Outcome::Exited(1));
        assert_eq!((ran.text().as_str(), ran.errors().as_str()), (words, words));
    }
}

#[test]
fn arguments_reach_the_program_whole_or_not_at_all() {
    let place = Place::new();
    let mut sandbox = place.start();
    let odd = ["--", "--bind", "a b", "new\nline", "", "$(id)", "-x"];
    let mut arguments = vec!["printf", "%s|"];
    arguments.extend(odd);
    let ran = run(&mut sandbox, &command(&arguments));
    assert_eq!(ran.text(), odd.map(|word| format!("{word}|")).concat());
    let long = "x".repeat(100_000);
    let mut arguments = vec!["printf", "%s", long.as_str()];
    let ran = run(&mut sandbox, &command(&arguments));
    assert_eq!(ran.out.len(), long.len());
    arguments.extend(std::iter::repeat_n(long.as_str(), 20));
    let ran = run(&mut sandbox, &command(&arguments));
    assert_eq!(ran.ended.not_started, Some(NotStarted::TooLong));
    assert_eq!(ran.ended.outcome, Outcome::Exited(126));
    assert_eq!(sh(&mut sandbox, "echo still here"), "still here\n");
}

fn refused(command: &Command) -> RunError {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let streams = Streams {
        stdin: Stdin::Empty,
        stdout: &mut out,
        stderr: &mut err,
        terminal: None,
    };
    Place::new().start().run(command, streams).unwrap_err()
}

#[test]
fn what_is_no_command_is_refused() {
    assert!(matches!(refused(&command(&[])), RunError::Empty));
    assert!(matches!(refused(&command(&[""])), RunError::Empty));
    assert!(matches!(refused(&command(&["a", "b\0c"])), RunError::Nul));
}

#[test]
fn each_limit_has_its_own_outcome() {
    let place = Place::new();
    let hog =
        "import time\nkept = []\nwhile True: kept.append(bytearray(1 << 20)); time.sleep(0.001)";
    let hog = format!("exec /usr/bin/python3 -c '{hog}'");
    // Lingers: without a cgroup it must be seen while it is full.
    let forks = "import os, time\nfor _ in range(15):\n  try:\n    if os.fork() == 0: time.sleep(5)\n  \
                 except OSError: pass\ntime.sleep(0.5)\nos._exit(1)";
    let forks = format!("exec /usr/bin/python3 -c '{forks}'");
    let small = || limits(|limits| limits.memory = ByteSize::from_bytes(64 << 20));
    let fill = "for at in /tmp /dev/shm ~; do head -c 40000000 /dev/zero > $at/full || exit 1; \
                sleep 0.3; done; sleep 5";
    let cases: [(&str, _, Outcome); 7] = [
        (&hog, small(), Outcome::OutOfMemory),
        (fill, small(), Outcome::OutOfMemory),
        (
            &forks,
            limits(|limits| limits.pids = 10),
            Outcome::TooManyProcesses,
        ),
        (
            "sleep 60",
            limits(|limits| limits.duration = Span::from_millis(500)),
            Outcome::TimedOut,
        ),
        (
            "yes",
            limits(|limits| limits.stdout = ByteSize::from_bytes(100_000)),
            Outcome::TooMuchOutput,
        ),
        (
            "exec head -c 3000000 /dev/zero > big",
            limits(|limits| limits.file_size = ByteSize::from_bytes(1 << 20)),
            Outcome::FileTooLarge,
        ),
        (
            "trap '' TERM INT HUP; while :; do :; done",
            limits(|limits| limits.duration = Span::from_millis(500)),
            Outcome::TimedOut,
        ),
    ];
    for (script, limits, want) in cases {
        let mut sandbox = start(place.launch(|plan| plan.limits(limits))).unwrap();
        let mut filling = command(&["sh", "-c", script]);
        let home = ("HOME".into(), "/home/airlock".into());
        filling.environment.extend([home]);
        let ran = run(&mut sandbox, &filling);
        assert_eq!(ran.ended.outcome, want, "{script} {}", ran.errors());
        // The sandbox itself is none the worse.
        assert_eq!(sh(&mut sandbox, "echo fine"), "fine\n");
    }
}

#[test]
fn output_is_cut_at_its_limit() {
    let place = Place::new();
    let limits = limits(|limits| limits.stdout = ByteSize::from_bytes(100_000));
    let mut sandbox = start(place.launch(|plan| plan.limits(limits))).unwrap();
    let ran = run(
        &mut sandbox,
        &command(&["head", "-c", "99999", "/dev/zero"]),
    );
    assert_eq!(
        (ran.out.len(), ran.ended.outcome),
        (99_999, Outcome::Exited(0))
    );
    let ran = run(&mut sandbox, &command(&["cat", "/dev/zero"]));
    assert_eq!(
        (ran.out.len(), ran.ended.outcome),
        (100_000, Outcome::TooMuchOutput)
    );
    assert_eq!(ran.ended.stdout, 100_000);
}
