//! A running server: many questions at once, each answer to its own.
//!
//! One thread writes, since a server that does not read must hold up nobody; one reads. A server that
//! breaks a bound is ended, and everybody who waits is told why.

use crate::line::Lines;
use crate::message;
use airlock_plugin::CallError;
use airlock_plugin::boxed::{End, Running};
use serde_json::Value;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

/// Longest line of a server. As a value in memory it can take some twenty times as much.
pub(crate) const LINE_BYTES: usize = 4 << 20;
/// Most lines nobody asked for in one [`WINDOW`].
const UNASKED: u32 = 10_000;
const WINDOW: Duration = Duration::from_secs(1);
/// Questions that wait for the server to read.
const QUEUE: usize = 64;
/// How often somebody who waits looks whether the answer is still wanted.
const GLANCE: Duration = Duration::from_millis(20);
/// How long to wait for the reason, once the output ended: it ends with the process.
const AFTERMATH: Duration = Duration::from_secs(2);

/// What waits for an answer gets.
type Answer = Result<Value, CallError>;

/// What is said to the server. Emptied, its input is closed.
type Voice = Arc<Mutex<Option<SyncSender<String>>>>;

/// What is shared with the thread that reads.
#[derive(Debug, Default)]
struct Waiting {
    answers: Mutex<HashMap<u64, SyncSender<Answer>>>,
    /// Why no answer will come any more.
    over: Mutex<Option<CallError>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Waiting {
    /// Hands an answer over. False if nobody waits for it.
    fn answer(&self, id: u64, answer: Answer) -> bool {
        let waiting = locked(&self.answers).remove(&id);
        // Who gave up a moment ago wants it no more.
        waiting.is_some_and(|waiting| waiting.try_send(answer).is_ok())
    }

    /// Tells everybody that no answer will come.
    fn end(&self, why: &CallError) {
        locked(&self.over).get_or_insert_with(|| why.clone());
        for (_, waiting) in locked(&self.answers).drain() {
            let _told = waiting.try_send(Err(why.clone()));
        }
    }

    fn over(&self) -> Option<CallError> {
        locked(&self.over).clone()
    }
}

/// A server that runs.
#[derive(Debug)]
pub(crate) struct Server {
    running: Arc<Running>,
    voice: Voice,
    waiting: Arc<Waiting>,
    next: AtomicU64,
}

impl Server {
    /// Begins to listen to what was just started.
    pub(crate) fn new(running: Running) -> io::Result<Self> {
        let taken = running.take_stdin().zip(running.take_stdout());
        let (stdin, stdout) = taken.ok_or(io::ErrorKind::BrokenPipe)?;
        let running = Arc::new(running);
        let waiting = Arc::<Waiting>::default();
        let (voice, said) = mpsc::sync_channel(QUEUE);
        let voice: Voice = Arc::new(Mutex::new(Some(voice)));
        let named = |name: &str| Builder::new().name(name.to_owned());
        named("mcp voice").spawn(move || speak(stdin, &said))?;
        let ears = Ears {
            waiting: Arc::clone(&waiting),
            voice: Arc::clone(&voice),
            running: Arc::clone(&running),
        };
        named("mcp ears").spawn(move || ears.listen(stdout))?;
        Ok(Self {
            running,
            voice,
            waiting,
            next: AtomicU64::new(1),
        })
    }

    pub(crate) fn running(&self) -> &Running {
        &self.running
    }

    /// Asks and waits for the answer: the whole message, be it a result or an error.
    pub(crate) fn ask(
        &self,
        patience: Duration,
        cancelled: &AtomicBool,
        question: impl FnOnce(u64) -> String,
    ) -> Result<Value, CallError> {
        let until = Instant::now() + patience;
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (answered, answer) = mpsc::sync_channel(1);
        locked(&self.waiting.answers).insert(id, answered);
        // Looked at after the entry is made: whoever ends it either sees the entry or was seen.
        let result = match self.waiting.over() {
            Some(why) => Err(why),
            None => self
                .say(question(id), until, cancelled)
                .and_then(|()| self.wait(&answer, until, cancelled)),
        };
        locked(&self.waiting.answers).remove(&id);
        match result {
            Err(CallError::TimedOut(_)) => {
                self.take_back(id, "it took too long");
                Err(CallError::TimedOut(patience))
            }
            Err(CallError::Cancelled) => {
                self.take_back(id, "nobody wants it any more");
                Err(CallError::Cancelled)
            }
            result => result,
        }
    }

    /// Says something that wants no answer, if the server listens.
    pub(crate) fn tell(&self, line: String) {
        if let Some(voice) = &*locked(&self.voice) {
            let _said = voice.try_send(line);
        }
    }

