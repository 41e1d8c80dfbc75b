//! `search.grep` and `search.glob` down the whole road against `rg` on the same tree.
//!
//! Both use the same number of threads, return every match, and find the same ones: that is checked
//! first. Policy is asked about each file on our side only. `rg` is a process of its own, as in
//! every agent that uses it, so its start counts.

use super::{WHOLE, config, corpus, submit};
use crate::failure::Failure;
use crate::machine;
use crate::measure::{self, Samples};
use crate::options::Options;
use crate::table::Row;
use airlock_kernel::{Call, Kernel};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

const WANTED: &str = "at most 1.2 x";
const MOST: f64 = 1.2;
const FILE_BYTES: usize = 5_000;

/// One search, said to both.
struct Search {
    what: &'static str,
    call: Call,
    arguments: &'static [&'static str],
    /// The count or list in our result with one for each line of `rg`.
    results: &'static str,
}

pub(in super::super) fn run(options: &Options) -> Result<Vec<Row>, Failure> {
    let searches = searches();
    if machine::program_version("rg").is_none() {
        let why = "not installed: apt-get install ripgrep";
        let row = |search: &Search| Row::missing(search.what, WANTED, why);
        return Ok(searches.iter().map(row).collect());
    }
    let directory = tempfile::tempdir()?;
    let workspace = directory.path().join("work");
    let files = options.pick(20_000, 2_000);
    corpus::write(&workspace, files, FILE_BYTES)?;
    let state = directory.path().join("state");
    let kernel = Kernel::open(config(&workspace, &state, WHOLE))?;
    let rows = searches
        .iter()
        .map(|search| compare(options, &kernel, &workspace, search, files))
        .collect();
    kernel.close()?;
    rows
}

fn searches() -> [Search; 3] {
    [
        Search {
            what: "search.grep, a rare word",
            call: Call::new(
                "search.grep",
                json!({"pattern": corpus::RARE, "max_matches": 100_000}),
            ),
            arguments: &["-n", "--no-heading", corpus::RARE],
            results: "matches",
        },
        Search {
            what: "search.grep, a regular expression with many matches",
            call: Call::new(
                "search.grep",
                json!({"pattern": corpus::COMMON, "max_matches": 100_000}),
            ),
            arguments: &["-n", "--no-heading", corpus::COMMON],
            results: "matches",
        },
        Search {
            what: "search.glob `*.rs`",
            call: Call::new(
                "search.glob",
                json!({"pattern": "*.rs", "limit": 1_000_000}),
            ),
            arguments: &["--files", "-g", "*.rs"],
            results: "paths",
        },
    ]
}

fn compare(
    options: &Options,
    kernel: &Kernel,
    workspace: &Path,
    search: &Search,
    files: usize,
) -> Result<Row, Failure> {
    let ours = submit(kernel, &search.call)?;
    let found = count(ours.value.get(search.results));
    let expected = rg(workspace, search.arguments)?;
    let expected = String::from_utf8_lossy(&expected).lines().count();
    if found != expected || found == 0 || ours.cut {
        return Err(Failure::new(format!(
            "{}: {found} results, rg has {expected}",
            search.what
        )));
    }
    let (mut road, mut peer) = (Vec::new(), Vec::new());
    for _ in 0..options.pick(15, 5) {
        let start = Instant::now();
        submit(kernel, &search.call)?;
        road.push(measure::nanos(start.elapsed()));
        let start = Instant::now();
        rg(workspace, search.arguments)?;
        peer.push(measure::nanos(start.elapsed()));
    }
    let ratio = measure::median_ratio(&road, &peer);
    let (road, peer) = (Samples::new(road).median(), Samples::new(peer).median());
    Ok(
        Row::new(format!("{}, {found} found in {files} files", search.what))
            .measured(measure::time_text(road))
            .against(format!("{} rg", measure::time_text(peer)))
            .ratio(ratio)
            .wanted(WANTED, ratio <= MOST),
    )
}

fn count(results: Option<&Value>) -> usize {
    match results {
        Some(Value::Array(list)) => list.len(),
        other => other
            .and_then(Value::as_u64)
            .and_then(|number| usize::try_from(number).ok())
            .unwrap_or(0),
    }
}

/// Runs `rg` and takes what it prints.
#[expect(
    clippy::disallowed_methods,
    reason = "the peer is a program, and nothing here is sandboxed"
)]
fn rg(workspace: &Path, arguments: &[&str]) -> Result<Vec<u8>, Failure> {
    let output = Command::new("rg")
        .arg("--no-config")
        .arg("--threads")
        .arg(machine::cores().to_string())
        .args(arguments)
        .arg(".")
        .current_dir(workspace)
        .output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(Failure::new(format!("rg failed: {said}")));
    }
    Ok(output.stdout)
}
