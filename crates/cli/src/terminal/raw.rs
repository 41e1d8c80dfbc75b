//! Raw mode: every key goes to the command, and the terminal is put back however that ends.

use airlock_sandbox::launch::TerminalSize;
use rustix::termios::{self, OptionalActions, Termios};
use std::io::{self, IsTerminal as _, Write as _};

/// The terminal in raw mode until dropped.
#[must_use = "the terminal is put back as soon as this is dropped"]
pub(crate) struct Raw(Termios);

/// What undoes the modes programs turn on and are killed before they turn off: mouse reports,
/// bracketed paste, the other screen, colours, character sets, a hidden cursor.
const RESET: &[u8] = b"\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1004l\x1b[?2004l\x1b[?1l\x1b[?1049l\x1b[?25h\x1b(B\x1b[0m";

impl Raw {
    /// Puts stdin's terminal into raw mode.
    pub(crate) fn enter() -> io::Result<Self> {
        let before = termios::tcgetattr(io::stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        termios::tcsetattr(io::stdin(), OptionalActions::Flush, &raw)?;
        Ok(Self(before))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // Nobody is left to be told if the terminal is gone.
        let _ = io::stdout().write_all(RESET);
        let _ = io::stdout().flush();
        let _ = termios::tcsetattr(io::stdin(), OptionalActions::Flush, &self.0);
    }
}

/// The size of the terminal stdout is, if it is one.
pub(crate) fn size() -> Option<TerminalSize> {
    let found = io::stdout()
        .is_terminal()
        .then(|| termios::tcgetwinsize(io::stdout()));
    let found = found?.ok()?;
    Some(TerminalSize {
        rows: found.ws_row,
        columns: found.ws_col,
    })
}
