//! Ctrl-C, SIGTERM and a terminal that is closed while a tool really runs: it is ended, what there is
//! stays, and the log knows how it went.

use crate::support::{Conversation, Nap, World, is_alive, wait_until};
use rustix::process::{Signal, kill_process};

const POLICY: &str = "\
version: 1
approvals: { automatic: [AG-01] }
commands: [{ executable: sh }]
rules:
  - { name: read, match: { effect: read, path_glob: '**' }, action: allow, reason: r }
  - { name: write, match: { syscall: fs.write, path_glob: '*.md' }, action: allow, reason: r }
  - { name: ask, match: { syscall: fs.write, path_glob: 'Cargo.toml' }, action: require_review, reason: r }
  - { name: run, match: { syscall: exec.run }, action: allow, reason: r }
  - { name: own, match: { plugin: cli, syscall: ['session.*', 'phase.*', 'model.chat'] }, action: allow, reason: r }
";

const SCRIPT: &str = r#"
version: 1
turns:
  - text: I write something, and sleep on it.
    calls:
      - { tool: fs.write, arguments: { path: README.md, text: "kept\n" } }
      - { tool: exec.run, arguments: { command: [sh, nap.sh] } }
      - { tool: fs.write, arguments: { path: never.md, text: "never\n" } }
  - expect:
      user: go on
      results:
        - { tool: fs.write, status: ok }
        - { tool: exec.run, status: cancelled, lacks: woke up }
        - { tool: fs.write, status: cancelled }
    text: I see that it was stopped.
"#;

fn world() -> (World, Nap) {
    let world = World::under(POLICY);
    std::fs::write(world.path("script.yaml"), SCRIPT).unwrap();
    let nap = Nap::script(&world);
    (world, nap)
}

fn begin(world: &World, nap: &Nap, term: &str) -> Conversation {
    let script = world.path("script.yaml");
    let words = format!("run --model script:{}", script.display());
    let mut talk = Conversation::begin(world, 60, term, &words);
    talk.until("> ");
    talk.key(b"sleep on it\r");
    nap.wait_until_asleep();
    talk
}

/// What was written is there, the log is whole, and every attempt in it has an outcome.
fn assert_nothing_lost(world: &World) {
    let staged = world.quiet(&["diff"]);
    assert!(staged.stdout.contains("+kept"), "{staged:?}");
    assert!(!staged.stdout.contains("never"), "{staged:?}");
    assert!(!staged.stderr.contains("died"), "{staged:?}");
    let verified = world.quiet(&["audit", "verify"]);
    assert_eq!(verified.code, Some(0), "{verified:?}");
    let log = world.quiet(&["audit", "log", "--json"]).stdout;
    let of = |stage: &str| {
        let records = log.lines().filter(|line| line.contains("\"exec.run\""));
        records
            .filter(|line| line.contains(&format!("\"stage\":\"{stage}\"")))
            .count()
    };
    assert_eq!((of("attempt"), of("outcome")), (1, 1), "{log}");
    let real = std::fs::read_to_string(world.workspace().join("README.md")).unwrap();
    assert!(real.contains("TODO"), "the real tree is as it was");
}

#[test]
fn an_interrupt_ends_the_program_and_the_session_goes_on() {
    for (term, served) in [("xterm", false), ("dumb", false), ("xterm", true)] {
        let (world, nap) = world();
        let kernel = served.then(|| world.serve());
        let mut talk = begin(&world, &nap, term);
        talk.key(&[3]);
        talk.until("stopped");
        talk.until("interrupted");
        nap.wait_until_gone();
        talk.until("> ");
        talk.key(b"go on\r");
        talk.until("I see that it was stopped.");
        talk.until("> ");
        talk.key(b"/quit\r");
        let ran = talk.finish();
        assert_eq!(ran.code, Some(0), "{term} {served}: {ran:?}");
        drop(kernel);
        assert_nothing_lost(&world);
    }
}

