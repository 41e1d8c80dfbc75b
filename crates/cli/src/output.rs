//! Data on stdout, everything else on stderr; colour only where somebody looks.
//!
//! Errors, warnings, labels, styled text and JSON leave here without control sequences, whatever
//! file name or policy they quote. Plain lines are the caller's to clean.
//!
//! Where stderr is a terminal, what is said there is broken to its width. Data is not, nor are lines
//! of files: those are as they are.

use crate::columns::{self, Words};
use crate::failure::{Failure, Kind};
use crate::visible::visible;
use airlock_kernel::strip_control;
use anstyle::{AnsiColor, Style};
use serde::Serialize;
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::path::Path;

const ERROR: Style = AnsiColor::Red.on_default().bold();
const GOOD: Style = AnsiColor::Green.on_default().bold();
const WARN: Style = AnsiColor::Yellow.on_default().bold();
const LABEL: Style = AnsiColor::Cyan.on_default();
const HEADING: Style = Style::new().bold();
const FAINT: Style = Style::new().dimmed();

/// How a piece of text is meant.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Tone {
    Good,
    Bad,
    Warn,
    Label,
    Heading,
    Faint,
}

/// `text`, cleaned, in the style of `tone`; the stream drops the style where it is not wanted.
pub(crate) fn styled(tone: Tone, text: &str) -> String {
    painted(tone, &strip_control(text))
}

/// The same with `text` as it is: nothing in it is left that would have to be cleaned.
pub(crate) fn painted(tone: Tone, text: &str) -> String {
    let style = match tone {
        Tone::Good => GOOD,
        Tone::Bad => ERROR,
        Tone::Warn => WARN,
        Tone::Label => LABEL,
        Tone::Heading => HEADING,
        Tone::Faint => FAINT,
    };
    format!("{style}{text}{style:#}")
}

/// A path as text of one line, with what a terminal would obey, or not show, written out.
pub(crate) fn shown(path: &Path) -> String {
    visible(&path.display().to_string())
}

/// How far the rest of a note is indented that does not fit into a line.
const CONTINUED: usize = 2;

