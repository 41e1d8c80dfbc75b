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

use crate::launch::KERNEL_SOCKET;
use crate::plan::{Access, Denial, Extent, HostPath, Plan, Target};
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::Path;

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
    pub(crate) const fn path(&self) -> &HostPath {
        match self {
            Self::Directory(path) | Self::File(path) => path,
        }
    }
}

/// A file whose text the launcher hands over by a descriptor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handed {
    /// Where it is seen.
    pub path: HostPath,
    /// What it is read from.
    pub descriptor: u32,
}

/// Something the home begins with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AtHome {
    /// A symlink.
    Link {
        /// Where it lies.
        path: HostPath,
        /// What it says.
        target: HostPath,
    },
    /// A file of the sandbox's own.
    File(Handed),
}

/// What the launcher knows and the plan does not.
#[derive(Debug, Clone)]
pub struct BwrapFacts<'a> {
    /// System directories, with links, in the order to be made.
    pub system: &'a [SystemEntry],
    /// What of them is hidden, whatever the plan says.
    pub system_masks: &'a [Mask],
    /// Files that take the place of the system's.
    pub texts: &'a [Handed],
    /// Names in `/proc` to be hidden. They exist.
    pub kernel_files: &'a [&'a str],
    /// The denied paths that exist, and what they are.
    pub masks: &'a [Mask],
    /// The home inside the sandbox, empty at first.
    pub home: &'a HostPath,
    /// What is put into it.
    pub at_home: &'a [AtHome],
    /// The most bytes each writable place in memory may hold.
    pub scratch: u64,
    /// Where the stage of the workspace can be written, if the plan has one.
    pub stage: Option<&'a HostPath>,
    /// The kernel's socket for this sandbox, if the plan has one.
    pub socket: Option<&'a HostPath>,
    /// Where the command starts.
    pub directory: &'a HostPath,
    /// The command already leads a session of its own, with a terminal to it.
    pub in_session: bool,
    /// The descriptor the filter is read from.
    pub filter_descriptor: u32,
    /// The descriptor bubblewrap tells what becomes of the command.
    pub status_descriptor: u32,
    /// The descriptor bubblewrap waits for before it runs the command.
    pub block_descriptor: u32,
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

/// A link to `/tmp`, unless the plan shows something beneath it: then a directory, read-only.
const VAR_TMP: &str = "/var/tmp";

