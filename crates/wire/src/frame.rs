//! Frames: a length in four bytes, big end first, then that many bytes of UTF-8.
//!
//! Pure: bytes in, texts out. A decoder holds no more than what has arrived, whatever length a
//! frame announces.

use std::io::{self, Read};

/// Bytes of a frame's length.
const HEADER: usize = 4;
/// What a decoder keeps of its buffer once nothing is in it.
const KEPT: usize = 64 * 1024;

/// Why bytes are no frame. There is no way to go on after it: where the next one begins is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// It is longer than the limit.
    #[error("a frame of {length} bytes is over the limit of {limit}")]
    TooLong {
        /// The length it announces.
        length: usize,
        /// The most it may have.
        limit: usize,
    },
    /// It ended before its length.
    #[error("the stream ended inside a frame: {missing} bytes are missing")]
    Truncated {
        /// Bytes that did not come; of the length itself, if that is not whole.
        missing: usize,
    },
    /// It is not text.
    #[error("a frame is not UTF-8")]
    NotUtf8,
}

/// Puts `text` into a frame.
pub fn encode(text: &str, limit: usize) -> Result<Vec<u8>, FrameError> {
    encode_with(text.len(), limit, |frame| {
        frame.extend_from_slice(text.as_bytes());
    })
}

/// Puts what `write` appends, some `room` bytes of UTF-8, into a frame.
pub(crate) fn encode_with(
    room: usize,
    limit: usize,
    write: impl FnOnce(&mut Vec<u8>),
) -> Result<Vec<u8>, FrameError> {
    let mut frame = Vec::with_capacity(HEADER + room);
    frame.extend_from_slice(&[0; HEADER]);
    write(&mut frame);
    let length = frame.len() - HEADER;
    let too_long = FrameError::TooLong { length, limit };
    if length > limit {
        return Err(too_long);
    }
    let announced = u32::try_from(length).map_err(|_| too_long)?;
    if let Some(header) = frame.first_chunk_mut::<HEADER>() {
        *header = announced.to_be_bytes();
    }
    Ok(frame)
}

/// Finds frames in bytes as they come.
#[derive(Debug)]
pub struct Decoder {
    limit: usize,
    buffer: Vec<u8>,
    /// Where in `buffer` the next frame begins.
    start: usize,
}

impl Decoder {
    /// A decoder that refuses frames over `limit` bytes.
    pub const fn new(limit: usize) -> Self {
        Self {
            limit,
            buffer: Vec::new(),
            start: 0,
        }
    }

