//! Takes what a plugin prints: the first line is its handshake, the rest is output.
//!
//! Holds at most [`LONGEST`] bytes of a first line, however much comes.

use crate::output::Output;
use std::io::{self, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// A certificate for RSA with 4,096 bits takes 2 KiB in it; this is room enough.
pub(crate) const LONGEST: usize = 16 * 1024;

/// What came of the first line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FirstLine {
    Whole(Vec<u8>),
    /// Longer than a handshake ever is.
    TooLong(Vec<u8>),
    /// Standard output was closed before its end.
    Unfinished(Vec<u8>),
}

/// The writing end.
pub(crate) struct Lines {
    /// None once the first line is decided.
    first: Option<(Vec<u8>, SyncSender<FirstLine>)>,
    output: Output,
}

impl Lines {
    pub(crate) fn new(output: Output) -> (Self, Receiver<FirstLine>) {
        let (sender, receiver) = sync_channel(1);
        let lines = Self {
            first: Some((Vec::new(), sender)),
            output,
        };
        (lines, receiver)
    }

    fn decide(&mut self, make: impl FnOnce(Vec<u8>) -> FirstLine) {
        if let Some((line, sender)) = self.first.take() {
            // Nobody waits for it any more if the start has failed meanwhile.
            let _sent = sender.try_send(make(line));
        }
    }
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some((line, _)) = &mut self.first else {
            self.output.push(bytes);
            return Ok(bytes.len());
        };
        let room = LONGEST.saturating_sub(line.len());
        let mut parts = bytes.splitn(2, |byte| *byte == b'\n');
        let head = parts.next().unwrap_or_default();
        line.extend(head.iter().take(room));
        if head.len() > room {
            self.decide(FirstLine::TooLong);
        } else if let Some(rest) = parts.next() {
            self.decide(FirstLine::Whole);
            self.output.push(rest);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        self.decide(FirstLine::Unfinished);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(pieces: &[&[u8]]) -> (Option<FirstLine>, String) {
        let output = Output::new(1024);
        let (mut lines, receiver) = Lines::new(output.clone());
        for piece in pieces {
            lines.write_all(piece).unwrap();
        }
        (receiver.try_recv().ok(), output.text())
    }

    #[test]
    fn the_first_line_is_found_however_it_is_cut_and_the_rest_is_output() {
        let whole = Some(FirstLine::Whole(b"1|1|x".to_vec()));
        for (case, pieces) in [
            ("at once", &[b"1|1|x\nmore\n".as_slice()] as &[&[u8]]),
            ("in pieces", &[b"1|", b"1|x", b"\n", b"mo", b"re\n"]),
            ("cut after the line", &[b"1|1|x\n", b"more\n"]),
        ] {
            let (line, output) = after(pieces);
            assert_eq!((line, output.as_str()), (whole.clone(), "more\n"), "{case}");
        }
    }

    #[test]
    fn a_line_without_end_is_decided_and_not_kept() {
        let endless = vec![b'a'; LONGEST + 1];
        let (line, _) = after(&[&endless]);
        assert_eq!(line, Some(FirstLine::TooLong(vec![b'a'; LONGEST])));
        let many: Vec<&[u8]> = vec![&endless; 64];
        let (_, output) = after(&many);
        assert!(output.len() <= 1024);
    }

    #[test]
    fn what_ends_without_a_line_says_so() {
        let (mut lines, receiver) = Lines::new(Output::new(1024));
        lines.write_all(b"half").unwrap();
        drop(lines);
        assert_eq!(
            receiver.recv().unwrap(),
            FirstLine::Unfinished(b"half".to_vec())
        );
    }
}
