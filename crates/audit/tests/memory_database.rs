//! Verifying a long log on disk takes no more memory than a short one. Alone in its process, so
//! that nothing else counts.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

mod support;

use airlock_audit::{Durability, Entry, Log};
use support::{Place, note};

const RECORDS: usize = 200_000;
const BATCH: usize = 1_000;
/// Caches of three connections, a few batches, a thousand entries; a third of the log's size.
const MOST: u64 = 24 * 1024;

/// The largest this process has been, in KiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let number = line
        .expect("Linux reports the peak")
        .split_whitespace()
        .nth(1);
    number.unwrap().parse().unwrap()
}

#[test]
fn writing_and_verifying_two_hundred_thousand_records_takes_flat_memory() {
    let place = Place::new();
    let before = peak();
    let log: Log = place.open();
    let batch: Vec<Entry> = (0..BATCH).map(|_| note(&"x".repeat(250))).collect();
    for _ in 0..RECORDS / BATCH {
        log.append_batch(&batch, Durability::Buffered)
            .expect("appended");
    }
    log.close().expect("closes");
    let report = place.verify();
    assert!(report.is_intact(), "{report:?}");
    assert!(report.chain.unwrap().records >= RECORDS as u64);
    let size = std::fs::metadata(place.database()).unwrap().len() / 1024;
    let grown = peak() - before;
    assert!(size > 2 * MOST, "a log of {size} KiB proves nothing");
    assert!(grown < MOST, "{grown} KiB of memory for {size} KiB of log");
}
