//! Removing empty cgroups of dead supervisors whose notes nobody here reads: those of another
//! workspace, or of a state directory that is no more.
//!
//! The name of a group says who made it, and when. Only what is empty goes, only where this process
//! would make groups itself, and never what a living process may have made. A process of another pid
//! namespace is not seen, so that nothing goes that was only just made: between that and the coming of
//! its first process a group is empty, and its maker in need of it.

use super::super::hold::{maker, uptime};
use super::super::limits::{Group, Process, id_of};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use std::fs;
use std::path::Path;
use std::sync::Once;

/// How many milliseconds a group stays in any case: far more than any start takes.
const STAYS: u64 = 60_000;

/// Removes them, once for the process.
pub(crate) fn remove_strays() {
    static REMOVED: Once = Once::new();
    REMOVED.call_once(|| {
        for base in Group::bases() {
            remove_strays_in(base, uptime());
        }
    });
}

/// Removes those in one directory, `now` milliseconds after the machine started.
pub(super) fn remove_strays_in(base: &Path, now: u64) {
    let Ok(entries) = fs::read_dir(base) else {
        return;
    };
    for path in entries.flatten().map(|entry| entry.path()) {
        let Some((pid, made)) = id_of(&path).and_then(maker) else {
            continue;
        };
        if made.saturating_add(STAYS) < now && is_dead(pid, made) {
            // One that is not empty stays; one that is gone was somebody else's to remove.
            let _removed = fs::remove_dir(path);
        }
    }
}

/// Whether the process that had this number then is no more.
fn is_dead(pid: u32, then: u64) -> bool {
    let Some(number) = i32::try_from(pid).ok().and_then(Pid::from_raw) else {
        return false;
    };
    // The list of processes may leave out other people's.
    if test_kill_process(number) == Err(Errno::SRCH) {
        return true;
    }
    let second = rustix::param::clock_ticks_per_second().max(1);
    let started = |process: Process| process.start_time.saturating_mul(1_000) / second;
    Process::of(pid).is_ok_and(|process| started(process) > then)
}
