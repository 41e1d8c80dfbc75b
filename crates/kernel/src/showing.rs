//! What of an action a person is shown before they answer: its tool, its command, its arguments.
//!
//! Guarantee: everything that decides what happens is shown, without secrets and without what a
//! terminal obeys; what is too long is shown in part, and how much is left out is said.
//! Non-guarantee: that a person can judge it.

use crate::sanitise::sanitise_line;
use crate::tools::Keep;
use airlock_core::{Digest, Effect, EffectSet, Request};
use airlock_policy::approval::{Action, Diff};
use airlock_sanitise::{Bound, Sanitiser, write_out};
use serde_json::Value;
use std::borrow::Cow;
use std::sync::Arc;

/// How many bytes of a call's arguments a person is shown.
const SHOWN: usize = 4_000;
/// How many of its command.
const SHOWN_COMMAND: usize = 5_000;
/// Words of a command that are shown; those left out are counted.
const SHOWN_WORDS: usize = 64;

/// The arguments of a call, as a person is shown them; none where what they say is shown besides.
pub(crate) fn details(request: &Request, cleaner: &Sanitiser) -> Option<Diff> {
    let whole = request.arguments.to_string();
    let changes_nothing = EffectSet::of(&[Effect::Read, Effect::Execute]);
    let mut rest = request.arguments.clone();
    if let Some(fields) = rest.as_object_mut()
        && request.effects.is_subset(changes_nothing)
    {
        fields.retain(|name, value| !value.is_null() && !is_shown_besides(request, name, value));
        if fields.is_empty() {
            return None;
        }
    }
    Some(Diff {
        digest: Digest::of(whole.as_bytes()),
        summary: shown_arguments(rest, cleaner).into(),
    })
}

/// Whether a person sees this argument among the command and the paths of `request`.
fn is_shown_besides(request: &Request, name: &str, value: &Value) -> bool {
    match (name, value) {
        // Not where something stands in front of the program: that is part of what happens.
        ("command", Value::Array(words)) => {
            let words = words.iter().map(Value::as_str);
            words.eq(request.command.iter().map(|word| Some(&**word)))
        }
        ("command", Value::String(line)) => request.command.iter().any(|word| **word == **line),
        ("path", Value::String(_)) => !request.paths.is_empty(),
        _ => false,
    }
}

/// Arguments in a line. Where they are too long, each is shown in part: none can crowd out another.
fn shown_arguments(arguments: Value, cleaner: &Sanitiser) -> String {
    let clean = cleaned(arguments, cleaner);
    let line = cleaner.line(&clean.to_string(), usize::MAX);
    if let Value::Object(fields) = &clean
        && line.len() > SHOWN
    {
        let each = SHOWN / fields.len().max(1);
        let field = |(name, value): (&String, &Value)| {
            let value = cleaner.line(&value.to_string(), usize::MAX);
            format!("{}: {}", ends(name, each), ends(&value, each))
        };
        let told: Vec<String> = fields.iter().map(field).collect();
        return ends(&told.join(", "), SHOWN + SHOWN / 2);
    }
    ends(&line, SHOWN)
}

/// Every string of `value` without secrets, and with its controls written out. Before it is written as
/// JSON, where an escaped newline would stand as a letter in front of a secret and hide it.
fn cleaned(value: Value, cleaner: &Sanitiser) -> Value {
    let bound = Bound::bytes(Keep::Head, usize::MAX / 2);
    cleaner.value(seen(value, cleaner), bound).value
}

/// Every string of `value` with its controls written out: what they would hide from whoever reads it is
/// carried out all the same. Where they hide a secret they go with it.
fn seen(value: Value, cleaner: &Sanitiser) -> Value {
    let text = |text: String| match write_out(&text) {
        Cow::Owned(shown) if cleaner.find(text.as_bytes()).is_empty() => shown,
        Cow::Owned(_) | Cow::Borrowed(_) => text,
    };
    match value {
        Value::String(inside) => Value::String(text(inside)),
        Value::Array(items) => items.into_iter().map(|item| seen(item, cleaner)).collect(),
        Value::Object(fields) => fields
            .into_iter()
            .map(|(name, value)| (text(name), seen(value, cleaner)))
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value,
    }
}

