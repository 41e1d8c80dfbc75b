//! What leaves the kernel: bounded, free of secrets, harmless to a terminal.
//!
//! Guarantee: every string of a sanitised value went through all three steps, in this order:
//! terminal control sequences out, secrets replaced by typed placeholders, length bounded.
//! Non-guarantee: a secret of no known form passes; rules on what may be read are the first wall.

mod bound;
mod secrets;
mod terminal;

use bound::bound;
use secrets::Redactor;
pub use terminal::strip_control;

use crate::tools::Keep;
use serde_json::{Map, Value};
use std::borrow::Cow;

/// Text that passed all steps, with what was taken out.
#[derive(Debug, Clone, PartialEq)]
pub struct Sanitised {
    /// The value as callers see it.
    pub value: Value,
    /// Secrets that were replaced.
    pub secrets: usize,
    /// Whether anything was cut for length.
    pub cut: bool,
}

/// The most bytes a sanitised result holds: 4,000 tokens at the usual four bytes a token.
pub const DEFAULT_OUTPUT_BYTES: usize = 16_000;

/// Sanitises every string of `value`; together they hold at most about `budget` bytes.
pub fn sanitise(mut value: Value, keep: Keep, budget: usize) -> Sanitised {
    let mut redactor = Redactor::new();
    let mut state = State {
        redactor: &mut redactor,
        keep,
        left: budget,
        cut: false,
    };
    state.walk(&mut value);
    let cut = state.cut;
    Sanitised {
        value,
        secrets: redactor.count(),
        cut,
    }
}

