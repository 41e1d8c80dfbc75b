//! What the kernel says about a process in `/proc/PID/stat`. Reads only; processes may vanish.
//!
//! The name in it is chosen by the process and may contain parentheses, spaces and newlines: what
//! follows the last `)` is the kernel's own.

use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::Path;

/// One process, which no other can be mistaken for until the machine restarts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Process {
    /// Its number.
    pub(crate) pid: u32,
    /// When it started, in ticks since the machine did: a number used again differs here.
    pub(crate) start_time: u64,
}

impl Process {
    /// The process that has this number now.
    pub(crate) fn of(pid: u32) -> io::Result<Self> {
        Stat::read(Path::new("/proc"), pid).map(|stat| Self {
            pid,
            start_time: stat.start_time,
        })
    }

    /// The calling process.
    pub(crate) fn current() -> io::Result<Self> {
        Self::of(std::process::id())
    }
}

/// The part of `/proc/PID/stat` that is used here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stat {
    /// The parent.
    pub(crate) parent: u32,
    /// Threads, itself among them.
    pub(crate) threads: u64,
    /// Ticks of processor time of its own.
    pub(crate) own: u64,
    /// Ticks of the children it has waited for, and of those they had waited for.
    pub(crate) waited: u64,
    /// When it started, in ticks since the machine did.
    pub(crate) start_time: u64,
    /// Resident pages, shared ones included.
    pub(crate) pages: u64,
}

// Where a field stands after the name; the manual counts from 1 and has the name second.
const PARENT: usize = 4 - 3;
const OWN: [usize; 2] = [14 - 3, 15 - 3];
const WAITED: [usize; 2] = [16 - 3, 17 - 3];
const THREADS: usize = 20 - 3;
const START_TIME: usize = 22 - 3;
const PAGES: usize = 24 - 3;
const ARGUMENTS: usize = 48 - 3;

impl Stat {
    /// Parses the whole text of the file; nothing if it is not one.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        let fields: Vec<&str> = fields(text)?.take(PAGES + 1).collect();
        let number = |at: usize| -> Option<u64> {
            let field = fields.get(at)?;
            // Times of children can be shown negative by old kernels; that is none.
            field
                .parse::<i128>()
                .ok()
                .map(|value| u64::try_from(value).unwrap_or(0))
        };
        let sum = |at: [usize; 2]| at.into_iter().map(number).sum::<Option<u64>>();
        Some(Self {
            parent: number(PARENT)?.try_into().ok()?,
            threads: number(THREADS)?,
            own: sum(OWN)?,
            waited: sum(WAITED)?,
            start_time: number(START_TIME)?,
            pages: number(PAGES)?,
        })
    }

    /// Reads that of a process; an error if it is gone.
    pub(crate) fn read(proc: &Path, pid: u32) -> io::Result<Self> {
        let mut text = Vec::with_capacity(512);
        read_into(&proc.join(format!("{pid}/stat")), &mut text)?;
        Self::parse(&text).ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    }
}

/// The fields after the name.
fn fields(text: &[u8]) -> Option<std::str::SplitAsciiWhitespace<'_>> {
    let end = text.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(text.get(end + 1..)?).ok()?;
    Some(rest.split_ascii_whitespace())
}

/// Where in memory the calling process has the arguments it was started with.
pub(crate) fn own_arguments() -> io::Result<Range<usize>> {
    let mut text = Vec::with_capacity(512);
    read_into(Path::new("/proc/self/stat"), &mut text)?;
    arguments(&text).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// The same by the text of the file. Whoever may not know it is told zeroes.
fn arguments(text: &[u8]) -> Option<Range<usize>> {
    let mut ends = fields(text)?
        .skip(ARGUMENTS)
        .map_while(|end| end.parse::<usize>().ok());
    let place = ends.next()?..ends.next()?;
    (place.start > 0 && place.start <= place.end).then_some(place)
}

/// Reads a small file of `/proc` whose size is not known before.
pub(super) fn read_into(path: &Path, text: &mut Vec<u8>) -> io::Result<()> {
    text.clear();
    File::open(path)?.read_to_end(text).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const REST: &str =
        "S 7 1 1 0 -1 4194560 1 2 3 4 10 20 30 40 20 0 5 0 777 4096 99 18446744073709551615 1 1";

    #[test]
    fn no_name_changes_what_the_fields_say() {
        let want = Stat {
            parent: 7,
            threads: 5,
            own: 30,
            waited: 70,
            start_time: 777,
            pages: 99,
        };
        for name in [
            "sh",
            "a b",
            ")",
            "(",
            ") S 1 1",
            "x) R 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 1 1 1",
            "two\nlines",
            "",
            "\u{fc}",
        ] {
            let text = format!("42 ({name}) {REST}\n");
            assert_eq!(Stat::parse(text.as_bytes()), Some(want), "{name}");
        }
        let mut raw = b"42 (\xff\xfe) ".to_vec();
        raw.extend_from_slice(REST.as_bytes());
        assert_eq!(Stat::parse(&raw), Some(want), "not even text");
    }

    #[test]
    fn what_is_cut_short_is_nothing() {
        for text in [
            "",
            "42",
            "42 (sh",
            "42 (sh)",
            "42 (sh) S 7 1 1",
            "42 (sh) S x",
        ] {
            assert_eq!(Stat::parse(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn arguments_are_where_the_kernel_says_or_nowhere() {
        let of = |start: &str, end: &str| {
            let before = "0 ".repeat(ARGUMENTS);
            arguments(format!("42 (a) b) {before}{start} {end} 0 0 0\n").as_bytes())
        };
        assert_eq!(of("4096", "5000"), Some(4_096..5_000));
        for (start, end) in [
            ("0", "0"),
            ("5000", "4096"),
            ("x", "1"),
            ("1", ""),
            ("1", "-1"),
        ] {
            assert_eq!(of(start, end), None, "{start} {end}");
        }
        assert_eq!(arguments(format!("42 (sh) {REST}").as_bytes()), None);
        let own = own_arguments().unwrap();
        let told = std::fs::read("/proc/self/cmdline").unwrap();
        assert_eq!(own.len(), told.len());
    }

    #[test]
    fn a_process_is_itself_and_its_parent_is_someone_else() {
        let (one, two) = (Process::current().unwrap(), Process::current().unwrap());
        assert_eq!(one, two);
        let stat = Stat::read(Path::new("/proc"), one.pid).unwrap();
        assert_ne!(Process::of(stat.parent).unwrap(), one);
        assert!(Process::of(u32::MAX).is_err());
    }

    proptest! {
        #[test]
        fn nothing_makes_the_parser_panic(text in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = Stat::parse(&text);
            let mut framed = b"1 (".to_vec();
            framed.extend(text);
            framed.extend_from_slice(format!(") {REST}").as_bytes());
            prop_assert!(Stat::parse(&framed).is_some());
        }
    }
}
