//! Ctrl-C: once takes back what is under way, twice leaves.

use crate::failure::{Failure, Kind};
use airlock_model::Cancel;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
}

/// What comes while nothing is under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Heard {
    /// A line the person typed.
    Line(String),
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
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])
            .map_err(|error| Failure::new(Kind::Failed, "cannot watch for signals").why(error))?;
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
        let mut state = self.state();
        state.count += 1;
        if let Some(run) = &state.run {
            run.cancel();
            state.calls.iter().for_each(airlock_kernel::Cancel::cancel);
            if state.count >= 2 {
                // Asked twice: whatever does not end by itself is left behind. Its attempt is in
                // the log, and what runs in a sandbox ends with this process.
                leave();
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
        if state.run.as_ref().is_some_and(Cancel::is_cancelled) {
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

#[expect(
    clippy::exit,
    reason = "the person asked twice, and nothing else is to be done"
)]
fn leave() -> ! {
    std::process::exit(i32::from(super::INTERRUPTED))
}
