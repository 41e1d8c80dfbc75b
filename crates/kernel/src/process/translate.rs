//! Globs of a policy as denials of a plan. Pure.
//!
//! Policy globs have gitignore's meaning, plans have `**`, `*` and `?` in whole components. What a
//! plan cannot say exactly becomes a denial of more, never of less: a class of many characters, or
//! one character that may be several bytes, is `?*`; an excluding glob is not translated at all.
//!
//! Invariant: whatever path a glob matches as a denial, what [`denied`] makes of it covers.

use std::collections::BTreeSet;

/// Characters that mean something in a plan's pattern, or are refused there.
const SPECIAL: &str = "*?[]{}\\!";

/// Most patterns one glob may become; beyond it classes are widened instead of written out.
const ALTERNATIVES: usize = 64;

/// Most members of a character class that is written out.
const MEMBERS: usize = 16;

/// What a glob denies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Denied {
    /// This path and all beneath.
    Path(String),
    /// What one of these patterns matches, and all beneath.
    Patterns(BTreeSet<String>),
    /// Everything there is.
    Everything,
}

/// What `glob`, of which no leading `!` is left, denies beneath the absolute path `root`.
pub(super) fn denied(glob: &str, root: &str) -> Denied {
    let Glob {
        floating,
        names,
        directory,
    } = split(glob);
    if names.iter().all(|name| *name == "**") {
        return if directory {
            Denied::Patterns([format!("{}/*", quoted(root))].into())
        } else {
            Denied::Everything
        };
    }
    let literal: Option<Vec<String>> = names.iter().map(|name| literal(name)).collect();
    if let (false, Some(names)) = (floating, literal) {
        return Denied::Path(format!(
            "{}/{}",
            root.trim_end_matches('/'),
            names.join("/")
        ));
    }
    let start = if floating { "/**" } else { "" };
    let start = format!("{}{start}", quoted(root));
    Denied::Patterns(alternatives(&start, &names))
}

/// Whether `glob` applies at any depth, so that it also says something of directories elsewhere.
pub(super) fn floats(glob: &str) -> bool {
    split(glob).floating
}

/// Absolute text with every character a pattern would read as a wildcard, or refuse, as `?`.
fn quoted(path: &str) -> String {
    let path = path.trim_end_matches('/');
    path.chars().map(plain).collect()
}

fn plain(character: char) -> char {
    if SPECIAL.contains(character) {
        '?'
    } else {
        character
    }
}

struct Glob<'a> {
    floating: bool,
    names: Vec<&'a str>,
    directory: bool,
}

fn split(glob: &str) -> Glob<'_> {
    let body = glob.strip_prefix('/');
    let rooted = body.is_some();
    let body = body.unwrap_or(glob);
    let (body, directory) = match body.strip_suffix('/') {
        Some(body) => (body, true),
        None => (body, false),
    };
    let mut names: Vec<&str> = body.split('/').collect();
    let floating = (!rooted && names.len() == 1) || names.first() == Some(&"**");
    // Several in a row say no more than one.
    names.dedup_by(|a, b| *a == "**" && *b == "**");
    if names.len() > 1 && names.first() == Some(&"**") {
        names.remove(0);
    }
    Glob {
        floating,
        names,
        directory,
    }
}

/// The names one after the other, every combination of what each may be.
fn alternatives(start: &str, names: &[&str]) -> BTreeSet<String> {
    let exact = combined(start, names, Classes::WrittenOut);
    if exact.len() <= ALTERNATIVES {
        return exact;
    }
    combined(start, names, Classes::Widened)
}

