//! A Rust file taken apart into code, comments and string literals, without parsing it.
//!
//! `code` and `comments` are as long as the source, with everything else blank, so that a
//! position or line in one means the same in the others.

/// A string literal: where it stands, quotes included, and what is in it, escapes unresolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Literal {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) text: String,
}

/// The parts of a Rust file.
#[derive(Debug)]
pub(super) struct Rust {
    pub(super) code: String,
    pub(super) comments: String,
    pub(super) literals: Vec<Literal>,
    /// The line of the `#[cfg(test)]` whose module ends the file; `usize::MAX` without one.
    pub(super) tests_from: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Code,
    Comment,
    Text,
}

impl Rust {
    pub(super) fn read(source: &str) -> Self {
        let bytes = source.as_bytes();
        let mut code = blank(bytes);
        let mut comments = blank(bytes);
        let mut literals = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            let (kind, length) = part(bytes, at);
            let end = (at + length.max(1)).min(bytes.len());
            match kind {
                Kind::Code => copy(bytes, &mut code, at, end),
                Kind::Comment => copy(bytes, &mut comments, at, end),
                Kind::Text => literals.extend(literal(source, at, end)),
            }
            at = end;
        }
        let code = String::from_utf8_lossy(&code).into_owned();
        Self {
            tests_from: tests_from(&code),
            comments: String::from_utf8_lossy(&comments).into_owned(),
            code,
            literals,
        }
    }

    /// The line, counted from 1, that position `at` is on.
    pub(super) fn line_of(&self, at: usize) -> usize {
        1 + self
            .code
            .bytes()
            .take(at)
            .filter(|byte| *byte == b'\n')
            .count()
    }
}

/// Whether `line` has `word` standing alone, not as a part of a longer name.
pub(super) fn has_word(line: &str, word: &str) -> bool {
    let part_of_name = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line.get(..at).and_then(|text| text.chars().next_back());
        let after = line
            .get(at + word.len()..)
            .and_then(|text| text.chars().next());
        !before.is_some_and(part_of_name) && !after.is_some_and(part_of_name)
    })
}

fn blank(bytes: &[u8]) -> Vec<u8> {
    let spaces = bytes
        .iter()
        .map(|byte| if *byte == b'\n' { b'\n' } else { b' ' });
    spaces.collect()
}

fn copy(from: &[u8], to: &mut [u8], start: usize, end: usize) {
    if let (Some(from), Some(to)) = (from.get(start..end), to.get_mut(start..end)) {
        to.copy_from_slice(from);
    }
}

/// What begins at `at`, and how many bytes it takes.
fn part(bytes: &[u8], at: usize) -> (Kind, usize) {
    let rest = bytes.get(at..).unwrap_or_default();
    match rest {
        [b'/', b'/', ..] => (Kind::Comment, until_newline(rest)),
        [b'/', b'*', ..] => (Kind::Comment, block_comment(rest)),
        [b'"', ..] => (Kind::Text, quoted(rest)),
        [b'r', b'"' | b'#', ..] if !continues_name(bytes, at) => match raw_string(rest) {
            Some(length) => (Kind::Text, length),
            None => (Kind::Code, 1),
        },
        // A character literal is nothing a rule looks for, but `'"'` must not open a string.
        [b'\'', ..] => (Kind::Code, character(rest)),
        _ => (Kind::Code, 1),
    }
}

/// Whether the byte at `at` goes on with a name; `b` and `c` before `r"` are prefixes instead.
fn continues_name(bytes: &[u8], at: usize) -> bool {
    let back = |by: usize| at.checked_sub(by).and_then(|at| bytes.get(at)).copied();
    let part_of_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    match back(1) {
        Some(b'b' | b'c') => back(2).is_some_and(part_of_name),
        other => other.is_some_and(part_of_name),
    }
}

fn until_newline(rest: &[u8]) -> usize {
    rest.iter()
        .position(|byte| *byte == b'\n')
        .unwrap_or(rest.len())
}

