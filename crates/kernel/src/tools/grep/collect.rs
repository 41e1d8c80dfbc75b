//! The first matches in order of path, whatever order threads find them in.
//!
//! Invariant: once more matches are known than wanted, only files past the last one kept are
//! dropped or skipped, so the answer does not depend on who was faster.

use super::sink::Lines;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Matches, collected by several threads.
#[derive(Debug)]
pub(super) struct Collected {
    limit: usize,
    kept: Mutex<Kept>,
    /// Set when there is more than enough: spares the lock until then.
    full: AtomicBool,
}

#[derive(Debug, Default)]
struct Kept {
    files: BTreeMap<String, Lines>,
    matches: usize,
}

/// What is returned.
pub(super) struct Results {
    pub(super) files: Vec<Value>,
    pub(super) matches: usize,
    pub(super) truncated: bool,
}

impl Collected {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            kept: Mutex::default(),
            full: AtomicBool::new(false),
        }
    }

    /// Most matches wanted.
    pub(super) fn limit(&self) -> usize {
        self.limit
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
        let mut total = kept.matches + lines.matches;
        kept.files.insert(path.to_owned(), lines);
        // More than the limit must stay known, or a full answer could not tell that it was cut.
        while let Some(last) = kept.files.last_entry()
            && let count = last.get().matches
            && total.saturating_sub(count) > self.limit
        {
            last.remove();
            total -= count;
        }
        kept.matches = total;
        self.full
            .store(kept.matches > self.limit, Ordering::Relaxed);
    }

    /// The first matches, and no more than `max_output` bytes of them.
    pub(super) fn finish(self, max_output: u64) -> Results {
        let kept = self
            .kept
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        let mut results = Results {
            files: Vec::new(),
            matches: 0,
            truncated: kept.matches > self.limit,
        };
        let mut size = 0u64;
        for (path, lines) in kept.files {
            size = size.saturating_add(path.len() as u64);
            if results.matches >= self.limit || size > max_output {
                results.truncated = true;
                break;
            }
            if lines.files_only() {
                results.matches += 1;
                results.files.push(json!({ "path": path }));
                continue;
            }
            let mut shown = Vec::new();
            for line in lines.shown {
                size = size.saturating_add(line.size());
                if size > max_output || (line.matches && results.matches >= self.limit) {
                    results.truncated = true;
                    break;
                }
                results.matches += usize::from(line.matches);
                shown.push(line.value());
            }
            results.files.push(json!({ "path": path, "lines": shown }));
        }
        results
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
