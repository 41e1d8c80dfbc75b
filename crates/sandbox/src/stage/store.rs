//! The directory of all stages: making, finding, listing and dropping them.
//!
//! A stage appears under its name complete or not at all, and disappears from it at once; what is
//! half made or half removed has a name that begins with a dot and goes at the next opening. So does
//! one that was for some runs only, as soon as nobody holds it ([`Passing`]).

mod passing;

pub use passing::Passing;

use super::beneath::{Tree, node_of};
use super::clock::Boot;
use super::copy::{CopyLimits, Copying, copy_workspace};
use super::diff::DiffOptions;
use super::error::{StageError, failed};
use super::name::StageName;
use super::path::TreePath;
use super::record::{FORMAT, Marks, Record, StageKind, take_marker};
use super::remove::remove_tree;
use super::staged::{Claim, LOCK, Stage, UPPER, WORK, lock, open_directory};
use super::summary::{StageSummary, summarise};
use crate::plan::{Denial, Extent, HostPath};
use airlock_core::Timestamp;
use rustix::fs::{FlockOperation, Gid, Mode, OFlags, RenameFlags, Uid, XattrFlags};
use rustix::io::Errno;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

const DROPPED: &str = ".dropped-";
const DRAFT: &str = ".new-";
const MAKING: &str = ".making";

/// Whom the root of a new stage belongs to, when Airlock runs as root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// The user.
    pub uid: u32,
    /// The group.
    pub gid: u32,
}

/// How a new stage is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setup {
    /// How it holds changes.
    pub kind: StageKind,
    /// Which attributes its overlay uses: found out if absent.
    pub marks: Option<Marks>,
    /// The most a copy may hold.
    pub limits: CopyLimits,
}

impl Setup {
    /// An overlay, mounted the way this process can.
    pub const OVERLAY: Self = Self {
        kind: StageKind::Overlay,
        marks: None,
        limits: CopyLimits::USUAL,
    };
    /// A copy within the usual limits.
    pub const COPY: Self = Self {
        kind: StageKind::Copy,
        marks: None,
        limits: CopyLimits::USUAL,
    };
}

/// All stages.
#[derive(Debug)]
pub struct Stages {
    place: PathBuf,
    directory: OwnedFd,
}

impl Stages {
    /// Opens the directory of stages, making it if need be, and removes what was left half done.
    pub fn open(place: &Path) -> Result<Self, StageError> {
        let fail = |errno| failed("open", place)(errno);
        let mut builder = std::fs::DirBuilder::new();
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder
            .recursive(true)
            .create(place)
            .map_err(|source| StageError::Io {
                what: "create",
                path: place.to_owned(),
                source,
            })?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = match rustix::fs::open(place, flags, Mode::empty()) {
            Err(Errno::LOOP | Errno::NOTDIR) => return Err(StageError::NotOurs(place.to_owned())),
            opened => opened.map_err(fail)?,
        };
        let stat = rustix::fs::fstat(&directory).map_err(fail)?;
        if stat.st_uid != rustix::process::geteuid().as_raw() {
            return Err(StageError::NotOurs(place.to_owned()));
        }
        rustix::fs::fchmod(&directory, Mode::from_raw_mode(0o700)).map_err(fail)?;
        let stages = Self {
            place: place.to_owned(),
            directory,
        };
        // What cannot be removed is in nobody's way, and must not keep anyone from their stages.
        let _ = stages.collect();
        Ok(stages)
    }

    /// The stage `name` of `workspace`, made as an overlay if it is not there.
    pub fn open_or_create(
        &self,
        name: &str,
        workspace: &Path,
        owner: Owner,
    ) -> Result<Stage, StageError> {
        self.open_or_create_as(name, workspace, owner, Setup::OVERLAY)
    }

    /// The stage `name` of `workspace`, made as `setup` says if it is not there. One that is there
    /// stays what it is.
    pub fn open_or_create_as(
        &self,
        name: &str,
        workspace: &Path,
        owner: Owner,
        setup: Setup,
    ) -> Result<Stage, StageError> {
        self.open_or_make(name, workspace, owner, (setup, &[]))
    }

    /// The stage `name` of `workspace`, made as a copy without what `denials` let nobody read if it
    /// is not there. [`Layers::without`](crate::launch::Layers::without) says what that was.
    pub fn open_or_copy_without(
        &self,
        name: &str,
        workspace: &Path,
        owner: Owner,
        denials: &[Denial],
    ) -> Result<Stage, StageError> {
        self.open_or_make(name, workspace, owner, (Setup::COPY, denials))
    }

