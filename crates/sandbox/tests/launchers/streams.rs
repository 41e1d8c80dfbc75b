//! What goes in and comes out.

use crate::support::{Place, TERMINAL, command, run, run_with, sh};
use airlock_sandbox::launch::{Stdin, Streams, TerminalSize};
use airlock_sandbox::lifecycle::Outcome;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// A reader that is gone.
struct Closed;
impl Write for Closed {
    fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
        Err(std::io::ErrorKind::BrokenPipe.into())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Keeps what is written, and tells another thread of it.
struct Tell(std::sync::mpsc::Sender<()>, Vec<u8>);
impl Write for Tell {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.1.extend(bytes);
        let _told = self.0.send(());
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Everything `bytes` says, to be read once.
fn from(bytes: &[u8]) -> Stdin {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    std::io::Seek::rewind(&mut file).unwrap();
    Stdin::From(OwnedFd::from(file))
}

#[test]
fn input_and_output_pass_through_unchanged() {
    let place = Place::new();
    let mut sandbox = place.start();
    let bytes: Vec<u8> = (0..=255).cycle().take(1_000_003).collect();
    let ran = run_with(&mut sandbox, &command(&["cat"]), from(&bytes));
    assert!(ran.out == bytes, "{} bytes", ran.out.len());
    let ran = run(
        &mut sandbox,
        &command(&["sh", "-c", "echo out; echo err >&2"]),
    );
    assert_eq!((ran.text(), ran.errors()), ("out\n".into(), "err\n".into()));
    assert_eq!((ran.ended.stdout, ran.ended.stderr), (4, 4));
}

#[test]
fn a_command_that_does_not_read_its_input_ends_all_the_same() {
    let place = Place::new();
    let (_held_open, reader) = std::io::pipe()
        .map(|(reader, writer)| (writer, reader))
        .unwrap();
    let ran = run_with(
        &mut place.start(),
        &command(&["true"]),
        Stdin::From(reader.into()),
    );
    assert_eq!(ran.ended.outcome, Outcome::Exited(0));
    let endless = std::fs::File::open("/dev/zero").unwrap();
    let ran = run_with(
        &mut place.start(),
        &command(&["true"]),
        Stdin::From(endless.into()),
    );
    assert_eq!(ran.ended.outcome, Outcome::Exited(0));
}

#[test]
fn without_input_there_is_an_end_at_once_and_without_a_terminal_there_is_none() {
    let place = Place::new();
    let mut sandbox = place.start();
    assert_eq!(
        sh(
            &mut sandbox,
            "wc -c; tty || true; cat /dev/tty || echo none"
        ),
        "0\nnot a tty\nnone\n"
    );
}

#[test]
fn a_writer_whose_reader_is_gone_ends_by_itself() {
    let place = Place::new();
    let mut sandbox = place.start();
    let streams = Streams {
        stdin: Stdin::Empty,
        stdout: &mut Closed,
        stderr: &mut std::io::sink(),
        terminal: None,
    };
    let ended = sandbox.run(&command(&["yes"]), streams).unwrap();
    assert_eq!(ended.outcome, Outcome::Signalled(13));
}

#[test]
fn a_terminal_is_one_of_its_own() {
    let place = Place::new();
    let mut sandbox = place.start();
    let script = "tty; stty size; test -t 0 && test -t 1 && test -t 2 && echo all; \
                  : < /dev/tty && echo controlling; read line; echo got $line";
    let mut out = Vec::new();
    let streams = Streams {
        stdin: from(b"typed\n"),
        stdout: &mut out,
        stderr: &mut std::io::sink(),
        terminal: Some(TerminalSize {
            rows: 7,
            columns: 31,
        }),
    };
    let ended = sandbox
        .run(&command(&["sh", "-c", script]), streams)
        .unwrap();
    let text = String::from_utf8(out).unwrap().replace("\r\n", "\n");
    assert_eq!(ended.outcome, Outcome::Exited(0), "{text}");
    for line in [TERMINAL, "7 31", "all", "controlling", "got typed"] {
        assert!(text.lines().any(|found| found == line), "{line}: {text}");
    }
}

#[test]
fn signals_and_cancelling_reach_the_command() {
    let place = Place::new();
    let mut sandbox = place.start();
    let control = sandbox.control();
    let script = "trap 'echo caught; exit 3' TERM; echo ready; while :; do sleep 0.01; done";
    let (told, ready) = std::sync::mpsc::channel();
    let mut out = Tell(told, Vec::new());
    let ended = std::thread::scope(|scope| {
        scope.spawn(move || {
            ready.recv_timeout(Duration::from_secs(20)).unwrap();
            control.signal(15);
        });
        let streams = Streams {
            stdin: Stdin::Empty,
            stdout: &mut out,
            stderr: &mut std::io::sink(),
            terminal: None,
        };
        sandbox
            .run(&command(&["sh", "-c", script]), streams)
            .unwrap()
    });
    assert_eq!(ended.outcome, Outcome::Exited(3));
    assert_eq!(out.1, b"ready\ncaught\n");
    sandbox.control().cancel();
    let ran = run(&mut sandbox, &command(&["sleep", "60"]));
    assert_eq!(ran.ended.outcome, Outcome::Cancelled);
    assert_eq!(sh(&mut sandbox, "echo fine"), "fine\n");
}
