//! Text of others made fit to show: on one line, without anything a terminal would obey, and
//! without a backtick that would end the quotation early.

use crate::load::is_harmless;
use airlock_core::WorkspacePath;

/// Most characters of a quoted value.
const QUOTED: usize = 120;
/// Most characters of a reason.
const PROSE: usize = 500;

/// `text` between backticks, shortened if it is long.
pub(super) fn quoted(text: &str) -> String {
    format!("`{}`", cleaned(text, QUOTED).replace('`', "'"))
}

/// A sentence somebody else wrote.
pub(super) fn prose(text: &str) -> String {
    let line: Vec<&str> = text.split_whitespace().collect();
    cleaned(&line.join(" "), PROSE)
}

/// A name or a file's name, whole.
pub(super) fn plain(text: &str) -> String {
    cleaned(text, usize::MAX)
}

fn cleaned(text: &str, most: usize) -> String {
    let mut out: String = text
        .chars()
        .take(most)
        .map(|char| if is_harmless(char) { char } else { '\u{fffd}' })
        .collect();
    if most < usize::MAX && text.chars().nth(most).is_some() {
        out.push_str("...");
    }
    out
}

/// `` `a`, `b` and 3 more ``.
pub(super) fn several<'a>(texts: impl ExactSizeIterator<Item = &'a str>, most: usize) -> String {
    let more = texts.len().saturating_sub(most);
    let shown: Vec<String> = texts.take(most).map(quoted).collect();
    let shown = shown.join(", ");
    if more == 0 {
        shown
    } else {
        format!("{shown} and {more} more")
    }
}

/// A value of the policy file, quoted only where YAML needs it.
pub(super) fn yaml(text: &str) -> String {
    let begins = text.starts_with(|char: char| char.is_ascii_alphabetic() || char == '/');
    let safe = |byte: u8| byte.is_ascii_alphanumeric() || b"_./-".contains(&byte);
    let word = text.to_ascii_lowercase();
    let means_something = ["true", "false", "yes", "no", "on", "off", "null", "y", "n"];
    if begins && text.bytes().all(safe) && !means_something.contains(&word.as_str()) {
        return text.to_owned();
    }
    // Every escape of JSON is one of YAML's double-quoted scalars.
    serde_json::Value::from(text).to_string()
}

/// Values of the policy file: one bare, several as a list.
pub(super) fn yaml_list(values: &[String]) -> String {
    match values {
        [one] => yaml(one),
        several => {
            let shown: Vec<String> = several.iter().map(|value| yaml(value)).collect();
            format!("[{}]", shown.join(", "))
        }
    }
}

/// The narrowest glob that matches `path`: it alone, and what lies below it.
///
/// A character that cannot stand in a policy file becomes `?`.
pub(super) fn glob(path: &WorkspacePath) -> String {
    if path.is_root() {
        // No other glob means the root itself.
        return "**".to_owned();
    }
    let text = path.as_str();
    let mut out = String::with_capacity(text.len() + 1);
    // Without a `/` a glob would apply at any depth; at the front `!` and `~` mean something.
    if !text.contains('/') || text.starts_with(|char: char| "!~".contains(char) || char == ' ') {
        out.push('/');
    }
    for char in text.chars() {
        match char {
            '`' => out.push('?'),
            ' ' => out.push(' '),
            char if !is_harmless(char) || char.is_whitespace() => out.push('?'),
            '*' | '?' | '[' | ']' | '\\' | '{' | '}' | ':' => out.extend(['\\', char]),
            char => out.push(char),
        }
    }
    if out.ends_with(' ') {
        out.insert(out.len() - 1, '\\');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::glob::{Leaf, PathGlobs, PathText};
    use proptest::prelude::*;

    #[test]
    fn what_is_shown_is_one_line_without_control_or_backticks() {
        let hostile = "a`b\u{1b}[2Jc\nd\u{202e}e";
        assert_eq!(quoted(hostile), "`a'b\u{fffd}[2Jc\u{fffd}d\u{fffd}e`");
        assert_eq!(prose("one\n  two\tthree"), "one two three");
        assert!(quoted(&"x".repeat(10_000)).len() < 200);
    }

    #[test]
    fn yaml_values_are_quoted_where_they_would_mean_something_else() {
        for (text, want) in [
            ("docs/x.md", "docs/x.md"),
            ("/Cargo.toml", "/Cargo.toml"),
            ("fs.write", "fs.write"),
            ("no", "\"no\""),
            ("True", "\"True\""),
            ("1e5", "\"1e5\""),
            (".inf", "\".inf\""),
            ("**", "\"**\""),
            ("a: b", "\"a: b\""),
            ("a\\b\"c", r#""a\\b\"c""#),
            ("", "\"\""),
        ] {
            assert_eq!(yaml(text), want);
        }
    }

    proptest! {
        #[test]
        fn the_glob_of_a_path_loads_and_matches_it_and_no_sibling(
            text in "[a-c./ !~*?\\[\\]{}\\\\:`\u{1b}\u{202e}\u{3000}-]{1,12}",
        ) {
            if let Ok(path) = WorkspacePath::new(&text) {
                let glob = glob(&path);
                let globs = PathGlobs::parse(&[&glob]).unwrap();
                prop_assert!(globs.matches(PathText::new(path.as_str()), Leaf::File), "{}", glob);
                let sibling = format!("zz{}", path.as_str());
                let other = PathText::new(&sibling);
                prop_assert!(path.is_root() || !globs.matches(other, Leaf::File), "{}", glob);
            }
        }
    }
}
