//! Every way a command can end badly: what happened, why, how to mend it, and the exit code.

use crate::output::Output;
use serde_json::json;
use std::error::Error;
use std::fmt::Display;

/// Exit codes are an API; `docs/cli.md` lists them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It was tried and failed.
    Failed,
    /// The command line or an input is wrong.
    Usage,
    /// Policy says no.
    Denied,
    /// A person has to say yes first.
    NeedsReview,
    /// This machine cannot enforce what is asked.
    Unenforceable,
}

impl Kind {
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Denied => 3,
            Self::NeedsReview => 4,
            Self::Unenforceable => 5,
        }
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Usage => "usage",
            Self::Denied => "denied",
            Self::NeedsReview => "needs_review",
            Self::Unenforceable => "unenforceable",
        }
    }
}

/// A failed command.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) kind: Kind,
    /// Where it is not the kind's own.
    exit: Option<u8>,
    // Every command returns one of these or a number: the number should not pay for it.
    said: Box<Said>,
}

#[derive(Debug)]
struct Said {
    what: String,
    why: Vec<String>,
    fix: Vec<String>,
    /// Text that already says everything, such as rendered policy problems.
    details: Option<String>,
    /// More for `--json`.
    json: serde_json::Map<String, serde_json::Value>,
}

impl Failure {
    pub(crate) fn new(kind: Kind, what: impl Into<String>) -> Self {
        Self {
            kind,
            exit: None,
            said: Box::new(Said {
                what: what.into(),
                why: Vec::new(),
                fix: Vec::new(),
                details: None,
                json: serde_json::Map::new(),
            }),
        }
    }

    /// No signal can be watched for: what a person sends would end this process as it stands.
    pub(crate) fn unwatched(error: std::io::Error) -> Self {
        Self::new(Kind::Failed, "cannot watch for signals").why(error)
    }

    /// The exit code.
    pub(crate) fn code(&self) -> u8 {
        self.exit.unwrap_or(self.kind.code())
    }

    /// Ends with `code`, whatever kind it is.
    pub(crate) fn ending_with(mut self, code: u8) -> Self {
        self.exit = Some(code);
        self
    }

    /// From an error: its message is what happened, its sources are why.
    pub(crate) fn of(kind: Kind, error: &(dyn Error + 'static)) -> Self {
        let mut failure = Self::new(kind, error.to_string());
        let mut source = error.source();
        while let Some(cause) = source {
            failure = failure.why(cause);
            source = cause.source();
        }
        failure
    }

    /// Says `what` instead; what was said so far becomes the first reason.
    pub(crate) fn headed(mut self, what: &str) -> Self {
        let cause = std::mem::replace(&mut self.said.what, what.to_owned());
        self.said.why.insert(0, cause);
        self
    }

    /// Adds a reason, unless what was said already ends with it: many errors quote their cause.
    pub(crate) fn why(mut self, why: impl Display) -> Self {
        let why = why.to_string();
        let said = self.said.why.last().unwrap_or(&self.said.what);
        if !said.ends_with(&why) {
            self.said.why.push(why);
        }
        self
    }

    pub(crate) fn fix(mut self, fix: impl Display) -> Self {
        let fix = fix.to_string();
        if !fix.is_empty() {
            self.said.fix.push(fix);
        }
        self
    }

    pub(crate) fn maybe_fix(self, fix: Option<impl Display>) -> Self {
        match fix {
            Some(fix) => self.fix(fix),
            None => self,
        }
    }

    pub(crate) fn details(mut self, details: String) -> Self {
        self.said.details = Some(details);
        self
    }

    pub(crate) fn json(mut self, key: &str, value: serde_json::Value) -> Self {
        self.said.json.insert(key.to_owned(), value);
        self
    }

    pub(crate) fn what(&self) -> &str {
        &self.said.what
    }

    pub(crate) fn reasons(&self) -> impl Iterator<Item = &str> {
        self.said.why.iter().map(String::as_str)
    }

    pub(crate) fn fixes(&self) -> impl Iterator<Item = &str> {
        self.said.fix.iter().map(String::as_str)
    }

    /// Shows the failure where people, or programs, look for it.
    pub(crate) fn show(&self, output: &mut Output) {
        // A stdout that takes nothing can take no error either.
        if output.is_json() && !output.is_closed() {
            let mut error = json!({
                "kind": self.kind.word(),
                "what": self.said.what,
                "why": self.said.why,
                "fix": self.said.fix,
            });
            if let Some(object) = error.as_object_mut() {
                object.extend(self.said.json.clone());
            }
            output.json(&json!({ "error": error }));
            if output.finish().is_ok() {
                return;
            }
        }
        self.show_in_words(output);
    }

    fn show_in_words(&self, output: &mut Output) {
        if let Some(details) = &self.said.details {
            output.verbatim(details.trim_end());
        }
        output.error(&self.said.what);
        self.said
            .why
            .iter()
            .for_each(|why| output.labelled("why", why));
        self.said
            .fix
            .iter()
            .for_each(|fix| output.labelled("fix", fix));
    }
}

/// What a command returns: its exit code, or why it failed.
pub(crate) type Ending = Result<u8, Failure>;

/// Why an operation on a file failed, without the temporary name it was tried under.
pub(crate) fn cause(error: &std::io::Error) -> String {
    let text = error.to_string();
    let end = text.find(" at path ").unwrap_or(text.len());
    text.get(..end).unwrap_or(&text).to_owned()
}
