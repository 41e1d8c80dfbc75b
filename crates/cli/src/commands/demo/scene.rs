//! Tells the demo's story, and counts what does not go as it should.

use super::super::agent::shown;
use crate::failure::{Failure, Kind};
use crate::output::{Output, Tone, styled};
use airlock_kernel::{Kernel, sanitise_line};
use airlock_model::Status;

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
        self.output.say(format!("\n {who} {}", sanitise_line(text, 300)));
    }

    /// A call of the agent's that ended.
    pub(super) fn call(&mut self, what: &str, status: Status, milliseconds: u64) {
        let line = shown::ended(what, status, milliseconds, WIDTH);
        self.output.say(format!(" {line}"));
    }

    /// What came of it, as the agent is told.
    pub(super) fn result_text(&mut self, status: Status, text: &str, lines: usize) {
        let lines = text.lines().filter(|line| !line.trim().is_empty()).take(lines);
        for line in lines {
            let line = sanitise_line(line, WIDTH);
            let tone = if status == Status::Ok { Tone::Faint } else { Tone::Bad };
            self.output.say(format!("            {}", styled(tone, &line)));
        }
    }

    pub(super) fn flagged(&mut self, origin: &str) {
        let origin = sanitise_line(origin, 60);
        let mark = styled(Tone::Warn, "flagged");
        let what = format!("text from {origin} reads like an instruction; the agent gets it marked as data");
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
        let text = format!("{} records; decisions: {}", stats.records, counts.join(", "));
        self.lines(&text);
        Ok(())
    }
}
