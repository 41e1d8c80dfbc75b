//! What crosses the pipes between a worker and whoever started it: a letter, a length, bytes.

use std::io::{self, Read, Write};

/// Most bytes of a frame.
const LARGEST: usize = 2 * 1024 * 1024;

/// One thing said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// To the worker: what is asked, as JSON.
    Order(Vec<u8>),
    /// Bytes from the connection, or for it.
    Network(Vec<u8>),
    /// To the worker: nothing more comes from the connection.
    Over,
    /// From the worker: the answer, as JSON. The last thing it says.
    Answer(Vec<u8>),
}

/// Why a frame could not be read.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The other side is gone, or reading failed.
    #[error("cannot read from the other side")]
    Io(#[from] io::Error),
    /// It is none.
    #[error("what was said is no frame")]
    Malformed,
}

impl Frame {
    /// Writes it, and sees to it that it leaves.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let (letter, bytes): (u8, &[u8]) = match self {
            Self::Order(bytes) => (b'O', bytes),
            Self::Network(bytes) => (b'N', bytes),
            Self::Over => (b'E', &[]),
            Self::Answer(bytes) => (b'A', bytes),
        };
        let length = u32::try_from(bytes.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        let mut whole = Vec::with_capacity(bytes.len().saturating_add(5));
        whole.push(letter);
        whole.extend_from_slice(&length.to_be_bytes());
        whole.extend_from_slice(bytes);
        out.write_all(&whole)?;
        out.flush()
    }
}

/// Reads frames.
#[derive(Debug)]
pub struct Frames<R>(R);

impl<R: Read> Frames<R> {
    /// From `input`.
    pub const fn new(input: R) -> Self {
        Self(input)
    }

    /// The next one.
    pub fn read(&mut self) -> Result<Frame, FrameError> {
        let mut head = [0; 5];
        self.0.read_exact(&mut head)?;
        let [letter, length @ ..] = head;
        let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
        if length > LARGEST {
            return Err(FrameError::Malformed);
        }
        let mut bytes = vec![0; length];
        self.0.read_exact(&mut bytes)?;
        match letter {
            b'O' => Ok(Frame::Order(bytes)),
            b'N' => Ok(Frame::Network(bytes)),
            b'E' if bytes.is_empty() => Ok(Frame::Over),
            b'A' => Ok(Frame::Answer(bytes)),
            _ => Err(FrameError::Malformed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let frames = [Frame::Order(bytes.clone()), Frame::Network(bytes.clone()), Frame::Over, Frame::Answer(bytes)];
            let mut pipe = Vec::new();
            for frame in &frames {
                frame.write(&mut pipe).unwrap();
            }
            let mut read = Frames::new(pipe.as_slice());
            for frame in &frames {
                prop_assert_eq!(&read.read().unwrap(), frame);
            }
            prop_assert!(matches!(read.read(), Err(FrameError::Io(_))));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let mut read = Frames::new(bytes.as_slice());
            while read.read().is_ok() {}
        }
    }

    #[test]
    fn a_length_that_is_too_great_takes_no_memory() {
        let mut read = Frames::new(&b"N\xff\xff\xff\xff"[..]);
        assert!(matches!(read.read(), Err(FrameError::Malformed)));
    }
}
