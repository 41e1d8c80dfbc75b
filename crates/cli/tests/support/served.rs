//! A kernel that runs for a world, in a process of its own.
//!
//! In the test program `served` every world has one from its first command on, so that the same cases
//! hold for a kernel that runs and for one that each command opens.

use super::{Ran, World, finished};
use airlock_wire::{Client, Hello};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// A running kernel, ended with this value.
pub(crate) struct Served<'w> {
    world: &'w World,
    pub(crate) pid: i32,
    pub(crate) socket: PathBuf,
}

/// The kernel that a world of the program `served` has; ended with this value.
#[derive(Default)]
pub(crate) struct Accompanying(Mutex<Began>);

#[derive(Default)]
enum Began {
    #[default]
    NotYet,
    /// Where a kernel cannot run, as for a policy that does not load, commands are alone.
    Tried(Option<Value>),
}

impl Accompanying {
    fn began(&self) -> std::sync::MutexGuard<'_, Began> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends it, and has no other begin.
    fn end(&self) {
        let ended = std::mem::replace(&mut *self.began(), Began::Tried(None));
        if let Began::Tried(Some(told)) = ended {
            let pid = pid(&told);
            if super::is_alive(pid) {
                let _ = kill_process(pid, Signal::TERM);
                super::wait_until("the kernel ends", || !super::is_alive(pid));
            }
        }
    }
}

impl Drop for Accompanying {
    fn drop(&mut self) {
        self.end();
    }
}

fn pid(told: &Value) -> Pid {
    Pid::from_raw(i32::try_from(told["pid"].as_i64().unwrap()).unwrap()).unwrap()
}

impl World {
    /// Starts a kernel in the background, or gives the one that this world has.
    pub(crate) fn serve(&self) -> Served<'_> {
        let began = match &*self.accompanying.began() {
            Began::Tried(Some(told)) if super::is_alive(pid(told)) => Some(told.clone()),
            Began::NotYet | Began::Tried(_) => None,
        };
        let told = began.unwrap_or_else(|| {
            let ran = self.start_kernel();
            assert_eq!(ran.code, Some(0), "{ran:?}");
            ran.json()
        });
        Served {
            world: self,
            pid: pid(&told).as_raw_nonzero().get(),
            socket: PathBuf::from(told["socket"].as_str().unwrap()),
        }
    }

    fn start_kernel(&self) -> Ran {
        let mut command = super::program(super::binary());
        self.settle(&mut command);
        finished(command.args(["kernel", "--json", "--idle", "5m"]))
    }

    /// From now on this world has no kernel, in the program `served` either: for a command that is ended
    /// itself in the middle of its work, that is a kernel itself, or that may do less than one that
    /// somebody started.
    pub(crate) fn alone(&self) {
        self.accompanying.end();
    }

    /// Sees to it that a world of the program `served` has a kernel.
    pub(super) fn accompany(&self) {
        if env!("CARGO_CRATE_NAME") != "served" {
            return;
        }
        let mut began = self.accompanying.began();
        if let Began::NotYet = *began {
            let ran = self.start_kernel();
            *began = Began::Tried((ran.code == Some(0)).then(|| ran.json()));
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

    /// How many files are open, in the tables of all its threads.
    pub(crate) fn descriptors(&self) -> usize {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.pid)).unwrap();
        let tables = threads.flatten().map(|thread| thread.path().join("fd"));
        // A thread may end, and a file be closed, while this looks.
        let open = tables.flat_map(std::fs::read_dir).flatten().flatten();
        let open =
            open.filter_map(|open| Some((open.file_name(), std::fs::read_link(open.path()).ok()?)));
        open.collect::<std::collections::BTreeSet<_>>().len()
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
