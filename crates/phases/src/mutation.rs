//! Small changes to source that a test worth its name notices.

use crate::suite::Language;
use std::collections::BTreeSet;

/// One change of one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mutant {
    /// The file.
    pub path: String,
    /// The line, counted from 1.
    pub line: u32,
    /// What was put in place of what.
    pub what: String,
    /// The line with it, and what ends it.
    pub changed: String,
}

impl Mutant {
    /// `whole`, the text of its file, with it.
    pub fn of(&self, whole: &str) -> String {
        let mut text = String::with_capacity(whole.len() + self.changed.len());
        for (line, own) in (1_u32..).zip(whole.split_inclusive('\n')) {
            let changed = line == self.line;
            text.push_str(if changed { &self.changed } else { own });
        }
        text
    }
}

/// What is put in place of what, wherever the language has it.
pub(crate) const SWAPS: &[(&str, &str)] = &[
    ("==", "!="),
    ("!=", "=="),
    ("<=", ">"),
    (">=", "<"),
    (" < ", " >= "),
    (" > ", " <= "),
    ("&&", "||"),
    ("||", "&&"),
    (" + ", " - "),
    (" - ", " + "),
    (" * ", " + "),
    (" / ", " * "),
    (" % ", " + "),
];
pub(crate) const WORDS: &[(&str, &str)] = &[
    ("true", "false"),
    ("false", "true"),
    ("True", "False"),
    ("False", "True"),
    ("and", "or"),
    ("or", "and"),
    ("is_some", "is_none"),
    ("is_ok", "is_err"),
];

/// Up to `most` mutants of `text`, spread over `lines`.
pub fn mutants(
    language: Language,
    path: &str,
    text: &str,
    lines: &BTreeSet<u32>,
    most: usize,
) -> Vec<Mutant> {
    let whole: Vec<&str> = text.split_inclusive('\n').collect();
    let sites = sites(language, &whole, lines);
    let stride = sites.len().div_ceil(most.max(1)).max(1);
    let chosen = sites.iter().step_by(stride).take(most);
    chosen.map(|site| site.mutant(path)).collect()
}

/// A line that can be changed.
struct Site {
    line: u32,
    what: String,
    changed: String,
}

impl Site {
    fn mutant(&self, path: &str) -> Mutant {
        Mutant {
            path: path.to_owned(),
            line: self.line,
            what: self.what.clone(),
            changed: self.changed.clone(),
        }
    }
}

fn sites(language: Language, whole: &[&str], lines: &BTreeSet<u32>) -> Vec<Site> {
    let mut sites = Vec::new();
    for (line, text) in (1_u32..).zip(whole) {
        if lines.contains(&line)
            && let Some((what, changed)) = changed(language, text)
        {
            sites.push(Site {
                line,
                what,
                changed,
            });
        }
    }
    sites
}

/// A mutant, and the lines it speaks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// The change.
    pub mutant: Mutant,
    /// Its own line, and those about it that are not tried themselves.
    pub lines: BTreeSet<u32>,
}

/// Up to `most` mutants of `text` that together speak for `lines`, where `pick` says which of so
/// many neighbours is tried.
///
/// As long as there is room each line that can be changed is tried itself. A line that cannot be
/// speaks with the one before it, or else the one after it; a blank line parts those. Lines with no
/// such neighbour are in no sample.
pub fn samples(
    language: Language,
    path: &str,
    text: &str,
    lines: &BTreeSet<u32>,
    most: usize,
    pick: &mut dyn FnMut(usize) -> usize,
) -> Vec<Sample> {
    let whole: Vec<&str> = text.split_inclusive('\n').collect();
    let sites = sites(language, &whole, lines);
    let owner = owners(&whole, lines, &sites);
    let each = sites.len().div_ceil(most.max(1)).max(1);
    let mut found = Vec::new();
    for (chunk, first) in sites.chunks(each).zip((0..).step_by(each)) {
        let Some(site) = chunk.get(pick(chunk.len())).or_else(|| chunk.first()) else {
            continue;
        };
        let own = first..first + chunk.len();
        let spoken_for = owner.iter().filter(|(_, site)| own.contains(site));
        found.push(Sample {
            mutant: site.mutant(path),
            lines: spoken_for.map(|(line, _)| *line).collect(),
        });
    }
    found.truncate(most);
    found
}

/// Which of `sites` speaks for each of `lines`.
fn owners(whole: &[&str], lines: &BTreeSet<u32>, sites: &[Site]) -> Vec<(u32, usize)> {
    let parted = |from: u32, to: u32| {
        let between = whole.iter().take(to as usize).skip(from as usize);
        between.into_iter().any(|line| line.trim().is_empty())
    };
    let mut found = Vec::new();
    for line in lines {
        let before = sites.partition_point(|site| site.line <= *line);
        let speaks = |at: usize| {
            let site = sites.get(at)?;
            let (from, to) = (site.line.min(*line), site.line.max(*line));
            (!parted(from, to)).then_some(at)
        };
        let own = before.checked_sub(1).and_then(speaks);
        if let Some(at) = own.or_else(|| speaks(before)) {
            found.push((*line, at));
        }
    }
    found
}

