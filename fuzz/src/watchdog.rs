//! Notices an input on which a target never returns, which nothing inside the run can.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

#[derive(Default)]
struct State {
    /// When the current run began, and on what; `None` between runs.
    running: Option<(Instant, Vec<u8>)>,
    finished: bool,
}

/// Told about every run; one thread looks at it from outside.
#[derive(Default)]
pub(crate) struct Watchdog {
    state: Mutex<State>,
    changed: Condvar,
}

impl Watchdog {
    /// Calls `body` under watch. `on_hang` gets the input of a run that outlasts `limit`, once.
    pub(crate) fn guard<T>(
        limit: Duration,
        on_hang: impl FnOnce(&[u8]) + Send,
        body: impl FnOnce(&Self) -> T,
    ) -> T {
        let watchdog = Self::default();
        thread::scope(|scope| {
            scope.spawn(|| watchdog.watch(limit, on_hang));
            let result = body(&watchdog);
            watchdog.state().finished = true;
            watchdog.changed.notify_all();
            result
        })
    }

    pub(crate) fn begin(&self, input: &[u8]) {
        self.state().running = Some((Instant::now(), input.to_vec()));
    }

    pub(crate) fn end(&self) {
        self.state().running = None;
    }

    fn watch(&self, limit: Duration, on_hang: impl FnOnce(&[u8])) {
        let mut state = self.state();
        while !state.finished {
            if let Some((since, input)) = &state.running
                && since.elapsed() > limit
            {
                on_hang(input);
                return;
            }
            let waited = self.changed.wait_timeout(state, limit / 4);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn a_run_that_does_not_return_is_reported_while_it_runs() {
        let (hung, seen) = mpsc::channel();
        let report = move |input: &[u8]| hung.send(input.to_vec()).unwrap();
        let input = Watchdog::guard(Duration::from_millis(20), report, |watchdog| {
            watchdog.begin(b"quick");
            watchdog.end();
            watchdog.begin(b"endless");
            seen.recv_timeout(Duration::from_secs(20)).unwrap()
        });
        assert_eq!(input, b"endless");
    }

    #[test]
    fn runs_that_return_are_not() {
        let report = |input: &[u8]| panic!("reported {input:?}");
        let result = Watchdog::guard(Duration::from_mins(1), report, |watchdog| {
            watchdog.begin(b"quick");
            watchdog.end();
            7
        });
        assert_eq!(result, 7);
    }
}
