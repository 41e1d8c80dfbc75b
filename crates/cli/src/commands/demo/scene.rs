//! Tells the demo's story, and counts what does not go as it should.

use super::super::agent::{Screen, shown};
use super::interrupt::Watch;
use crate::columns::{self, Words};
use crate::failure::{Failure, Kind};
use crate::output::{Output, Tone, styled};
use airlock_kernel::{Kernel, sanitise_line};
use airlock_model::Status;
use serde::Serialize;
use serde_json::{Map, Value};

/// What of a result's fields tells the story.
const TELLING: &[&str] = &["state", "may_write", "outcome", "exit", "limit"];
/// The width of the story where nobody says, and the least that is of use.
const WIDTH: usize = 100;
const LEAST: usize = 40;
/// How far what came of a call is indented, and how its explanations begin.
const INDENT: usize = 12;
const LABELS: &[&str] = &["why", "fix", "note"];

pub(super) struct Scene<'o> {
    output: &'o mut Output,
    watch: &'o Watch,
    /// Columns of the terminal; none where there is no terminal, and lines stay as they are.
    columns: Option<usize>,
    /// Shows that something runs.
    screen: Screen,
    claims: Vec<Claim>,
}

/// Something the story rests on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Claim {
    pub(super) claim: String,
    pub(super) holds: bool,
}

impl Drop for Scene<'_> {
    fn drop(&mut self) {
        self.screen.end();
    }
}

impl<'o> Scene<'o> {
    pub(super) fn new(output: &'o mut Output, watch: &'o Watch) -> Self {
        let columns = columns::terminal(std::io::stdout());
        let screen = Screen::new(output.is_json());
        Self {
            output,
            watch,
            columns: columns.map(|columns| columns.max(LEAST)),
            screen,
            claims: Vec::new(),
        }
    }

    /// Something begins that may take a while.
    pub(super) fn busy(&self, what: &str) {
        self.screen.busy(what);
    }

    pub(super) fn is_json(&self) -> bool {
        self.output.is_json()
    }

    /// What the story rested on so far.
    pub(super) fn claims(&self) -> &[Claim] {
        &self.claims
    }

    /// The width of what is cut to it.
    fn width(&self) -> usize {
        self.columns.map_or(WIDTH, |columns| columns.min(WIDTH))
    }

    /// One line. Whoever wanted an end is told nothing more: what goes wrong now does so because
    /// of that, and would be explained by something else.
    fn put(&mut self, line: impl AsRef<str>) {
        self.watch.give_way();
        self.screen.rest();
        self.output.say(line);
    }

    /// `text` after a `mark` of so many columns, in as many lines as it takes.
    fn told(&mut self, (mark, indent): (&str, usize), text: &str, tone: Option<Tone>) {
        let text = broken(text, self.columns, indent);
        for (at, line) in text.split('\n').enumerate() {
            let line = tone.map_or_else(|| line.to_owned(), |tone| styled(tone, line));
            if at == 0 {
                self.put(format!("{mark}{line}"));
            } else {
                self.put(format!("{:indent$}{line}", ""));
            }
        }
    }

    pub(super) fn title(&mut self, text: &str) {
        self.put("");
        self.told(("", 0), &format!("== {text}"), Some(Tone::Heading));
    }

    pub(super) fn say(&mut self, text: &str) {
        self.told(("   ", 3), text, Some(Tone::Faint));
    }

    /// The last words.
    pub(super) fn close(&mut self, text: &str, next: &str) {
        self.put("");
        self.told(("", 0), text, Some(Tone::Good));
        self.told(("", 0), next, None);
    }

    /// What the agent says.
    pub(super) fn agent(&mut self, text: &str) {
        let who = styled(Tone::Label, "agent>");
        self.put("");
        self.told((&format!(" {who} "), 8), &sanitise_line(text, 300), None);
    }

