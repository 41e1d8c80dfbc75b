//! Reads back what a supervisor wrote down for an init.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;

/// A command as it was asked for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) directory: OsString,
    pub(super) arguments: Vec<OsString>,
    pub(super) environment: Vec<(OsString, OsString)>,
}

impl Asked {
    pub(super) fn read(request: OwnedFd) -> io::Result<Self> {
        let mut bytes = Vec::new();
        let mut file = File::from(request);
        file.rewind()?;
        let _length = file.read_to_end(&mut bytes)?;
        Self::decode(&bytes).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (programs, rest) = number(bytes)?;
        let (arguments, rest) = number(rest)?;
        let (environment, rest) = number(rest)?;
        let mut texts = rest
            .strip_suffix(&[0])?
            .split(|byte| *byte == 0)
            .map(|text| OsString::from_vec(text.to_vec()));
        let directory = texts.next()?;
        // Bubblewrap looks for the program itself.
        let arguments: Vec<_> = texts.by_ref().skip(programs).take(arguments).collect();
        let environment: Option<Vec<_>> = texts.take(environment).map(variable).collect();
        Some(Self {
            directory,
            arguments,
            environment: environment?,
        })
    }
}

fn number(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (number, rest) = bytes.split_first_chunk::<4>()?;
    Some((usize::try_from(u32::from_le_bytes(*number)).ok()?, rest))
}

fn variable(text: OsString) -> Option<(OsString, OsString)> {
    let mut name = text.into_vec();
    let at = name.iter().position(|byte| *byte == b'=')?;
    let value = name.split_off(at + 1);
    let _equals = name.pop();
    Some((OsString::from_vec(name), OsString::from_vec(value)))
}
