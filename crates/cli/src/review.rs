//! A person answers a question of the kernel, at a terminal and nowhere else.
//!
//! The answer is read from the terminal itself, not from stdin, so that nothing piped into the
//! command can answer for the person. What the question is about goes to stderr, which is that
//! terminal, so that a redirected stdout cannot hide it.
//!
//! Whoever presses Ctrl-C in place of an answer, where that does not end the process, has said no.

use crate::columns::{self, Words};
use crate::failure::{Failure, Kind};
use crate::output::Output;
use airlock_kernel::{AnswerFailure, Kernel, Person, Review, strip_control};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, QueueSelector, tcflush, tcgetattr, tcsetattr};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, IsTerminal, Write};
use std::sync::atomic::{AtomicUsize, Ordering};

/// How often the person gave up what was under way: one count for the process, as signals are.
static GIVEN_UP: AtomicUsize = AtomicUsize::new(0);
/// How often a question looks for that.
const LOOK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000_000,
};
/// Columns for a short answer behind the question.
const ANSWER: usize = 4;

/// The person gives up what is under way: a question that waits is answered by that.
pub(crate) fn give_up() {
    GIVEN_UP.fetch_add(1, Ordering::SeqCst);
}

/// The person's terminal.
pub(crate) struct Terminal {
    reader: BufReader<File>,
    writer: File,
}

impl Terminal {
    /// The controlling terminal, if a person is there.
    pub(crate) fn open() -> Option<Self> {
        let terminal = OpenOptions::new()
            .read(true)
            .write(true)
            .open("/dev/tty")
            .ok()?;
        let writer = terminal.try_clone().ok()?;
        // Somebody must be able to see the question.
        (terminal.is_terminal() && std::io::stderr().is_terminal()).then(|| Self {
            reader: BufReader::new(terminal),
            writer,
        })
    }

    /// Asks `question` and reads one line.
    ///
    /// What was typed before the question is thrown away: a pasted block of commands must not
    /// carry the answer to a question nobody has seen.
    pub(crate) fn ask(&mut self, question: &str) -> Option<String> {
        let given_up = GIVEN_UP.load(Ordering::SeqCst);
        tcflush(&self.writer, QueueSelector::IFlush).ok()?;
        let question = fitted(question, columns::terminal(&self.writer));
        write!(self.writer, "{question} ")
            .and_then(|()| self.writer.flush())
            .ok()?;
        let mut line = String::new();
        if self.answered(given_up) && self.reader.read_line(&mut line).ok()? > 0 {
            return Some(line.trim().to_owned());
        }
        // The end of input, or who gave up, leaves the cursor behind the question.
        let _ = writeln!(self.writer);
        None
    }

    /// Waits until there is something to read, or the person gave up since then.
    fn answered(&self, given_up: usize) -> bool {
        loop {
            let mut waiting = [PollFd::new(&self.writer, PollFlags::IN)];
            // A terminal that is gone has something to read: its end.
            if !matches!(
                poll(&mut waiting, Some(&LOOK)),
                Ok(0) | Err(rustix::io::Errno::INTR)
            ) {
                return true;
            }
            if GIVEN_UP.load(Ordering::SeqCst) != given_up {
                return false;
            }
        }
    }

    /// Asks `question` and reads one line that is not shown.
    pub(crate) fn secret(&mut self, question: &str) -> Option<String> {
        let before = tcgetattr(&self.writer).ok()?;
        let mut silent = before.clone();
        silent.local_modes.remove(LocalModes::ECHO);
        silent.local_modes.insert(LocalModes::ECHONL);
        tcsetattr(&self.writer, OptionalActions::Flush, &silent).ok()?;
        let typed = self.ask(question);
        // A terminal that is gone needs no mending.
        let _ = tcsetattr(&self.writer, OptionalActions::Now, &before);
        typed
    }

    /// The person here; with their passphrase, if `approves` and the policy asks for it.
    pub(crate) fn person(&mut self, kernel: &Kernel, approves: bool) -> Result<Person, Failure> {
        let passphrase = if approves && kernel.asks_passphrase() {
            // Told before it is typed: there is nothing to compare it with.
            if !kernel.passphrase().is_set() {
                let error = airlock_state::PassphraseError::Unset;
                return Err(Failure::of(Kind::Failed, &error)
                    .why("the policy asks for one with every approval")
                    .maybe_fix(error.hint()));
            }
            Some(self.secret("passphrase to approve:").unwrap_or_default())
        } else {
            None
        };
        kernel
            .person(&self.writer, passphrase.as_deref())
            .map_err(|error| Failure::of(Kind::Failed, &error).maybe_fix(error.hint()))
    }
}

/// `question` in lines of so many columns; what is to be answered is the last of them, whatever the
/// question quotes.
fn fitted(question: &str, columns: Option<usize>) -> String {
    let Some(columns) = columns.map(|columns| columns.saturating_sub(ANSWER)) else {
        return question.to_owned();
    };
    let fold = |text: &str| columns::folded(text, columns, 2, Words::Broken);
    match question.rsplit_once(": ") {
        Some((what, answer)) if columns::of(question) > columns => {
            let answer = columns::folded(&format!("  {answer}"), columns, 4, Words::Broken);
            format!("{}\n{answer}", fold(&format!("{what}:")))
        }
        Some(_) | None => fold(question),
    }
}

