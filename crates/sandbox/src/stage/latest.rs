//! The latest beginning of a stage that begins anew: one small file beside its record, written over.
//!
//! Every start of a sandbox in an empty stage is a beginning. Moving a whole record into place for each
//! would have the file system bring it to disk first, and the start wait for that.
//!
//! Guarantee: what is read is whole, follows the beginning that the record has, and was noted since the
//! machine was started. Anything else counts for nothing, and the record's own holds: it is older, and
//! only finds more conflicts. After a power failure a stage may hold again what it no longer held when
//! it began anew, so nothing noted here before that is believed.

use super::record::BaseMarker;
use airlock_core::Digest;
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt as _;

const FILE: &str = "base";
/// Ends it: what an earlier, longer one left follows.
const END: u8 = b'\n';
/// Beyond what any beginning takes.
const MOST: u64 = 4096;

/// Notes that a stage whose record says `recorded` began anew at `latest`.
pub(super) fn write(
    directory: impl AsFd,
    recorded: BaseMarker,
    latest: BaseMarker,
) -> io::Result<()> {
    if !latest.is_of_this_run() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(directory, FILE, flags, Mode::from_raw_mode(0o600))?;
    let body = serde_json::to_string(&latest)?;
    let mut line = format!("{} {body}", seal(recorded, &body)?).into_bytes();
    line.push(END);
    File::from(file).write_all_at(&line, 0)
}

/// What was noted last of a stage whose record says `recorded`.
pub(super) fn read(directory: impl AsFd, recorded: BaseMarker) -> Option<BaseMarker> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = rustix::fs::openat(directory, FILE, flags, Mode::empty()).ok()?;
    let mut text = Vec::with_capacity(512);
    File::from(file).take(MOST).read_to_end(&mut text).ok()?;
    let line = text.split(|byte| *byte == END).next()?;
    let (sealed, body) = std::str::from_utf8(line).ok()?.split_once(' ')?;
    let expected = seal(recorded, body).ok()?;
    let latest = (sealed == expected.to_string()).then(|| serde_json::from_str(body).ok());
    latest
        .flatten()
        .filter(|latest: &BaseMarker| latest.is_of_this_run())
}

/// Tells what is whole, and after what: written over in place, the machine may have ended on the way.
fn seal(recorded: BaseMarker, body: &str) -> io::Result<Digest> {
    let recorded = serde_json::to_string(&recorded)?;
    Ok(Digest::of(format!("{recorded}\n{body}").as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::super::beneath::Stamp;
    use super::super::clock::Clock;
    use super::*;
    use std::fs;
    use std::sync::OnceLock;

    fn at(seconds: i64) -> BaseMarker {
        static CLOCK: OnceLock<Option<Clock>> = OnceLock::new();
        BaseMarker {
            stamp: Stamp {
                seconds,
                nanoseconds: 5,
            },
            coarse: true,
            clock: *CLOCK.get_or_init(Clock::now),
        }
    }

    /// The same of an earlier run of the machine.
    fn earlier(marker: BaseMarker) -> BaseMarker {
        let mut told = serde_json::to_value(marker).unwrap();
        told["clock"]["boot"] = "0".repeat(64).into();
        serde_json::from_value(told).unwrap()
    }

    #[test]
    fn what_was_noted_before_the_machine_was_started_counts_for_nothing() {
        let place = tempfile::tempdir().unwrap();
        let directory = File::open(place.path()).unwrap();
        let recorded = at(1);
        let unknown = BaseMarker {
            clock: None,
            ..recorded
        };
        for latest in [earlier(recorded), unknown] {
            assert!(write(&directory, recorded, latest).is_err());
            let body = serde_json::to_string(&latest).unwrap();
            let line = format!("{} {body}\n", seal(recorded, &body).unwrap());
            fs::write(place.path().join(FILE), line).unwrap();
            assert_eq!(read(&directory, recorded), None, "{latest:?}");
        }
    }

    #[test]
    fn the_latest_counts_for_the_record_it_follows_and_no_other() {
        let place = tempfile::tempdir().unwrap();
        let directory = File::open(place.path()).unwrap();
        assert_eq!(read(&directory, at(1)), None);
        for latest in [at(1_000_000_007), at(2), at(30)] {
            write(&directory, at(1), latest).unwrap();
            assert_eq!(read(&directory, at(1)), Some(latest));
            assert_eq!(read(&directory, at(2)), None, "of another record");
        }
    }

    #[test]
    fn nothing_that_is_torn_counts() {
        let place = tempfile::tempdir().unwrap();
        let directory = File::open(place.path()).unwrap();
        let file = place.path().join(FILE);
        write(&directory, at(1), at(20)).unwrap();
        let whole = fs::read(&file).unwrap();
        write(&directory, at(1), at(37)).unwrap();
        let next = fs::read(&file).unwrap();
        assert_eq!(whole.len(), next.len());
        for cut in 0..whole.len() {
            let short = whole.get(..cut).unwrap();
            fs::write(&file, short).unwrap();
            let read_short = read(&directory, at(1));
            assert!(read_short.is_none() || cut + 1 == whole.len(), "{cut}");
            let mixed = [short, next.get(cut..).unwrap()].concat();
            fs::write(&file, &mixed).unwrap();
            let known = mixed == whole || mixed == next;
            assert_eq!(read(&directory, at(1)).is_some(), known, "{cut}");
        }
        for other in [&b"\0\0\0\0"[..], b"", b"{}\n", b" \n", b"\xff \n"] {
            fs::write(&file, other).unwrap();
            assert_eq!(read(&directory, at(1)), None, "{other:?}");
        }
        fs::remove_file(&file).unwrap();
        let elsewhere = place.path().join("elsewhere");
        fs::write(&elsewhere, &whole).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &file).unwrap();
        assert_eq!(read(&directory, at(1)), None, "a link");
        assert!(write(&directory, at(1), at(2)).is_err(), "a link");
    }
}
