//! What a brokered open costs.

use super::{Scenario, run, say};
use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, Instant};

pub(super) const SCENARIOS: &[(&str, Scenario)] = &[("cost", cost)];

const OPENINGS: u32 = 50;
const BATCHES: u32 = 100;

/// The best of many batches: what it costs while nothing else runs.
fn measure(path: &Path) -> Duration {
    let batch = || {
        let start = Instant::now();
        for _ in 0..OPENINGS {
            File::open(path).unwrap();
        }
        start.elapsed() / OPENINGS
    };
    (0..BATCHES).map(|_| batch()).min().unwrap()
}

fn cost(directory: &Path) {
    let path = directory.join("plain.txt");
    let time = measure(&path);
    std::env::set_current_dir(directory).unwrap();
    let relative = measure(Path::new("plain.txt"));
    say(&format!(
        "\ncost: an open takes {time:?}, a relative one {relative:?}"
    ));
    assert!(time < Duration::from_millis(1), "{time:?}");
}

#[test]
fn an_open_through_the_broker_stays_cheap() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("plain.txt");
    fs::write(&path, "plain").unwrap();
    say(&format!("cost: without a broker {:?}", measure(&path)));
    run("cost");
}
