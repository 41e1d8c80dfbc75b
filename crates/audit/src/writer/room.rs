//! Room at the end of the write-ahead log, made before it is needed.
//!
//! A sync of a file that has grown waits for its new length and for the places of its new blocks,
//! too, and takes about twice as long as one of a file that was written over. A long-lived writer
//! fills the same part of the log over and over, so what it is made longer by once serves for good.
//!
//! SQLite takes frames up to the first one that is none, and what is behind them was never one.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// Nothing is done for a log that hardly anybody writes to.
const LEAST: u64 = 16;
/// Frames that one transaction may add, in most cases: fewer are never left free.
const SPARE: u64 = 32;
/// Frames that are made room for at once, so that no sync has much more to bring to disk.
const STEP: u64 = 96;
/// What stands before the pages of the log, and before each of them.
const HEADER: u64 = 32;
const FRAME_HEADER: u64 = 24;

#[derive(Debug)]
pub(crate) struct Room {
    log: File,
    frame: u64,
    /// Frames the log is never made longer than.
    most: u64,
    /// As long as the log was at the least when that was last looked at; longer than any once it could not
    /// be made longer, so that it is not tried with every commit.
    length: u64,
}

impl Room {
    /// For `log`, that holds pages of `page` bytes, up to `most` of them.
    pub(crate) const fn new(log: File, page: u64, most: u64) -> Self {
        Self {
            log,
            frame: page + FRAME_HEADER,
            most,
            length: 0,
        }
    }

    /// Makes room behind `frames`, if there is not enough. Only within a transaction that may
    /// write: nobody else adds frames then.
    pub(crate) fn make(&mut self, frames: u64) {
        if !(LEAST..self.most).contains(&frames) {
            return;
        }
        let needed = HEADER + (frames + SPARE) * self.frame;
        if needed <= self.length {
            return;
        }
        // It serves nothing but speed: a disk that has none is written to as it comes.
        let Ok(metadata) = self.log.metadata() else {
            return;
        };
        self.length = metadata.len();
        if needed <= self.length {
            return;
        }
        let until = HEADER + (frames + SPARE + STEP).min(self.most + SPARE) * self.frame;
        let zeros = vec![0; usize::try_from(until.saturating_sub(self.length)).unwrap_or(0)];
        if self.log.write_all_at(&zeros, self.length).is_ok() {
            self.length = until;
        } else {
            // Nor is anything kept from a disk that is full.
            let _as_it_was = self.log.set_len(self.length);
            self.length = u64::MAX;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::OpenOptions;

    const PAGE: u64 = 8_192;
    const FRAME: u64 = PAGE + FRAME_HEADER;

    fn log(content: &[u8]) -> File {
        let log = tempfile::tempfile().unwrap();
        log.write_all_at(content, 0).unwrap();
        log
    }

    fn length(log: &File) -> u64 {
        log.metadata().unwrap().len()
    }

    #[test]
    fn room_is_made_behind_what_is_there_and_only_where_it_runs_short() {
        let content = vec![7; usize::try_from(HEADER + 40 * FRAME).unwrap()];
        let log = log(&content);
        let mut room = Room::new(log.try_clone().unwrap(), PAGE, 1_000);
        room.make(LEAST - 1);
        assert_eq!(length(&log), content.len() as u64, "hardly used");
        room.make(20);
        let made = length(&log);
        assert_eq!(made, HEADER + (20 + SPARE + STEP) * FRAME);
        room.make(20 + STEP);
        assert_eq!(length(&log), made, "there is enough");
        room.make(21 + STEP);
        assert!(length(&log) > made);
        let mut found = vec![0; usize::try_from(length(&log)).unwrap()];
        log.read_exact_at(&mut found, 0).unwrap();
        let (kept, zeros) = found.split_at(content.len());
        assert!(kept == content, "nothing is written over");
        assert!(zeros.iter().all(|byte| *byte == 0));
    }

    #[test]
    fn a_log_is_made_no_longer_than_it_gets() {
        let log = log(&[]);
        let mut room = Room::new(log.try_clone().unwrap(), PAGE, 1_000);
        for frames in 0..2_000 {
            room.make(frames);
        }
        assert_eq!(length(&log), HEADER + (1_000 + SPARE) * FRAME);
    }

    #[test]
    fn somebody_elses_frames_count() {
        let log = log(&[]);
        let mut room = Room::new(log.try_clone().unwrap(), PAGE, 1_000);
        room.make(LEAST);
        let made = length(&log);
        log.write_all_at(b"frame", made + 90 * FRAME).unwrap();
        let longer = length(&log);
        room.make(LEAST + STEP + 1);
        assert_eq!(length(&log), longer);
    }

    #[test]
    fn a_log_that_cannot_be_made_longer_is_left_as_it_is() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let log = OpenOptions::new().read(true).open(file.path()).unwrap();
        let mut room = Room::new(log.try_clone().unwrap(), PAGE, 1_000);
        room.make(LEAST);
        room.make(500);
        assert_eq!(length(&log), 0);
    }
}
