//! One long-lived kernel a workspace, and where to find it.
//!
//! Whoever holds the lock file serves; what is written in it says where. The lock goes with the
//! process however it ends, so a killed kernel needs no cleaning up after: its note is simply
//! nobody's.

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Seek as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Most bytes of a note that are read.
const NOTE_BYTES: u64 = 16 * 1024;

/// How long what a killed kernel leaves may hold its lock, and how often that is looked at.
const AFTERMATH: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(2);

/// What a running kernel says of itself, for those who look for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// Its process.
    pub pid: u32,
    /// Its version.
    pub version: String,
    /// Its socket.
    pub socket: PathBuf,
    /// Whether it is being closed to be opened again, and answers nobody meanwhile.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub renewing: bool,
    /// Whether a command started it for those to come: it makes way for one that a person starts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub on_demand: bool,
}

impl Notice {
    /// Whether it is being opened again. One that was killed over it is not.
    pub fn renews(&self) -> bool {
        self.renewing && self.is_alive()
    }

    /// Whether its process runs. It may be another's by now that got the same number.
    pub fn is_alive(&self) -> bool {
        is_alive(self.pid)
    }
}

/// Why there is no lock.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another kernel has it.
    #[error("a kernel already runs for this workspace{}", .pid.map(|pid| format!(", process {pid}")).unwrap_or_default())]
    Taken {
        /// Its process, where it has said so.
        pid: Option<u32>,
    },
    /// The file cannot be used.
    #[error("cannot use `{path}`")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl LockError {
    /// How to mend it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Taken { .. } => "use that one, or end it first: airlock kernel stop",
            Self::Io { .. } => "make the state directory usable for this user",
        }
    }

    /// Whether another kernel serves the workspace, or is about to. What a killed one left behind holds
    /// the lock as well, and serves nobody.
    pub fn is_served(&self) -> bool {
        match self {
            Self::Taken { pid } => pid.is_none_or(is_alive),
            Self::Io { .. } => false,
        }
    }
}

/// How long a wish for a kernel's place counts: longer than anybody waits.
const WISH: Duration = Duration::from_mins(1);

fn wish(state: &Path) -> PathBuf {
    state.join("run/kernel.wanted")
}

/// Says to a kernel that was started on demand that its place is wanted, as long as this lives. It ends
/// once nobody is connected.
#[derive(Debug)]
pub struct Wish(PathBuf);

impl Wish {
    /// Wants the place of the kernel of the workspace whose state is in `state`.
    pub fn make(state: &Path) -> Self {
        let path = wish(state);
        // Where it cannot be said the kernel stays, and whoever waits for it says so.
        let _made = std::fs::write(&path, b"");
        Self(path)
    }
}

impl Drop for Wish {
    fn drop(&mut self) {
        let _removed = std::fs::remove_file(&self.0);
    }
}

/// Whether somebody waits for the place of the kernel whose state is in `state`.
pub(crate) fn is_wanted(state: &Path) -> bool {
    let made = std::fs::metadata(wish(state)).and_then(|found| found.modified());
    // One whose maker was killed counts no more after a while.
    made.is_ok_and(|made| made.elapsed().is_ok_and(|age| age < WISH))
}

/// Held by the one kernel that serves a workspace.
#[derive(Debug)]
pub struct Lock {
    file: File,
    path: PathBuf,
}

fn path(state: &Path) -> PathBuf {
    state.join("run/kernel.lock")
}

impl Lock {
    /// Takes the lock of the workspace whose state is in `state`, or says who has it.
    pub fn take(state: &Path) -> Result<Self, LockError> {
        let path = path(state);
        let failed = |source: io::Error| LockError::Io {
            path: path.clone(),
            source,
        };
        if let Some(directory) = path.parent() {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(directory)
                .map_err(failed)?;
        }
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(failed)?;
        let begun = Instant::now();
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Self { file, path }),
                Err(rustix::io::Errno::WOULDBLOCK) => {}
                Err(error) => return Err(failed(error.into())),
            }
            let pid = read(&file).ok().map(|note| note.pid);
            // A killed kernel's sandboxes follow it, and hold what they inherited until then.
            if pid.is_none_or(is_alive) || begun.elapsed() > AFTERMATH {
                return Err(LockError::Taken { pid });
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Says that it is to be found there again, soon.
    pub(crate) fn renews(&mut self) {
        // Without that, whoever looks for it waits for less.
        if let Ok(notice) = read(&self.file) {
            let renewing = true;
            let _said = self.publish(&Notice { renewing, ..notice });
        }
    }

    /// Says where the kernel is to be found.
    pub fn publish(&mut self, notice: &Notice) -> Result<(), LockError> {
        let failed = |source| LockError::Io {
            path: self.path.clone(),
            source,
        };
        let text = serde_json::to_vec(notice).unwrap_or_default();
        // Never empty in between: whoever reads it takes the first object that is there.
        self.file
            .write_all_at(&text, 0)
            .and_then(|()| self.file.set_len(text.len() as u64))
            .map_err(failed)
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Nobody is found by a note of one who is gone. The file stays: another may wait for it.
        let _ = self.file.set_len(0);
    }
}

