//! Kills writers at random moments and holds the log against what they were promised.

#![expect(
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and this one starts itself as a child process"
)]

mod support;

use airlock_audit::{
    Buffering, Durability, Entry, Filter, Health, Log, LogConfig, Stage, StartupCheck,
};
use airlock_core::Timestamp;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use support::{Place, attempt, note};

const PLACE: &str = "AIRLOCK_CRASH_PLACE";
const NAME: &str = "AIRLOCK_CRASH_NAME";
const THREADS: &str = "AIRLOCK_CRASH_THREADS";
const LIMIT: &str = "AIRLOCK_CRASH_LIMIT";
const ROUNDS: usize = 200;
/// A fresh log now and then keeps the verification after each round short.
const ROUNDS_PER_LOG: usize = 20;
const WINDOW: usize = 100;

/// Not a test of its own: what the other tests of this file start as a process.
#[test]
fn child_writer() {
    let Ok(place) = std::env::var(PLACE) else {
        return;
    };
    let number = |name| std::env::var(name).expect("set").parse::<usize>();
    let name = std::env::var(NAME).expect("set");
    let threads = number(THREADS).expect("a number");
    let limit = number(LIMIT).expect("a number");
    let place = Path::new(&place);
    let clock = Arc::new(|| {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        Timestamp::from_micros(i64::try_from(since.expect("now").as_micros()).expect("fits"))
    });
    let mut config = LogConfig::new(&place.join("state"), &place.join("keys"), clock);
    config.buffering = Buffering::Windowed {
        records: WINDOW,
        millis: 500,
    };
    config.checkpoint_every = 50;
    config.startup = StartupCheck::Pages;
    let log = Log::open(config).expect("the log opens");
    let said = OpenOptions::new()
        .append(true)
        .create(true)
        .open(place.join(format!("said-{name}")))
        .expect("the promises can be written");
    say(&said, &format!("O {}", std::process::id()));
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (log, said, name) = (&log, &said, &name);
            scope.spawn(move || write_for_ever(log, said, &format!("{name}-{thread}"), limit));
        }
    });
    log.close().expect("the log closes");
}

fn write_for_ever(log: &Log, said: &File, name: &str, limit: usize) {
    for index in 0..limit {
        let id = format!("{name}-{index}");
        if index % 4 == 0 {
            let receipt = log.append(&attempt(&id), Durability::Durable);
            let written = receipt.expect("appended").written().expect("durable");
            say(said, &format!("D {} {}", written.seq, written.digest));
        } else {
            let entry: Entry = note(&id);
            log.append(&entry, Durability::Buffered).expect("appended");
            say(said, &format!("B {id}"));
        }
    }
}

/// One write call a line: what the parent reads was promised before the kill.
fn say(mut said: &File, line: &str) {
    said.write_all(format!("{line}\n").as_bytes())
        .expect("said");
}

fn start(place: &Path, name: &str, threads: usize, limit: usize) -> Child {
    Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "child_writer", "--nocapture"])
        .env(PLACE, place)
        .env(NAME, name)
        .env(THREADS, threads.to_string())
        .env(LIMIT, limit.to_string())
        .stdout(Stdio::null())
        .spawn()
        .expect("the child starts")
}

#[derive(Default)]
struct Promises {
    pid: Option<u32>,
    durable: Vec<(u64, String)>,
    buffered: Vec<String>,
}

fn promises(place: &Path, name: &str) -> Promises {
    let mut found = Promises::default();
    let text = std::fs::read_to_string(place.join(format!("said-{name}"))).unwrap_or_default();
    // A kill may cut the last line between two pages of the file: what was not said to its end was
    // not promised.
    let said = text.rsplit_once('\n').map_or("", |(said, _)| said);
    for line in said.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            ["O", pid] => found.pid = pid.parse().ok(),
            ["D", seq, digest] => {
                let seq = seq.parse().expect("a number");
                found.durable.push((seq, (*digest).to_owned()));
            }
            ["B", id] => found.buffered.push((*id).to_owned()),
            other => unreachable!("{other:?}"),
        }
    }
    found
}

