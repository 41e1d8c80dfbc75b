//! Bytes to text: the checks that come before any parsing.
//!
//! Guarantee: text that passes is at most [`limits::POLICY_BYTES`] long, and what a reviewer sees is
//! what is parsed: no control, invisible or direction-changing characters, and no line break but
//! `\n` and `\r\n`. Escapes inside quoted values are the tree's business.

use super::code;
use super::problems::{Problems, Spot};
use crate::document::Place;
use airlock_core::{is_hidden, limits};

/// The text of the file, or `None` and at least one problem.
pub(super) fn text<'a>(bytes: &'a [u8], problems: &mut Problems) -> Option<&'a str> {
    let before = problems.errors();
    if bytes.len() > limits::POLICY_BYTES {
        problems.error(
            code::TOO_LARGE,
            at(1, 1),
            // Who reads it may have stopped there, so how large it is is not known here.
            format!("the file is larger than {} bytes", limits::POLICY_BYTES),
            "split what is not policy into other files, or shorten lists with globs",
        );
        return None;
    }
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            not_utf8(bytes, error.valid_up_to(), problems);
            return None;
        }
    };
    characters(text, problems);
    (problems.errors() == before).then_some(text)
}

fn at(line: usize, column: usize) -> Spot {
    let small = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    Spot {
        place: Place {
            line: small(line),
            column: small(column),
        },
        length: 1,
    }
}

fn not_utf8(bytes: &[u8], valid: usize, problems: &mut Problems) {
    let good = bytes
        .get(..valid)
        .and_then(|prefix| std::str::from_utf8(prefix).ok())
        .unwrap_or_default();
    let line = good.matches('\n').count() + 1;
    let column = good.chars().rev().take_while(|c| *c != '\n').count() + 1;
    let utf16 = bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]);
    let what = if utf16 {
        "the file is UTF-16, not UTF-8"
    } else {
        "the file is not UTF-8 from here on"
    };
    problems.error(
        code::NOT_UTF8,
        at(line, column),
        what,
        "save the file as UTF-8",
    );
}

fn characters(text: &str, problems: &mut Problems) {
    let (mut line, mut column) = (1, 1);
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\n' => {
                line += 1;
                column = 1;
                continue;
            }
            '\t' => {}
            '\r' if rest.peek() == Some(&'\n') => {}
            '\r' => problems.error(
                code::CONTROL_CHARACTER,
                at(line, column),
                "a carriage return without a line feed: some editors hide what follows it",
                "end lines with a line feed",
            ),
            '\u{feff}' if (line, column) == (1, 1) => problems.error(
                code::BYTE_ORDER_MARK,
                at(line, column),
                "the file begins with a byte order mark",
                "save the file as UTF-8 without a byte order mark",
            ),
            '\0' => problems.error(
                code::CONTROL_CHARACTER,
                at(line, column),
                "a NUL character",
                "remove it; if there are many, save the file as UTF-8 instead of UTF-16",
            ),
            c if c.is_control() => problems.error(
                code::CONTROL_CHARACTER,
                at(line, column),
                format!("the control character U+{:04X}", u32::from(c)),
                "remove it",
            ),
            c if is_hidden(c) => problems.error(
                code::HIDDEN_CHARACTER,
                at(line, column),
                format!("the invisible character U+{:04X}", u32::from(c)),
                "remove it: a reviewer would not see what it does",
            ),
            _ => {}
        }
        column += 1;
    }
}