    fn open_or_make(
        &self,
        name: &str,
        workspace: &Path,
        owner: Owner,
        making: (Setup, &[Denial]),
    ) -> Result<Stage, StageError> {
        let name = StageName::known(name)?;
        let workspace = self.beside(workspace)?;
        let stage = match Stage::open(&self.place, &name)? {
            Some(stage) => stage,
            // Whoever holds one has made it. Only a copy may take the place of one that held nothing.
            None if StageName::is_passing(name.as_str()) && making.0.kind == StageKind::Overlay => {
                return Err(StageError::Missing(name));
            }
            None => self.create(&name, &workspace, owner, making)?,
        };
        if stage.workspace() != workspace {
            return Err(StageError::OtherWorkspace {
                name,
                workspace: stage.workspace().to_owned(),
            });
        }
        Ok(stage)
    }

    /// The stage `name`, if there is one.
    pub fn find(&self, name: &str) -> Result<Option<Stage>, StageError> {
        Stage::open(&self.place, &StageName::new(name)?)
    }

    /// The same, be it one that is there for some runs only.
    pub fn find_any(&self, name: &str) -> Result<Option<Stage>, StageError> {
        Stage::open(&self.place, &StageName::known(name)?)
    }

    /// The stage `name` of those in `place`, if there is one. Makes and tidies nothing: for whoever
    /// only looks, and looks often.
    pub fn peek(place: &Path, name: &str) -> Result<Option<Stage>, StageError> {
        let name = StageName::known(name)?;
        let Some(directory) = open_directory(place)? else {
            return Ok(None);
        };
        let stat = rustix::fs::fstat(&directory).map_err(failed("open", place))?;
        if stat.st_uid != rustix::process::geteuid().as_raw() {
            return Err(StageError::NotOurs(place.to_owned()));
        }
        Stage::open(place, &name)
    }

    /// Every stage that somebody named, by name. One that cannot be read is an error beside the others.
    pub fn list(&self) -> Result<Vec<Result<StageSummary, StageError>>, StageError> {
        let names = self.names()?;
        Ok(names
            .iter()
            .filter_map(|name| name.to_str().and_then(|name| StageName::new(name).ok()))
            .filter_map(|name| match Stage::open(&self.place, &name) {
                Ok(stage) => stage.map(|stage| summarise(&stage)),
                Err(error) => Some(Err(error)),
            })
            .collect())
    }

    /// Removes the stage `name` with all its changes, unless a sandbox uses it. A damaged one can
    /// be dropped too.
    pub fn drop_stage(&self, name: &str) -> Result<(), StageError> {
        let name = StageName::new(name)?;
        match Stage::open(&self.place, &name) {
            Ok(_) | Err(StageError::Damaged { .. }) => {}
            Err(error) => return Err(error),
        }
        let claim = self.taken(&name)?;
        self.bury(&name, claim)
    }

    /// The claim on the stage `name`, whatever it holds.
    fn taken(&self, name: &StageName) -> Result<Claim, StageError> {
        let place = self.place.join(name.as_str());
        let Some(directory) = open_directory(&place)? else {
            return Err(StageError::Missing(name.clone()));
        };
        lock(&directory, &place, name)
    }

    /// Removes the stage `name` if nothing would be lost with it: nobody has it, it holds no change,
    /// also none that never leaves a stage, and no run in it waits to be judged. Says whether it did.
    pub fn drop_unchanged(&self, name: &str) -> Result<bool, StageError> {
        let Some(mut stage) = self.find_any(name)? else {
            return Ok(false);
        };
        // Whoever comes to it from here on finds it dropped; so nothing is put into it after this.
        let claim = match stage.claim() {
            Ok(claim) => claim,
            Err(StageError::Dropped(_)) => return Ok(false),
            Err(error) => return Err(error),
        };
        // Counting needs no content.
        let options = DiffOptions {
            max_text_bytes: 0,
            max_total_text_bytes: 0,
            ..DiffOptions::default()
        };
        // What cannot be made sense of may hold something.
        let settled = matches!(stage.unsettled(), Ok(None));
        if !settled || !stage.diff(&options).is_ok_and(|diff| diff.is_empty()) {
            return Ok(false);
        }
        self.bury(stage.name(), claim)?;
        Ok(true)
    }

    /// Removes a stage that is claimed.
    fn bury(&self, name: &StageName, claim: Claim) -> Result<(), StageError> {
        let grave = self.unname(name)?;
        drop(claim);
        remove_tree(&self.directory, &grave, &self.place)
    }

