//! A plan as arguments for bubblewrap, 0.8 or newer.
//!
//! Every value is one argument, never part of another; options that take values are followed by
//! exactly as many, and the program comes after `--`. The environment is not among the arguments,
//! where every user of the machine could read it: the launcher starts `bwrap` with it.
//!
//! Bubblewrap raises the namespaces, the root, capabilities and no_new_privs, and installs the
//! filter it is handed. It cannot limit resources or deny patterns and paths that do not exist:
//! [`Bwrap::uncovered`] lists the denials left to the launcher, which must refuse to start unless it
//! covers them otherwise.

use crate::plan::{Access, Denial, Extent, HostPath, Plan, Target};
use std::ffi::{OsStr, OsString};

/// Something of the system that every sandbox sees, as it is on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SystemEntry {
    /// A file or directory, seen read-only.
    Existing(HostPath),
    /// A symlink, such as `/bin` where `/usr` is merged.
    Link {
        /// Where it lies.
        path: HostPath,
        /// What it says.
        target: OsString,
    },
}

/// A denied path that exists, hidden under something empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mask {
    /// A directory: hidden under an empty one.
    Directory(HostPath),
    /// Anything else: hidden under `/dev/null`.
    File(HostPath),
}

impl Mask {
    const fn path(&self) -> &HostPath {
        match self {
            Self::Directory(path) | Self::File(path) => path,
        }
    }
}

/// What the launcher knows and the plan does not.
#[derive(Debug, Clone)]
pub struct BwrapFacts<'a> {
    /// System directories, with links, in the order to be made.
    pub system: &'a [SystemEntry],
    /// The denied paths that exist, and what they are.
    pub masks: &'a [Mask],
    /// The home inside the sandbox, empty at first.
    pub home: &'a HostPath,
    /// Where the stage of the workspace can be written, if the plan has one.
    pub stage: Option<&'a HostPath>,
    /// The descriptor the filter is read from.
    pub filter_descriptor: u32,
}

/// Why there are no arguments.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BwrapError {
    /// Without a stage the real tree would be written.
    #[error("the workspace `{0}` is to be staged, and there is no stage")]
    NoStage(HostPath),
    /// A mask for what the plan does not deny.
    #[error("`{0}` would be hidden, but the plan does not deny it")]
    NotDenied(HostPath),
    /// Nothing to run.
    #[error("the command is empty")]
    NoCommand,
    /// A NUL byte would end an argument early.
    #[error("an argument of the command contains a NUL byte")]
    Nul,
}

/// Arguments for bubblewrap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bwrap {
    /// Everything after the name `bwrap`.
    pub arguments: Vec<OsString>,
    /// Denials inside grants that no mount expresses.
    pub uncovered: Vec<Denial>,
}

/// The uid and gid inside: not 0, and nobody's on the host.
const INSIDE: &str = "1000";

/// The arguments that run `command` by `plan`.
pub fn bwrap(
    plan: &Plan,
    facts: &BwrapFacts<'_>,
    command: &[OsString],
) -> Result<Bwrap, BwrapError> {
    check_command(command)?;
    let mut arguments = Arguments::default();
    walls(&mut arguments, facts.filter_descriptor);
    base(&mut arguments, facts);
    grants(&mut arguments, plan, facts.stage)?;
    let uncovered = masks(&mut arguments, plan, facts.masks)?;
    arguments.option("--remount-ro", ["/"]);
    arguments.option("--chdir", [plan.directory().as_os_str()]);
    arguments.option("--", command);
    Ok(Bwrap {
        arguments: arguments.0,
        uncovered,
    })
}

fn check_command(command: &[OsString]) -> Result<(), BwrapError> {
    if command.first().is_none_or(|program| program.is_empty()) {
        return Err(BwrapError::NoCommand);
    }
    if command
        .iter()
        .any(|argument| argument.as_encoded_bytes().contains(&0))
    {
        return Err(BwrapError::Nul);
    }
    Ok(())
}

#[derive(Default)]
struct Arguments(Vec<OsString>);

