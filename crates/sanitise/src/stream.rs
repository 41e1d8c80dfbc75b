//! Sanitising text that comes in pieces, of any size and cut anywhere.

use crate::emit::{Ink, Written};
use crate::flags::{self, Flag};
use crate::sanitiser::Sanitiser;
use crate::scan::{CONTEXT, Scan};
use crate::terminal::Strip;

/// While more than this is held back, small pieces wait for each other.
const HELD: usize = 4 * 1024;
const TOGETHER: usize = 512;

/// Takes text in pieces and gives it back sanitised, holding back only what may be the beginning
/// of something that has to go.
///
/// The result is that of the whole text at once, however it is cut. Memory is bounded by the
/// longest secret, not by the text. Bytes that are no UTF-8 become replacement characters.
#[derive(Debug)]
pub struct Stream<'s> {
    sanitiser: &'s Sanitiser,
    /// The beginning of a character whose end has not come yet.
    partial: Vec<u8>,
    strip: Strip,
    /// Text without control characters: some that was handed over, then what was not.
    text: String,
    handed: usize,
    looked: usize,
    scan: Scan,
    written: Written,
}

/// What was found in a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Secrets that were replaced.
    pub secrets: usize,
    /// Suspicious places; positions are those in all that was handed over.
    pub flags: Vec<Flag>,
}

impl<'s> Stream<'s> {
    pub(crate) fn new(sanitiser: &'s Sanitiser) -> Self {
        Self {
            sanitiser,
            partial: Vec::new(),
            strip: Strip::default(),
            text: String::new(),
            handed: 0,
            looked: 0,
            scan: Scan::default(),
            written: Written::default(),
        }
    }

    /// Takes the next piece and appends to `out` what can be told.
    pub fn push(&mut self, piece: &[u8], out: &mut String) {
        // Large pieces are taken in parts, so that what is kept stays small.
        for part in piece.chunks(64 * 1024) {
            self.decode(part, false);
            let fresh = self.text.len() - self.looked;
            if fresh >= TOGETHER || self.scan.held(self.text.len()) < HELD {
                self.advance(false, out);
            }
        }
    }

    /// Ends the text and appends what was held back.
    pub fn finish(mut self, out: &mut String) -> Summary {
        self.decode(&[], true);
        self.advance(true, out);
        Summary {
            secrets: self.written.secrets,
            flags: self.written.take_flags(),
        }
    }

    /// How many bytes are held back at this moment.
    pub fn held(&self) -> usize {
        self.text.len() - self.handed + self.partial.len()
    }

    /// What was found in all that was handed over so far.
    pub fn so_far(&self) -> (usize, &[Flag]) {
        (self.written.secrets, &self.written.flags)
    }

    fn decode(&mut self, piece: &[u8], last: bool) {
        let joined;
        let bytes = if self.partial.is_empty() {
            piece
        } else {
            self.partial.extend_from_slice(piece);
            joined = std::mem::take(&mut self.partial);
            &joined
        };
        let mut chunks = bytes.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            self.strip(chunk.valid());
            let bad = chunk.invalid();
            if bad.is_empty() {
                continue;
            }
            if chunks.peek().is_none() && !last && may_go_on(bad) {
                self.partial = bad.to_vec();
            } else {
                self.strip("\u{fffd}");
            }
        }
    }

    fn strip(&mut self, text: &str) {
        let scan = &mut self.scan;
        self.strip.push(text, &mut self.text, |at, what| {
            scan.flag(at, flags::hidden(what));
        });
    }

    fn advance(&mut self, last: bool, out: &mut String) {
        let wanted = self.sanitiser.wanted();
        let ready = self.scan.advance(wanted, &self.text, last);
        let ink: Ink<'_> = self.sanitiser.ink();
        let end = ready.end;
        self.written.write(&self.text, self.handed, ready, ink, out);
        self.handed = end;
        self.looked = self.text.len();
        let gone = self
            .text
            .floor_char_boundary(self.handed.saturating_sub(CONTEXT));
        // Moving what is left costs as much as it is long: not for every few bytes.
        if gone > 2 * CONTEXT {
            self.text.drain(..gone);
            self.scan.forget(gone);
            self.written.forget(gone);
            self.handed -= gone;
            self.looked -= gone;
        }
    }
}

/// Whether bytes are the beginning of a character.
fn may_go_on(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}
