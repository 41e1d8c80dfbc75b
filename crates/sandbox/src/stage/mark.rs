//! The mark of a run that has nothing to keep: one small file, written over for each run.
//!
//! Most runs are like that, and making and removing a directory for each would have the file system
//! write down more than the run itself.
//!
//! Guarantee: a mark that is found open is whole, whenever its writer was killed: the word that makes
//! it count is written after what it is about.

use super::beneath::{Stamp, node_of};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt as _;

const FILE: &str = "run";
const OPEN: &[u8] = b"open";
const DONE: &[u8] = b"done";
/// What is about the run begins after the word.
const BODY: u64 = 4;
/// Ends it: what an earlier, longer one left follows.
const END: u8 = b'\n';
/// The most that is read of one.
const MOST: u64 = 1 << 20;

/// An open mark. One that is not ended stays open.
#[derive(Debug)]
pub(super) struct Mark(File);

impl Mark {
    /// Says that a run begins; `about` has no line break.
    pub(super) fn begin(directory: impl AsFd, about: &[u8]) -> io::Result<Self> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(directory, FILE, flags, Mode::from_raw_mode(0o600))?;
        let file = File::from(file);
        let mut body = about.to_vec();
        body.push(END);
        file.write_all_at(&body, BODY)?;
        file.write_all_at(OPEN, 0)?;
        Ok(Self(file))
    }

    /// The mark of a run that was never ended, and what it is about.
    pub(super) fn found(directory: impl AsFd) -> io::Result<Option<(Self, Vec<u8>)>> {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = match rustix::fs::openat(directory, FILE, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        };
        let mut text = Vec::with_capacity(1024);
        (&file).take(MOST).read_to_end(&mut text)?;
        let Some(rest) = text.strip_prefix(OPEN) else {
            return Ok(None);
        };
        let body = rest.split(|byte| *byte == END).next().unwrap_or_default();
        let body = body.to_vec();
        Ok(Some((Self(file), body)))
    }

    /// When the run began, by the clock of the file system it is noted on.
    pub(super) fn begun(&self) -> io::Result<Stamp> {
        Ok(node_of(&self.0)?.modified)
    }

    /// Says that the run is over.
    pub(super) fn end(self) -> io::Result<()> {
        self.0.write_all_at(DONE, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn found(directory: &File) -> Option<String> {
        let found = Mark::found(directory).unwrap();
        found.map(|(_, about)| String::from_utf8(about).unwrap())
    }

    #[test]
    fn a_mark_is_found_until_it_is_ended_and_says_only_what_its_own_run_said() {
        let place = tempfile::tempdir().unwrap();
        let directory = File::open(place.path()).unwrap();
        assert_eq!(found(&directory), None);
        for about in ["a long one, whose end stays in the file", "short", ""] {
            let mark = Mark::begin(&directory, about.as_bytes()).unwrap();
            assert_eq!(found(&directory).as_deref(), Some(about));
            drop(mark);
            assert_eq!(found(&directory).as_deref(), Some(about), "not ended");
            let (mark, _) = Mark::found(&directory).unwrap().unwrap();
            mark.end().unwrap();
            assert_eq!(found(&directory), None);
        }
    }

    #[test]
    fn a_writer_that_was_killed_on_the_way_began_nothing() {
        let place = tempfile::tempdir().unwrap();
        let directory = File::open(place.path()).unwrap();
        for left in [&b""[..], b"\0\0\0\0{}\n", b"done{}\n", b"op"] {
            fs::write(place.path().join(FILE), left).unwrap();
            assert_eq!(found(&directory), None, "{left:?}");
        }
    }

    #[test]
    fn a_link_in_its_place_is_not_followed() {
        let place = tempfile::tempdir().unwrap();
        let directory = File::open(place.path()).unwrap();
        let elsewhere = place.path().join("elsewhere");
        fs::write(&elsewhere, "open{}\n").unwrap();
        std::os::unix::fs::symlink(&elsewhere, place.path().join(FILE)).unwrap();
        assert!(Mark::begin(&directory, b"x").is_err());
        assert!(Mark::found(&directory).is_err());
        assert_eq!(fs::read(&elsewhere).unwrap(), b"open{}\n");
    }
}