fn combined(start: &str, names: &[&str], classes: Classes) -> BTreeSet<String> {
    let mut texts = BTreeSet::from([start.to_owned()]);
    for (at, name) in names.iter().enumerate() {
        let last = at + 1 == names.len();
        let spellings = match *name {
            // What is below, not the directory itself: one name suffices, the rest is beneath.
            "**" if last => vec!["*".to_owned()],
            "**" => vec!["**".to_owned()],
            name => spellings(name, classes),
        };
        texts = texts
            .iter()
            .flat_map(|text| spellings.iter().map(move |name| format!("{text}/{name}")))
            // One too many is enough to know that they are too many.
            .take(ALTERNATIVES + 1)
            .collect();
    }
    texts
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Classes {
    WrittenOut,
    Widened,
}

/// A piece of a name as the policy means it.
enum Piece {
    Character(char),
    One,
    Run,
    /// One of these characters, all of one byte.
    Few(Vec<char>),
    /// One character of one byte.
    Byte,
}

/// What a name may look like in a pattern.
fn spellings(name: &str, classes: Classes) -> Vec<String> {
    let mut texts = vec![String::with_capacity(name.len())];
    for piece in pieces(name) {
        let members = match piece {
            Piece::Few(members) if classes == Classes::WrittenOut => members,
            one @ (Piece::Character(_) | Piece::One | Piece::Run | Piece::Few(_) | Piece::Byte) => {
                for text in &mut texts {
                    add(text, &one);
                }
                continue;
            }
        };
        let with = |text: &String, member: &char| {
            let mut text = text.clone();
            text.push(plain(*member));
            text
        };
        texts = texts
            .iter()
            .flat_map(|text| members.iter().map(move |member| with(text, member)))
            .take(ALTERNATIVES + 1)
            .collect();
    }
    texts
}

/// Adds what can only be one thing to the beginning of a name; `**` inside one would mean something
/// else.
fn add(text: &mut String, piece: &Piece) {
    match piece {
        Piece::Character(character) => text.push(plain(*character)),
        Piece::Run if text.ends_with('*') => {}
        Piece::Run => text.push('*'),
        Piece::One => text.push_str("?*"),
        Piece::Byte | Piece::Few(_) => text.push('?'),
    }
}

/// The name `name` means, if it can mean one alone.
fn literal(name: &str) -> Option<String> {
    pieces(name)
        .into_iter()
        .map(|piece| match piece {
            Piece::Character(character) => Some(character),
            Piece::One | Piece::Run | Piece::Few(_) | Piece::Byte => None,
        })
        .collect()
}

fn pieces(name: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut rest = name.chars();
    while let Some(character) = rest.next() {
        pieces.push(match character {
            '*' => Piece::Run,
            '?' => Piece::One,
            '\\' => rest.next().map_or(Piece::One, Piece::Character),
            '[' => class(&mut rest),
            other => Piece::Character(other),
        });
    }
    pieces
}

/// Reads a class up to its `]`. The policy's loader has checked that it ends.
fn class(rest: &mut std::str::Chars<'_>) -> Piece {
    let negated = matches!(rest.clone().next(), Some('!' | '^'));
    if negated {
        rest.next();
    }
    let mut members: Vec<char> = Vec::new();
    let mut ascii = !negated;
    let mut first = true;
    while let Some(character) = rest.next() {
        let low = match character {
            ']' if !first => break,
            '\\' => rest.next().unwrap_or(character),
            other => other,
        };
        first = false;
        let high = range_end(rest).unwrap_or(low);
        ascii &= low.is_ascii() && high.is_ascii();
        // Beyond what is written out the members no longer matter.
        members.extend((low..=high).take(MEMBERS + 1));
    }
    match (ascii, members.len() <= MEMBERS) {
        (true, true) => Piece::Few(members),
        (true, false) => Piece::Byte,
        (false, _) => Piece::One,
    }
}

/// What follows a `-` that is no member itself.
fn range_end(rest: &mut std::str::Chars<'_>) -> Option<char> {
    let mut ahead = rest.clone();
    if ahead.next() != Some('-') {
        return None;
    }
    let high = match ahead.next()? {
        ']' => return None,
        '\\' => ahead.next()?,
        other => other,
    };
    *rest = ahead;
    Some(high)
}

#[cfg(test)]
mod tests {
    use super::*;
    use airlock_sandbox::HostPath;
    use airlock_sandbox::plan::Pattern;
    use proptest::prelude::*;

    fn covers(denied: &Denied, path: &str) -> bool {
        let path = HostPath::new(path).unwrap();
        match denied {
            Denied::Path(own) => HostPath::new(own).unwrap().holds(&path),
            Denied::Patterns(patterns) => patterns
                .iter()
                .any(|text| Pattern::new(text, None).unwrap().covers(&path)),
            Denied::Everything => true,
        }
    }

    #[test]
    fn a_glob_becomes_what_a_plan_can_say() {
        let patterns = |texts: &[&str]| {
            Denied::Patterns(texts.iter().map(|text| (*text).to_owned()).collect())
        };
        for (glob, want) in [
            ("**", Denied::Everything),
            ("**/.env", patterns(&["/w/**/.env"])),
            (".env", patterns(&["/w/**/.env"])),
            ("/.env", Denied::Path("/w/.env".to_owned())),
            (
                "secrets/prod.json",
                Denied::Path("/w/secrets/prod.json".to_owned()),
            ),
            ("secrets/**", patterns(&["/w/secrets/*"])),
            ("**/.ssh/**", patterns(&["/w/**/.ssh/*"])),
            ("build/", patterns(&["/w/**/build"])),
            ("a/**/b*", patterns(&["/w/a/**/b*"])),
            ("a/**/**/b*", patterns(&["/w/a/**/b*"])),
            ("**/a**b", patterns(&["/w/**/a*b"])),
            ("**/?.key", patterns(&["/w/**/?*.key"])),
            ("**/[Ee]nv", patterns(&["/w/**/Env", "/w/**/env"])),
            ("**/[a-z]x", patterns(&["/w/**/?x"])),
            ("**/[!a]x", patterns(&["/w/**/?*x"])),
            ("**/a\\*b", patterns(&["/w/**/a?b"])),
            ("/a\\[1\\]", Denied::Path("/w/a[1]".to_owned())),
            ("**/a]b", patterns(&["/w/**/a?b"])),
        ] {
            assert_eq!(denied(glob, "/w"), want, "{glob}");
        }
        assert_eq!(denied(".env", "/a [b]*"), patterns(&["/a ?b??/**/.env"]));
    }

    #[test]
    fn classes_without_end_are_widened() {
        let many = format!("**/{}", "[abcdefgh]".repeat(6));
        let Denied::Patterns(patterns) = denied(&many, "/w") else {
            panic!("{many}");
        };
        assert_eq!(patterns, ["/w/**/??????".to_owned()].into());
    }

    /// What policy itself says of reading `path` where `glob` is denied; none if it is no glob.
    fn denied_by_rule(glob: &str, path: &str) -> Option<bool> {
        let text = format!(
            "version: 1\nrules:\n  - {{ name: r, match: {{ effect: read, path_glob: {} }}, action: deny }}\n",
            serde_json::to_string(glob).unwrap()
        );
        let policy = airlock_policy::Policy::load("test", text.as_bytes())
            .ok()?
            .policy;
        let fields = airlock_policy::ExampleFields {
            syscall: "fs.read".into(),
            path: vec![path.into()],
            ..airlock_policy::ExampleFields::default()
        };
        let request = fields.request_in("/w").unwrap();
        let none = airlock_policy::ExtensionHost::new([]);
        let engine = airlock_policy::Engine::new(policy, airlock_policy::BuiltIns::none(), none);
        let now = airlock_core::Timestamp::from_micros(0);
        let decision = engine.decide(&request, None, now);
        Some(decision.contributions.iter().any(|c| &*c.rule == "r"))
    }

    proptest! {
        #[test]
        fn nothing_that_a_rule_denies_is_left_out(
            glob in "/?(\\*\\*/)?(\\[ab\\]|\\[!a\\]|\\[a-c\\]|[abé*?]){1,3}(/(\\*\\*|(\\[ab\\]|[ab*?]){1,2})){0,2}/?",
            path in "[abcé]{1,3}(/[abcé]{1,2}){0,3}",
        ) {
            let Some(matched) = denied_by_rule(&glob, &path) else {
                return Ok(());
            };
            let whole = format!("/w/{path}");
            prop_assert!(!matched || covers(&denied(&glob, "/w"), &whole), "{glob} {path}");
        }
    }
}
