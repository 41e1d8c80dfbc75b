//! A line being typed: what each key does to it. Pure: bytes in, what to show out.
//!
//! Understands the keys a shell's line does: moving, deleting by character, word and line, and
//! going back to earlier lines. Everything else that begins with an escape is skipped whole. What is
//! pasted is text: its line ends do not complete the line, and nothing in it is a key but Ctrl-C.

use unicode_width::UnicodeWidthChar as _;

/// The longest line.
const LONGEST: usize = 64 * 1024;
/// Earlier lines that are remembered.
const REMEMBERED: usize = 200;

/// What came of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Typed {
    /// The line may look different.
    Changed,
    /// The line is complete.
    Line(String),
    /// Ctrl-C.
    Interrupt,
    /// Ctrl-D on an empty line.
    End,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Escape {
    #[default]
    None,
    /// After `ESC`.
    Begun,
    /// After `ESC [` or `ESC O`; the number said so far, and whether it is complete.
    Sequence(u16, bool),
}

/// What a terminal says before and after what is pasted.
const PASTE_BEGINS: u16 = 200;
const PASTE_ENDS: u16 = 201;

/// A line being typed.
#[derive(Debug, Default)]
pub(super) struct Editor {
    line: Vec<char>,
    cursor: usize,
    escape: Escape,
    /// Bytes of a character that is not complete.
    partial: Vec<u8>,
    earlier: Vec<String>,
    /// Which of the earlier lines is shown, and what was typed before.
    recalled: Option<(usize, Vec<char>)>,
    /// What comes is pasted; whether its last byte was a carriage return.
    pasting: Option<bool>,
}

impl Editor {
    /// Takes one byte.
    pub(super) fn take(&mut self, byte: u8) -> Typed {
        // Whatever is incomplete, the person can always get out.
        let out = byte == 0x03;
        match self.escape {
            Escape::Begun if !out => {
                self.escape = match byte {
                    b'[' | b'O' => Escape::Sequence(0, false),
                    0x1b => Escape::Begun,
                    _ => Escape::None,
                };
                // A key of its own, and no part of one.
                if byte < 0x20 && byte != 0x1b {
                    return self.plain(byte);
                }
                return Typed::Changed;
            }
            Escape::Sequence(number, closed) if !out => {
                self.sequence(number, closed, byte);
                return Typed::Changed;
            }
            Escape::Begun | Escape::Sequence(..) | Escape::None => self.escape = Escape::None,
        }
        self.plain(byte)
    }

    /// A byte that belongs to no escape.
    fn plain(&mut self, byte: u8) -> Typed {
        if byte >= 0x80 {
            self.wide(byte);
            return Typed::Changed;
        }
        // What was begun before it never becomes a character.
        self.partial.clear();
        match self.pasting {
            Some(returned) if byte != 0x03 => {
                self.pasted(returned, byte);
                Typed::Changed
            }
            Some(_) | None => self.key(byte),
        }
    }

    fn pasted(&mut self, returned: bool, byte: u8) {
        self.pasting = Some(byte == b'\r');
        match byte {
            b'\n' if returned => {}
            b'\r' | b'\n' => self.insert('\n'),
            b'\t' => self.insert(' '),
            0x20..=0x7e => self.insert(char::from(byte)),
            0x1b => self.escape = Escape::Begun,
            _ => {}
        }
    }

    fn key(&mut self, byte: u8) -> Typed {
        match byte {
            b'\r' | b'\n' => return Typed::Line(self.complete()),
            0x03 => {
                self.clear();
                return Typed::Interrupt;
            }
            0x04 if self.line.is_empty() => return Typed::End,
            0x04 => self.delete(),
            0x01 => self.cursor = 0,
            0x05 => self.cursor = self.line.len(),
            0x02 => self.cursor = self.cursor.saturating_sub(1),
            0x06 => self.cursor = (self.cursor + 1).min(self.line.len()),
            0x0b => self.line.truncate(self.cursor),
            0x0e => self.later(),
            0x10 => self.before(),
            0x15 => {
                self.line.drain(..self.cursor);
                self.cursor = 0;
            }
            0x17 => self.delete_word(),
            0x08 | 0x7f if self.cursor > 0 => {
                self.cursor -= 1;
                self.delete();
            }
            0x1b => self.escape = Escape::Begun,
            b'\t' => self.insert(' '),
            0x20..=0x7e => self.insert(char::from(byte)),
            _ => {}
        }
        Typed::Changed
    }