    /// A call of the agent's that ended.
    pub(super) fn call(&mut self, what: &str, status: Status, milliseconds: u64) {
        let line = shown::ended(what, status, milliseconds, self.width() - 1);
        self.put(format!(" {line}"));
    }

    /// What came of it, as the agent is told: its beginning.
    pub(super) fn result_text(
        &mut self,
        status: Status,
        text: &str,
        lines: usize,
        telling: fn(&str) -> bool,
    ) {
        let mark = " ".repeat(INDENT);
        let mut left = lines;
        let told: Vec<String> = match serde_json::from_str(text.lines().next().unwrap_or_default())
        {
            Ok(Value::Object(fields)) => {
                if let Some(facts) = facts(&fields) {
                    let facts = sanitise_line(&facts, 300);
                    self.told((&mark, INDENT), &facts, Some(Tone::Faint));
                    left -= 1;
                }
                body(text).filter(|line| telling(line)).collect()
            }
            Ok(_) | Err(_) => text.lines().map(str::to_owned).collect(),
        };
        for line in told.iter().take(left) {
            let line = sanitise_line(line, 300);
            match (status, line.split_once(": ")) {
                // Data is shown in part, what explains something is shown whole.
                (Status::Ok, _) => {
                    let room = self.columns.map_or(WIDTH, |columns| columns - INDENT);
                    let line = shown::fit(&line, room.min(WIDTH));
                    self.told((&mark, INDENT), &line, Some(Tone::Faint));
                }
                (_, Some((label, rest))) if LABELS.contains(&label) => {
                    let mark = format!("{mark}{}: ", styled(Tone::Label, label));
                    self.told((&mark, INDENT + label.len() + 2), rest, None);
                }
                (_, Some(_) | None) => self.told((&mark, INDENT), &line, Some(Tone::Faint)),
            }
        }
    }

    pub(super) fn flagged(&mut self, origin: &str) {
        let origin = sanitise_line(origin, 60);
        let mark = styled(Tone::Warn, "flagged");
        let what = format!(
            "text from {origin} reads like an instruction; the agent gets it marked as data"
        );
        self.told((&format!("   {mark}: "), 12), &what, None);
    }

    /// Something the story rests on: shown, and counted where it does not hold.
    pub(super) fn holds(&mut self, good: bool, text: &str) {
        self.claims.push(Claim {
            claim: text.to_owned(),
            holds: good,
        });
        let (mark, indent) = if good {
            (styled(Tone::Good, "ok"), 7)
        } else {
            (styled(Tone::Bad, "UNEXPECTED"), 15)
        };
        self.told((&format!("   {mark}: "), indent), text, None);
    }

    /// A line of a diff.
    pub(super) fn diff(&mut self, line: &str) {
        let line = match self.columns {
            Some(columns) => columns::folded(line, columns - 3, 5, Words::Broken),
            None => line.to_owned(),
        };
        for line in line.split('\n') {
            self.put(format!("   {line}"));
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
            "{} records so far; decisions: {}",
            stats.records,
            counts.join(", ")
        );
        self.told(("   ", 3), &text, None);
        Ok(())
    }
}

/// `text` in the lines that `columns` leave room for after an indent.
fn broken(text: &str, columns: Option<usize>, indent: usize) -> String {
    match columns {
        Some(columns) => columns::folded(text, columns - indent, 0, Words::Broken),
        None => text.to_owned(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_broken_to_the_terminal_and_only_there() {
        let text = "its report got nowhere: nothing reached the port it was meant for";
        assert_eq!(broken(text, None, 7), text);
        assert_eq!(broken(text, Some(100), 7), text);
        for columns in [40, 60] {
            let told = broken(text, Some(columns), 7);
            let lines: Vec<&str> = told.lines().collect();
            assert!(lines.len() > 1, "{lines:?}");
            assert!(
                lines.iter().all(|line| line.len() + 7 <= columns),
                "{lines:?}"
            );
            assert_eq!(lines.join(" "), text);
        }
    }
}
