//! What happens, shown: as lines for a person, or as JSON lines for a program.

use super::screen::{Screen, width};
use super::shown;
use super::wrap::Wrap;
use crate::columns;
use crate::output::{Output, Tone, count, styled};
use airlock_agent::Step;
use airlock_kernel::{sanitise_line, strip_control};
use airlock_model::{Event, Status, Usage};
use std::collections::BTreeMap;
use std::io::IsTerminal as _;

/// Shows what happens.
pub(super) struct View {
    json: bool,
    screen: Screen,
    wrap: Wrap,
    /// What calls that run are about, by id.
    running: BTreeMap<String, String>,
    used: Usage,
}

impl View {
    pub(super) fn new(json: bool) -> Self {
        Self {
            json,
            screen: Screen::new(json),
            wrap: Wrap::new(None),
            running: BTreeMap::new(),
            used: Usage::default(),
        }
    }

    pub(super) fn screen(&self) -> Screen {
        self.screen.clone()
    }

    /// Tokens of all questions and answers so far.
    pub(super) const fn used(&self) -> Usage {
        self.used
    }

    /// The agent begins to work.
    pub(super) fn begin(&mut self) {
        let terminal = std::io::stdout().is_terminal();
        self.wrap = Wrap::new(terminal.then(width));
        self.screen.busy("thinking");
    }

    /// It stopped.
    pub(super) fn end(&mut self) {
        if !self.json {
            self.finish_text();
        }
        self.running.clear();
        self.screen.rest();
    }

    pub(super) fn step(&mut self, step: &Step) {
        if let Step::Model(Event::Usage { usage }) = step {
            self.used.input = self.used.input.saturating_add(usage.input);
            self.used.output = self.used.output.saturating_add(usage.output);
            self.used.estimated |= usage.estimated;
        }
        if self.json {
            Output::new(true).json(step);
            return;
        }
        match step {
            Step::Model(event) => self.event(event),
            Step::ToolExecuting {
                id,
                name,
                arguments,
            } => {
                self.finish_text();
                let what = shown::call(name, arguments);
                self.screen.busy(&what);
                self.running.insert(id.clone(), what);
            }
            Step::ToolResult {
                id,
                name,
                status,
                milliseconds,
                text,
            } => {
                self.finish_text();
                let what = self.running.remove(id);
                let what = what.unwrap_or_else(|| sanitise_line(name, 60));
                self.screen
                    .note(&shown::ended(&what, *status, *milliseconds, width()));
                if *status != Status::Ok {
                    let columns = columns::terminal(std::io::stderr());
                    self.screen.note(&shown::why(text, columns));
                }
                if self.running.is_empty() {
                    self.screen.busy("thinking");
                }
            }
            Step::Summarised { exchanges, .. } => {
                let told = count(*exchanges as u64, "earlier exchange");
                self.faint(&format!("{told} summarised to make room"));
            }
            Step::Flagged { origin, places } => {
                let origin = sanitise_line(origin, 80);
                let places = count(*places as u64, "place");
                self.warn(&format!(
                    "{places} in text from {origin} may be instructions; marked as data"
                ));
            }
            Step::Withheld { secrets } => {
                let secrets = count(*secrets as u64, "secret");
                self.warn(&format!(
                    "{secrets} in your message replaced by a placeholder"
                ));
            }
        }
    }

    fn event(&mut self, event: &Event) {
        match event {
            Event::TextDelta { text } => {
                let text = self.wrap.take(&strip_control(text));
                self.screen.text(&text);
            }
            Event::ToolCallStart { name, .. } => {
                self.finish_text();
                self.screen.busy(&sanitise_line(name, 60));
            }
            Event::Error { message, retrying } => {
                self.finish_text();
                let again = if *retrying { "; trying again" } else { "" };
                self.warn(&format!("{}{again}", sanitise_line(message, 300)));
                self.screen.busy("thinking");
            }
            Event::Done { .. } => self.finish_text(),
            Event::ReasoningDelta { .. }
            | Event::ToolCallDelta { .. }
            | Event::ToolCallEnd { .. }
            | Event::Usage { .. } => {}
        }
    }

    fn finish_text(&mut self) {
        let rest = self.wrap.finish();
        self.screen.text(&rest);
        self.screen.end_line();
    }

    fn warn(&self, text: &str) {
        let mark = styled(Tone::Warn, "warning");
        self.screen.note(&format!("{mark}: {text}"));
    }

    fn faint(&self, text: &str) {
        self.screen.note(&styled(Tone::Faint, text));
    }
}

impl Drop for View {
    fn drop(&mut self) {
        self.screen.end();
    }
}
