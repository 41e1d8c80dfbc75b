//! Who is at the other end, as the operating system says.
//!
//! Guarantee: nobody is a [`Visitor`] whose process the system did not name. Non-guarantee: a
//! descriptor can be handed on, so the process named is the one that connected.

use airlock_core::{Peer, SandboxId};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::io;

/// Through which socket somebody came: a sandbox's socket is its identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Via {
    /// The kernel's own.
    Main,
    /// The one that was made for this sandbox.
    Sandbox(SandboxId),
}

/// Somebody the operating system vouched for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Visitor {
    /// The process.
    pub peer: Peer,
    /// Its door.
    pub via: Via,
}

/// Why nobody is let in.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// The system names no process.
    #[error("the operating system does not say who connects")]
    Unnamed,
    /// The process is gone already, or not to be seen from here.
    #[error("process {pid}, which connects, cannot be looked at")]
    Gone {
        /// Its id.
        pid: u32,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It belongs to somebody else.
    #[error("user {uid} may not connect here")]
    Foreign {
        /// Whose it is.
        uid: u32,
    },
    /// It is in a sandbox, and this is not its socket.
    #[error("process {pid} is in a sandbox, whose own socket it must use")]
    Inside {
        /// Its id.
        pid: u32,
    },
    /// It is outside the sandbox whose socket it uses.
    #[error("process {pid} is in no sandbox")]
    Outside {
        /// Its id.
        pid: u32,
    },
}

/// Establishes who `pid` is, before a byte of theirs is read. Another user than `uid` is refused.
pub(crate) fn identify(pid: Option<i32>, uid: u32, allowed: &[u32]) -> Result<Peer, PeerError> {
    let raw = pid.filter(|pid| *pid > 0).ok_or(PeerError::Unnamed)?;
    let named = raw.unsigned_abs();
    let pid = Pid::from_raw(raw).ok_or(PeerError::Unnamed)?;
    if !allowed.contains(&uid) {
        return Err(PeerError::Foreign { uid });
    }
    let gone = |source: io::Error| PeerError::Gone { pid: named, source };
    // Held while its entry in /proc is read: as long as it is alive, the number is not another's.
    let held = pidfd_open(pid, PidfdFlags::empty()).map_err(|error| gone(error.into()))?;
    let started = start_time(named).map_err(gone)?;
    let mut ended = [rustix::event::PollFd::new(
        &held,
        rustix::event::PollFlags::IN,
    )];
    let now = rustix::event::Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let has_ended = rustix::event::poll(&mut ended, Some(&now)).map_err(|e| gone(e.into()))? > 0;
    if has_ended {
        return Err(gone(io::ErrorKind::NotFound.into()));
    }
    Ok(Peer {
        pid: named,
        uid,
        started,
    })
}

/// Checks that `peer` is where whoever comes through `via` must be: in a process namespace below
/// ours, as everything in a sandbox is, or in none. A sandbox that got hold of the main socket, or
/// somebody else who got hold of a sandbox's, is refused.
pub(crate) fn is_in_place(peer: Peer, via: &Via) -> Result<(), PeerError> {
    let pid = peer.pid;
    let below = match (depth(&pid.to_string()), depth("self")) {
        (Some(theirs), Some(ours)) => theirs > ours,
        // What cannot be told is refused.
        _ => return Err(PeerError::Unnamed),
    };
    match via {
        Via::Main if below => Err(PeerError::Inside { pid }),
        Via::Sandbox(_) if !below => Err(PeerError::Outside { pid }),
        Via::Main | Via::Sandbox(_) => Ok(()),
    }
}

/// In how many process namespaces a process has a number.
fn depth(process: &str) -> Option<usize> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("NSpid:"))?;
    Some(line.split_whitespace().count())
}

/// When `pid` began, in clock ticks since boot: the 22nd field of its `stat`.
fn start_time(pid: u32) -> io::Result<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The second field is the command's name in parentheses and may contain anything.
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let field = after_name.split_whitespace().nth(19);
    field
        .and_then(|field| field.parse().ok())
        .ok_or_else(|| io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn me() -> (Option<i32>, u32) {
        let pid = i32::try_from(std::process::id()).unwrap();
        (Some(pid), rustix::process::getuid().as_raw())
    }

    #[test]
    fn only_a_live_process_of_an_allowed_user_is_somebody() {
        let (pid, uid) = me();
        let peer = identify(pid, uid, &[uid]).unwrap();
        assert_eq!((peer.pid, peer.uid), (std::process::id(), uid));
        assert_ne!(peer.started, 0);
        for nobody in [None, Some(0), Some(-1)] {
            assert!(matches!(
                identify(nobody, uid, &[uid]),
                Err(PeerError::Unnamed)
            ));
        }
        for allowed in [&[][..], &[uid + 1]] {
            assert!(matches!(
                identify(pid, uid, allowed),
                Err(PeerError::Foreign { .. })
            ));
        }
        // The largest number a process can have is 4,194,304.
        assert!(matches!(
            identify(Some(i32::MAX), uid, &[uid]),
            Err(PeerError::Gone { .. })
        ));
    }

    #[test]
    fn a_process_beside_us_is_in_no_sandbox() {
        let (pid, uid) = me();
        let peer = identify(pid, uid, &[uid]).unwrap();
        assert!(is_in_place(peer, &Via::Main).is_ok());
        let via = Via::Sandbox(SandboxId::new("box").unwrap());
        assert!(matches!(
            is_in_place(peer, &via),
            Err(PeerError::Outside { .. })
        ));
    }
}
