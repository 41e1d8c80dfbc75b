//! The sanitiser's throughput on one core, beside copying the same text.

use crate::failure::Failure;
use crate::measure::{self, Samples};
use crate::options::Options;
use crate::table::Row;
use airlock_kernel::sanitise;
use airlock_kernel::tools::Keep;
use serde_json::Value;
use std::hint::black_box;
use std::time::Instant;

const WANTED: f64 = 200e6;
const BYTES: usize = 8 * 1024 * 1024;

const SOURCE: &str = "    let frame_7 = buffer.decode(offset); // the frame of a buffer\n\
    pub fn compute(value: &str) -> Result<u64, Error> { value.parse().map_err(Error::from) }\n";

const COLOURED: &str = "\u{1b}[32m   Compiling\u{1b}[0m airlock v0.1.0\n\
    \u{1b}[1m\u{1b}[33mwarning\u{1b}[0m: unused variable: `frame`\n  --> src/main.rs:7:9\n";

pub(in super::super) fn run(options: &Options) -> Result<Vec<Row>, Failure> {
    [
        ("source code", SOURCE),
        ("the coloured output of a build", COLOURED),
    ]
    .into_iter()
    .map(|(what, line)| one(options, what, line))
    .collect()
}

fn one(options: &Options, what: &str, line: &str) -> Result<Row, Failure> {
    let text = line.repeat(BYTES / line.len());
    let clean = sanitise(Value::String(text.clone()), Keep::Head, usize::MAX);
    let visible = clean.value.as_str().unwrap_or_default();
    if clean.cut || visible.contains('\u{1b}') || visible.is_empty() {
        return Err(Failure::new("the sanitiser did not do its work"));
    }
    let (mut ours, mut copies) = (Vec::new(), Vec::new());
    for _ in 0..options.pick(25, 5) {
        let start = Instant::now();
        let value = Value::String(black_box(&text).clone());
        copies.push(measure::nanos(start.elapsed()));
        let start = Instant::now();
        black_box(sanitise(value, Keep::Head, usize::MAX));
        ours.push(measure::nanos(start.elapsed()));
    }
    let bytes = f64::from(u32::try_from(text.len()).unwrap_or(u32::MAX));
    let rate = |samples: Vec<f64>| bytes / (Samples::new(samples).median() / 1e9);
    let (ours, copy) = (rate(ours), rate(copies));
    Ok(Row::new(format!("sanitiser, {what}"))
        .measured(measure::rate_text(ours))
        .against(format!(
            "{} copying the same text",
            measure::rate_text(copy)
        ))
        .ratio(ours / copy)
        .wanted("over 200 MB/s", ours > WANTED))
}
