//! What bubblewrap itself says on a command's streams when it could not run it.
//!
//! Bubblewrap reports a failure by a line on the command's own standard error, and elsewhere whether
//! the command had been started. Only if it had not are these words read: then nobody but bubblewrap
//! has written. A command that prints the same words changes nothing.

use crate::launch::NotStarted;
use std::io::{self, Write};

const PREFIX: &[u8] = b"bwrap: ";
/// The most that is held back: a path and some words.
const MOST: usize = 8 * 1024;

/// Passes on what is written. Only what begins as bubblewrap's words do is held back until it is
/// known whose it was; a name in them may have line breaks, so that a line is no bound.
pub(in super::super) struct Screen<'a> {
    to: &'a mut (dyn Write + Send),
    held: Vec<u8>,
    /// Nothing is held back any more.
    open: bool,
}

impl<'a> Screen<'a> {
    /// With `open` everything passes.
    pub(in super::super) fn new(to: &'a mut (dyn Write + Send), open: bool) -> Self {
        Self {
            to,
            held: Vec::new(),
            open,
        }
    }

    /// Passes on what was held back, or gives it if it was `bubblewrap`'s.
    pub(in super::super) fn finish(mut self, bubblewraps: bool) -> io::Result<Vec<u8>> {
        let held = std::mem::take(&mut self.held);
        if bubblewraps {
            return Ok(held);
        }
        self.to.write_all(&held)?;
        self.to.flush()?;
        Ok(Vec::new())
    }

    fn may_be_bubblewraps(&self) -> bool {
        let begins = self.held.iter().zip(PREFIX).all(|(a, b)| a == b);
        begins && self.held.len() <= MOST
    }
}

impl Write for Screen<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.open {
            return self.to.write(bytes);
        }
        self.held.extend(bytes);
        if !self.may_be_bubblewraps() {
            self.open = true;
            self.to.write_all(&std::mem::take(&mut self.held))?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// Why bubblewrap could not run a command, by its own words.
pub(in super::super) fn reason(said: &[u8]) -> Option<NotStarted> {
    let said = said.trim_ascii_end().strip_prefix(PREFIX)?;
    if said.starts_with(b"Can't chdir to ") {
        return Some(NotStarted::NoDirectory);
    }
    let said = said.strip_prefix(b"execvp ")?;
    let ends = |words: &str| {
        let rest = said.strip_suffix(words.as_bytes());
        rest.is_some_and(|rest| rest.ends_with(b": "))
    };
    let found = WORDS.iter().find(|(words, _)| ends(words));
    Some(found.map_or(NotStarted::Other(0), |(_, reason)| *reason))
}

/// What the C library calls errors; bubblewrap never asks for another language.
const WORDS: &[(&str, NotStarted)] = &[
    ("No such file or directory", NotStarted::NotFound),
    ("Not a directory", NotStarted::NotFound),
    ("Permission denied", NotStarted::NotExecutable),
    ("Exec format error", NotStarted::NotExecutable),
    ("Is a directory", NotStarted::NotExecutable),
    ("Operation not permitted", NotStarted::NotExecutable),
    ("Argument list too long", NotStarted::TooLong),
];

/// The code a shell would give.
pub(in super::super) const fn exit_code(reason: NotStarted) -> u8 {
    match reason {
        NotStarted::NotFound => 127,
        NotStarted::NotExecutable | NotStarted::TooLong | NotStarted::Other(_) => 126,
        NotStarted::NoDirectory => 125,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(pieces: &[&str], bubblewraps: bool) -> (String, String) {
        let mut out = Vec::new();
        let mut screen = Screen::new(&mut out, false);
        for piece in pieces {
            screen.write_all(piece.as_bytes()).unwrap();
        }
        let held = screen.finish(bubblewraps).unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (text(out), text(held))
    }

    #[test]
    fn only_words_like_bubblewraps_are_held_back_and_never_lost() {
        let line = "bwrap: execvp x: No such file or directory\n";
        for pieces in [
            vec!["hello"],
            vec!["b", "wr", "ong"],
            vec![line],
            vec!["bwrap", ": x", "\n", "more"],
            vec!["bwrap"],
            vec!["bwrap: ", &"x".repeat(MOST), "y"],
            vec![],
        ] {
            let whole = pieces.concat();
            assert_eq!(passed(&pieces, false), (whole, String::new()), "{pieces:?}");
        }
        assert_eq!(passed(&[line], true), (String::new(), line.to_owned()));
    }

    #[test]
    fn bubblewraps_words_have_their_reasons() {
        for (said, want) in [
            (
                "bwrap: execvp x: No such file or directory\n",
                Some(NotStarted::NotFound),
            ),
            (
                "bwrap: execvp x: Permission denied\r\n",
                Some(NotStarted::NotExecutable),
            ),
            (
                "bwrap: execvp a: b: Not a directory",
                Some(NotStarted::NotFound),
            ),
            (
                "bwrap: execvp x: Too many open files",
                Some(NotStarted::Other(0)),
            ),
            (
                "bwrap: Can't chdir to /x: No such file or directory",
                Some(NotStarted::NoDirectory),
            ),
            (
                "bwrap: Can't find source path /x: No such file or directory",
                None,
            ),
            ("execvp x: Permission denied", None),
            ("", None),
        ] {
            assert_eq!(reason(said.as_bytes()), want, "{said}");
        }
    }
}