/// The words of a command as a person is shown them: whole, or their beginnings and ends.
pub(crate) fn shown_command(command: &[Arc<str>], cleaner: &Sanitiser) -> Vec<Arc<str>> {
    let clean = |word: &Arc<str>| {
        let clean = cleaned(Value::String(word.to_string()), cleaner);
        // A newline ends a command as a space does not.
        let line = clean.as_str().unwrap_or_default().replace('\n', "\\n");
        cleaner.line(&line, usize::MAX)
    };
    let (first, last) = if command.len() > SHOWN_WORDS {
        (SHOWN_WORDS / 2, SHOWN_WORDS / 2)
    } else {
        (command.len(), 0)
    };
    let end = command.len() - last;
    let beginning: Vec<String> = command.iter().take(first).map(clean).collect();
    let ending: Vec<String> = command.iter().skip(end).map(clean).collect();
    let bytes: usize = beginning.iter().chain(&ending).map(String::len).sum();
    let each = if bytes > SHOWN_COMMAND {
        SHOWN_COMMAND / (first + last).max(1)
    } else {
        SHOWN_COMMAND
    };
    let between = (end > first).then(|| format!("[... {} WORDS ARE NOT SHOWN ...]", end - first));
    let words = beginning.iter().map(|word| ends(word, each));
    let words = words.chain(between);
    let words = words.chain(ending.iter().map(|word| ends(word, each)));
    words.map(Into::into).collect()
}

/// All of `text`, or its beginning and its end and how much is between them.
pub(crate) fn ends(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let beginning = text.get(..text.floor_char_boundary(most / 3 * 2));
    let beginning = beginning.unwrap_or_default();
    let ending = text.get(text.ceil_char_boundary(text.len() - most / 3)..);
    let ending = ending.unwrap_or_default();
    let between = text.get(beginning.len()..text.len() - ending.len());
    let left_out = between.unwrap_or_default().chars().count();
    format!("{beginning}[... {left_out} CHARACTERS ARE NOT SHOWN ...]{ending}")
}

/// What a person judges `action` by, beside its paths and its host: the tool, the command, the
/// arguments; a line each with its label, cleaned and bounded.
pub fn shown_lines(action: &Action) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    let tool = action.tool.as_deref();
    if let Some(tool) = tool.filter(|tool| *tool != action.syscall.name()) {
        lines.push(("tool", sanitise_line(tool, 200)));
    }
    if !action.command.is_empty() {
        let words: Vec<String> = action.command.iter().map(|word| quoted(word)).collect();
        let line = sanitise_line(&words.join(" "), 4 * SHOWN_COMMAND);
        lines.push(("command", line));
    }
    if let Some(arguments) = &action.diff {
        let line = sanitise_line(&arguments.summary, 3 * SHOWN);
        lines.push(("arguments", line));
    }
    lines
}

