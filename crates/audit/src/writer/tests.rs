//! Which append is answered after which sync, with a disk of the test's own.

use super::disk::Barrier;
use super::*;
use crate::chain::{Head, LogId};
use crate::open::{Access, open_database};
use crate::store::{CheckpointFile, Layout};
use crate::{Entry, EventType, Stage};
use airlock_core::Timestamp;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;

const TIME: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

/// What a sync saw, and what it is to do.
#[derive(Debug, Default)]
struct Seen {
    syncs: AtomicU64,
    /// The last record that was committed when the last finished sync began.
    covered: AtomicU64,
    /// The number of the sync that fails; those after it would succeed.
    fails: AtomicU64,
    /// Locked by a test that holds syncs up.
    held: Mutex<()>,
}

#[derive(Debug)]
struct Watched {
    seen: Arc<Seen>,
    database: PathBuf,
}

impl Barrier for Watched {
    fn sync(&mut self) -> io::Result<()> {
        let committed = newest(&self.database);
        let number = self.seen.syncs.fetch_add(1, Ordering::SeqCst) + 1;
        drop(self.seen.held.lock().unwrap());
        if number == self.seen.fails.load(Ordering::SeqCst) {
            return Err(io::Error::other("lost"));
        }
        self.seen.covered.store(committed, Ordering::SeqCst);
        Ok(())
    }
}

/// The last record's number, as any other process would see it.
fn newest(database: &std::path::Path) -> u64 {
    let db = open_database(database, Access::Read).unwrap();
    newest_head(&db, &log()).unwrap().seq
}

fn log() -> LogId {
    LogId::from_bytes([5; 16])
}

struct Bench {
    writer: Writer,
    seen: Arc<Seen>,
    database: PathBuf,
    _directory: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let layout = Layout::new(directory.path(), &directory.path().join("keys"));
        let database = layout.database();
        let mut db = open_database(&database, Access::Write).unwrap();
        write_meta(&db, Meta::Log, log().as_bytes()).unwrap();
        let seen = Arc::new(Seen::default());
        let watched = Watched {
            seen: Arc::clone(&seen),
            database: database.clone(),
        };
        let disk = Arc::new(Disk::new(Box::new(watched)));
        let committer = Committer {
            ahead: Ahead::watch(&mut db, LONG_LIVED).unwrap(),
            db,
            room: None,
            keeper: Keeper::new(&layout, Arc::clone(&disk), true),
            disk,
            log: log(),
            checkpoints: CheckpointFile::new(&layout),
            every: 1_000,
            on_close: false,
            clock: Arc::new(|| TIME),
            state: CommitState::default(),
        };
        let window = Window {
            records: 100,
            age: Duration::from_millis(1),
        };
        let writer = Writer::start(committer, window).unwrap();
        Self {
            writer,
            seen,
            database,
            _directory: directory,
        }
    }

    fn begin(&self, durable: bool) -> Result<Awaited, AppendError> {
        self.writer.shared.append(draft(), durable)
    }

    fn append(&self) -> Result<Written, AppendError> {
        self.begin(true)?.first()
    }

    fn covered(&self) -> u64 {
        self.seen.covered.load(Ordering::SeqCst)
    }

    fn syncs(&self) -> u64 {
        self.seen.syncs.load(Ordering::SeqCst)
    }

    fn fail_sync(&self, number: u64) {
        self.seen.fails.store(number, Ordering::SeqCst);
    }
}

fn draft() -> Drafts {
    let entry = Entry::new(TIME, EventType::Syscall, Stage::Attempt);
    Drafts::One(Draft::new(&entry).unwrap())
}

fn lost() -> AppendError {
    AppendError::Unsynced("lost".to_owned())
}

#[test]
fn no_durable_append_returns_before_a_sync_that_began_after_its_commit() {
    let bench = Bench::new();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..25 {
                    let written = bench.append().unwrap();
                    let covered = bench.covered();
                    assert!(
                        covered >= written.seq,
                        "{covered} of {} synced",
                        written.seq
                    );
                }
            });
        }
    });
    assert_eq!(newest(&bench.database), 200);
    assert!(bench.syncs() <= 200);
}