fn block_comment(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    loop {
        match rest.get(at..).unwrap_or_default() {
            [] => return at,
            [b'/', b'*', ..] => {
                depth += 1;
                at += 2;
            }
            [b'*', b'/', ..] => {
                depth = depth.saturating_sub(1);
                at += 2;
                if depth == 0 {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
}

fn quoted(rest: &[u8]) -> usize {
    let mut at = 1;
    loop {
        match rest.get(at) {
            None => return at,
            Some(b'"') => return at + 1,
            Some(b'\\') => at += 2,
            Some(_) => at += 1,
        }
    }
}

/// The length of `r"..."` or `r#"..."#`; none for a raw name such as `r#type`.
fn raw_string(rest: &[u8]) -> Option<usize> {
    let hashes = rest
        .iter()
        .skip(1)
        .take_while(|byte| **byte == b'#')
        .count();
    if rest.get(1 + hashes) != Some(&b'"') {
        return None;
    }
    let begin = hashes + 2;
    let close = [b"\"".as_slice(), &b"#".repeat(hashes)].concat();
    let body = rest.get(begin..).unwrap_or_default();
    let ends = body.windows(close.len()).position(|part| part == close);
    Some(ends.map_or(rest.len(), |ends| begin + ends + close.len()))
}

/// The length of a character literal, or 1 for the quote of a lifetime.
fn character(rest: &[u8]) -> usize {
    let end_after = |from: usize| {
        let tail = rest.get(from..).unwrap_or_default();
        tail.iter()
            .take(12)
            .position(|byte| *byte == b'\'')
            .map_or(1, |at| from + at + 1)
    };
    match rest {
        [_, b'\\', ..] => end_after(3),
        [_, _, b'\'', ..] => 3,
        // Wider than ASCII: up to four bytes before the closing quote.
        [_, first, ..] if !first.is_ascii() => end_after(2).min(6),
        _ => 1,
    }
}

fn literal(source: &str, start: usize, end: usize) -> Option<Literal> {
    let text = source.get(start..end)?;
    let text = text.trim_start_matches('r').trim_matches('#');
    Some(Literal {
        start,
        end,
        text: text.trim_matches('"').to_owned(),
    })
}

fn tests_from(code: &str) -> usize {
    let lines: Vec<&str> = code.lines().collect();
    let opens = lines.windows(2).rposition(|pair| {
        matches!(pair, [attribute, module]
            if *attribute == "#[cfg(test)]" && module.starts_with("mod ") && module.trim_end().ends_with('{'))
    });
    let Some(opens) = opens else {
        return usize::MAX;
    };
    // Only a module that ends the file: its closing brace is the first, and the last, at the margin.
    let closes = lines
        .iter()
        .skip(opens)
        .position(|line| line.starts_with('}'));
    let last = lines.iter().rposition(|line| !line.trim().is_empty());
    if closes.map(|at| at + opens) == last {
        opens + 1
    } else {
        usize::MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_comments_and_strings_are_told_apart() {
        for (source, code, comment, text) in [
            ("let a = 1; // why", "let a = 1;", "// why", None),
            ("a /* b /* c */ d */ e", "a e", "/* b /* c */ d */", None),
            (r#"f("x // y")"#, "f( )", "", Some("x // y")),
            (r#"f("a\"b")"#, "f( )", "", Some(r#"a\"b"#)),
            (r##"f(r#"a"b"#) // c"##, "f( )", "// c", Some(r#"a"b"#)),
            (r#"f(br"x\")"#, "f(b )", "", Some(r"x\")),
            ("let q = '\"'; // c", "let q = '\"';", "// c", None),
            (r"let q = '\''; // c", r"let q = '\'';", "// c", None),
            ("let q = 'é'; // c", "let q = 'é';", "// c", None),
            (
                "fn f<'a>(x: &'a str) {} // c",
                "fn f<'a>(x: &'a str) {}",
                "// c",
                None,
            ),
            ("let r#type = 1;", "let r#type = 1;", "", None),
            ("\"never closed", "", "", Some("never closed")),
        ] {
            let rust = Rust::read(source);
            let seen: Vec<&str> = rust.code.split_whitespace().collect();
            assert_eq!(seen.join(" "), code, "{source}");
            assert_eq!(rust.comments.trim(), comment, "{source}");
            assert_eq!(
                rust.literals.first().map(|l| l.text.as_str()),
                text,
                "{source}"
            );
            assert_eq!(rust.code.len(), source.len(), "{source}");
        }
    }

    #[test]
    fn tests_begin_at_the_module_that_ends_the_file() {
        let with = "fn a() {}\n\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\n";
        assert_eq!(Rust::read(with).tests_from, 3);
        assert_eq!(Rust::read("fn a() {}\n").tests_from, usize::MAX);
        let hidden = format!("{with}\nfn after() {{}}\n");
        assert_eq!(
            Rust::read(&hidden).tests_from,
            usize::MAX,
            "code after it still counts"
        );
        assert_eq!(
            Rust::read("#[cfg(test)]\nmod tests;\n").tests_from,
            usize::MAX
        );
    }

    #[test]
    fn a_word_stands_alone() {
        assert!(has_word("unsafe { x }", "unsafe"));
        assert!(has_word("x.unsafe", "unsafe"));
        assert!(!has_word("unsafe_code", "unsafe"));
        assert!(!has_word("is_unsafe", "unsafe"));
    }

    #[test]
    fn positions_become_lines() {
        let rust = Rust::read("a\nb\n\"c\"\n");
        assert_eq!(rust.line_of(rust.literals.first().unwrap().start), 3);
    }
}
