//! Writes `bench/RESULTS.md`.

use crate::cases;
use crate::failure::Failure;
use crate::machine;
use crate::table::{self, Row};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/RESULTS.md");

/// Crates whose version matters for a figure.
const CRATES: &[&str] = &[
    "cedar-policy",
    "regorus",
    "rusqlite",
    "aws-lc-rs",
    "sha2",
    "hmac",
];

pub(crate) fn write(rows: &[Row], load_before: &str) -> Result<(), Failure> {
    Ok(std::fs::write(FILE, text(rows, load_before))?)
}

fn text(rows: &[Row], load_before: &str) -> String {
    let date = jiff::Timestamp::now().strftime("%Y-%m-%d %H:%M UTC");
    format!(
        "# Results\n\n\
         Written by `cargo xtask bench`; do not edit. How each figure is measured: \
         [README.md](README.md).\n\n\
         - date: {date}\n\
         {}\
         - load average, before and after: {load_before} / {}\n\n\
         {}\n\n{}",
        setting(),
        machine::load(),
        table::summary(rows),
        table::markdown(rows),
    )
}

/// The machine and the versions, a line each.
pub(crate) fn setting() -> String {
    let program = |name: &str| {
        machine::program_version(name).unwrap_or_else(|| format!("{name} not installed"))
    };
    let crates: Vec<String> = CRATES
        .iter()
        .map(|name| format!("{name} {}", machine::crate_version(name)))
        .collect();
    let peers: Vec<String> = ["rg", "bwrap", "docker"]
        .into_iter()
        .map(program)
        .chain(cases::npm_versions())
        .collect();
    let sha = if airlock_core::has_sha_instructions() {
        "yes"
    } else {
        "no"
    };
    format!(
        "- processor: {} x {}, SHA instructions: {sha}\n\
         - memory: {}\n\
         - kernel: Linux {}\n\
         - versions: {}; {}; SQLite {}\n\
         - peers: {}\n",
        machine::cores(),
        machine::processor(),
        machine::memory(),
        machine::kernel(),
        program("rustc"),
        crates.join(", "),
        rusqlite::version(),
        peers.join("; "),
    )
}
