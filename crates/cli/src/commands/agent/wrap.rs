//! Breaks lines of text between words as it streams.

use unicode_width::UnicodeWidthStr as _;

/// Breaks lines at a width.
pub(super) struct Wrap {
    width: Option<usize>,
    column: usize,
    spaces: usize,
    word: String,
}

impl Wrap {
    /// Breaks at `width` columns; without one, text passes as it is.
    pub(super) const fn new(width: Option<usize>) -> Self {
        Self {
            width,
            column: 0,
            spaces: 0,
            word: String::new(),
        }
    }

    /// Takes a piece of text; gives back what can be shown by now.
    pub(super) fn take(&mut self, text: &str) -> String {
        if self.width.is_none() {
            return text.to_owned();
        }
        let mut out = String::new();
        for c in text.chars() {
            match c {
                '\n' => {
                    self.end_word(&mut out);
                    out.push('\n');
                    self.column = 0;
                    self.spaces = 0;
                }
                ' ' => {
                    self.end_word(&mut out);
                    self.spaces += 1;
                }
                '\t' => {
                    self.end_word(&mut out);
                    self.spaces += 4;
                }
                c => self.word.push(c),
            }
        }
        out
    }

    /// What is left at the end.
    pub(super) fn finish(&mut self) -> String {
        let mut out = String::new();
        self.end_word(&mut out);
        self.column = 0;
        self.spaces = 0;
        out
    }

    fn end_word(&mut self, out: &mut String) {
        if self.word.is_empty() {
            return;
        }
        let length = self.word.width();
        let width = self.width.unwrap_or(usize::MAX);
        if self.column > 0 && self.column + self.spaces + length > width {
            out.push('\n');
            self.column = 0;
        } else {
            out.push_str(&" ".repeat(self.spaces));
            self.column += self.spaces;
        }
        self.spaces = 0;
        self.column += length;
        out.push_str(&std::mem::take(&mut self.word));
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
        let want = "one two\nthree four\n\n    indented\ncode\nlonger-than-the-line\nx";
        for step in [1, 2, 5, 100] {
            assert_eq!(wrapped(text, 12, step), want, "{step}");
        }
        assert_eq!(Wrap::new(None).take(text), text);
        // Each of these takes two columns.
        assert_eq!(wrapped("漢字漢 字漢字", 12, 1), "漢字漢\n字漢字");
    }
}
