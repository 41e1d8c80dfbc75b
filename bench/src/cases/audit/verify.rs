//! Verifying a big log: its speed beside plain SHA-256 over the same bytes, and its memory.
//!
//! A child process verifies, so that its peak memory is that of verifying and of nothing else. The
//! verification is the one of `airlock audit verify`: SQLite's own check of the pages, every digest,
//! every link, every checkpoint, every entry decoded.

use super::{entries, open};
use crate::failure::Failure;
use crate::machine;
use crate::measure::{self, Samples};
use crate::options::Options;
use crate::table::Row;
use airlock_audit::{Depth, Durability, VerifyOptions, verify_database};
use airlock_core::Hashing;
use rusqlite::{Connection, OpenFlags};
use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

const BATCH: u64 = 1_000;
/// Turns of ours and the peer.
const TURNS: usize = 7;
const WANTED: f64 = 0.5;
/// Whatever the log's size.
const MOST_MEMORY: u64 = 64 * 1024;

pub(in super::super) fn run(options: &Options) -> Result<Vec<Row>, Failure> {
    let records = options.pick(1_000_000, 50_000);
    let directory = quick_directory()?;
    let state = directory.path().join("state");
    build(&state, records)?;
    let database = state.join("audit.db");
    let (mut entries, mut digests, mut plain) = (Vec::new(), Vec::new(), Vec::new());
    let (mut bytes, mut verified, mut grown) = (0.0, u64::MAX, 0);
    for _ in 0..options.pick(TURNS, 3) {
        let found = child(&state, Depth::Entries)?;
        let hashed = plain_sha256(&database)?;
        digests.push(child(&state, Depth::Digests)?.seconds);
        entries.push(found.seconds);
        plain.push(hashed.seconds);
        bytes = hashed.bytes;
        verified = verified.min(found.records);
        grown = grown.max(found.peak.saturating_sub(found.before));
    }
    if verified < records {
        return Err(Failure::new("the verification skipped records"));
    }
    // How much more of the bytes a second: the time of the peer by ours.
    let [ratio, digests_ratio] =
        [&entries, &digests].map(|ours| measure::median_ratio(&plain, ours));
    let [entries, digests, plain] =
        [entries, digests, plain].map(|seconds| Samples::new(seconds).median());
    let rate = |seconds: f64| measure::rate_text(bytes / seconds);
    Ok(vec![
        Row::new(format!("verify a log of {verified} records"))
            .measured(format!("{}, {entries:.2} s", rate(entries)))
            .against(format!("{} SHA-256 over the same bytes", rate(plain)))
            .ratio(ratio)
            .wanted("at least 0.5 x", ratio >= WANTED),
        Row::new("the same without decoding entries")
            .measured(format!("{}, {digests:.2} s", rate(digests)))
            .ratio(digests_ratio),
        Row::new(format!("memory of verifying {verified} records"))
            .measured(format!("{:.1} MiB more at its peak", mebibytes(grown)))
            .against(format!("{:.0} MiB of records", bytes / (1024.0 * 1024.0)))
            .wanted("under 64 MiB", grown < MOST_MEMORY),
    ])
}

/// In memory where there is such a place: building the log syncs the disk thousands of times, and
/// verifying it reads from the page cache either way.
fn quick_directory() -> std::io::Result<tempfile::TempDir> {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())
}

fn mebibytes(kibibytes: u64) -> f64 {
    f64::from(u32::try_from(kibibytes).unwrap_or(u32::MAX)) / 1024.0
}

fn build(state: &Path, records: u64) -> Result<(), Failure> {
    let log = open(state)?;
    let batch = entries(BATCH)?;
    for _ in 0..records / BATCH {
        for entry in &batch {
            log.append(entry, Durability::Buffered)?;
        }
    }
    log.close()?;
    Ok(())
}

struct Found {
    records: u64,
    seconds: f64,
    before: u64,
    peak: u64,
}

#[expect(
    clippy::disallowed_methods,
    reason = "it starts itself, to measure memory in a fresh process"
)]
fn child(state: &Path, depth: Depth) -> Result<Found, Failure> {
    let program = std::env::current_exe()?;
    let output = Command::new(program)
        .arg(match depth {
            Depth::Entries => "--verify-in-child",
            Depth::Digests => "--verify-digests-in-child",
        })
        .arg(state)
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let numbers: Vec<f64> = text
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    let [records, seconds, before, peak] = *numbers.as_slice() else {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(Failure::new(format!("the child failed: {said}")));
    };
    Ok(Found {
        records: whole(records),
        seconds,
        before: whole(before),
        peak: whole(peak),
    })
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts printed by ourselves"
)]
const fn whole(number: f64) -> u64 {
    number as u64
}

/// What the child does: records, seconds, kibibytes before and at the peak.
pub(crate) fn verify_in_child(state: &Path, depth: Depth) -> Result<String, Failure> {
    let peak = || machine::own_memory("VmHWM").ok_or_else(|| Failure::new("no VmHWM"));
    let before = peak()?;
    let start = Instant::now();
    let options = VerifyOptions {
        depth,
        ..VerifyOptions::default()
    };
    let report = verify_database(state, &state.join("keys"), &options)?;
    let seconds = start.elapsed().as_secs_f64();
    if !report.is_intact() {
        return Err(Failure::new("the log does not verify"));
    }
    let records = report.chain?.records;
    Ok(format!("{records} {seconds} {before} {}", peak()?))
}

/// The bytes of all records, and the time that plain SHA-256 takes for them, in memory.
struct Hashed {
    bytes: f64,
    seconds: f64,
}

fn plain_sha256(path: &Path) -> Result<Hashed, Failure> {
    const PIECE: usize = 4 * 1024 * 1024;
    let db = reader(path)?;
    let mut statement = db.prepare("SELECT stored FROM records ORDER BY seq")?;
    let mut rows = statement.query([])?;
    let (mut hash, mut bytes) = (Hashing::new(), 0.0);
    let (mut piece, mut nanos_a_byte) = (Vec::with_capacity(2 * PIECE), Vec::new());
    let mut more = true;
    while more {
        piece.clear();
        while more && piece.len() < PIECE {
            match rows.next()? {
                Some(row) => piece.extend_from_slice(row.get_ref(0)?.as_blob()?),
                None => more = false,
            }
        }
        let size = f64::from(u32::try_from(piece.len())?);
        let start = Instant::now();
        hash.update(black_box(&piece));
        nanos_a_byte.push(measure::nanos(start.elapsed()) / size.max(1.0));
        bytes += size;
    }
    black_box(hash.finish());
    let seconds = bytes * Samples::new(nanos_a_byte).median() / 1e9;
    Ok(Hashed { bytes, seconds })
}

#[expect(
    clippy::disallowed_methods,
    reason = "reads the bytes the peer hashes, not the log"
)]
fn reader(path: &Path) -> Result<Connection, Failure> {
    Ok(Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_ONLY,
    )?)
}
