//! Where the person's lines come from: a terminal with an editor, a plain terminal, or a pipe.

use super::editor::{Editor, Typed};
use super::interrupt::Heard;
use super::screen::width;
use crate::output::{Tone, styled};
use crate::place::variable;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use std::io::{BufRead as _, IsTerminal as _, Write as _};

/// The longest message.
pub(super) const LONGEST: usize = 256 * 1024;
/// What stands before what the person types, and how wide it is.
const PROMPT: &str = ">";
const PROMPT_WIDTH: usize = 2;

/// How lines are read.
enum Manner {
    /// Key by key, on a terminal that can be drawn on.
    Edited(Box<Editor>),
    /// Line by line, on a terminal that cannot.
    Plain,
    /// From whatever stdin is.
    Piped,
}

/// Reads messages.
pub(super) struct Input {
    manner: Manner,
}

impl Input {
    pub(super) fn new() -> Self {
        let stdin = std::io::stdin().is_terminal();
        let dumb = variable("TERM").is_none_or(|term| term == "dumb");
        let manner = match (stdin && std::io::stderr().is_terminal(), dumb) {
            (true, false) => Manner::Edited(Box::default()),
            (true, true) => Manner::Plain,
            (false, _) => Manner::Piped,
        };
        Self { manner }
    }

    /// What a terminal is told when nobody reads from it any more, however that came.
    pub(super) const fn farewell(&self) -> &'static [u8] {
        match self.manner {
            Manner::Edited(_) => MARKS_NOTHING,
            Manner::Plain | Manner::Piped => b"",
        }
    }

    /// Whether a person types.
    pub(super) const fn is_person(&self) -> bool {
        !matches!(self.manner, Manner::Piped)
    }

    /// The next message: a line, and those after it while they end with a backslash.
    pub(super) fn read(&mut self) -> Heard {
        let mut message = String::new();
        loop {
            let line = match self.line() {
                Heard::Line(line) => line,
                Heard::Closed if !message.is_empty() => return Heard::Line(message),
                other @ (Heard::Closed
                | Heard::Interrupt
                | Heard::Key
                | Heard::End
                | Heard::TooLong) => return other,
            };
            let (line, more) = line
                .strip_suffix('\\')
                .map_or((&*line, false), |line| (line, true));
            if message.len() + line.len() > LONGEST {
                // It would not fit into a question anyway.
                return Heard::TooLong;
            }
            message.push_str(line);
            if !more {
                return Heard::Line(message);
            }
            message.push('\n');
        }
    }

    fn line(&mut self) -> Heard {
        match &mut self.manner {
            Manner::Edited(editor) => edited(editor),
            Manner::Plain => {
                prompt();
                plain()
            }
            Manner::Piped => plain(),
        }
    }
}

fn prompt() {
    let mut screen = anstream::stderr();
    // Nobody is left to be prompted if the terminal is gone.
    let _ = write!(screen, "{} ", styled(Tone::Label, PROMPT));
    let _ = screen.flush();
}

fn plain() -> Heard {
    let mut line = Vec::new();
    match std::io::stdin().lock().read_until(b'\n', &mut line) {
        Ok(0) | Err(_) => Heard::Closed,
        // What is no text in it is shown as such; the rest counts.
        Ok(_) => {
            let line = String::from_utf8_lossy(&line);
            Heard::Line(line.trim_end_matches(['\n', '\r']).to_owned())
        }
    }
}

/// The terminal key by key, until dropped.
struct Keys(Termios);

impl Keys {
    fn enter() -> Option<Self> {
        let before = tcgetattr(std::io::stdin()).ok()?;
        let mut raw = before.clone();
        raw.make_raw();
        // Output stays as it is: other threads write lines meanwhile.
        raw.output_modes = before.output_modes;
        tcsetattr(std::io::stdin(), OptionalActions::Drain, &raw).ok()?;
        say(MARKS_PASTE);
        Some(Self(before))
    }
}

/// Asks the terminal to mark what is pasted, and no longer to.
const MARKS_PASTE: &[u8] = b"\x1b[?2004h";
const MARKS_NOTHING: &[u8] = b"\x1b[?2004l";

fn say(bytes: &[u8]) {
    let mut screen = std::io::stderr();
    // A terminal that is gone needs nothing said.
    let _ = screen.write_all(bytes);
    let _ = screen.flush();
}

impl Drop for Keys {
    fn drop(&mut self) {
        say(MARKS_NOTHING);
        // A terminal that is gone needs no mending.
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Drain, &self.0);
    }
}

fn edited(editor: &mut Editor) -> Heard {
    let Some(_keys) = Keys::enter() else {
        prompt();
        return plain();
    };
    draw(editor);
    let mut stdin = std::io::stdin().lock();
    loop {
        let available = match stdin.fill_buf() {
            Ok([]) | Err(_) => return Heard::Closed,
            Ok(available) => available,
        };
        // All that is there is taken before the line is drawn: what is pasted may be long.
        let mut taken = 0;
        let heard = available.iter().find_map(|byte| {
            taken += 1;
            match editor.take(*byte) {
                Typed::Changed => None,
                Typed::Line(line) => Some(Heard::Line(line)),
                Typed::Interrupt => Some(Heard::Key),
                Typed::End => Some(Heard::Closed),
            }
        });
        stdin.consume(taken);
        let Some(heard) = heard else {
            draw(editor);
            continue;
        };
        let mut screen = std::io::stderr();
        let _ = screen.write_all(b"\r\n");
        return heard;
    }
}

/// Draws the line anew, with the cursor in its place.
fn draw(editor: &Editor) {
    let room = width().saturating_sub(PROMPT_WIDTH + 1);
    let (part, cursor) = editor.shown(room);
    let column = PROMPT_WIDTH + cursor + 1;
    // What moves the cursor is no colour: it passes where colours do not.
    say(b"\r\x1b[K");
    prompt();
    say(format!("{part}\u{1b}[{column}G").as_bytes());
}
