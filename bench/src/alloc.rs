//! Counts allocations.
//!
//! The counting allocator comes with the feature `peers` and adds a few nanoseconds to each
//! allocation of either side. Without it nothing is counted, and the rows are silent about it.

/// How many allocations one call of `operation` makes, on average over `times` calls.
#[cfg(feature = "peers")]
pub(crate) fn count(times: u32, mut operation: impl FnMut()) -> f64 {
    let found = allocation_counter::measure(|| {
        for _ in 0..times {
            operation();
        }
    });
    #[expect(clippy::cast_precision_loss, reason = "counts are small")]
    let total = found.count_total as f64;
    total / f64::from(times.max(1))
}

/// Nothing is counted without the feature `peers`.
#[cfg(not(feature = "peers"))]
pub(crate) fn count(_times: u32, _operation: impl FnMut()) -> f64 {
    f64::NAN
}

/// `, 3.0 allocations`, or nothing where none were counted.
pub(crate) fn text(count: f64) -> String {
    if count.is_nan() {
        String::new()
    } else {
        format!(", {count:.1} allocations")
    }
}
