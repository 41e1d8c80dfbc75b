//! Functions of JavaScript and TypeScript.

use super::{FUNCTIONS, Form, Function, Lines, Pattern, finds, is_at, pattern, skip_blank};
use crate::blank::closes;
use regex::Regex;

static NAMED: Pattern = pattern(|| Regex::new(r"\bfunction\b\s*\*?\s*(\w*)\s*").ok());
static METHOD: Pattern = pattern(|| {
    Regex::new(r"(?m)^[ \t]*(?:(?:static|async|get|set|public|private|protected|override)[ \t]+)*\*?[ \t]*#?(\w+)[ \t]*\(")
        .ok()
});
static ASSIGNED: Pattern = pattern(|| Regex::new(r"(\w+)\s*(?::[^=\n]*)?=[^=>]|(\w+)\s*:").ok());

/// Words that stand before a parenthesis and a brace, and define nothing; and what must not return.
const NO_METHODS: &[&str] = &[
    "if",
    "for",
    "while",
    "switch",
    "catch",
    "function",
    "return",
    "with",
    "constructor",
];

pub(super) fn functions(code: &str) -> Vec<Function> {
    let lines = Lines::of(code);
    let mut heads: Vec<(usize, &str, usize)> = Vec::new();
    for head in finds(&NAMED, code) {
        if let (Some(whole), Some(name)) = (head.get(0), head.get(1)) {
            heads.push((whole.start(), name.as_str(), whole.end()));
        }
    }
    for head in finds(&METHOD, code) {
        if let (Some(whole), Some(name)) = (head.get(0), head.get(1))
            && !NO_METHODS.contains(&name.as_str())
        {
            heads.push((name.start(), name.as_str(), whole.end() - 1));
        }
    }
    let mut found = Vec::new();
    for (start, name, parameters) in heads.into_iter().take(FUNCTIONS) {
        if let Some(open) = body(code, parameters)
            && let Some(close) = closes(code.as_bytes(), open)
        {
            found.push(lines.block(name, start, open, close));
        }
    }
    let arrows = code.match_indices("=>").take(FUNCTIONS);
    found.extend(arrows.filter_map(|(at, _)| arrow(&lines, code, at)));
    found.sort_by_key(|function| function.entry);
    found.dedup_by_key(|function| function.entry);
    found
}

/// Where the body of a function opens whose parameters open at `at`.
fn body(code: &str, at: usize) -> Option<usize> {
    if !is_at(code, at, b'(') {
        return None;
    }
    let behind = skip_blank(code, closes(code.as_bytes(), at)? + 1);
    if is_at(code, behind, b'{') {
        return Some(behind);
    }
    // TypeScript says what comes back.
    if !is_at(code, behind, b':') {
        return None;
    }
    let told = code.get(behind..)?;
    let open = told.find(['{', ';', '=', '\n'])?;
    is_at(code, behind + open, b'{').then_some(behind + open)
}

fn arrow(lines: &Lines, code: &str, at: usize) -> Option<Function> {
    let bytes = code.as_bytes();
    let start = lines.start_of(at);
    // Of a line without end only the near end is looked at.
    let near = start.max(at.saturating_sub(200));
    let before = code.get(near..at).unwrap_or_default();
    let name = finds(&ASSIGNED, before)
        .next()
        .and_then(|found| found.get(1).or_else(|| found.get(2)))
        .map_or("", |name| name.as_str());
    let open = skip_blank(code, at + 2);
    if is_at(code, open, b'{') {
        return Some(lines.block(name, start, open, closes(bytes, open)?));
    }
    let mut end = open;
    loop {
        match bytes.get(end) {
            Some(b'(' | b'[' | b'{') => end = closes(bytes, end)?,
            Some(b';' | b',' | b')' | b']' | b'}' | b'\n') | None => break,
            Some(_) => {}
        }
        end += 1;
    }
    let range = start..end.max(at + 2);
    Some(Function {
        name: name.to_owned(),
        lines: lines.span(&range),
        range,
        entry: at + 2,
        form: Form::Expression,
        returns: String::new(),
        constant: false,
    })
}
