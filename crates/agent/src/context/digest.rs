//! What is kept of exchanges that are no longer told word for word: what was asked, decided,
//! changed, tested and refused.
//!
//! Made by rule and not by a model: it costs nothing, cannot fail, and no text can talk it into
//! keeping or dropping anything. Bounded, however long the conversation is.

use airlock_model::{Arguments, Counter, Message, Status, ToolCall};
use std::collections::VecDeque;

/// Characters of one line.
const LINE: usize = 280;
/// Characters of what the person asked for, which everything else serves.
const ASKED: usize = 700;

/// A bounded list that forgets its oldest line.
#[derive(Debug)]
struct Lines {
    lines: VecDeque<String>,
    most: usize,
}

impl Lines {
    const fn new(most: usize) -> Self {
        Self {
            lines: VecDeque::new(),
            most,
        }
    }

    /// Adds `line`; the same line before it goes.
    fn add(&mut self, line: String) {
        if line.is_empty() {
            return;
        }
        self.lines.retain(|known| *known != line);
        self.lines.push_back(line);
        if self.lines.len() > self.most {
            self.lines.pop_front();
        }
    }
}

/// What is kept.
#[derive(Debug)]
pub(super) struct Digest {
    exchanges: u64,
    asked: Lines,
    decisions: Lines,
    changes: Lines,
    tests: Lines,
    refused: Lines,
}

impl Default for Digest {
    fn default() -> Self {
        Self {
            exchanges: 0,
            asked: Lines::new(8),
            decisions: Lines::new(40),
            changes: Lines::new(60),
            tests: Lines::new(8),
            refused: Lines::new(16),
        }
    }
}

impl Digest {
    /// Takes what matters out of an exchange.
    pub(super) fn absorb(&mut self, messages: &[Message]) {
        self.exchanges += 1;
        let mut asked_for: &[ToolCall] = &[];
        for message in messages {
            match message {
                Message::User { text } => self.asked.add(line(untagged(text), ASKED)),
                Message::Assistant { text, calls } => {
                    asked_for = calls;
                    self.decisions.add(line(text, LINE));
                }
                Message::Tool {
                    call,
                    name,
                    status,
                    text,
                } => {
                    let call = asked_for.iter().find(|one| one.id == *call);
                    self.result(name, call, *status, untagged(text));
                }
            }
        }
    }

    fn result(&mut self, name: &str, call: Option<&ToolCall>, status: Status, text: &str) {
        let what = call.map(about).unwrap_or_default();
        if name.starts_with("test.") {
            let line = line(text, LINE);
            self.tests
                .add(format!("{name} {what}: {}: {line}", status.as_str()));
            return;
        }
        match status {
            Status::Ok if changes(name) => self.changes.add(line(&format!("{name} {what}"), LINE)),
            Status::Denied | Status::NeedsReview => {
                let line = line(text, LINE);
                self.refused.add(format!("{name} {what}: {line}"));
            }
            Status::Ok | Status::Failed | Status::Cancelled => {}
        }
    }

    /// What is kept, in at most `most` tokens; nothing where nothing is.
    pub(super) fn render(&self, counter: Counter, most: u64) -> Option<String> {
        if self.exchanges == 0 {
            return None;
        }
        let mut text = format!("{} earlier exchanges are summarised here.", self.exchanges);
        let mut left = most.checked_sub(counter.count(&text))?;
        for (title, lines) in [
            ("The person asked:", &self.asked),
            ("Files were changed:", &self.changes),
            ("Tests were run:", &self.tests),
            ("Calls were refused:", &self.refused),
            ("Said and decided:", &self.decisions),
        ] {
            // The newest first for as long as they fit, then in their order. No section may take
            // all that is left, or the last ones would never be told.
            let mut kept: Vec<String> = Vec::new();
            let mut part = left / 2;
            for line in lines.lines.iter().rev() {
                let line = format!("\n- {line}");
                // Counted apart, pieces have at least as many tokens as joined.
                let Some(rest) = part.checked_sub(counter.count(&line) + 1) else {
                    break;
                };
                part = rest;
                kept.push(line);
            }
            if kept.is_empty() {
                continue;
            }
            let title = format!("\n{title}");
            let body: String = kept.iter().rev().map(String::as_str).collect();
            let section = format!("{title}{body}");
            let Some(rest) = left.checked_sub(counter.count(&section) + 1) else {
                break;
            };
            left = rest;
            text.push_str(&section);
        }
        Some(text)
    }
}

