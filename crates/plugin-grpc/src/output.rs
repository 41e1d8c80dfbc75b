//! Keeps the end of what a plugin prints, for whoever asks.
//!
//! Guarantee: never more than the limit, whatever comes. Non-guarantee: the text is a plugin's own
//! and unchecked, but for bytes that are no text; showing it is the business of whoever does.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The end of what was printed, shared by all who add to it.
#[derive(Debug, Clone)]
pub(crate) struct Output {
    kept: Arc<Mutex<Kept>>,
}

#[derive(Debug)]
struct Kept {
    limit: usize,
    bytes: VecDeque<u8>,
}

impl Output {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            kept: Arc::new(Mutex::new(Kept {
                limit,
                bytes: VecDeque::new(),
            })),
        }
    }

    pub(crate) fn push(&self, bytes: &[u8]) {
        let kept = &mut *self.lock();
        let excess = (kept.bytes.len() + bytes.len()).saturating_sub(kept.limit);
        kept.bytes.drain(..excess.min(kept.bytes.len()));
        let over = bytes.len().saturating_sub(kept.limit);
        kept.bytes.extend(bytes.iter().skip(over));
    }

    /// All that is kept, as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(self.lock().bytes.make_contiguous()).into_owned()
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        // A panic elsewhere cannot leave bytes in a state that matters.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The last line of what a plugin said, for a message of ours.
pub(crate) fn last_line(text: &str) -> Option<String> {
    let line = text.lines().rev().find(|line| !line.trim().is_empty())?;
    Some(shown(line))
}

/// What a plugin said, for a message of ours: one line, short, nothing that steers a terminal.
pub(crate) fn shown(text: &str) -> String {
    const MOST: usize = 200;
    let mut shown: String = text
        .trim()
        .chars()
        .take(MOST)
        .flat_map(char::escape_debug)
        .collect();
    if text.trim().chars().nth(MOST).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_kept_is_the_end_of_what_came(
            pieces in prop::collection::vec(prop::collection::vec(97u8..123, 0..40), 0..20),
            limit in 1usize..64,
        ) {
            let output = Output::new(limit);
            for piece in &pieces {
                output.push(piece);
            }
            let all = String::from_utf8(pieces.concat()).unwrap();
            let kept = output.text();
            prop_assert_eq!(kept.len(), all.len().min(limit));
            prop_assert!(all.ends_with(&kept));
        }
    }

    #[test]
    fn a_message_shows_one_short_line_without_control_characters() {
        let last = last_line("first\n\x1b[2Jlast\n\n");
        assert_eq!(last.as_deref(), Some("\\u{1b}[2Jlast"));
        let long = shown(&"x".repeat(100_000));
        assert!(long.chars().count() == 201 && long.ends_with('…'));
    }
}
