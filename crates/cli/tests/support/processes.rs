//! Programs that run in a sandbox, seen from outside.

use super::{PATIENCE, World};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Waits until `held` holds.
pub(crate) fn wait_until(what: &str, mut held: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !held() {
        assert!(begun.elapsed() < PATIENCE, "{what}: never");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A script that sleeps, with a child that sleeps as well: for a time nobody else sleeps for.
pub(crate) struct Nap {
    seconds: [String; 2],
}

impl Nap {
    /// Writes it to `nap.sh` of the workspace.
    pub(crate) fn script(world: &World) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = u64::from(NEXT.fetch_add(1, Ordering::SeqCst));
        let base = 10_000_000 + u64::from(std::process::id()) * 1_000 + number * 2;
        let seconds = [base.to_string(), (base + 1).to_string()];
        let [first, second] = &seconds;
        world.write(
            "nap.sh",
            format!("sleep {first} &\nsleep {second}\necho woke up\n"),
        );
        Self { seconds }
    }

    /// How many of its programs run.
    pub(crate) fn running(&self) -> usize {
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let lines = processes.filter_map(|one| std::fs::read(one.path().join("cmdline")).ok());
        let sleeps = |line: &Vec<u8>| {
            let text = String::from_utf8_lossy(line);
            let words: Vec<&str> = text.split('\0').collect();
            words.contains(&"sleep") && self.seconds.iter().any(|one| words.contains(&one.as_str()))
        };
        lines.filter(sleeps).count()
    }

    pub(crate) fn wait_until_asleep(&self) {
        wait_until("both programs sleep", || self.running() == 2);
    }

    pub(crate) fn wait_until_gone(&self) {
        wait_until("its programs are gone", || self.running() == 0);
    }
}

/// Whether any process of this machine runs with `mark` among its arguments.
pub(crate) fn runs(mark: &str) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok())
        .any(|line| {
            line.split(|byte| *byte == 0)
                .any(|word| word == mark.as_bytes())
        })
}

/// Whether a process is there and no zombie.
pub(crate) fn is_alive(pid: rustix::process::Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    stat.is_ok_and(|stat| {
        let state = stat.rsplit_once(')').map(|(_, rest)| rest.trim_start());
        state.is_some_and(|state| !state.starts_with(['Z', 'X']))
    })
}