    fn sequence(&mut self, number: u16, closed: bool, byte: u8) {
        self.escape = Escape::None;
        match byte {
            // Parameters; only the first number tells the keys apart.
            b'0'..=b'9' => {
                let more = number
                    .saturating_mul(10)
                    .saturating_add(u16::from(byte - b'0'));
                self.escape = Escape::Sequence(if closed { number } else { more }, closed);
            }
            0x20..=0x3f => self.escape = Escape::Sequence(number, true),
            0x1b => self.escape = Escape::Begun,
            b'~' if number == PASTE_BEGINS => self.pasting = Some(false),
            b'~' if number == PASTE_ENDS => self.pasting = None,
            _ if self.pasting.is_some() => {}
            b'A' => self.before(),
            b'B' => self.later(),
            b'C' => self.cursor = (self.cursor + 1).min(self.line.len()),
            b'D' => self.cursor = self.cursor.saturating_sub(1),
            b'H' => self.cursor = 0,
            b'F' => self.cursor = self.line.len(),
            b'~' => match number {
                1 | 7 => self.cursor = 0,
                3 => self.delete(),
                4 | 8 => self.cursor = self.line.len(),
                _ => {}
            },
            _ => {}
        }
    }

    /// One byte of a character of several.
    fn wide(&mut self, byte: u8) {
        // A new one begins where the last was not complete.
        if byte >= 0xc0 {
            self.partial.clear();
        }
        self.partial.push(byte);
        let complete = match std::str::from_utf8(&self.partial) {
            Ok(text) => airlock_kernel::strip_control(text).into_owned(),
            Err(error) if error.error_len().is_some() => String::new(),
            // More bytes belong to it.
            Err(_) => return,
        };
        self.partial.clear();
        for c in complete.chars() {
            self.insert(c);
        }
    }

    fn insert(&mut self, c: char) {
        if self.line.len() < LONGEST {
            self.line.insert(self.cursor, c);
            self.cursor += 1;
        }
    }

    fn delete(&mut self) {
        if self.cursor < self.line.len() {
            self.line.remove(self.cursor);
        }
    }

    fn delete_word(&mut self) {
        let before = self.line.get(..self.cursor).unwrap_or_default();
        let word = before.iter().rposition(|c| !c.is_whitespace()).unwrap_or(0);
        let before = before.get(..word).unwrap_or_default();
        let from = before.iter().rposition(|c| c.is_whitespace());
        let from = from.map_or(0, |at| at + 1);
        self.line.drain(from..self.cursor);
        self.cursor = from;
    }

    fn before(&mut self) {
        let at = match &self.recalled {
            Some((at, _)) => at.checked_sub(1),
            None => self.earlier.len().checked_sub(1),
        };
        let Some(at) = at else {
            return;
        };
        let typed = self
            .recalled
            .take()
            .map_or_else(|| self.line.clone(), |(_, typed)| typed);
        self.recall(at);
        self.recalled = Some((at, typed));
    }

    fn later(&mut self) {
        let Some((at, typed)) = self.recalled.take() else {
            return;
        };
        if at + 1 < self.earlier.len() {
            self.recall(at + 1);
            self.recalled = Some((at + 1, typed));
        } else {
            self.cursor = typed.len();
            self.line = typed;
        }
    }

    fn recall(&mut self, at: usize) {
        self.line = self
            .earlier
            .get(at)
            .map(|line| line.chars().collect())
            .unwrap_or_default();
        self.cursor = self.line.len();
    }

    fn clear(&mut self) {
        self.line.clear();
        self.cursor = 0;
        self.recalled = None;
        self.partial.clear();
        self.escape = Escape::None;
        self.pasting = None;
    }

    fn complete(&mut self) -> String {
        let line: String = self.line.iter().collect();
        self.clear();
        if !line.trim().is_empty() && self.earlier.last() != Some(&line) {
            self.earlier.push(line.clone());
            if self.earlier.len() > REMEMBERED {
                self.earlier.remove(0);
            }
        }
        line
    }

    /// The part of the line around the cursor that `room` columns hold, and in which of them the
    /// cursor is. Line ends are shown as a sign: it stays one line.
    pub(super) fn shown(&self, room: usize) -> (String, usize) {
        let room = room.max(8);
        let before = self.line.get(..self.cursor).unwrap_or_default();
        let (mut from, mut column) = (self.cursor, 0);
        for c in before.iter().rev() {
            if column + columns(*c) >= room {
                break;
            }
            column += columns(*c);
            from -= 1;
        }
        let mut part = String::new();
        let mut filled = 0;
        for c in self.line.iter().skip(from) {
            filled += columns(*c);
            if filled > room {
                break;
            }
            part.push(if *c == '\n' { LINE_END } else { *c });
        }
        (part, column)
    }
}

/// What is shown for a line end.
const LINE_END: char = '⏎';

