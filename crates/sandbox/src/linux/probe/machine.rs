//! What a probe asks of a machine, and the words it answers in.

use super::feature::Feature;
use crate::plan::{Class, Limit};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A machine that can be asked what it does. [`super::Real`] is this one.
pub trait Machine {
    /// Who asks, on what kernel.
    fn who(&self) -> Who;
    /// The text of a small file of the system, to explain with.
    fn text(&self, path: &str) -> Option<String>;
    /// Uses one ability of the kernel: how, or what the system said.
    fn ability(&self, ability: Ability) -> Result<String, String>;
    /// Starts a sandbox and attempts what is forbidden there: or why it did not start.
    fn native(&self) -> Result<Trial, String>;
    /// Makes a cgroup.
    fn cgroups(&self) -> Cgroups;
    /// Starts bubblewrap, if there is one.
    fn bwrap(&self) -> Option<Bubble>;
    /// The container engines there are signs of.
    fn engines(&self) -> Vec<Engine>;
    /// The toolchains there are.
    fn toolchains(&self) -> Vec<Toolchain>;
    /// Airlock's state directory, or why it cannot be used.
    fn state(&self) -> Result<StateDirectory, String>;
    /// What a person would be asked at.
    fn terminal(&self) -> Terminal;
}

/// Who asks, on what kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Who {
    /// The user's number.
    pub user: u32,
    /// The kernel's release.
    pub release: String,
    /// The program that wants to make sandboxes, for rules that name it.
    pub program: String,
}

impl Who {
    /// Whether root asks.
    pub const fn is_root(&self) -> bool {
        self.user == 0
    }
}

/// An ability of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Ability {
    /// A user namespace.
    UserNamespace,
    /// A mount namespace.
    MountNamespace,
    /// A pid namespace.
    PidNamespace,
    /// A network namespace.
    NetworkNamespace,
    /// An ipc namespace.
    IpcNamespace,
    /// A uts namespace.
    UtsNamespace,
    /// A cgroup namespace.
    CgroupNamespace,
    /// Mounting `/proc`.
    Proc,
    /// Mounting by descriptors.
    MountApi,
    /// Mounting an overlay, and writing to it.
    Overlay,
    /// A mount with another owner.
    IdmappedMounts,
    /// Landlock.
    Landlock,
    /// A seccomp filter.
    Seccomp,
    /// A seccomp filter that asks.
    SeccompNotify,
    /// A descriptor of a process.
    Pidfd,
}

impl Ability {
    /// Every ability.
    pub const ALL: &'static [Self] = &[
        Self::UserNamespace,
        Self::MountNamespace,
        Self::PidNamespace,
        Self::NetworkNamespace,
        Self::IpcNamespace,
        Self::UtsNamespace,
        Self::CgroupNamespace,
        Self::Proc,
        Self::MountApi,
        Self::Overlay,
        Self::IdmappedMounts,
        Self::Landlock,
        Self::Seccomp,
        Self::SeccompNotify,
        Self::Pidfd,
    ];

    /// The feature it is shown as.
    pub const fn feature(self) -> Feature {
        match self {
            Self::UserNamespace => Feature::UserNamespaces,
            Self::MountNamespace => Feature::MountNamespaces,
            Self::PidNamespace => Feature::PidNamespaces,
            Self::NetworkNamespace => Feature::NetworkNamespaces,
            Self::IpcNamespace => Feature::IpcNamespaces,
            Self::UtsNamespace => Feature::UtsNamespaces,
            Self::CgroupNamespace => Feature::CgroupNamespaces,
            Self::Proc => Feature::Proc,
            Self::MountApi => Feature::MountApi,
            Self::Overlay => Feature::Overlay,
            Self::IdmappedMounts => Feature::IdmappedMounts,
            Self::Landlock => Feature::Landlock,
            Self::Seccomp => Feature::Seccomp,
            Self::SeccompNotify => Feature::SeccompNotify,
            Self::Pidfd => Feature::Pidfd,
        }
    }
}

/// Something that must not succeed inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Forbidden {
    /// Reading a file outside the grants.
    ReadCanary,
    /// Reading the password hashes.
    ReadShadow,
    /// Reading a denied path inside a grant.
    ReadDenied,
    /// Reading what a denied pattern covers inside a grant.
    ReadPattern,
    /// Writing to a system directory.
    WriteSystem,
    /// Writing to the kernel's settings.
    WriteSettings,
    /// Changing the real tree rather than the stage.
    WriteTree,
    /// Mounting something.
    Mount,
    /// Making a user namespace.
    Unshare,
    /// Connecting to an abstract socket of the host.
    AbstractSocket,
    /// Connecting to a socket of the host by its path.
    PathSocket,
    /// Connecting to a port of the host.
    Port,
    /// Killing a process of the host.
    Kill,
    /// Opening the memory of a process of the host.
    Memory,
    /// A process that goes on after its command.
    OutliveCommand,
    /// A process that goes on after its supervisor was killed.
    OutliveSupervisor,
}

