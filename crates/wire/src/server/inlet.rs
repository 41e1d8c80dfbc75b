//! Reading from a connection: frames, and descriptors that come along, within limits and in time.

use super::share::{Reservation, Share};
use crate::error::{WireError, code};
use crate::frame::{Decoder, FrameError};
use crate::limits::Limits;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, recvmsg};
use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::time::Instant;

/// Bytes read at once.
const CHUNK: usize = 64 * 1024;
/// Most descriptors one message of the system carries here.
const MOST_DESCRIPTORS: usize = 8;

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

/// The reading side of a connection.
pub(crate) struct Inlet {
    stream: Arc<UnixStream>,
    share: Arc<Share>,
    decoder: Decoder,
    chunk: Vec<u8>,
    /// When the frame under way began.
    begun: Option<Instant>,
    room: Option<Reservation>,
    descriptors: VecDeque<OwnedFd>,
}

impl Inlet {
    pub(crate) fn new(stream: Arc<UnixStream>, share: Arc<Share>) -> Self {
        Self {
            decoder: Decoder::new(share.limits.frame_bytes),
            stream,
            share,
            chunk: vec![0; CHUNK],
            begun: None,
            room: None,
            descriptors: VecDeque::new(),
        }
    }

    /// The next frame; none where nothing has begun by `quiet`. Nothing is lost if this is dropped
    /// while it waits.
    pub(crate) async fn frame(&mut self, quiet: Instant) -> Result<Option<Frame>, End> {
        loop {
            if let Some(frame) = self.whole()? {
                return Ok(Some(frame));
            }
            let until = self
                .begun
                .map_or(quiet, |begun| begun + self.share.limits.frame);
            let stream = Arc::clone(&self.stream);
            match tokio::time::timeout_at(until, stream.readable()).await {
                Err(_) if self.begun.is_none() => return Ok(None),
                Err(_) => {
                    let told = "a frame did not arrive in time";
                    return Err(End::Told(WireError::new(code::FRAME_TRUNCATED, told)));
                }
                Ok(Err(_)) => return Err(End::Gone),
                Ok(Ok(())) => self.receive()?,
            }
        }
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
        let Some(text) = self.decoder.next_frame()? else {
            return Ok(None);
        };
        // What follows in the buffer is the next frame, begun just now.
        self.begun = self.decoder.is_inside().then(Instant::now);
        let room = self.room.take();
        Ok(room.map(|room| Frame { text, room }))
    }

    fn receive(&mut self) -> Result<(), End> {
        let (chunk, descriptors) = (&mut self.chunk, &mut self.descriptors);
        let wanted = self.share.limits.descriptors;
        let stream = &self.stream;
        let read = stream.try_io(Interest::READABLE, || {
            if wanted == 0 {
                // Descriptors that nobody asked for are closed by the system.
                return stream.try_read(chunk);
            }
            let mut space =
                [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let received = recvmsg(
                stream,
                &mut [IoSliceMut::new(chunk)],
                &mut control,
                RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC,
            )?;
            for message in control.drain() {
                if let RecvAncillaryMessage::ScmRights(received) = message {
                    descriptors.extend(received);
                }
            }
            let lost = received.flags.contains(ReturnFlags::CTRUNC);
            if lost || descriptors.len() > wanted {
                return Err(io::ErrorKind::QuotaExceeded.into());
            }
            Ok(received.bytes)
        });
        match read {
            Ok(0) => {
                self.decoder.finish()?;
                Err(End::Gone)
            }
            Ok(count) => {
                self.begun.get_or_insert_with(Instant::now);
                self.decoder
                    .push(self.chunk.get(..count).unwrap_or_default());
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
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

    /// Takes the `count` oldest descriptors; none if there are fewer.
    pub(crate) fn descriptors(&mut self, count: usize) -> Option<Vec<OwnedFd>> {
        (count <= self.descriptors.len()).then(|| self.descriptors.drain(..count).collect())
    }
}
