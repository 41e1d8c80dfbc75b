//! Source with everything in strings and comments blanked, so that what is left is code.
//!
//! Guarantee: as many bytes as before, each line where it was, and valid text. Of a string its first
//! byte is left as a `_`: something stands there.
//!
//! Non-guarantee: languages are not parsed. A pattern of JavaScript is told from a division by what
//! stands before it, and code within a template is blanked with it.

use crate::suite::Language;

/// The code of `text`.
pub(crate) fn blanked(language: Language, text: &str) -> String {
    without(text, &quiet_parts(language, text))
}

/// The code of `text` with its strings as they are.
pub(crate) fn without_comments(language: Language, text: &str) -> String {
    let mut comments = quiet_parts(language, text);
    comments.retain(|part| !part.is_string);
    without(text, &comments)
}

/// A comment or a string.
pub(crate) struct Quiet {
    pub(crate) from: usize,
    to: usize,
    pub(crate) is_string: bool,
}

/// The comments and strings of `text`, in their order.
pub(crate) fn quiet_parts(language: Language, text: &str) -> Vec<Quiet> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut from = 0;
    while from < bytes.len() {
        let Some((end, is_string)) = quiet(language, bytes, from) else {
            from += 1;
            continue;
        };
        let to = end.clamp(from + 1, bytes.len());
        found.push(Quiet {
            from,
            to,
            is_string,
        });
        from = to;
    }
    found
}

fn without(text: &str, parts: &[Quiet]) -> String {
    let mut code = text.as_bytes().to_vec();
    for part in parts {
        let bytes = code.iter_mut().enumerate().take(part.to).skip(part.from);
        for (number, byte) in bytes {
            *byte = match *byte {
                b'\n' => b'\n',
                _ if number == part.from && part.is_string => b'_',
                _ => b' ',
            };
        }
    }
    // Whole characters are blanked, or none of their bytes.
    String::from_utf8(code).unwrap_or_default()
}

/// Where a comment or string that begins at `at` ends, and whether it is a string.
fn quiet(language: Language, bytes: &[u8], at: usize) -> Option<(usize, bool)> {
    let rest = bytes.get(at..)?;
    let first = *rest.first()?;
    let comment = |end: usize| Some((end, false));
    let string = |end: usize| Some((end, true));
    if language == Language::Python {
        return match first {
            b'#' => comment(line_end(bytes, at)),
            b'"' | b'\'' if rest.starts_with(&[first; 3]) => {
                string(closing(bytes, at + 3, &[first; 3], true))
            }
            b'"' | b'\'' => string(in_line(bytes, at, first)),
            _ => None,
        };
    }
    if rest.starts_with(b"//") {
        return comment(line_end(bytes, at));
    }
    if rest.starts_with(b"/*") {
        return comment(closing(bytes, at + 2, b"*/", false));
    }
    match (language, first) {
        (Language::Rust, b'"') => string(closing(bytes, at + 1, b"\"", true)),
        (Language::Go, b'`') => string(closing(bytes, at + 1, b"`", false)),
        (Language::JavaScript, b'`') => string(closing(bytes, at + 1, b"`", true)),
        (Language::JavaScript | Language::Go, b'"' | b'\'') => string(in_line(bytes, at, first)),
        (Language::JavaScript, b'/') => pattern(bytes, at).and_then(string),
        (Language::Rust, b'r') => raw(bytes, at).and_then(string),
        (Language::Rust, b'\'') => character(bytes, at).and_then(string),
        _ => None,
    }
}

fn line_end(bytes: &[u8], at: usize) -> usize {
    let rest = bytes.get(at..).unwrap_or_default();
    let line = rest.iter().position(|byte| *byte == b'\n');
    line.map_or(bytes.len(), |line| at + line)
}

/// Where a string that `quote` opens at `at` ends: in its line at the latest, and that goes on behind
/// a backslash at its end.
fn in_line(bytes: &[u8], at: usize, quote: u8) -> usize {
    let mut next = at + 1;
    while let Some(rest) = bytes.get(next..).filter(|rest| !rest.is_empty()) {
        next += match rest {
            [b'\\', b'\r', b'\n', ..] => 3,
            [b'\\', ..] => 2,
            [b'\n', ..] => return next,
            [first, ..] if *first == quote => return next + 1,
            _ => 1,
        };
    }
    bytes.len()
}

/// The first place behind `close`, from `at` on.
fn closing(bytes: &[u8], mut at: usize, close: &[u8], escapes: bool) -> usize {
    while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
        if escapes && rest.first() == Some(&b'\\') {
            at += 2;
        } else if rest.starts_with(close) {
            return at + close.len();
        } else {
            at += 1;
        }
    }
    bytes.len()
}

