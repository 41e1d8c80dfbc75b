//! Workers that do not keep to the protocol, played by pipes in memory.

use crate::support::{ask, script};
use airlock_policy::{Extension, ExtensionFailure, Opinion};
use airlock_script::{Limits, Pipes, ScriptExtension, StartError};
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// Says its bytes one after the other, then ends or says nothing more until it is killed.
struct Says {
    bytes: Vec<u8>,
    then: Option<Receiver<()>>,
}

impl Read for Says {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.bytes.is_empty() {
            if let Some(killed) = &self.then {
                let _ = killed.recv();
            }
            return Ok(0);
        }
        // One byte at a time: a frame must not depend on how it arrives.
        buffer[0] = self.bytes.remove(0);
        Ok(1)
    }
}

/// Takes everything, or blocks until it is killed.
struct Takes(Option<Receiver<()>>);

impl Write for Takes {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        if let Some(killed) = &self.0 {
            let _ = killed.recv();
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        Ok(buffer.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn frame(text: &str) -> Vec<u8> {
    let length = u32::try_from(text.len()).unwrap();
    [&length.to_be_bytes()[..], text.as_bytes()].concat()
}

fn ready(then: &[u8]) -> Vec<u8> {
    [&frame("\"ready\"")[..], then].concat()
}

const LIMITS: Limits = Limits {
    evaluation: Duration::from_millis(50),
    margin: Duration::from_millis(50),
    start: Duration::from_millis(200),
};

/// An extension whose worker says `bytes`, and how often one was killed.
fn played(bytes: Vec<u8>, ends: bool, takes: bool) -> (ScriptExtension, Arc<AtomicU32>) {
    let kills = Arc::<AtomicU32>::default();
    let counted = Arc::clone(&kills);
    let spawn = move || {
        let (killed_read, read_end) = channel();
        let (killed_write, write_end) = channel();
        let counted = Arc::clone(&counted);
        let mut killed: Vec<Sender<()>> = vec![killed_read, killed_write];
        Ok(Pipes {
            stdin: Box::new(Takes((!takes).then_some(write_end))),
            stdout: Box::new(Says {
                bytes: bytes.clone(),
                then: (!ends).then_some(read_end),
            }),
            kill: Box::new(move || {
                killed.clear();
                counted.fetch_add(1, SeqCst);
            }),
        })
    };
    let extension = ScriptExtension::new(script("guard.js", "export default () => 'allow'"), spawn);
    (extension.with_limits(LIMITS), kills)
}

#[test]
fn what_is_no_answer_of_the_protocol_is_a_crash() {
    let allow = r#"{"answer":{"decision":"allow","reason":""}}"#;
    for (case, bytes) in [
        ("nothing", Vec::new()),
        ("half a length", vec![0, 0]),
        ("garbage", b"Segmentation fault\n".to_vec()),
        ("a frame too long", vec![0xff; 64]),
        ("not ready", frame("\"maybe\"")),
        ("an answer before it is ready", frame(allow)),
        ("ready, then nothing", ready(&[])),
        ("ready, then half a length", ready(&[0, 0, 0])),
        ("ready, then half a frame", ready(&[0, 0, 0, 9, b'{'])),
        (
            "ready, then a frame too long",
            ready(&[0x7f, 0xff, 0xff, 0xff, b'{']),
        ),
        ("ready, then an empty frame", ready(&frame(""))),
        ("ready, then no JSON", ready(&frame("allow"))),
        (
            "ready, then bytes that are no text",
            ready(&[0, 0, 0, 2, 0xff, 0xfe]),
        ),
        (
            "another word",
            ready(&frame(r#"{"answer":{"decision":"ALLOW","reason":""}}"#)),
        ),
        (
            "no reason",
            ready(&frame(r#"{"answer":{"decision":"allow"}}"#)),
        ),
        (
            "two answers",
            ready(&frame(
                r#"{"answer":{"decision":"allow","reason":""},"failed":"timeout"}"#,
            )),
        ),
        ("ready again", ready(&frame("\"ready\""))),
    ] {
        let (extension, kills) = played(bytes, true, true);
        assert_eq!(ask(&extension), Err(ExtensionFailure::Crash), "{case}");
        assert_eq!(kills.load(SeqCst), 1, "{case}: what crashed is reaped");
        assert_eq!(
            ask(&extension),
            Err(ExtensionFailure::Crash),
            "{case}: down until restarted"
        );
        assert_eq!(kills.load(SeqCst), 1, "{case}");
        drop(extension);
        assert_eq!(kills.load(SeqCst), 1, "{case}: reaped once");
    }
}

#[test]
fn a_worker_that_lies_about_its_reason_is_still_bounded() {
    let reason = "\\u001b[2J".to_owned() + &"x".repeat(5_000);
    let answer = format!(r#"{{"answer":{{"decision":"allow","reason":"{reason}"}}}}"#);
    let (extension, _) = played(ready(&frame(&answer)), true, true);
    let answer = ask(&extension).unwrap();
    assert_eq!(answer.opinion, Opinion::Allow);
    assert!(answer.reason.chars().count() <= 500 && !answer.reason.contains('\u{1b}'));
}

#[test]
fn a_silent_worker_is_killed_and_replaced() {
    for (case, takes) in [
        ("reads but does not answer", true),
        ("does not even read", false),
    ] {
        let ready = if takes { ready(&[]) } else { Vec::new() };
        let (extension, kills) = played(ready, false, takes);
        for round in 1..=2 {
            let begun = Instant::now();
            let want = if takes {
                ExtensionFailure::Timeout
            } else {
                ExtensionFailure::Crash
            };
            assert_eq!(ask(&extension), Err(want), "{case}");
            assert!(begun.elapsed() < Duration::from_secs(5), "{case}");
            assert_eq!(kills.load(SeqCst), round, "{case}");
            if !takes {
                assert_eq!(extension.restart(), Err(ExtensionFailure::Crash), "{case}");
                assert_eq!(kills.load(SeqCst), 2, "{case}");
                break;
            }
        }
    }
}

#[test]
fn a_worker_that_does_not_start_is_a_crash_with_its_cause() {
    let spawn = || Err::<Pipes, _>(io::Error::other("no sandbox"));
    let extension = ScriptExtension::new(script("guard.js", ""), spawn);
    assert_eq!(ask(&extension), Err(ExtensionFailure::Crash));
    let error = extension.start().unwrap_err();
    assert!(matches!(error, StartError::Spawn { .. }), "{error}");
    assert_eq!(
        error.to_string(),
        "the worker of the script `guard.js` does not start"
    );
    assert!(error.hint().contains("airlock doctor"));
}