impl Arguments {
    fn flag(&mut self, name: &str) {
        self.0.push(name.into());
    }

    fn option<V: AsRef<OsStr>>(&mut self, name: &str, values: impl IntoIterator<Item = V>) {
        self.flag(name);
        self.0
            .extend(values.into_iter().map(|value| value.as_ref().to_owned()));
    }
}

fn walls(arguments: &mut Arguments, filter_descriptor: u32) {
    for namespace in ["user", "ipc", "pid", "net", "uts", "cgroup"] {
        arguments.flag(&format!("--unshare-{namespace}"));
    }
    arguments.flag("--disable-userns");
    arguments.flag("--die-with-parent");
    arguments.flag("--new-session");
    arguments.option("--cap-drop", ["ALL"]);
    arguments.option("--uid", [INSIDE]);
    arguments.option("--gid", [INSIDE]);
    arguments.option("--hostname", ["airlock"]);
    arguments.option("--seccomp", [filter_descriptor.to_string()]);
}

fn base(arguments: &mut Arguments, facts: &BwrapFacts<'_>) {
    for entry in facts.system {
        match entry {
            SystemEntry::Existing(path) => {
                arguments.option("--ro-bind", [path.as_os_str(), path.as_os_str()]);
            }
            SystemEntry::Link { path, target } => {
                arguments.option("--symlink", [target.as_os_str(), path.as_os_str()]);
            }
        }
    }
    arguments.option("--proc", ["/proc"]);
    arguments.option("--dev", ["/dev"]);
    arguments.option("--tmpfs", ["/tmp"]);
    arguments.option("--tmpfs", [facts.home.as_os_str()]);
}

fn grants(
    arguments: &mut Arguments,
    plan: &Plan,
    stage: Option<&HostPath>,
) -> Result<(), BwrapError> {
    for (path, access) in plan.mounts() {
        let (option, source) = match access {
            Access::Read => ("--ro-bind", path),
            Access::Write => ("--bind", path),
            Access::Stage => {
                let stage = stage.ok_or_else(|| BwrapError::NoStage(path.clone()))?;
                ("--bind", stage)
            }
        };
        arguments.option(option, [source.as_os_str(), path.as_os_str()]);
    }
    Ok(())
}

/// Hides what is denied and exists. Gives the denials this leaves.
fn masks(
    arguments: &mut Arguments,
    plan: &Plan,
    masks: &[Mask],
) -> Result<Vec<Denial>, BwrapError> {
    let mut hidden = Vec::new();
    for mask in masks {
        let path = mask.path();
        let exact = |denial: &&Denial| matches!(&denial.target, Target::Path(own) if own == path);
        // The one that takes more away comes last in order.
        let denial = plan.denials().iter().rfind(exact);
        let denial = denial.ok_or_else(|| BwrapError::NotDenied(path.clone()))?;
        match (denial.extent, mask) {
            (Extent::Writing, _) => {
                arguments.option("--ro-bind", [path.as_os_str(), path.as_os_str()]);
            }
            (Extent::Everything, Mask::Directory(_)) => {
                arguments.option("--tmpfs", [path.as_os_str()]);
                arguments.option("--remount-ro", [path.as_os_str()]);
            }
            (Extent::Everything, Mask::File(_)) => {
                arguments.option("--ro-bind", [OsStr::new("/dev/null"), path.as_os_str()]);
            }
        }
        hidden.push(path);
    }
    let meets = |denial: &&Denial| {
        let root = denial.target.root();
        let mut mounts = plan.mounts().into_keys().collect::<Vec<_>>().into_iter();
        mounts.any(|mount| mount.holds(&root) || root.holds(mount))
    };
    let covered = |denial: &&Denial| match &denial.target {
        Target::Path(path) => hidden.contains(&path),
        Target::Pattern(_) => false,
    };
    let left = plan
        .denials()
        .iter()
        .filter(meets)
        .filter(|denial| !covered(denial));
    Ok(left.cloned().collect())
}
