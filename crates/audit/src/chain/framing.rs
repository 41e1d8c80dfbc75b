//! Stored records one after another in a stream, each with its length in front.

use crate::chain::{STORED_PREFIX, Sealed};
use crate::encoding::MAX_BODY;
use std::io::{self, Read, Write};

/// Why the next record could not be read from a stream.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The stream itself failed.
    #[error("reading records failed")]
    Io(#[source] io::Error),
    /// The stream ends inside a record.
    #[error("the stream ends inside a record")]
    Short,
    /// The length in front is that of no record.
    #[error("a record of {length} bytes cannot be")]
    Length {
        /// The length that was claimed.
        length: u32,
    },
}

/// Writes one record: its length as 4 bytes, most significant first, then its stored form.
pub fn write_stored(to: &mut impl Write, record: &Sealed) -> io::Result<()> {
    let length = u32::try_from(record.stored().len()).map_err(io::Error::other)?;
    to.write_all(&length.to_be_bytes())?;
    to.write_all(record.stored())
}

/// Reads the next stored record into `buffer`; false at the end of the stream.
///
/// The bytes are not checked beyond their length: hand them to a verifier.
pub fn read_stored(from: &mut impl Read, buffer: &mut Vec<u8>) -> Result<bool, FrameError> {
    let mut length = [0; 4];
    match read_up_to(from, &mut length)? {
        0 => return Ok(false),
        4 => {}
        _ => return Err(FrameError::Short),
    }
    let length = u32::from_be_bytes(length);
    let wanted = usize::try_from(length).unwrap_or(usize::MAX);
    if !(STORED_PREFIX..=STORED_PREFIX + MAX_BODY).contains(&wanted) {
        return Err(FrameError::Length { length });
    }
    buffer.clear();
    // `take` and not a buffer of the claimed length: memory is used only for bytes that arrive.
    let read = from.take(u64::from(length)).read_to_end(buffer);
    match read.map_err(FrameError::Io)? {
        read if read == wanted => Ok(true),
        _ => Err(FrameError::Short),
    }
}

fn read_up_to(from: &mut impl Read, buffer: &mut [u8; 4]) -> Result<usize, FrameError> {
    let mut read = Vec::with_capacity(buffer.len());
    from.take(4)
        .read_to_end(&mut read)
        .map_err(FrameError::Io)?;
    for (byte, value) in buffer.iter_mut().zip(&read) {
        *byte = *value;
    }
    Ok(read.len())
}
