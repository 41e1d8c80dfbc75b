//! The last lines a plugin wrote to its log.

use crate::message::{Level, plain};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// Lines that are kept.
const LINES: usize = 100;

/// A bounded log: new lines push old ones out.
#[derive(Default)]
pub(super) struct Log(Mutex<VecDeque<(Level, String)>>);

impl Log {
    pub(super) fn push(&self, level: Level, text: &str) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == LINES {
            lines.pop_front();
        }
        lines.push_back((level, plain(text)));
    }

    pub(super) fn to_value(&self) -> Value {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let lines = lines.iter();
        lines
            .map(|(level, text)| json!({ "level": level, "text": text }))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_keeps_the_last_lines_without_control_characters() {
        let log = Log::default();
        for number in 0..1_000 {
            log.push(Level::Info, &format!("line {number}\u{1b}[31m"));
        }
        let lines = log.to_value();
        let lines = lines.as_array().unwrap();
        assert_eq!(lines.len(), LINES);
        assert_eq!(lines[0]["text"], "line 900 [31m");
        assert_eq!(lines[LINES - 1]["level"], "info");
    }
}
