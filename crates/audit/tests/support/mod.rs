//! A log in a directory of its own, with a clock the test owns.

#![expect(dead_code, reason = "no test file needs all of it")]

use airlock_audit::{
    Buffering, Clock, Entry, EventType, Filter, Log, LogConfig, Record, Stage, VerifyOptions,
    VerifyReport, verify_database,
};
use airlock_core::{ActionId, Timestamp};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// 2026-01-01, in microseconds.
pub(crate) const START: i64 = 1_767_225_600_000_000;
pub(crate) const DAY: i64 = 24 * 60 * 60 * 1_000_000;

pub(crate) struct Place {
    _root: tempfile::TempDir,
    pub(crate) directory: PathBuf,
    pub(crate) keys: PathBuf,
    pub(crate) clock: Arc<AtomicI64>,
}

impl Place {
    pub(crate) fn new() -> Self {
        let root = tempfile::tempdir().expect("a temporary directory");
        Self {
            directory: root.path().join("state"),
            keys: root.path().join("keys"),
            _root: root,
            clock: Arc::new(AtomicI64::new(START)),
        }
    }

    pub(crate) fn config(&self) -> LogConfig {
        let time = Arc::clone(&self.clock);
        let clock: Clock =
            Arc::new(move || Timestamp::from_micros(time.fetch_add(1, Ordering::Relaxed)));
        LogConfig::new(&self.directory, &self.keys, clock)
    }

    pub(crate) fn open(&self) -> Log {
        Log::open(self.config()).expect("the log opens")
    }

    pub(crate) fn open_windowed(&self) -> Log {
        let mut config = self.config();
        config.buffering = Buffering::WINDOW;
        Log::open(config).expect("the log opens")
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.directory.join("audit.db")
    }

    pub(crate) fn verify(&self) -> VerifyReport {
        verify_database(&self.directory, &self.keys, &VerifyOptions::default())
            .expect("the log can be verified")
    }

    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.clock.load(Ordering::Relaxed))
    }
}

pub(crate) fn note(text: &str) -> Entry {
    note_at(START, text)
}

pub(crate) fn note_at(micros: i64, text: &str) -> Entry {
    let mut entry = Entry::new(
        Timestamp::from_micros(micros),
        EventType::ToolResult,
        Stage::Note,
    );
    entry.input = Some(text.to_owned());
    entry
}

pub(crate) fn attempt(action: &str) -> Entry {
    let mut entry = note(action);
    entry.event = EventType::Syscall;
    entry.stage = Stage::Attempt;
    entry.syscall = Some("exec.run".to_owned());
    entry.action = Some(ActionId::new(action).expect("an action id"));
    entry
}

pub(crate) fn all(log: &Log) -> Vec<Record> {
    log.read(Filter::default())
        .expect("the log can be read")
        .collect::<Result<_, _>>()
        .expect("every record can be read")
}

pub(crate) fn texts(records: &[Record]) -> Vec<String> {
    records
        .iter()
        .filter_map(|record| record.entry.input.clone())
        .collect()
}