/// The arguments that run `command` by `plan`.
pub fn bwrap(
    plan: &Plan,
    facts: &BwrapFacts<'_>,
    command: &[OsString],
) -> Result<Bwrap, BwrapError> {
    check_command(command)?;
    let mut arguments = Arguments::default();
    walls(&mut arguments, facts);
    base(&mut arguments, plan, facts);
    grants(&mut arguments, plan, facts.stage)?;
    let uncovered = masks(&mut arguments, plan, facts)?;
    if let Some(socket) = facts.socket.filter(|_| plan.has_socket()) {
        arguments.option("--ro-bind", [socket.as_os_str(), OsStr::new(KERNEL_SOCKET)]);
    }
    arguments.option("--remount-ro", ["/"]);
    arguments.option("--chdir", [facts.directory.as_os_str()]);
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

fn walls(arguments: &mut Arguments, facts: &BwrapFacts<'_>) {
    for namespace in ["user", "ipc", "pid", "net", "uts", "cgroup"] {
        arguments.flag(&format!("--unshare-{namespace}"));
    }
    arguments.flag("--disable-userns");
    arguments.flag("--die-with-parent");
    if !facts.in_session {
        arguments.flag("--new-session");
    }
    arguments.option("--cap-drop", ["ALL"]);
    arguments.option("--uid", [INSIDE]);
    arguments.option("--gid", [INSIDE]);
    arguments.option("--hostname", ["airlock"]);
    for (name, descriptor) in [
        ("--seccomp", facts.filter_descriptor),
        ("--json-status-fd", facts.status_descriptor),
        ("--block-fd", facts.block_descriptor),
    ] {
        arguments.option(name, [descriptor.to_string()]);
    }
}

fn base(arguments: &mut Arguments, plan: &Plan, facts: &BwrapFacts<'_>) {
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
    for mask in facts.system_masks {
        hide(arguments, mask);
    }
    for text in facts.texts {
        handed(arguments, "--ro-bind-data", text);
    }
    kernel_files(arguments, facts);
    arguments.option("--dev", ["/dev"]);
    arguments.option("--remount-ro", ["/dev"]);
    // Nothing can be mounted beneath a link: its target is only there once the root is.
    if !beneath(Path::new(VAR_TMP), plan, facts) {
        arguments.option("--symlink", ["/tmp", VAR_TMP]);
    }
    arguments.option("--dir", ["/run"]);
    for (mode, place) in [
        ("1777", OsStr::new("/dev/shm")),
        ("1777", OsStr::new("/tmp")),
        ("0755", facts.home.as_os_str()),
    ] {
        arguments.option("--perms", [mode]);
        arguments.option("--size", [facts.scratch.to_string()]);
        arguments.option("--tmpfs", [place]);
    }
    for entry in facts.at_home {
        match entry {
            AtHome::Link { path, target } => {
                arguments.option("--symlink", [target.as_os_str(), path.as_os_str()]);
            }
            AtHome::File(file) => handed(arguments, "--file", file),
        }
    }
}

/// Whether something of the plan, or the home, lies beneath `place`.
fn beneath(place: &Path, plan: &Plan, facts: &BwrapFacts<'_>) -> bool {
    let mounts = plan.mounts();
    let mut shown = mounts.keys().map(|path| path.as_path());
    shown.any(|path| path.starts_with(place)) || facts.home.as_path().starts_with(place)
}

fn handed(arguments: &mut Arguments, option: &str, file: &Handed) {
    let descriptor = OsString::from(file.descriptor.to_string());
    arguments.option("--perms", ["0644"]);
    arguments.option(option, [descriptor.as_os_str(), file.path.as_os_str()]);
}

/// `/proc`, read-only, without what nobody needs and without init: that one is bubblewrap's own and
/// lives under no filter, so whoever could write its memory would be rid of his.
fn kernel_files(arguments: &mut Arguments, facts: &BwrapFacts<'_>) {
    arguments.option("--proc", ["/proc"]);
    for name in facts.kernel_files {
        let path = format!("/proc/{name}");
        arguments.option("--ro-bind", ["/dev/null", path.as_str()]);
    }
    arguments.option("--remount-ro", ["/proc"]);
    arguments.option("--tmpfs", ["/proc/1"]);
    arguments.option("--remount-ro", ["/proc/1"]);
}

/// Puts something empty over a path.
fn hide(arguments: &mut Arguments, mask: &Mask) {
    match mask {
        Mask::Directory(path) => {
            arguments.option("--tmpfs", [path.as_os_str()]);
            arguments.option("--remount-ro", [path.as_os_str()]);
        }
        Mask::File(path) => {
            arguments.option("--ro-bind", [OsStr::new("/dev/null"), path.as_os_str()]);
        }
    }
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
    facts: &BwrapFacts<'_>,
) -> Result<Vec<Denial>, BwrapError> {
    let mut chosen = Vec::new();
    for mask in facts.masks {
        let path = mask.path();
        let exact = |denial: &&Denial| matches!(&denial.target, Target::Path(own) if own == path);
        // The one that takes more away comes last in order.
        let denial = plan.denials().iter().rfind(exact);
        let denial = denial.ok_or_else(|| BwrapError::NotDenied(path.clone()))?;
        chosen.push((mask, denial));
    }
    pins(arguments, plan, facts)?;
    for (mask, denial) in &chosen {
        let hidden_with = |(outer, why): &(&Mask, &Denial)| {
            why.extent == Extent::Everything && outer != mask && outer.path().holds(mask.path())
        };
        // What lies in a hidden directory is hidden with it, and no longer there to be mounted on.
        if chosen.iter().any(hidden_with) {
            continue;
        }
        match denial.extent {
            Extent::Writing => {
                let path = mask.path();
                let source = source(plan, facts.stage, path)?;
                arguments.option("--ro-bind", [source.as_os_str(), path.as_os_str()]);
            }
            Extent::Everything => hide(arguments, mask),
        }
    }
    let covered = |denial: &&Denial| match &denial.target {
        Target::Path(path) => chosen.iter().any(|(mask, _)| mask.path() == path),
        Target::Pattern(_) => false,
    };
    let left = plan
        .denials()
        .iter()
        .filter(|denial| meets(plan, denial) || meets_system(facts, denial))
        .filter(|denial| !covered(denial));
    Ok(left.cloned().collect())
}

/// Whether a mount of the plan shows something the denial could take away.
fn meets(plan: &Plan, denial: &Denial) -> bool {
    let root = denial.target.root();
    let takes_away = |access: Access| denial.extent == Extent::Everything || access > Access::Read;
    plan.mounts()
        .iter()
        .any(|(mount, access)| takes_away(*access) && (mount.holds(&root) || root.holds(mount)))
}

/// Whether it is a pattern, which no mount can say, of what is seen of the system.
fn meets_system(facts: &BwrapFacts<'_>, denial: &Denial) -> bool {
    let root = denial.target.root();
    let mut system = facts.system.iter();
    let met = |entry: &SystemEntry| matches!(entry, SystemEntry::Existing(path) if path.holds(&root) || root.holds(path));
    let is_pattern = matches!(denial.target, Target::Pattern(_));
    is_pattern && denial.extent == Extent::Everything && system.any(met)
}

/// Makes every directory between a writable mount and what is hidden in it a mount itself: one that
/// could be renamed would take what is hidden with it and leave the denied path free.
fn pins(arguments: &mut Arguments, plan: &Plan, facts: &BwrapFacts<'_>) -> Result<(), BwrapError> {
    let mut between = BTreeSet::new();
    for mask in facts.masks {
        let Some((mount, access)) = mount_of(plan, mask.path()) else {
            continue;
        };
        if access == Access::Read {
            continue;
        }
        let above = mask.path().as_path().ancestors().skip(1);
        let above = above.take_while(|path| *path != mount.as_path());
        between.extend(above.filter_map(|path| HostPath::new(path).ok()));
    }
    for path in &between {
        let source = source(plan, facts.stage, path)?;
        arguments.option("--bind", [source.as_os_str(), path.as_os_str()]);
    }
    Ok(())
}

/// The innermost mount that shows `path`.
fn mount_of<'a>(plan: &'a Plan, path: &HostPath) -> Option<(&'a HostPath, Access)> {
    plan.mounts()
        .into_iter()
        .rfind(|(mount, _)| mount.holds(path))
}

/// Where on the host lies what is seen at `path`.
fn source(plan: &Plan, stage: Option<&HostPath>, path: &HostPath) -> Result<OsString, BwrapError> {
    let Some((mount, Access::Stage)) = mount_of(plan, path) else {
        return Ok(path.as_os_str().to_owned());
    };
    let stage = stage.ok_or_else(|| BwrapError::NoStage(mount.clone()))?;
    let rest = path.as_path().strip_prefix(mount.as_path());
    Ok(rest.map_or_else(
        |_| path.as_os_str().to_owned(),
        |rest| stage.as_path().join(rest).into_os_string(),
    ))
}
