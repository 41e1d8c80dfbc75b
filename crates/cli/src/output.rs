//! Data on stdout, everything else on stderr; colour only where somebody looks.

use anstyle::{AnsiColor, Style};
use serde::Serialize;
use std::io::{self, Write};

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

/// `text` in the style of `tone`; the stream drops the style where it is not wanted.
pub(crate) fn styled(tone: Tone, text: &str) -> String {
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

/// Where a command writes.
pub(crate) struct Output {
    json: bool,
    /// The reader of stdout went away: not an error, but nothing more to say.
    closed: bool,
}

impl Output {
    pub(crate) fn new(json: bool) -> Self {
        Self {
            json,
            closed: false,
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

    /// Data as it is.
    pub(crate) fn data(&mut self, bytes: &[u8]) {
        if !self.closed && anstream::stdout().write_all(bytes).is_err() {
            self.closed = true;
        }
    }

    /// One JSON object on one line.
    pub(crate) fn json(&mut self, value: &impl Serialize) {
        match serde_json::to_string(value) {
            Ok(text) => self.line(text),
            Err(error) => self.error(&format!("cannot write JSON: {error}")),
        }
    }

    /// A note for the person, not part of the data.
    pub(crate) fn note(&mut self, text: impl AsRef<str>) {
        // There is nobody left to tell when stderr is closed.
        let _ = writeln!(anstream::stderr(), "{}", text.as_ref());
    }

    pub(crate) fn warning(&mut self, text: &str) {
        self.note(format!("{}: {text}", styled(Tone::Warn, "warning")));
    }

    pub(crate) fn error(&mut self, text: &str) {
        self.note(format!("{}: {text}", styled(Tone::Bad, "error")));
    }

    /// An indented `label: text`, continued lines indented alike.
    pub(crate) fn labelled(&mut self, label: &str, text: &str) {
        let indent = " ".repeat(label.len() + 4);
        let text = text
            .lines()
            .collect::<Vec<_>>()
            .join(&format!("\n{indent}"));
        self.note(format!("  {}: {text}", styled(Tone::Label, label)));
    }

    /// Hands out stdout for streaming.
    pub(crate) fn stream(&mut self) -> impl Write + use<> {
        io::BufWriter::new(anstream::stdout())
    }
}
