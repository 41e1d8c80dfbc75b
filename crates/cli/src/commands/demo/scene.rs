//! Shows each call of the demo with its real outcome, and notices when one is not as expected.

use super::super::outcome::{denied_failure, review_failure};
use crate::failure::{Failure, Kind};
use crate::output::{Output, Tone, styled};
use airlock_kernel::{Call, Done, Front, Kernel, Outcome, sanitise_line};
use serde_json::Value;

/// What a step should come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expect {
    Done,
    /// Done, with a secret replaced.
    Redacted,
    /// Done, with something withheld.
    Hidden,
    Denied,
    Review,
    /// Denied or failed, but never done.
    NotDone,
    /// Done, or refused because this machine cannot confine a program.
    Program,
}

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
        self.output.say(format!(
            "\n{}",
            styled(Tone::Heading, &format!("== {text}"))
        ));
    }

    pub(super) fn say(&mut self, text: &str) {
        self.output.say(styled(Tone::Faint, &format!("   {text}")));
    }

    /// A step that is not a call on the road.
    pub(super) fn result(&mut self, good: bool, text: &str) {
        self.surprises += usize::from(!good);
        let mark = if good {
            styled(Tone::Good, "ok")
        } else {
            styled(Tone::Bad, "UNEXPECTED")
        };
        self.output.say(format!("   {mark}: {text}"));
    }

    pub(super) fn call(
        &mut self,
        kernel: &Kernel,
        front: Front,
        name: &str,
        arguments: Value,
        expect: Expect,
    ) {
        let shown = sanitise_line(&shorten(&arguments), 70);
        self.output.say(format!(
            " {} {name} {shown}",
            styled(Tone::Label, &format!("{front}>"))
        ));
        let outcome = kernel.submit(front, &Call::new(name, arguments));
        let expected = self.show(outcome, expect);
        if !expected {
            self.surprises += 1;
            self.output.say(format!(
                "   {}",
                styled(Tone::Bad, "this is not what should happen")
            ));
        }
    }

    fn show(&mut self, outcome: Outcome, expect: Expect) -> bool {
        match outcome {
            Outcome::Done(done) => {
                self.done(&done);
                match expect {
                    Expect::Done | Expect::Program => true,
                    Expect::Redacted => done.secrets > 0,
                    Expect::Hidden => done.hidden > 0,
                    Expect::Denied | Expect::Review | Expect::NotDone => false,
                }
            }
            Outcome::Denied(denied) => {
                self.refusal("denied", &denied_failure(&denied));
                matches!(expect, Expect::Denied | Expect::NotDone)
            }
            Outcome::NeedsReview(review) => {
                self.refusal("review", &review_failure(&review));
                expect == Expect::Review
            }
            Outcome::Failed(failed) => {
                let failure = Failure::new(Kind::Failed, failed.what).maybe_fix(failed.fix);
                self.refusal("refused", &failure);
                let confined = expect == Expect::Program && failed.code == "not_enforceable";
                expect == Expect::NotDone || confined
            }
        }
    }

    fn done(&mut self, done: &Done) {
        self.output
            .say(format!("   {}", styled(Tone::Good, "done")));
        let text = super::super::tool::render(&done.value);
        let text = text.unwrap_or_else(|| said(&done.value));
        for line in text.lines().take(6) {
            self.output.say(format!("   | {line}"));
        }
        if done.hidden > 0 {
            self.say(&format!("{} withheld by policy", done.hidden));
        }
        if done.secrets > 0 {
            self.say(&format!("{} replaced by a placeholder", done.secrets));
        }
    }

    fn refusal(&mut self, word: &str, failure: &Failure) {
        let tone = if word == "review" {
            Tone::Warn
        } else {
            Tone::Bad
        };
        self.output
            .say(format!("   {}: {}", styled(tone, word), failure.what()));
        for why in failure.reasons().take(2) {
            self.output
                .say(format!("      {}: {why}", styled(Tone::Label, "why")));
        }
        for fix in failure.fixes().take(1) {
            let fix = fix.lines().collect::<Vec<_>>().join("\n           ");
            self.output
                .say(format!("      {}: {fix}", styled(Tone::Label, "fix")));
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
        self.output.say(format!(
            "   {} records; decisions: {}",
            stats.records,
            counts.join(", ")
        ));
        Ok(())
    }
}

/// What a program wrote.
fn said(value: &Value) -> String {
    let stream = |name| value.get(name).and_then(Value::as_str).unwrap_or_default();
    format!("{}{}", stream("stdout"), stream("stderr"))
}

fn shorten(arguments: &Value) -> String {
    let Some(fields) = arguments.as_object() else {
        return arguments.to_string();
    };
    let pair = |(name, value): (&String, &Value)| match value.as_str() {
        Some(text) => format!("{name}={text}"),
        None => format!("{name}={value}"),
    };
    fields.iter().map(pair).collect::<Vec<_>>().join(" ")
}
