//! The session a person talks with: their lines in, what happens out, until they leave.

use super::input::{Input, LONGEST};
use super::interrupt::Heard;
use super::{INTERRUPTED, Manner, RunArgs, Session, slash};
use crate::args::Global;
use crate::failure::{Ending, Failure, Kind};
use crate::output::{Output, Tone, styled};
use airlock_kernel::sanitise_line;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use std::io::Write as _;
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};

/// Reads lines when it is asked for one, and only then: at all other times what is typed belongs to
/// whoever asks a question on the terminal.
struct Lines {
    wanted: SyncSender<()>,
    heard: Receiver<Heard>,
    /// One was asked for and has not come yet.
    waiting: bool,
    person: bool,
    /// How the terminal was, to be put back whatever it is at the end.
    before: Option<Termios>,
    farewell: &'static [u8],
}

impl Lines {
    fn new() -> (Self, Sender<Heard>) {
        let (wanted, asks) = mpsc::sync_channel::<()>(1);
        let (tell, heard) = mpsc::channel();
        let told = tell.clone();
        let mut input = Input::new();
        let person = input.is_person();
        let before = person.then(|| tcgetattr(std::io::stdin()).ok()).flatten();
        let farewell = input.farewell();
        std::thread::spawn(move || {
            while asks.recv().is_ok() {
                if told.send(input.read()).is_err() {
                    return;
                }
            }
        });
        let lines = Self {
            wanted,
            heard,
            waiting: false,
            person,
            before,
            farewell,
        };
        (lines, tell)
    }

    /// The next thing that comes. What is still being read goes on being read after a signal.
    fn next(&mut self) -> Heard {
        if !self.waiting {
            self.waiting = true;
            if self.wanted.send(()).is_err() {
                return Heard::Closed;
            }
        }
        let heard = self.heard.recv().unwrap_or(Heard::Closed);
        self.waiting = matches!(heard, Heard::Interrupt | Heard::End);
        heard
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // A terminal that is gone needs no mending.
            let _ = std::io::stderr().write_all(self.farewell);
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, before);
        }
    }
}

pub(super) fn talk(global: &Global, args: &RunArgs, output: &mut Output) -> Ending {
    let mut session = Session::begin(global, args, "a session at the command line", output)?;
    let (mut lines, tell) = Lines::new();
    session.interrupt.tell(tell);
    if lines.person {
        introduce(&session, output);
    }
    let code = listen(&mut session, &mut lines, global, output);
    let ended = session.end(output);
    ended.map(|()| code)
}

fn introduce(session: &Session, output: &mut Output) {
    let model = sanitise_line(session.chosen.model.name(), 40);
    let workspace = sanitise_line(&session.road.name(), 40);
    let heading = styled(Tone::Heading, &format!("airlock in {workspace}"));
    output.note(format!("{heading}, asking {model}"));
    output.note("say what to do; /help lists commands, /quit leaves");
}

fn too_long() -> Failure {
    Failure::new(Kind::Usage, "the message is too long")
        .why(format!("it has more than {LONGEST} bytes"))
        .fix("put it into a file of the workspace, and name the file")
}

/// Does what the person says, until they leave. Gives the code of what was done last.
fn listen(session: &mut Session, lines: &mut Lines, global: &Global, output: &mut Output) -> u8 {
    let mut code = 0;
    let mut interrupted = false;
    loop {
        if session.interrupt.is_leaving() {
            return INTERRUPTED;
        }
        let heard = lines.next();
        let now = matches!(heard, Heard::Interrupt | Heard::Key);
        let again = std::mem::replace(&mut interrupted, now);
        let line = match heard {
            Heard::Line(line) => line,
            Heard::TooLong => {
                let failure = too_long();
                failure.show(output);
                code = failure.code();
                continue;
            }
            Heard::Closed => {
                if lines.person {
                    output.note("");
                }
                // A person leaves; a pipe ends with what came of it.
                return if lines.person { 0 } else { code };
            }
            Heard::End => return INTERRUPTED,
            Heard::Interrupt | Heard::Key if again => {
                output.note("");
                return INTERRUPTED;
            }
            Heard::Interrupt | Heard::Key => {
                output.note("Ctrl-C again, or /quit, leaves");
                continue;
            }
        };
        let line = line.trim();
        if line.is_empty() {
            continue;
        }
        if line.starts_with('/') {
            // Ctrl-C at a question is an answer to it, and no wish to leave.
            session.interrupt.begin();
            let obeyed = slash::obey(session, global, line, output);
            session.interrupt.end();
            match obeyed {
                Ok(slash::After::Leave) => return 0,
                Ok(slash::After::Stay(told)) => code = told,
                Err(failure) => {
                    failure.show(output);
                    code = failure.code();
                }
            }
            continue;
        }
        code = match session.work(line) {
            Ok(outcome) => session.conclude(&outcome, Manner::Talking, output),
            Err(failure) => {
                failure.show(output);
                failure.code()
            }
        };
    }
}
