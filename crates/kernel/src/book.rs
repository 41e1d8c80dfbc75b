//! What the log is told beside calls: which sandboxes came, went or could not be made, and what
//! became known of plugins.
//!
//! A kernel that stays tells the log as it happens. A short command waits for its next record, and
//! for its end at the latest, since each write of its own would keep it waiting.
//!
//! Guarantee: what was noted is written once, unless the process dies first: these are outcomes, and
//! nobody waits for the disk with them.

use crate::clock::Clock;
use crate::sanitise::sanitise_line;
use airlock_audit::{AppendError, Durability, Entry, EventType, Log, Stage};
use airlock_core::{SandboxId, limits};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Most notes that wait for a log which cannot be written just now.
const WAITING: usize = 1_000;

/// The notes of one kernel. Copies are of the same ones.
#[derive(Clone)]
pub(crate) struct Book {
    clock: Clock,
    pages: Arc<Mutex<Pages>>,
}

#[derive(Default)]
struct Pages {
    /// Where notes go at once, if they do.
    log: Option<Weak<Log>>,
    waiting: Vec<Entry>,
}

impl Book {
    /// A book whose notes wait for somebody to take them.
    pub(crate) fn new(clock: &Clock) -> Self {
        Self {
            clock: clock.clone(),
            pages: Arc::default(),
        }
    }

    /// From now on notes go to `log` as they come.
    pub(crate) fn tell(&self, log: &Arc<Log>) {
        self.pages().log = Some(Arc::downgrade(log));
    }

    /// A sandbox stands.
    pub(crate) fn created(&self, sandbox: &str, notes: &[(&str, &str)]) {
        self.note(EventType::SandboxCreated, Some(sandbox), None, notes);
    }

    /// It is gone.
    pub(crate) fn destroyed(&self, sandbox: &str) {
        self.note(EventType::SandboxDestroyed, Some(sandbox), None, &[]);
    }

    /// One could not be made.
    pub(crate) fn failed(&self, why: &str, notes: &[(&str, &str)]) {
        self.note(EventType::SandboxFailed, None, Some(why), notes);
    }

    fn note(
        &self,
        event: EventType,
        sandbox: Option<&str>,
        why: Option<&str>,
        notes: &[(&str, &str)],
    ) {
        let mut entry = self.entry(event);
        entry.sandbox = sandbox.and_then(|name| SandboxId::new(name).ok());
        entry.reason = why.map(|why| sanitise_line(why, limits::SUMMARY_CHARS));
        let notes = notes.iter().map(|(name, value)| {
            let value = sanitise_line(value, limits::SUMMARY_CHARS);
            ((*name).to_owned(), value)
        });
        entry.metadata.extend(notes);
        self.add(entry);
    }

    /// A note of now that says nothing yet.
    pub(crate) fn entry(&self, event: EventType) -> Entry {
        Entry::new(self.clock.now(), event, Stage::Note)
    }

    /// Notes what `entry` says, whose texts are clean.
    pub(crate) fn add(&self, entry: Entry) {
        let mut pages = self.pages();
        // INVARIANT: the log is only ever held with the lock: once `close` has it, nobody has the log.
        let log = pages.log.as_ref().and_then(Weak::upgrade);
        let told = log.map(|log| log.append(&entry, Durability::Buffered));
        if !matches!(told, Some(Ok(_))) {
            pages.wait([entry]);
        }
    }

    /// What waits to be written, for whoever writes a record anyway.
    pub(crate) fn take(&self) -> Vec<Entry> {
        std::mem::take(&mut self.pages().waiting)
    }

    /// What was taken and could not be written.
    pub(crate) fn put_back(&self, entries: impl IntoIterator<Item = Entry>) {
        self.pages().wait(entries);
    }

    /// Writes what still waits; nothing that comes later is told.
    pub(crate) fn close(&self, log: &Log) -> Result<(), AppendError> {
        let mut pages = self.pages();
        pages.log = None;
        let waiting = std::mem::take(&mut pages.waiting);
        if waiting.is_empty() {
            return Ok(());
        }
        log.append_batch(&waiting, Durability::Buffered).map(drop)
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pages {
    fn wait(&mut self, entries: impl IntoIterator<Item = Entry>) {
        self.waiting.extend(entries);
        self.waiting.truncate(WAITING);
    }
}
