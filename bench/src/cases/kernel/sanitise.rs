//! The sanitiser's throughput on one core, beside copying the same text: by its rules alone, and
//! with exact values to look for.

use crate::failure::Failure;
use crate::measure::{self, Rounds, Samples};
use crate::options::Options;
use crate::table::Row;
use airlock_sanitise::{Bound, Keep, Patterns, Sanitiser, Values};
use serde_json::Value;
use std::fmt::Write as _;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

const WANTED: f64 = 200e6;
const BYTES: usize = 8 * 1024 * 1024;
/// Times the text is gone through in one round.
const RUNS: usize = 5;
/// Values to look for: what a broker of a busy workspace holds.
const VALUES: usize = 20;

const SOURCE: &str = "    let frame_7 = buffer.decode(offset); // the frame of a buffer\n\
    pub fn compute(value: &str) -> Result<u64, Error> { value.parse().map_err(Error::from) }\n";

const COLOURED: &str = "\u{1b}[32m   Compiling\u{1b}[0m airlock v0.1.0\n\
    \u{1b}[1m\u{1b}[33mwarning\u{1b}[0m: unused variable: `frame`\n  --> src/main.rs:7:9\n";

pub(in super::super) fn run(options: &Options) -> Result<Vec<Row>, Failure> {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let texts = [
        ("source code", SOURCE.to_owned(), false),
        ("the coloured output of a build", COLOURED.to_owned(), false),
        ("base64", base64(&mut random), false),
        (
            "settings, a secret in every fourth line",
            settings(&mut random),
            true,
        ),
    ];
    let mut rows = Vec::new();
    for (what, text, secret) in &texts {
        let text = text.repeat(BYTES / text.len());
        for (with, values) in [("", 0), (", 20 exact values", VALUES)] {
            let sanitiser = sanitiser(values, &mut random)?;
            let name = format!("sanitiser, {what}{with}");
            rows.push(one(options, name, &text, *secret, &sanitiser)?);
        }
    }
    Ok(rows)
}

fn one(
    options: &Options,
    name: String,
    text: &str,
    secret: bool,
    sanitiser: &Sanitiser,
) -> Result<Row, Failure> {
    let bound = Bound::bytes(Keep::Head, usize::MAX);
    let clean = sanitiser.value(Value::String(text.to_owned()), bound);
    let visible = clean.value.as_str().unwrap_or_default();
    let done = !visible.contains('\u{1b}') && !visible.is_empty() && (clean.secrets > 0) == secret;
    if clean.cut || !done {
        return Err(Failure::new("the sanitiser did not do its work"));
    }
    let mut copies = Vec::new();
    let ours = Rounds::new(options.pick(6, 2), || {
        let mut ours = Vec::new();
        for _ in 0..RUNS {
            let start = Instant::now();
            let value = Value::String(black_box(text).to_owned());
            copies.push(measure::nanos(start.elapsed()));
            let start = Instant::now();
            black_box(sanitiser.value(value, bound));
            ours.push(measure::nanos(start.elapsed()));
        }
        Samples::new(ours)
    });
    let bytes = f64::from(u32::try_from(text.len()).unwrap_or(u32::MAX));
    let rate = |nanos: f64| bytes / (nanos / 1e9);
    let told = ours.text(50, |nanos| measure::rate_text(rate(nanos)));
    let copy = rate(Samples::new(copies).median());
    let ours = rate(ours.quietest(50));
    Ok(Row::new(name)
        .measured(told)
        .against(format!(
            "{} copying the same text",
            measure::rate_text(copy)
        ))
        .ratio(ours / copy)
        .wanted("over 200 MB/s", ours > WANTED))
}

fn sanitiser(values: usize, random: &mut Random) -> Result<Sanitiser, Failure> {
    let mut set = Values::new();
    for number in 0..values {
        set.add(&format!("VALUE_{number}"), random.text(40).as_bytes())
            .map_err(|refused| Failure::new(refused.to_string()))?;
    }
    Ok(Sanitiser::with(Arc::new(set), Arc::new(Patterns::new())))
}

fn base64(random: &mut Random) -> String {
    let mut text = String::new();
    for _ in 0..4_000 {
        text.push_str(&random.text(76));
        text.push('\n');
    }
    text
}

fn settings(random: &mut Random) -> String {
    let mut text = String::new();
    for number in 0..1_000 {
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "# the settings of service {number}, as its operator wants them\n\
             SERVICE_{number}_URL=https://service-{number}.example.com/api/v2\n\
             SERVICE_{number}_TIMEOUT_SECONDS=30\nSERVICE_{number}_TOKEN=ghp_{}\n",
            random.text(36).replace(['+', '/'], "x")
        );
    }
    text
}

/// Small, quick and always the same.
struct Random(u64);

impl Random {
    fn text(&mut self, length: usize) -> String {
        const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut one = || {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            let index = usize::try_from(self.0 % 64).unwrap_or(0);
            ALPHABET.get(index).map_or('A', |byte| char::from(*byte))
        };
        (0..length).map(|_| one()).collect()
    }
}
