//! Workers that were taken over: whatever they say, the host ends them and goes on.

use crate::support::{World, ask, call_of, plugin, run};
use airlock_plugin::{CallError, Host as _, StartError};
use airlock_plugin_wasm::{Pipes, WasmHost};
use proptest::prelude::*;
use serde_json::json;
use std::io::{self, Cursor, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::{Duration, Instant};

const VERSION: &str = env!("CARGO_PKG_VERSION");

fn frame(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).unwrap();
    [&length.to_be_bytes()[..], &[kind], body].concat()
}

fn said(text: &str) -> Vec<u8> {
    frame(0, text.as_bytes())
}

fn hello() -> Vec<u8> {
    hello_of(&format!(r#","version":"{VERSION}""#))
}

fn hello_of(version: &str) -> Vec<u8> {
    let engine = "0".repeat(64);
    said(&format!(r#"{{"hello":{{"engine":"{engine}"{version}}}}}"#))
}

fn ready() -> Vec<u8> {
    said(r#"{"ready":{"form":"module","tools":[]}}"#)
}

/// Says its bytes and then nothing, until it is killed.
struct Script {
    bytes: Cursor<Vec<u8>>,
    killed: std::sync::mpsc::Receiver<()>,
    ends: bool,
}

impl Read for Script {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.bytes.read(buffer)?;
        if read == 0 && !self.ends {
            let _ = self.killed.recv();
        }
        Ok(read)
    }
}

/// Takes nothing for ever.
struct Stuck(std::sync::mpsc::Receiver<()>);

impl Write for Stuck {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        let _ = self.0.recv();
        Err(io::ErrorKind::BrokenPipe.into())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn host(bytes: Vec<u8>, ends: bool, killed: &Arc<AtomicU32>) -> WasmHost {
    let killed = Arc::clone(killed);
    let spawn = move || {
        let (alive_out, killed_out) = std::sync::mpsc::channel::<()>();
        let (alive_in, killed_in) = std::sync::mpsc::channel::<()>();
        let mut alive = Some((alive_out, alive_in));
        let killed = Arc::clone(&killed);
        Ok(Pipes {
            stdin: Box::new(Stuck(killed_in)),
            stdout: Box::new(Script {
                bytes: Cursor::new(bytes.clone()),
                killed: killed_out,
                ends,
            }),
            kill: Box::new(move || {
                killed.fetch_add(1, SeqCst);
                drop(alive.take());
            }),
            sandbox: None,
            report: json!({}),
            most: 1 << 20,
        })
    };
    WasmHost::new(spawn, None)
}

fn world() -> World {
    World::wat(&plugin("", "", "(return (call $ok))"))
}

#[test]
fn nonsense_before_it_is_ready_is_an_error_and_the_worker_is_killed() {
    for (case, bytes) in [
        ("nothing", Vec::new()),
        ("text", b"hello, host, how do you do?\n".to_vec()),
        ("a gigabyte to come", vec![0x40, 0, 0, 0, 0, 1, 2, 3]),
        ("an unknown message", said(r#"{"steer":1}"#)),
        ("no JSON", said("{")),
        ("a module", frame(1, b"\0asm")),
        ("code first", frame(2, b"code")),
        ("ready before hello", ready()),
        (
            "an engine that is no digest",
            said(&format!(
                r#"{{"hello":{{"engine":"x","version":"{VERSION}"}}}}"#
            )),
        ),
        ("hello twice", [hello(), hello()].concat()),
        (
            "an answer before any call",
            [
                hello(),
                said(r#"{"answer":{"id":0,"outcome":{"value":"1"}}}"#),
            ]
            .concat(),
        ),
        (
            "code twice",
            [hello(), frame(2, b"a"), frame(2, b"b"), ready()].concat(),
        ),
        ("pongs without end", said(r#""pong""#).repeat(100)),
    ] {
        let killed = Arc::<AtomicU32>::default();
        let refused = host(bytes, true, &killed)
            .start(world().what())
            .err()
            .expect(case);
        assert!(matches!(refused, StartError::Ended(_)), "{case}: {refused}");
        assert_eq!(killed.load(SeqCst), 1, "{case}");
    }
}

#[test]
fn a_worker_of_another_version_is_not_used() {
    for (version, shown) in [
        (r#","version":"9.9.9""#, "of version \"9.9.9\","),
        (r#","version":"9\u001b[2J""#, "of version \"9 [2J\","),
        ("", "of version \"\","),
    ] {
        let killed = Arc::<AtomicU32>::default();
        let refused = host(hello_of(version), true, &killed).start(world().what());
        let Some(StartError::Confinement(why)) = refused.as_ref().err() else {
            panic!("{version}: {:?}", refused.err());
        };
        assert!(why.contains(shown), "{why}");
        assert!(why.ends_with("install both of one version"), "{why}");
        assert_eq!(killed.load(SeqCst), 1, "{version}");
    }
}

#[test]
fn nonsense_during_a_call_ends_the_call_and_the_worker() {
    for (case, then) in [
        ("the end", Vec::new()),
        ("text", b"aaaaaaaaaaaa".to_vec()),
        (
            "two questions at once",
            said(r#"{"ask":{"id":0,"name":"a","arguments":"{}"}}"#).repeat(2),
        ),
        ("ready again, and again", ready().repeat(10)),
        (
            "more output than it may",
            said(&format!(
                r#"{{"piece":{{"id":0,"text":"{}"}}}}"#,
                "x".repeat(100_001)
            )),
        ),
        ("a module", frame(1, b"")),
    ] {
        let killed = Arc::<AtomicU32>::default();
        // The words for the call come once it has begun: the worker says nothing before it reads,
        // so what it says early belongs to nobody and is dropped, unless it is out of turn.
        let slow = Delayed::new([hello(), ready()].concat(), then);
        let instance = slow
            .host(&killed)
            .start(world().what())
            .unwrap_or_else(|e| panic!("{case}: {e}"));
        let ended = ask(&*instance);
        assert!(
            matches!(ended, Err(CallError::Ended(_))),
            "{case}: {ended:?}"
        );
        assert!(instance.has_ended(), "{case}");
        drop(instance);
        assert_eq!(killed.load(SeqCst), 1, "{case}");
    }
}

/// Says the second half only after a frame of a call was written to it.
struct Delayed {
    first: Vec<u8>,
    then: Vec<u8>,
}

struct Frames {
    to: std::sync::mpsc::Sender<()>,
    seen: u32,
}

impl Write for Frames {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.seen += 1;
        // Settings, module, call.
        if self.seen == 3 {
            let _ = self.to.send(());
        }
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Halves {
    first: Cursor<Vec<u8>>,
    then: Cursor<Vec<u8>>,
    called: std::sync::mpsc::Receiver<()>,
    is_called: bool,
}

impl Read for Halves {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.first.read(buffer)?;
        if read > 0 {
            return Ok(read);
        }
        if !self.is_called {
            let _ = self.called.recv();
            self.is_called = true;
        }
        self.then.read(buffer)
    }
}

impl Delayed {
    fn new(first: Vec<u8>, then: Vec<u8>) -> Self {
        Self { first, then }
    }

    fn host(self, killed: &Arc<AtomicU32>) -> WasmHost {
        let killed = Arc::clone(killed);
        let spawn = move || {
            let (to, called) = std::sync::mpsc::channel();
            let killed = Arc::clone(&killed);
            Ok(Pipes {
                stdin: Box::new(Frames { to, seen: 0 }),
                stdout: Box::new(Halves {
                    first: Cursor::new(self.first.clone()),
                    then: Cursor::new(self.then.clone()),
                    called,
                    is_called: false,
                }),
                kill: Box::new(move || {
                    killed.fetch_add(1, SeqCst);
                }),
                sandbox: None,
                report: json!({}),
                most: 1 << 30,
            })
        };
        WasmHost::new(spawn, None)
    }
}

#[test]
fn a_worker_that_falls_silent_is_killed_soon_after_the_deadline() {
    let killed = Arc::<AtomicU32>::default();
    let host = host([hello(), ready()].concat(), false, &killed);
    let instance = host
        .start(world().what())
        .unwrap_or_else(|error| panic!("{error}"));
    let begun = Instant::now();
    let mut call = call_of("try", json!({}));
    call.deadline = Duration::from_millis(50);
    // Neither does it take what is sent: its input is stuck.
    assert_eq!(
        run(&*instance, &call),
        Err(CallError::TimedOut(call.deadline))
    );
    assert!(begun.elapsed() < Duration::from_secs(20));
    assert_eq!(killed.load(SeqCst), 1);
    assert!(instance.has_ended());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn no_words_of_a_worker_break_the_host(
        words in prop::collection::vec(
            prop_oneof![
                Just(hello()), Just(ready()), Just(said(r#""pong""#)), Just(said(r#""stale""#)),
                Just(said(r#"{"piece":{"id":0,"text":"a"}}"#)),
                Just(said(r#"{"log":{"level":"info","text":"a"}}"#)),
                Just(said(r#"{"answer":{"id":0,"outcome":{"fault":{"limit":"fuel"}}}}"#)),
                prop::collection::vec(any::<u8>(), 0..20),
                prop::collection::vec(any::<u8>(), 0..20).prop_map(|bytes| frame(0, &bytes)),
            ],
            0..8,
        ),
    ) {
        let killed = Arc::<AtomicU32>::default();
        let started = host(words.concat(), true, &killed).start(world().what());
        if let Ok(instance) = started {
            let _ended = ask(&*instance);
        }
        prop_assert_eq!(killed.load(SeqCst), 1);
    }
}