/// Whether a line does nothing that could be done otherwise.
pub(crate) fn declares(line: &str) -> bool {
    let start = line.trim_start();
    let words = [
        "use ", "import ", "from ", "package ", "#", "//", "/*", "*", "mod ", "@",
    ];
    start.is_empty() || words.iter().any(|word| start.starts_with(word))
}

/// The first change `line` allows, and the line with it.
fn changed(language: Language, line: &str) -> Option<(String, String)> {
    if declares(line) {
        return None;
    }
    let code = code_of(language, line);
    for (from, to) in SWAPS {
        if let Some(at) = find(&code, from) {
            return replaced(line, at, from, to);
        }
    }
    for (from, to) in WORDS {
        if let Some(at) = find_word(&code, from) {
            return replaced(line, at, from, to);
        }
    }
    if let Some((at, number)) = integer(&code) {
        let more = number.parse::<u64>().ok()?.checked_add(1)?.to_string();
        return replaced(line, at, number, &more);
    }
    if let Some((at, literal)) = string(language, line) {
        return replaced(line, at, literal, &format!("{literal}~"));
    }
    returned(language, line)
}

/// Nothing in place of what a line returns, in languages where that is something, too.
pub(crate) fn returned(language: Language, line: &str) -> Option<(String, String)> {
    let nothing = match language {
        Language::Python => "None",
        Language::JavaScript => "null",
        // There it would not compile, and nobody could notice.
        Language::Rust | Language::Go => return None,
    };
    let start = line.trim_start();
    let what = start.strip_prefix("return ")?.trim_end();
    let what = what.trim_end_matches(';').trim_end();
    // What goes on in the next line cannot be replaced in this one.
    let whole = !what.is_empty() && what != nothing && !what.ends_with(['(', '[', '{', ',', '\\']);
    let at = line.len() - start.len() + "return ".len();
    whole.then(|| replaced(line, at, what, nothing)).flatten()
}

pub(crate) fn replaced(line: &str, at: usize, from: &str, to: &str) -> Option<(String, String)> {
    let before = line.get(..at)?;
    let after = line.get(at + from.len()..)?;
    Some((
        format!("`{}` for `{}`", to.trim(), from.trim()),
        format!("{before}{to}{after}"),
    ))
}

/// The line with everything in strings and comments blanked, byte for byte.
pub(crate) fn code_of(language: Language, line: &str) -> Vec<u8> {
    let quotes: &[u8] = match language {
        // `'` begins lifetimes there.
        Language::Rust => b"\"",
        Language::Python => b"\"'",
        Language::JavaScript | Language::Go => b"\"'`",
    };
    let comment: &[u8] = match language {
        Language::Python => b"#",
        Language::Rust | Language::JavaScript | Language::Go => b"//",
    };
    let mut code = Vec::with_capacity(line.len());
    let mut open: Option<u8> = None;
    let bytes = line.as_bytes();
    let mut escaped = false;
    for (at, byte) in bytes.iter().copied().enumerate() {
        match open {
            Some(quote) => {
                if byte == quote && !escaped {
                    open = None;
                }
                escaped = byte == b'\\' && !escaped;
                code.push(b'\0');
            }
            None if bytes
                .get(at..)
                .is_some_and(|rest| rest.starts_with(comment)) =>
            {
                break;
            }
            None if quotes.contains(&byte) => {
                open = Some(byte);
                code.push(b'\0');
            }
            None => code.push(byte),
        }
    }
    code
}

pub(crate) fn find(code: &[u8], what: &str) -> Option<usize> {
    let what = what.as_bytes();
    let clear = |at: usize| {
        // `->`, `=>`, `<<` and the like are other signs.
        let before = at.checked_sub(1).and_then(|at| code.get(at));
        let after = code.get(at + what.len());
        let sign = |byte: Option<&u8>| byte.is_some_and(|byte| b"=<>!&|+-*/%".contains(byte));
        what.first() == Some(&b' ') || (!sign(before) && (!sign(after) || what == b"&&"))
    };
    code.windows(what.len())
        .enumerate()
        .find_map(|(at, window)| (window == what && clear(at)).then_some(at))
}

pub(crate) fn find_word(code: &[u8], word: &str) -> Option<usize> {
    let word = word.as_bytes();
    let part =
        |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    code.windows(word.len())
        .enumerate()
        .find_map(|(at, window)| {
            let before = at.checked_sub(1).and_then(|at| code.get(at));
            let whole = !part(before) && !part(code.get(at + word.len()));
            (window == word && whole).then_some(at)
        })
}

/// The first whole number that is no part of a name or a fraction.
pub(crate) fn integer(code: &[u8]) -> Option<(usize, &str)> {
    let mut at = 0;
    while let Some(byte) = code.get(at) {
        if !byte.is_ascii_digit() {
            let name = byte.is_ascii_alphabetic() || *byte == b'_';
            at += 1;
            while name
                && code
                    .get(at)
                    .is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
            {
                at += 1;
            }
            continue;
        }
        let digits = code
            .get(at..)?
            .iter()
            .take_while(|byte| byte.is_ascii_digit());
        let end = at + digits.count();
        let plain = code
            .get(end)
            .is_none_or(|byte| !byte.is_ascii_alphanumeric() && !b"._".contains(byte));
        let dotted = at.checked_sub(1).and_then(|at| code.get(at)) == Some(&b'.');
        if plain && !dotted {
            return Some((at, std::str::from_utf8(code.get(at..end)?).ok()?));
        }
        at = end.max(at + 1);
    }
    None
}

