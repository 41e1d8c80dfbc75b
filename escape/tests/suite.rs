//! The whole suite, as whoever runs the tests.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use airlock_escape::{Launcher, Row, Suite, Verdict};
use std::path::Path;

fn complaint(row: &Row) -> Option<String> {
    match &row.verdict {
        Verdict::Held | Verdict::Limit(_) => None,
        Verdict::Failed(problem) => Some(format!("{}: {problem}", row.attack)),
    }
}

fn run(launcher: Launcher, most_limits: usize) {
    let probe = Path::new(env!("CARGO_BIN_EXE_airlock-probe"));
    let runner = Path::new(env!("CARGO_BIN_EXE_airlock-escape"));
    let suite = Suite::new(launcher, probe, runner).unwrap();
    let rows = suite.run(None, &|_, _| {});
    assert!(rows.len() >= 110, "{} attacks", rows.len());
    let limits = rows
        .iter()
        .filter(|row| matches!(row.verdict, Verdict::Limit(_)));
    assert!(
        limits.count() <= most_limits,
        "a limit must be stated to be one"
    );
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
fn the_native_launcher_holds_every_attack_but_the_stated_limits() {
    run(Launcher::Native, 4);
}

#[test]
fn the_bwrap_launcher_holds_every_attack_but_the_stated_limits() {
    let program = Path::new("/usr/bin/bwrap");
    assert!(
        program.exists(),
        "bubblewrap is not installed: `cargo xtask setup` installs it"
    );
    run(Launcher::Bwrap, 5);
}
