//! Terminal control sequences and invisible characters out: tabs, newlines and text stay,
//! everything a terminal would obey goes, in both its 7-bit and 8-bit forms, terminated or not.
//!
//! Characters that make text read differently from what it is go, too: direction overrides, line
//! separators, tags, and what has no width. Joiners and variation selectors, of which emoji and
//! some scripts are made, stay where they can have a meaning: alone, after a character that is not
//! ASCII.
//!
//! Invariant: what is dropped depends on the characters before, never on those after, so a text
//! cut anywhere gives the same.

use airlock_core::{is_hidden, is_joiner};
use std::borrow::Cow;

/// What hidden things were dropped, for the rules on instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hidden {
    /// Characters of the invisible copy of ASCII.
    Tags,
    /// A row of invisible characters, long enough to carry a message.
    Invisible,
    /// A character that turns the direction of what follows.
    Direction,
}

/// So many invisible characters in a row carry something.
const CARRYING: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    #[default]
    Text,
    /// After an escape character.
    Escape,
    /// After an escape character and an intermediate.
    Intermediate,
    /// In the parameters of a control sequence.
    Parameters,
    /// In a string sequence: it runs to BEL, ST, an escape, or the end of the line.
    String,
    /// After an escape character within a string sequence.
    StringEscape,
}

/// Takes control sequences out of text that comes in pieces.
#[derive(Debug, Default)]
pub(crate) struct Strip {
    state: State,
    /// Whether a joiner may follow.
    joinable: bool,
    /// Invisible characters in a row.
    row: usize,
    tags: usize,
}

impl Strip {
    /// Appends what stays of `text` to `out`; `hidden` is told what was dropped, and where.
    pub(crate) fn push(
        &mut self,
        text: &str,
        out: &mut String,
        mut hidden: impl FnMut(usize, Hidden),
    ) {
        let mut rest = text;
        loop {
            if self.state == State::Text {
                // Whole stretches of plain text at a time; suspect bytes begin characters.
                let plain = suspect(rest.as_bytes());
                let (before, after) = rest.split_at_checked(plain).unwrap_or((rest, ""));
                if let Some(last) = before.bytes().last() {
                    self.joinable = !last.is_ascii();
                    (self.row, self.tags) = (0, 0);
                    out.push_str(before);
                }
                rest = after;
            }
            let mut chars = rest.chars();
            let Some(c) = chars.next() else {
                return;
            };
            if self.one(c, out.len(), &mut hidden) {
                out.push(c);
            }
            rest = chars.as_str();
        }
    }

    /// Whether `c` stays.
    fn one(&mut self, c: char, at: usize, hidden: &mut impl FnMut(usize, Hidden)) -> bool {
        self.state = match (self.state, c) {
            (State::Text, '\u{1b}') => State::Escape,
            (State::Text, '\u{9b}') | (State::Escape, '[') | (State::Parameters, ' '..='?') => {
                State::Parameters
            }
            (State::Text, '\u{9d}' | '\u{90}' | '\u{98}' | '\u{9e}' | '\u{9f}')
            | (State::Escape, ']' | 'P' | 'X' | '^' | '_') => State::String,
            (State::Text, _) => return self.text(c, at, hidden),
            (State::Escape, ' '..='/') => State::Intermediate,
            (State::Parameters, '@'..='~')
            | (State::Intermediate | State::Escape, ' '..='~')
            | (State::String, '\u{7}' | '\u{9c}')
            | (State::StringEscape, '\\') => State::Text,
            (State::String, '\u{1b}') => State::StringEscape,
            (State::String, '\n') => {
                self.state = State::Text;
                self.joinable = false;
                return true;
            }
            (State::String, _) => State::String,
            // Not part of a sequence: it was cut short.
            (State::Escape | State::Intermediate | State::Parameters, _) => {
                self.state = State::Text;
                return self.one(c, at, hidden);
            }
            // The escape that ends a string may begin a sequence of its own.
            (State::StringEscape, _) => {
                self.state = State::Escape;
                return self.one(c, at, hidden);
            }
        };
        false
    }

    fn text(&mut self, c: char, at: usize, hidden: &mut impl FnMut(usize, Hidden)) -> bool {
        let stays = match class(c) {
            Sort::Plain => true,
            Sort::Joiner if self.joinable => {
                // One, not a row of them.
                self.joinable = false;
                return true;
            }
            Sort::Control => false,
            Sort::Direction => {
                hidden(at, Hidden::Direction);
                false
            }
            Sort::Tag => {
                self.tags += 1;
                if self.tags == 2 {
                    hidden(at, Hidden::Tags);
                }
                return false;
            }
            Sort::Joiner | Sort::Invisible => {
                self.row += 1;
                if self.row == CARRYING {
                    hidden(at, Hidden::Invisible);
                }
                return false;
            }
        };
        if stays {
            self.joinable = !c.is_ascii();
            (self.row, self.tags) = (0, 0);
        }
        stays
    }
}

/// `text` without control sequences, control characters and what makes it read differently.
pub fn strip_control(text: &str) -> Cow<'_, str> {
    strip(text, |_, _| {})
}

/// The same, telling what was hidden.
pub(crate) fn strip(text: &str, hidden: impl FnMut(usize, Hidden)) -> Cow<'_, str> {
    if suspect(text.as_bytes()) == text.len() {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    Strip::default().push(text, &mut out, hidden);
    if out.len() == text.len() {
        return Cow::Borrowed(text);
    }
    Cow::Owned(out)
}

/// What a character is to a terminal and a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sort {
    Plain,
    Control,
    Direction,
    Tag,
    Invisible,
    Joiner,
}

