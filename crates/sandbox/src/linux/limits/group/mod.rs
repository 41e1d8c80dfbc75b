//! Cgroups, version 1 and 2 and both at once, as one thing: the group of a sandbox.
//!
//! Where a group may be made is found out once, by trying; making one is a few directories and
//! writes. Everything of it is in directories named `airlock-ID`, so that whoever finds one knows
//! whose it was.
//!
//! Guarantees: a limit is only said to be held once the kernel took its value. Does not guarantee
//! that there is a group at all: an ordinary user without delegation has none, and is told why.
//!
//! The first move into a group costs a grace period of the kernel (about 15 ms); those right after
//! it cost microseconds. Starting the child with [`Group::entry`] avoids it.

mod files;
mod layout;
mod settings;
mod unified;

use crate::plan::{Limit, Limits};
use crate::report::Held;
use layout::{Controller, Place, Version};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// What every directory of a group begins its name with.
pub(crate) const PREFIX: &str = "airlock-";

/// Where groups can be made on this machine.
#[derive(Debug)]
pub(crate) struct Cgroups {
    bases: Vec<Base>,
    why_not: Vec<String>,
}

/// A directory to make cgroups in.
#[derive(Debug)]
struct Base {
    version: Version,
    directory: PathBuf,
    controllers: Vec<Controller>,
}

impl Cgroups {
    /// Finds out for this process.
    pub(crate) fn detect() -> Self {
        let read = |path: &str| files::whole(path).unwrap_or_default();
        let (cgroup, mounts) = (read("/proc/self/cgroup"), read("/proc/self/mountinfo"));
        Self::from_texts(&cgroup, &mounts)
    }

    fn from_texts(cgroup: &[u8], mountinfo: &[u8]) -> Self {
        let (places, mut why_not) = layout::places(cgroup, mountinfo);
        let bases = places
            .iter()
            .filter_map(|place| Base::of(place, &mut why_not));
        let mut bases: Vec<Base> = bases.collect();
        leave_out_idle(&mut bases);
        // Version 2 comes first: where it has a controller, version 1 cannot, and it freezes and
        // kills by itself.
        bases.sort_by_key(|base| base.version == Version::One);
        Self { bases, why_not }
    }
}

/// Leaves out a version 2 that limits nothing, where version 1 can freeze in its stead: a process
/// joins version 1 by itself and at once, whereas moving it into version 2 waits for a grace period
/// of the kernel.
fn leave_out_idle(bases: &mut Vec<Base>) {
    let freezes = |base: &Base| base.controllers.contains(&Controller::Freezer);
    if bases.iter().any(|base| freezes(base) && base.is_writable()) {
        bases.retain(|base| base.version == Version::One || !base.controllers.is_empty());
    }
}

impl Base {
    fn is_writable(&self) -> bool {
        rustix::fs::access(&self.directory, rustix::fs::Access::WRITE_OK).is_ok()
    }

    fn of(place: &Place, why_not: &mut Vec<String>) -> Option<Self> {
        match place.version {
            Version::One => Some(Self {
                version: Version::One,
                directory: place.directory.clone(),
                controllers: place.controllers.clone(),
            }),
            Version::Two => {
                let (base, reasons) = unified::base(place, std::process::id());
                why_not.extend(reasons);
                base.map(|base| Self {
                    version: Version::Two,
                    directory: base.directory,
                    controllers: base.controllers,
                })
            }
        }
    }
}

/// What a group has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Tally {
    /// Processes ended for want of memory.
    pub(crate) oom_kills: u64,
    /// Processes and threads that were not made, being too many.
    pub(crate) pids_refused: u64,
}

/// The cgroups of one sandbox.
#[derive(Debug)]
pub(crate) struct Group {
    parts: Vec<Part>,
    directories: Vec<PathBuf>,
}

/// Its directory in one hierarchy.
#[derive(Debug)]
struct Part {
    version: Version,
    directory: PathBuf,
    controllers: Vec<Controller>,
}

/// How long to wait for the kernel to finish freezing, killing or letting go.
const PATIENCE: Duration = Duration::from_secs(2);

/// Where groups can be made, found out once for the process.
fn cgroups() -> &'static Cgroups {
    static CGROUPS: OnceLock<Cgroups> = OnceLock::new();
    CGROUPS.get_or_init(Cgroups::detect)
}

impl Group {
    /// Makes the group of the sandbox `id` and sets its limits: what it holds, and why it holds no
    /// more. Where groups can be made is found out once for the process.
    pub(crate) fn create(
        id: &str,
        limits: &Limits,
    ) -> (Option<Self>, BTreeMap<Limit, Held>, Vec<String>) {
        Self::create_in(cgroups(), id, limits)
    }

    /// Whether it is worth trying: some directory for groups can be written.
    pub(crate) fn possible() -> bool {
        cgroups().bases.iter().any(Base::is_writable)
    }

