//! Where a command's output goes.

use crate::terminal::{Filter, Level, Stopper, Watch};
use std::io::{self, Write};

/// Passes output on to a stream of ours. A reader that went away ends the command, as a broken pipe
/// would, and so does whatever else nothing can be written to.
pub(super) struct Passed {
    stream: Box<dyn Write + Send>,
    closed: bool,
    lost: Option<io::Error>,
    stop: Option<Stopper>,
}

impl Passed {
    /// Writes to `stream`, filtered where it is a terminal.
    pub(super) fn new(stream: Box<dyn Write + Send>, terminal: Option<Level>) -> Self {
        let stream: Box<dyn Write + Send> = match terminal {
            Some(level) => Box::new(Filter::new(stream, level)),
            None => stream,
        };
        Self {
            stream,
            closed: false,
            lost: None,
            stop: None,
        }
    }

    /// Ends what `watch` watches when nobody reads on.
    pub(super) fn cancels(&mut self, watch: &Watch) {
        self.stop = Some(watch.stopper());
    }

    /// Whether the reader went away.
    pub(super) const fn is_closed(&self) -> bool {
        self.closed
    }

    /// Why some of it could not be written, though somebody reads.
    pub(super) const fn lost(&self) -> Option<&io::Error> {
        self.lost.as_ref()
    }

    fn end(&self) {
        if let Some(stop) = &self.stop {
            stop.stop();
        }
    }
}

impl Write for Passed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.closed || self.lost.is_some() {
            return Ok(bytes.len());
        }
        // What is written is seen at once, whatever the stream buffers.
        let written = self
            .stream
            .write_all(bytes)
            .and_then(|()| self.stream.flush());
        match written {
            Ok(()) => return Ok(bytes.len()),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => self.closed = true,
            Err(error) => self.lost = Some(error),
        }
        self.end();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Keeps the beginning of output for `--json`.
pub(super) struct Captured {
    most: usize,
    kept: Vec<u8>,
    cut: bool,
}

impl Captured {
    pub(super) const fn new(most: usize) -> Self {
        Self {
            most,
            kept: Vec::new(),
            cut: false,
        }
    }

    /// Whether there was more.
    pub(super) const fn is_cut(&self) -> bool {
        self.cut
    }

    /// As text, or in base64 where it is none, and which of both.
    pub(super) fn text(&self) -> (String, &'static str) {
        match std::str::from_utf8(&self.kept) {
            Ok(text) => (text.to_owned(), "utf-8"),
            // Cut inside a character: what is whole is text.
            Err(error) if self.cut && error.error_len().is_none() => {
                let whole = self.kept.get(..error.valid_up_to()).unwrap_or_default();
                (String::from_utf8_lossy(whole).into_owned(), "utf-8")
            }
            Err(_) => (base64(&self.kept), "base64"),
        }
    }
}

impl Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = self.most.saturating_sub(self.kept.len());
        let taken = bytes.get(..room).unwrap_or(bytes);
        self.cut |= taken.len() < bytes.len();
        self.kept.extend_from_slice(taken);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Standard base64 with padding.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let at = |index: usize| u32::from(chunk.get(index).copied().unwrap_or_default());
        let group = at(0) << 16 | at(1) << 8 | at(2);
        for place in 0..4 {
            let digit = (group >> (18 - 6 * place)) & 63;
            let known = DIGITS.get(digit as usize).filter(|_| place <= chunk.len());
            text.push(known.copied().map_or('=', char::from));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_the_standard_one() {
        for (bytes, want) in [
            (&b""[..], ""),
            (b"f", "Zg=="),
            (b"fo", "Zm8="),
            (b"foo", "Zm9v"),
            (b"foob", "Zm9vYg=="),
            (&[0xff, 0xfe, 0x00], "//4A"),
        ] {
            assert_eq!(base64(bytes), want);
        }
    }

    #[test]
    fn what_is_kept_is_bounded_and_text_where_it_is_text() {
        let mut captured = Captured::new(4);
        captured.write_all("aéé".as_bytes()).unwrap();
        assert_eq!(captured.text(), ("aé".to_owned(), "utf-8"));
        assert!(captured.is_cut());
        let mut captured = Captured::new(4);
        captured.write_all(&[0xff]).unwrap();
        assert_eq!(captured.text(), ("/w==".to_owned(), "base64"));
        assert!(!captured.is_cut());
    }
}
