//! A line being typed: what each key does to it. Pure: bytes in, what to show out.
//!
//! Understands the keys a shell's line does: moving, deleting by character, word and line, and
//! going back to earlier lines. Everything else that begins with an escape is skipped whole.

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
    /// After `ESC [` or `ESC O`; what was said before its end.
    Sequence(u8),
}

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
}

impl Editor {
    /// Takes one byte.
    pub(super) fn take(&mut self, byte: u8) -> Typed {
        match self.escape {
            Escape::Begun => {
                self.escape = match byte {
                    b'[' | b'O' => Escape::Sequence(0),
                    _ => Escape::None,
                };
                return Typed::Changed;
            }
            Escape::Sequence(said) => {
                self.sequence(said, byte);
                return Typed::Changed;
            }
            Escape::None => {}
        }
        if byte >= 0x80 || !self.partial.is_empty() {
            self.wide(byte);
            return Typed::Changed;
        }
        self.key(byte)
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

    fn sequence(&mut self, said: u8, byte: u8) {
        self.escape = Escape::None;
        match byte {
            b'A' => self.before(),
            b'B' => self.later(),
            b'C' => self.cursor = (self.cursor + 1).min(self.line.len()),
            b'D' => self.cursor = self.cursor.saturating_sub(1),
            b'H' => self.cursor = 0,
            b'F' => self.cursor = self.line.len(),
            b'~' => match said {
                b'1' | b'7' => self.cursor = 0,
                b'3' => self.delete(),
                b'4' | b'8' => self.cursor = self.line.len(),
                _ => {}
            },
            // Parameters; only the first digit tells the keys apart.
            0x20..=0x3f => {
                self.escape = Escape::Sequence(if said == 0 { byte } else { said });
            }
            _ => {}
        }
    }

    /// One byte of a character of several.
    fn wide(&mut self, byte: u8) {
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

    /// The part of the line around the cursor that `room` columns hold, and where in it the cursor
    /// is.
    pub(super) fn shown(&self, room: usize) -> (String, usize) {
        let room = room.max(8);
        let from = (self.cursor + 1).saturating_sub(room);
        let part = self.line.iter().skip(from).take(room).collect();
        (part, self.cursor - from)
    }
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
}
