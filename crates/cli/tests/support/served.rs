//! A kernel that runs for a world, in a process of its own.

use super::{Ran, World, finished};
use airlock_wire::{Client, Hello};
use rustix::process::{Pid, Signal, kill_process};
use std::path::PathBuf;
use std::time::{Duration, Instant};

pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// A running kernel, ended with this value.
pub(crate) struct Served<'w> {
    world: &'w World,
    pub(crate) pid: i32,
    pub(crate) socket: PathBuf,
}

impl World {
    /// Starts a kernel in the background.
    pub(crate) fn serve(&self) -> Served<'_> {
        let ran = self.quiet(&["kernel", "--json", "--idle", "5m"]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let told = ran.json();
        Served {
            world: self,
            pid: i32::try_from(told["pid"].as_i64().unwrap()).unwrap(),
            socket: PathBuf::from(told["socket"].as_str().unwrap()),
        }
    }
}

impl Served<'_> {
    pub(crate) fn client(&self, name: &str) -> Client {
        let hello = Hello::new(name, "test");
        let mut client = Client::connect(&self.socket, &hello, PATIENCE).unwrap();
        client.wait_up_to(Some(PATIENCE)).unwrap();
        client
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.pid).unwrap(), signal).unwrap();
    }

    /// A line of the process's status, as a number.
    pub(crate) fn status(&self, name: &str) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap();
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .unwrap();
        let number = line.trim_start_matches(':').split_whitespace().next();
        number.unwrap().parse().unwrap()
    }

    pub(crate) fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.pid))
            .unwrap()
            .count()
    }

    /// Whether the process is there and no zombie.
    pub(crate) fn is_alive(&self) -> bool {
        super::is_alive(Pid::from_raw(self.pid).unwrap())
    }

    pub(crate) fn wait_for_end(&self) {
        let begun = Instant::now();
        while self.is_alive() {
            assert!(begun.elapsed() < PATIENCE, "it does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn stop(&self) -> Ran {
        finished(&mut self.world.command(&["kernel", "stop"]))
    }
}

impl Drop for Served<'_> {
    fn drop(&mut self) {
        if self.is_alive() {
            let _ = self.stop();
        }
    }
}
