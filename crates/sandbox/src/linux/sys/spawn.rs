#![expect(
    unsafe_code,
    reason = "what a child does between its birth and its program has no safe form"
)]
//! What a program of the host's that helps to confine others is started with.

use super::calls;
use rustix::fd::RawFd;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal, setsid};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Lets `command` start in a session of its own, with usual signals, with `keep` as its only
/// descriptors besides its streams, and end when the thread that started it does. With `terminal`
/// its standard input becomes its controlling terminal.
pub(crate) fn alone(command: &mut Command, keep: Vec<RawFd>, terminal: bool) {
    let parent = getpid();
    let prepare = move || prepare(parent, &keep, terminal).map_err(Into::into);
    // SAFETY: runs in a child that may have lost other threads' locks; it makes system calls only.
    unsafe { command.pre_exec(prepare) };
}

fn prepare(parent: Pid, keep: &[RawFd], terminal: bool) -> Result<(), Errno> {
    let _session = setsid()?;
    if terminal {
        calls::control_terminal(calls::kept(0))?;
    }
    calls::forget_signals();
    calls::unblock_signals();
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // Had it died before, the signal would never come.
    if getppid() != Some(parent) {
        return Err(Errno::SRCH);
    }
    calls::close_range_at_exec(3, u32::MAX)?;
    for number in keep {
        rustix::io::fcntl_setfd(calls::kept(*number), rustix::io::FdFlags::empty())?;
    }
    Ok(())
}
