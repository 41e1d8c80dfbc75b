//! What a launch means on this machine, looked up once before anything is made.
//!
//! Links in granted paths were followed before there was a plan: one that is met here leads to what
//! nobody judged, and is refused, as is any the child meets afterwards. Of the workspace alone it
//! does not matter by which name it goes. What is denied and exists is listed for hiding; what is
//! denied and does not, or is a pattern, is left to the broker.

use super::compile::PROC_HIDDEN;
use super::identity::{Identity, Maps};
use super::led::{Looked, led};
use super::prepared::limited;
use crate::base::identity_files;
use crate::generate::{Mask, SystemEntry};
use crate::launch::{Base, Launch, Layers, LayersKind, StartError};
use crate::plan::{Access, Denial, Extent, HostPath, Plan, Target, View, Workspace};
use crate::stage::UPPER;
use std::collections::BTreeSet;
use std::ffi::{CStr, OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
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
    /// Which of the user namespaces makes its owner the sandbox's, where the supervisor is root.
    pub(super) map: Option<u32>,
}

/// A file made for the sandbox: its name in the base, its place, its content.
pub(super) type Text = (&'static CStr, &'static str, Vec<u8>);

/// What every sandbox on this machine is built on.
#[derive(Debug)]
pub(super) struct Ground {
    /// A directory the base can be made on.
    pub(super) base: &'static Path,
    /// Files of the kernel's that nobody inside needs.
    pub(super) proc_hidden: Vec<&'static str>,
}

impl Ground {
    pub(super) fn find() -> Result<Self, StartError> {
        let base = BASES.iter().map(Path::new).find(|path| path.is_dir());
        let nowhere = || {
            step(
                "find a directory to work on".into(),
                io::ErrorKind::NotFound.into(),
            )
        };
        let there = |name: &&&str| Path::new("/proc").join(name).exists();
        Ok(Self {
            base: base.ok_or_else(nowhere)?,
            proc_hidden: PROC_HIDDEN.iter().filter(there).copied().collect(),
        })
    }
}

/// What every sandbox sees of the system.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) system: Vec<(SystemEntry, Kind)>,
    /// What of the system is hidden, and whether it then reads as empty.
    pub(super) masks: Vec<(Mask, bool)>,
    pub(super) texts: Vec<Text>,
}

impl Seen {
    pub(super) fn of(base: &Base) -> Result<Self, StartError> {
        Ok(Self {
            system: system(&base.system)?,
            masks: base.masks.iter().map(masked).collect(),
            texts: texts(base),
        })
    }
}

