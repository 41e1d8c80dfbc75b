//! The words of a finding.

use crate::report::Launcher;
use serde::{Deserialize, Serialize};
use std::fmt;

/// How far something is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// All of it was seen to work.
    Works,
    /// Some of it.
    Limited,
    /// None of it.
    Missing,
}

impl State {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Works => "works",
            Self::Limited => "limited",
            Self::Missing => "missing",
        }
    }
}

macro_rules! features {
    ($($(#[$doc:meta])* $feature:ident = $name:literal),* $(,)?) => {
        /// Something a machine may have.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Feature { $($(#[$doc])* $feature),* }

        impl Feature {
            /// Every feature, in the order they are shown.
            pub const ALL: &'static [Self] = &[$(Self::$feature),*];

            /// The words for it.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$feature => $name),* }
            }
        }
    };
}

features! {
    /// Own user namespaces.
    UserNamespaces = "user namespaces",
    /// Own mount namespaces.
    MountNamespaces = "mount namespaces",
    /// Own pid namespaces.
    PidNamespaces = "pid namespaces",
    /// Own network namespaces.
    NetworkNamespaces = "network namespaces",
    /// Own ipc namespaces.
    IpcNamespaces = "ipc namespaces",
    /// Own uts namespaces.
    UtsNamespaces = "uts namespaces",
    /// Own cgroup namespaces.
    CgroupNamespaces = "cgroup namespaces",
    /// An own `/proc`.
    Proc = "own /proc",
    /// Mounts as descriptors.
    MountApi = "mount descriptors",
    /// Overlays, for stages.
    Overlay = "overlay",
    /// Mounts with other owners, for sandboxes started by root.
    IdmappedMounts = "idmapped mounts",
    /// Landlock rules.
    Landlock = "landlock",
    /// Filters of system calls.
    Seccomp = "seccomp filters",
    /// Filters that ask the supervisor.
    SeccompNotify = "seccomp notification",
    /// Descriptors of processes.
    Pidfd = "process descriptors",
    /// Cgroups that may be made.
    Cgroups = "cgroups",
    /// Nothing outside the grants is read.
    Reads = "reads confined",
    /// A denied path inside a grant.
    DeniedPaths = "denied paths",
    /// A denied pattern inside a grant.
    DeniedPatterns = "denied patterns",
    /// Nothing outside the grants is written.
    Writes = "writes confined",
    /// Writes to the workspace land in the stage.
    Stage = "staged writes",
    /// No mounts and no namespaces from inside.
    Powers = "no new powers",
    /// Neither sockets nor ports of the host.
    Network = "network closed",
    /// Neither signals to nor memory of other processes.
    Processes = "processes apart",
    /// Nothing outlives its command or its supervisor.
    Lifetime = "ends as a whole",
    /// The limit on memory.
    MemoryLimit = "memory limit",
    /// The limit on processors.
    ProcessorLimit = "processor limit",
    /// The limit on processes.
    ProcessLimit = "process limit",
    /// The limit on time.
    TimeLimit = "time limit",
    /// The limit on output.
    OutputLimit = "output limit",
    /// The limit on the size of a file.
    FileSizeLimit = "file size limit",
    /// Bubblewrap.
    Bwrap = "bubblewrap",
    /// A container engine.
    Engine = "container engine",
    /// The preset `rust`.
    Rust = "toolchain rust",
    /// The preset `node`.
    Node = "toolchain node",
    /// The preset `python`.
    Python = "toolchain python",
    /// The preset `go`.
    Go = "toolchain go",
    /// The preset `java`.
    Java = "toolchain java",
    /// Airlock's state directory.
    StateDirectory = "state directory",
    /// The terminal a person would be asked at.
    Terminal = "terminal",
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What was found out about one feature.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Which.
    pub feature: Feature,
    /// How far it is there.
    pub state: State,
    /// How that was found out, and what came of it.
    pub how: String,
    /// Lines for a shell that mend it; what is not a command is a comment.
    pub fix: Option<String>,
}

/// What can raise the walls, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Airlock's own launcher.
    Native,
    /// Bubblewrap.
    Bwrap,
    /// A container engine.
    Container,
}

impl Step {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Bwrap => "bwrap",
            Self::Container => "container",
        }
    }

    /// The launcher of it, where there is one in this crate.
    pub const fn launcher(self) -> Option<Launcher> {
        match self {
            Self::Native => Some(Launcher::Native),
            Self::Bwrap => Some(Launcher::Bwrap),
            Self::Container => None,
        }
    }
}

/// One rung of the ladder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rung {
    /// Which.
    pub launcher: Step,
    /// Whether it holds: all of it, but for something a plan may do without, or not.
    pub state: State,
    /// Why.
    pub reason: String,
}

/// Everything that was found out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Findings {
    /// One for each feature.
    pub findings: Vec<Finding>,
    /// The best rung that holds.
    pub rung: Option<Step>,
    /// Every rung, best first.
    pub ladder: Vec<Rung>,
}

impl Findings {
    /// The best launcher of this crate that holds.
    pub fn launcher(&self) -> Option<Launcher> {
        let holds = |rung: &&Rung| rung.state != State::Missing;
        let mut holding = self.ladder.iter().filter(holds);
        holding.find_map(|rung| rung.launcher.launcher())
    }

    /// What was found out about `feature`.
    pub fn of(&self, feature: Feature) -> Option<&Finding> {
        self.findings
            .iter()
            .find(|finding| finding.feature == feature)
    }
}