/// A raw string of Rust.
fn raw(bytes: &[u8], at: usize) -> Option<usize> {
    let before = at.checked_sub(1).and_then(|at| bytes.get(at));
    let in_name =
        before.is_some_and(|byte| byte.is_ascii_alphanumeric() && *byte != b'b' || *byte == b'_');
    let rest = bytes.get(at + 1..)?;
    let hashes = rest.iter().take_while(|byte| **byte == b'#').count();
    if in_name || rest.get(hashes) != Some(&b'"') {
        return None;
    }
    let mut close = vec![b'"'];
    close.resize(hashes + 1, b'#');
    Some(closing(bytes, at + hashes + 2, &close, false))
}

/// A character of Rust; none for a lifetime.
fn character(bytes: &[u8], at: usize) -> Option<usize> {
    let first = *bytes.get(at + 1)?;
    if first == b'\\' {
        return Some(in_line(bytes, at, b'\''));
    }
    let width = match first {
        0..0x80 => 1,
        0x80..0xe0 => 2,
        0xe0..0xf0 => 3,
        0xf0.. => 4,
    };
    (bytes.get(at + 1 + width) == Some(&b'\'')).then_some(at + 2 + width)
}

/// A pattern of JavaScript; none for a division.
fn pattern(bytes: &[u8], at: usize) -> Option<usize> {
    // No further back: a text of nothing but slashes would be read as often as it has some.
    let near = bytes.get(at.saturating_sub(80)..at)?;
    let last = near.iter().rposition(|byte| !byte.is_ascii_whitespace());
    let before = last.map_or(&[][..], |last| near.get(..=last).unwrap_or_default());
    let begins = before
        .last()
        .is_none_or(|byte| b"(,=:[!&|?{};>".contains(byte))
        || before.ends_with(b"return");
    let line = line_end(bytes, at);
    let (mut next, mut in_class) = (at + 1, false);
    while begins && next < line {
        match bytes.get(next)? {
            b'\\' => next += 1,
            b'[' => in_class = true,
            b']' => in_class = false,
            b'/' if !in_class => return Some(next + 1),
            _ => {}
        }
        next += 1;
    }
    None
}

/// Where what opens at `at` closes.
pub(crate) fn closes(code: &[u8], at: usize) -> Option<usize> {
    let mut open = Vec::new();
    for (number, byte) in code.iter().enumerate().skip(at) {
        match byte {
            b'(' => open.push(b')'),
            b'[' => open.push(b']'),
            b'{' => open.push(b'}'),
            b')' | b']' | b'}' => {
                if open.pop() != Some(*byte) {
                    return None;
                }
                if open.is_empty() {
                    return Some(number);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use Language::{Go, JavaScript, Python, Rust};

    #[test]
    fn strings_and_comments_are_blanked_and_code_is_not() {
        for (language, text, want) in [
            (Rust, "a \"b\\\"c\" d // e", "a _      d     "),
            (Rust, "'x' 'a: &'a str '\\''", "_   'a: &'a str _   "),
            (Rust, "r#\"a\"b\"# for r in s", "_        for r in s"),
            (Rust, "/* é */ x", "         x"),
            (Python, "x = '''a\n\"b'''  # c", "x = _   \n          "),
            (Python, "'a' + \"b#\"", "_   + _   "),
            (JavaScript, "a / b; x = /[/\"]/g", "a / b; x = _     g"),
            (JavaScript, "`a${b}` + 'c'", "_       + _  "),
            (Go, "`a\nb` + 'c'", "_ \n   + _  "),
            (Python, "'unclosed", "_        "),
            (Python, "'unclosed\na", "_        \na"),
            // A backslash at its end makes one line of two.
            (Python, "x = 'a\\\nb'; c", "x = _  \n  ; c"),
            (JavaScript, "'a\\\r\nb' + c", "_   \n   + c"),
        ] {
            let found = blanked(language, text);
            // A character of two bytes is two blanks.
            assert_eq!(found.len(), text.len(), "{text}");
            assert_eq!(found, want, "{text}");
        }
    }

    #[test]
    fn comments_alone_are_left_out() {
        for (language, text, want) in [
            (Python, "'a#'  # b\nc", "'a#'     \nc"),
            (JavaScript, "'//' /* b */ + c", "'//'         + c"),
            (Go, "`//` // b", "`//`     "),
        ] {
            assert_eq!(without_comments(language, text), want, "{text}");
        }
    }

    #[test]
    fn what_opens_closes_where_it_does() {
        assert_eq!(closes(b"f(a[1], {b}) + c", 1), Some(11));
        assert_eq!(closes(b"(a]", 0), None);
        assert_eq!(closes(b"(a", 0), None);
    }

    proptest::proptest! {
        #[test]
        fn any_text_keeps_its_lines(text in "[a-z'\"`/*#r\\\\\n é{}]{0,60}") {
            for language in [Rust, Python, JavaScript, Go] {
                let found = blanked(language, &text);
                proptest::prop_assert_eq!(found.len(), text.len());
                let breaks = |text: &str| -> Vec<usize> {
                    text.match_indices('\n').map(|(at, _)| at).collect()
                };
                proptest::prop_assert_eq!(breaks(&found), breaks(&text));
            }
        }
    }
}
