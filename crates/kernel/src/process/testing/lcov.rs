//! The line coverage a test run left behind, in lcov's format.

use crate::beneath::Root;
use serde_json::{Value, json};
use std::io::{BufReader, Read as _};
use std::time::SystemTime;

/// Where tools leave it.
pub(crate) const PLACES: &[&str] = &[
    "lcov.info",
    "coverage/lcov.info",
    "target/lcov.info",
    "target/llvm-cov/lcov.info",
    "target/coverage/lcov.info",
    "coverage.lcov",
];

/// The most that is read.
const BYTES: u64 = 64 * 1024 * 1024;

/// The coverage in the first file found that was written after `begun`.
pub(in crate::process) fn coverage(root: &Root, begun: SystemTime) -> Option<Value> {
    PLACES.iter().find_map(|place| {
        let file = root.open_file(place).ok()?;
        let written = file.metadata().and_then(|found| found.modified()).ok()?;
        if written < begun {
            return None;
        }
        let (found, hit) = summed(BufReader::new(file.take(BYTES)))?;
        Some(json!({ "file": place, "lines_found": found, "lines_hit": hit }))
    })
}

/// Lines that can be covered, and those that were.
fn summed(reader: impl std::io::BufRead) -> Option<(u64, u64)> {
    let (mut found, mut hit) = (0_u64, 0_u64);
    let mut records = 0_u64;
    for line in reader.lines() {
        let line = line.ok()?;
        let number = |text: &str| text.trim().parse::<u64>().ok();
        if let Some(text) = line.strip_prefix("LF:") {
            found = found.saturating_add(number(text)?);
        } else if let Some(text) = line.strip_prefix("LH:") {
            hit = hit.saturating_add(number(text)?);
        } else if line.trim() == "end_of_record" {
            records += 1;
        }
    }
    (records > 0 && hit <= found).then_some((found, hit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_summed_over_files_and_nonsense_counts_for_nothing() {
        let record = |found: &str, hit: &str| {
            format!("TN:\nSF:a\nDA:1,1\nLF:{found}\nLH:{hit}\nend_of_record\n")
        };
        let two = record("10", "4") + &record("5", "5");
        assert_eq!(summed(two.as_bytes()), Some((15, 9)));
        for text in [
            record("1", "2"),
            record("x", "1"),
            "LF:3\nLH:1\n".to_owned(),
            String::new(),
        ] {
            assert_eq!(summed(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn only_what_this_run_left_counts() {
        let place = tempfile::tempdir().unwrap();
        let root = Root::open(place.path()).unwrap();
        std::fs::write(
            place.path().join("lcov.info"),
            "SF:a\nLF:2\nLH:1\nend_of_record\n",
        )
        .unwrap();
        let before = SystemTime::UNIX_EPOCH;
        let later = SystemTime::now() + std::time::Duration::from_mins(1);
        assert_eq!(coverage(&root, before).unwrap()["lines_hit"], 1);
        assert_eq!(coverage(&root, later), None);
    }
}
