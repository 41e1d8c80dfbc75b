//! The host's end of one running worker.
//!
//! A thread of its own writes and reads, because either can block for as long as a hostile worker
//! likes; whoever asks waits for the thread, and no longer than the time it was given. Killing the
//! worker closes its pipes, which ends the thread.

use crate::wire::{read_frame, write_frame};
use std::io::{self, Read, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// A started worker: its pipes and the way to end it.
pub struct Pipes {
    /// The worker's standard input.
    pub stdin: Box<dyn Write + Send>,
    /// The worker's standard output.
    pub stdout: Box<dyn Read + Send>,
    /// Kills the worker with everything it started and reaps it. Called exactly once, also when the
    /// worker already ended; must not wait for the worker's consent.
    pub kill: Box<dyn FnMut() + Send>,
}

/// Starts workers: processes that run [`crate::serve`], confined.
pub trait Spawn: Send + Sync {
    /// Starts one.
    fn spawn(&self) -> io::Result<Pipes>;
}

impl<F: Fn() -> io::Result<Pipes> + Send + Sync> Spawn for F {
    fn spawn(&self) -> io::Result<Pipes> {
        self()
    }
}

/// Why a worker gave no frame back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Silence {
    /// Time is up.
    Late,
    /// It ended, or what it sent is no frame.
    Ended,
}

/// A running worker. Dropping it kills it.
pub(crate) struct Link {
    to: Sender<Vec<u8>>,
    from: Receiver<Vec<u8>>,
    kill: Box<dyn FnMut() + Send>,
}

impl Link {
    pub(crate) fn new(pipes: Pipes) -> io::Result<Self> {
        let Pipes {
            stdin,
            stdout,
            mut kill,
        } = pipes;
        let (to, questions) = channel();
        let (answers, from) = channel();
        let started = std::thread::Builder::new()
            .name("extension".to_owned())
            .spawn(move || converse(stdin, stdout, &questions, &answers));
        match started {
            Ok(_detached) => Ok(Self { to, from, kill }),
            Err(error) => {
                kill();
                Err(error)
            }
        }
    }

    /// Sends `frame` and waits for the answer, for `limit` at most. After an error nothing may be
    /// asked again: a late answer would be taken for the next one's.
    pub(crate) fn ask(&self, frame: Vec<u8>, limit: Duration) -> Result<Vec<u8>, Silence> {
        self.to.send(frame).map_err(|_| Silence::Ended)?;
        self.from.recv_timeout(limit).map_err(|error| match error {
            RecvTimeoutError::Timeout => Silence::Late,
            RecvTimeoutError::Disconnected => Silence::Ended,
        })
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        (self.kill)();
    }
}

/// Passes frames to and fro until a pipe breaks or nobody asks any more.
fn converse(
    mut stdin: Box<dyn Write + Send>,
    mut stdout: Box<dyn Read + Send>,
    questions: &Receiver<Vec<u8>>,
    answers: &Sender<Vec<u8>>,
) {
    while let Ok(question) = questions.recv() {
        let answer = write_frame(&mut stdin, &question).and_then(|()| read_frame(&mut stdout));
        let Ok(Some(answer)) = answer else { return };
        if answers.send(answer).is_err() {
            return;
        }
    }
}
