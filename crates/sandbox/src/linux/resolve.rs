//! What a launch means on this machine, looked up once before anything is made.
//!
//! Links in granted paths are resolved here; the child refuses any it meets afterwards. What is
//! denied and exists is listed for hiding; what is denied and does not, or is a pattern, is left to
//! the broker.

use super::compile::PROC_HIDDEN;
use super::identity::{Identity, Maps};
use crate::base::identity_files;
use crate::generate::{Mask, SystemEntry};
use crate::launch::{Launch, StartError};
use crate::plan::{Access, Denial, Extent, HostPath, Target};
use std::ffi::CStr;
use std::fs;
use std::io;
use std::os::fd::RawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Whether something can hold other things.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Directory,
    Other,
}

/// A granted path, found.
#[derive(Debug)]
pub(super) struct Granted {
    /// Where it is seen inside.
    pub(super) place: HostPath,
    /// Where it is on the host, without links.
    pub(super) source: PathBuf,
    pub(super) kind: Kind,
    pub(super) access: Access,
    /// The user namespace by which its owner becomes the sandbox's, where the supervisor is root.
    pub(super) map: Option<RawFd>,
}

/// A file made for the sandbox: its name in the base, its place, its content.
pub(super) type Text = (&'static CStr, &'static str, Vec<u8>);

/// What a launch means on this machine.
#[derive(Debug)]
pub(super) struct Resolved {
    /// A directory the base can be made on.
    pub(super) base: &'static Path,
    pub(super) system: Vec<(SystemEntry, Kind)>,
    pub(super) masks: Vec<Mask>,
    pub(super) texts: Vec<Text>,
    pub(super) proc_hidden: Vec<&'static str>,
    pub(super) granted: Vec<Granted>,
    /// Denied paths that exist.
    pub(super) hidden: Vec<Mask>,
    /// Paths that exist and may not be written.
    pub(super) frozen: Vec<HostPath>,
    /// Denials that no mount can express.
    pub(super) brokered: Vec<Denial>,
}

/// Directories every system has; the first that is one serves as the place of the base.
const BASES: &[&str] = &["/tmp", "/run", "/var", "/mnt", "/usr"];

fn kind_of(metadata: &fs::Metadata) -> Kind {
    if metadata.is_dir() {
        Kind::Directory
    } else {
        Kind::Other
    }
}

fn step(what: String, source: io::Error) -> StartError {
    StartError::Step { step: what, source }
}

impl Resolved {
    pub(super) fn of(
        launch: &Launch,
        identity: Identity,
        maps: &mut Maps,
    ) -> Result<Self, StartError> {
        let base = BASES.iter().map(Path::new).find(|path| path.is_dir());
        let nowhere = || {
            step(
                "find a directory to work on".into(),
                io::ErrorKind::NotFound.into(),
            )
        };
        let granted = granted(launch, identity, maps)?;
        let (hidden, frozen, brokered) = denials(launch);
        let there = |name: &&&str| Path::new("/proc").join(name).exists();
        Ok(Self {
            base: base.ok_or_else(nowhere)?,
            system: system(&launch.base.system)?,
            masks: launch.base.masks.clone(),
            texts: texts(launch),
            proc_hidden: PROC_HIDDEN.iter().filter(there).copied().collect(),
            granted,
            hidden,
            frozen,
            brokered,
        })
    }
}

fn system(entries: &[SystemEntry]) -> Result<Vec<(SystemEntry, Kind)>, StartError> {
    let found = entries.iter().map(|entry| match entry {
        SystemEntry::Existing(path) => {
            let metadata = fs::symlink_metadata(path.as_path())
                .map_err(|source| step(format!("find `{}`", path.as_path().display()), source))?;
            Ok((entry.clone(), kind_of(&metadata)))
        }
        SystemEntry::Link { .. } => Ok((entry.clone(), Kind::Other)),
    });
    found.collect()
}

/// Who the sandbox's user is, for programs that ask.
fn texts(launch: &Launch) -> Vec<Text> {
    let files = identity_files(&launch.base.home);
    let all = [
        (c"/passwd", "/etc/passwd", files.passwd),
        (c"/group", "/etc/group", files.group),
        (c"/nsswitch", "/etc/nsswitch.conf", files.nsswitch),
    ];
    all.into_iter()
        .filter(|(_, place, _)| Path::new(place).is_file())
        .map(|(name, place, text)| (name, place, text.into_bytes()))
        .collect()
}

fn granted(
    launch: &Launch,
    identity: Identity,
    maps: &mut Maps,
) -> Result<Vec<Granted>, StartError> {
    let mounts = launch.plan.mounts();
    let found = mounts.into_iter().map(|(place, access)| {
        let shown = || format!("find the granted `{}`", place.as_path().display());
        let source = fs::canonicalize(place.as_path()).map_err(|source| step(shown(), source))?;
        let metadata = fs::metadata(&source).map_err(|source| step(shown(), source))?;
        let map = match identity {
            Identity::Root { .. } => maps
                .of(metadata.uid(), metadata.gid())
                .map_err(|source| step("make a user namespace for a mount".into(), source))?,
            Identity::User { .. } => None,
        };
        Ok(Granted {
            place: place.clone(),
            kind: kind_of(&metadata),
            source,
            access,
            map,
        })
    });
    found.collect()
}

/// What is denied: by hiding, by freezing, and by asking the broker.
fn denials(launch: &Launch) -> (Vec<Mask>, Vec<HostPath>, Vec<Denial>) {
    let mounts = launch.plan.mounts();
    let (mut hidden, mut frozen, mut brokered) = (Vec::new(), Vec::new(), Vec::new());
    for denial in launch.plan.denials() {
        let root = denial.target.root();
        let meets = |mount: &&HostPath| mount.holds(&root) || root.holds(mount);
        if !mounts.keys().copied().any(|mount| meets(&mount)) {
            continue;
        }
        let writable = |(mount, access): (&&HostPath, &Access)| {
            *access > Access::Read && (mount.holds(&root) || root.holds(mount))
        };
        if denial.extent == Extent::Writing && !mounts.iter().any(writable) {
            continue;
        }
        let Target::Path(path) = &denial.target else {
            brokered.push(denial.clone());
            continue;
        };
        // A link is not what it points at: mounting on it would cover something else.
        match (fs::symlink_metadata(path.as_path()), denial.extent) {
            (Ok(metadata), _) if metadata.is_symlink() => brokered.push(denial.clone()),
            (Ok(_), Extent::Writing) => frozen.push(path.clone()),
            (Ok(metadata), Extent::Everything) if metadata.is_dir() => {
                hidden.push(Mask::Directory(path.clone()));
            }
            (Ok(_), Extent::Everything) => hidden.push(Mask::File(path.clone())),
            (Err(_), _) => brokered.push(denial.clone()),
        }
    }
    (hidden, frozen, brokered)
}
