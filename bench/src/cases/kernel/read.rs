//! `fs.read` down the whole road - identify, validate, decide, execute, sanitise, record - against
//! opening and reading the same file.

use super::{config, submit};
use crate::failure::Failure;
use crate::measure::{self, Rounds};
use crate::options::Options;
use crate::table::Row;
use airlock_kernel::{Call, DEFAULT_OUTPUT_BYTES, Kernel};
use serde_json::json;
use std::fs;
use std::hint::black_box;
use std::path::Path;

const FILE: &str = "src/main.rs";
/// Reads of one round.
const READS: usize = 500;
const MEDIAN: f64 = 150_000.0;
const TAIL: f64 = 500_000.0;

pub(in super::super) fn run(options: &Options) -> Result<Vec<Row>, Failure> {
    let directory = tempfile::tempdir()?;
    let workspace = directory.path().join("work");
    fs::create_dir_all(workspace.join("src"))?;
    let mut rows = Vec::new();
    for kibibytes in [4, 12, 64] {
        let line = "    let frame_7 = buffer.decode(offset); // the frame of a buffer\n";
        let text = line.repeat(kibibytes * 1024 / line.len());
        fs::write(workspace.join(FILE), &text)?;
        let state = directory.path().join(format!("state-{kibibytes}"));
        rows.extend(measure_file(options, &workspace, &state, kibibytes, &text)?);
    }
    Ok(rows)
}

fn measure_file(
    options: &Options,
    workspace: &Path,
    state: &Path,
    kibibytes: usize,
    text: &str,
) -> Result<Vec<Row>, Failure> {
    let kernel = Kernel::open(config(workspace, state, DEFAULT_OUTPUT_BYTES))?;
    let call = Call::new("fs.read", json!({"path": FILE, "limit_lines": 100_000}));
    let found = submit(&kernel, &call)?;
    // A result holds so much and no more: of a larger file it shows the beginning.
    let whole = text.len() < DEFAULT_OUTPUT_BYTES;
    let shown = found.value.to_string();
    if !shown.contains("the frame of a buffer") || (whole && shown.len() < text.len()) {
        return Err(Failure::new("the road did not give the file back"));
    }
    let path = workspace.join(FILE);
    let plain = || fs::read(&path).map(|bytes| bytes.len());
    if plain()? != text.len() {
        return Err(Failure::new("the file is not the one that was written"));
    }
    let rounds = options.pick(20, 3);
    let mut failed = 0;
    let mut road = || {
        failed += usize::from(black_box(submit(&kernel, &call)).is_err());
    };
    measure::each(READS, &mut road);
    let ours = Rounds::new(rounds, || measure::each(READS, &mut road));
    let raw = Rounds::new(rounds, || measure::each(READS, || drop(black_box(plain()))));
    if failed > 0 {
        return Err(Failure::new(format!("{failed} reads failed")));
    }
    kernel.close()?;
    let rows = [(50, MEDIAN), (99, TAIL)].map(|(percent, limit)| {
        let told = ours.text(percent, measure::time_text);
        let (ours, raw) = (ours.quietest(percent), raw.quietest(percent));
        let row = Row::new(format!("fs.read of {kibibytes} KiB, p{percent}"))
            .measured(told)
            .against(format!("{} open and read(2)", measure::time_text(raw)))
            .ratio(ours / raw);
        if whole {
            let wanted = format!("under {} more", measure::time_text(limit));
            row.wanted(wanted, ours - raw < limit)
        } else {
            row
        }
    });
    Ok(rows.into())
}
