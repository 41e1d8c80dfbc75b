//! Characters written as escapes: of addresses, JSON, programs and HTML.

/// What one escape stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Escaped {
    /// The character in UTF-8.
    pub(super) bytes: [u8; 4],
    pub(super) count: usize,
    /// How long the escape is.
    pub(super) length: usize,
}

/// The longest escape.
pub(super) const LONGEST: usize = 16;

/// Whether an escape may begin with this byte.
pub(super) fn begins(byte: u8) -> bool {
    matches!(byte, b'%' | b'\\' | b'&')
}

fn made(code: u32, length: usize) -> Option<Escaped> {
    let mut bytes = [0; 4];
    let count = char::from_u32(code)?.encode_utf8(&mut bytes).len();
    Some(Escaped {
        bytes,
        count,
        length,
    })
}

fn raw(byte: u8, length: usize) -> Escaped {
    Escaped {
        bytes: [byte, 0, 0, 0],
        count: 1,
        length,
    }
}

/// A byte that stands for itself.
pub(super) fn plain(byte: u8) -> Escaped {
    raw(byte, 1)
}

fn number(digits: &[u8], radix: u32) -> Option<u32> {
    let zeros = digits.iter().take_while(|digit| **digit == b'0').count();
    let counting = digits.get(zeros..).unwrap_or_default();
    if digits.is_empty() || counting.len() > 6 {
        return None;
    }
    counting.iter().try_fold(0, |sum, digit| {
        Some(sum * radix + char::from(*digit).to_digit(radix)?)
    })
}

/// The escape at the beginning of `text`, if there is one.
pub(super) fn decode(text: &[u8]) -> Option<Escaped> {
    match text {
        [b'%', hex @ ..] => {
            let byte = number(hex.get(..2)?, 16)?;
            Some(raw(u8::try_from(byte).ok()?, 3))
        }
        [b'\\', b'x', hex @ ..] => {
            let byte = number(hex.get(..2)?, 16)?;
            Some(raw(u8::try_from(byte).ok()?, 4))
        }
        [b'\\', b'0'..=b'3', b'0'..=b'7', b'0'..=b'7', ..] => {
            let byte = number(text.get(1..4)?, 8)?;
            Some(raw(u8::try_from(byte).ok()?, 4))
        }
        [b'\\', b'u', hex @ ..] => made(number(hex.get(..4)?, 16)?, 6),
        [
            b'\\',
            b'n' | b'r' | b't' | b'b' | b'f' | b'v' | b'a' | b'e' | b'0',
            ..,
        ] => Some(raw(b'\n', 2)),
        [b'&', name @ ..] => entity(name),
        _ => None,
    }
}

fn entity(text: &[u8]) -> Option<Escaped> {
    let near = text.get(..LONGEST - 1).unwrap_or(text);
    let end = near.iter().position(|byte| *byte == b';')?;
    let name = near.get(..end)?;
    let code = match name {
        b"amp" => 0x26,
        b"lt" => 0x3c,
        b"gt" => 0x3e,
        b"quot" => 0x22,
        b"apos" => 0x27,
        [b'#', b'x' | b'X', hex @ ..] => number(hex, 16)?,
        [b'#', digits @ ..] => number(digits, 10)?,
        _ => return None,
    };
    made(code, end + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_stand_for_their_characters() {
        for (text, want) in [
            ("%41x", Some(("A", 3))),
            ("%4", None),
            ("%+1", None),
            (r"\x41", Some(("A", 4))),
            (r"\101", Some(("A", 4))),
            (r"\0", Some(("\n", 2))),
            (r"\08", Some(("\n", 2))),
            (r"\401", None),
            (r"\u0041", Some(("A", 6))),
            (r"\u00e9", Some(("é", 6))),
            (r"\ud83d", None),
            (r"\n", Some(("\n", 2))),
            (r"\$", None),
            ("&amp;", Some(("&", 5))),
            ("&#65;", Some(("A", 5))),
            ("&#0000065;", Some(("A", 10))),
            ("&#x41;", Some(("A", 6))),
            ("&nothing;", None),
        ] {
            let out = decode(text.as_bytes());
            let out = out
                .as_ref()
                .map(|e| (std::str::from_utf8(&e.bytes[..e.count]).unwrap(), e.length));
            assert_eq!(out, want, "{text}");
        }
    }
}
