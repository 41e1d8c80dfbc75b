//! What a plugin says on its standard error: the last of it, for people who look for a reason.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

/// How much is kept.
const KEPT: usize = 16 * 1024;

/// The end of a stream. Copies share it.
#[derive(Debug, Clone, Default)]
pub(super) struct LastWords(Arc<Mutex<VecDeque<u8>>>);

impl LastWords {
    /// What was said last; what is no text is replaced.
    pub(super) fn text(&self) -> String {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(kept.make_contiguous()).into_owned()
    }
}

impl Write for LastWords {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let new = bytes
            .get(bytes.len().saturating_sub(KEPT)..)
            .unwrap_or_default();
        let over = (kept.len() + new.len()).saturating_sub(KEPT);
        kept.drain(..over);
        kept.extend(new);
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
    fn the_end_is_kept_however_much_comes_and_in_whatever_pieces() {
        for piece in [1, 7, KEPT - 1, KEPT, KEPT * 3] {
            let mut words = LastWords::default();
            let all: Vec<u8> = (0..KEPT * 4)
                .map(|at| b'a' + u8::try_from(at % 23).unwrap())
                .collect();
            for some in all.chunks(piece) {
                words.write_all(some).unwrap();
            }
            assert_eq!(words.text().as_bytes(), &all[all.len() - KEPT..], "{piece}");
        }
    }
}
