//! What lies beneath the view of a sandbox: trees of the host, which others change meanwhile.
//!
//! An overlay remembers each name that was looked up in it, found or not, and never asks whether it
//! still leads there: what was replaced outside by a rename, removed or made would stay as it was
//! for as long as the sandbox stands. So between two commands it is made to forget ([`Overlays`]):
//! reconfigured as what it is, it drops every name nobody holds. It costs what was looked up.
//!
//! A name that somebody holds is not dropped. What the broker opens in a command's stead it closes
//! before the command's end is told. Where it cannot have it open apart from all else, a process that
//! another thread of this one makes in between begins with a copy. So nothing is said to be forgotten
//! then before those are gone, too ([`Witness`]).
//!
//! What a mount holds cannot be forgotten: where something is mounted on it, and what is mounted
//! itself. That is compared with what it was ([`Anchors`]), and so is where denied names lead.
//!
//! Guarantee: with both, the next command finds what there is by then at every name.
//! Non-guarantee: in a command what it looked up stays.

use super::control::is_ready;
use super::led::Looked;
use super::resolve::Resolved;
use crate::generate::Mask;
use crate::plan::HostPath;
use rustix::fd::{AsFd, OwnedFd};
use rustix::mount::{fsconfig_reconfigure, fsconfig_set_flag};
use rustix::pipe::{PipeFlags, pipe_with};
use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// One overlay, as the child picked it.
#[derive(Debug)]
pub(super) struct Overlay {
    pub(super) picked: OwnedFd,
    /// It has no writable layer.
    pub(super) read_only: bool,
}

impl Overlay {
    fn forget(&self) -> rustix::io::Result<()> {
        // Said each time: otherwise it is asked to become writable, which it cannot.
        if self.read_only {
            fsconfig_set_flag(&self.picked, c"ro")?;
        }
        fsconfig_reconfigure(&self.picked)
    }
}

/// How long copies of what was open here may be held by processes that are only being made. A sandbox
/// that waits for more is not used again.
const COPIES: Duration = Duration::from_millis(100);

/// How long a process takes to let go of what it closed at once.
const LETTING_GO: Duration = Duration::from_millis(1);

/// Tells whether a process that was made while this was open still has what was open with it.
#[derive(Debug)]
struct Witness {
    /// Open, and copied, as long as anything else may be.
    held: Option<OwnedFd>,
    end: OwnedFd,
    /// When it was seen that nobody has a copy.
    alone: Option<Instant>,
}

impl Witness {
    fn begin() -> rustix::io::Result<Self> {
        let (end, held) = pipe_with(PipeFlags::CLOEXEC)?;
        Ok(Self {
            held: Some(held),
            end,
            alone: None,
        })
    }

    /// Nothing is held open here any more.
    fn let_go(&mut self) {
        drop(self.held.take());
        // Mostly nobody else ever had it: then it is known before anybody waits to know.
        self.look(Duration::ZERO);
    }

    /// Looks whether the last copy is gone, or goes within `patience`. The pipe hangs up with it.
    fn look(&mut self, patience: Duration) {
        if is_ready(self.end.as_fd(), patience).unwrap_or_default() {
            self.alone = Some(Instant::now());
        }
    }

    /// Whether nobody has a copy, for all that can be waited for.
    fn is_alone(&mut self) -> bool {
        if self.alone.is_none() {
            self.look(COPIES);
        }
        let Some(alone) = self.alone else {
            return false;
        };
        // Whoever closes all it has lets go of one after the other, in an order nobody promises.
        std::thread::sleep(LETTING_GO.saturating_sub(alone.elapsed()));
        true
    }
}

/// What a sandbox sees trees through.
#[derive(Debug, Default)]
pub(super) struct Overlays(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    overlays: Vec<Overlay>,
    memory: Memory,
    /// For what the broker opened in them.
    witness: Option<Witness>,
}

/// What overlays remember.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Memory {
    /// Nothing that was looked up.
    Empty,
    /// What a command looked up.
    Used,
    /// What nobody can have them forget, for all that is known.
    #[default]
    Lost,
}

impl Overlays {
    /// All there are. Raising the walls looked up names in them.
    pub(super) fn hold(&self, overlays: Vec<Overlay>) {
        *self.state() = State {
            overlays,
            memory: Memory::Used,
            witness: None,
        };
    }

    /// A command is about to run, in whose stead this process opens what is in them, where processes
    /// it makes begin with a copy.
    pub(super) fn opened_here(&self) {
        let mut state = self.state();
        match Witness::begin() {
            Ok(witness) => state.witness = Some(witness),
            // What nobody watches over may be held for good.
            Err(_) => *state = State::default(),
        }
    }

    /// A command ran, and nothing is held open any more that it looked up.
    pub(super) fn used(&self) {
        let mut state = self.state();
        if state.memory == Memory::Empty {
            state.memory = Memory::Used;
        }
        if let Some(witness) = &mut state.witness {
            witness.let_go();
        }
    }