    /// Refuses frames over `limit` bytes from here on.
    pub const fn limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Takes bytes in.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.start == self.buffer.len() {
            self.buffer.clear();
            self.buffer.shrink_to(KEPT);
            self.start = 0;
        } else if self.start > KEPT {
            self.buffer.drain(..self.start);
            self.start = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole frame's text; none until more bytes have come.
    pub fn next_frame(&mut self) -> Result<Option<String>, FrameError> {
        let Some(length) = self.announced()? else {
            return Ok(None);
        };
        let begin = self.start + HEADER;
        let Some(bytes) = self.buffer.get(begin..begin + length) else {
            return Ok(None);
        };
        let text = std::str::from_utf8(bytes).map_err(|_| FrameError::NotUtf8)?;
        let text = text.to_owned();
        self.start = begin + length;
        Ok(Some(text))
    }

    /// The length of the frame that has begun, once that is known.
    pub fn announced(&self) -> Result<Option<usize>, FrameError> {
        let header = self.buffer.get(self.start..self.start + HEADER);
        let Some(header) = header.and_then(|bytes| <[u8; HEADER]>::try_from(bytes).ok()) else {
            return Ok(None);
        };
        // A length that does not fit here is over any limit.
        let length = usize::try_from(u32::from_be_bytes(header)).unwrap_or(usize::MAX);
        if length > self.limit {
            let limit = self.limit;
            return Err(FrameError::TooLong { length, limit });
        }
        Ok(Some(length))
    }

    /// Whether a frame has begun and is not whole.
    pub fn is_inside(&self) -> bool {
        self.held() > 0
    }

    /// Whether the next frame is there to be given out, or known to be none.
    pub(crate) fn is_whole(&self) -> bool {
        self.announced().map_or(true, |length| {
            length.is_some_and(|length| self.held() >= HEADER + length)
        })
    }

    /// Bytes that have come and were not yet given out.
    pub(crate) const fn held(&self) -> usize {
        self.buffer.len() - self.start
    }

    /// Says whether the stream may end here.
    pub fn finish(&self) -> Result<(), FrameError> {
        let held = self.held();
        let missing = match self.announced()? {
            None if held == 0 => return Ok(()),
            None => HEADER - held,
            Some(length) => (HEADER + length).saturating_sub(held),
        };
        Err(FrameError::Truncated { missing })
    }

    /// Reads from `stream` until a frame is whole; none at an orderly end.
    pub(crate) fn read_from(&mut self, stream: &mut impl Read) -> io::Result<Option<String>> {
        let invalid = |error: FrameError| io::Error::new(io::ErrorKind::InvalidData, error);
        let mut chunk = [0; 16 * 1024];
        loop {
            if let Some(text) = self.next_frame().map_err(invalid)? {
                return Ok(Some(text));
            }
            match stream.read(&mut chunk) {
                Ok(0) => return self.finish().map_err(invalid).map(|()| None),
                Ok(count) => self.push(chunk.get(..count).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_frame_over_the_limit_is_refused_by_its_length_alone() {
        let mut decoder = Decoder::new(8);
        decoder.push(&[0, 0, 0, 9]);
        let refused = FrameError::TooLong {
            length: 9,
            limit: 8,
        };
        assert_eq!(decoder.next_frame(), Err(refused));
        assert_eq!(encode("123456789", 8), Err(refused));
        let mut decoder = Decoder::new(DEFAULT);
        decoder.push(&[0xff; 4]);
        assert!(matches!(
            decoder.next_frame(),
            Err(FrameError::TooLong { .. })
        ));
    }

    const DEFAULT: usize = 16 * 1024 * 1024;

    #[test]
    fn an_end_inside_a_frame_is_told_from_an_end_between_frames() {
        for (bytes, missing) in [
            (&[][..], None),
            (&[0], Some(3)),
            (&[0, 0, 0, 2], Some(2)),
            (&[0, 0, 0, 2, b'a'], Some(1)),
        ] {
            let mut decoder = Decoder::new(DEFAULT);
            decoder.push(bytes);
            assert_eq!(decoder.next_frame(), Ok(None));
            let want = missing.map_or(Ok(()), |missing| Err(FrameError::Truncated { missing }));
            assert_eq!(decoder.finish(), want, "{bytes:?}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_no_frame() {
        let mut decoder = Decoder::new(DEFAULT);
        decoder.push(&[0, 0, 0, 1, 0xff]);
        assert_eq!(decoder.next_frame(), Err(FrameError::NotUtf8));
    }

    #[test]
    fn an_announced_length_reserves_nothing() {
        let mut decoder = Decoder::new(DEFAULT);
        decoder.push(&(16_000_000_u32).to_be_bytes());
        assert_eq!(decoder.next_frame(), Ok(None));
        assert!(decoder.buffer.capacity() < 1024);
    }

    proptest! {
        #[test]
        fn frames_come_out_as_they_went_in_however_they_are_cut(
            texts in prop::collection::vec(".{0,40}", 0..8),
            cuts in prop::collection::vec(1_usize..20, 1..20),
        ) {
            let mut bytes: Vec<u8> = Vec::new();
            for text in &texts {
                bytes.extend(encode(text, DEFAULT).unwrap());
            }
            let mut decoder = Decoder::new(DEFAULT);
            let mut found = Vec::new();
            let mut rest = bytes.as_slice();
            for cut in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (now, later) = rest.split_at((*cut).min(rest.len()));
                decoder.push(now);
                while let Some(text) = decoder.next_frame().unwrap() {
                    found.push(text);
                }
                rest = later;
            }
            prop_assert_eq!(found, texts);
            prop_assert_eq!(decoder.finish(), Ok(()));
        }
    }
}
