//! Reading from a connection: frames, and descriptors that come along, within limits and in time.

use super::share::{Reservation, Share};
use crate::awake::Awake;
use crate::error::{WireError, code};
use crate::frame::{Decoder, FrameError};
use crate::limits::Limits;
use crate::peer::Via;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, recv, recvmsg,
};
use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Bytes read at once.
const CHUNK: usize = 64 * 1024;
/// Most descriptors one message of the system carries here.
const MOST_DESCRIPTORS: usize = 8;

/// How long to wait where nobody can say that there is something to read.
const BREATHER: Duration = Duration::from_millis(20);

/// A frame with the room it takes.
pub(crate) struct Frame {
    pub(crate) text: String,
    pub(crate) room: Reservation,
}

/// Why there are no more frames.
#[derive(Debug)]
pub(crate) enum End {
    /// The other end is gone; there is nobody to tell.
    Gone,
    /// It did something that ends the connection, and is told.
    Told(WireError),
}

impl From<FrameError> for End {
    fn from(error: FrameError) -> Self {
        let code = match error {
            FrameError::TooLong { .. } => code::FRAME_TOO_LONG,
            FrameError::Truncated { .. } => code::FRAME_TRUNCATED,
            FrameError::NotUtf8 => code::NOT_UTF8,
        };
        Self::Told(WireError::new(code, error.to_string()))
    }
}

/// `stream` as the runtime watches it, until that is dropped. Nothing is read or written by it.
pub(super) fn watched(stream: &UnixStream) -> io::Result<tokio::net::UnixStream> {
    tokio::net::UnixStream::from_std(stream.try_clone()?)
}

/// Waits until `stream` can be read, or may be.
async fn readable(stream: &UnixStream) -> io::Result<()> {
    if let Ok(watched) = watched(stream) {
        return watched.readable().await;
    }
    // Where the system has no descriptor left, nobody loses a connection for it.
    tokio::time::sleep(BREATHER).await;
    Ok(())
}

/// A descriptor that came along, and that no request has claimed.
struct Passed {
    descriptor: OwnedFd,
    /// Bytes up to the end of what it came with. Whoever claims it begins among them.
    ahead: usize,
}

/// Whether something was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Received {
    Something,
    NothingYet,
}

/// The reading side of a connection. The runtime is told to watch it only while a task waits here:
/// a thread that waits by itself wakes nobody else.
pub(crate) struct Inlet {
    stream: Arc<UnixStream>,
    share: Arc<Share>,
    decoder: Decoder,
    /// None for who is in a sandbox: staying awake would be charged to nobody there.
    awake: Option<Awake>,
    chunk: Vec<u8>,
    /// When the frame under way began.
    begun: Option<Instant>,
    room: Option<Reservation>,
    /// The oldest first.
    passed: VecDeque<Passed>,
}

impl Inlet {
    pub(crate) fn new(stream: Arc<UnixStream>, share: Arc<Share>) -> Self {
        Self {
            decoder: Decoder::new(share.limits.frame_bytes),
            awake: (share.via == Via::Main).then(Awake::default),
            stream,
            share,
            chunk: vec![0; CHUNK],
            begun: None,
            room: None,
            passed: VecDeque::new(),
        }
    }

    /// The next frame; none where nothing has begun by `quiet`. Nothing is lost if this is dropped
    /// while it waits.
    pub(crate) async fn frame(&mut self, quiet: Instant) -> Result<Option<Frame>, End> {
        loop {
            if let Some(frame) = self.whole()? {
                return Ok(Some(frame));
            }
            if self.receive()? == Received::Something {
                continue;
            }
            let until = self
                .begun
                .map_or(quiet, |begun| begun + self.share.limits.frame);
            match tokio::time::timeout_at(until, readable(&self.stream)).await {
                Err(_) if self.begun.is_none() => return Ok(None),
                Err(_) => {
                    let told = "a frame did not arrive in time";
                    return Err(End::Told(WireError::new(code::FRAME_TRUNCATED, told)));
                }
                Ok(Err(_)) => return Err(End::Gone),
                Ok(Ok(())) => {}
            }
        }
    }

