//! Tells the demo's story, and counts what does not go as it should.

use super::super::agent::shown;
use crate::failure::{Failure, Kind};
use crate::output::{Output, Tone, styled};
use airlock_kernel::{Kernel, sanitise_line};
use airlock_model::Status;
use serde_json::{Map, Value};

/// What of a result's fields tells the story.
const TELLING: &[&str] = &["state", "may_write", "outcome", "exit", "limit"];
/// The width of the story where nobody says.
const WIDTH: usize = 100;

pub(super) struct Scene<'o> {
    output: &'o mut Output,
    surprises: usize,
}

impl<'o> Scene<'o> {
    pub(super) fn new(output: &'o mut Output) -> Self {
        Self {
            output,
            surprises: 0,
        }
    }

    pub(super) fn surprises(&self) -> usize {
        self.surprises
    }

    pub(super) fn title(&mut self, text: &str) {
        let line = styled(Tone::Heading, &format!("== {text}"));
        self.output.say(format!("\n{line}"));
    }

    pub(super) fn say(&mut self, text: &str) {
        self.output.say(styled(Tone::Faint, &format!("   {text}")));
    }

    /// What the agent says.
    pub(super) fn agent(&mut self, text: &str) {
        let who = styled(Tone::Label, "agent>");
        self.output
            .say(format!("\n {who} {}", sanitise_line(text, 300)));
    }

    /// A call of the agent's that ended.
    pub(super) fn call(&mut self, what: &str, status: Status, milliseconds: u64) {
        let line = shown::ended(what, status, milliseconds, WIDTH);
        self.output.say(format!(" {line}"));
    }

    /// What came of it, as the agent is told: its beginning.
    pub(super) fn result_text(&mut self, status: Status, text: &str, lines: usize) {
        let told: Vec<String> = match serde_json::from_str(text.lines().next().unwrap_or_default())
        {
            Ok(Value::Object(fields)) => facts(&fields).into_iter().chain(body(text)).collect(),
            Ok(_) | Err(_) => text.lines().map(str::to_owned).collect(),
        };
        for line in told.iter().take(lines) {
            let line = sanitise_line(line, WIDTH);
            let line = match (status, line.split_once(": ")) {
                (Status::Ok, _) | (_, None) => styled(Tone::Faint, &line),
                (_, Some((label, rest))) => format!("{}: {rest}", styled(Tone::Label, label)),
            };
            self.output.say(format!("            {line}"));
        }
    }

    pub(super) fn flagged(&mut self, origin: &str) {
        let origin = sanitise_line(origin, 60);
        let mark = styled(Tone::Warn, "flagged");
        let what = format!(
            "text from {origin} reads like an instruction; the agent gets it marked as data"
        );
        self.output.say(format!("   {mark}: {what}"));
    }

    /// Something the story rests on: shown, and counted where it does not hold.
    pub(super) fn holds(&mut self, good: bool, text: &str) {
        self.surprises += usize::from(!good);
        let mark = if good {
            styled(Tone::Good, "ok")
        } else {
            styled(Tone::Bad, "UNEXPECTED")
        };
        self.output.say(format!("   {mark}: {text}"));
    }

    /// A part of a text, as it is.
    pub(super) fn lines(&mut self, text: &str) {
        for line in text.lines() {
            self.output.say(format!("   {line}"));
        }
    }

    /// Counts of the log so far.
    pub(super) fn log(&mut self, kernel: &Kernel) -> Result<(), Failure> {
        let stats = kernel
            .log()
            .stats()
            .map_err(|error| Failure::of(Kind::Failed, &error).maybe_fix(error.hint()))?;
        let counts: Vec<String> = stats
            .verdicts
            .iter()
            .map(|(verdict, count)| format!("{count} {verdict}"))
            .collect();
        let text = format!(
            "{} records; decisions: {}",
            stats.records,
            counts.join(", ")
        );
        self.lines(&text);
        Ok(())
    }
}

/// The telling fields, in a line.
fn facts(fields: &Map<String, Value>) -> Option<String> {
    let told: Vec<String> = TELLING
        .iter()
        .filter_map(|name| {
            let value = fields.get(*name).filter(|value| !value.is_null())?;
            let value = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            Some(format!("{} {value}", name.replace('_', " ")))
        })
        .collect();
    (!told.is_empty()).then(|| told.join(", "))
}

/// The text after the fields, without the marks around it.
fn body(text: &str) -> impl Iterator<Item = String> {
    let labels = ["text:", "stdout:", "stderr:"];
    text.lines()
        .skip(1)
        .map(str::trim_end)
        .filter(move |line| {
            let mark = line.starts_with("<airlock-data") || line.starts_with("</airlock-data");
            !line.trim().is_empty() && !mark && !labels.contains(line)
        })
        .map(str::to_owned)
}