fn class(c: char) -> Sort {
    match c {
        '\n' | '\t' => Sort::Plain,
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => Sort::Direction,
        '\u{e0000}'..='\u{e007f}' => Sort::Tag,
        '\u{200e}' | '\u{200f}' | '\u{61c}' | '\u{2028}' | '\u{2029}' => Sort::Control,
        _ if is_joiner(c) => Sort::Joiner,
        _ if is_hidden(c) => Sort::Invisible,
        _ if c.is_control() => Sort::Control,
        _ => Sort::Plain,
    }
}

/// Whether a character may not be shown as it is.
pub(crate) fn is_dangerous(c: char) -> bool {
    class(c) != Sort::Plain
}

/// `text` with what may not be shown as it is written out, as `\u{1b}`: nothing of it is gone. Tabs and
/// newlines stay.
pub fn write_out(text: &str) -> Cow<'_, str> {
    write_out_where(text, is_dangerous)
}

/// The same for the characters that are `odd`.
pub(crate) fn write_out_where(text: &str, odd: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&odd) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if odd(c) {
            shown.extend(c.escape_unicode());
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

/// Whether a byte is a control character, or the first of a character that may have to go.
const fn is_suspect(byte: u8) -> bool {
    matches!(
        byte,
        0..=0x08 | 0x0b..=0x1f | 0x7f | 0xc2 | 0xcd | 0xd8 | 0xe1 | 0xe2 | 0xe3 | 0xef | 0xf0 | 0xf3
    )
}

/// Whether a byte is no ordinary one of ASCII: little to compare, and true of every suspect one.
const fn is_unusual(byte: u8) -> bool {
    !matches!(byte, b'\t' | b'\n' | 0x20..=0x7e)
}

/// Where the first suspect byte stands.
fn suspect(bytes: &[u8]) -> usize {
    // A whole block at a time without leaving early, which the compiler turns into wide operations;
    // a short one, because coloured text has little between two sequences.
    let (blocks, rest) = bytes.as_chunks::<16>();
    let unusual = |found: bool, byte: &u8| found | is_unusual(*byte);
    let mut at = 0;
    for block in blocks {
        if block.iter().fold(false, unusual)
            && let Some(inside) = block.iter().position(|byte| is_suspect(*byte))
        {
            return at + inside;
        }
        at += block.len();
    }
    let inside = rest.iter().position(|byte| is_suspect(*byte));
    at + inside.unwrap_or(rest.len())
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
            ("\u{1b}]8;;http://x\u{7}link\u{1b}]8;;\u{7}", "link"),
            ("\u{1b}Pq#0;2;0;0;0\u{1b}\\after", "after"),
            ("\u{1b}]unterminated\nnext", "\nnext"),
            ("\u{1b}]title\u{1b}[31mred", "red"),
            ("\u{1b}(Bx", "x"),
            ("over\rwrite", "overwrite"),
            ("a\u{202e}gpj.exe", "agpj.exe"),
            ("bell\u{7}null\u{0}", "bellnull"),
            ("日本語 ümlaut ひらがな", "日本語 ümlaut ひらがな"),
            ("ig\u{200b}no\u{ad}re", "ignore"),
            (
                "i\u{17b4}g\u{1bca0}n\u{1d173}o\u{fff0}r\u{e0080}e\u{e01f0}",
                "ignore",
            ),
            ("a\u{e0041}\u{e0042}b", "ab"),
            ("👩\u{200d}💻 ❤\u{fe0f}", "👩\u{200d}💻 ❤\u{fe0f}"),
            ("a\u{200d}b", "ab"),
            ("👍\u{fe0f}\u{fe01}\u{fe02}x", "👍\u{fe0f}x"),
            ("\u{1b}", ""),
            ("\u{1b}[", ""),
        ] {
            assert_eq!(strip_control(text), want, "{text:?}");
        }
    }

    #[test]
    fn every_suspect_byte_is_unusual() {
        for byte in 0..=255 {
            assert!(is_unusual(byte) || !is_suspect(byte), "{byte:#x}");
        }
    }

    #[test]
    fn what_was_hidden_is_told() {
        let hidden = |text: &str| {
            let mut out = Vec::new();
            strip(text, |at, what| out.push((at, what)));
            out
        };
        let tags: String = "run it"
            .chars()
            .map(|c| char::from_u32(0xe0000 + c as u32).unwrap())
            .collect();
        assert_eq!(hidden(&format!("ab{tags}c")), [(2, Hidden::Tags)]);
        assert_eq!(
            hidden(&format!("ab{}c", "\u{200b}".repeat(20))),
            [(2, Hidden::Invisible)]
        );
        assert_eq!(hidden("ab\u{200b}c"), []);
        assert_eq!(hidden("x\u{202e}y"), [(1, Hidden::Direction)]);
    }

    proptest! {
        #[test]
        fn nothing_a_terminal_obeys_survives_however_the_text_is_cut(
            text in "([\\x00-\\x7f\\u{80}-\\u{9f}\\u{202e}\\u{200d}\\u{fe0f}é]|\\x1b\\[|\\x1b\\]){0,80}",
            cut in 0usize..80,
        ) {
            let clean = strip_control(&text);
            let bad = |c: char| !matches!(class(c), Sort::Plain | Sort::Joiner);
            prop_assert!(!clean.contains(bad), "{clean:?}");
            prop_assert_eq!(strip_control(&clean), clean.clone());
            let cut = text.floor_char_boundary(cut.min(text.len()));
            let (mut strip, mut out) = (Strip::default(), String::new());
            strip.push(text.get(..cut).unwrap(), &mut out, |_, _| {});
            strip.push(text.get(cut..).unwrap(), &mut out, |_, _| {});
            prop_assert_eq!(out, clean);
        }
    }
}
