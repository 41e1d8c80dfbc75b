//! Private keys in blocks: every kind of PEM, of PGP, of SSH, and those of PuTTY.
//!
//! A block may stand in a file, in a string of a program with its line ends written out, in a diff,
//! or be cut off before its end. What belongs to it is told line by line, so text after a block
//! without an end stays.

use super::{LONGEST, Step};
use crate::class::{BASE64, Class, table};

/// What may stand before the text of a line: indents, quotes, marks of a diff or a comment.
const BEFORE: Class = {
    static TABLE: [bool; 256] = table(" \t\r\"'`+>#*|,\\");
    Class::new(&TABLE)
};
/// Less of it is no key.
const LEAST: usize = 16;
/// What a piece of a key has at least when the next stands in the same line.
const PIECE: usize = 16;
/// Headers such as `Proc-Type: 4,ENCRYPTED` stand in the first lines only.
const HEADERS: usize = 6;
const HEADER_LINE: usize = 120;
const TITLE: usize = 80;

/// A block that begins at `at` with `-----BEGIN `.
pub(super) fn private_key(text: &[u8], at: usize, last: bool) -> Step {
    let from = at + "-----BEGIN ".len();
    let rest = text.get(from..).unwrap_or_default();
    let near = rest.get(..TITLE).unwrap_or(rest);
    let title = near
        .iter()
        .position(|byte| !(byte.is_ascii_alphanumeric() || *byte == b' '));
    let Some(title) = title else {
        return if rest.len() < TITLE && !last {
            Step::More
        } else {
            Step::No
        };
    };
    let dashes = near.get(title..).unwrap_or_default();
    if dashes.len() < 5 && b"-----".starts_with(dashes) && !last {
        return Step::More;
    }
    let words = near.get(..title).unwrap_or_default();
    let private = words.ends_with(b"PRIVATE KEY") || words.ends_with(b"PRIVATE KEY BLOCK");
    if !private || !dashes.starts_with(b"-----") {
        return Step::No;
    }
    let mut body = Body {
        text,
        at: from + title + 5,
        last,
        key: 0,
        end: at,
        headers: 0,
    };
    body.follow(at)
}

/// The text of a key, followed line by line.
struct Body<'t> {
    text: &'t [u8],
    at: usize,
    last: bool,
    /// Bytes of key so far.
    key: usize,
    /// Where they end.
    end: usize,
    headers: usize,
}

/// What the next thing in a block is.
enum Next {
    Key(usize),
    Header(usize),
    End(usize),
    Other,
    More,
}

impl Body<'_> {
    fn follow(&mut self, begin: usize) -> Step {
        while self.at - begin < LONGEST {
            self.at += self.decoration();
            match self.next() {
                Next::Key(count) => {
                    self.key += count;
                    self.at += count;
                    self.end = self.at;
                }
                Next::Header(count) => {
                    self.headers += 1;
                    self.at += count;
                }
                Next::End(count) => {
                    self.end = self.at + count;
                    break;
                }
                Next::Other => break,
                Next::More => return Step::More,
            }
        }
        if self.key >= LEAST {
            Step::Found(begin..self.end)
        } else {
            Step::No
        }
    }

    fn rest(&self) -> &[u8] {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Line ends, also written out, and what stands before the text of a line.
    fn decoration(&self) -> usize {
        let rest = self.rest();
        let mut count = 0;
        loop {
            let here = rest.get(count..).unwrap_or_default();
            count += match here {
                [b'\\', b'n' | b'r' | b't', ..] => 2,
                [b'\\', b'u', b'0', b'0', b'0', b'a' | b'A' | b'd' | b'D', ..] => 6,
                [b'%', b'0', b'A' | b'a' | b'D' | b'd', ..] => 3,
                [b'\n', ..] => 1,
                [byte, ..] if BEFORE.has(*byte) => 1,
                // A removed line of a diff; a dash is never part of the text of a key.
                [b'-', byte, ..] if BASE64.has(*byte) => 1,
                [b'-', b'-', b'-', b'-', b'-', b'-', b'E', ..] => 1,
                _ => return count,
            };
            if count > LONGEST {
                return count;
            }
        }
    }

    fn next(&self) -> Next {
        let rest = self.rest();
        if rest.is_empty() {
            return if self.last { Next::Other } else { Next::More };
        }
        if rest.first() == Some(&b'-') {
            return self.closing(rest);
        }
        // Whatever a byte means may depend on a few after it.
        if !self.last && rest.len() < 8 {
            return Next::More;
        }
        if rest.first() == Some(&b'=') {
            // The checksum of a PGP block.
            let count = 1 + BASE64.run(rest.get(1..).unwrap_or_default(), 4);
            return Next::Key(count);
        }
        let count = BASE64.run(rest, LONGEST);
        if count == rest.len() && !self.last {
            return Next::More;
        }
        let padding = rest.get(count..).unwrap_or_default().iter().take(2);
        let count = count + padding.take_while(|byte| **byte == b'=').count();
        let after = rest.get(count..).unwrap_or_default();
        match after.first() {
            Some(b':' | b'-')
                if !after.starts_with(b"--") && self.headers < HEADERS && self.key == 0 =>
            {
                self.header(rest)
            }
            Some(b' ' | b'\t') if count < PIECE => self.alone(count, after),
            Some(b'\n' | b'\r' | b'\\' | b'"' | b'\'' | b'`' | b' ' | b'\t' | b'%' | b'-')
            | None => {
                if count == 0 {
                    Next::Other
                } else {
                    Next::Key(count)
                }
            }
            Some(
                b',' | b'+' | b')' | b';' | b'<' | b'}' | b']' | b'.' | b'|' | b'*' | b'#' | b'&',
            ) if count >= PIECE => Next::Key(count),
            _ => Next::Other,
        }
    }

    /// A short piece with a blank after it belongs to the key only if the key ends there.
    fn alone(&self, count: usize, after: &[u8]) -> Next {
        let blanks = after
            .iter()
            .take(8)
            .take_while(|byte| b" \t\r".contains(byte))
            .count();
        let then = after.get(blanks..).unwrap_or_default();
        if then.len() < 5 && !self.last {
            return Next::More;
        }
        if then.starts_with(b"-----") || then.starts_with(b"\n") || then.is_empty() {
            Next::Key(count)
        } else {
            Next::Other
        }
    }

    fn header(&self, rest: &[u8]) -> Next {
        let near = rest.get(..HEADER_LINE).unwrap_or(rest);
        let end = near
            .iter()
            .position(|byte| *byte == b'\n' || *byte == b'\\');
        let Some(end) = end else {
            return if near.len() < HEADER_LINE && !self.last {
                Next::More
            } else {
                Next::Other
            };
        };
        let line = near.get(..end).unwrap_or_default();
        let colon = memchr::memchr(b':', line).unwrap_or(0);
        let name = line.get(..colon).unwrap_or_default();
        let plain = name
            .iter()
            .all(|byte| byte.is_ascii_alphabetic() || *byte == b'-');
        if colon > 0 && colon < 24 && plain {
            Next::Header(end)
        } else {
            Next::Other
        }
    }

    /// `-----END RSA PRIVATE KEY-----`, dashes included.
    fn closing(&self, rest: &[u8]) -> Next {
        const MARK: &[u8] = b"-----END ";
        let near = rest.get(..TITLE + 20).unwrap_or(rest);
        if near.len() < MARK.len() && MARK.starts_with(near) {
            return if self.last { Next::Other } else { Next::More };
        }
        if !near.starts_with(MARK) {
            return Next::Other;
        }
        let title = near.get(MARK.len()..).unwrap_or_default();
        let words = title
            .iter()
            .position(|byte| !(byte.is_ascii_alphanumeric() || *byte == b' '));
        let Some(words) = words else {
            let open = near.len() < TITLE + 20 && !self.last;
            return if open {
                Next::More
            } else {
                Next::End(near.len())
            };
        };
        let after = title.get(words..).unwrap_or_default();
        if after.len() < 5 && after.iter().all(|byte| *byte == b'-') && !self.last {
            return Next::More;
        }
        let dashes = after
            .iter()
            .take(5)
            .take_while(|byte| **byte == b'-')
            .count();
        Next::End(MARK.len() + words + dashes)
    }
}