    /// Forgets what was looked up, unless that is done. Whether it is now.
    ///
    /// Should a command run, it is not disturbed, and done again after it.
    pub(super) fn forget(&self) -> bool {
        let mut state = self.state();
        if state.memory == Memory::Used {
            // While a command runs, more is opened: that is seen to after it.
            let over = state.witness.take_if(|witness| witness.held.is_none());
            let alone = over.is_none_or(|mut witness| witness.is_alone());
            let forgotten = alone && state.overlays.iter().all(|one| one.forget().is_ok());
            state.memory = if forgotten {
                Memory::Empty
            } else {
                Memory::Lost
            };
        }
        state.memory == Memory::Empty
    }

    /// Holds none any more: nothing will be forgotten.
    pub(super) fn let_go(&self) {
        *self.state() = State::default();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What tells one file or directory from another in its place: device, number, mode, and when it was
/// made, since numbers are given again.
type Facts = (u64, u64, u32, Option<SystemTime>);

/// What mounts of a sandbox hold of the host's trees, as it was before they were made, and where denied
/// names led.
#[derive(Debug, Default)]
pub(super) struct Anchors {
    held: Vec<(Option<Facts>, PathBuf)>,
    looked: Looked,
}

impl Anchors {
    pub(super) fn of(resolved: &Resolved, looked: Looked) -> Self {
        let granted = resolved.granted.iter();
        let places: HashSet<&OsStr> = granted.map(|granted| granted.place.as_os_str()).collect();
        let hidden = resolved.hidden.iter().map(Mask::path);
        let covered = hidden.chain(&resolved.frozen).map(HostPath::as_os_str);
        let mut held: HashSet<&OsStr> = HashSet::new();
        for path in places.iter().copied().chain(covered) {
            // A mount holds every directory above it, up to the root of the tree it is in.
            let above: Vec<&OsStr> = Path::new(path).ancestors().map(Path::as_os_str).collect();
            let root = above.iter().rposition(|above| places.contains(above));
            let inside = root.and_then(|root| above.get(..=root));
            held.extend(inside.unwrap_or_default());
        }
        let sources = resolved.granted.iter();
        held.extend(sources.map(|granted| granted.source.as_os_str()));
        // Each is looked at once, however many mounts hold it.
        let held = held.into_iter().map(PathBuf::from);
        Self {
            held: held.map(|path| (facts(&path), path)).collect(),
            looked,
        }
    }

    /// Whether each is what it was, and denied names lead where they led.
    pub(super) fn stand(&self) -> bool {
        self.held.iter().all(|(was, path)| facts(path) == *was) && self.looked.holds()
    }
}

fn facts(path: &Path) -> Option<Facts> {
    let found = fs::symlink_metadata(path).ok()?;
    Some((found.dev(), found.ino(), found.mode(), found.created().ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_forgotten_is_never_said_to_be() {
        let overlays = Overlays::default();
        assert!(!overlays.forget(), "there may be some");
        overlays.hold(Vec::new());
        assert!(overlays.forget());
        overlays.used();
        assert!(overlays.forget());
        overlays.let_go();
        overlays.used();
        assert!(!overlays.forget(), "nor later");
    }

    #[test]
    fn what_a_process_in_the_making_has_a_copy_of_is_not_forgotten() {
        let overlays = Overlays::default();
        overlays.hold(Vec::new());
        let copied = || {
            let state = overlays.state();
            let witness = state.witness.as_ref().unwrap();
            witness.held.as_ref().unwrap().try_clone().unwrap()
        };
        overlays.opened_here();
        drop(copied());
        overlays.used();
        assert!(overlays.forget(), "the copy is gone");
        overlays.opened_here();
        let copy = copied();
        overlays.used();
        let late = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            drop(copy);
        });
        assert!(overlays.forget(), "it went in time");
        late.join().unwrap();
        overlays.opened_here();
        let copy = copied();
        overlays.used();
        assert!(!overlays.forget(), "it is there");
        drop(copy);
        assert!(!overlays.forget(), "nor later");
    }

    #[test]
    fn another_in_the_same_place_does_not_stand() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        let anchors = |name: &str| Anchors {
            held: vec![(facts(&path(name)), path(name))],
            ..Anchors::default()
        };
        fs::create_dir(path("held")).unwrap();
        let (held, missing) = (anchors("held"), anchors("missing"));
        fs::write(path("held/file"), "").unwrap();
        assert!(held.stand() && missing.stand(), "what is in it may change");
        fs::write(path("missing"), "").unwrap();
        assert!(!missing.stand());
        fs::create_dir(path("other")).unwrap();
        fs::rename(path("held"), path("moved")).unwrap();
        fs::rename(path("other"), path("held")).unwrap();
        assert!(!held.stand());
    }
}
