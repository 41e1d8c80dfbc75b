#![expect(
    unsafe_code,
    reason = "what a child does between its birth and its program has no safe form"
)]
//! What a program of the host's that helps to confine others is started with.

use super::super::limits::Rlimit;
use super::calls;
use rustix::fd::{AsFd, RawFd};
use rustix::io::Errno;
use rustix::mount::{MountPropagationFlags, mount_bind, mount_change};
use rustix::process::{
    Pid, Rlimit as Bounds, Signal, WaitId, WaitIdOptions, getpid, getppid, prlimit,
    set_parent_process_death_signal, setsid, waitid,
};
use std::ffi::CString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// How a program is started that helps to confine others: in a session of its own, with usual
/// signals, and to end when the thread that started it does.
pub(crate) struct Alone {
    /// Its only descriptors besides its streams.
    pub(crate) keep: Vec<RawFd>,
    /// Makes its standard input its controlling terminal.
    pub(crate) terminal: bool,
    /// The user and group it becomes, with no other group.
    pub(crate) owner: Option<(u32, u32)>,
    /// A directory it sees at another, in a mount namespace of its own. For root alone.
    pub(crate) carried: Option<(CString, CString)>,
}

impl Alone {
    /// Has `command` start like this.
    pub(crate) fn applied(self, command: &mut Command) {
        let parent = getpid();
        let prepare = move || self.prepare(parent).map_err(Into::into);
        // SAFETY: runs in a child that may have lost other threads' locks; it makes system calls
        // only.
        unsafe { command.pre_exec(prepare) };
    }

    fn prepare(&self, parent: Pid) -> Result<(), Errno> {
        let _session = setsid()?;
        if self.terminal {
            calls::control_terminal(calls::kept(0))?;
        }
        if let Some((from, to)) = &self.carried {
            calls::unshare_mounts()?;
            let alone = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
            mount_change(c"/", alone)?;
            mount_bind(from.as_c_str(), to.as_c_str())?;
        }
        if let Some((user, group)) = self.owner {
            calls::become_user(user, group)?;
        }
        calls::forget_signals();
        calls::unblock_signals();
        // Forgotten with every change of user.
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // Had it died before, the signal would never come.
        if getppid() != Some(parent) {
            return Err(Errno::SRCH);
        }
        calls::close_range_at_exec(3, u32::MAX)?;
        for number in &self.keep {
            rustix::io::fcntl_setfd(calls::kept(*number), rustix::io::FdFlags::empty())?;
        }
        Ok(())
    }
}

/// Sets the limits of another process, which belongs to `owner` where that is not who we are.
///
/// Root may do so only with a capability that it often lacks in containers, whereas any user may
/// with processes of his own. Hence a child that becomes that user, sets them, and ends.
pub(crate) fn limit(pid: Pid, limits: &[Rlimit], owner: Option<(u32, u32)>) -> io::Result<()> {
    let Some((user, group)) = owner else {
        return Ok(set_limits(pid, limits)?);
    };
    let child = calls::clone_process(0, || {
        let done = calls::become_user(user, group).and_then(|()| set_limits(pid, limits));
        done.err().map_or(0, Errno::raw_os_error)
    })?;
    let waited = rustix::io::retry_on_intr(|| {
        waitid(WaitId::PidFd(child.pidfd.as_fd()), WaitIdOptions::EXITED)
    });
    match waited?.and_then(|status| status.exit_status()) {
        Some(0) => Ok(()),
        Some(errno) => Err(io::Error::from_raw_os_error(errno)),
        None => Err(io::ErrorKind::Interrupted.into()),
    }
}

/// Allocates nothing.
fn set_limits(pid: Pid, limits: &[Rlimit]) -> Result<(), Errno> {
    for limit in limits {
        let bounds = Bounds {
            current: Some(limit.soft),
            maximum: Some(limit.hard),
        };
        let _before = prlimit(Some(pid), limit.resource, bounds)?;
    }
    Ok(())
}
