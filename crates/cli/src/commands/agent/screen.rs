//! The person's screen: text on stdout, everything else on stderr, and a sign of life between.
//!
//! Whatever takes longer than half a second shows that it runs, where stderr is a terminal that can
//! rewrite a line. Nothing is drawn while something else is written or asked.

use crate::columns::{self, Words};
use crate::place::variable;
use std::io::{IsTerminal as _, Write as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long something may take before it is shown that it runs, and how often that moves.
const PATIENCE: Duration = Duration::from_millis(500);
const TICK: Duration = Duration::from_millis(120);
const FRAMES: [&str; 4] = ["|", "/", "-", "\\"];
/// Goes to the beginning of the line and wipes it.
const WIPE: &str = "\r\u{1b}[K";
/// The width where nobody says.
const WIDTH: usize = 80;

#[derive(Default)]
struct State {
    busy: Option<(String, Instant)>,
    drawn: bool,
    /// The cursor is behind text that has no end of line yet.
    midway: bool,
    ended: bool,
}

/// The screen. Clones are the same one.
#[derive(Clone)]
pub(in crate::commands) struct Screen {
    state: Arc<Mutex<State>>,
}

impl Screen {
    pub(in crate::commands) fn new(silent: bool) -> Self {
        let dumb = variable("TERM").is_none_or(|term| term == "dumb");
        let lively = !silent && !dumb && std::io::stderr().is_terminal();
        let screen = Self {
            state: Arc::default(),
        };
        if lively {
            let own = screen.clone();
            std::thread::spawn(move || own.live());
        }
        screen
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn live(&self) {
        for frame in FRAMES.iter().cycle() {
            std::thread::sleep(TICK);
            let mut state = self.state();
            if state.ended {
                return;
            }
            let Some((label, begun)) = &state.busy else {
                continue;
            };
            let took = begun.elapsed();
            if took < PATIENCE || state.midway {
                continue;
            }
            let line = format!("{frame} {label}  {:.1} s", took.as_secs_f64());
            let line = super::shown::fit(&line, width().saturating_sub(1));
            // What wipes a line is no colour: it passes where colours do not.
            let _ = write!(std::io::stderr(), "{WIPE}{line}");
            let _ = std::io::stderr().flush();
            state.drawn = true;
        }
    }

    /// Something begins that may take a while.
    pub(in crate::commands) fn busy(&self, label: &str) {
        let mut state = self.state();
        wipe(&mut state);
        state.busy = Some((label.to_owned(), Instant::now()));
    }

    /// Nothing is under way.
    pub(in crate::commands) fn rest(&self) {
        let mut state = self.state();
        wipe(&mut state);
        state.busy = None;
    }

    /// Text of the model, on stdout as it comes.
    pub(super) fn text(&self, text: &str) {
        if text.is_empty() {
            return;
        }
        let mut state = self.state();
        wipe(&mut state);
        let mut out = anstream::stdout();
        // A reader that left early is noticed at the end.
        let _ = out.write_all(text.as_bytes());
        let _ = out.flush();
        state.midway = !text.ends_with('\n');
    }

    /// A line for the person; of as many as it takes where it is long.
    pub(super) fn note(&self, line: &str) {
        let mut state = self.state();
        wipe(&mut state);
        end_line(&mut state);
        let line = match columns::terminal(std::io::stderr()) {
            Some(columns) => columns::folded(line, columns, 2, Words::Broken),
            None => line.to_owned(),
        };
        let _ = writeln!(anstream::stderr(), "{line}");
    }

    /// Ends a line of text that was begun.
    pub(super) fn end_line(&self) {
        let mut state = self.state();
        wipe(&mut state);
        end_line(&mut state);
    }

    /// Does something that uses the terminal by itself.
    pub(super) fn aside<T>(&self, doing: impl FnOnce() -> T) -> T {
        let before = {
            let mut state = self.state();
            wipe(&mut state);
            end_line(&mut state);
            state.busy.take()
        };
        let done = doing();
        self.state().busy = before;
        done
    }

    pub(in crate::commands) fn end(&self) {
        let mut state = self.state();
        wipe(&mut state);
        state.ended = true;
    }
}

fn wipe(state: &mut State) {
    if std::mem::take(&mut state.drawn) {
        let _ = write!(std::io::stderr(), "{WIPE}");
        let _ = std::io::stderr().flush();
    }
}

fn end_line(state: &mut State) {
    if std::mem::take(&mut state.midway) {
        let mut out = anstream::stdout();
        let _ = out.write_all(b"\n");
        let _ = out.flush();
    }
}

/// Columns of the terminal; of stderr's where stdout is none.
pub(super) fn width() -> usize {
    columns::terminal(std::io::stdout())
        .or_else(|| columns::terminal(std::io::stderr()))
        .unwrap_or(WIDTH)
}
