//! What a command may tell the person's terminal: text and colours, and with a terminal of its own
//! the cursor and the screen. Never what makes a terminal answer, copy, retitle or run something.
//!
//! Works on any stream of bytes, cut anywhere; a sequence is judged once it is complete. What is
//! not UTF-8 is shown as the replacement character, since on some terminals such bytes are
//! commands.

use std::io::{self, Write};

/// How much a command may tell the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    /// Text and colours.
    Colours,
    /// The cursor and the screen as well.
    Screen,
}

/// The longest sequence that is kept until it is complete; what is longer is dropped.
const LONGEST: usize = 256;

#[derive(Debug, PartialEq, Eq)]
enum State {
    Text,
    Escape,
    /// After `ESC` and an intermediate byte.
    Designation,
    /// Parameters of a control sequence.
    Control,
    /// A string for the terminal: title, clipboard, device control.
    String,
    /// `ESC` inside such a string, which may end it.
    StringEscape,
}

/// Passes on what a command may tell the terminal.
pub(crate) struct Filter<W> {
    inner: W,
    level: Level,
    state: State,
    sequence: Vec<u8>,
    character: Vec<u8>,
}

impl<W: Write> Filter<W> {
    pub(crate) const fn new(inner: W, level: Level) -> Self {
        Self {
            inner,
            level,
            state: State::Text,
            sequence: Vec::new(),
            character: Vec::new(),
        }
    }

    fn take(&mut self, byte: u8, out: &mut Vec<u8>) {
        match self.state {
            State::Text => self.text(byte, out),
            State::Escape => self.escape(byte, out),
            State::Designation => {
                self.sequence.push(byte);
                let plain = matches!(self.sequence.as_slice(), [b'(' | b')', b'B' | b'0']);
                if plain && self.level == Level::Screen {
                    out.push(0x1b);
                    out.append(&mut self.sequence);
                }
                self.rest();
            }
            State::Control => self.control(byte, out),
            State::String => match byte {
                0x07 | b'\n' => self.rest(),
                0x1b => self.state = State::StringEscape,
                _ => {}
            },
            // Anything but its end is still part of the string.
            State::StringEscape => match byte {
                b'\\' | 0x07 | b'\n' => self.rest(),
                0x1b => {}
                _ => self.state = State::String,
            },
        }
    }

    fn rest(&mut self) {
        self.state = State::Text;
        self.sequence.clear();
    }

    fn text(&mut self, byte: u8, out: &mut Vec<u8>) {
        if !self.character.is_empty() || byte >= 0x80 {
            return self.wide(byte, out);
        }
        match byte {
            0x1b => self.state = State::Escape,
            b'\n' | b'\t' | b'\r' | 0x20..=0x7e => out.push(byte),
            0x08 | 0x07 | 0x0e | 0x0f if self.level == Level::Screen => out.push(byte),
            _ => {}
        }
    }

    /// One byte of a character of several.
    fn wide(&mut self, byte: u8, out: &mut Vec<u8>) {
        const UNKNOWN: &str = "\u{fffd}";
        let continues = (0x80..0xc0).contains(&byte);
        if !self.character.is_empty() && !continues {
            // It was cut short; this byte begins something else.
            self.character.clear();
            out.extend_from_slice(UNKNOWN.as_bytes());
            return self.text(byte, out);
        }
        self.character.push(byte);
        match std::str::from_utf8(&self.character) {
            Ok(text) => {
                // Controls, direction overrides and invisible tags say something else than they show.
                out.extend_from_slice(airlock_kernel::strip_control(text).as_bytes());
                self.character.clear();
            }
            Err(error) if error.error_len().is_some() => {
                out.extend_from_slice(UNKNOWN.as_bytes());
                self.character.clear();
            }
            Err(_) => {}
        }
    }

    fn escape(&mut self, byte: u8, out: &mut Vec<u8>) {
        match byte {
            b'[' => {
                self.sequence.clear();
                self.state = State::Control;
            }
            b']' | b'P' | b'X' | b'^' | b'_' => self.state = State::String,
            0x20..=0x2f => {
                self.sequence = vec![byte];
                self.state = State::Designation;
            }
            // Save and restore the cursor, move by a line, keypad modes.
            b'7' | b'8' | b'D' | b'E' | b'M' | b'=' | b'>' if self.level == Level::Screen => {
                out.extend_from_slice(&[0x1b, byte]);
                self.rest();
            }
            0x1b => {}
            _ => self.rest(),
        }
    }

    fn control(&mut self, byte: u8, out: &mut Vec<u8>) {
        match byte {
            0x20..=0x3f if self.sequence.len() < LONGEST => self.sequence.push(byte),
            0x20..=0x3f => {}
            0x40..=0x7e => {
                if self.sequence.len() < LONGEST && allowed(&self.sequence, byte, self.level) {
                    out.extend_from_slice(b"\x1b[");
                    out.append(&mut self.sequence);
                    out.push(byte);
                }
                self.rest();
            }
            0x1b => {
                self.rest();
                self.state = State::Escape;
            }
            // A control character inside a sequence is obeyed by itself.
            _ => {
                self.rest();
                self.text(byte, out);
            }
        }
    }
}

