//! The first matches in order of path, whatever order threads find them in.
//!
//! Guarantee: keeps little more than is returned, however much matches.
//!
//! Invariant: once more is known than can be returned, only files past the last one kept are
//! dropped or skipped, so the answer does not depend on who was faster.

use super::sink::Lines;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What may be returned.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) matches: usize,
    pub(super) bytes: u64,
}

/// Matches, collected by several threads.
#[derive(Debug)]
pub(super) struct Collected {
    pub(super) bounds: Bounds,
    kept: Mutex<Kept>,
    /// Set when there is more than enough: spares the lock until then.
    full: AtomicBool,
}

#[derive(Debug, Default)]
struct Kept {
    files: BTreeMap<String, Lines>,
    size: Size,
}

/// How much something takes of the bounds.
#[derive(Debug, Clone, Copy, Default)]
struct Size {
    matches: usize,
    bytes: u64,
}

impl Size {
    fn of(path: &str, lines: &Lines) -> Self {
        Self {
            matches: lines.matches,
            bytes: lines.bytes.saturating_add(path.len() as u64),
        }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            matches: self.matches.saturating_add(other.matches),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }

    fn minus(self, other: Self) -> Self {
        Self {
            matches: self.matches.saturating_sub(other.matches),
            bytes: self.bytes.saturating_sub(other.bytes),
        }
    }

    fn exceeds(self, bounds: Bounds) -> bool {
        self.matches > bounds.matches || self.bytes > bounds.bytes
    }
}

/// What is returned.
#[derive(Default)]
pub(super) struct Results {
    pub(super) files: Vec<Value>,
    pub(super) matches: usize,
    pub(super) truncated: bool,
}

impl Collected {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            kept: Mutex::default(),
            full: AtomicBool::new(false),
        }
    }

    /// Whether a match in `path` could still be among the first.
    pub(super) fn wants(&self, path: &str) -> bool {
        if !self.full.load(Ordering::Relaxed) {
            return true;
        }
        let kept = self.lock();
        kept.files
            .last_key_value()
            .is_none_or(|(last, _)| path <= last.as_str())
    }

    /// Adds the matches of one file.
    pub(super) fn add(&self, path: &str, lines: Lines) {
        let mut kept = self.lock();
        let mut size = kept.size.plus(Size::of(path, &lines));
        kept.files.insert(path.to_owned(), lines);
        // Too much must stay known, or a full answer could not tell that it was cut.
        while let Some(last) = kept.files.last_entry() {
            let without = size.minus(Size::of(last.key(), last.get()));
            if !without.exceeds(self.bounds) {
                break;
            }
            last.remove();
            size = without;
        }
        kept.size = size;
        self.full
            .store(size.exceeds(self.bounds), Ordering::Relaxed);
    }

    /// The first matches, within the bounds.
    pub(super) fn finish(self) -> Results {
        let kept = self
            .kept
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        let mut results = Results {
            truncated: kept.size.exceeds(self.bounds),
            ..Results::default()
        };
        let mut bytes = 0u64;
        for (path, lines) in kept.files {
            bytes = bytes.saturating_add(path.len() as u64);
            if results.matches >= self.bounds.matches || bytes > self.bounds.bytes {
                break;
            }
            results.show(path, lines, &mut bytes, self.bounds);
        }
        results
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Results {
    fn show(&mut self, path: String, lines: Lines, bytes: &mut u64, bounds: Bounds) {
        if lines.files_only() {
            self.matches += 1;
            self.files.push(file(path, None));
            return;
        }
        let mut shown = Vec::new();
        for line in lines.shown {
            *bytes = bytes.saturating_add(line.size());
            if *bytes > bounds.bytes || (line.matches && self.matches >= bounds.matches) {
                break;
            }
            self.matches += usize::from(line.matches);
            shown.push(line.value());
        }
        if !shown.is_empty() {
            self.files.push(file(path, Some(shown)));
        }
    }
}

fn file(path: String, lines: Option<Vec<Value>>) -> Value {
    let mut object = Map::new();
    object.insert("path".to_owned(), path.into());
    if let Some(lines) = lines {
        object.insert("lines".to_owned(), lines.into());
    }
    object.into()
}
