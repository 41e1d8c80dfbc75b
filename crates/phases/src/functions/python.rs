//! Functions of Python.

use super::{Form, Function, Lines, Pattern, finds, pattern};
use crate::blank::closes;
use regex::Regex;

static HEAD: Pattern = pattern(|| Regex::new(r"(?m)^([ \t]*)(?:async[ \t]+)?def[ \t]+(\w+)").ok());

pub(super) fn functions(code: &str) -> Vec<Function> {
    let lines = Lines::of(code);
    let mut found = Vec::new();
    for head in finds(&HEAD, code) {
        let (Some(whole), Some(indent), Some(name)) = (head.get(0), head.get(1), head.get(2))
        else {
            continue;
        };
        let Some(colon) = colon(code, whole.end()) else {
            continue;
        };
        let rest = code.get(colon + 1..).unwrap_or_default();
        let line = rest.lines().next().unwrap_or_default();
        let body = if line.trim().is_empty() {
            suite(&lines, code, colon, indent.as_str().len())
        } else {
            Some((colon + 1, Form::Inline, colon + 1 + line.len()))
        };
        if let Some((entry, form, end)) = body {
            let range = whole.start()..end;
            found.push(Function {
                name: name.as_str().to_owned(),
                lines: lines.span(&range),
                range,
                entry,
                form,
                returns: String::new(),
                constant: false,
            });
        }
    }
    found
}

/// The colon that ends the head of a definition.
fn colon(code: &str, at: usize) -> Option<usize> {
    let bytes = code.as_bytes();
    let mut at = at;
    loop {
        match bytes.get(at)? {
            b'(' | b'[' | b'{' => at = closes(bytes, at)?,
            b':' => return Some(at),
            b'\n' => return None,
            _ => {}
        }
        at += 1;
    }
}

/// Where the first statement begins that is deeper than `depth`, how it is put, and where the last
/// one ends.
fn suite(lines: &Lines, code: &str, colon: usize, depth: usize) -> Option<(usize, Form, usize)> {
    let mut begun: Option<(usize, Form)> = None;
    let mut end = colon + 1;
    for start in lines.0.iter().skip(lines.until(colon)) {
        let line = code.get(*start..).unwrap_or_default();
        let line = line.split('\n').next().unwrap_or_default();
        let body = line.trim_start();
        if body.is_empty() {
            continue;
        }
        let indent = line.len() - body.len();
        if indent <= depth {
            break;
        }
        end = start + line.len();
        let indent = line.get(..indent).unwrap_or_default();
        begun.get_or_insert_with(|| (*start, Form::Suite(indent.to_owned())));
    }
    begun.map(|(entry, form)| (entry, form, end))
}
