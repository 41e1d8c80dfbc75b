//! Functions of Rust.

use super::{Function, Lines, Pattern, finds, is_at, pattern, skip_blank};
use crate::blank::closes;
use regex::Regex;
use std::ops::Range;

static HEAD: Pattern =
    pattern(|| Regex::new(r"\b(const\s+)?(?:(?:async|unsafe)\s+)*fn\s+(\w+)").ok());
static TEST: Pattern = pattern(|| {
    Regex::new(r"#!?\s*\[\s*(?:cfg\s*\(\s*test\s*\)|(?:\w+\s*::\s*)*test\b[^\]]*)\s*\]").ok()
});

/// What stands behind `#[cfg(test)]` or `#[test]`.
pub(super) fn tests(code: &str) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    for attribute in finds(&TEST, code).filter_map(|found| found.get(0)) {
        let start = attribute.start();
        if found.last().is_some_and(|last| last.contains(&start)) {
            continue;
        }
        let item = code.get(attribute.end()..).unwrap_or_default();
        let body = item.find(['{', ';']).map(|at| attribute.end() + at);
        let end = match body {
            Some(at) if !attribute.as_str().starts_with("#!") => {
                let whole = is_at(code, at, b'{').then(|| closes(code.as_bytes(), at));
                whole.unwrap_or(Some(at)).map(|end| end + 1)
            }
            Some(_) | None => None,
        };
        found.push(start..end.unwrap_or(code.len()));
    }
    if found.len() >= super::FUNCTIONS {
        // There may be more than were looked at.
        found.push(0..code.len());
    }
    found
}

pub(super) fn functions(code: &str) -> Vec<Function> {
    let lines = Lines::of(code);
    let tests = tests(code);
    let mut found = Vec::new();
    for head in finds(&HEAD, code) {
        let (Some(whole), Some(name)) = (head.get(0), head.get(2)) else {
            continue;
        };
        if tests.iter().any(|region| region.contains(&whole.start())) {
            continue;
        }
        if let Some((returns, open)) = signature(code, name.end())
            && let Some(close) = closes(code.as_bytes(), open)
        {
            found.push(Function {
                returns,
                constant: head.get(1).is_some(),
                ..lines.block(name.as_str(), whole.start(), open, close)
            });
        }
    }
    found
}

/// What a function returns and where its body opens, from behind its name on.
fn signature(code: &str, at: usize) -> Option<(String, usize)> {
    let bytes = code.as_bytes();
    let mut at = skip_blank(code, at);
    if is_at(code, at, b'<') {
        at = skip_blank(code, angles_close(bytes, at)? + 1);
    }
    if !is_at(code, at, b'(') {
        return None;
    }
    at = closes(bytes, at)? + 1;
    let from = at;
    loop {
        match bytes.get(at)? {
            b'(' | b'[' => at = closes(bytes, at)?,
            b'{' => break,
            b';' => return None,
            _ => {}
        }
        at += 1;
    }
    let told = code.get(from..at)?.trim_start();
    let returned = told.strip_prefix("->").unwrap_or_default();
    let mut words = returned.split_whitespace();
    let returned: Vec<&str> = words.by_ref().take_while(|word| *word != "where").collect();
    Some((returned.join(" "), at))
}

/// Where the `<` at `at` closes; an arrow closes nothing.
fn angles_close(bytes: &[u8], at: usize) -> Option<usize> {
    let mut depth = 0_usize;
    let mut before = b' ';
    for (number, byte) in bytes.iter().enumerate().skip(at) {
        match byte {
            b'<' => depth += 1,
            b'>' if before == b'-' || before == b'=' => {}
            b'>' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(number);
                }
            }
            b'{' | b';' => return None,
            _ => {}
        }
        before = *byte;
    }
    None
}
