//! Text of a server, before it is quoted in a message of ours.

use crate::secret::Secret;
use airlock_core::{is_hidden, is_joiner};

/// As much of a foreign message as helps to understand it.
const SHOWN: usize = 300;

/// `text` on one short line, without control characters and without `key`.
pub(crate) fn quoted(text: &str, key: Option<&Secret>) -> String {
    let mut text = text.to_owned();
    if let Some(key) = key.map(Secret::expose).filter(|key| !key.is_empty()) {
        // Some servers repeat the key they refuse.
        text = text.replace(key, "[key]");
    }
    let mut shown = String::new();
    for c in text.chars().map(|c| if c == '\n' { ' ' } else { c }) {
        if c.is_control() || is_hidden(c) || is_joiner(c) {
            continue;
        }
        if shown.chars().count() >= SHOWN {
            shown.push('…');
            break;
        }
        shown.push(c);
    }
    shown.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quoted_message_holds_neither_the_key_nor_anything_a_terminal_obeys() {
        let key = Secret::new("sk-abcdef".to_owned());
        let text = format!("bad key sk-abcdef\n\u{1b}[2J\u{202e}{}", "x".repeat(1_000));
        let shown = quoted(&text, Some(&key));
        assert!(shown.starts_with("bad key [key] [2J"), "{shown}");
        assert!(!shown.contains(['\u{1b}', '\n', '\u{202e}']), "{shown}");
        assert!(shown.chars().count() <= SHOWN + 1);
    }
}
