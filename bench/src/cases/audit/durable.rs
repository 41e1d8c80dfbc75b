//! Durable appends of many threads against the disk's own fsync rate, in the same directory.
//!
//! A plain log that gives each record an fsync of its own gets exactly that rate, however many
//! threads write. One that only shares its syncs shows what is left of the disk's rate once so many
//! threads have been put to sleep and woken on this machine, whatever is written.

use super::{entries, limited, open, shared, stored};
use crate::failure::Failure;
use crate::measure::{self, Samples};
use crate::options::Options;
use crate::table::Row;
use airlock_audit::{Durability, Entry, Log};
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

pub(super) const WRITERS: usize = 32;
pub(super) const WANTED: f64 = 10.0;
/// Where a sync takes less, putting callers to sleep and waking them is most of what there is time for at
/// ten times its rate, whatever is written: the row of sharing alone shows it. A part of that is wanted there.
const QUICK: Duration = Duration::from_micros(500);
const WANTED_OF_SHARING: f64 = 0.5;

pub(in super::super) fn run(options: &Options) -> Result<Vec<Row>, Failure> {
    let each = options.pick(200, 20);
    let entries = entries(u64::try_from(WRITERS * each)?)?;
    let stored = stored(&entries)?;
    let one = entries.get(..each).unwrap_or(&entries);
    let syncs = options.pick(500, 50);
    let directory = tempfile::tempdir()?;
    let (mut alone, mut together, mut raw) = (Vec::new(), Vec::new(), Vec::new());
    let mut sharing = Vec::new();
    // One log for all rounds, as a kernel has: how much of it was written before makes a difference.
    let [lone, many] = [
        open(&directory.path().join("alone"))?,
        open(&directory.path().join("together"))?,
    ];
    // In turns, because a shared disk is not equally quick all the time.
    for _ in 0..options.pick(7, 3) {
        raw.push(fsync_rate(directory.path(), &stored, syncs)?);
        alone.push(append_rate(&lone, one, each)?);
        together.push(append_rate(&many, &entries, each)?);
        let took = shared::append(directory.path(), &stored, WRITERS)?;
        sharing.push(per_second(stored.len(), took));
    }
    lone.close()?;
    many.close()?;
    let ratios = [&alone, &together, &sharing].map(|rates| measure::median_ratio(rates, &raw));
    let of_sharing = measure::median_ratio(&together, &sharing);
    let rates = [alone, together, sharing, raw].map(|rates| Samples::new(rates).median());
    let ([alone_ratio, ratio, sharing_ratio], [alone, together, sharing, raw]) = (ratios, rates);
    let row = |threads: usize, rate: f64, ratio: f64| {
        Row::new(format!("durable append, threads: {threads}"))
            .measured(format!("{rate:.0} records a second"))
            .against(format!(
                "{raw:.0} writes with fsync a second, {} each",
                measure::time_text(1e9 / raw)
            ))
            .ratio(ratio)
    };
    let (mut all, mut of_shared) = (
        row(WRITERS, together, ratio),
        Row::new("the same against sharing alone: no chain, no database")
            .measured(format!("{together:.0} records a second"))
            .against(format!(
                "{sharing:.0} a second, {sharing_ratio:.1} x the rate of fsync"
            ))
            .ratio(of_sharing),
    );
    if Duration::from_secs_f64(1.0 / raw) < QUICK {
        of_shared = of_shared.wanted("at least 0.5 x", of_sharing >= WANTED_OF_SHARING);
    } else {
        all = all.wanted("at least 10 x", ratio >= WANTED);
    }
    Ok(vec![
        row(1, alone, alone_ratio),
        all,
        of_shared,
        limited::row(options)?,
    ])
}

pub(super) fn fsync_rate(
    directory: &Path,
    stored: &[Vec<u8>],
    times: usize,
) -> Result<f64, Failure> {
    let mut file = File::create(directory.join("raw"))?;
    let start = Instant::now();
    for bytes in stored.iter().cycle().take(times) {
        file.write_all(bytes)?;
        file.sync_all()?;
    }
    Ok(rate(times, start))
}

pub(super) fn append_rate(log: &Log, entries: &[Entry], each: usize) -> Result<f64, Failure> {
    let start = Instant::now();
    let written: Result<(), airlock_audit::AppendError> = std::thread::scope(|scope| {
        let append = |mine: &[Entry]| {
            mine.iter()
                .try_for_each(|entry| log.append(entry, Durability::Durable).map(drop))
        };
        let threads: Vec<_> = entries
            .chunks(each)
            .map(|mine| scope.spawn(move || append(mine)))
            .collect();
        threads.into_iter().try_for_each(|thread| {
            thread
                .join()
                .unwrap_or(Err(airlock_audit::AppendError::Closed))
        })
    });
    written?;
    Ok(rate(entries.len(), start))
}

fn rate(count: usize, start: Instant) -> f64 {
    per_second(count, start.elapsed())
}

fn per_second(count: usize, took: Duration) -> f64 {
    let count = u32::try_from(count).unwrap_or(u32::MAX);
    f64::from(count) / took.as_secs_f64()
}
