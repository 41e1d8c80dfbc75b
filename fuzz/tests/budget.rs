//! A small, fixed budget of every fuzz target with each test run.

use airlock_fuzz::{Budget, TARGETS, Target, fuzz, keep};
use std::thread;

/// Fixed, so that a failure here is the same failure everywhere.
const SEED: u64 = 1;

fn complaint(target: &Target) -> Option<String> {
    let failure = fuzz(target, Budget::Iterations(target.iterations), SEED).err()?;
    Some(format!(
        "{} after {} runs: {:?}\n  {}",
        target.name,
        failure.runs,
        failure.reason,
        keep(target.name, &failure.input)
    ))
}

#[test]
fn every_target_holds_for_its_budget() {
    let complaints: Vec<String> = thread::scope(|scope| {
        let running: Vec<_> = TARGETS
            .iter()
            .map(|target| scope.spawn(|| complaint(target)))
            .collect();
        running
            .into_iter()
            .filter_map(|thread| thread.join().unwrap())
            .collect()
    });
    assert!(
        complaints.is_empty(),
        "{}",
        complaints.join(
            "
"
        )
    );
}