    /// The next frame, if it is whole by `patience`. Blocks.
    pub(crate) fn frame_here(&mut self, patience: &Timespec) -> Result<Option<Frame>, End> {
        let whole = self.whole()?;
        if whole.is_some() {
            return Ok(whole);
        }
        let (awake, stream) = (&mut self.awake, &self.stream);
        // Interrupted or not: there is something, or there is not.
        let sleep = || poll(&mut [PollFd::new(stream, PollFlags::IN)], Some(patience));
        let _waited = match awake {
            Some(awake) => awake.until(stream, sleep),
            None => sleep(),
        };
        self.receive()?;
        self.whole()
    }

    /// Whether another frame has begun already.
    pub(crate) fn has_more(&self) -> bool {
        self.decoder.is_inside()
    }

    /// A frame that has arrived whole.
    fn whole(&mut self) -> Result<Option<Frame>, End> {
        if self.room.is_none()
            && let Some(length) = self.decoder.announced()?
        {
            let overloaded = || {
                let told = "there are too many bytes under way";
                End::Told(WireError::new(code::OVERLOADED, told).retryable())
            };
            self.room = Some(self.share.reserve(length).ok_or_else(overloaded)?);
        }
        let held = self.decoder.held();
        let Some(text) = self.decoder.next_frame()? else {
            return Ok(None);
        };
        let taken = held.saturating_sub(self.decoder.held());
        for passed in &mut self.passed {
            passed.ahead = passed.ahead.saturating_sub(taken);
        }
        // What follows in the buffer is the next frame, begun just now.
        self.begun = self.decoder.is_inside().then(Instant::now);
        let room = self.room.take();
        Ok(room.map(|room| Frame { text, room }))
    }

    /// Reads what there is, without waiting.
    fn read(&mut self) -> io::Result<usize> {
        let (chunk, passed) = (&mut self.chunk, &mut self.passed);
        let wanted = self.share.limits.descriptors;
        if wanted == 0 {
            // Descriptors that nobody asked for are closed by the system.
            let (count, _) = recv(&self.stream, chunk.as_mut_slice(), RecvFlags::DONTWAIT)?;
            return Ok(count);
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received = recvmsg(
            &self.stream,
            &mut [IoSliceMut::new(chunk)],
            &mut control,
            RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC,
        )?;
        let ahead = self.decoder.held() + received.bytes;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(came) = message {
                passed.extend(came.map(|descriptor| Passed { descriptor, ahead }));
            }
        }
        let lost = received.flags.contains(ReturnFlags::CTRUNC);
        if lost || passed.len() > wanted {
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        Ok(received.bytes)
    }

    fn receive(&mut self) -> Result<Received, End> {
        match self.read() {
            Ok(0) => {
                self.decoder.finish()?;
                Err(End::Gone)
            }
            Ok(count) => {
                self.begun.get_or_insert_with(Instant::now);
                self.decoder
                    .push(self.chunk.get(..count).unwrap_or_default());
                Ok(Received::Something)
            }
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) =>
            {
                Ok(Received::NothingYet)
            }
            Err(error) if error.kind() == io::ErrorKind::QuotaExceeded => {
                let told = "there are too many descriptors";
                Err(End::Told(WireError::new(code::OVERLOADED, told)))
            }
            Err(_) => Err(End::Gone),
        }
    }

    pub(crate) fn limits(&self) -> Limits {
        self.share.limits
    }

    /// Takes the `count` oldest descriptors, for the request that was the last frame. The connection
    /// ends if there are fewer, or if one is left that belongs to no frame which has begun: nothing is
    /// kept for nobody.
    pub(crate) fn claim(&mut self, count: usize) -> Result<Vec<OwnedFd>, End> {
        let invalid = |told: &str| End::Told(WireError::new(code::INVALID_MESSAGE, told));
        if count > self.passed.len() {
            return Err(invalid(
                "fewer descriptors came along than the request says",
            ));
        }
        let claimed = self.passed.drain(..count);
        let claimed = claimed.map(|passed| passed.descriptor).collect();
        if self.passed.front().is_some_and(|passed| passed.ahead == 0) {
            return Err(invalid("more descriptors came along than requests say"));
        }
        Ok(claimed)
    }
}