/// The private lines of a PuTTY key: `Private-Lines: n` and n lines of base64.
pub(super) fn putty(text: &[u8], at: usize, last: bool) -> Step {
    let from = at + "Private-Lines: ".len();
    let rest = text.get(from..).unwrap_or_default();
    let digits = rest
        .iter()
        .take(3)
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    if rest.len() <= digits + 1 && !last {
        return Step::More;
    }
    let begin = from + digits;
    if digits == 0 {
        return Step::No;
    }
    let mut body = Body {
        text,
        at: begin,
        last,
        key: 0,
        end: begin,
        headers: HEADERS,
    };
    match body.follow(begin) {
        Step::Found(range) => {
            let blank = text.get(range.clone()).unwrap_or_default();
            let blank = blank
                .iter()
                .take_while(|byte| byte.is_ascii_whitespace())
                .count();
            Step::Found(range.start + blank..range.end)
        }
        step @ (Step::No | Step::More) => step,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7";

    fn found(text: &str) -> Option<&str> {
        match private_key(text.as_bytes(), 0, true) {
            Step::Found(range) => text.get(range),
            Step::No | Step::More => None,
        }
    }

    #[test]
    fn blocks_of_every_kind_are_found_whole() {
        for title in [
            "PRIVATE KEY",
            "RSA PRIVATE KEY",
            "EC PRIVATE KEY",
            "DSA PRIVATE KEY",
            "OPENSSH PRIVATE KEY",
            "ENCRYPTED PRIVATE KEY",
            "PGP PRIVATE KEY BLOCK",
            "ANY PRIVATE KEY",
        ] {
            for (between, first) in [
                ("\n", "\n"),
                ("\r\n", "\r\n"),
                ("\\n", "\\n"),
                ("\n    ", "\n    "),
                (" ", " "),
                ("\n+", "\n+"),
                ("\n-", "\n-"),
                ("\\n\" +\n \"", "\\n\" +\n \""),
                (
                    "\n",
                    "\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0A1B2C3D\n\n",
                ),
                ("\n", "\nVersion: GnuPG v2\nComment: a key of nobody\n\n"),
            ] {
                let key = format!(
                    "-----BEGIN {title}-----{first}{LINE}{between}{LINE}{between}Ab3d=={between}-----END {title}-----"
                );
                let text = format!("{key}\nafter it");
                let out = found(&text).unwrap_or_default();
                assert!(
                    out.len() + 2 >= key.len() && text.starts_with(out),
                    "{key}\n{out}"
                );
            }
        }
    }

    #[test]
    fn a_block_without_an_end_takes_no_text_with_it() {
        let text = format!(
            "-----BEGIN {}-----\n{LINE}\nAnd then the story goes on.",
            "PRIVATE KEY"
        );
        assert!(found(&text).is_some_and(|out| out.ends_with(LINE)));
    }

    #[test]
    fn a_title_alone_is_no_key() {
        for text in [
            "-----BEGIN PRIVATE KEY-----",
            "-----BEGIN PRIVATE KEY-----\" starts one, and",
            "-----BEGIN CERTIFICATE-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7",
            "-----BEGIN PUBLIC KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7",
        ] {
            assert_eq!(found(text), None, "{text}");
        }
    }
}
