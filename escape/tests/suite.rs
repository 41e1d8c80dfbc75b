//! The whole suite, as whoever runs the tests.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use airlock_escape::{Launcher, Row, Suite, Verdict};
use std::path::Path;

/// Attacks that are known to get through, and why that is so for now. One that is held is to be
/// taken off the list, so that it stays held.
const OPEN: &[(&str, &str)] = &[];

fn complaint(row: &Row) -> Option<String> {
    let open = OPEN.iter().find(|(name, _)| *name == row.attack);
    match (&row.verdict, open) {
        (Verdict::Held, None) | (Verdict::Failed(_), Some(_)) => None,
        (Verdict::Held, Some(_)) => Some(format!("{}: held, and listed as open", row.attack)),
        (Verdict::Failed(problem), None) => Some(format!("{}: {problem}", row.attack)),
    }
}

fn run(launcher: Launcher) {
    let probe = Path::new(env!("CARGO_BIN_EXE_airlock-probe"));
    let runner = Path::new(env!("CARGO_BIN_EXE_airlock-escape"));
    let suite = Suite::new(launcher, probe, runner).unwrap();
    let rows = suite.run(None, &|_, _| {});
    assert!(rows.len() >= 110, "{} attacks", rows.len());
    let complaints: Vec<String> = rows.iter().filter_map(complaint).collect();
    assert!(
        complaints.is_empty(),
        "{} of {} attacks:\n{}",
        complaints.len(),
        rows.len(),
        complaints.join("\n")
    );
}

#[test]
fn the_native_launcher_holds_every_attack() {
    run(Launcher::Native);
}
