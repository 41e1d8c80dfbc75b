//! What opening the log found.

use super::Layout;
use super::marker::{DeadMarker, UncleanWriter};
use crate::chain::Head;
use crate::open::OpenError;
use crate::query::Filter;
use crate::recovery::RecoveryReport;
use crate::{Entry, EventType, Stage};
use airlock_core::{ActionId, Timestamp};
use std::collections::BTreeMap;

/// Most unfinished attempts that are named, the newest; beyond that the count tells enough.
const NAMED: usize = 10_000;

/// An attempt that has no outcome: it may or may not have happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnfinishedAttempt {
    /// The attempt's record.
    pub seq: u64,
    /// When it was announced.
    pub time: Timestamp,
    /// The action's id.
    pub action: ActionId,
    /// The event.
    pub event: EventType,
    /// The syscall, if it names one.
    pub syscall: Option<String>,
}

/// What opening found.
#[derive(Debug, Clone, Default)]
pub struct OpenReport {
    /// The last record's number when the log was opened.
    pub head: u64,
    /// Writers that died without closing. What they had buffered, at most their window, is lost.
    pub unclean: Vec<UncleanWriter>,
    /// Attempts without outcome since the oldest of these opened the log. An action of another
    /// process that is still under way is among them.
    pub unfinished: Vec<UnfinishedAttempt>,
    /// The database was damaged: what was done about it.
    pub recovery: Option<RecoveryReport>,
}

impl OpenReport {
    /// Whether the last writers closed in good order and nothing was damaged.
    pub fn is_clean(&self) -> bool {
        self.unclean.is_empty() && self.recovery.is_none()
    }

    pub(super) fn build(
        layout: &Layout,
        head: Head,
        dead: &[DeadMarker],
        recovery: Option<RecoveryReport>,
    ) -> Result<Self, OpenError> {
        let unclean: Vec<_> = dead.iter().map(|dead| dead.writer.clone()).collect();
        let since = unclean.iter().map(|writer| writer.head).min();
        let unfinished = match since {
            Some(since) => unfinished(layout, since.min(head.seq), head.seq)?,
            None => Vec::new(),
        };
        Ok(Self {
            head: head.seq,
            unclean,
            unfinished,
            recovery,
        })
    }
}

fn unfinished(layout: &Layout, after: u64, last: u64) -> Result<Vec<UnfinishedAttempt>, OpenError> {
    let filter = Filter {
        first: Some(after + 1),
        last: Some(last),
        ..Filter::default()
    };
    let mut open: BTreeMap<u64, UnfinishedAttempt> = BTreeMap::new();
    let mut by_action = std::collections::HashMap::new();
    let records = match super::read_layout(layout, filter) {
        Ok(records) => records,
        Err(crate::ReadError::Open(error)) => return Err(error),
        // The background verification says what is wrong; the log still opens.
        Err(_) => return Ok(Vec::new()),
    };
    // A record that cannot be read is neither attempt nor outcome.
    for record in records.filter_map(Result::ok) {
        let Some(action) = record.entry.action.clone() else {
            continue;
        };
        match record.entry.stage {
            Stage::Attempt if may_have_happened(&record.entry) => {
                let seq = record.sealed.seq();
                // What was planned anew is recorded again: its last record is the one that counts.
                if let Some(earlier) = by_action.insert(action.clone(), seq) {
                    open.remove(&earlier);
                }
                if open.len() >= NAMED
                    && let Some((_, oldest)) = open.pop_first()
                {
                    by_action.remove(&oldest.action);
                }
                open.insert(
                    seq,
                    UnfinishedAttempt {
                        seq,
                        time: record.entry.time,
                        action,
                        event: record.entry.event,
                        syscall: record.entry.syscall,
                    },
                );
            }
            Stage::Outcome => {
                if let Some(seq) = by_action.remove(&action) {
                    open.remove(&seq);
                }
            }
            Stage::Attempt | Stage::Note => {}
        }
    }
    Ok(open.into_values().collect())
}

/// Whether an attempt was more than that: one that was denied, or waits for a person, has no outcome
/// because nothing was done.
fn may_have_happened(attempt: &Entry) -> bool {
    let decision = attempt.decision.as_ref();
    decision.is_none_or(|decision| decision.verdict == "allow")
}
