//! What the broker opens, and where it is open.

use super::{Scenario, run};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use std::fs;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

const PIPE: &str = "waited-for";

pub(super) const SCENARIOS: &[(&str, Scenario)] = &[("waiting", waiting)];

fn waiting(directory: &Path) {
    let path = directory.join(PIPE);
    mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    assert_eq!(fs::read_to_string(path).unwrap(), "through");
}

/// What is open in a table of open files.
fn open_in(table: PathBuf) -> Vec<PathBuf> {
    // A thread may end, and a file be closed, while this looks.
    let entries = fs::read_dir(table).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| fs::read_link(entry.path()).ok())
        .collect()
}

fn pipe_in(table: PathBuf) -> Option<PathBuf> {
    let mut open = open_in(table).into_iter();
    open.find(|path| path.ends_with(PIPE))
}

/// The pipe, and a thread that has it open, once there is one.
fn waiting_thread() -> Option<(PathBuf, PathBuf)> {
    let threads = fs::read_dir("/proc/self/task").unwrap();
    threads.flatten().find_map(|thread| {
        let thread = thread.path();
        pipe_in(thread.join("fd")).map(|pipe| (pipe, thread))
    })
}

/// Which of these signals a thread takes.
fn taken(thread: &Path, signals: &[i32]) -> Vec<i32> {
    let status = fs::read_to_string(thread.join("status")).unwrap();
    let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:"));
    let blocked = u64::from_str_radix(blocked.unwrap().trim(), 16).unwrap();
    let takes = |signal: &i32| (blocked >> (signal - 1)) & 1 == 0;
    signals.iter().copied().filter(takes).collect()
}

/// Whether a thread with a table of its own could reach into the process's.
fn can_reach() -> bool {
    let process = pidfd_open(getpid(), PidfdFlags::empty()).unwrap();
    let number = process.as_raw_fd();
    pidfd_getfd(&process, number, PidfdGetfdFlags::empty()).is_ok()
}

#[test]
fn what_is_opened_for_a_process_is_not_open_where_others_are_started() {
    let guarded = thread::spawn(|| run("waiting"));
    let (pipe, broker) = loop {
        if let Some(found) = waiting_thread() {
            break found;
        }
        assert!(!guarded.is_finished(), "nobody waited for the pipe");
        thread::sleep(Duration::from_millis(1));
    };
    let here = pipe_in("/proc/self/fd".into());
    // Whatever handles one would find other files under the numbers it knows.
    let signals = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGCHLD];
    let taken = taken(&broker, &signals);
    fs::write(&pipe, "through").unwrap();
    guarded.join().unwrap();
    assert_eq!(here.is_some(), !can_reach(), "{here:?}");
    assert!(here.is_some() || taken.is_empty(), "{taken:?}");
}