impl Forbidden {
    /// Every one, in the order they are shown.
    pub const ALL: &'static [Self] = &[
        Self::ReadCanary,
        Self::ReadShadow,
        Self::ReadDenied,
        Self::ReadPattern,
        Self::WriteSystem,
        Self::WriteSettings,
        Self::WriteTree,
        Self::Mount,
        Self::Unshare,
        Self::AbstractSocket,
        Self::PathSocket,
        Self::Port,
        Self::Kill,
        Self::Memory,
        Self::OutliveCommand,
        Self::OutliveSupervisor,
    ];

    /// What was attempted, in words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ReadCanary => "read a file outside",
            Self::ReadShadow => "read /etc/shadow",
            Self::ReadDenied => "read a denied path",
            Self::ReadPattern => "read what `**/.env` denies",
            Self::WriteSystem => "write to /usr",
            Self::WriteSettings => "write to /proc/sys",
            Self::WriteTree => "change the real tree",
            Self::Mount => "mount",
            Self::Unshare => "make a user namespace",
            Self::AbstractSocket => "connect to an abstract socket",
            Self::PathSocket => "connect to a socket by path",
            Self::Port => "connect to a port",
            Self::Kill => "kill a process outside",
            Self::Memory => "open a process's memory outside",
            Self::OutliveCommand => "outlive its command",
            Self::OutliveSupervisor => "outlive its supervisor",
        }
    }

    /// The feature it is shown under.
    pub const fn feature(self) -> Feature {
        match self {
            Self::ReadCanary | Self::ReadShadow => Feature::Reads,
            Self::ReadDenied => Feature::DeniedPaths,
            Self::ReadPattern => Feature::DeniedPatterns,
            Self::WriteSystem | Self::WriteSettings => Feature::Writes,
            Self::WriteTree => Feature::Stage,
            Self::Mount | Self::Unshare => Feature::Powers,
            Self::AbstractSocket | Self::PathSocket | Self::Port => Feature::Network,
            Self::Kill | Self::Memory => Feature::Processes,
            Self::OutliveCommand | Self::OutliveSupervisor => Feature::Lifetime,
        }
    }
}

/// What came of forbidden attempts: how each was refused, or what it did instead.
pub type Refusals = BTreeMap<Forbidden, Result<String, String>>;

/// A limit that was gone over on purpose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limited {
    /// How firmly it holds, as the sandbox reports.
    pub class: Class,
    /// By what.
    pub by: String,
    /// What came of going over it; an error if it was not held.
    pub tried: Result<String, String>,
}

/// A sandbox that was tried.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Trial {
    /// What was attempted inside.
    pub refusals: Refusals,
    /// The limits, each gone over.
    pub limits: BTreeMap<Limit, Limited>,
}

/// What a cgroup that was made can hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cgroups {
    /// The limits it took.
    pub held: Vec<Limit>,
    /// Why it holds no more.
    pub why_not: Vec<String>,
}

/// Bubblewrap as it was tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bubble {
    /// Where it is.
    pub path: String,
    /// What it calls itself.
    pub version: String,
    /// What was attempted inside, or why it did not start.
    pub refusals: Result<Refusals, String>,
}

/// Signs of a container engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Engine {
    /// `docker` or `podman`.
    pub name: &'static str,
    /// Where its client is, if it has one.
    pub client: Option<String>,
    /// The socket that answered, or why none did.
    pub answers: Result<String, String>,
}

/// A toolchain preset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Toolchain {
    /// Which it is shown as.
    pub feature: Feature,
    /// What was found, and where.
    pub found: Vec<String>,
    /// What was left out, and why.
    pub notes: Vec<String>,
}

/// Airlock's state directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateDirectory {
    /// Where it is.
    pub path: String,
    /// Its permission bits.
    pub mode: u32,
    /// Whose it is.
    pub owner: u32,
    /// Bytes that can still be written there.
    pub free: u64,
    /// Whether files there take extended attributes.
    pub attributes: bool,
}

/// What a person would be asked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terminal {
    /// Whether input comes from one.
    pub input: bool,
    /// Whether output goes to one.
    pub output: bool,
    /// What it calls itself.
    pub name: Option<String>,
}