/// Why an answer was not taken, as a failure.
pub(crate) fn not_taken(error: &AnswerFailure) -> Failure {
    Failure::of(Kind::Failed, error).maybe_fix(error.hint())
}

/// The failure of a command that needs a person and has none.
pub(crate) fn nobody(what: &str) -> Failure {
    Failure::new(Kind::NeedsReview, what)
        .why("approving needs a terminal, and this command has none")
}

/// Puts `review` to the person; `typed` is what they must type, `y` being enough otherwise.
///
/// Their answer is recorded either way; only a yes returns `Ok`.
pub(crate) fn answer(
    kernel: &Kernel,
    review: &mut Review,
    what: &str,
    typed: Option<&str>,
    output: &mut Output,
) -> Result<(), Failure> {
    put(kernel, review, (what, typed), Again::SameCommand, output)
}

/// The same for a question of something under way, with which the command `again` goes on.
pub(crate) fn answer_under_way(
    kernel: &Kernel,
    review: &mut Review,
    what: &str,
    again: &str,
    output: &mut Output,
) -> Result<(), Failure> {
    put(kernel, review, (what, None), Again::By(again), output)
}

/// Withdraws the yes to `review` unless it was used: it was for the call that followed, which may have
/// been refused before it came to that. What was refused once is asked about again.
pub(crate) fn withdraw_unused(kernel: &Kernel, review: &Review, output: &mut Output) {
    if let Err(error) = kernel.withdraw_unused(review) {
        output.warning(&format!(
            "the yes was not used and could not be withdrawn: {error}; \
             `airlock approvals revoke {}` withdraws it",
            review.approval.id
        ));
    }
}

/// How a person comes to the same question again.
#[derive(Debug, Clone, Copy)]
enum Again<'a> {
    /// By the command that they typed.
    SameCommand,
    /// By this one: the command that they typed would begin something new.
    By(&'a str),
}

impl Again<'_> {
    /// Advice for who has no terminal; `how` is the command that answers.
    fn in_a_terminal(self, failure: Failure, how: &str) -> Failure {
        match self {
            Self::SameCommand => failure.fix("run the same command in a terminal"),
            Self::By(_) => self.then(failure.fix(format!("answer in a terminal: {how}"))),
        }
    }

    /// Advice for who said no.
    fn anew(self, failure: Failure) -> Failure {
        match self {
            Self::SameCommand => {
                failure.fix("nothing was changed; run the same command again to decide anew")
            }
            Self::By(command) => failure.fix(format!("it waits; to decide anew: {command}")),
        }
    }

    /// How to go on after that, where it is not by what they typed.
    fn then(self, failure: Failure) -> Failure {
        match self {
            Self::SameCommand => failure,
            Self::By(command) => failure.fix(format!("then go on: {command}")),
        }
    }
}

fn put(
    kernel: &Kernel,
    review: &mut Review,
    (what, typed): (&str, Option<&str>),
    again: Again<'_>,
    output: &mut Output,
) -> Result<(), Failure> {
    let Some(mut terminal) = Terminal::open() else {
        let nobody = nobody(&format!("{what} needs a person's approval"));
        return Err(again
            .in_a_terminal(nobody, &review.how_to_answer())
            .json("approval", serde_json::json!(review.approval.id)));
    };
    for reason in &review.approval.why {
        let told = format!("rule `{}`: {}", reason.rule, reason.reason);
        output.note(strip_control(&told).replace('\n', " "));
    }
    output.note(format!(
        "gate {}, risk {}",
        review.approval.gate,
        review.approval.risk.level.as_str()
    ));
    let question = match typed {
        Some(word) => format!("{what}: type `{word}` to approve:"),
        None => format!("{what}: approve? [y/N]"),
    };
    let answered = terminal.ask(&question);
    let why = match &answered {
        Some(_) => "the person at the terminal did not say yes",
        None => "nobody at the terminal answered",
    };
    let reply = answered.unwrap_or_default();
    let approved = match typed {
        Some(word) => reply == word,
        None => matches!(reply.as_str(), "y" | "Y" | "yes"),
    };
    let person = terminal.person(kernel, approved);
    let person = person.map_err(|failure| again.then(failure))?;
    kernel
        .answer(person, review, approved)
        .map_err(|error| again.then(not_taken(&error)))?;
    if approved {
        return Ok(());
    }
    let declined = Failure::new(Kind::Denied, format!("{what} was not approved"));
    Err(again.anew(declined.why(why)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_of_a_question_is_what_is_to_be_answered() {
        let short = "merging into /ws: approve? [y/N]";
        assert_eq!(fitted(short, None), short);
        assert_eq!(fitted(short, Some(60)), short);
        let evil = format!(
            "the agent wants `exec.run`: {}the\u{a0}agent\u{a0}wants nothing: approve? [y/N] y: approve? [y/N]",
            "x".repeat(70)
        );
        for columns in [20, 40, 60, 80] {
            let shown = fitted(&evil, Some(columns));
            let (first, rest) = shown.split_once('\n').unwrap();
            assert!(first.starts_with("the agent wants"), "{shown}");
            assert!(rest.lines().all(|line| line.starts_with("  ")), "{shown}");
            assert_eq!(shown.lines().last(), Some("  approve? [y/N]"), "{shown}");
            let fits = |line: &str| columns::of(line) + ANSWER <= columns;
            assert!(shown.lines().all(fits), "{columns}: {shown}");
        }
    }
}
