//! Approval requests as text: a line, or all there is to know before answering.

use super::text;
use crate::output::{Tone, styled};
use crate::visible::visible;
use serde_json::Value;

/// One request on one line.
pub(super) fn line(one: &Value) -> String {
    let tone = match text(one, "risk") {
        "high" | "critical" => Tone::Bad,
        "medium" => Tone::Warn,
        _ => Tone::Label,
    };
    let uses = match one.get("uses_left") {
        Some(Value::Number(left)) => format!("  {left} left"),
        Some(_) | None => String::new(),
    };
    let status = match text(one, "status") {
        "open" => String::new(),
        status => format!("  {status}"),
    };
    format!(
        "{}  {}  {}  {} {}  by {}{status}{uses}",
        styled(Tone::Heading, text(one, "id")),
        text(one, "gate"),
        styled(tone, &format!("{:<8}", text(one, "risk"))),
        text(one, "syscall"),
        clean(text(one, "what")),
        text(one, "plugin"),
    )
}

fn clean(text: &str) -> String {
    visible(&text.replace('\n', " "))
}

/// Everything about one request.
pub(super) fn lines(one: &Value) -> Vec<String> {
    let field = |pointer: &str| one.pointer(pointer).filter(|value| !value.is_null());
    let mut lines = vec![format!(
        "{} - {}, {}",
        styled(Tone::Heading, text(one, "id")),
        text(one, "gate"),
        text(one, "raised_by"),
    )];
    let mut put = |label: &str, value: String| {
        if !value.is_empty() {
            let label = styled(Tone::Label, &format!("{label:<9}"));
            lines.push(format!("  {label} {}", clean(&value)));
        }
    };
    put("status", text(one, "status").to_owned());
    put("syscall", word(field("/action/syscall")));
    let tool = field("/action/tool").filter(|tool| Some(*tool) != field("/action/syscall"));
    put("tool", word(tool));
    put("command", words(field("/action/command")));
    put("paths", words(field("/action/paths")));
    put("host", word(field("/action/host")));
    put("secret", word(field("/action/secret")));
    put("details", word(field("/action/diff/summary")));
    put("stage", word(field("/stage")));
    put("asked by", word(field("/action/asker/plugin")));
    put("session", word(field("/action/asker/session")));
    let risk = word(field("/risk/level"));
    let factors = words(field("/risk/factors"));
    put(
        "risk",
        if factors.is_empty() {
            risk
        } else {
            format!("{risk}: {factors}")
        },
    );
    for reason in field("/why")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        put(
            "why",
            format!("{}: {}", text(reason, "rule"), text(reason, "reason")),
        );
    }
    put("budget", left(field("/budget_left")));
    put("related", words(field("/related")));
    put("asked", word(field("/asked")));
    put("expires", word(field("/expires")));
    if let Some(answered) = field("/answered") {
        let because = word(answered.get("because").filter(|value| !value.is_null()));
        let because = if because.is_empty() {
            because
        } else {
            format!(": {because}")
        };
        put(
            "answered",
            format!(
                "{} at {}{because}",
                text(answered, "answer"),
                text(answered, "at")
            ),
        );
    }
    if let Some(grant) = field("/grant") {
        put("grant", remains(grant));
    }
    lines
}

/// What remains of a grant.
fn remains(grant: &Value) -> String {
    if grant.get("revoked").and_then(Value::as_bool) == Some(true) {
        return "withdrawn".to_owned();
    }
    let uses = grant.get("uses_left").and_then(Value::as_u64);
    let uses = uses.map_or("any number of uses".to_owned(), |left| {
        format!("{} left", crate::output::count(left, "use"))
    });
    format!("{uses}, until {}", text(grant, "expires"))
}

fn word(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    }
}

/// The items of a list, apart by spaces; words with spaces of their own in quotes.
fn words(value: Option<&Value>) -> String {
    let items = value.and_then(Value::as_array).into_iter().flatten();
    let quoted = items.map(|item| {
        let text = word(Some(item));
        if text.is_empty() || text.contains(char::is_whitespace) {
            format!("\"{}\"", text.replace('"', "\\\""))
        } else {
            text
        }
    });
    quoted.collect::<Vec<_>>().join(" ")
}

/// What is left of a budget, where it is limited.
fn left(value: Option<&Value>) -> String {
    let Some(fields) = value.and_then(Value::as_object) else {
        return String::new();
    };
    let limited = fields.iter().filter(|(_, left)| !left.is_null());
    let named = limited.map(|(name, left)| format!("{name} {}", word(Some(left))));
    let named: Vec<String> = named.collect();
    if named.is_empty() {
        return String::new();
    }
    format!("{} left", named.join(", "))
}
