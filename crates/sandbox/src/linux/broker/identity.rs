//! Whom a broker's thread acts as.
//!
//! Files are opened with the sandbox's own rights and no capability at all, whoever the supervisor
//! is. Where that is root, a thread keeps the one capability that lets it look into a process of
//! another user namespace, and has it in effect only while it does that.

use crate::linux::sys::notify::own_umask;
use rustix::io::Errno;
use rustix::process::{Gid, Uid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, set_capabilities, set_keep_capabilities, set_thread_groups,
    set_thread_res_gid, set_thread_res_uid,
};
use std::cell::Cell;

/// What the calling thread can do beyond its user's rights. Belongs to one thread.
pub(super) struct Powers {
    /// Whether there is anything to raise.
    held: bool,
    raised: Cell<u32>,
}

/// While it lives, the thread may look into other processes.
pub(super) struct Raised<'a>(&'a Powers);

impl Powers {
    /// Makes the calling thread act as `identity`, for good, and gives it its own umask.
    pub(super) fn take(identity: Option<(u32, u32)>) -> Result<Self, Errno> {
        own_umask()?;
        let held = identity.is_some();
        if let Some((user, group)) = identity {
            let (user, group) = (Uid::from_raw(user), Gid::from_raw(group));
            if user.is_root() || group.is_root() {
                return Err(Errno::INVAL);
            }
            set_thread_groups(&[])?;
            set_thread_res_gid(group, group, group)?;
            set_keep_capabilities(true)?;
            set_thread_res_uid(user, user, user)?;
            set_keep_capabilities(false)?;
            set(CapabilitySet::empty())?;
        }
        Ok(Self {
            held,
            raised: Cell::new(0),
        })
    }

    /// Lets the thread look into other processes until the answer is dropped.
    pub(super) fn raise(&self) -> Result<Raised<'_>, Errno> {
        if self.held && self.raised.get() == 0 {
            set(CapabilitySet::SYS_PTRACE)?;
        }
        self.raised.set(self.raised.get().saturating_add(1));
        Ok(Raised(self))
    }
}

impl Drop for Raised<'_> {
    fn drop(&mut self) {
        let powers = self.0;
        powers.raised.set(powers.raised.get().saturating_sub(1));
        if powers.held && powers.raised.get() == 0 && set(CapabilitySet::empty()).is_err() {
            // Giving a capability up cannot fail. If it did, nothing may be opened with it.
            std::process::abort();
        }
    }
}

fn set(effective: CapabilitySet) -> Result<(), Errno> {
    let sets = CapabilitySets {
        effective,
        permitted: CapabilitySet::SYS_PTRACE,
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, sets)
}