#[test]
fn two_interrupts_leave_and_nothing_is_lost() {
    let (world, nap) = world();
    let mut talk = begin(&world, &nap, "xterm");
    // However quickly they follow each other: before the program is gone, or after.
    wait_until("it leaves", || {
        if !talk.has_ended() {
            talk.key(&[3]);
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        talk.has_ended()
    });
    let ran = talk.finish();
    assert_eq!(ran.code, Some(130), "{ran:?}");
    nap.wait_until_gone();
    assert!(!ran.stdout.contains("panicked"), "{ran:?}");
    assert_nothing_lost(&world);
}

#[test]
fn a_session_that_is_to_end_takes_back_what_is_under_way() {
    for (signal, term) in [(Signal::TERM, "xterm"), (Signal::HUP, "dumb")] {
        let (world, nap) = world();
        let talk = begin(&world, &nap, term);
        kill_process(talk.process(), signal).unwrap();
        let ran = talk.finish();
        assert_eq!(ran.code, Some(130), "{signal:?}: {ran:?}");
        nap.wait_until_gone();
        assert_nothing_lost(&world);
    }
}

#[test]
fn a_terminal_that_is_closed_takes_its_session_with_it() {
    for served in [false, true] {
        let (world, nap) = world();
        let kernel = served.then(|| world.serve());
        let talk = begin(&world, &nap, "xterm");
        let session = talk.process();
        talk.hang_up();
        nap.wait_until_gone();
        wait_until("the session ends", || !is_alive(session));
        drop(kernel);
        assert_nothing_lost(&world);
    }
}

#[test]
fn an_interrupt_at_a_question_is_no_yes_and_the_session_goes_on() {
    let world = World::under(POLICY);
    let script = r#"
version: 1
turns:
  - text: I change the build.
    calls: [{ tool: fs.write, arguments: { path: Cargo.toml, text: "[package]\n" } }]
  - expect:
      user: go on
      results: [{ tool: fs.write, status: cancelled }]
    text: Then not.
"#;
    std::fs::write(world.path("script.yaml"), script).unwrap();
    let script = world.path("script.yaml");
    let words = format!("run --model script:{}", script.display());
    let mut talk = Conversation::begin(&world, 60, "xterm", &words);
    talk.until("> ");
    talk.key(b"change it\r");
    talk.until("approve? [y/N] ");
    talk.key(&[3]);
    talk.until("interrupted");
    talk.until("> ");
    talk.key(b"go on\r");
    talk.until("Then not.");
    talk.until("> ");
    // So it is at a question that a command of the session asks.
    talk.key(b"/debug\r");
    talk.until("approve? [y/N] ");
    talk.key(&[3]);
    talk.until("was not approved");
    talk.until("> ");
    talk.key(b"/status\r");
    talk.until("pinned");
    talk.until("> ");
    talk.key(b"/quit\r");
    let ran = talk.finish();
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let staged = world.quiet(&["diff", "--stat"]);
    assert!(!staged.stdout.contains("Cargo.toml"), "{staged:?}");
}

#[test]
fn a_task_on_the_command_line_ends_with_its_program() {
    let (world, nap) = world();
    let script = format!("script:{}", world.path("script.yaml").display());
    for signal in [Signal::INT, Signal::TERM] {
        let mut command = world.command(&["run", "--model", &script, "sleep on it"]);
        command
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped());
        let child = command.spawn().unwrap();
        nap.wait_until_asleep();
        kill_process(rustix::process::Pid::from_child(&child), signal).unwrap();
        let ran = child.wait_with_output().unwrap();
        assert_eq!(ran.status.code(), Some(130), "{signal:?}: {ran:?}");
        nap.wait_until_gone();
    }
    let verified = world.quiet(&["audit", "verify"]);
    assert_eq!(verified.code, Some(0), "{verified:?}");
}
