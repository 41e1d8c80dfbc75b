//! Every small change that a line of source allows: for asking whether a test looks at anything at
//! all, where one change a line would be too few.

use crate::mutation::{
    SWAPS, WORDS, code_of, declares, find, find_word, integer, replaced, string,
};
use crate::suite::Language;

/// Most changes of one line.
const EACH: usize = 4;

/// What is changed, and the line with it.
pub(crate) type Variant = (String, String);

/// The changes that `line` allows, the sharpest first.
pub(crate) fn variants(language: Language, line: &str) -> Vec<Variant> {
    if declares(line) {
        return Vec::new();
    }
    let code = code_of(language, line);
    let mut found: Vec<Variant> = Vec::new();
    found.extend(negated(language, line, &code));
    for (from, to) in SWAPS {
        found.extend(find(&code, from).and_then(|at| replaced(line, at, from, to)));
    }
    for (from, to) in WORDS {
        found.extend(find_word(&code, from).and_then(|at| replaced(line, at, from, to)));
    }
    found.extend(integer(&code).and_then(|(at, number)| {
        let more = number.parse::<u64>().ok()?.checked_add(1)?.to_string();
        replaced(line, at, number, &more)
    }));
    found.extend(
        string(language, line)
            .and_then(|(at, literal)| replaced(line, at, literal, &format!("{literal}~"))),
    );
    found.extend(crate::mutation::returned(language, line));
    if found.is_empty() {
        found.extend(removed(language, line, &code));
    }
    found.dedup();
    found.truncate(EACH);
    found
}

/// The other way round.
fn negated(language: Language, line: &str, code: &[u8]) -> Option<Variant> {
    let start = line.trim_start();
    let indent = line.len() - start.len();
    let keyword = ["if ", "elif ", "} else if "]
        .into_iter()
        .find(|keyword| start.starts_with(keyword))?;
    let from = indent + keyword.len();
    let close: u8 = match language {
        Language::Python => b':',
        Language::Rust | Language::Go | Language::JavaScript => b'{',
    };
    let to = code.iter().rposition(|byte| *byte == close)?;
    let condition = line.get(from..to)?.trim_end();
    // A binding or a statement within it is no condition.
    let plain = !condition.is_empty()
        && !condition.contains([';', '{'])
        && !condition.starts_with("let ")
        && !condition.contains(" let ")
        && !condition.contains(":=");
    let not = match language {
        Language::Python => format!("not ({condition})"),
        Language::JavaScript => format!("(!{condition})"),
        Language::Rust | Language::Go => format!("!({condition})"),
    };
    plain
        .then(|| replaced(line, from, condition, &not))
        .flatten()
}

/// Nothing in place of a statement that stands in one line, where the languages allow it.
fn removed(language: Language, line: &str, code: &[u8]) -> Option<Variant> {
    let statement = line.trim();
    let head = statement
        .split(|sign: char| !sign.is_alphanumeric() && sign != '_')
        .next()?;
    let count = |signs: &[u8]| code.iter().filter(|byte| signs.contains(byte)).count();
    let whole = count(b"([{") == count(b")]}");
    let (nothing, ends, kept): (&str, bool, &[&str]) = match language {
        Language::Python => (
            "pass",
            !statement.ends_with([':', '\\', ',', '"', '\'']),
            &[
                "def", "class", "return", "pass", "else", "elif", "try", "except", "finally",
                "import", "from", "global", "nonlocal", "break", "continue",
            ],
        ),
        Language::JavaScript => (
            ";",
            statement.ends_with(';'),
            &[
                "const", "let", "var", "return", "import", "export", "class", "function", "case",
                "break", "continue", "default",
            ],
        ),
        // There it would often not compile, and nobody could notice.
        Language::Rust | Language::Go => return None,
    };
    let begins = head.starts_with(|sign: char| sign.is_alphabetic() || sign == '_');
    if !whole || !ends || !begins || kept.contains(&head) {
        return None;
    }
    let at = line.len() - line.trim_start().len();
    replaced(line, at, statement, nothing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_gets_every_change_it_allows() {
        use Language::{Go, JavaScript, Python, Rust};
        let cases: &[(Language, &str, &[&str])] = &[
            (
                Python,
                "    if a < 10:",
                &["    if not (a < 10):", "    if a >= 10:", "    if a < 11:"],
            ),
            (
                Rust,
                "if a == b && c {",
                &[
                    "if !(a == b && c) {",
                    "if a != b && c {",
                    "if a == b || c {",
                ],
            ),
            (Rust, "if let Some(a) = b {", &[]),
            (Go, "\tif a > b {", &["\tif !(a > b) {", "\tif a <= b {"]),
            (Go, "\tif x := f(); x {", &[]),
            (JavaScript, "  if (a) {", &["  if (!(a)) {"]),
            (Python, "    self.a = a", &["    pass"]),
            (Python, "    a: int", &["    pass"]),
            (Python, "    foo(a,", &[]),
            (Python, "class A:", &[]),
            (Python, "    \"\"\"", &[]),
            (JavaScript, "  this.a = a;", &["  ;"]),
            (JavaScript, "  const a = b;", &[]),
            (Rust, "    self.a = a;", &[]),
            (Python, "    return find(a)", &["    return None"]),
            (Python, "import os", &[]),
        ];
        for (language, line, want) in cases {
            let found = variants(*language, line);
            let found: Vec<&str> = found.iter().map(|(_, line)| line.as_str()).collect();
            assert_eq!(&found, want, "{line}");
        }
    }
}
