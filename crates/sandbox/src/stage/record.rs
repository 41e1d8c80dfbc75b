//! What a stage remembers of itself, in `stage.json`.

use super::beneath::Stamp;
use super::clock::{Boot, Clock, Since, earlier};
use super::error::{StageError, failed};
use super::name::StageName;
use super::path::TreePath;
use airlock_core::Timestamp;
use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub(super) const FILE: &str = "stage.json";
/// The latest format of `stage.json` known here.
pub(super) const FORMAT: u32 = 1;
/// A record is a few hundred bytes and one path; anything near this is not one.
const MOST: u64 = 64 * 1024;

/// How a stage holds changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StageKind {
    /// As the upper layer of an overlay on the real tree.
    Overlay,
    /// As a copy of the whole tree.
    Copy,
}

/// Which extended attributes an overlay's own marks are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Marks {
    /// `trusted.overlay.*`: mounted by root of the machine.
    Trusted,
    /// `user.overlay.*`: mounted in a user namespace, with the option `userxattr`.
    User,
}

/// When a stage began, by the clock that stamps changes of the workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct BaseMarker {
    pub(super) stamp: Stamp,
    /// Whether a change may bear this very stamp and yet be later: a clock of full seconds.
    pub(super) coarse: bool,
    /// How our own clock was set then. Not noted by earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) clock: Option<Clock>,
}

impl BaseMarker {
    /// The same by the clock as it is set now; none where nothing can be told by it.
    pub(super) fn by_now(self, workspace: &Path) -> Option<Self> {
        if self.is_ahead(workspace) {
            return None;
        }
        let (Some(then), Some(now)) = (self.clock, Clock::now()) else {
            return Some(self);
        };
        match then.until(now) {
            Since::Onward => Some(self),
            // What was changed right after it began bears an earlier stamp by so much.
            Since::Back(by) => Some(Self {
                stamp: earlier(self.stamp, by),
                ..self
            }),
            // It began before that, whatever its stamp says.
            Since::Restarted(anew) => (self.stamp <= anew).then_some(self),
        }
    }

    /// Whether the machine has been running since.
    pub(super) fn is_of_this_run(self) -> bool {
        let boot = self.clock.map(Clock::boot);
        boot.is_some() && boot == Boot::current()
    }

    /// Whether it is yet to come by the clock as it is set now.
    fn is_ahead(self, workspace: &Path) -> bool {
        let seconds = u64::try_from(self.stamp.seconds).unwrap_or(0);
        let base = UNIX_EPOCH + Duration::new(seconds, self.stamp.nanoseconds);
        // Another machine's clock may stamp the workspace, and be ahead of ours.
        SystemTime::now() < base && stamp_in(workspace).map_or(true, |stamp| stamp < self.stamp)
    }

    /// Whether something stamped `stamp` happened after the stage began.
    pub(super) fn before(self, stamp: Stamp) -> bool {
        stamp > self.stamp || (self.coarse && stamp == self.stamp)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) format: u32,
    pub(super) workspace: TreePath,
    pub(super) created: Timestamp,
    pub(super) kind: StageKind,
    pub(super) marks: Marks,
    pub(super) base: BaseMarker,
    /// The run of the machine in which something could last write to it. Not noted by earlier
    /// versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) written: Option<Boot>,
    /// Whether it holds what was written in an earlier run than that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) outlived: bool,
    /// Whether it was seen that nothing can be told by its beginning.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) unsure: bool,
    /// Denials of which nothing was copied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) without: Vec<String>,
}

#[derive(Deserialize)]
struct Version {
    format: u32,
}

impl Record {
    /// Reads the record of the stage in `directory`.
    pub(super) fn read(directory: impl AsFd, name: &StageName) -> Result<Self, StageError> {
        let damaged = |why: String| StageError::Damaged {
            name: name.clone(),
            why,
        };
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = rustix::fs::openat(directory, FILE, flags, Mode::empty())
            .map_err(|errno| damaged(format!("`{FILE}`: {errno}")))?;
        let mut text = String::with_capacity(1024);
        File::from(file)
            .take(MOST)
            .read_to_string(&mut text)
            .map_err(|error| damaged(format!("`{FILE}`: {error}")))?;
        let shape = |error: serde_json::Error| damaged(format!("`{FILE}`: {error}"));
        let Version { format } = serde_json::from_str(&text).map_err(shape)?;
        if format > FORMAT {
            return Err(StageError::NewerFormat {
                name: name.clone(),
                format,
                known: FORMAT,
            });
        }
        serde_json::from_str(&text).map_err(shape)
    }

