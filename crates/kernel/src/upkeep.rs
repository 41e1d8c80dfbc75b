//! The upkeep of the log: archive past segments, keep within limits, take a snapshot a day, forget old
//! contents.
//!
//! Done by whichever kernel opens the log first in an hour or a segment of time, and by a kernel that
//! stays as time passes. Upkeep that fails is told, tried again, and keeps nobody from working: the
//! log itself is not at stake.

use crate::content;
use crate::results::Results;
use crate::workspace::write_atomic;
use airlock_audit::{Log, Retention};
use airlock_core::Timestamp;
use std::fs::File;
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

const HOUR_MICROS: i64 = 60 * 60 * 1_000_000;
const DAY_MICROS: i64 = 24 * HOUR_MICROS;

/// Does the upkeep that is due; gives back what the person should know.
pub(crate) fn keep(
    log: &Log,
    state: &Path,
    retention: Retention,
    now: Timestamp,
) -> Option<String> {
    let marker = state.join("upkeep");
    let day = format!("{} ", now.as_micros().div_euclid(DAY_MICROS));
    let done = format!(
        "{day}{} {} of {}",
        now.as_micros().div_euclid(HOUR_MICROS),
        retention.segment_of(now),
        retention.segment,
    );
    let before = std::fs::read_to_string(&marker).unwrap_or_default();
    if before == done {
        return None;
    }
    // Others need not wait for it, nor do it a second time.
    let turn = File::create(state.join("upkeep.lock"));
    if turn.as_ref().is_ok_and(|turn| turn.try_lock().is_err()) {
        return None;
    }
    let result = log
        .maintain_within(retention, now)
        .map_err(|error| error.to_string())
        .and_then(|report| {
            // There is nothing to keep of a log that is only now beginning.
            if log.open_report().head > 0 && !before.starts_with(&day) {
                log.snapshot().map_err(|error| error.to_string())?;
            }
            // Contents are as old as the log's clock says, too.
            let days = if report.clock_jumped {
                u32::MAX
            } else {
                retention.days
            };
            let kept = Retention { days, ..retention };
            content::forget(state, kept).map_err(|error| error.to_string())?;
            let forgotten = Results::of(state).forget();
            forgotten.map_err(|error| error.to_string())?;
            write_atomic(&marker, done.as_bytes(), 0o600).map_err(|error| error.to_string())
        });
    result
        .err()
        .map(|error| format!("the audit log's upkeep failed and will be tried again: {error}"))
}

/// Does something now and then, on a thread of its own, for as long as it is held.
pub(crate) struct Keeper {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    /// Calls `work` after each `pause`.
    pub(crate) fn start(
        pause: Duration,
        mut work: impl FnMut() + Send + 'static,
    ) -> std::io::Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let thread = Builder::new().name("upkeep".to_owned()).spawn(move || {
            while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                work();
            }
        })?;
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use airlock_audit::{Durability, Entry, EventType, LogConfig, Stage};
    use airlock_core::Span;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI64, Ordering};

    /// 2026-01-01, in microseconds.
    const START: i64 = 1_767_225_600_000_000;

    fn names(directory: &Path) -> usize {
        std::fs::read_dir(directory).map_or(0, Iterator::count)
    }

    #[test]
    fn each_segment_is_archived_once_it_is_over_and_each_day_is_copied_once() {
        let place = tempfile::tempdir().unwrap();
        let time = Arc::new(AtomicI64::new(START));
        let told = Arc::clone(&time);
        let clock = Arc::new(move || Timestamp::from_micros(told.load(Ordering::Relaxed)));
        let config = LogConfig::new(place.path(), &place.path().join("keys"), clock.clone());
        let note = |log: &Log| {
            let entry = Entry::new(clock(), EventType::Syscall, Stage::Note);
            log.append(&entry, Durability::Durable).unwrap();
        };
        // A log that is beginning has no copy.
        note(&Log::open(config.clone()).unwrap());
        let log = Log::open(config).unwrap();
        let retention = Retention {
            segment: Span::from_secs(2 * 60 * 60),
            ..Retention::default()
        };
        let (segments, backups) = (place.path().join("segments"), place.path().join("backups"));
        for (hours, archives, copies) in [
            (0, 0, 1),
            (1, 0, 1),
            (2, 1, 1),
            (3, 1, 1),
            (4, 2, 1),
            (24, 3, 2),
        ] {
            time.store(START + hours * HOUR_MICROS, Ordering::Relaxed);
            note(&log);
            for _ in 0..2 {
                assert_eq!(keep(&log, place.path(), retention, clock()), None);
            }
            let found = (names(&segments), names(&backups));
            assert_eq!(found, (archives, copies), "after {hours} hours");
        }
    }

    #[test]
    fn work_is_done_again_and_again_and_never_after_the_end() {
        let count = Arc::new(AtomicI64::new(0));
        let counted = Arc::clone(&count);
        let keeper = Keeper::start(Duration::from_millis(1), move || {
            counted.fetch_add(1, Ordering::SeqCst);
        });
        while count.load(Ordering::SeqCst) < 3 {
            std::thread::yield_now();
        }
        drop(keeper.unwrap());
        let last = count.load(Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(count.load(Ordering::SeqCst), last);
    }
}
