//! Text in columns of a terminal: how wide it is, and lines that fit. Pure, but for asking a terminal
//! how wide it is.
//!
//! Guarantee: a line is broken at white space, and never within a command: what stands in backticks,
//! or after a colon and begins with `airlock`, goes on a line of its own where it fits there. What
//! follows in the next line is indented, so that nothing in a text begins a line by itself.
//! Non-guarantee: with [`Words::Whole`], one word wider than the terminal stays one word, on a line of
//! its own; the terminal breaks it, and it can still be copied. A terminal that draws characters wider
//! than Unicode says breaks lines by itself, too.

use rustix::termios::tcgetwinsize;
use std::os::fd::AsFd;
use unicode_width::UnicodeWidthChar as _;

/// What is done with a word that is wider than a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Words {
    /// It stays whole: somebody may have to copy it.
    Whole,
    /// It is broken: somebody else wrote it, and it must not begin a row of the terminal.
    Broken,
}

/// The fewest columns that lines are broken for.
const LEAST: usize = 20;

/// Columns of the terminal that `stream` is; none where it is no terminal, or does not say.
pub(crate) fn terminal(stream: impl AsFd) -> Option<usize> {
    let size = tcgetwinsize(stream).ok()?;
    let columns = usize::from(size.ws_col);
    (columns > 0).then(|| columns.max(LEAST))
}

/// Columns of a character.
pub(crate) fn of_char(c: char) -> usize {
    match c {
        // Makes a picture of the character before it, which is wider then.
        '\u{fe0f}' => 1,
        // At most.
        '\t' => 8,
        c => c.width().unwrap_or(0),
    }
}

/// Columns of `text`; styles take none.
pub(crate) fn of(text: &str) -> usize {
    measured(text).map(|(_, columns)| columns).sum()
}

/// The characters of `text` with their columns.
fn measured(text: &str) -> impl Iterator<Item = (char, usize)> {
    let mut in_style = false;
    text.chars().map(move |c| {
        in_style |= c == '\u{1b}';
        let columns = if in_style { 0 } else { of_char(c) };
        // Styles are the only sequences in text of ours, and end with this.
        in_style &= c != 'm';
        (c, columns)
    })
}

/// `text` in lines of at most `columns`; where one is broken, the rest is indented by `hang`.
pub(crate) fn folded(text: &str, columns: usize, hang: usize, words: Words) -> String {
    let lines: Vec<String> = text
        .split('\n')
        .map(|line| {
            if of(line) <= columns {
                line.to_owned()
            } else {
                Fold::new(columns, hang, words).line(line)
            }
        })
        .collect();
    lines.join("\n")
}

/// What stays together, and the white space before it.
#[derive(Debug, Default)]
struct Piece {
    gap: usize,
    text: String,
    columns: usize,
}

/// The pieces of `line`: words, or with `together` commands as well.
fn pieces(line: &str, together: bool) -> Vec<Piece> {
    let mut found = Vec::new();
    let mut piece = Piece::default();
    let mut quoted = false;
    let mut rest = line;
    while let Some(c) = rest.chars().next() {
        let command = together
            && rest.starts_with("airlock ")
            && piece.text.is_empty()
            && found
                .last()
                .is_some_and(|last: &Piece| last.text.ends_with(':'));
        if command {
            piece.columns = of(rest);
            rest.clone_into(&mut piece.text);
            break;
        }
        if c.is_whitespace() && !quoted {
            if !piece.text.is_empty() {
                found.push(std::mem::take(&mut piece));
            }
            piece.gap += of_char(c).max(1);
            rest = rest.get(c.len_utf8()..).unwrap_or_default();
            continue;
        }
        // One that is never closed holds nothing together.
        let after = rest.get(c.len_utf8()..).unwrap_or_default();
        if c == '`' && together {
            quoted = !quoted && after.contains('`');
        }
        let end = if c == '\u{1b}' {
            rest.find('m').map_or(c.len_utf8(), |end| end + 1)
        } else {
            piece.columns += of_char(c);
            c.len_utf8()
        };
        let (own, after) = rest.split_at_checked(end).unwrap_or((rest, ""));
        piece.text.push_str(own);
        rest = after;
    }
    if !piece.text.is_empty() {
        found.push(piece);
    }
    found
}

/// Breaks one line.
struct Fold {
    columns: usize,
    hang: usize,
    words: Words,
    out: String,
    column: usize,
    /// Something stands in the line already.
    begun: bool,
}

impl Fold {
    fn new(columns: usize, hang: usize, words: Words) -> Self {
        let columns = columns.max(1);
        Self {
            columns,
            hang: hang.min(columns / 2),
            words,
            out: String::new(),
            column: 0,
            begun: false,
        }
    }