    /// Writes the record, whole or not at all, and on disk before it returns if it is `lasting`.
    pub(super) fn write(
        &self,
        directory: impl AsFd,
        shown: &Path,
        lasting: bool,
    ) -> Result<(), StageError> {
        let text = serde_json::to_vec(self).map_err(|error| StageError::Io {
            what: "write",
            path: shown.join(FILE),
            source: error.into(),
        })?;
        write_whole(directory, FILE, &text, lasting).map_err(|source| StageError::Io {
            what: "write",
            path: shown.join(FILE),
            source,
        })
    }
}

/// Writes a file beside its place and moves it there.
pub(super) fn write_whole(
    directory: impl AsFd,
    name: &str,
    bytes: &[u8],
    lasting: bool,
) -> std::io::Result<()> {
    let draft = format!(".{name}.{}", std::process::id());
    let flags =
        OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(&directory, &*draft, flags, Mode::from_raw_mode(0o600))?;
    let mut file = File::from(fd);
    file.write_all(bytes)?;
    if !lasting {
        rustix::fs::renameat(&directory, &*draft, &directory, name)?;
        return Ok(());
    }
    file.sync_all()?;
    rustix::fs::renameat(&directory, &*draft, &directory, name)?;
    // A descriptor that only names the directory cannot be synced.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory: OwnedFd = rustix::fs::openat(&directory, ".", flags, Mode::empty())?;
    Ok(rustix::fs::fsync(directory)?)
}

/// Makes a marker that every change of the workspace after this call is later than.
///
/// Files are stamped in ticks of the clock; waiting for the next tick keeps what happened just
/// before apart from what happens just after.
pub(super) fn take_marker(workspace: &Path, stage: &Path) -> Result<BaseMarker, StageError> {
    // On a network file system another machine's clock stamps changes: ask it where it answers.
    let by_workspace = stamp_in(workspace).is_ok();
    let now = || {
        if by_workspace {
            stamp_in(workspace).map_err(failed("take the time in", workspace))
        } else {
            stamp_of_named(stage).map_err(failed("take the time in", stage))
        }
    };
    let (clock, stamp) = (Clock::now(), now()?);
    for _ in 0..500 {
        if now()? > stamp {
            return Ok(BaseMarker {
                stamp,
                coarse: false,
                clock,
            });
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(BaseMarker {
        stamp,
        coarse: true,
        clock,
    })
}

/// The same without waiting: what was changed in the very tick before it counts as after it.
pub(super) fn take_marker_at_once(
    workspace: &Path,
    stage: &Path,
) -> Result<BaseMarker, StageError> {
    let clock = Clock::now();
    let stamp = stamp_in(workspace).or_else(|_| stamp_of_named(stage));
    Ok(BaseMarker {
        stamp: stamp.map_err(failed("take the time in", stage))?,
        coarse: true,
        clock,
    })
}

/// The stamp of a file made now in `directory`, which nobody sees there.
pub(super) fn stamp_in(directory: &Path) -> rustix::io::Result<Stamp> {
    let flags = OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC;
    let fd = rustix::fs::open(directory, flags, Mode::from_raw_mode(0o600))?;
    Ok(super::beneath::node_of(fd)?.changed)
}

/// The same where files without a name cannot be made.
fn stamp_of_named(directory: &Path) -> rustix::io::Result<Stamp> {
    let place = directory.join(format!(".stamp.{}", std::process::id()));
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let fd = rustix::fs::open(&place, flags, Mode::from_raw_mode(0o600))?;
    let stamp = super::beneath::node_of(fd)?.changed;
    rustix::fs::unlink(&place)?;
    Ok(stamp)
}