    /// Takes its name from a stage that is claimed. What it is called then goes at the next opening.
    fn unname(&self, name: &StageName) -> Result<String, StageError> {
        let place = self.place.join(name.as_str());
        let grave = format!("{DROPPED}{name}-{}", unique());
        rustix::fs::renameat(&self.directory, name.as_str(), &self.directory, &*grave)
            .map_err(failed("remove", place))?;
        Ok(grave)
    }

    /// The real path of `workspace`, which has to lie beside the stages.
    fn beside(&self, workspace: &Path) -> Result<PathBuf, StageError> {
        let workspace = workspace.canonicalize().map_err(|source| StageError::Io {
            what: "open",
            path: workspace.to_owned(),
            source,
        })?;
        self.refuse_overlap(&workspace)?;
        Ok(workspace)
    }

    /// A stage inside its own workspace would be part of what it stages: what an overlay does then
    /// is undefined, and a copy would copy itself.
    fn refuse_overlap(&self, workspace: &Path) -> Result<(), StageError> {
        let place = self.place.canonicalize().map_err(|source| StageError::Io {
            what: "open",
            path: self.place.clone(),
            source,
        })?;
        if place.starts_with(workspace) || workspace.starts_with(&place) {
            return Err(StageError::Overlap {
                stages: place,
                workspace: workspace.to_owned(),
            });
        }
        Ok(())
    }

    fn create(
        &self,
        name: &StageName,
        workspace: &Path,
        owner: Owner,
        making: (Setup, &[Denial]),
    ) -> Result<Stage, StageError> {
        // Held while a draft exists, so that nobody takes it for a leftover.
        let _making = self.making(FlockOperation::LockShared)?;
        let draft = format!("{DRAFT}{name}-{}", unique());
        let made = self
            .fill(&draft, workspace, owner, making)
            .and_then(|()| self.publish(&draft, name));
        if made.is_err() {
            // The reason it failed is worth more than that its remains could not be removed; the
            // next opening tries again.
            let _ = remove_tree(&self.directory, &draft, &self.place);
        }
        made?;
        Stage::open(&self.place, name)?.ok_or_else(|| StageError::Dropped(name.clone()))
    }

    fn fill(
        &self,
        draft: &str,
        workspace: &Path,
        owner: Owner,
        (setup, denials): (Setup, &[Denial]),
    ) -> Result<(), StageError> {
        let place = self.place.join(draft);
        let fail = |errno| failed("create", &*place)(errno);
        let private = Mode::from_raw_mode(0o700);
        rustix::fs::mkdirat(&self.directory, draft, private).map_err(fail)?;
        let stage = Tree::open_in(&self.directory, draft).map_err(fail)?;
        rustix::fs::mkdirat(&stage, UPPER, private).map_err(fail)?;
        rustix::fs::mkdirat(&stage, WORK, private).map_err(fail)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC;
        rustix::fs::openat(&stage, LOCK, flags, Mode::from_raw_mode(0o600)).map_err(fail)?;
        let real = Tree::open(workspace).map_err(failed("open", workspace))?;
        let upper = Tree::open_in(&stage, UPPER).map_err(fail)?;
        let marks = match setup.marks {
            Some(marks) => marks,
            None => usable_marks(&upper).map_err(fail)?,
        };
        let base = take_marker(workspace, &place)?;
        if setup.kind == StageKind::Copy {
            let leave_out = |path: &TreePath| is_denied(&workspace.join(path.as_path()), denials);
            let copying = Copying {
                owner,
                limits: setup.limits,
                leave_out: &leave_out,
            };
            copy_workspace(&real, &upper, &stage, &copying, &place)?;
        }
        let mode = node_of(&real).map_err(failed("open", workspace))?.mode;
        adopt(&upper, mode, owner).map_err(fail)?;
        Record {
            format: FORMAT,
            workspace: workspace.into(),
            created: now(),
            kind: setup.kind,
            marks,
            base,
            written: Boot::current(),
            outlived: false,
            unsure: false,
            without: unreadable(denials).map(|one| one.target.words()).collect(),
        }
        .write(&stage, &place, true)
    }

