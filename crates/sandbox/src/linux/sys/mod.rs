//! Raw system calls: the only unsafe code there is.
//!
//! [`calls`] wraps what no safe crate offers; [`child`] carries out a program in the child and
//! [`init`] is what the child then becomes, with [`memory`] of its own and what commands have
//! [`inherited`] from it; [`nurse`] makes such children for somebody else; [`notify`] is how the broker
//! hears of calls, [`files`] where it has open what it hands over. Everything the child does is free of
//! allocation and locks, since it is a copy of one thread of a process that may have had many.

mod calls;
mod child;
pub(crate) mod files;
mod inherited;
mod init;
mod memory;
pub(crate) mod notify;
mod nurse;
mod spawn;

pub(super) use calls::{
    ClonedChild, clone_process, close_at_exec, confine_process, install_listener,
    landlock_restrict, landlock_ruleset, landlock_version, set_mount_attributes,
    sleeper_in_user_namespace,
};
pub(super) use child::Start;
pub(super) use spawn::{Alone, limit};
