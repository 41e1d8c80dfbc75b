//! Seccomp profiles as data: which system calls a sandbox may make, and why.
//!
//! Each profile is the one before it plus rows. A [`Row`] names a call, the arguments it is allowed
//! with, and the reason; what no row names is refused with `EPERM`. Three answers differ, and come
//! before any row: a call of a foreign ABI (32-bit, x32) kills the process, `clone3` and
//! `openat2` answer `ENOSYS` so that programs fall back to `clone` and `openat`, whose flags a filter
//! can see, and so does a call newer than the tables, as with an older kernel.
//!
//! The same rows become a BPF program ([`compile`]) and the JSON that container engines
//! read ([`oci`]).
//!
//! Not guaranteed: a filter sees numbers, never what a pointer points at. Paths are for mounts and
//! Landlock. Installing a program is the launcher's work.
//!
//! Invariant: a [`Check`] compares the low 32 bits of an argument by mask and value, and a row looks
//! at an argument at most once. The kernel takes these arguments as 32-bit values, so a comparison
//! of all 64 bits for inequality would let `TIOCSTI` through with a high bit set; and container
//! engines read two checks of one argument as alternatives.

mod compile;
mod never;
mod numbers;
mod oci;
mod standard;
mod standard_net;
mod strict;

pub use compile::{CompileError, Instruction, compile};
pub use never::{NEVER, Never};
pub(crate) use numbers::NEWEST;
pub use numbers::{SYSCALLS, Syscall};
pub use oci::oci;

use serde::Serialize;

/// Calls that answer as if they did not exist: what matters of their arguments lies in memory, where
/// no filter sees it, and there is an older call to fall back to.
pub const ABSENT: &[&str] = &["clone3", "openat2"];

/// A set of allowed system calls. Later profiles contain the earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Profile {
    /// For our own workers, once loaded: no processes, no exec, no opening of files.
    Strict,
    /// For running code, builds and unit tests: no network.
    Standard,
    /// For integration tests: internet sockets, in a namespace that only reaches the proxy.
    StandardNet,
}

impl Profile {
    /// Every profile, narrowest first.
    pub const ALL: &'static [Self] = &[Self::Strict, Self::Standard, Self::StandardNet];

    /// The word for it in templates and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Standard => "standard",
            Self::StandardNet => "standard-net",
        }
    }

    /// The rows it adds to the profile before it.
    pub const fn added(self) -> &'static [Row] {
        match self {
            Self::Strict => strict::ROWS,
            Self::Standard => standard::ROWS,
            Self::StandardNet => standard_net::ROWS,
        }
    }

    /// Every row it has. Several rows of one call are alternatives.
    pub fn rows(self) -> impl Iterator<Item = &'static Row> {
        Self::ALL
            .iter()
            .filter(move |profile| **profile <= self)
            .flat_map(|profile| profile.added())
    }
}

/// A processor architecture a filter is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Architecture {
    /// 64-bit x86.
    X86_64,
    /// 64-bit ARM.
    Aarch64,
}

impl Architecture {
    /// Every architecture.
    pub const ALL: &'static [Self] = &[Self::X86_64, Self::Aarch64];

    /// The architecture by the name Rust and `uname` have for it.
    pub fn find(name: &str) -> Option<Self> {
        match name {
            "x86_64" => Some(Self::X86_64),
            "aarch64" => Some(Self::Aarch64),
            _ => None,
        }
    }
}

impl Syscall {
    /// The call of that name.
    pub fn find(name: &str) -> Option<&'static Self> {
        SYSCALLS.iter().find(|call| call.name == name)
    }

    /// Its number, where it exists.
    pub const fn number(&self, architecture: Architecture) -> Option<u32> {
        match architecture {
            Architecture::X86_64 => self.x86_64,
            Architecture::Aarch64 => self.aarch64,
        }
    }
}

/// An allowed system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// Its name.
    pub syscall: &'static str,
    /// What its arguments must be, all together; empty for any arguments.
    pub when: &'static [Check],
    /// What needs it, or why it does no harm.
    pub reason: &'static str,
}

/// A condition on one argument: `argument & mask == value`, on its low 32 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Check {
    /// Which argument, from 0.
    pub argument: u8,
    /// The bits looked at.
    pub mask: u32,
    /// What they must be.
    pub value: u32,
}

const fn any(syscall: &'static str, reason: &'static str) -> Row {
    only(syscall, &[], reason)
}

const fn only(syscall: &'static str, when: &'static [Check], reason: &'static str) -> Row {
    Row {
        syscall,
        when,
        reason,
    }
}

const fn is(argument: u8, value: u32) -> Check {
    masked(argument, u32::MAX, value)
}

const fn masked(argument: u8, mask: u32, value: u32) -> Check {
    Check {
        argument,
        mask,
        value,
    }
}

/// Flags of `clone` that make new namespaces. `CLONE_NEWTIME` is not among them: `clone` reads that
/// bit as part of the exit signal.
const NAMESPACES: u32 = 0x7e02_0000;
const CLONE_THREAD: u32 = 0x0001_0000;

const AF_UNIX: u32 = 1;
const AF_INET: u32 = 2;
const AF_INET6: u32 = 10;
const AF_NETLINK: u32 = 16;
const NETLINK_ROUTE: u32 = 0;
const SOCK_STREAM: u32 = 1;
const SOCK_DGRAM: u32 = 2;
/// The type of a socket without `SOCK_NONBLOCK` and `SOCK_CLOEXEC`.
const SOCK_TYPE: u32 = !0x0008_0800;

#[cfg(test)]
mod tests;
