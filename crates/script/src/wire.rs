//! What host and worker say to each other: JSON in frames of bounded length.
//!
//! The host sends one [`Load`], then one request a frame; the worker answers each frame with one.
//! A length over the bound is an error before anything is allocated.

use crate::problem::Problem;
use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};

/// Longest frame, in bytes, without its length.
pub(crate) const FRAME_BYTES: usize = 1024 * 1024;

/// What a script is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// TypeScript whose types can be erased.
    TypeScript,
    /// JavaScript.
    JavaScript,
}

impl Language {
    /// The language of a file, by how its name ends.
    pub fn of_file(name: &str) -> Option<Self> {
        match name.rsplit_once('.')?.1 {
            "ts" => Some(Self::TypeScript),
            "js" => Some(Self::JavaScript),
            _ => None,
        }
    }
}

/// The first frame: the script, and how long an evaluation may take.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Load {
    /// The file, for messages only.
    pub(crate) file: String,
    pub(crate) source: String,
    pub(crate) language: Language,
    pub(crate) limit_micros: u64,
}

/// The answer to [`Load`].
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Loaded {
    /// Confined, and ready for requests.
    Ready,
    /// The script cannot be used.
    Refused(Problem),
    /// The worker could not confine itself, and read no code.
    Unconfined(String),
}

/// One of the four words a script may return.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Word {
    Allow,
    Deny,
    RequireReview,
    Pass,
}

/// The answer to a request.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Judged {
    Answer { decision: Word, reason: String },
    Failed(Fault),
}

/// Why a script gave no answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Fault {
    #[error("did not answer in time")]
    Timeout,
    #[error("ran out of memory")]
    Memory,
    #[error("threw {0}")]
    Exception(String),
    #[error("returned {0}")]
    BadAnswer(String),
}

/// Reads one frame. None where the other side closed between frames.
pub(crate) fn read_frame(input: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut length = [0; 4];
    let mut filled = 0;
    while let Some(rest) = length.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match input.read(rest) {
            Ok(0) if filled == 0 => return Ok(None),
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
    if length > FRAME_BYTES {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("a frame of {length} bytes, over the limit of {FRAME_BYTES}"),
        ));
    }
    let mut frame = vec![0; length];
    input.read_exact(&mut frame)?;
    Ok(Some(frame))
}

/// Writes one frame, in one call where the pipe has room.
pub(crate) fn write_frame(output: &mut impl Write, frame: &[u8]) -> io::Result<()> {
    let length = u32::try_from(frame.len())
        .ok()
        .filter(|_| frame.len() <= FRAME_BYTES)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the frame is too long"))?;
    let mut bytes = Vec::with_capacity(frame.len() + 4);
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(frame);
    output.write_all(&bytes)?;
    output.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_back_as_they_were_written() {
        let mut pipe = Vec::new();
        let longest = vec![7; FRAME_BYTES];
        for frame in [&b""[..], b"{}", &longest] {
            write_frame(&mut pipe, frame).unwrap();
        }
        let mut input = &pipe[..];
        assert_eq!(read_frame(&mut input).unwrap().unwrap(), b"");
        assert_eq!(read_frame(&mut input).unwrap().unwrap(), b"{}");
        assert_eq!(read_frame(&mut input).unwrap().unwrap(), longest);
        assert_eq!(read_frame(&mut input).unwrap(), None);
    }

    #[test]
    fn broken_frames_are_errors_and_allocate_nothing() {
        for (case, bytes) in [
            ("half a length", &[0, 0][..]),
            ("half a frame", &[0, 0, 0, 9, 1, 2][..]),
            ("four gigabytes", &[255, 255, 255, 255, 1][..]),
            ("one byte over", &[0, 16, 0, 1][..]),
        ] {
            assert!(read_frame(&mut &bytes[..]).is_err(), "{case}");
        }
        assert!(write_frame(&mut Vec::new(), &vec![0; FRAME_BYTES + 1]).is_err());
    }
}
