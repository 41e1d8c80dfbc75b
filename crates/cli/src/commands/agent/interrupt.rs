//! Ctrl-C: once takes back what is under way, twice leaves. What the system sends to have an end
//! (SIGTERM, SIGHUP) does both at once.
//!
//! Leaving waits a while for what was taken back: it has an outcome then, and the log its end. What
//! does not end by itself is left behind; its attempt is in the log, and what runs in a sandbox ends
//! with this process.

use crate::failure::Failure;
use crate::review;
use airlock_model::Cancel;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long leaving waits for what was taken back.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is under way, and who is told of signals.
#[derive(Default)]
struct State {
    /// Takes the run of the agent back.
    run: Option<Cancel>,
    /// Take back the calls on the road.
    calls: Vec<airlock_kernel::Cancel>,
    /// Whoever waits for the person to type.
    listener: Option<Sender<Heard>>,
    /// How often the person interrupted what is under way.
    count: u32,
    /// Nothing more is begun.
    leaving: bool,
}

/// What comes while nothing is under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Heard {
    /// A line the person typed.
    Line(String),
    /// A message that is too long.
    TooLong,
    /// There is nobody left to type.
    Closed,
    /// Ctrl-C, as a signal: whoever reads a line goes on.
    Interrupt,
    /// Ctrl-C, as a key: it ended the line.
    Key,
    /// The system wants an end.
    End,
}

/// Watches for signals, for as long as the command runs.
pub(super) struct Interrupt(Mutex<State>);

impl Interrupt {
    pub(super) fn watch() -> Result<Arc<Self>, Failure> {
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(Failure::unwatched)?;
        let this = Arc::new(Self(Mutex::default()));
        let own = Arc::clone(&this);
        std::thread::spawn(move || {
            for signal in signals.forever() {
                own.take(signal);
            }
        });
        Ok(this)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, signal: i32) {
        review::give_up();
        let mut state = self.state();
        state.count += 1;
        if let Some(run) = &state.run {
            run.cancel();
            state.calls.iter().for_each(airlock_kernel::Cancel::cancel);
            if signal != SIGINT || state.count >= 2 {
                leave_soon(&mut state);
            }
            return;
        }
        let wanted = if signal == SIGINT {
            Heard::Interrupt
        } else {
            Heard::End
        };
        // Nobody listens only while nothing is under way and nothing is waited for.
        let heard = state
            .listener
            .as_ref()
            .is_some_and(|told| told.send(wanted).is_ok());
        if !heard {
            leave();
        }
    }

    /// Something begins that the person may take back.
    pub(super) fn begin(&self) -> Cancel {
        let cancel = Cancel::new();
        let mut state = self.state();
        state.count = 0;
        state.run = Some(cancel.clone());
        cancel
    }

    /// Whether the person, or the system, wants the session to end.
    pub(super) fn is_leaving(&self) -> bool {
        self.state().leaving
    }

    /// It ended.
    pub(super) fn end(&self) {
        let mut state = self.state();
        state.run = None;
        state.calls.clear();
    }

    /// A call on the road, until the guard is dropped.
    pub(super) fn call(self: &Arc<Self>) -> Covered {
        let cancel = airlock_kernel::Cancel::new();
        let mut state = self.state();
        if state.leaving || state.run.as_ref().is_some_and(Cancel::is_cancelled) {
            cancel.cancel();
        }
        state.calls.push(cancel.clone());
        Covered(cancel)
    }

    /// Tells `listener` of signals while nothing is under way.
    pub(super) fn tell(&self, listener: Sender<Heard>) {
        self.state().listener = Some(listener);
    }
}

/// What takes one call back.
pub(super) struct Covered(pub(super) airlock_kernel::Cancel);

/// Whoever asks once more does not wait.
fn leave_soon(state: &mut State) {
    if std::mem::replace(&mut state.leaving, true) {
        leave();
    }
    std::thread::spawn(|| {
        std::thread::sleep(PATIENCE);
        leave();
    });
}

#[expect(
    clippy::exit,
    reason = "what is under way does not end, and nothing else is to be done"
)]
fn leave() -> ! {
    std::process::exit(i32::from(super::INTERRUPTED))
}
