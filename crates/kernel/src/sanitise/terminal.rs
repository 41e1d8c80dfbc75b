//! Terminal control sequences out: tabs, newlines and text stay, everything a terminal would obey
//! goes, in both its 7-bit and 8-bit forms, terminated or not.

use std::borrow::Cow;
use std::str::Chars;

/// `text` without control sequences, control characters and direction overrides.
pub fn strip_control(text: &str) -> Cow<'_, str> {
    if is_clean(text) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    loop {
        // Whole stretches of plain text at a time; suspect bytes begin characters.
        let plain = rest.bytes().position(is_suspect);
        let (before, after) = rest
            .split_at_checked(plain.unwrap_or(rest.len()))
            .unwrap_or((rest, ""));
        out.push_str(before);
        let mut chars = after.chars();
        let Some(c) = chars.next() else {
            return Cow::Owned(out);
        };
        rest = match c {
            '\u{1b}' => escape(chars),
            '\u{9b}' => skip_csi(chars.as_str()),
            '\u{9d}' | '\u{90}' | '\u{98}' | '\u{9e}' | '\u{9f}' => skip_string(chars.as_str()),
            // A carriage return alone overwrites what was shown; before a newline it is noise.
            _ if is_dangerous(c) => chars.as_str(),
            _ => {
                out.push(c);
                chars.as_str()
            }
        };
    }
}

/// What follows the sequence that an escape character began.
fn escape(mut chars: Chars<'_>) -> &str {
    match chars.next() {
        Some('[') => skip_csi(chars.as_str()),
        Some(']' | 'P' | 'X' | '^' | '_') => skip_string(chars.as_str()),
        // Two-character sequences; an intermediate byte takes one more.
        Some(' '..='/') => {
            chars.next();
            chars.as_str()
        }
        Some(_) | None => chars.as_str(),
    }
}

/// Whether a byte is a control character, or the first of a character that may be dangerous: C1
/// controls, direction marks and line separators, and invisible tags begin with these four.
const fn is_suspect(byte: u8) -> bool {
    matches!(byte, 0..=0x08 | 0x0b..=0x1f | 0x7f | 0xc2 | 0xd8 | 0xe2 | 0xf3)
}

/// Whether nothing in `text` is dangerous, told by its bytes where they are plain text.
fn is_clean(text: &str) -> bool {
    // A whole block at a time without leaving early, which the compiler turns into wide operations.
    let is_plain = |block: &[u8]| {
        let suspect = |found, byte: &u8| found | is_suspect(*byte);
        !block.iter().fold(false, suspect)
    };
    text.as_bytes().chunks(256).all(is_plain) || !text.chars().any(is_dangerous)
}

pub(super) fn is_dangerous(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        // Direction marks, line separators and invisible tags make text read differently from
        // what it is.
        '\u{202a}'..='\u{202e}'
        | '\u{2066}'..='\u{2069}'
        | '\u{200e}'
        | '\u{200f}'
        | '\u{61c}'
        | '\u{2028}'
        | '\u{2029}'
        | '\u{e0000}'..='\u{e007f}' => true,
        _ => c.is_control(),
    }
}

/// What follows parameters, intermediates and one final character.
fn skip_csi(text: &str) -> &str {
    let end = text.find(|c| !matches!(c, ' '..='?')).unwrap_or(text.len());
    let rest = text.get(end..).unwrap_or_default();
    // Anything else is not part of a sequence: it was cut short.
    rest.strip_prefix(|c| matches!(c, '@'..='~'))
        .unwrap_or(rest)
}

/// What follows a string sequence: it runs to BEL, ST, or the end of the line if it is never
/// terminated.
fn skip_string(text: &str) -> &str {
    let end = text
        .find(['\u{7}', '\u{9c}', '\u{1b}', '\n'])
        .unwrap_or(text.len());
    let rest = text.get(end..).unwrap_or_default();
    if rest.starts_with('\n') {
        return rest;
    }
    if let Some(after) = rest.strip_prefix('\u{1b}') {
        return after.strip_prefix('\\').unwrap_or(after);
    }
    rest.strip_prefix(['\u{7}', '\u{9c}']).unwrap_or(rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sequences_go_and_text_stays() {
        for (text, want) in [
            ("plain\ttext\n", "plain\ttext\n"),
            ("\u{1b}[1;31mred\u{1b}[0m", "red"),
            ("\u{1b}]0;title\u{7}after", "after"),
            ("\u{1b}]52;c;ZXZpbA==\u{1b}\\after", "after"),
            ("\u{9b}31mred", "red"),
            ("\u{1b}]8;;http://x\u{7}link", "link"),
            ("\u{1b}]unterminated\nnext", "\nnext"),
            ("\u{1b}(Bx", "x"),
            ("over\rwrite", "overwrite"),
            ("a\u{202e}gpj.exe", "agpj.exe"),
            ("bell\u{7}null\u{0}", "bellnull"),
            ("日本語 ümlaut", "日本語 ümlaut"),
            ("\u{1b}", ""),
            ("\u{1b}[", ""),
        ] {
            assert_eq!(strip_control(text), want, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn nothing_a_terminal_obeys_survives(text in "[\\x00-\\x7f\\u{80}-\\u{9f}\\u{202e}é]{0,80}") {
            let clean = strip_control(&text);
            prop_assert!(clean.chars().all(|c| !is_dangerous(c)), "{clean:?}");
            prop_assert_eq!(strip_control(&clean), clean.clone());
        }
    }
}
