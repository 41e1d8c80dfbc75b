//! A person answers a question of the kernel, at a terminal and nowhere else.
//!
//! The answer is read from the terminal itself, not from stdin, so that nothing piped into the
//! command can answer for the person. What the question is about goes to stderr, which is that
//! terminal, so that a redirected stdout cannot hide it.

use crate::failure::{Failure, Kind};
use crate::output::Output;
use airlock_kernel::{Kernel, Review};
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
        rustix::termios::tcflush(&self.writer, rustix::termios::QueueSelector::IFlush).ok()?;
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
        return Err(Failure::new(
            Kind::NeedsReview,
            format!("{what} needs a person's approval"),
        )
        .why("approving needs a terminal, and this command has none")
        .fix("run the same command in a terminal"));
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
    kernel
        .answer(review, approved)
        .map_err(|error| Failure::of(Kind::Failed, &error))?;
    if approved {
        return Ok(());
    }
    Err(
        Failure::new(Kind::Denied, format!("{what} was not approved"))
            .why(why)
            .fix("nothing was changed; run the same command again to decide anew"),
    )
}