    /// Closes what the server reads: the protocol's word for its end.
    pub(crate) fn hang_up(&self) {
        let _voice = locked(&self.voice).take();
    }

    fn take_back(&self, id: u64, reason: &str) {
        self.tell(message::cancelled(id, reason));
    }

    fn say(&self, line: String, until: Instant, cancelled: &AtomicBool) -> Result<(), CallError> {
        let voice = locked(&self.voice).clone();
        let voice = voice.ok_or_else(|| CallError::Ended("it is being stopped".to_owned()))?;
        let mut line = line;
        loop {
            match voice.try_send(line) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Full(back)) => line = back,
                Err(TrySendError::Disconnected(_)) => return Err(self.gone()),
            }
            still_wanted(until, cancelled)?;
            std::thread::sleep(GLANCE);
        }
    }

    fn wait(
        &self,
        answer: &Receiver<Answer>,
        until: Instant,
        cancelled: &AtomicBool,
    ) -> Result<Value, CallError> {
        loop {
            match answer.recv_timeout(GLANCE) {
                Ok(answer) => return answer,
                Err(RecvTimeoutError::Disconnected) => return Err(self.gone()),
                Err(RecvTimeoutError::Timeout) => still_wanted(until, cancelled)?,
            }
        }
    }

    fn gone(&self) -> CallError {
        let over = self.waiting.over();
        over.unwrap_or_else(|| ended(&self.running))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.running.kill();
    }
}

fn still_wanted(until: Instant, cancelled: &AtomicBool) -> Result<(), CallError> {
    if cancelled.load(Ordering::Relaxed) {
        return Err(CallError::Cancelled);
    }
    if Instant::now() >= until {
        return Err(CallError::TimedOut(Duration::ZERO));
    }
    Ok(())
}

/// Why a server that says nothing more says nothing more.
fn ended(running: &Running) -> CallError {
    match running.wait(AFTERMATH) {
        Some(end) => match end.limit() {
            Some(limit) => CallError::Limit(limit),
            None => CallError::Ended(told(&end, running)),
        },
        None => CallError::Ended("it says nothing more".to_owned()),
    }
}

/// How it ended, with the last line it said about it.
fn told(end: &End, running: &Running) -> String {
    let said = running.said();
    let last = said.lines().rev().find(|line| !line.trim().is_empty());
    match last {
        Some(line) => {
            let line: String = line.chars().filter(|c| !c.is_control()).take(200).collect();
            format!("{end}, saying `{line}`")
        }
        None => end.to_string(),
    }
}

/// Writes what is said, as fast as the server reads.
fn speak(mut stdin: File, said: &Receiver<String>) {
    while let Ok(line) = said.recv() {
        if stdin.write_all(line.as_bytes()).is_err() {
            return;
        }
    }
}

/// Hears what the server says.
struct Ears {
    waiting: Arc<Waiting>,
    voice: Voice,
    running: Arc<Running>,
}

impl Ears {
    /// Listens until the server says nothing more, or more than it may.
    fn listen(self, mut stdout: File) {
        let mut lines = Lines::new(LINE_BYTES);
        let mut buffer = vec![0; 64 * 1024];
        let (mut window, mut unasked) = (Instant::now(), 0);
        let why = loop {
            let read = match stdout.read(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Ok(0) | Err(_) => break ended(&self.running),
                Ok(read) => read,
            };
            let piece = buffer.get(..read).unwrap_or_default();
            let heard = lines.take(piece, |line| unasked += u32::from(!self.hear(line)));
            if heard.is_err() {
                break CallError::TooMuch(LINE_BYTES);
            }
            if window.elapsed() > WINDOW {
                (window, unasked) = (Instant::now(), 0);
            }
            if unasked > UNASKED {
                break CallError::Protocol("it says too much that nobody asked for".to_owned());
            }
        };
        self.waiting.end(&why);
        self.running.kill();
    }

    /// Hears one line. Whether it is an answer somebody waits for.
    fn hear(&self, line: &[u8]) -> bool {
        // Lines that are no messages are a server's chatter.
        let Ok(message) = serde_json::from_slice::<Value>(line) else {
            return false;
        };
        if message.get("method").is_some() {
            // A server that asks and does not read gets no answer.
            if let (Some(reply), Some(voice)) = (message::reply(&message), &*locked(&self.voice)) {
                let _said = voice.try_send(reply);
            }
            return false;
        }
        let id = message.get("id").and_then(Value::as_u64);
        id.is_some_and(|id| self.waiting.answer(id, Ok(message)))
    }
}