#[test]
fn appends_that_arrive_during_a_sync_share_the_next() {
    let bench = Bench::new();
    let held = bench.seen.held.lock().unwrap();
    let first = bench.begin(true).unwrap();
    while bench.syncs() == 0 {
        std::thread::yield_now();
    }
    assert_eq!(newest(&bench.database), 1, "committed, and not yet durable");
    let rest: Vec<_> = (0..20).map(|_| bench.begin(true).unwrap()).collect();
    assert_eq!(bench.covered(), 0);
    drop(held);
    assert_eq!(first.first().unwrap().seq, 1);
    for (seq, awaited) in (2..).zip(rest) {
        assert_eq!(awaited.first().unwrap().seq, seq);
    }
    assert_eq!((bench.syncs(), bench.covered()), (2, 21));
}

#[test]
fn a_failed_sync_fails_its_own_appends_and_everything_after_it() {
    let mut bench = Bench::new();
    let kept = bench.append().unwrap();
    bench.fail_sync(2);
    let held = bench.seen.held.lock().unwrap();
    let failing = bench.begin(true).unwrap();
    while bench.syncs() < 2 {
        std::thread::yield_now();
    }
    let waiting = [bench.begin(true).unwrap(), bench.begin(true).unwrap()];
    drop(held);
    assert_eq!(failing.first(), Err(lost()));
    for awaited in waiting {
        assert_eq!(
            awaited.first(),
            Err(lost()),
            "the next sync would say nothing"
        );
    }
    assert_eq!(bench.append(), Err(lost()));
    assert_eq!(bench.begin(false).err(), Some(lost()), "buffered ones, too");
    assert_eq!(bench.writer.shared.last_error(), Some(lost()));
    assert_eq!(bench.syncs(), 2, "the disk is not asked again");
    assert_eq!(bench.writer.close(), Err(lost()));
    let (covered, newest) = (bench.covered(), newest(&bench.database));
    assert_eq!((kept.seq, covered), (1, 1));
    assert_eq!(
        newest, 4,
        "each was committed once and none was called durable"
    );
}

#[test]
fn records_nobody_waits_for_cost_no_sync_until_somebody_does() {
    let bench = Bench::new();
    for seq in 1..=10 {
        let written = bench.begin(false).unwrap().first().unwrap();
        assert_eq!(written.seq, seq);
    }
    assert_eq!(bench.syncs(), 0);
    answer(&bench.writer.shared.ask(Job::Flush).unwrap()).unwrap();
    assert_eq!((bench.syncs(), bench.covered()), (1, 10));
}

#[test]
fn a_checkpoint_is_kept_only_after_a_sync_of_what_it_vouches_for() {
    let bench = Bench::new();
    bench.begin(false).unwrap().first().unwrap();
    let signed = answer(&bench.writer.shared.ask(Job::Checkpoint).unwrap()).unwrap();
    assert_eq!(signed.head().seq, 1);
    assert_eq!((bench.syncs(), bench.covered()), (1, 2), "one for both");
    bench.fail_sync(2);
    let refused = answer(&bench.writer.shared.ask(Job::Checkpoint).unwrap());
    assert_eq!(refused.err(), Some(lost()));
    let file = bench.database.with_file_name("keys/checkpoints.jsonl");
    let kept = std::fs::read_to_string(file).unwrap();
    assert_eq!(kept.lines().count(), 1);
    assert_ne!(signed.head(), Head::genesis(&log()));
}

#[test]
fn nobody_waits_for_a_checkpoint_that_nobody_asked_for() {
    let mut bench = Bench::new();
    let file = bench.database.with_file_name("keys/checkpoints.jsonl");
    let held = bench.seen.held.lock().unwrap();
    // The checkpoint after the thousandth record is a record of its own.
    for seq in (1..=1_000).chain(1_002..=1_100) {
        let written = bench.begin(false).unwrap().first().unwrap();
        assert_eq!(written.seq, seq);
    }
    while bench.syncs() == 0 {
        std::thread::yield_now();
    }
    assert!(!file.exists(), "what it vouches for is not on disk yet");
    drop(held);
    bench.writer.close().unwrap();
    let kept = std::fs::read_to_string(file).unwrap();
    let signed: crate::SignedCheckpoint = kept.trim_end().parse().unwrap();
    assert_eq!(signed.head().seq, 1_000);
    assert_eq!(bench.syncs(), 1);
}
