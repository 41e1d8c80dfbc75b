//! The whole suite, as whoever runs the tests.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use airlock_escape::{Attack, Launcher, Row, Suite, Verdict, attacks};
use std::path::Path;

fn complaint(row: &Row) -> Option<String> {
    match &row.verdict {
        Verdict::Held | Verdict::Limit(_) => None,
        Verdict::Failed(problem) => Some(format!("{}: {problem}", row.attack)),
    }
}

/// Whether the same probe was seen to succeed, or could not be run by whoever runs this.
fn is_controlled(row: &Row) -> bool {
    let shown = row.control.as_str();
    shown.starts_with("succeeds") || shown == "lives on" || shown == "only as root"
}

fn run(launcher: Launcher, known_limits: &[&str]) {
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
    for row in &rows {
        let limit = matches!(row.verdict, Verdict::Limit(_));
        let known = known_limits.contains(&row.attack);
        assert!(!limit || known, "`{}` is no known limit", row.attack);
        let may_lack = |attack: &Attack| attack.name == row.attack && attack.may_lack_control();
        assert!(
            is_controlled(row) || attacks().any(|attack| may_lack(&attack)),
            "`{}` has no control: {}",
            row.attack,
            row.control
        );
    }
}

#[test]
fn the_native_launcher_holds_every_attack_but_the_stated_limits() {
    let limits = ["denied-program", "bomb-sockets"];
    run(Launcher::Native, &limits);
}

#[test]
fn the_bwrap_launcher_holds_every_attack_but_the_stated_limits() {
    let program = Path::new("/usr/bin/bwrap");
    assert!(
        program.exists(),
        "bubblewrap is not installed: `cargo xtask setup` installs it"
    );
    let limits = [
        "socket-in-read-grant",
        "bomb-shared-memory",
        "bomb-inodes",
        "bomb-sockets",
    ];
    run(Launcher::Bwrap, &limits);
}
