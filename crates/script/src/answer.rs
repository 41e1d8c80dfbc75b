//! Text of scripts, made fit for people and records.

use airlock_core::is_hidden;

/// Longest reason or message, in characters.
pub(crate) const REASON_CHARS: usize = 500;

/// `text` without control characters and what reorders or hides text, at most [`REASON_CHARS`] long.
pub(crate) fn clean(text: &str) -> String {
    let mut cleaned = String::new();
    for (count, character) in text.chars().enumerate() {
        if count == REASON_CHARS {
            cleaned.pop();
            cleaned.push('…');
            break;
        }
        cleaned.push(if hidden(character) { ' ' } else { character });
    }
    cleaned.trim().to_owned()
}

/// Control characters, line and paragraph separators, and invisible or reordering format characters.
fn hidden(character: char) -> bool {
    character.is_control() || is_hidden(character) || matches!(character, '\u{200c}' | '\u{200d}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_short_and_plain() {
        for (text, want) in [
            ("fine", "fine"),
            ("  a\tb\r\nc ", "a b  c"),
            ("\u{1b}[31mred\u{7}", "[31mred"),
            ("a\u{202e}b\u{2066}c", "a b c"),
            ("größe ✓", "größe ✓"),
        ] {
            assert_eq!(clean(text), want, "{text:?}");
        }
        let long = clean(&"ü".repeat(10_000));
        assert_eq!(long.chars().count(), REASON_CHARS);
        assert!(long.ends_with('…'));
        assert_eq!(clean(&"x".repeat(REASON_CHARS)), "x".repeat(REASON_CHARS));
    }
}
