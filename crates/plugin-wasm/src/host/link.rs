//! The host's end of one running worker.
//!
//! Two threads of its own write and read, because either can block for as long as a hostile worker
//! likes; whoever calls waits for them, and no longer than it wants. The reader never waits for a
//! caller: what is not fetched yet is bounded by what the call may say.
//!
//! Invariant: a worker that says anything out of turn is killed, and its calls end.

use super::log::Log;
use crate::message::{FromWorker, Kind, Outcome, read_frame, write};
use serde_json::Value;
use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Words out of calls that wait to be read. A worker says at most two unasked.
const WORDS: usize = 4;

/// A started worker: its pipes, the way to end it, and what is known of its box.
pub struct Pipes {
    /// The worker's standard input.
    pub stdin: Box<dyn Write + Send>,
    /// The worker's standard output.
    pub stdout: Box<dyn Read + Send>,
    /// Kills the worker with everything it started and reaps it. Called exactly once, also when the
    /// worker already ended; must not wait for the worker's consent.
    pub kill: Box<dyn FnMut() + Send>,
    /// The id of its box.
    pub sandbox: Option<String>,
    /// What confines it, as enforced.
    pub report: Value,
    /// Bytes it may say in its life.
    pub most: u64,
}

/// Starts workers: processes that are `airlock-wasm`, confined.
pub trait Spawn: Send + Sync {
    /// Starts one.
    fn spawn(&self) -> io::Result<Pipes>;
}

impl<F: Fn() -> io::Result<Pipes> + Send + Sync> Spawn for F {
    fn spawn(&self) -> io::Result<Pipes> {
        self()
    }
}

/// What a worker says that belongs to no call.
pub(super) enum Word {
    Message(FromWorker),
    Code(Vec<u8>),
}

/// A running worker. Dropping it kills it.
pub(super) struct Link {
    to: Mutex<Option<Sender<Vec<u8>>>>,
    words: Mutex<Receiver<Word>>,
    shared: Arc<Shared>,
    kill: Mutex<Option<Box<dyn FnMut() + Send>>>,
    next: AtomicU32,
    most: u64,
    pub(super) sandbox: Option<String>,
    pub(super) report: Value,
}

struct Shared {
    calls: Mutex<Calls>,
    passed: AtomicU64,
    log: Arc<Log>,
}

#[derive(Default)]
struct Calls {
    running: HashMap<u32, Arc<Call>>,
    /// Why the worker is gone, once it is.
    ended: Option<&'static str>,
}

/// One call, as far as the worker has told.
pub(super) struct Call {
    pub(super) id: u32,
    heard: Mutex<Heard>,
    changed: Condvar,
}

/// What a caller has not fetched yet.
#[derive(Default)]
pub(super) struct Heard {
    pub(super) text: String,
    pub(super) ask: Option<(String, String)>,
    pub(super) outcome: Option<Outcome>,
    pub(super) ended: Option<&'static str>,
    /// Bytes it may still say.
    left: usize,
}

impl Call {
    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fetches what there is, waiting for it for `time` at most.
    pub(super) fn fetch(&self, time: Duration) -> Heard {
        let mut heard = self.heard();
        if heard.is_empty() {
            let waited = self.changed.wait_timeout(heard, time);
            heard = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let left = heard.left;
        std::mem::replace(
            &mut *heard,
            Heard {
                left,
                ..Heard::default()
            },
        )
    }

    /// Notes what the worker said. False if it was out of turn.
    fn hear(&self, said: FromWorker) -> bool {
        let mut heard = self.heard();
        let in_turn = match said {
            FromWorker::Piece { text, .. } => match heard.left.checked_sub(text.len()) {
                Some(left) => {
                    heard.left = left;
                    heard.text.push_str(&text);
                    true
                }
                // The worker counts as well: one that sends more was taken over.
                None => false,
            },
            FromWorker::Ask {
                name, arguments, ..
            } => heard.ask.replace((name, arguments)).is_none(),
            FromWorker::Answer { outcome, .. } => heard.outcome.replace(outcome).is_none(),
            FromWorker::Hello { .. }
            | FromWorker::Unconfined(_)
            | FromWorker::Stale
            | FromWorker::Ready { .. }
            | FromWorker::Refused(_)
            | FromWorker::Log { .. }
            | FromWorker::Pong => false,
        };
        self.changed.notify_all();
        in_turn
    }

    fn end(&self, why: &'static str) {
        self.heard().ended = Some(why);
        self.changed.notify_all();
    }
}

impl Heard {
    fn is_empty(&self) -> bool {
        self.text.is_empty() && self.ask.is_none() && self.outcome.is_none() && self.ended.is_none()
    }
}

impl Link {
    pub(super) fn new(pipes: Pipes, log: Arc<Log>) -> io::Result<Self> {
        let Pipes {
            stdin,
            stdout,
            mut kill,
            sandbox,
            report,
            most,
        } = pipes;
        let (to, frames) = channel();
        let (said, words) = sync_channel(WORDS);
        let shared = Arc::new(Shared {
            calls: Mutex::default(),
            passed: AtomicU64::new(0),
            log,
        });
        let heard = Arc::clone(&shared);
        let started = thread::Builder::new()
            .name("wasm worker in".to_owned())
            .spawn(move || send(stdin, &frames))
            .and_then(|_detached| {
                thread::Builder::new()
                    .name("wasm worker out".to_owned())
                    .spawn(move || heard.listen(stdout, &said))
            });
        if let Err(error) = started {
            kill();
            return Err(error);
        }
        Ok(Self {
            to: Mutex::new(Some(to)),
            words: Mutex::new(words),
            shared,
            kill: Mutex::new(Some(kill)),
            next: AtomicU32::new(0),
            most,
            sandbox,
            report,
        })
    }

