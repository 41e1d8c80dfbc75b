//! A workspace with a kernel of its own, and short ways to call it and to read what it kept.

#![expect(dead_code, reason = "no test file needs all of it")]

use airlock_audit::{Entry, EventType, Filter, Stage, VerifyOptions, verify_database};
use airlock_core::{ActionId, SessionId, Timestamp};
use airlock_kernel::{
    AnswerFailure, Call, Clock, DEFAULT_OUTPUT_BYTES, Denied, Done, Failed, Front, Kernel,
    KernelConfig, Lifetime, Outcome, Person, Review, StartError,
};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use tempfile::TempDir;

/// 2026-01-01, in microseconds.
const START: i64 = 1_767_225_600_000_000;

/// Reads are allowed, `private/` is not; the first use of a tool in a session asks nobody.
pub(crate) const READS: &str = "\
version: 1
approvals: { automatic: [AG-01] }
rules:
  - name: read-all
    match: { effect: read, path_glob: \"**\" }
    action: allow
    reason: reading is harmless
  - name: keep-private
    match: { effect: read, path_glob: [\"private/**\", \"private\"] }
    action: deny
    reason: private stays private
";

/// Nothing is allowed.
pub(crate) const NOTHING: &str = "version: 1\nrules: []\n";

/// A token of a known form, built at run time so that no scanner mistakes this file for a leak.
pub(crate) fn token() -> String {
    format!("ghp_{}", "a1B2c3D4e5F6".repeat(3))
}

/// A workspace `w`, its state home `state`, and room beside them.
pub(crate) struct Place {
    pub(crate) outer: TempDir,
    clock: Arc<AtomicI64>,
}

impl Place {
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        let outer = tempfile::tempdir().unwrap();
        fs::create_dir(outer.path().join("w")).unwrap();
        fs::create_dir(outer.path().join("state")).unwrap();
        let place = Self {
            outer,
            clock: Arc::new(AtomicI64::new(START)),
        };
        for (path, text) in files {
            place.write(path, text);
        }
        place
    }

    /// A workspace whose policy is `policy`, approved.
    pub(crate) fn governed(policy: &str, files: &[(&str, &str)]) -> Self {
        let place = Self::new(files);
        place.write(".airlock/policy.yaml", policy);
        trust(&place.open());
        place
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.outer.path().join("w")
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.root().join(path)
    }

    pub(crate) fn beside(&self, path: &str) -> PathBuf {
        self.outer.path().join(path)
    }

    pub(crate) fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn policy_text(&self) -> String {
        fs::read_to_string(self.path(".airlock/policy.yaml")).unwrap()
    }

    pub(crate) fn config(&self) -> KernelConfig {
        let clock = Arc::clone(&self.clock);
        KernelConfig {
            workspace: self.root(),
            state_home: self.beside("state"),
            clock: Clock::from_fn(move || {
                Timestamp::from_micros(clock.fetch_add(1, Ordering::Relaxed))
            }),
            lifetime: Lifetime::Command,
            output_bytes: DEFAULT_OUTPUT_BYTES,
            search_threads: 2,
            worker: None,
        }
    }

    pub(crate) fn open(&self) -> Kernel {
        self.try_open()
            .unwrap_or_else(|error| panic!("the kernel does not open: {error:?}"))
    }

    pub(crate) fn try_open(&self) -> Result<Kernel, StartError> {
        Kernel::open(self.config())
    }

    /// Lets `seconds` pass.
    pub(crate) fn pass(&self, seconds: i64) {
        self.clock.fetch_add(seconds * 1_000_000, Ordering::Relaxed);
    }
}

pub(crate) fn state(kernel: &Kernel) -> PathBuf {
    kernel.workspace().state().path().to_owned()
}

pub(crate) fn submit(kernel: &Kernel, front: Front, name: &str, arguments: Value) -> Outcome {
    kernel.submit(front, &Call::new(name, arguments))
}

pub(crate) fn done(outcome: Outcome) -> Done {
    let told = format!("not done: {outcome:?}");
    let Outcome::Done(done) = outcome else {
        panic!("{told}");
    };
    done
}

pub(crate) fn denied(outcome: Outcome) -> Denied {
    let told = format!("not denied: {outcome:?}");
    let Outcome::Denied(denied) = outcome else {
        panic!("{told}");
    };
    *denied
}

pub(crate) fn review(outcome: Outcome) -> Review {
    let told = format!("no review: {outcome:?}");
    let Outcome::NeedsReview(review) = outcome else {
        panic!("{told}");
    };
    *review
}

pub(crate) fn failed(outcome: Outcome) -> Failed {
    let told = format!("not failed: {outcome:?}");
    let Outcome::Failed(failed) = outcome else {
        panic!("{told}");
    };
    failed
}

/// One word for what came back.
pub(crate) fn word(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Done(_) => "done",
        Outcome::Denied(_) => "denied",
        Outcome::NeedsReview(_) => "review",
        Outcome::Failed(failed) => failed.code,
    }
}

pub(crate) fn action(outcome: &Outcome) -> ActionId {
    match outcome {
        Outcome::Done(done) => done.action.clone(),
        Outcome::Denied(denied) => denied.action.clone(),
        Outcome::NeedsReview(review) => review.action.clone(),
        Outcome::Failed(failed) => failed.action.clone(),
    }
}

/// As [`approved`], where the policy may change in between: a yes may no longer fit, or fit only
/// when the same is asked again.
pub(crate) fn maybe_approved(kernel: &Kernel, name: &str, arguments: Value) -> Option<Outcome> {
    let call = Call::new(name, arguments);
    let first = kernel.submit(Front::Cli, &call);
    let Outcome::NeedsReview(mut asked) = first else {
        return Some(first);
    };
    answer(kernel, &mut asked, true).ok()?;
    Some(kernel.submit(Front::Cli, &call))
}

/// Asks, lets the person say yes, asks again.
pub(crate) fn approved(kernel: &Kernel, name: &str, arguments: Value) -> Outcome {
    let call = Call::new(name, arguments);
    let mut asked = review(kernel.submit(Front::Cli, &call));
    answer(kernel, &mut asked, true).unwrap();
    kernel.submit(Front::Cli, &call)
}

/// Approves what stands in the workspace now.
pub(crate) fn trust(kernel: &Kernel) -> Done {
    let digest = kernel.workspace().trust().unwrap().digest();
    done(approved(
        kernel,
        "trust.approve",
        json!({ "digest": digest }),
    ))
}

/// Approves what stands in the workspace now, unless it is approved.
pub(crate) fn trust_if_needed(kernel: &Kernel) {
    if !kernel.workspace().trust().unwrap().holds() {
        trust(kernel);
    }
}

/// Replaces the policy, with the person's yes.
pub(crate) fn update(kernel: &Kernel, text: &str) -> Done {
    done(approved(kernel, "policy.update", json!({ "text": text })))
}

/// Everything in the log.
pub(crate) fn records(kernel: &Kernel) -> Vec<Entry> {
    kernel.log().flush().unwrap();
    let records = kernel.log().read(Filter::default()).unwrap();
    records.map(|record| record.unwrap().entry).collect()
}

/// What the log holds of one action.
pub(crate) fn of_action(kernel: &Kernel, action: &ActionId) -> Vec<Entry> {
    let mut entries = records(kernel);
    entries.retain(|entry| entry.action.as_ref() == Some(action));
    entries
}

/// The records of one action in a few words each.
pub(crate) fn shape(kernel: &Kernel, action: &ActionId) -> Vec<String> {
    of_action(kernel, action).iter().map(describe).collect()
}

fn describe(entry: &Entry) -> String {
    let verdict = entry.decision.as_ref().map(|d| format!(" {}", d.verdict));
    let check = if entry.event == EventType::CapabilityCheck {
        format!(" {}", entry.metadata["result"])
    } else {
        String::new()
    };
    format!(
        "{} {}{}{check}",
        entry.event.as_str(),
        entry.stage.as_str(),
        verdict.unwrap_or_default()
    )
}

pub(crate) fn at(entries: &[Entry], stage: Stage) -> &Entry {
    let mut found = entries.iter().filter(|entry| entry.stage == stage);
    let entry = found.next().unwrap();
    assert!(found.next().is_none(), "{stage:?} twice: {entries:?}");
    entry
}

/// The log's bytes, text and all, as somebody reading the file would see them.
pub(crate) fn log_text(kernel: &Kernel) -> String {
    serde_json::to_string(&records(kernel)).unwrap()
}

pub(crate) fn verifies(kernel: &Kernel) -> u64 {
    kernel.log().flush().unwrap();
    let state = kernel.workspace().state();
    let report = verify_database(state.path(), &state.keys(), &VerifyOptions::default()).unwrap();
    assert!(report.is_intact(), "{report:?}");
    report.chain.unwrap().records
}

/// Keeps the log from being written until dropped: its table has another name meanwhile.
pub(crate) struct Obstacle {
    database: rusqlite::Connection,
    schema: String,
}

impl Obstacle {
    pub(crate) fn put(state: &Path) -> Self {
        let database = connect(state);
        let schema = database
            .query_row(
                "SELECT sql FROM sqlite_schema WHERE name = 'records'",
                [],
                |row| row.get(0),
            )
            .unwrap();
        database
            .execute_batch("ALTER TABLE records RENAME TO records_away")
            .unwrap();
        Self { database, schema }
    }
}

impl Drop for Obstacle {
    fn drop(&mut self) {
        // Renaming quotes the name; the log takes no schema but its own, to the letter.
        self.database
            .execute_batch("ALTER TABLE records_away RENAME TO records; PRAGMA writable_schema=ON")
            .unwrap();
        self.database
            .execute(
                "UPDATE sqlite_schema SET sql = ?1 WHERE name = 'records'",
                [&self.schema],
            )
            .unwrap();
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a hostile neighbour opens the database as it pleases"
)]
pub(crate) fn connect(state: &Path) -> rusqlite::Connection {
    let database = rusqlite::Connection::open(state.join("audit.db")).unwrap();
    database
        .busy_timeout(std::time::Duration::from_secs(10))
        .unwrap();
    database
}

/// A terminal of its own, and the person at it.
pub(crate) fn person(kernel: &Kernel) -> Person {
    kernel.person(terminal(), None).unwrap()
}

pub(crate) fn terminal() -> std::os::fd::OwnedFd {
    let flags = rustix::pty::OpenptFlags::RDWR | rustix::pty::OpenptFlags::NOCTTY;
    rustix::pty::openpt(flags).unwrap()
}

/// The person at a terminal answers.
pub(crate) fn answer(
    kernel: &Kernel,
    review: &mut Review,
    approved: bool,
) -> Result<(), AnswerFailure> {
    kernel.answer(person(kernel), review, approved)
}

/// A session of the person's, begun by `front`.
pub(crate) fn session(kernel: &Kernel, arguments: Value) -> SessionId {
    let begun = done(submit(kernel, Front::Cli, "session.create", arguments));
    SessionId::new(begun.value["id"].as_str().unwrap()).unwrap()
}

/// `name` called in `session`.
pub(crate) fn in_session(
    kernel: &Kernel,
    front: Front,
    session: &SessionId,
    name: &str,
    arguments: Value,
) -> Outcome {
    let mut call = Call::new(name, arguments);
    call.session = Some(session.clone());
    kernel.submit(front, &call)
}
