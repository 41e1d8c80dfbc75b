//! Writing to a connection: whole frames, one after the other, and no queue.
//!
//! Whoever has an answer waits for their turn and for the other end to take it. A peer that does not
//! read keeps its own requests waiting, in places that are counted, and after a while is dropped.

use super::inlet::watched;
use crate::error::{WireError, code};
use crate::frame::FrameError;
use crate::message::{Answer, framed_response};
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{Mutex, OwnedMutexGuard};

/// The connection is of no more use.
#[derive(Debug)]
pub(crate) struct Broken;

/// The writing side of a connection.
#[derive(Debug)]
pub(crate) struct Outgoing {
    stream: Arc<UnixStream>,
    turn: Arc<Mutex<()>>,
    broken: AtomicBool,
    patience: Duration,
}

/// A frame that is not yet written whole, and the turn to write it.
pub(crate) struct Rest {
    turn: Option<OwnedMutexGuard<()>>,
    frame: Vec<u8>,
    written: usize,
}

impl Outgoing {
    pub(crate) fn new(stream: Arc<UnixStream>, patience: Duration) -> Self {
        Self {
            stream,
            turn: Arc::new(Mutex::new(())),
            broken: AtomicBool::new(false),
            patience,
        }
    }

    pub(crate) async fn send(&self, frame: Vec<u8>) -> Result<(), Broken> {
        let rest = Rest {
            turn: None,
            frame,
            written: 0,
        };
        self.finish(rest).await
    }

    /// Writes what goes without waiting, from any thread; none is left if that was all.
    pub(crate) fn send_now(&self, frame: Vec<u8>) -> Option<Rest> {
        let Ok(turn) = Arc::clone(&self.turn).try_lock_owned() else {
            let (turn, written) = (None, 0);
            return Some(Rest {
                turn,
                frame,
                written,
            });
        };
        // What went wrong shows again in `finish`.
        let written = send(&self.stream, &frame, AT_ONCE).unwrap_or(0);
        (written < frame.len()).then_some(Rest {
            turn: Some(turn),
            frame,
            written,
        })
    }

    /// Writes the rest.
    pub(crate) async fn finish(&self, rest: Rest) -> Result<(), Broken> {
        let _turn = match rest.turn {
            Some(turn) => turn,
            None => Arc::clone(&self.turn).lock_owned().await,
        };
        if self.is_broken() {
            return Err(Broken);
        }
        let bytes = rest.frame.get(rest.written..).unwrap_or_default();
        let written = tokio::time::timeout(self.patience, write(&self.stream, bytes)).await;
        if let Ok(Ok(())) = written {
            return Ok(());
        }
        self.give_up();
        Err(Broken)
    }

    /// The turn to write, with nobody in the middle of a frame.
    pub(crate) async fn turn(&self) -> OwnedMutexGuard<()> {
        Arc::clone(&self.turn).lock_owned().await
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::SeqCst)
    }

    /// Ends the connection for both sides: whoever waits for it is woken.
    pub(crate) fn give_up(&self) {
        self.broken.store(true, Ordering::SeqCst);
        let _ = rustix::net::shutdown(&self.stream, rustix::net::Shutdown::Both);
    }
}

/// Without waiting, and without a signal where nobody reads any more.
const AT_ONCE: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);

async fn write(stream: &UnixStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match send(stream, bytes, AT_ONCE) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
            Err(Errno::AGAIN) => {
                // Anew each time: what is watched from now on cannot be missed.
                watched(stream)?.writable().await?;
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// The frame of a reply; of an error, where the answer is too long for one.
pub(crate) fn reply(id: u64, answer: Result<Answer, WireError>, limit: usize) -> Vec<u8> {
    framed_response(id, answer, limit).unwrap_or_else(|error| {
        let told = match error {
            FrameError::TooLong { length, limit } => {
                format!("the answer has {length} bytes, and a frame at most {limit}")
            }
            FrameError::Truncated { .. } | FrameError::NotUtf8 => error.to_string(),
        };
        let answer = Err(WireError::new(code::ANSWER_TOO_LONG, told));
        // Some hundred bytes: any limit has room for them.
        framed_response(id, answer, usize::MAX).unwrap_or_default()
    })
}

/// Tells somebody who is not let in why, if they can be told at once.
pub(crate) fn refuse(stream: impl AsFd, error: &WireError) {
    let frame = reply(0, Err(error.clone()), usize::MAX);
    // A fresh socket has room for a short frame.
    let _ = send(stream, &frame, AT_ONCE);
}