    /// Gives a draft its name. Whoever made the same stage first has made it.
    fn publish(&self, draft: &str, name: &StageName) -> Result<(), StageError> {
        let (from, to) = (draft, name.as_str());
        let flags = RenameFlags::NOREPLACE;
        match rustix::fs::renameat_with(&self.directory, from, &self.directory, to, flags) {
            Ok(()) => Ok(()),
            Err(Errno::EXIST) => remove_tree(&self.directory, draft, &self.place),
            Err(errno) => Err(failed("create", self.place.join(to))(errno)),
        }
    }

    /// Removes what was left half made or half removed, and what was for runs of somebody who is gone.
    /// Opening does so too, as far as it can.
    pub fn collect(&self) -> Result<(), StageError> {
        let mut names = self.names()?;
        if self.give_up(&names)? {
            names = self.names()?;
        }
        let leftovers = |prefix| {
            names
                .iter()
                .filter_map(|name| name.to_str())
                .filter(move |name| name.starts_with(prefix))
        };
        for name in leftovers(DROPPED) {
            remove_tree(&self.directory, name, &self.place)?;
        }
        if leftovers(DRAFT).next().is_some()
            && let Some(_alone) = self.alone()?
        {
            for name in leftovers(DRAFT) {
                remove_tree(&self.directory, name, &self.place)?;
            }
        }
        Ok(())
    }

    /// Keeps stages from being made meanwhile; none if someone is making one right now. A later opening
    /// will find none doing so.
    fn alone(&self) -> Result<Option<OwnedFd>, StageError> {
        match self.making(FlockOperation::NonBlockingLockExclusive) {
            Ok(alone) => Ok(Some(alone)),
            Err(StageError::Io { source, .. })
                if source.kind() == std::io::ErrorKind::WouldBlock =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn making(&self, operation: FlockOperation) -> Result<OwnedFd, StageError> {
        let fail = |errno| failed("lock", self.place.join(MAKING))(errno);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o600);
        let lock = rustix::fs::openat(&self.directory, MAKING, flags, mode).map_err(fail)?;
        rustix::fs::flock(&lock, operation).map_err(fail)?;
        Ok(lock)
    }

    fn names(&self) -> Result<Vec<std::ffi::OsString>, StageError> {
        Tree::open(&self.place)
            .and_then(|tree| tree.names(Path::new("")))
            .map_err(failed("read", &*self.place))
    }
}

/// The denials that keep from reading, too.
fn unreadable(denials: &[Denial]) -> impl Iterator<Item = &Denial> {
    let everything = |denial: &&Denial| denial.extent == Extent::Everything;
    denials.iter().filter(everything)
}

/// Whether nobody may read what is at `path`. A path that no denial can speak of is not copied.
fn is_denied(path: &Path, denials: &[Denial]) -> bool {
    let mut denials = unreadable(denials).peekable();
    if denials.peek().is_none() {
        return false;
    }
    let path = HostPath::new(path);
    path.map_or(true, |path| {
        denials.any(|denial| denial.target.covers(&path))
    })
}

/// Which attributes this process could mount an overlay with: only root of the machine may touch
/// trusted ones, root of a user namespace may not.
fn usable_marks(upper: &Tree) -> rustix::io::Result<Marks> {
    let place = format!(
        "/proc/self/fd/{}",
        std::os::fd::AsFd::as_fd(upper).as_raw_fd()
    );
    let name = "trusted.airlock.probe";
    match rustix::fs::setxattr(&*place, name, b"y", XattrFlags::empty()) {
        Ok(()) => {
            rustix::fs::removexattr(&*place, name)?;
            Ok(Marks::Trusted)
        }
        Err(Errno::PERM | Errno::NOTSUP) => Ok(Marks::User),
        Err(errno) => Err(errno),
    }
}

/// Gives a tree's root the mode of the workspace's and, where that is possible, its owner.
pub(super) fn adopt(tree: &Tree, mode: u32, owner: Owner) -> rustix::io::Result<()> {
    let place = format!(
        "/proc/self/fd/{}",
        std::os::fd::AsFd::as_fd(tree).as_raw_fd()
    );
    if rustix::process::geteuid().is_root() {
        let (uid, gid) = (Uid::from_raw(owner.uid), Gid::from_raw(owner.gid));
        rustix::fs::chown(&*place, Some(uid), Some(gid))?;
    }
    rustix::fs::chmod(&*place, Mode::from_raw_mode(mode))
}

/// A part of a name that no other process or call has: graves and drafts must not meet.
fn unique() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{}-{}-{next}", std::process::id(), now().as_micros())
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let micros = since.map_or(0, |since| since.as_micros());
    Timestamp::from_micros(i64::try_from(micros).unwrap_or(i64::MAX))
}
