//! What a program reads and writes: attached to whoever waits for it, or kept within bounds.

use airlock_sandbox::launch::{Stdin, TerminalSize};
use std::io::{self, Write};
use std::sync::Arc;

/// Steers a command while it runs, from another thread.
pub trait Steering: Send + Sync {
    /// Ends it, and everything it started.
    fn cancel(&self);
    /// Passes a signal on to it.
    fn signal(&self, number: u8);
    /// Tells its terminal another size.
    fn resize(&self, size: TerminalSize);
}

#[cfg(target_os = "linux")]
impl Steering for airlock_sandbox::Control {
    fn cancel(&self) {
        Self::cancel(self);
    }

    fn signal(&self, number: u8) {
        Self::signal(self, number);
    }

    fn resize(&self, size: TerminalSize) {
        Self::resize(self, size);
    }
}

/// The streams of a person who waits for a command they typed: bytes pass unchanged.
pub struct Attached<'a> {
    /// What the command reads.
    pub stdin: Stdin,
    /// Takes its standard output, and everything it writes to its terminal.
    pub stdout: &'a mut (dyn Write + Send),
    /// Takes its standard error.
    pub stderr: &'a mut (dyn Write + Send),
    /// Gives it a terminal of its own.
    pub terminal: Option<TerminalSize>,
    /// Is handed what steers the command, once it can be steered.
    pub started: &'a (dyn Fn(Arc<dyn Steering>) + Sync),
}

/// Keeps the beginning and the end of what is written to it; what lies between is counted.
#[derive(Debug)]
pub(super) struct Kept {
    half: usize,
    head: Vec<u8>,
    tail: std::collections::VecDeque<u8>,
    cut: u64,
}

impl Kept {
    /// Keeps `most` bytes at most.
    pub(super) fn new(most: usize) -> Self {
        Self {
            half: most / 2,
            head: Vec::new(),
            tail: std::collections::VecDeque::new(),
            cut: 0,
        }
    }

    /// What was kept, with a mark where something is missing.
    pub(super) fn text(self) -> (String, bool) {
        let (first, second) = self.tail.as_slices();
        let tail = [first, second].concat();
        if self.cut == 0 {
            let whole = [self.head.as_slice(), &tail].concat();
            return (String::from_utf8_lossy(&whole).into_owned(), false);
        }
        let (head, tail) = (
            String::from_utf8_lossy(&self.head),
            String::from_utf8_lossy(&tail),
        );
        let cut = self.cut;
        (format!("{head}\n[… {cut} bytes cut …]\n{tail}"), true)
    }
}

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = self.half.saturating_sub(self.head.len()).min(bytes.len());
        let (front, rest) = bytes.split_at_checked(room).unwrap_or((bytes, &[]));
        self.head.extend_from_slice(front);
        self.tail.extend(rest);
        let over = self.tail.len().saturating_sub(self.half);
        self.tail.drain(..over);
        self.cut += over as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_and_the_end_are_kept_however_much_is_written() {
        let mut kept = Kept::new(8);
        for piece in [&b"ab"[..], b"cdef", b"ghijklm", b"n"] {
            kept.write_all(piece).unwrap();
        }
        assert_eq!(
            kept.text(),
            ("abcd\n[… 6 bytes cut …]\nklmn".to_owned(), true)
        );
        let mut kept = Kept::new(8);
        kept.write_all(b"abcdefgh").unwrap();
        assert_eq!(kept.text(), ("abcdefgh".to_owned(), false));
    }
}