/// The content of the first string of some letters.
pub(crate) fn string(language: Language, line: &str) -> Option<(usize, &str)> {
    let quotes: &[char] = match language {
        Language::Rust | Language::Go => &['"'],
        Language::Python | Language::JavaScript => &['"', '\''],
    };
    let open = line.find(quotes)?;
    let quote = line.get(open..)?.chars().next()?;
    let inside = line.get(open + 1..)?;
    let end = inside.find(quote)?;
    let text = inside.get(..end)?;
    let plain = !text.is_empty() && !text.ends_with('\\') && !text.contains('{');
    plain.then_some((open + 1, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(language: Language, line: &str) -> Option<String> {
        changed(language, line).map(|(_, line)| line)
    }

    #[test]
    fn each_line_gets_the_first_change_it_allows() {
        use Language::{Go, JavaScript, Python, Rust};
        for (language, line, want) in [
            (Rust, "if a == b {", Some("if a != b {")),
            (Rust, "if a <= b && c {", Some("if a > b && c {")),
            (Rust, "fn f() -> u32 {", None),
            (Rust, "    a + 1", Some("    a - 1")),
            (Rust, "    true", Some("    false")),
            (Rust, "    7", Some("    8")),
            (Rust, "let x: u32 = v1;", None),
            (Rust, "    \"a == b\"", Some("    \"a == b~\"")),
            (Rust, "// a == b", None),
            (Rust, "x => y,", None),
            (Rust, "a >> 2", Some("a >> 3")),
            (Python, "    return a and b", Some("    return a or b")),
            (
                Python,
                "    return 'no'  # a == b",
                Some("    return 'no~'  # a == b"),
            ),
            (JavaScript, "return a === b;", Some("return null;")),
            (JavaScript, "  return find(a)\n", Some("  return null\n")),
            (JavaScript, "return find(", None),
            (Python, "    return find(a)", Some("    return None")),
            (Python, "    return None", None),
            (Go, "\treturn find(a)", None),
            (JavaScript, "return a < b;", Some("return a >= b;")),
            (Go, "\treturn a * b", Some("\treturn a + b")),
            (Go, "import \"fmt\"", None),
        ] {
            assert_eq!(one(language, line).as_deref(), want, "{line}");
        }
    }

    #[test]
    fn mutants_are_spread_and_change_one_line_each() {
        let text = "a + b\n".repeat(20);
        let lines: BTreeSet<u32> = (1..=20).collect();
        let found = mutants(Language::Rust, "src/a.rs", &text, &lines, 4);
        let at: Vec<u32> = found.iter().map(|mutant| mutant.line).collect();
        assert_eq!(at, [1, 6, 11, 16]);
        for mutant in &found {
            let mutated = mutant.of(&text);
            let differing = text.lines().zip(mutated.lines()).filter(|(a, b)| a != b);
            assert_eq!(differing.count(), 1);
            assert_eq!(mutated.lines().count(), 20);
            assert_eq!(mutant.changed, "a - b\n");
        }
        let few: BTreeSet<u32> = [3].into();
        assert_eq!(mutants(Language::Rust, "a", &text, &few, 4).len(), 1);
        assert_eq!(mutants(Language::Rust, "a", "", &few, 4), []);
    }

    #[test]
    fn samples_speak_for_each_line_once_and_only_for_neighbours() {
        let text = "a + b\n}\nc + d\n\n}\n\n{\ne + f\n";
        let lines: BTreeSet<u32> = [1, 2, 3, 5, 7, 8].into();
        let mut first = |_: usize| 0;
        let found = samples(Language::Rust, "a", text, &lines, 9, &mut first);
        let spoken: Vec<(u32, Vec<u32>)> = found
            .iter()
            .map(|one| (one.mutant.line, one.lines.iter().copied().collect()))
            .collect();
        // Line 5 stands alone between blank lines: nothing speaks for it.
        assert_eq!(spoken, [(1, vec![1, 2]), (3, vec![3]), (8, vec![7, 8])]);
        assert_eq!(found[0].mutant.of(text), text.replace("a + b", "a - b"));

        let many = "a + b\n".repeat(50);
        let lines: BTreeSet<u32> = (1..=50).collect();
        let mut last = |count: usize| count - 1;
        let found = samples(Language::Rust, "a", &many, &lines, 7, &mut last);
        assert!(found.len() <= 7, "{}", found.len());
        let all: Vec<u32> = found.iter().flat_map(|one| one.lines.clone()).collect();
        assert_eq!(all, (1..=50).collect::<Vec<u32>>());
        assert_eq!(found[0].mutant.line, 8, "`pick` chooses");
    }
}