/// A path as logs and answers show it: control characters are written out rather than dropped, so
/// that no two paths look alike, unless they only served to hide a secret.
pub(crate) fn sanitise_path(path: &str) -> String {
    let odd = |c: char| c == '\n' || c == '\t' || terminal::is_dangerous(c);
    let stripped = strip_control(path);
    let clean = Redactor::new().redact(&stripped).into_owned();
    if clean != stripped || !path.contains(odd) {
        return clean;
    }
    let mut shown = String::with_capacity(path.len() + 8);
    for c in path.chars() {
        if odd(c) {
            shown.extend(c.escape_unicode());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Sanitises one line of text for a log or an error message.
pub fn sanitise_line(text: &str, limit: usize) -> String {
    // Far more than is shown, so that nothing is cut before it was looked at as a whole.
    let far = limit.saturating_mul(8).max(64 * 1024);
    let text = text.get(..text.floor_char_boundary(far)).unwrap_or(text);
    let clean = strip_control(text);
    let clean = Redactor::new().redact(&clean).into_owned();
    let line: String = clean
        .chars()
        .map(|c| if c == '\n' { ' ' } else { c })
        .collect();
    if line.chars().count() <= limit {
        return line;
    }
    let mut short: String = line.chars().take(limit.saturating_sub(1)).collect();
    short.push('…');
    short
}

struct State<'a> {
    redactor: &'a mut Redactor,
    keep: Keep,
    left: usize,
    cut: bool,
}

impl State<'_> {
    /// Changes in place only what has to change: nearly all of a result is harmless.
    fn walk(&mut self, value: &mut Value) {
        match value {
            Value::String(text) => self.text(text),
            Value::Array(items) => self.list(items),
            Value::Object(fields) => self.object(fields),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn object(&mut self, fields: &mut Map<String, Value>) {
        if fields.keys().all(|key| is_harmless(key)) {
            fields.values_mut().for_each(|value| self.walk(value));
            return;
        }
        *fields = std::mem::take(fields)
            .into_iter()
            .map(|(key, mut value)| {
                let key = self.key(&key);
                self.walk(&mut value);
                (key, value)
            })
            .collect();
    }

    /// Once the budget is spent, a list loses its remaining items rather than their contents.
    fn list(&mut self, items: &mut Vec<Value>) {
        let mut kept = 0;
        for item in items.iter_mut() {
            if self.left == 0 {
                self.cut = true;
                break;
            }
            self.left = self.left.saturating_sub(4);
            self.walk(item);
            kept += 1;
        }
        items.truncate(kept);
    }

    fn key(&mut self, key: &str) -> String {
        self.redactor.redact(&strip_control(key)).into_owned()
    }

    /// The text without what may not be in it; none if there is nothing of that kind.
    fn cleaned(&mut self, text: &str) -> Option<String> {
        let clean = strip_control(text);
        let redacted = self.redactor.redact(&clean);
        let same = matches!(redacted, Cow::Borrowed(same) if same.len() == text.len());
        (!same).then(|| redacted.into_owned())
    }

    fn text(&mut self, text: &mut String) {
        if let Some(clean) = self.cleaned(text) {
            *text = clean;
        }
        if text.len() > self.left {
            // The marker can be longer than a short text that it stands for.
            self.cut = true;
            *text = bound(text, self.keep, self.left).into_owned();
        }
        self.left = self.left.saturating_sub(text.len());
    }
}

/// Whether a key is one that sanitising leaves alone, told quickly for those that tools use.
fn is_harmless(key: &str) -> bool {
    key.len() < secrets::SHORTEST
        && key
            .bytes()
            .all(|byte| byte == b'_' || byte.is_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_string_is_cleaned_and_the_whole_is_bounded() {
        let value = json!({
            "first": format!("\u{1b}[31mred\u{1b}[0m ghp_{}", "a1B2".repeat(9)),
            "list": ["x".repeat(10_000), "y".repeat(10_000), "z"],
            "number": 7,
        });
        let out = sanitise(value, Keep::Head, 5_000);
        assert_eq!(out.secrets, 1);
        assert!(out.cut);
        assert_eq!(out.value["first"], "red [secret:github-token#1]");
        assert_eq!(out.value["number"], 7);
        assert!(
            out.value.to_string().len() < 6_000,
            "{}",
            out.value.to_string().len()
        );
    }

    #[test]
    fn keys_are_cleaned_like_any_other_text() {
        let token = format!("ghp_{}", "a1B2".repeat(9));
        let mut value = json!({ "path": "a\u{7}b", "in\u{1b}[0mner": { "x": 1 } });
        value[&token] = json!("\u{9b}31mred");
        let out = sanitise(value, Keep::Head, 5_000);
        let want = json!({
            "path": "ab", "inner": { "x": 1 }, "[secret:github-token#1]": "red",
        });
        assert_eq!((out.value, out.secrets), (want, 1));
    }

    #[test]
    fn a_short_text_that_no_longer_fits_counts_as_cut() {
        let out = sanitise(
            json!({ "a": "x".repeat(100), "b": "tiny" }),
            Keep::Head,
            100,
        );
        assert!(out.cut, "{}", out.value);
        assert_eq!(out.value["b"], "[… 4 bytes cut …]");
    }

    #[test]
    fn paths_that_differ_in_control_characters_stay_different() {
        let token = format!("ghp_{}", "a1B2".repeat(9));
        for (path, want) in [
            ("src/main.rs", "src/main.rs".to_owned()),
            ("a\u{7}b", "a\\u{7}b".to_owned()),
            ("a\nb", "a\\u{a}b".to_owned()),
            (".\u{1b}[0m.", ".\\u{1b}[0m.".to_owned()),
            (&token, "[secret:github-token#1]".to_owned()),
            (
                &token.replace("a1", "a\u{7}1"),
                "[secret:github-token#1]".to_owned(),
            ),
        ] {
            assert_eq!(sanitise_path(path), want, "{path:?}");
        }
    }

    #[test]
    fn a_log_line_is_one_short_harmless_line() {
        let line = sanitise_line("a\n\u{1b}]0;title\u{7}b\r\u{9b}31mc", 500);
        assert_eq!(line, "a bc");
        assert_eq!(sanitise_line(&"é".repeat(600), 500).chars().count(), 500);
    }
}
