//! What a source says, in each of the ways in which it may be spelled: as it stands, with its escapes
//! resolved, and with strings that stand beside each other as one.
//!
//! Guarantee: nothing is left out as a comment that could be code. Where the two cannot be told apart
//! without parsing - strings that hold code, patterns, markup - comments are read like all else.

use super::PAGES;
use crate::blank::{blanked, quiet_parts, without_comments};
use crate::inline::product_text;
use crate::suite::Language;
use regex::{Captures, Regex};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::LazyLock;
use unicode_normalization::UnicodeNormalization as _;

type Pattern = LazyLock<Option<Regex>>;

/// Strings of Python that hold code, in which their own quotes may stand.
static FIELDS: Pattern = LazyLock::new(|| Regex::new(r#"(?i)(?:^|\W)(?:[ft]r?|r[ft])["']"#).ok());
/// What begins markup in JavaScript, or a type's arguments.
static MARKUP: Pattern = LazyLock::new(|| Regex::new(r"<[\w>]").ok());
/// What is left of a comment that documents Rust where only its tokens are.
static DOCUMENTS: Pattern =
    LazyLock::new(|| Regex::new(r#"#\s*!?\s*\[\s*doc\s*=\s*"(?s:[^"\\]|\\.)*"\s*\]"#).ok());
static ESCAPE: Pattern = LazyLock::new(|| {
    let alternatives = [
        r"\\x([0-9A-Fa-f]{2})",
        r"\\u\{([0-9A-Fa-f]{1,6})\}",
        r"\\u([0-9A-Fa-f]{4})",
        r"\\U([0-9A-Fa-f]{8})",
        "%([0-9A-Fa-f]{2})",
        r"\\([0-7]{1,3})",
        r"\\N\{[A-Z ]*LATIN (SMALL|CAPITAL) LETTER ([A-Z])\}",
        r"\\\r?\n([ \t]*)",
        r"\\([^\sxuUN0-9])",
        // What is put in the place of this is not known.
        "%s",
    ];
    Regex::new(&alternatives.join("|")).ok()
});
/// Between two strings that are one.
static BESIDE: Pattern = LazyLock::new(|| two_strings(r"\+?"));
/// Between two strings of a list.
static LISTED: Pattern = LazyLock::new(|| two_strings(","));

/// From the end of a string to the beginning of the next, with `sign` between them.
fn two_strings(sign: &str) -> Option<Regex> {
    // Comments may have been left in, and brackets around one string change nothing.
    let gap = r"(?:[\s()]|(?:#|//).*?[\n\r\x{2028}\x{2029}]|/\*(?s:.*?)\*/)*";
    let pattern = ["(?i)[\"'`]", gap, sign, gap, "[rbuft]{0,2}[\"'`]"];
    Regex::new(&pattern.concat()).ok()
}

/// The source at `path` without its comments, and without what only tests are compiled with.
pub(super) fn said<'t>(path: &str, text: &'t str) -> Cow<'t, str> {
    match Language::of(path) {
        Some(Language::Rust) => match product_text(text) {
            Some(product) => Cow::Owned(between(&DOCUMENTS, &product, " ")),
            // What does not parse may hold anything.
            None => Cow::Borrowed(text),
        },
        Some(language) => {
            let text = lines(language, text);
            if tells_comments_apart(language, path, &text) {
                return Cow::Owned(without_comments(language, &text));
            }
            text
        }
        None => Cow::Borrowed(text),
    }
}

/// `text` with one mark for the end of a line, where the language knows several.
pub(super) fn lines(language: Language, text: &str) -> Cow<'_, str> {
    match language {
        Language::Python | Language::JavaScript if text.contains('\r') => {
            Cow::Owned(text.replace("\r\n", "\n").replace('\r', "\n"))
        }
        Language::Python | Language::JavaScript | Language::Rust | Language::Go => {
            Cow::Borrowed(text)
        }
    }
}

fn tells_comments_apart(language: Language, path: &str, text: &str) -> bool {
    match language {
        Language::Go => true,
        Language::Rust => false,
        Language::Python => lacks(&FIELDS, text),
        Language::JavaScript => {
            let is_markup = path.ends_with('x') || text.contains(['\u{2028}', '\u{2029}']);
            let code = blanked(language, text);
            let strings = quiet_parts(language, text);
            let holds_code = strings.iter().filter(|part| part.is_string).any(|part| {
                let first = text.as_bytes().get(part.from);
                first.is_some_and(|first| matches!(first, b'`' | b'/'))
            });
            !is_markup && !holds_code && !code.contains('/') && lacks(&MARKUP, &code)
        }
    }
}

fn lacks(pattern: &Pattern, text: &str) -> bool {
    let pattern = pattern.as_ref();
    pattern.is_some_and(|pattern| !pattern.is_match(text))
}

/// What the source at `path` says, once for each way to read it.
pub(super) fn readings(path: &str, text: &str) -> BTreeSet<String> {
    let plain = folded(&said(path, text));
    let resolved = folded(&without_escapes(path, &plain));
    let beside = between(&BESIDE, &resolved, "");
    // As a call makes one path of them, and as another makes one string.
    let parts = between(&LISTED, &beside, "/");
    let pieces = between(&LISTED, &beside, "");
    BTreeSet::from([plain, resolved, beside, parts, pieces])
}

/// `text` with `by` in the place of `pattern`.
fn between(pattern: &Pattern, text: &str, by: &str) -> String {
    match pattern.as_ref() {
        Some(pattern) => pattern.replace_all(text, by).into_owned(),
        None => text.to_owned(),
    }
}

/// Letters that some languages take for the same are the same.
pub(super) fn folded(text: &str) -> String {
    if text.is_ascii() {
        return text.to_owned();
    }
    text.nfkc().collect()
}

fn without_escapes(path: &str, text: &str) -> String {
    let skips_indents = Language::of(path) == Some(Language::Rust);
    let meant = |found: &Captures<'_>| -> String {
        let group = |number: usize| found.get(number).map(|group| group.as_str());
        let hex = (1..=5).find_map(group);
        let code = hex.map_or_else(
            || group(6).and_then(|octal| u32::from_str_radix(octal, 8).ok()),
            |hex| u32::from_str_radix(hex, 16).ok(),
        );
        if let Some(code) = code {
            return char::from_u32(code).into_iter().collect();
        }
        match (group(7), group(8), group(9), group(10)) {
            (Some("SMALL"), Some(letter), _, _) => letter.to_lowercase(),
            (Some(_), Some(letter), _, _) => letter.to_owned(),
            (_, _, Some(indent), _) if !skips_indents => indent.to_owned(),
            (_, _, None, Some(letter)) => short(letter).to_owned(),
            (_, _, _, _) => String::new(),
        }
    };
    match ESCAPE.as_ref() {
        Some(escape) => escape.replace_all(text, meant).into_owned(),
        None => text.to_owned(),
    }
}

