//! Lines out of bytes, none longer than is kept.

/// A line that is too long to be one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

/// Puts lines together.
#[derive(Debug)]
pub(crate) struct Lines {
    most: usize,
    begun: Vec<u8>,
}

impl Lines {
    pub(crate) const fn new(most: usize) -> Self {
        Self {
            most,
            begun: Vec::new(),
        }
    }

    /// Takes `bytes` in, and hands each line that is whole to `whole`.
    pub(crate) fn take(
        &mut self,
        bytes: &[u8],
        mut whole: impl FnMut(&[u8]),
    ) -> Result<(), TooLong> {
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let (line, after) = rest.split_at(end);
            self.add(line)?;
            whole(&self.begun);
            self.begun.clear();
            // One long line does not cost its memory for good.
            self.begun.shrink_to(KEPT);
            rest = after.get(1..).unwrap_or_default();
        }
        self.add(rest)
    }

    fn add(&mut self, piece: &[u8]) -> Result<(), TooLong> {
        if self.begun.len() + piece.len() > self.most {
            return Err(TooLong);
        }
        self.begun.extend_from_slice(piece);
        Ok(())
    }
}

/// Memory that is kept between lines.
const KEPT: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_the_same_in_whatever_pieces_they_come() {
        let text = b"one\n\ntwo three\nrest";
        for piece in 1..text.len() {
            let (mut lines, mut found) = (Lines::new(9), Vec::new());
            for some in text.chunks(piece) {
                lines.take(some, |line| found.push(line.to_vec())).unwrap();
            }
            assert_eq!(found, [&b"one"[..], b"", b"two three"], "{piece}");
        }
    }

    #[test]
    fn a_line_that_is_too_long_is_none_whether_it_ends_or_not() {
        for text in [&b"0123456789\n"[..], b"0123456789", b"ok\n0123456789"] {
            let mut lines = Lines::new(9);
            assert_eq!(lines.take(text, |_| {}), Err(TooLong), "{text:?}");
        }
    }
}
