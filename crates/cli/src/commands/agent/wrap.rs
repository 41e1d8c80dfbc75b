//! The model's text as it streams to a terminal: broken to its width, behind a bar.
//!
//! Guarantee: every row that the model fills begins with the bar, and none of Airlock's own does, so
//! text that imitates a question, a prompt or a result is seen to be the model's. However long a
//! line or a word is, a bounded part of it is kept. Non-guarantee: a terminal that draws characters
//! wider than Unicode says breaks rows by itself.

use crate::columns::of_char;

/// What begins each row, and what a row without text is.
const BAR: &str = "│ ";
const BAR_ALONE: &str = "│";
const BAR_COLUMNS: usize = 2;
/// The fewest columns of text.
const LEAST: usize = 8;
/// Bytes of a word that are kept until it is whole: marks without width never fill a row.
const LONGEST: usize = 4_096;

/// Breaks lines at a width.
pub(super) struct Wrap {
    /// Columns of text in a row; none where it passes as it is.
    room: Option<usize>,
    /// Columns of text in the row so far.
    column: usize,
    /// The row has its bar.
    begun: bool,
    spaces: usize,
    word: String,
    /// Columns of the word.
    wide: usize,
}

impl Wrap {
    /// Breaks for a terminal of `width` columns; without one, text passes as it is.
    pub(super) fn new(width: Option<usize>) -> Self {
        Self {
            room: width.map(|width| width.saturating_sub(BAR_COLUMNS).max(LEAST)),
            column: 0,
            begun: false,
            spaces: 0,
            word: String::new(),
            wide: 0,
        }
    }

    /// Takes a piece of text; gives back what can be shown by now.
    pub(super) fn take(&mut self, text: &str) -> String {
        let Some(room) = self.room else {
            return text.to_owned();
        };
        let mut out = String::new();
        for c in text.chars() {
            if c == '\n' {
                self.end_word(room, &mut out);
                self.end_row(&mut out);
            } else if c.is_whitespace() {
                self.end_word(room, &mut out);
                // More than a row of them is as good as a row of them.
                let spaces = if c == '\t' { 4 } else { of_char(c).max(1) };
                self.spaces = (self.spaces + spaces).min(room);
            } else {
                let columns = of_char(c);
                if self.wide + columns > room || self.word.len() >= LONGEST {
                    self.end_word(room, &mut out);
                }
                self.word.push(c);
                self.wide += columns;
            }
        }
        out
    }

    /// What is left at the end.
    pub(super) fn finish(&mut self) -> String {
        let mut out = String::new();
        if let Some(room) = self.room {
            self.end_word(room, &mut out);
        }
        self.begun = false;
        self.column = 0;
        self.spaces = 0;
        out
    }

    fn end_word(&mut self, room: usize, out: &mut String) {
        if self.word.is_empty() {
            return;
        }
        let mut spaces = std::mem::take(&mut self.spaces);
        if self.column > 0 && self.column + spaces + self.wide > room {
            self.end_row(out);
            spaces = 0;
        }
        // What begins a row is indented as far as there is room.
        let spaces = spaces.min(room.saturating_sub(self.column + self.wide));
        if !std::mem::replace(&mut self.begun, true) {
            out.push_str(BAR);
        }
        out.extend(std::iter::repeat_n(' ', spaces));
        out.push_str(&self.word);
        self.word.clear();
        self.column += spaces + std::mem::take(&mut self.wide);
    }

    fn end_row(&mut self, out: &mut String) {
        if !std::mem::take(&mut self.begun) {
            out.push_str(BAR_ALONE);
        }
        out.push('\n');
        self.column = 0;
        self.spaces = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrapped(text: &str, width: usize, step: usize) -> String {
        let mut wrap = Wrap::new(Some(width));
        let chars: Vec<char> = text.chars().collect();
        let mut out: String = chars
            .chunks(step)
            .map(|piece| wrap.take(&piece.iter().collect::<String>()))
            .collect();
        out.push_str(&wrap.finish());
        out
    }

    #[test]
    fn lines_break_between_words_however_the_text_comes() {
        let text = "one two three four\n\n    indented code\nlonger-than-the-line x";
        let want =
            "│ one two\n│ three four\n│\n│     indented\n│ code\n│ longer-than-\n│ the-line x";
        for step in [1, 2, 5, 100] {
            assert_eq!(wrapped(text, 14, step), want, "{step}");
        }
        assert_eq!(Wrap::new(None).take(text), text);
        // Each of these takes two columns.
        assert_eq!(wrapped("漢字漢 字漢字", 14, 1), "│ 漢字漢\n│ 字漢字");
        assert_eq!(wrapped("漢字漢字漢字漢字", 14, 1), "│ 漢字漢字漢字\n│ 漢字");
    }

    #[test]
    fn no_row_is_wider_than_the_terminal_nor_without_its_bar() {
        let texts = [
            "漢".repeat(500),
            format!(
                "{}merging\u{a0}into\u{a0}/ws:\u{a0}approve?",
                "x".repeat(58)
            ),
            "e\u{301}".repeat(500),
            "\u{2764}\u{fe0f}".repeat(500),
            format!("\n\n> {}y", " ".repeat(500)),
            "\t\tx\n".repeat(20),
        ];
        for text in &texts {
            for width in [10, 20, 60, 200] {
                for step in [1, 7, 1_000] {
                    let got = wrapped(text, width, step);
                    for row in got.lines() {
                        assert!(row.starts_with(BAR_ALONE), "{row:?}");
                        let columns: usize = row.chars().map(of_char).sum();
                        assert!(columns <= width, "{width}: {columns} in {row:?}");
                    }
                    let kept = |text: &str| text.split_whitespace().collect::<String>();
                    assert_eq!(kept(&got).replace(BAR_ALONE, ""), kept(text));
                }
            }
        }
    }

    #[test]
    fn an_endless_word_is_shown_as_it_comes() {
        for endless in ["x", "\u{301}", "漢"] {
            let mut wrap = Wrap::new(Some(60));
            let mut shown = 0;
            for _ in 0..10_000 {
                shown += wrap.take(&endless.repeat(100)).len();
                assert!(wrap.word.len() <= LONGEST + 4, "{}", wrap.word.len());
            }
            assert!(shown > 990_000, "{endless}: {shown}");
        }
    }
}
