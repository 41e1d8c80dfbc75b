//! The session a person talks with: their lines in, what happens out, until they leave.

use super::interrupt::Heard;
use super::{INTERRUPTED, RunArgs, Session, slash};
use crate::args::Global;
use crate::failure::Ending;
use crate::output::{Output, Tone, styled};
use airlock_kernel::sanitise_line;
use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};

/// The longest message.
const LONGEST: usize = 256 * 1024;

/// Reads lines when it is asked for one, and only then: at all other times what is typed belongs to
/// whoever asks a question on the terminal.
struct Lines {
    wanted: SyncSender<()>,
    heard: Receiver<Heard>,
    /// One was asked for and has not come yet.
    waiting: bool,
    interactive: bool,
}

impl Lines {
    fn new() -> (Self, Sender<Heard>) {
        let (wanted, asks) = mpsc::sync_channel::<()>(1);
        let (tell, heard) = mpsc::channel();
        let told = tell.clone();
        std::thread::spawn(move || {
            while asks.recv().is_ok() {
                if told.send(read()).is_err() {
                    return;
                }
            }
        });
        let interactive = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
        let lines = Self {
            wanted,
            heard,
            waiting: false,
            interactive,
        };
        (lines, tell)
    }

    /// The next thing that comes.
    fn next(&mut self) -> Heard {
        if self.interactive {
            let mut screen = anstream::stderr();
            let _ = write!(screen, "{} ", styled(Tone::Label, ">"));
            let _ = screen.flush();
        }
        if !self.waiting {
            self.waiting = true;
            if self.wanted.send(()).is_err() {
                return Heard::Closed;
            }
        }
        let heard = self.heard.recv().unwrap_or(Heard::Closed);
        if matches!(heard, Heard::Line(_) | Heard::Closed) {
            self.waiting = false;
        }
        heard
    }
}

/// One message: a line, and those after it while they end with a backslash.
fn read() -> Heard {
    let mut message = String::new();
    loop {
        let mut line = String::new();
        match std::io::stdin().lock().read_line(&mut line) {
            Ok(0) | Err(_) if message.is_empty() => return Heard::Closed,
            Ok(0) | Err(_) => return Heard::Line(message),
            Ok(_) => {}
        }
        let line = line.trim_end_matches(['\n', '\r']);
        let (line, more) = line
            .strip_suffix('\\')
            .map_or((line, false), |line| (line, true));
        if message.len() + line.len() > LONGEST {
            // A longer one would not fit into a question anyway.
            return Heard::Line(message);
        }
        message.push_str(line);
        if !more {
            return Heard::Line(message);
        }
        message.push('\n');
    }
}

pub(super) fn talk(global: &Global, args: &RunArgs, output: &mut Output) -> Ending {
    let mut session = Session::begin(global, args, "a session at the command line", output)?;
    let (mut lines, tell) = Lines::new();
    session.interrupt.tell(tell);
    if lines.interactive {
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

/// Does what the person says, until they leave. Gives the code of what was done last.
fn listen(session: &mut Session, lines: &mut Lines, global: &Global, output: &mut Output) -> u8 {
    let mut code = 0;
    let mut interrupted = false;
    loop {
        let heard = lines.next();
        let again = std::mem::replace(&mut interrupted, heard == Heard::Interrupt);
        let line = match heard {
            Heard::Line(line) => line,
            Heard::Closed => {
                if lines.interactive {
                    output.note("");
                }
                // A person leaves; a pipe ends with what came of it.
                return if lines.interactive { 0 } else { code };
            }
            Heard::End => return INTERRUPTED,
            Heard::Interrupt if again => {
                output.note("");
                return INTERRUPTED;
            }
            Heard::Interrupt => {
                output.note("\nCtrl-C again, or /quit, leaves");
                continue;
            }
        };
        let line = line.trim();
        if line.is_empty() {
            continue;
        }
        if line.starts_with('/') {
            match slash::obey(session, global, line, output) {
                Ok(slash::After::Leave) => return 0,
                Ok(slash::After::Stay) => code = 0,
                Err(failure) => {
                    failure.show(output);
                    code = failure.code();
                }
            }
            continue;
        }
        code = match session.work(line) {
            Ok(outcome) => session.conclude(&outcome, output),
            Err(failure) => {
                failure.show(output);
                failure.code()
            }
        };
    }
}