/// How many columns of a terminal a character takes.
fn columns(c: char) -> usize {
    let shown = if c == '\n' { LINE_END } else { c };
    shown.width().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the line says after `keys`, and where the cursor is.
    fn after(keys: &[u8]) -> (String, usize) {
        let mut editor = Editor::default();
        for key in keys {
            editor.take(*key);
        }
        (editor.line.iter().collect(), editor.cursor)
    }

    #[test]
    fn keys_do_what_a_shell_does() {
        for (keys, line, cursor) in [
            (&b"hello"[..], "hello", 5),
            (b"hello\x7f\x08", "hel", 3),
            (b"hello\x01X", "Xhello", 1),
            (b"hello\x01\x05X", "helloX", 6),
            (b"hello\x02\x02X", "helXlo", 4),
            (b"hello\x1b[D\x1b[DX\x1b[CY", "helXlYo", 6),
            (b"hello\x1b[H\x1b[3~", "ello", 0),
            (b"hello\x1b[1~X\x1b[4~Y", "XhelloY", 7),
            (b"hello\x1bOHX", "Xhello", 1),
            (b"one two  three\x17", "one two  ", 9),
            (b"one two\x17\x17", "", 0),
            (b"one two\x15", "", 0),
            (b"one two\x01\x06\x0b", "o", 1),
            (b"a\x1b[1;5Cb", "ab", 2),
            (b"a\x1b[200~b", "ab", 2),
            // Function keys are no other keys, whatever their numbers begin with.
            (b"ab\x1b[15~X", "abX", 3),
            (b"ab\x1b[D\x1b[34~X", "aXb", 2),
            (b"ab\x1b[D\x1b[3;5~X", "aX", 2),
            // Pasted: line ends are text, and so is everything else.
            (
                b"\x1b[200~one\rtwo\r\nthree\n\x1b[201~!",
                "one\ntwo\nthree\n!",
                15,
            ),
            (b"x\x1b[200~a\x1b[Db\x01c\x04\x1b[201~\x01y", "yxabc", 1),
            // What is not complete is no character, and takes nothing with it.
            (b"a\xc3b", "ab", 2),
            (b"a\xe6\xbc\xe6\xbc\xa2", "a漢", 2),
            (b"a\x1b\x01b", "ba", 1),
            (b"gr\xc3\xb6\xc3\x9fer\x7f\x7f", "größ", 4),
            (b"a\xff\xfeb", "ab", 2),
            (b"a\x00\x07b", "ab", 2),
            (b"\x7f\x1b[D\x04", "", 0),
        ] {
            let shown = String::from_utf8_lossy(keys).escape_debug().to_string();
            assert_eq!(after(keys), (line.to_owned(), cursor), "{shown}");
        }
    }

    #[test]
    fn earlier_lines_come_back_and_what_was_typed_is_kept() {
        let mut editor = Editor::default();
        let mut typed = |keys: &[u8]| {
            let mut last = Typed::Changed;
            for key in keys {
                last = editor.take(*key);
            }
            last
        };
        assert_eq!(typed(b"one\r"), Typed::Line("one".to_owned()));
        assert_eq!(typed(b"two\n"), Typed::Line("two".to_owned()));
        assert_eq!(
            typed(b"\x1b[A\x1b[A\x1b[A\r"),
            Typed::Line("one".to_owned())
        );
        assert_eq!(typed(b"new\x1b[A\x1b[B!\r"), Typed::Line("new!".to_owned()));
        assert_eq!(typed(b"lost\x03"), Typed::Interrupt);
        for stuck in [
            &b"\x1b\x03"[..],
            b"\x1b[1\x03",
            b"\xc3\x03",
            b"\x1b[200~a\nb\x03",
        ] {
            assert_eq!(typed(stuck), Typed::Interrupt, "{stuck:?}");
            assert_eq!(typed(b"x\r"), Typed::Line("x".to_owned()), "{stuck:?}");
        }
        assert_eq!(typed(b"\xc3\r"), Typed::Line(String::new()));
        assert_eq!(typed(b"\x04"), Typed::End);
        assert_eq!(typed(b"\r"), Typed::Line(String::new()));
    }

    #[test]
    fn a_long_line_shows_the_part_around_its_cursor() {
        let mut editor = Editor::default();
        for n in 0..100_u8 {
            editor.take(b'a' + n % 26);
        }
        let (part, cursor) = editor.shown(20);
        assert_eq!((part.chars().count(), cursor), (19, 19));
        editor.take(0x01);
        let (part, cursor) = editor.shown(20);
        assert_eq!((part.chars().count(), cursor), (20, 0));
    }

    #[test]
    fn wide_characters_take_two_columns_and_marks_none() {
        let mut editor = Editor::default();
        for byte in "漢字e\u{301}\n".bytes() {
            editor.take(byte);
        }
        // The line end completed the line; it comes back with the arrow.
        editor.take(0x10);
        assert_eq!(editor.shown(20), ("漢字e\u{301}".to_owned(), 5));
        editor.take(0x01);
        editor.take(0x06);
        assert_eq!(editor.shown(20).1, 2);
        let mut editor = Editor::default();
        for byte in "漢".repeat(30).bytes() {
            editor.take(byte);
        }
        for room in 8..30 {
            let (part, cursor) = editor.shown(room);
            let wide: usize = part.chars().map(columns).sum();
            assert!(wide <= room && cursor < room, "{room}: {wide} {cursor}");
            assert_eq!(wide, cursor, "the cursor is behind the last character");
        }
        let mut editor = Editor::default();
        for byte in b"\x1b[200~a\nb\x1b[201~" {
            editor.take(*byte);
        }
        assert_eq!(editor.shown(20), ("a⏎b".to_owned(), 3));
    }
}
