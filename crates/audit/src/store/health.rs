//! The verification that opening begins: in the background, so that the log is usable at once.
//!
//! After a clean end the part since the newest signed checkpoint is verified, and that the chain
//! reaches it; after a crash all of it. A break is recorded once and shown; nothing is repaired.

use super::checkpoints::Claims;
use super::examine::{VerifyError, VerifyOptions, VerifyReport, verify_layout, verify_tail};
use super::marker::DeadMarker;
use super::{Clock, Layout};
use crate::Break;
use crate::chain::LogId;
use crate::open::{Access, OpenError, open_database};
use crate::recovery;
use crate::writer::{
    AppendError, Draft, Drafts, Meta, Shared, Signing, break_entry, read_meta, write_meta,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long closing waits for a verification before it calls it off; small logs are done by then.
const GRACE: Duration = Duration::from_millis(250);
/// The same after a crash. Called off, it would be begun anew by every command until one lasts as long:
/// it is better that one of them waits, once.
const AFTER_A_CRASH: Duration = Duration::from_secs(30);

/// Whether the chain holds, as far as it was looked at since the log was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// The verification is under way.
    Verifying,
    /// What was looked at holds.
    Verified {
        /// Records verified.
        records: u64,
    },
    /// The chain does not hold.
    Broken {
        /// The first bad record, where one can be named.
        seq: Option<u64>,
        /// What is wrong.
        detail: String,
    },
    /// The verification could not be carried out.
    Unknown {
        /// Why.
        detail: String,
    },
}

#[derive(Debug)]
struct State {
    health: Mutex<Health>,
    changed: Condvar,
    cancel: AtomicBool,
}

impl State {
    fn settle(&self, health: Health) {
        *self.health.lock().unwrap_or_else(PoisonError::into_inner) = health;
        self.changed.notify_all();
    }
}

#[derive(Debug)]
pub(super) struct Checker {
    state: Arc<State>,
    grace: Duration,
    thread: Option<JoinHandle<Vec<DeadMarker>>>,
}

/// What a verification works with.
pub(super) struct Subject {
    pub(super) layout: Layout,
    pub(super) log: LogId,
    /// What the checkpoints file said before the writer could sign anything.
    pub(super) claims: Result<Claims, OpenError>,
    pub(super) writer: Arc<Shared>,
    pub(super) signing: Signing,
    pub(super) clock: Clock,
}

impl Checker {
    pub(super) fn start(subject: Subject, dead: Vec<DeadMarker>) -> std::io::Result<Self> {
        Self::of(dead, move |state, dead| subject.check(&state, dead))
    }

    /// A verification of which `work` is all, because of the writers that died.
    fn of(
        dead: Vec<DeadMarker>,
        work: impl FnOnce(Arc<State>, Vec<DeadMarker>) -> Vec<DeadMarker> + Send + 'static,
    ) -> std::io::Result<Self> {
        let state = Arc::new(State {
            health: Mutex::new(Health::Verifying),
            changed: Condvar::new(),
            cancel: AtomicBool::new(false),
        });
        let grace = if dead.is_empty() {
            GRACE
        } else {
            AFTER_A_CRASH
        };
        let shared = Arc::clone(&state);
        let thread = std::thread::Builder::new()
            .name("audit-verify".to_owned())
            .spawn(move || work(shared, dead))?;
        Ok(Self {
            state,
            grace,
            thread: Some(thread),
        })
    }