    /// Sends a frame. If the worker is gone nobody needs it.
    pub(super) fn send(&self, frame: Vec<u8>) {
        let to = self.to.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(to) = &*to {
            let _gone = to.send(frame);
        }
    }

    /// The next word that belongs to no call, waiting for `time` at most. None: too late, or gone.
    pub(super) fn word(&self, time: Duration) -> Option<Word> {
        let words = self.words.lock().unwrap_or_else(PoisonError::into_inner);
        words.recv_timeout(time).ok()
    }

    /// Begins a call that may say `most` bytes.
    pub(super) fn begin(&self, most: usize) -> Arc<Call> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let mut calls = self.shared.calls();
        let call = Arc::new(Call {
            id,
            heard: Mutex::new(Heard {
                left: most,
                ended: calls.ended,
                ..Heard::default()
            }),
            changed: Condvar::new(),
        });
        calls.running.insert(id, Arc::clone(&call));
        call
    }

    pub(super) fn forget(&self, call: &Call) {
        self.shared.calls().running.remove(&call.id);
    }

    /// Why it is gone, once it is.
    pub(super) fn ended(&self) -> Option<&'static str> {
        self.shared.calls().ended
    }

    /// Whether it has said half of what it may in its life. It is replaced before its box ends it
    /// for that.
    pub(super) fn is_spent(&self) -> bool {
        self.shared.passed.load(Ordering::Relaxed) > self.most / 2
    }

    /// Ends the worker for `why`. What it said before counts.
    pub(super) fn kill(&self, why: &'static str) {
        self.shared.end(why);
        self.to
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let mut kill = self.kill.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mut kill) = kill.take() {
            kill();
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.kill("it was stopped");
    }
}

fn send(mut stdin: Box<dyn Write + Send>, frames: &Receiver<Vec<u8>>) {
    while let Ok(frame) = frames.recv() {
        if write(&mut stdin, &frame).is_err() {
            return;
        }
    }
}

impl Shared {
    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, why: &'static str) {
        let mut calls = self.calls();
        let why = *calls.ended.get_or_insert(why);
        for call in calls.running.values() {
            call.end(why);
        }
    }

    /// Takes what the worker says until it ends or babbles.
    fn listen(&self, mut stdout: Box<dyn Read + Send>, words: &SyncSender<Word>) {
        let why = loop {
            let (kind, body) = match read_frame(&mut stdout) {
                Ok(Some(frame)) => frame,
                Ok(None) => break "its worker ended",
                Err(_) => break "its worker did not keep to the protocol",
            };
            self.passed
                .fetch_add(body.len() as u64 + 5, Ordering::Relaxed);
            if !self.take(kind, body, words) {
                break "its worker did not keep to the protocol";
            }
        };
        self.end(why);
    }

    /// Whether what was said was in turn.
    fn take(&self, kind: Kind, body: Vec<u8>, words: &SyncSender<Word>) -> bool {
        match kind {
            Kind::Module => return false,
            Kind::Code => return words.try_send(Word::Code(body)).is_ok(),
            Kind::Message => {}
        }
        let Ok(said) = serde_json::from_slice(&body) else {
            return false;
        };
        let id = match &said {
            FromWorker::Log { level, text } => {
                self.log.push(*level, text);
                return true;
            }
            FromWorker::Piece { id, .. }
            | FromWorker::Ask { id, .. }
            | FromWorker::Answer { id, .. } => *id,
            FromWorker::Hello { .. }
            | FromWorker::Unconfined(_)
            | FromWorker::Stale
            | FromWorker::Ready { .. }
            | FromWorker::Refused(_)
            | FromWorker::Pong => return words.try_send(Word::Message(said)).is_ok(),
        };
        let call = self.calls().running.get(&id).cloned();
        // What a call says after its caller has left is lost, and no offence.
        call.is_none_or(|call| call.hear(said))
    }
}
