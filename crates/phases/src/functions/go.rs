//! Functions of Go.

use super::{Function, Lines, Pattern, finds, is_at, pattern, skip_blank};
use crate::blank::closes;
use regex::Regex;

static HEAD: Pattern = pattern(|| Regex::new(r"(?m)^func[ \t]+(?:\([^)\n]*\)[ \t]*)?(\w+)").ok());

pub(super) fn functions(code: &str) -> Vec<Function> {
    let lines = Lines::of(code);
    let mut found = Vec::new();
    for head in finds(&HEAD, code) {
        if let (Some(whole), Some(name)) = (head.get(0), head.get(1))
            && let Some((returns, open)) = signature(code, whole.end())
            && let Some(close) = closes(code.as_bytes(), open)
        {
            found.push(Function {
                returns,
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
    if is_at(code, at, b'[') {
        at = skip_blank(code, closes(bytes, at)? + 1);
    }
    if !is_at(code, at, b'(') {
        return None;
    }
    at = closes(bytes, at)? + 1;
    let from = at;
    loop {
        match bytes.get(at)? {
            b'(' | b'[' => at = closes(bytes, at)?,
            b'{' => {
                let before = code.get(from..at)?.trim_end();
                if !before.ends_with("interface") && !before.ends_with("struct") {
                    break;
                }
                // The braces of a type that is written out.
                at = closes(bytes, at)?;
            }
            // Declared, and written in another language.
            b'\n' => return None,
            _ => {}
        }
        at += 1;
    }
    Some((code.get(from..at)?.trim().to_owned(), at))
}
