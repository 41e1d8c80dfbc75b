//! What the child does between its birth and the first command, as a list of steps.
//!
//! Made by the supervisor, where memory may be had; carried out by the child, which only follows
//! pointers. A step that fails ends the sandbox, and its words say what was being done.
//!
//! The child sees three trees while it works: `/old`, the host's root; `/new`, the root in the
//! making; and between them a base of its own, with `/empty`, `/null`, `/scratch` and the layers of
//! the stage. Every place in the new root is found beneath it and never outside, whatever links a
//! hostile tree holds.

use crate::seccomp::Instruction;
use std::ffi::{CStr, CString};
use std::os::fd::RawFd;

/// One step.
#[derive(Debug)]
pub(super) struct Step {
    /// What is done.
    pub(super) op: Op,
    /// The same for people.
    pub(super) what: String,
}

/// Where a bound tree comes from.
#[derive(Debug)]
pub(super) enum Source {
    /// From the host, by a path without links from its root.
    Host(CString),
    /// From the base.
    Base(&'static CStr),
    /// From the new root itself.
    New(CString),
}

/// Something in the new root: a directory and a name in it.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) parent: CString,
    pub(super) name: CString,
    /// Whom it is given to.
    pub(super) owner: Option<(u32, u32)>,
}

/// What a step does.
#[derive(Debug)]
pub(super) enum Op {
    /// Names the machine.
    Hostname,
    /// Keeps mounts from reaching the host and back.
    Private,
    /// Makes the base on some directory of the host and turns it into the root.
    Base { on: CString },
    /// Makes the new root.
    NewRoot { options: CString },
    /// Makes the memory that home, `/tmp` and the like share.
    Scratch {
        options: CString,
        owner: Option<(u32, u32)>,
    },
    /// Makes a directory in the new root.
    Directory { entry: Entry },
    /// Makes a file in the new root.
    File { entry: Entry, text: Vec<u8> },
    /// Makes a link in the new root.
    Link { entry: Entry, target: CString },
    /// Makes a file in the base.
    Text { name: &'static CStr, text: Vec<u8> },
    /// Makes an empty directory that the workspace then seems to have, so that nobody can make it.
    Ghost {
        name: CString,
        owner: Option<(u32, u32)>,
    },
    /// Binds a tree to a place of the new root.
    Bind {
        source: Source,
        place: CString,
        attributes: u64,
        /// A user namespace that says as whom files appear.
        map: Option<RawFd>,
    },
    /// Binds a tree into the base.
    Keep {
        source: CString,
        at: CString,
        attributes: u64,
        map: Option<RawFd>,
    },
    /// Mounts a file system of the kernel at a place of the new root.
    Mount {
        kind: &'static CStr,
        place: CString,
        flags: u32,
        options: Option<CString>,
    },
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
        rules: Vec<(CString, u64)>,
    },
    /// Installs a seccomp filter.
    Filter { program: Vec<Instruction> },
    /// Installs the filter that asks the supervisor, and keeps its listener.
    Ask {
        program: Vec<Instruction>,
        flags: u32,
    },
}

/// What Landlock governs.
#[derive(Debug, Clone, Copy)]
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
