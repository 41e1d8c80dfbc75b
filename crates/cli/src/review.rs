//! A person answers a question of the kernel, at a terminal and nowhere else.
//!
//! The answer is read from the terminal itself, not from stdin, so that nothing piped into the
//! command can answer for the person. What the question is about goes to stderr, which is that
//! terminal, so that a redirected stdout cannot hide it.

use crate::failure::{Failure, Kind};
use crate::output::Output;
use airlock_kernel::{AnswerFailure, Kernel, Person, Review};
use rustix::termios::{LocalModes, OptionalActions, QueueSelector, tcflush, tcgetattr, tcsetattr};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, IsTerminal, Write};

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
        tcflush(&self.writer, QueueSelector::IFlush).ok()?;
        write!(self.writer, "{question} ")
            .and_then(|()| self.writer.flush())
            .ok()?;
        let mut line = String::new();
        let read = self.reader.read_line(&mut line).ok()?;
        if read == 0 {
            // End of input leaves the cursor behind the question.
            let _ = writeln!(self.writer);
            return None;
        }
        Some(line.trim().to_owned())
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
    let Some(mut terminal) = Terminal::open() else {
        return Err(nobody(&format!("{what} needs a person's approval"))
            .fix("run the same command in a terminal")
            .json("approval", serde_json::json!(review.approval.id)));
    };
    for reason in &review.approval.why {
        output.note(format!("rule `{}`: {}", reason.rule, reason.reason));
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
    let person = terminal.person(kernel, approved)?;
    kernel
        .answer(person, review, approved)
        .map_err(|error| not_taken(&error))?;
    if approved {
        return Ok(());
    }
    Err(
        Failure::new(Kind::Denied, format!("{what} was not approved"))
            .why(why)
            .fix("nothing was changed; run the same command again to decide anew"),
    )
}