/// Whether a process runs. One that has ended and was not buried does not.
fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|stat| {
        // The name before it is in parentheses and may contain anything.
        let state = stat.rsplit_once(')').map(|(_, rest)| rest.trim_start());
        state.is_some_and(|state| !state.starts_with(['Z', 'X']))
    })
}

fn read(mut file: &File) -> io::Result<Notice> {
    file.rewind()?;
    let mut text = Vec::new();
    file.take(NOTE_BYTES).read_to_end(&mut text)?;
    // What follows the first is left of a longer one that is being replaced.
    let mut first = serde_json::Deserializer::from_slice(&text).into_iter();
    first
        .next()
        .ok_or(io::ErrorKind::UnexpectedEof)?
        .map_err(Into::into)
}

/// What the kernel of the workspace whose state is in `state` said of itself. It may be gone: only
/// its socket's answer says that it runs. (Trying the lock would say so too, and keep a kernel that
/// starts at that moment from having it.)
pub fn running(state: &Path) -> Option<Notice> {
    read(&File::open(path(state)).ok()?).ok()
}

/// Where the socket of the workspace `id` goes: the user's runtime directory where that is theirs
/// alone, since it is gone after a reboot and short; else beside the lock.
pub fn socket_directory(state: &Path, runtime: Option<&Path>, id: &str) -> PathBuf {
    let own = |directory: &&Path| {
        let found = std::fs::symlink_metadata(directory);
        found.is_ok_and(|found| {
            let private = rustix::fs::Mode::from_raw_mode(found.mode())
                .intersection(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO)
                .is_empty();
            found.is_dir() && private && found.uid() == rustix::process::geteuid().as_raw()
        })
    };
    match runtime.filter(|path| path.is_absolute()).filter(own) {
        Some(runtime) => runtime.join("airlock").join(id),
        None => state.join("run"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn one_holds_the_lock_and_the_second_is_told_who() {
        let state = tempfile::tempdir().unwrap();
        assert_eq!(running(state.path()), None);
        let mut lock = Lock::take(state.path()).unwrap();
        assert!(matches!(
            Lock::take(state.path()),
            Err(LockError::Taken { pid: None })
        ));
        let notice = Notice {
            pid: std::process::id(),
            version: "1".to_owned(),
            socket: PathBuf::from("/s"),
            renewing: false,
            on_demand: false,
        };
        lock.publish(&notice).unwrap();
        let second = Lock::take(state.path()).unwrap_err();
        assert!(
            second.to_string().contains(&notice.pid.to_string()),
            "{second}"
        );
        assert!(second.is_served());
        // The largest number a process can have is 4,194,304.
        let left = LockError::Taken {
            pid: Some(u32::MAX),
        };
        assert!(!left.is_served(), "what is left of one that was killed");
        assert_eq!(running(state.path()), Some(notice.clone()));
        lock.renews();
        let found = running(state.path()).unwrap();
        assert!(found.renews());
        let killed = Notice {
            pid: u32::MAX,
            ..found
        };
        assert!(!killed.renews());
        drop(lock);
        assert_eq!(running(state.path()), None);
        // A note that nobody holds a lock for, as after a kill, is in nobody's way.
        std::fs::write(path(state.path()), serde_json::to_vec(&notice).unwrap()).unwrap();
        assert!(Lock::take(state.path()).is_ok());
    }

    #[test]
    fn the_runtime_directory_is_used_only_if_it_is_private() {
        let outer = tempfile::tempdir().unwrap();
        let (state, runtime) = (outer.path().join("state"), outer.path().join("run"));
        std::fs::create_dir(&runtime).unwrap();
        let chosen = |mode: u32| {
            std::fs::set_permissions(&runtime, std::fs::Permissions::from_mode(mode)).unwrap();
            socket_directory(&state, Some(&runtime), "w-1")
        };
        assert_eq!(chosen(0o755), state.join("run"));
        assert_eq!(chosen(0o700), runtime.join("airlock/w-1"));
        let link = outer.path().join("link");
        std::os::unix::fs::symlink(&runtime, &link).unwrap();
        for odd in [&link, &outer.path().join("none"), Path::new("run")] {
            assert_eq!(
                socket_directory(&state, Some(odd), "w-1"),
                state.join("run")
            );
        }
        assert_eq!(socket_directory(&state, None, "w-1"), state.join("run"));
    }
}
