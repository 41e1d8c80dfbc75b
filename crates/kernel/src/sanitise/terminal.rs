//! Terminal control sequences out: tabs, newlines and text stay, everything a terminal would obey
//! goes, in both its 7-bit and 8-bit forms, terminated or not.

use std::borrow::Cow;

/// `text` without control sequences, control characters and direction overrides.
pub fn strip_control(text: &str) -> Cow<'_, str> {
    if is_clean(text) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => match chars.next() {
                Some('[') => skip_csi(&mut chars),
                Some(']' | 'P' | 'X' | '^' | '_') => skip_string(&mut chars),
                // Two-character sequences; an intermediate byte takes one more.
                Some(' '..='/') => {
                    chars.next();
                }
                Some(_) | None => {}
            },
            '\u{9b}' => skip_csi(&mut chars),
            '\u{9d}' | '\u{90}' | '\u{98}' | '\u{9e}' | '\u{9f}' => skip_string(&mut chars),
            // A carriage return alone overwrites what was shown; before a newline it is noise.
            _ if is_dangerous(c) => {}
            _ => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// Whether nothing in `text` is dangerous, told by its bytes where they are plain text.
fn is_clean(text: &str) -> bool {
    // Only characters that begin with one of the last four can be dangerous beyond ASCII: C1
    // controls, direction marks and line separators, and invisible tags.
    let suspect = |byte: &u8| {
        matches!(
            byte,
            0..=0x08 | 0x0b..=0x1f | 0x7f | 0xc2 | 0xd8 | 0xe2 | 0xf3
        )
    };
    // A whole block at a time without leaving early, which the compiler turns into wide operations.
    let block_is_plain = |block: &[u8]| {
        !block
            .iter()
            .fold(false, |found, byte| found | suspect(byte))
    };
    text.as_bytes().chunks(256).all(block_is_plain) || !text.chars().any(is_dangerous)
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

type Chars<'a> = std::iter::Peekable<std::str::Chars<'a>>;

/// Parameters and intermediates, then one final character.
fn skip_csi(chars: &mut Chars<'_>) {
    while let Some(c) = chars.peek().copied() {
        match c {
            ' '..='?' => {
                chars.next();
            }
            '@'..='~' => {
                chars.next();
                return;
            }
            // Not part of a sequence: it was cut short.
            _ => return,
        }
    }
}

/// A string sequence runs to BEL, ST, or the end of the line if it is never terminated.
fn skip_string(chars: &mut Chars<'_>) {
    while let Some(c) = chars.peek().copied() {
        match c {
            '\u{7}' | '\u{9c}' => {
                chars.next();
                return;
            }
            '\u{1b}' => {
                chars.next();
                if chars.peek() == Some(&'\\') {
                    chars.next();
                }
                return;
            }
            '\n' => return,
            _ => {
                chars.next();
            }
        }
    }
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
