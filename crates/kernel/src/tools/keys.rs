//! Private keys that are shown in parts: a part has no header to be known by.
//!
//! Tools that show some lines of a file follow its key blocks from the beginning, and put a
//! placeholder where a shown line is part of one.

use memchr::memmem;
use std::io::{self, BufRead, BufReader, Read};

/// What stands for a line of a private key.
pub(super) const PLACEHOLDER: &str = "[secret:private-key]";

/// Lines longer than this are no key lines; only their beginning is looked at.
const LINE_BYTES: u64 = 64 * 1024;

/// Whether `bytes` may hold a private key: if not, [`lines`] finds none in them.
pub(super) fn may_be_in(bytes: &[u8]) -> bool {
    memmem::find(bytes, b"PRIVATE KEY").is_some()
}

/// Whether the line after `line` is within a private key, given whether `line` is.
pub(super) fn inside_after(line: &[u8], inside: bool) -> bool {
    let has = |wanted: &[u8]| line.windows(wanted.len()).any(|window| window == wanted);
    if inside {
        return !(has(b"-----END ") && has(b"PRIVATE KEY"));
    }
    has(b"-----BEGIN ") && has(b"PRIVATE KEY")
}

/// First and last line of each private key in `file`, from its beginning.
pub(super) fn lines(file: impl Read) -> io::Result<Vec<(u64, u64)>> {
    let mut reader = BufReader::with_capacity(64 * 1024, file);
    let (mut found, mut begun) = (Vec::new(), None);
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        if reader
            .by_ref()
            .take(LINE_BYTES)
            .read_until(b'\n', &mut line)?
            == 0
        {
            break;
        }
        if !line.ends_with(b"\n") {
            reader.skip_until(b'\n')?;
        }
        // Almost no line has this; the rest of the work is for those that do.
        if begun.is_none() && !line.starts_with(b"--") && !line.contains(&b'-') {
            continue;
        }
        match (begun, inside_after(&line, begun.is_some())) {
            (None, true) => begun = Some(number),
            (Some(first), false) => {
                found.push((first, number));
                begun = None;
            }
            (None, false) | (Some(_), true) => {}
        }
    }
    found.extend(begun.map(|first| (first, u64::MAX)));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_blocks_are_found_whole_and_cut_off() {
        let text = format!(
            "a\n-----BEGIN {0}-----\nx\n-----END {0}-----\nb-c\n",
            "RSA PRIVATE KEY"
        );
        assert_eq!(lines(text.as_bytes()).unwrap(), [(2, 4)]);
        assert!(may_be_in(text.as_bytes()) && !may_be_in(b"-----BEGIN CERTIFICATE-----"));
        let cut: String = text.lines().take(3).collect::<Vec<_>>().join("\n");
        assert_eq!(lines(cut.as_bytes()).unwrap(), [(2, u64::MAX)]);
        assert!(
            lines("-----BEGIN CERTIFICATE-----\nx\n".as_bytes())
                .unwrap()
                .is_empty()
        );
    }
}
