//! Times operations.
//!
//! Both sides of a comparison are timed in turns, a batch of one and a batch of the other, so that
//! a busy moment of the machine hits both. The figure is the median over batches: what other
//! programs steal shows in the tail, not in the middle.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// A batch is long enough for the clock's own cost to vanish.
const BATCH: Duration = Duration::from_micros(200);
const WARM_UP: Duration = Duration::from_millis(30);
/// What lies between two rounds: a busy moment of the machine should not hit all of them.
const APART: Duration = Duration::from_millis(150);

/// How often one operation takes how long, in nanoseconds.
#[derive(Debug, Clone, Default)]
pub(crate) struct Samples(Vec<f64>);

impl Samples {
    pub(crate) fn new(mut nanos: Vec<f64>) -> Self {
        nanos.sort_by(f64::total_cmp);
        Self(nanos)
    }

    pub(crate) fn median(&self) -> f64 {
        self.at(50)
    }

    /// The value that `percent` of the samples do not exceed.
    pub(crate) fn at(&self, percent: usize) -> f64 {
        let last = self.0.len().saturating_sub(1);
        self.0
            .get(last * percent / 100)
            .copied()
            .unwrap_or(f64::NAN)
    }
}

/// The same measured several times, a moment apart.
///
/// A limit has no peer to be divided by, and what others on a machine take only ever adds: so the
/// quietest round counts, and the middle one is told beside it.
#[derive(Debug)]
pub(crate) struct Rounds(Vec<Samples>);

impl Rounds {
    pub(crate) fn new(rounds: usize, mut round: impl FnMut() -> Samples) -> Self {
        let mut found: Vec<Samples> = Vec::with_capacity(rounds);
        for _ in 0..rounds {
            std::thread::sleep(APART);
            found.push(round());
        }
        found.sort_by(|one, other| one.median().total_cmp(&other.median()));
        Self(found)
    }

    /// What `percent` of the samples do not exceed, in the round with the lowest median...
    pub(crate) fn quietest(&self, percent: usize) -> f64 {
        self.0.first().map_or(f64::NAN, |round| round.at(percent))
    }

    /// ...and in the one in the middle.
    pub(crate) fn middle(&self, percent: usize) -> f64 {
        let middle = self.0.get(self.0.len() / 2);
        middle.map_or(f64::NAN, |round| round.at(percent))
    }

    /// Both, in words.
    pub(crate) fn text(&self, percent: usize, text: impl Fn(f64) -> String) -> String {
        let (quietest, middle) = (self.quietest(percent), self.middle(percent));
        format!("{} ({} in the middle round)", text(quietest), text(middle))
    }
}

/// One side of a comparison.
pub(crate) type Operation<'a> = &'a mut dyn FnMut();

/// The median of what `ours` takes for one of `theirs`, batch by batch: a moment in which the machine
/// is slow hits two batches in a row alike, and so drops out.
pub(crate) fn median_ratio(ours: &[f64], theirs: &[f64]) -> f64 {
    let ratios = ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs);
    Samples::new(ratios.collect()).median()
}