/// Whether a tool of this name changes files.
fn changes(name: &str) -> bool {
    matches!(
        name,
        "fs.write" | "fs.patch" | "fs.move" | "fs.delete" | "git.commit"
    ) || name.starts_with("merge.")
}

/// What a call was about, in a few words: the paths and names among its arguments.
fn about(call: &ToolCall) -> String {
    let Arguments::Object(object) = &call.arguments else {
        return String::new();
    };
    let short = [
        "path", "from", "to", "paths", "command", "filter", "name", "stage",
    ];
    let told = short.iter().filter_map(|name| {
        let value = object.get(*name)?;
        let text = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        Some(line(&text, 80))
    });
    told.collect::<Vec<_>>().join(" ")
}

/// The text between the marks of its origin, if it has them.
fn untagged(text: &str) -> &str {
    let inside = text
        .strip_prefix("<airlock-data ")
        .and_then(|rest| rest.split_once(">\n"))
        .and_then(|(_, rest)| rest.strip_suffix("\n</airlock-data>"));
    inside.unwrap_or(text)
}

/// `text` on one line of at most `most` characters.
fn line(text: &str, most: usize) -> String {
    let mut words = String::new();
    for word in text.split_whitespace() {
        if !words.is_empty() {
            words.push(' ');
        }
        words.push_str(word);
        if words.len() > most * 4 {
            break;
        }
    }
    if words.chars().count() <= most {
        return words;
    }
    let mut short: String = words.chars().take(most).collect();
    short.push('…');
    short
}

#[cfg(test)]
mod tests {
    use super::*;
    use airlock_sanitise::{Origin, tag};

    fn exchange(n: usize, name: &str, status: Status, result: &str) -> Vec<Message> {
        let path = format!("src/{n}.rs");
        vec![
            Message::Assistant {
                text: format!("I decided on number {n}."),
                calls: vec![ToolCall {
                    id: "c".to_owned(),
                    name: name.to_owned(),
                    arguments: Arguments::parse(&format!("{{\"path\":\"{path}\"}}")),
                }],
            },
            Message::Tool {
                call: "c".to_owned(),
                name: name.to_owned(),
                status,
                text: result.to_owned(),
            },
        ]
    }

    #[test]
    fn what_was_asked_decided_changed_tested_and_refused_is_kept() {
        let mut digest = Digest::default();
        let asked = tag("make it work", &Origin::User);
        digest.absorb(&[Message::User { text: asked }]);
        digest.absorb(&exchange(1, "fs.write", Status::Ok, "written"));
        digest.absorb(&exchange(2, "test.run", Status::Ok, "3 passed, 1 failed"));
        digest.absorb(&exchange(
            3,
            "fs.write",
            Status::Denied,
            "no rule allows this",
        ));
        digest.absorb(&exchange(4, "fs.read", Status::Ok, "a long file"));
        let text = digest.render(Counter::ESTIMATE, 2_000).unwrap();
        for part in [
            "- make it work",
            "fs.write src/1.rs",
            "3 passed, 1 failed",
            "no rule allows this",
            "I decided on number 4.",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(
            !text.contains("a long file") && !text.contains("airlock-data"),
            "{text}"
        );
    }

    #[test]
    fn a_digest_stays_within_its_budget_however_much_it_took_in() {
        let mut digest = Digest::default();
        for n in 0..5_000 {
            digest.absorb(&exchange(n, "fs.write", Status::Ok, "x"));
            digest.absorb(&exchange(n, "test.run", Status::Ok, &"é".repeat(5_000)));
            digest.absorb(&[Message::User {
                text: format!("{n} {}", "ask ".repeat(500)),
            }]);
        }
        for most in [50, 500, 2_000] {
            let text = digest.render(Counter::ESTIMATE, most).unwrap();
            assert!(Counter::ESTIMATE.count(&text) <= most, "{most}");
        }
        let text = digest.render(Counter::ESTIMATE, 2_000).unwrap();
        assert!(text.contains("4999"), "the newest are kept: {text}");
    }
}