    fn line(mut self, line: &str) -> String {
        for piece in pieces(line, true) {
            if piece.columns + self.hang <= self.columns {
                self.put(&piece);
                continue;
            }
            // Nothing holds it together that would not fit anyway.
            for (at, mut word) in pieces(&piece.text, false).into_iter().enumerate() {
                if at == 0 {
                    word.gap = piece.gap;
                }
                self.put(&word);
            }
        }
        self.out
    }

    fn put(&mut self, piece: &Piece) {
        // Only what begins a text is indented as it says itself.
        let gap = piece.gap.min(self.columns / 2);
        if self.begun && self.column + gap + piece.columns > self.columns {
            self.next();
        } else {
            self.out.extend(std::iter::repeat_n(' ', gap));
            self.column += gap;
        }
        self.begun = true;
        if self.words == Words::Broken && self.column + piece.columns > self.columns {
            for (c, columns) in measured(&piece.text) {
                if self.column + columns > self.columns {
                    self.next();
                }
                self.out.push(c);
                self.column += columns;
            }
        } else {
            self.out.push_str(&piece.text);
            self.column += piece.columns;
        }
    }

    fn next(&mut self) {
        self.out.push('\n');
        self.out.extend(std::iter::repeat_n(' ', self.hang));
        self.column = self.hang;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use unicode_width::UnicodeWidthStr as _;

    #[test]
    fn lines_are_broken_at_spaces_and_commands_are_not() {
        for (text, columns, hang, want) in [
            ("one two three", 20, 2, "one two three"),
            ("one two three", 9, 2, "one two\n  three"),
            (
                "  why: one two three",
                12,
                7,
                "  why: one\n      two\n      three",
            ),
            ("a\nlong one two three", 9, 0, "a\nlong one\ntwo three"),
            (
                "take it back with `airlock undo 0192f3a4`",
                30,
                2,
                "take it back with\n  `airlock undo 0192f3a4`",
            ),
            (
                "do it by hand: airlock undo 0192f3a4",
                30,
                2,
                "do it by hand:\n  airlock undo 0192f3a4",
            ),
            // A command that fits on no line is broken at its spaces.
            (
                "try `airlock undo 0192f3a4`",
                16,
                2,
                "try `airlock\n  undo 0192f3a4`",
            ),
            // What is not closed holds nothing together.
            ("a ` b c d e f", 7, 0, "a ` b c\nd e f"),
            // Spaces that are said not to break do.
            ("one\u{a0}two\u{2003}three", 9, 0, "one two\nthree"),
            ("go 漢字漢字 on", 8, 0, "go\n漢字漢字\non"),
        ] {
            let got = folded(text, columns, hang, Words::Whole);
            assert_eq!(got, want, "{text} at {columns}");
        }
    }

    #[test]
    fn a_word_wider_than_the_line_stays_whole_or_is_broken() {
        let path = "/a/path/that/is/longer/than/the/line";
        let text = format!("written to {path} now");
        let whole = folded(&text, 20, 2, Words::Whole);
        assert_eq!(whole, format!("written to\n  {path}\n  now"));
        let broken = folded(&text, 20, 2, Words::Broken);
        assert!(broken.lines().all(|line| of(line) <= 20), "{broken}");
        assert_eq!(
            broken.replace("\n  ", "").replace(' ', ""),
            text.replace(' ', "")
        );
    }

    #[test]
    fn whatever_is_in_a_text_its_lines_fit_and_only_the_first_begins_at_the_edge() {
        let texts = [
            "漢字".repeat(50),
            "漢 字 ".repeat(50),
            "e\u{301}\u{302} ".repeat(90),
            "\u{1f980} \u{2764}\u{fe0f}x ".repeat(40),
            "\u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467}".repeat(20),
            format!("{}the\u{a0}agent\u{a0}wants", "x".repeat(60)),
            format!(
                "\u{1b}[1m\u{1b}[33mwarning\u{1b}[0m: {}",
                "one two ".repeat(30)
            ),
            " ".repeat(300) + "end",
            "`".repeat(200),
            "` ".repeat(200),
        ];
        for text in &texts {
            for columns in [20, 40, 60, 61, 200] {
                let got = folded(text, columns, 2, Words::Broken);
                for (at, line) in got.lines().enumerate() {
                    assert!(of(line) <= columns, "{columns}: {line:?}");
                    assert!(at == 0 || line.starts_with("  "), "{line:?}");
                }
                let kept = |text: &str| text.split_whitespace().collect::<String>();
                assert_eq!(kept(&got), kept(text), "nothing is lost");
            }
        }
    }

    #[test]
    fn columns_are_no_fewer_than_unicode_says() {
        for text in [
            "plain",
            "漢字",
            "e\u{301}",
            "\u{2764}\u{fe0f}",
            "\u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467}",
            "\u{1f44b}\u{1f3fd}",
            "1\u{fe0f}\u{20e3}",
            "\u{1f1e9}\u{1f1ea}",
        ] {
            assert!(of(text) >= text.width(), "{text}");
        }
        assert_eq!(of("\u{1b}[1m\u{1b}[36mab\u{1b}[0m"), 2);
    }
}