/// What a backslash makes of a letter.
fn short(letter: &str) -> &str {
    match letter {
        "b" => "\x08",
        "f" => "\x0c",
        "n" => "\n",
        "r" => "\r",
        "t" => "\t",
        "v" => "\x0b",
        itself => itself,
    }
}

/// Whether the file at `path` is a page that JavaScript stands in.
pub(super) fn is_page(path: &str) -> bool {
    let end = path.rsplit_once('.').map_or("", |(_, end)| end);
    PAGES.contains(&end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_however_it_is_spelled() {
        for (path, text) in [
            ("a.py", r#"x = "te\x73ts/impl.py""#),
            ("a.py", r#"x = "te\163ts/impl.py""#),
            ("a.py", r#"x = "te\u0073ts/impl.py""#),
            ("a.py", r#"x = "te\U00000073ts/impl.py""#),
            ("a.py", r#"x = "te\N{LATIN SMALL LETTER S}ts/impl.py""#),
            ("a.py", "x = 'te\\\nsts/impl.py'"),
            ("a.py", "x = 'te' 'sts/impl.py'"),
            ("a.py", "x = ('te'  # a\n  r\"sts/impl.py\")"),
            ("a.py", "x = 'te' + 'sts/impl.py'"),
            ("a.py", "x = 'te' \\\n  'sts/impl.py'"),
            ("a.py", "x = join('tests', 'impl.py')"),
            ("a.py", "x = 'te' + ('sts/impl.py')"),
            ("a.py", "x = ('te') + (r'sts/impl.py')"),
            ("a.py", "x = join(('tests'), ('impl.py'))"),
            ("a.py", "y = f'{a}'\nx = ('te'  # it's\n  'sts/impl.py')"),
            ("a.py", "y = f'{a}'\nx = join('tests',  # a\n  'impl.py')"),
            ("a.js", "y = a / 2;\nx = 'te' /* a */ + 'sts/impl.py'"),
            ("a.js", "y = a / 2;\nx = 'te' + // it's\n  'sts/impl.py'"),
            ("a.js", "y = a / 2;\nx = 'te' + //\u{2028} 'sts/impl.py'"),
            ("a.py", "\u{ff54}ests/impl.py"),
            ("a.js", r"x = 'te\u{73}ts/impl.py'"),
            ("a.js", r"x = 'te\sts/impl.py'"),
            ("a.js", "import('./te%73ts/impl.py')"),
            (
                "a.rs",
                "const X: &str = \"te\\\n    sts/impl.py\"; // tests",
            ),
            ("a.rs", "concat!(\"te\", \"sts/impl.py\");"),
        ] {
            let found = readings(path, text);
            let named = |reading: &String| reading.contains("tests/impl.py");
            assert!(found.iter().any(named), "{path}: {text}: {found:?}");
        }
    }

    #[test]
    fn a_comment_is_left_out_where_it_is_one_for_certain() {
        for (path, text, left) in [
            ("a.py", "x = 1  # here\n", false),
            ("a.py", "x = f'{y}'\n# here\n", true),
            ("a.py", "x = f\"{y[\"#\"]}\"; here\n", true),
            ("a.py", "x = 'a\\\n# '; here\n", true),
            ("a.py", "x = '''\n# '''; here\n", true),
            ("a.py", "# x\rhere\n", true),
            ("a.js", "const x = 1; // here\n", false),
            ("a.js", "/* here */ const x = '/*';\n", false),
            ("a.js", "if (x) /[/*]/.test(y); here\n", true),
            ("a.js", "x = `\n// ${here}`\n", true),
            ("a.js", "x = 'a\u{2028}// '; here\n", true),
            ("a.js", "x = <p>// {here}</p>\n", true),
            ("a.jsx", "x = y // here\n", true),
            ("a.go", "var x = `//` // here\n", false),
            ("a.rs", "/// here\nfn f() {} // here\n", false),
            ("a.rs", "#[cfg(test)] mod a { fn here() {} }\n", false),
            ("a.rs", "#[cfg(unix)] mod a { fn here() {} }\n", true),
            ("a.rs", "// here\nfn {}\n", true),
            ("a.inc", "// here\n", true),
        ] {
            assert_eq!(said(path, text).contains("here"), left, "{path}: {text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read(text in "(\\\\x7|\\\\u\\{|%4|f\"|[\\\\\\s'\"`/*#+,<_é]){0,40}") {
            for path in ["a.rs", "a.py", "a.js", "a.go", "a"] {
                proptest::prop_assert!(!readings(path, &text).is_empty());
            }
        }
    }
}