/// `1 path`, `2 paths`.
pub(crate) fn count(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

/// Where a command writes.
pub(crate) struct Output {
    json: bool,
    /// The reader of stdout went away: not an error, but nothing more to say.
    closed: bool,
    /// Stdout failed for another reason: the data did not arrive.
    broken: Option<io::Error>,
    /// Stderr is closed: there is nobody left to tell.
    unheard: bool,
}

impl Output {
    pub(crate) fn new(json: bool) -> Self {
        Self {
            json,
            closed: false,
            broken: None,
            unheard: false,
        }
    }

    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// Whether anybody still reads stdout.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// A line of data.
    pub(crate) fn line(&mut self, text: impl AsRef<str>) {
        self.data(text.as_ref().as_bytes());
        self.data(b"\n");
    }

    /// A line of a story: data for a person, a remark where a program reads the data.
    pub(crate) fn say(&mut self, text: impl AsRef<str>) {
        if self.json {
            self.note(text);
        } else {
            self.line(text);
        }
    }

    /// Data as it is.
    pub(crate) fn data(&mut self, bytes: &[u8]) {
        if !self.closed
            && let Err(error) = anstream::stdout().write_all(bytes)
        {
            self.fail(error);
        }
    }

    /// The same to the last byte: what looks like a style is no style of ours, and stays where nobody
    /// wants one.
    pub(crate) fn exact(&mut self, bytes: &[u8]) {
        if !self.closed
            && let Err(error) = io::stdout().write_all(bytes)
        {
            self.fail(error);
        }
    }

    /// Whether somebody looks at stdout: it is a terminal, or has colours though it is none.
    pub(crate) fn is_looked_at() -> bool {
        let choice = anstream::stdout().current_choice();
        io::stdout().is_terminal() || choice != anstream::ColorChoice::Never
    }

    fn fail(&mut self, error: io::Error) {
        self.closed = true;
        if error.kind() != io::ErrorKind::BrokenPipe {
            self.broken = Some(error);
        }
    }

    /// Flushes, and says whether all data arrived. A reader that left early is no failure.
    pub(crate) fn finish(&mut self) -> Result<(), Failure> {
        if !self.closed
            && let Err(error) = anstream::stdout().flush()
        {
            self.fail(error);
        }
        match self.broken.take() {
            None => Ok(()),
            Some(error) => Err(stdout_failure(&error)),
        }
    }

    /// One JSON object on one line.
    pub(crate) fn json(&mut self, value: &impl Serialize) {
        match serde_json::to_string(value) {
            Ok(text) => self.line(escaped(&text)),
            Err(error) => self.error(&format!("cannot write JSON: {error}")),
        }
    }

    /// A note for the person, not part of the data.
    pub(crate) fn note(&mut self, text: impl AsRef<str>) {
        let text = text.as_ref();
        let indent = text.len() - text.trim_start_matches(' ').len();
        self.hung(indent + CONTINUED, text);
    }

    /// The same; what does not fit into a line goes on below, indented by `hang`.
    pub(crate) fn hung(&mut self, hang: usize, text: impl AsRef<str>) {
        let text = text.as_ref();
        match columns::terminal(io::stderr()) {
            Some(columns) => self.verbatim(columns::folded(text, columns, hang, Words::Whole)),
            None => self.verbatim(text),
        }
    }

    /// A note that is as it is: lines of a file, and what is drawn below them.
    pub(crate) fn verbatim(&mut self, text: impl AsRef<str>) {
        if !self.unheard {
            self.unheard = writeln!(anstream::stderr(), "{}", text.as_ref()).is_err();
        }
    }

    /// A line of data for a person: broken where stdout is a terminal.
    pub(crate) fn row(&mut self, hang: usize, text: impl AsRef<str>) {
        let text = text.as_ref();
        match columns::terminal(io::stdout()) {
            Some(columns) => self.line(columns::folded(text, columns, hang, Words::Whole)),
            None => self.line(text),
        }
    }

    pub(crate) fn warning(&mut self, text: &str) {
        let text = strip_control(text);
        self.note(format!("{}: {text}", styled(Tone::Warn, "warning")));
    }

    pub(crate) fn error(&mut self, text: &str) {
        let text = strip_control(text).replace('\n', " ");
        self.note(format!("{}: {text}", styled(Tone::Bad, "error")));
    }

    /// An indented `label: text`, continued lines indented alike.
    pub(crate) fn labelled(&mut self, label: &str, text: &str) {
        let indent = " ".repeat(label.len() + 4);
        let text = strip_control(text)
            .lines()
            .collect::<Vec<_>>()
            .join(&format!("\n{indent}"));
        self.hung(
            indent.len(),
            format!("  {}: {text}", styled(Tone::Label, label)),
        );
    }

    /// Hands out stdout for streaming: bytes as they are, but for a person's terminal escaped.
    pub(crate) fn stream() -> Box<dyn Write> {
        if io::stdout().is_terminal() {
            return Box::new(io::LineWriter::new(Escaping(io::stdout())));
        }
        Box::new(io::BufWriter::new(io::stdout()))
    }
}

/// The failure of a stdout that takes no more data.
pub(crate) fn stdout_failure(error: &io::Error) -> Failure {
    Failure::new(Kind::Failed, "cannot write the result to stdout")
        .why(error)
        .fix("check where stdout goes, and the free space there")
}

/// Writes lines of text with what a terminal would obey shown as escapes.
struct Escaping<W>(W);

impl<W: Write> Write for Escaping<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = escaped(&String::from_utf8_lossy(bytes));
        self.0.write_all(text.as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// JSON text with what a terminal would obey written as escapes: the value stays the same.
fn escaped(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        let mut buffer = [0; 4];
        // JSON escapes the other controls itself; these it leaves, and all of them take four digits.
        if strip_control(c.encode_utf8(&mut buffer)).is_empty() {
            let _ = write!(text, "\\u{:04x}", u32::from(c));
        } else {
            text.push(c);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_keeps_its_value_and_loses_its_control_characters() {
        let value = serde_json::json!({ "a\u{9b}31m": "\u{7f}\u{202e}\u{1b}[2J\r\n\t\u{85}é𝄞" });
        let text = escaped(&value.to_string());
        assert!(strip_control(&text) == text, "{text:?}");
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&text).unwrap(),
            value
        );
    }

    #[test]
    fn a_name_is_shown_to_its_last_character() {
        let name = Path::new("a\u{1b}]0;b\u{7}\n\u{202e}c");
        assert_eq!(shown(name), "a\\u{1b}]0;b\\u{7}\\u{a}\\u{202e}c");
    }

    #[test]
    fn styled_text_brings_no_style_of_its_own() {
        assert_eq!(
            styled(Tone::Faint, "a\u{1b}[8mb"),
            styled(Tone::Faint, "ab")
        );
    }
}