/// What a launch means on this machine.
#[derive(Debug)]
pub(super) struct Resolved {
    pub(super) granted: Vec<Granted>,
    /// Denied paths that exist.
    pub(super) hidden: Vec<Mask>,
    /// Paths that exist and may not be written.
    pub(super) frozen: Vec<HostPath>,
    /// Names of the workspace that are not there and may not be made.
    pub(super) ghosts: Vec<OsString>,
    /// Every denial, if there is one that no mount can express. The broker acts from outside, where
    /// a mount of the sandbox keeps no file from being removed: it has to know all of them.
    pub(super) brokered: Vec<Denial>,
    /// What says where denied names lead.
    pub(super) looked: Looked,
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
        let granted = granted(launch, identity, maps)?;
        let (also, looked) = led(&launch.plan, launch.layers.as_ref())?;
        let denied = Denied::of(launch, &also);
        Ok(Self {
            granted,
            hidden: denied.hidden,
            frozen: denied.frozen,
            ghosts: denied.ghosts,
            brokered: denied.brokered,
            looked,
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

/// Programs that find a file everybody may read expect to read it; one that few may is refused.
fn masked(mask: &Mask) -> (Mask, bool) {
    let empty = match mask {
        Mask::Directory(_) => false,
        Mask::File(path) => {
            fs::symlink_metadata(path.as_path()).is_ok_and(|metadata| metadata.mode() & 0o004 != 0)
        }
    };
    (mask.clone(), empty)
}

/// Who the sandbox's user is, for programs that ask.
fn texts(base: &Base) -> Vec<Text> {
    let files = identity_files(&base.home);
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

/// Where on the host lies what is granted at `place`.
///
/// Whoever could write beside it may have put a link there since the plan was judged, to the real
/// tree or to Airlock's own files: a grant is followed only to what the sandbox has as much of by
/// its own name. That is how a toolchain is read that has two.
pub(super) fn source(
    (plan, base): (&Plan, &Base),
    place: &HostPath,
    access: Access,
) -> io::Result<PathBuf> {
    let source = fs::canonicalize(place.as_path())?;
    let is_own = |workspace: &Workspace| workspace.path == *place;
    if source == place.as_path() || plan.workspace().is_some_and(is_own) {
        return Ok(source);
    }
    let real = HostPath::new(&source).ok();
    if real.is_some_and(|real| is_granted((plan, base), &real, access)) {
        return Ok(source);
    }
    let why = format!("it leads to `{}`, which is not granted", source.display());
    Err(io::Error::new(io::ErrorKind::InvalidInput, why))
}

/// Whether so much of `real`, in which there is no link, is had by its own name.
fn is_granted((plan, base): (&Plan, &Base), real: &HostPath, access: Access) -> bool {
    let mut denials = plan.denials().iter();
    if denials.any(|denial| denial.target.covers(real)) {
        return false;
    }
    let as_much = |(mount, allowed): (&HostPath, Access)| {
        mount.holds(real) && allowed != Access::Stage && allowed >= access
    };
    let shows =
        |entry: &SystemEntry| matches!(entry, SystemEntry::Existing(path) if path.holds(real));
    let (mut system, mut masks) = (base.system.iter(), base.masks.iter());
    let of_system =
        access == Access::Read && system.any(shows) && !masks.any(|mask| mask.path().holds(real));
    of_system || plan.mounts().into_iter().any(as_much)
}

fn granted(
    launch: &Launch,
    identity: Identity,
    maps: &mut Maps,
) -> Result<Vec<Granted>, StartError> {
    let mounts = launch.plan.mounts();
    let found = mounts.into_iter().map(|(place, access)| {
        let shown = || format!("find the granted `{}`", place.as_path().display());
        let found = source((&launch.plan, &launch.base), place, access);
        let source = found.map_err(|source| step(shown(), source))?;
        let metadata = fs::metadata(&source).map_err(|source| step(shown(), source))?;
        if metadata.file_type().is_socket() {
            let why = io::Error::new(io::ErrorKind::InvalidInput, "it is a socket");
            return Err(step(shown(), why));
        }
        let map = match identity {
            Identity::Root { .. } => {
                let made = maps.of(metadata.uid(), metadata.gid());
                let what = "make a user namespace for a mount";
                Some(made.map_err(|source| step(what.into(), limited(source)))?)
            }
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

/// What is denied: by hiding, by freezing, by a ghost, and by asking the broker.
#[derive(Default)]
struct Denied {
    hidden: Vec<Mask>,
    frozen: Vec<HostPath>,
    ghosts: Vec<OsString>,
    brokered: Vec<Denial>,
    all: Vec<Denial>,
}

impl Denied {
    fn of(launch: &Launch, also: &BTreeSet<Denial>) -> Self {
        let mounts = launch.plan.mounts();
        let mut denied = Self::default();
        let by_link: BTreeSet<Denial> = by_links(launch)
            .into_iter()
            .chain(also.iter().cloned())
            .collect();
        for denial in launch.plan.denials().iter().chain(&by_link) {
            let root = denial.target.root();
            let met = |mount: &HostPath| mount.holds(&root) || root.holds(mount);
            let writes = denial.extent == Extent::Writing;
            let matters = |(mount, access): (&&HostPath, &Access)| {
                met(mount) && (!writes || *access > Access::Read)
            };
            // Nobody writes to what is seen of the system.
            let mut system = launch.base.system.iter();
            let of_system =
                |entry: &SystemEntry| matches!(entry, SystemEntry::Existing(path) if met(path));
            if mounts.iter().any(matters) || (!writes && system.any(of_system)) {
                denied.add(denial, launch);
                // A mount covers one name: what lies deeper could be moved from beneath it, and found
                // under another name by the next sandbox.
                let moves = |(mount, access): (&&HostPath, &Access)| {
                    *access == Access::Write && can_move(denial, mount)
                };
                if mounts.iter().any(moves) {
                    denied.brokered.push(denial.clone());
                }
                denied.all.push(denial.clone());
            }
        }
        if !denied.brokered.is_empty() {
            denied.brokered.clone_from(&denied.all);
        }
        // A mount there is laid over what is hidden from everybody.
        let masks = launch.base.masks.iter().filter(|mask| {
            let mut mounts = mounts.keys();
            !mounts.any(|mount| mount.holds(mask.path()) || mask.path().holds(mount))
        });
        denied.leave_out_covered(&masks.collect::<Vec<_>>());
        denied
    }

    /// What lies in a hidden directory is hidden with it, and is not there to mount on. So is what is hidden
    /// `of_system`, from everybody.
    fn leave_out_covered(&mut self, of_system: &[&Mask]) {
        let by_all = |mask: &Mask| of_system.iter().any(|one| one.path() == mask.path());
        self.hidden.retain(|mask| !by_all(mask));
        let hidden = self.hidden.iter().chain(of_system.iter().copied());
        let directories: Vec<HostPath> = hidden
            .filter(|mask| matches!(mask, Mask::Directory(_)))
            .map(|mask| mask.path().clone())
            .collect();
        let is_covered = |path: &HostPath| {
            let mut outer = directories.iter();
            outer.any(|outer| outer != path && outer.holds(path))
        };
        self.hidden.retain(|mask| !is_covered(mask.path()));
        self.frozen.retain(|path| !is_covered(path));
    }

    fn add(&mut self, denial: &Denial, launch: &Launch) {
        let Target::Path(path) = &denial.target else {
            self.brokered.push(denial.clone());
            return;
        };
        // A link is not what it points at: mounting on it would cover something else.
        match (fs::symlink_metadata(path.as_path()), denial.extent) {
            (Ok(metadata), _) if metadata.is_symlink() => self.brokered.push(denial.clone()),
            (Ok(_), Extent::Writing) => self.frozen.push(path.clone()),
            (Ok(metadata), Extent::Everything) if metadata.is_dir() => {
                self.hidden.push(Mask::Directory(path.clone()));
            }
            (Ok(_), Extent::Everything) => self.hidden.push(Mask::File(path.clone())),
            (Err(_), Extent::Writing) if is_free_name_of_stage(path, launch) => {
                self.ghosts
                    .extend(path.as_path().file_name().map(OsStr::to_owned));
                self.frozen.push(path.clone());
            }
            (Err(_), _) => self.brokered.push(denial.clone()),
        }
    }
}

/// What denials of names that lead through a link of the system, such as `/lib`, mean where it leads.
fn by_links(launch: &Launch) -> Vec<Denial> {
    let links = launch.base.system.iter().filter_map(|entry| match entry {
        SystemEntry::Link { path, target } => {
            let to = path.as_path().parent()?.join(target);
            Some((path, HostPath::new(&to).ok()?))
        }
        SystemEntry::Existing(_) => None,
    });
    let through = links.flat_map(|(link, to)| {
        let denials = launch.plan.denials().iter();
        let denials = denials.filter(move |denial| {
            let root = denial.target.root();
            // What may lead anywhere is asked about under every name.
            let anywhere = matches!(&denial.target, Target::Pattern(pattern) if pattern.floats());
            !anywhere && (link.holds(&root) || root.holds(link))
        });
        denials.flat_map(move |denial| {
            let targets = denial.target.moved(link, &to).into_iter();
            targets.map(|target| Denial {
                target,
                extent: denial.extent,
            })
        })
    });
    through.collect()
}

/// Whether a directory between what is denied and `mount`, which is writable, could get another name.
fn can_move(denial: &Denial, mount: &HostPath) -> bool {
    let Target::Path(path) = &denial.target else {
        return false;
    };
    let parent = path.parent();
    parent.is_some_and(|parent| parent != *mount && mount.holds(&parent))
}

/// Whether `path` would lie right in the staged workspace, and nothing in the stage has its name.
fn is_free_name_of_stage(path: &HostPath, launch: &Launch) -> bool {
    let staged = launch.plan.workspace();
    let staged = staged.filter(|workspace| workspace.view == View::Staged);
    let inside = staged.is_some_and(|workspace| path.parent().as_ref() == Some(&workspace.path));
    // Nothing can be laid beneath a copy.
    let changes = launch.layers.as_ref().and_then(changes_of);
    let named = changes.zip(path.as_path().file_name());
    let free =
        |(changes, name): (PathBuf, &OsStr)| fs::symlink_metadata(changes.join(name)).is_err();
    inside && named.is_some_and(free)
}

/// Where the changes of a stage are, if they lie over the real tree.
pub(super) fn changes_of(layers: &Layers) -> Option<PathBuf> {
    match layers.kind {
        LayersKind::Overlay => Some(layers.upper.clone()),
        LayersKind::Trial => Some(layers.upper.with_file_name(UPPER)),
        LayersKind::Copy => None,
    }
}
