//! What the child does between its birth and the first command, as a list of steps.
//!
//! Written by the supervisor, where memory may be had, into a sealed memory file that the child
//! maps: [`Writer`] writes steps one after the other, [`Reader`] gives them back without allocating.
//! A child made ahead of its plan gets its steps in several such files, in order. A step that fails
//! ends the sandbox, and its words, which stay with the supervisor, say what was being done.
//!
//! The child sees three trees while it works: `/old`, the host's root; `/new`, the root in the
//! making; and between them a base of its own, with `/empty`, `/null`, `/scratch` and the layers of
//! the stage. Every place in the new root is found beneath it and never outside, whatever links a
//! hostile tree holds.

mod read;
mod write;

pub(super) use read::{Reader, Rules};
pub(super) use write::{RuleList, Writer, filter_bytes, sealed};

use std::ffi::CStr;

/// Where a bound tree comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source<'a> {
    /// From the host, by a path without links from its root.
    Host(&'a CStr),
    /// From the base.
    Base(&'a CStr),
    /// From the new root itself.
    New(&'a CStr),
}

/// A user and a group of the host.
pub(super) type Owner = (u32, u32);

/// Something in the new root: a directory and a name in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry<'a> {
    pub(super) parent: &'a CStr,
    pub(super) name: &'a CStr,
    /// Whom it is given to.
    pub(super) owner: Option<Owner>,
}

/// What a step does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Op<'a> {
    /// Names the machine.
    Hostname,
    /// Keeps mounts from reaching the host and back.
    Private,
    /// Makes the base on some directory of the host and turns it into the root.
    Base { on: &'a CStr },
    /// Makes the new root.
    NewRoot { options: &'a CStr },
    /// Makes the memory that home, `/tmp` and the like share.
    Scratch {
        options: &'a CStr,
        owner: Option<Owner>,
    },
    /// Makes a directory in the new root.
    Directory { entry: Entry<'a> },
    /// Makes a file in the new root.
    File { entry: Entry<'a>, text: &'a [u8] },
    /// Makes a link in the new root.
    Link { entry: Entry<'a>, target: &'a CStr },
    /// Makes a file in the base.
    Text { name: &'a CStr, text: &'a [u8] },
    /// Makes an empty directory that the workspace then seems to have, so that nobody can make it.
    Ghost {
        name: &'a CStr,
        owner: Option<Owner>,
    },
    /// Makes a socket in the new root, for init to listen on.
    Listen { entry: Entry<'a> },
    /// Binds a tree to a place of the new root.
    Bind {
        source: Source<'a>,
        place: &'a CStr,
        attributes: u64,
        /// Which of the user namespaces that were handed over says as whom files appear.
        map: Option<u32>,
    },
    /// Binds a tree into the base.
    Keep {
        source: &'a CStr,
        at: &'a CStr,
        attributes: u64,
        map: Option<u32>,
    },
    /// Mounts a file system of the kernel at a place of the new root.
    Mount {
        kind: &'a CStr,
        place: &'a CStr,
        flags: u32,
        options: Option<&'a CStr>,
    },
    /// Hands the supervisor the overlay at a place of the new root, for it to be told to forget.
    Pick { place: &'a CStr, read_only: bool },
    /// Joins the cgroup whose list of tasks this is, by a path without links from the host's root.
    Join { tasks: &'a CStr },
    /// Makes the new root the root and lets go of everything else.
    Enter,
    /// Enters a user namespace and becomes its user.
    Become,
    /// Sets a resource limit.
    Limit { resource: u32, soft: u64, hard: u64 },
    /// Gives up every capability, for good.
    Powerless,
    /// Allows paths by Landlock, and nothing else.
    Landlock {
        ruleset: Ruleset,
        /// How much of a ruleset this kernel knows, in bytes.
        known: u32,
        rules: Rules<'a>,
    },
    /// Installs a seccomp filter.
    Filter { program: &'a [u8] },
    /// Installs the filter that asks the supervisor, and keeps its listener.
    Ask { program: &'a [u8], flags: u32 },
    /// Says that every wall stands, and begins to take commands.
    Serve,
}

/// What Landlock governs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Ruleset {
    pub(super) files: u64,
    pub(super) network: u64,
    pub(super) scoped: u64,
}

/// The user inside.
pub(super) const INSIDE: u32 = 1000;

/// Mount attributes, as `mount_setattr` takes them.
pub(super) mod attribute {
    pub(in super::super) const READ_ONLY: u64 = 1;
    pub(in super::super) const NO_SETUID: u64 = 2;
    pub(in super::super) const NO_DEVICES: u64 = 4;
    pub(in super::super) const NO_EXEC: u64 = 8;
}

#[cfg(test)]
mod tests;