/// What the log holds now, and that it holds together.
fn check_round(place: &Place, root: &Path, names: &[String], case: &str) -> Health {
    let log = place.open();
    let report = log.open_report().clone();
    let mut digests = HashMap::new();
    let mut ids = HashSet::new();
    let mut open_attempts = HashSet::new();
    for record in log.read(Filter::default()).expect("readable") {
        let record = record.expect("every record is intact");
        digests.insert(record.sealed.seq(), record.sealed.digest().to_string());
        if record.entry.stage == Stage::Attempt {
            open_attempts.insert(record.sealed.seq());
        }
        ids.extend(record.entry.input);
    }
    assert!(report.recovery.is_none(), "{case}: a kill damages nothing");
    let unfinished: HashSet<u64> = report.unfinished.iter().map(|found| found.seq).collect();
    for name in names {
        let promised = promises(root, name);
        if let Some(pid) = promised.pid {
            let reported = report.unclean.iter().any(|writer| writer.pid == pid);
            assert!(reported, "{case}: the end of {pid} is reported");
        }
        for (seq, digest) in &promised.durable {
            assert_eq!(
                digests.get(seq),
                Some(digest),
                "{case}: durable record {seq}"
            );
            assert!(
                unfinished.contains(seq),
                "{case}: attempt {seq} has no outcome"
            );
        }
        let lost = promised.buffered.iter().filter(|id| !ids.contains(*id));
        let lost = lost.count();
        assert!(lost <= WINDOW, "{case}: {lost} buffered records are lost");
    }
    let health = log.wait_for_health(Duration::from_secs(20));
    log.close().expect("the log closes");
    health
}

#[test]
fn killed_writers_lose_no_durable_record_and_never_break_the_chain() {
    let mut random = StdRng::seed_from_u64(0x00a1_710c);
    let mut durable = 0;
    let mut unclean = 0;
    for log in 0..ROUNDS / ROUNDS_PER_LOG {
        let place = Place::new();
        let root = place.directory.parent().expect("a parent").to_owned();
        for round in 0..ROUNDS_PER_LOG {
            let case = format!("log {log}, round {round}");
            let names: Vec<_> = (0..3).map(|child| format!("{round}-{child}")).collect();
            let mut children: Vec<_> = names
                .iter()
                .zip([3, 3, 2])
                .map(|(name, threads)| start(&root, name, threads, usize::MAX))
                .collect();
            std::thread::sleep(Duration::from_millis(random.random_range(15..110)));
            for child in &mut children {
                std::thread::sleep(Duration::from_millis(random.random_range(0..8)));
                child.kill().expect("killed");
                child.wait().expect("gone");
            }
            let health = check_round(&place, &root, &names, &case);
            assert!(
                matches!(health, Health::Verified { .. }),
                "{case}: {health:?}"
            );
            for name in &names {
                let promised = promises(&root, name);
                durable += promised.durable.len();
                unclean += usize::from(promised.pid.is_some());
            }
        }
        // The reports were settled: a start after a clean end has nothing to say.
        let log = place.open();
        assert!(log.open_report().is_clean());
        drop(log);
        assert!(place.verify().is_intact());
    }
    // The kills must have hit writers at work, or the test proved nothing.
    assert!(durable > ROUNDS, "{durable} durable records in all");
    assert!(unclean > ROUNDS, "{unclean} writers were killed while open");
}

#[test]
fn processes_that_append_at_once_build_one_gapless_chain() {
    let place = Place::new();
    let root = place.directory.parent().expect("a parent").to_owned();
    let children: Vec<_> = ["a", "b", "c"]
        .map(|name| start(&root, name, 2, 40))
        .into_iter()
        .collect();
    for mut child in children {
        assert!(child.wait().expect("ends").success());
    }
    let log = place.open();
    assert!(log.open_report().is_clean(), "everybody closed");
    let records = support::all(&log);
    let numbers: Vec<u64> = records.iter().map(|record| record.sealed.seq()).collect();
    let wanted: Vec<u64> = (1..=records.len() as u64).collect();
    assert_eq!(numbers, wanted);
    let written = support::texts(&records);
    assert_eq!(written.len(), 3 * 2 * 40, "each record once");
    drop(log);
    assert!(place.verify().is_intact());
}