/// A word as it stands, or in quotes where it could pass for none or for several.
fn quoted(word: &str) -> String {
    if word.is_empty() || word.contains(char::is_whitespace) {
        format!("\"{}\"", word.replace('"', "\\\""))
    } else {
        word.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::some_caller::some_caller;
    use airlock_core::{Syscall, Tier};
    use serde_json::json;

    fn words(words: &[&str]) -> Vec<Arc<str>> {
        words.iter().map(|word| (*word).into()).collect()
    }

    #[test]
    fn a_command_is_shown_whole_or_says_how_much_is_not() {
        let script = format!("{}; rm -rf /", "a".repeat(3_000));
        let shown = shown_command(&words(&["sh", "-c", &script]), &Sanitiser::new());
        assert_eq!(&*shown[2], script);
        let line_by_line =
            shown_command(&words(&["sh", "-c", "true #\nrm -rf /"]), &Sanitiser::new());
        assert_eq!(&*line_by_line[2], "true #\\nrm -rf /");
        let long = format!("begin {} end", "é".repeat(9_000));
        let shown = shown_command(&words(&["sh", "-c", &long]), &Sanitiser::new());
        let (shown, kept) = (&*shown[2], |text: &str| text.matches('é').count());
        assert!(
            shown.starts_with("begin é") && shown.ends_with("é end"),
            "{shown}"
        );
        let told = format!("[... {} CHARACTERS ARE NOT SHOWN ...]", 9_000 - kept(shown));
        assert!(shown.contains(&told), "{shown}");
        assert!(shown.len() < SHOWN_COMMAND);
        let many: Vec<String> = (0..1_000)
            .map(|number| format!("{number}{}", "x".repeat(500)))
            .collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let shown = shown_command(&words(&many), &Sanitiser::new());
        assert_eq!(shown.len(), SHOWN_WORDS + 1);
        assert_eq!(
            &*shown[SHOWN_WORDS / 2],
            "[... 936 WORDS ARE NOT SHOWN ...]"
        );
        assert!(shown[SHOWN_WORDS].starts_with("999x"));
        assert!(shown.iter().map(|word| word.len()).sum::<usize>() < 2 * SHOWN_COMMAND);
    }

    #[test]
    fn nothing_that_is_carried_out_is_hidden_by_what_a_terminal_obeys() {
        let hiding = "echo a\u{1b}]0; touch b # \u{7}";
        let shown = shown_command(&words(&["sh", "-c", hiding]), &Sanitiser::new());
        assert_eq!(&*shown[2], "echo a\\u{1b}]0; touch b # \\u{7}");
        let shown = shown_arguments(json!({ "line": ["a\u{202e}b\rc"] }), &Sanitiser::new());
        assert_eq!(shown, r#"{"line":["a\\u{202e}b\\u{d}c"]}"#);
        // Hiding a secret helps as little.
        let token = format!("ghp_a\u{7}1B2{}", "a1B2".repeat(8));
        let shown = shown_command(&words(&["echo", &token]), &Sanitiser::new());
        assert!(shown[1].starts_with("[secret:github-token"), "{shown:?}");
    }

    #[test]
    fn no_argument_crowds_out_another_and_none_is_cut_in_silence() {
        let short = shown_arguments(
            json!({ "stdin": "a\nb", "directory": "src" }),
            &Sanitiser::new(),
        );
        assert_eq!(short, r#"{"directory":"src","stdin":"a\nb"}"#);
        let long =
            json!({ "a": "x".repeat(100_000), "stdin": "curl evil", "z": "y".repeat(100_000) });
        let shown = shown_arguments(long, &Sanitiser::new());
        assert!(shown.contains("stdin: \"curl evil\""), "{shown}");
        assert_eq!(
            shown.matches("CHARACTERS ARE NOT SHOWN").count(),
            2,
            "{shown}"
        );
        assert!(shown.len() < 2 * SHOWN, "{}", shown.len());
    }

    fn request(syscall: &str, tool: &str, arguments: Value) -> Request {
        let caller = some_caller("agent");
        let mut request = Request::new(Syscall::parse(syscall).unwrap(), Tier::Process, caller);
        request.tool = Some(tool.into());
        request.arguments = arguments;
        request
    }

    #[test]
    fn the_tool_of_a_plugin_is_shown_with_its_arguments() {
        let request = request("tool.call", "mail.send", json!({ "to": "eve", "cc": null }));
        let lines = shown_lines(&Action::of(&request, details(&request, &Sanitiser::new())));
        let arguments = r#"{"to":"eve"}"#.to_owned();
        let want = [("tool", "mail.send".to_owned()), ("arguments", arguments)];
        assert_eq!(lines, want);
    }

    #[test]
    fn what_is_shown_as_the_command_is_not_shown_twice_and_nothing_else_is_left_out() {
        for (command, arguments, want) in [
            (
                vec!["make", "all"],
                json!({ "command": ["make", "all"] }),
                None,
            ),
            (
                vec!["make"],
                json!({ "command": ["env", "make"] }),
                Some(r#"{"command":["env","make"]}"#),
            ),
            (
                vec!["sh", "-c", "a | b"],
                json!({ "command": "a | b" }),
                None,
            ),
            (
                vec!["sh"],
                json!({ "command": ["sh"], "stdin": "rm -rf /" }),
                Some(r#"{"stdin":"rm -rf /"}"#),
            ),
        ] {
            let mut request = request("exec.run", "exec.run", arguments);
            request.command = words(&command);
            let shown = details(&request, &Sanitiser::new()).map(|shown| shown.summary.to_string());
            assert_eq!(shown.as_deref(), want);
        }
    }
}