    pub(super) fn health(&self) -> Health {
        self.state
            .health
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(super) fn wait(&self, patience: Duration) -> Health {
        let until = Instant::now() + patience;
        let mut health = self
            .state
            .health
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        while *health == Health::Verifying {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            health = self
                .state
                .changed
                .wait_timeout(health, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        health.clone()
    }

    /// Gives the verification a moment, then calls it off. Gives back the markers of the dead
    /// whose log was verified; the others stay, so the next start verifies again.
    pub(super) fn stop(&mut self) -> Vec<DeadMarker> {
        let Some(thread) = self.thread.take() else {
            return Vec::new();
        };
        self.wait(self.grace);
        self.state.cancel.store(true, Ordering::Relaxed);
        // A panic there left the markers in place, which is all that matters here.
        thread.join().unwrap_or_default()
    }
}

impl Subject {
    /// Gives back the markers that may go once this writer has closed in good order: if it dies
    /// too, the next one must still be told of all of them.
    fn check(self, state: &State, mut dead: Vec<DeadMarker>) -> Vec<DeadMarker> {
        let health = match self.verify(!dead.is_empty(), &state.cancel) {
            Ok(health) => health,
            Err(VerifyError::Cancelled) => return Vec::new(),
            Err(error) => Health::Unknown {
                detail: error.to_string(),
            },
        };
        let settled = match &health {
            Health::Broken { seq, detail } => self.record_break(*seq, detail).is_ok(),
            Health::Verified { .. } => {
                self.signing.allow();
                true
            }
            Health::Verifying | Health::Unknown { .. } => false,
        };
        if !settled {
            dead.clear();
        }
        state.settle(health);
        dead
    }

    fn verify(&self, everything: bool, cancel: &AtomicBool) -> Result<Health, VerifyError> {
        if !everything {
            let claims = match &self.claims {
                Ok(claims) => claims,
                Err(error) => {
                    let detail = error.to_string();
                    return Ok(Health::Unknown { detail });
                }
            };
            let report = verify_tail(&self.layout, claims, cancel)?;
            self.note_damage(&report);
            return Ok(match (&report.chain, report.unreadable) {
                (Err(broken), _) => broken_chain(broken),
                (Ok(verified), None) => Health::Verified {
                    records: verified.records,
                },
                (Ok(_), Some(seq)) => Health::Broken {
                    seq: Some(seq),
                    detail: report
                        .structure
                        .into_iter()
                        .next()
                        .unwrap_or_else(|| format!("record {seq} cannot be read")),
                },
            });
        }
        let report = verify_layout(&self.layout, &VerifyOptions::default(), cancel)?;
        self.note_damage(&report);
        Ok(match (&report.chain, report.is_intact()) {
            (Ok(verified), true) => Health::Verified {
                records: verified.records,
            },
            (Err(broken), _) => broken_chain(broken),
            (Ok(_), false) => Health::Broken {
                seq: report.first_bad(),
                detail: report
                    .structure
                    .into_iter()
                    .chain(report.bad_checkpoints)
                    .next()
                    .unwrap_or_else(|| "records before the first are missing".to_owned()),
            },
        })
    }

    /// A database with damaged pages is looked at more closely by whoever opens the log next.
    fn note_damage(&self, report: &VerifyReport) {
        if report.is_database_damaged {
            recovery::suspect(&self.layout);
        }
    }

    /// Writes an `audit_chain_break` record, unless this very break was recorded before.
    fn record_break(&self, seq: Option<u64>, detail: &str) -> Result<(), AppendError> {
        let sqlite = |error: rusqlite::Error| AppendError::sqlite(&error);
        let db = open_database(&self.layout.database(), Access::Write)
            .map_err(|error| AppendError::Failed(error.to_string()))?;
        let known = read_meta(&db, Meta::Break).map_err(sqlite)?;
        if known.as_deref() == Some(detail.as_bytes()) {
            return Ok(());
        }
        let entry = break_entry((self.clock)(), self.log, seq, detail);
        let draft = Drafts::One(Draft::new(&entry)?);
        self.writer.append(draft, true)?.first()?;
        write_meta(&db, Meta::Break, detail.as_bytes()).map_err(sqlite)
    }
}

fn broken_chain(broken: &Break) -> Health {
    Health::Broken {
        seq: Some(broken.seq()),
        detail: broken.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::marker::{Marker, UncleanWriter, dead_writers};
    use super::*;
    use airlock_core::Timestamp;

    /// A verification that takes longer than a command likes to wait, unless it is called off.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "it is handed over like the real one's"
    )]
    fn long(state: Arc<State>, dead: Vec<DeadMarker>) -> Vec<DeadMarker> {
        let until = Instant::now() + 2 * GRACE;
        while Instant::now() < until {
            if state.cancel.load(Ordering::Relaxed) {
                return Vec::new();
            }
            std::thread::yield_now();
        }
        state.settle(Health::Verified { records: 1 });
        dead
    }

    #[test]
    fn after_a_crash_a_long_verification_is_waited_for_and_otherwise_called_off() {
        let place = tempfile::tempdir().unwrap();
        let writer = UncleanWriter {
            pid: 1,
            opened: Timestamp::from_micros(0),
            head: 0,
        };
        // Dropped without being removed, it is one of the dead.
        drop(Marker::leave(place.path(), &writer).unwrap().begun());
        let dead = dead_writers(place.path()).unwrap();
        assert_eq!(dead.len(), 1);
        let mut checker = Checker::of(dead, long).unwrap();
        assert_eq!(checker.stop().len(), 1, "its marker may go");
        assert_eq!(checker.health(), Health::Verified { records: 1 });
        let mut checker = Checker::of(Vec::new(), long).unwrap();
        checker.stop();
        assert_eq!(checker.health(), Health::Verifying);
    }
}