/// Times `operations` in turns, `rounds` batches each.
pub(crate) fn in_turns(rounds: usize, operations: &mut [Operation<'_>]) -> Vec<Samples> {
    let batches = batches_in_turns(rounds, operations);
    batches.into_iter().map(Samples::new).collect()
}

/// The same, with the batches of all operations in the order they were timed.
pub(crate) fn batches_in_turns(rounds: usize, operations: &mut [Operation<'_>]) -> Vec<Vec<f64>> {
    let batches: Vec<u32> = operations.iter_mut().map(batch_size).collect();
    let mut samples = vec![Vec::with_capacity(rounds); operations.len()];
    for _ in 0..rounds {
        for ((operation, times), found) in operations.iter_mut().zip(&batches).zip(&mut samples) {
            let start = Instant::now();
            for _ in 0..*times {
                operation();
            }
            found.push(nanos(start.elapsed()) / f64::from(*times));
        }
    }
    samples
}

/// Times every single call.
pub(crate) fn each(times: usize, mut operation: impl FnMut()) -> Samples {
    let mut samples = Vec::with_capacity(times);
    for _ in 0..times {
        let start = Instant::now();
        operation();
        samples.push(nanos(start.elapsed()));
    }
    Samples::new(samples)
}

/// Warms up, and finds how many calls fill a batch.
fn batch_size(operation: &mut Operation<'_>) -> u32 {
    let start = Instant::now();
    let mut calls = 0_u32;
    while start.elapsed() < WARM_UP {
        operation();
        calls += 1;
    }
    let each = start.elapsed() / calls.max(1);
    let fitting = BATCH.as_nanos() / each.as_nanos().max(1);
    u32::try_from(fitting).unwrap_or(u32::MAX).max(1)
}

/// Calls `operation` with each of `inputs` in turn, over and over.
pub(crate) fn cycle<'a, T, R>(
    inputs: &'a [T],
    mut operation: impl FnMut(&'a T) -> R,
) -> impl FnMut() {
    let mut next = inputs.iter().cycle();
    move || {
        if let Some(input) = next.next() {
            black_box(operation(black_box(input)));
        }
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a time of 2^53 nanoseconds is 104 days"
)]
pub(crate) fn nanos(time: Duration) -> f64 {
    time.as_nanos() as f64
}

/// A nanosecond count in the unit a person would choose.
pub(crate) fn time_text(nanos: f64) -> String {
    for (limit, unit, name) in [
        (1e3, 1.0, "ns"),
        (1e6, 1e3, "us"),
        (1e9, 1e6, "ms"),
        (f64::INFINITY, 1e9, "s"),
    ] {
        if nanos < limit {
            return format!("{:.3} {name}", Significant(nanos / unit));
        }
    }
    "unknown".to_owned()
}

/// Bytes a second, in MB/s.
pub(crate) fn rate_text(bytes_per_second: f64) -> String {
    format!("{:.0} MB/s", bytes_per_second / 1e6)
}

/// Shows three digits, wherever the point is.
struct Significant(f64);

impl std::fmt::Display for Significant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let digits = match self.0 {
            value if value >= 100.0 => 0,
            value if value >= 10.0 => 1,
            _ => 2,
        };
        write!(f, "{:.digits$}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_in_the_unit_that_fits() {
        for (nanos, want) in [
            (0.5, "0.50 ns"),
            (42.0, "42.0 ns"),
            (999.0, "999 ns"),
            (4_321.0, "4.32 us"),
            (12_345_678.0, "12.3 ms"),
            (7e9, "7.00 s"),
        ] {
            assert_eq!(time_text(nanos), want);
        }
    }

    #[test]
    fn a_slow_moment_that_hits_both_sides_does_not_move_the_ratio() {
        let (ours, theirs) = ([20.0, 200.0, 22.0], [10.0, 100.0, 10.0]);
        assert!((median_ratio(&ours, &theirs) - 2.0).abs() < f64::EPSILON);
    }

    #[test]
    fn the_quietest_round_counts_and_the_middle_one_is_told() {
        let mut medians = [40.0, 10.0, 20.0, 90.0, 30.0].into_iter();
        let mut round = || {
            let median = medians.next().unwrap();
            Samples::new(vec![median - 1.0, median, median + 1.0])
        };
        let rounds = Rounds::new(5, &mut round);
        let found = (rounds.quietest(50), rounds.quietest(100), rounds.middle(50));
        assert_eq!(found, (10.0, 11.0, 30.0));
        assert_eq!(
            rounds.text(50, time_text),
            "10.0 ns (30.0 ns in the middle round)"
        );
        assert!(Rounds::new(0, &mut round).quietest(50).is_nan());
    }

    #[test]
    fn percentiles_come_from_the_sorted_samples() {
        let samples = Samples::new((0..=100).rev().map(f64::from).collect());
        assert!((samples.median() - 50.0).abs() < f64::EPSILON);
        assert!((samples.at(99) - 99.0).abs() < f64::EPSILON);
        assert!(Samples::new(Vec::new()).median().is_nan());
    }
}