    /// The directories groups are made in.
    pub(crate) fn bases() -> impl Iterator<Item = &'static Path> {
        cgroups().bases.iter().map(|base| base.directory.as_path())
    }

    /// The directories the group of the sandbox `id` may have, before it is made.
    pub(crate) fn would_be(id: &str) -> Vec<PathBuf> {
        let bases = cgroups().bases.iter();
        bases
            .map(|base| base.directory.join(format!("{PREFIX}{id}")))
            .collect()
    }

    /// As [`Group::create`], in what was found out before.
    pub(crate) fn create_in(
        cgroups: &Cgroups,
        id: &str,
        limits: &Limits,
    ) -> (Option<Self>, BTreeMap<Limit, Held>, Vec<String>) {
        let (mut parts, mut holds): (Vec<Part>, _) = (Vec::new(), BTreeMap::new());
        let mut why_not = cgroups.why_not.clone();
        if !is_id(id) {
            why_not.push(format!("`{id}` is no name for a cgroup"));
            return (None, holds, why_not);
        }
        for base in &cgroups.bases {
            // Version 2 freezes by itself.
            let freezes = parts.iter().any(|part| part.version == Version::Two);
            if freezes && base.controllers == [Controller::Freezer] {
                continue;
            }
            match Part::create(base, id, limits, &mut holds, &mut why_not) {
                Ok(part) => parts.extend(part),
                Err(error) => why_not.push(format!(
                    "no cgroup can be made in `{}`: {error}",
                    base.directory.display()
                )),
            }
        }
        let group = (!parts.is_empty()).then(|| Self::of(parts));
        (group, holds, why_not)
    }

    fn of(parts: Vec<Part>) -> Self {
        let directories = parts.iter().map(|part| part.directory.clone()).collect();
        Self { parts, directories }
    }

    /// What is left of a group, to be killed and removed. Nothing is checked here.
    pub(crate) fn left(directories: &[PathBuf]) -> Self {
        let part = |directory: &PathBuf| Part {
            version: if directory.join("cgroup.events").exists() {
                Version::Two
            } else {
                Version::One
            },
            directory: directory.clone(),
            controllers: if directory.join("freezer.state").exists() {
                vec![Controller::Freezer]
            } else {
                Vec::new()
            },
        };
        Self::of(directories.iter().map(part).collect())
    }

    /// Moves a process into it, with all its threads. Its children will be born in it.
    pub(crate) fn add(&self, pid: u32) -> io::Result<()> {
        let pid = pid.to_string();
        let mut parts = self.parts.iter();
        parts.try_for_each(|part| files::write(&part.directory.join("cgroup.procs"), &pid))
    }

    /// The same for a process of one thread that joins the rest through [`Group::own_lists`].
    pub(crate) fn add_unified(&self, pid: u32) -> io::Result<()> {
        let pid = pid.to_string();
        let two = |part: &&Part| part.version == Version::Two;
        let mut parts = self.parts.iter().filter(two);
        parts.try_for_each(|part| files::write(&part.directory.join("cgroup.procs"), &pid))
    }

    /// Where a process of one thread joins by writing `0`, which waits for nothing. Version 2 has no
    /// such file.
    pub(crate) fn own_lists(&self) -> Vec<PathBuf> {
        let one = |part: &&Part| part.version == Version::One;
        let parts = self.parts.iter().filter(one);
        parts.map(|part| part.directory.join("tasks")).collect()
    }

    /// Stops everything in it, or lets it go on; false where there is nothing to do it with.
    pub(crate) fn freeze(&self, frozen: bool) -> io::Result<bool> {
        let two = |part: &&Part| part.version == Version::Two;
        if let Some(part) = self.parts.iter().find(two) {
            files::write(&part.directory.join("cgroup.freeze"), flag(frozen))?;
            let events = part.directory.join("cgroup.events");
            wait_until(|| files::keyed(&events, "frozen") == Some(u64::from(frozen)))?;
            return Ok(true);
        }
        let freezer = |part: &&Part| part.controllers.contains(&Controller::Freezer);
        let Some(part) = self.parts.iter().find(freezer) else {
            return Ok(false);
        };
        let state = part.directory.join("freezer.state");
        let word = if frozen { "FROZEN" } else { "THAWED" };
        files::write(&state, word)?;
        wait_until(|| {
            let is = fs::read(&state).is_ok_and(|text| text.trim_ascii() == word.as_bytes());
            // A process born while freezing leaves it unfinished until asked again.
            is || files::write(&state, word).is_err()
        })?;
        Ok(true)
    }

    /// Kills everything in it. Nothing in it survives an `Ok`.
    pub(crate) fn kill(&self) -> io::Result<()> {
        let at_once = self.parts.iter().any(|part| {
            let kill = part.directory.join("cgroup.kill");
            part.version == Version::Two && files::write(&kill, "1").is_ok()
        });
        if !at_once {
            // What stands still has no children while it is gone through.
            let _ = self.freeze(true);
            let killed = self.kill_each();
            let _ = self.freeze(false);
            killed?;
        }
        wait_until(|| at_once && self.is_empty() || self.kill_each().is_ok() && self.is_empty())
    }

    fn is_empty(&self) -> bool {
        self.parts.iter().all(|part| part.pids().is_empty())
    }

    fn kill_each(&self) -> io::Result<()> {
        for part in &self.parts {
            let opened: Vec<(u32, OwnedFd)> = part
                .pids()
                .into_iter()
                .filter_map(|pid| Some((pid, open_process(pid)?)))
                .collect();
            // Still listed after it was opened: the number had not passed on to another.
            let still = part.pids();
            for (_, process) in opened.iter().filter(|(pid, _)| still.contains(pid)) {
                match pidfd_send_signal(process, Signal::KILL) {
                    Ok(()) | Err(rustix::io::Errno::SRCH) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }

    /// What it has come to.
    pub(crate) fn tally(&self) -> Tally {
        let tallies = self.parts.iter().map(Part::tally);
        tallies.fold(Tally::default(), |sum, one| Tally {
            oom_kills: sum.oom_kills + one.oom_kills,
            pids_refused: sum.pids_refused + one.pids_refused,
        })
    }

    /// The most memory that was used in it, where that is counted.
    pub(crate) fn peak_memory(&self) -> Option<u64> {
        self.parts.iter().find_map(Part::peak_memory)
    }

    /// Removes it, once nothing is in it; also if that was done before. What still holds on to it
    /// is waited for, a little.
    pub(crate) fn remove(&self) -> io::Result<()> {
        let removed = self.parts.iter().map(Part::remove);
        // Each by itself: one that stays must not keep the others.
        removed.fold(Ok(()), Result::and)
    }

    /// Its directories.
    pub(crate) fn directories(&self) -> &[PathBuf] {
        &self.directories
    }
}

impl Part {
    fn create(
        base: &Base,
        id: &str,
        limits: &Limits,
        holds: &mut BTreeMap<Limit, Held>,
        why_not: &mut Vec<String>,
    ) -> io::Result<Option<Self>> {
        let directory = base.directory.join(format!("{PREFIX}{id}"));
        files::make(&directory)?;
        let mut controllers = Vec::new();
        for controller in &base.controllers {
            match settings::apply(&directory, base.version, *controller, limits) {
                Ok(held) => {
                    holds.extend(held);
                    controllers.push(*controller);
                }
                Err(reason) => why_not.push(reason),
            }
        }
        // Version 1 without a controller is of no use; version 2 still kills and freezes.
        if controllers.is_empty() && base.version == Version::One {
            fs::remove_dir(&directory)?;
            return Ok(None);
        }
        Ok(Some(Self {
            version: base.version,
            directory,
            controllers,
        }))
    }

    fn pids(&self) -> Vec<u32> {
        files::pids(&self.directory.join("cgroup.procs")).unwrap_or_default()
    }

    fn tally(&self) -> Tally {
        let path = |file: &str| self.directory.join(file);
        let has = |controller| self.controllers.contains(&controller);
        let mut tally = Tally::default();
        if has(Controller::Memory) {
            let events = match self.version {
                Version::One => "memory.oom_control",
                Version::Two => "memory.events",
            };
            tally.oom_kills = files::keyed(&path(events), "oom_kill").unwrap_or(0);
        }
        if has(Controller::Pids) {
            tally.pids_refused = files::keyed(&path("pids.events"), "max").unwrap_or(0);
        }
        tally
    }

    fn peak_memory(&self) -> Option<u64> {
        let file = match self.version {
            Version::One => "memory.max_usage_in_bytes",
            Version::Two => "memory.peak",
        };
        let counted = self.controllers.contains(&Controller::Memory);
        counted.then(|| files::number(&self.directory.join(file)))?
    }

    fn remove(&self) -> io::Result<()> {
        let mut last = Ok(());
        wait_until(|| {
            last = match fs::remove_dir(&self.directory) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                done => done,
            };
            !matches!(&last, Err(error) if error.kind() == io::ErrorKind::ResourceBusy)
        })
        .and(last)
    }
}

const fn flag(on: bool) -> &'static str {
    if on { "1" } else { "0" }
}

/// Whether `id` can be part of a name: one path component, and no more.
pub(crate) fn is_id(id: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=64).contains(&id.len()) && id.bytes().all(plain)
}

/// The sandbox whose group a directory is of, by its name.
pub(crate) fn id_of(directory: &Path) -> Option<&str> {
    let name = directory.file_name().and_then(std::ffi::OsStr::to_str)?;
    name.strip_prefix(PREFIX).filter(|id| is_id(id))
}

/// Whether a directory is one of the group of `id`, by its name.
pub(crate) fn is_of(directory: &Path, id: &str) -> bool {
    id_of(directory) == Some(id)
}

fn open_process(pid: u32) -> Option<OwnedFd> {
    let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
    pidfd_open(pid, PidfdFlags::empty()).ok()
}

/// Asks until it is so, at growing intervals, no longer than [`PATIENCE`].
fn wait_until(mut done: impl FnMut() -> bool) -> io::Result<()> {
    let begun = Instant::now();
    let mut pause = Duration::from_micros(50);
    while !done() {
        if begun.elapsed() > PATIENCE {
            return Err(io::ErrorKind::TimedOut.into());
        }
        sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(10));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