/// Private modes a program with a terminal of its own may turn on and off: keys, wrapping, cursor,
/// mouse, focus, the other screen, bracketed paste, drawing at once.
const MODES: &[&[u8]] = &[
    b"1", b"7", b"12", b"25", b"47", b"1000", b"1002", b"1003", b"1004", b"1006", b"1047", b"1048",
    b"1049", b"2004", b"2026",
];

/// Whether a terminal may be told the control sequence `parameters` and `end`.
fn allowed(parameters: &[u8], end: u8, level: Level) -> bool {
    let plain = parameters
        .iter()
        .all(|byte| byte.is_ascii_digit() || matches!(byte, b';' | b':'));
    if end == b'm' || level == Level::Colours {
        return end == b'm' && plain;
    }
    match end {
        b'h' | b'l' => match parameters.split_first() {
            Some((b'?', modes)) => modes
                .split(|byte| *byte == b';')
                .all(|mode| MODES.contains(&mode)),
            _ => parameters == b"4" || parameters == b"20",
        },
        // Moving, erasing, inserting, deleting, scrolling. Nothing that is answered.
        end => plain && b"ABCDEFGHJKLMPSTX@df`aersuIZbg".contains(&end),
    }
}

impl<W: Write> Write for Filter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut out = Vec::with_capacity(bytes.len());
        for byte in bytes {
            self.take(*byte, &mut out);
        }
        self.inner.write_all(&out)?;
        self.inner.flush()?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filtered(text: &[u8], level: Level, step: usize) -> Vec<u8> {
        let mut out = Vec::new();
        let mut filter = Filter::new(&mut out, level);
        for piece in text.chunks(step) {
            filter.write_all(piece).unwrap();
        }
        drop(filter);
        out
    }

    #[test]
    fn text_and_colours_stay_and_everything_else_goes() {
        for (text, colours, screen) in [
            (
                &b"plain\ttext\r\n"[..],
                &b"plain\ttext\r\n"[..],
                &b"plain\ttext\r\n"[..],
            ),
            (
                "é \u{1f980}".as_bytes(),
                "é \u{1f980}".as_bytes(),
                "é \u{1f980}".as_bytes(),
            ),
            (
                b"\x1b[1;31mred\x1b[0m",
                b"\x1b[1;31mred\x1b[0m",
                b"\x1b[1;31mred\x1b[0m",
            ),
            (b"\x1b[38:5:9mx", b"\x1b[38:5:9mx", b"\x1b[38:5:9mx"),
            // The clipboard, the title, a hyperlink, a device string.
            (b"a\x1b]52;c;ZXZpbA==\x07b", b"ab", b"ab"),
            (b"a\x1b]0;title\x1b\\b", b"ab", b"ab"),
            (b"a\x1bP1$r0m\x1b\\b", b"ab", b"ab"),
            (b"a\x1b_G\x1b]x\x1b\\b", b"ab", b"ab"),
            // Questions a terminal would type the answer to.
            (
                b"a\x1b[6nb\x1b[cb\x1b[>cb\x1b[21tb\x1b[?1$pb",
                b"abbbbb",
                b"abbbbb",
            ),
            (b"\x1b[>4;1mx", b"x", b"x"),
            (b"a\x1b[2Jb\x1b[Hc", b"abc", b"a\x1b[2Jb\x1b[Hc"),
            (b"\x1b[?1049h\x1b[?25l", b"", b"\x1b[?1049h\x1b[?25l"),
            (b"\x1b[?66hx\x1b[?25;66hx", b"xx", b"xx"),
            (b"\x1b(0x\x1b(Bx\x1b#8x", b"xxx", b"\x1b(0x\x1b(Bxx"),
            (b"\x1bcx\x1b7x", b"xx", b"x\x1b7x"),
            (b"a\x07\x08\x0bb\x7f", b"ab", b"a\x07\x08b"),
            // One-byte controls, raw and as characters; direction overrides.
            (
                b"a\x9b31mb",
                "a\u{fffd}31mb".as_bytes(),
                "a\u{fffd}31mb".as_bytes(),
            ),
            ("a\u{9b}31mb\u{202e}c".as_bytes(), b"a31mbc", b"a31mbc"),
            (
                b"\xc3(\xe2\x82x",
                "\u{fffd}(\u{fffd}x".as_bytes(),
                "\u{fffd}(\u{fffd}x".as_bytes(),
            ),
            // Cut short, one inside another.
            (b"a\x1b[3\x1b[31mb", b"a\x1b[31mb", b"a\x1b[31mb"),
            (b"a\x1b[3\nb", b"a\nb", b"a\nb"),
            (b"a\x1b]0;never\nb", b"ab", b"ab"),
        ] {
            for step in [1, 2, 3, 1_000] {
                let shown = String::from_utf8_lossy(text).escape_debug().to_string();
                for (level, want) in [(Level::Colours, colours), (Level::Screen, screen)] {
                    let got = filtered(text, level, step);
                    assert_eq!(
                        String::from_utf8_lossy(&got),
                        String::from_utf8_lossy(want),
                        "{shown} {level:?} {step}"
                    );
                }
            }
        }
    }

    #[test]
    fn an_endless_sequence_takes_no_memory() {
        let mut text = b"\x1b[".to_vec();
        text.extend(std::iter::repeat_n(b'1', 100_000));
        text.extend(b"mrest");
        assert_eq!(filtered(&text, Level::Screen, 4_096), b"rest");
    }
}
