//! Looks at what a sandbox uses, for the limits no cgroup holds.
//!
//! [`Tree`] goes from a sandbox's init down through its children; orphans become children of that
//! init, so none gets out of sight for longer than one look. [`Watch`] remembers the most there was
//! and says when to look again: sooner the faster memory grows.
//!
//! Memory is what processes have resident, the private tmpfs mounts, a kibibyte for each file in
//! them, System V segments, and the memory files they hold open. The cheap sum counts shared pages once for each
//! process and file pages too; only near the limit is the exact one taken: each page once, and no
//! page that is only a file's.
//!
//! Does not guarantee: memory the kernel holds on behalf of processes (pipes, sockets, tables) is
//! not seen, nor are segments where their list is not to be had. Between two looks a sandbox can go
//! over. A mapped memory file counts as the larger of what is mapped and what is held open.

mod nameless;

pub use nameless::Nameless;

use super::meter::Meter;
use super::proc::{Process, Stat, read_into};
use rustix::fs::{MemfdFlags, fstat, fstatvfs, memfd_create};
use rustix::io::{Errno, pread};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What a sandbox uses at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Sample {
    /// Bytes of memory.
    pub(crate) memory: u64,
    /// Processes and threads, init among them.
    pub(crate) tasks: u64,
    /// Processor time used since the first look.
    pub(crate) cpu: Duration,
}

/// The processes of one sandbox.
#[derive(Debug)]
pub(crate) struct Tree {
    proc: PathBuf,
    init: Process,
}

/// More processes than any plan allows: beyond, a look is given up rather than taking long.
const MOST_PROCESSES: usize = 4_096;

/// How often a tree is gone through for what was born since: what was stopped bears no more, so few
/// are ever needed.
const ROUNDS: u32 = 16;

/// One process as it was seen.
struct Seen {
    pid: u32,
    stat: Stat,
}

impl Tree {
    /// The tree below a sandbox's init.
    pub(crate) fn of(init_pid: u32) -> io::Result<Self> {
        Self::within(PathBuf::from("/proc"), init_pid)
    }

    fn within(proc: PathBuf, init_pid: u32) -> io::Result<Self> {
        let start_time = Stat::read(&proc, init_pid)?.start_time;
        let init = Process {
            pid: init_pid,
            start_time,
        };
        Ok(Self { proc, init })
    }

    /// Everything that runs in it, init first. An error if init is gone.
    fn processes(&self) -> io::Result<Vec<Seen>> {
        let stat = Stat::read(&self.proc, self.init.pid)?;
        if stat.start_time != self.init.start_time {
            return Err(io::ErrorKind::NotFound.into());
        }
        let mut seen = vec![Seen {
            pid: self.init.pid,
            stat,
        }];
        if self.children(self.init.pid, &stat).is_err() {
            self.scan(&mut seen);
            return Ok(seen);
        }
        let (mut known, mut next) = (BTreeSet::from([self.init.pid]), 0);
        while let Some((pid, stat)) = seen.get(next).map(|one| (one.pid, one.stat)) {
            next += 1;
            // Whoever vanished has left its children to init, which is asked at every look.
            for child in self.children(pid, &stat).unwrap_or_default() {
                if seen.len() >= MOST_PROCESSES || !known.insert(child) {
                    continue;
                }
                if let Ok(stat) = Stat::read(&self.proc, child) {
                    seen.push(Seen { pid: child, stat });
                }
            }
        }
        Ok(seen)
    }

    /// What it has used of the processor since the first time `meter` counted it.
    pub(crate) fn used(&self, meter: &mut Meter) -> io::Result<Duration> {
        let seen = self.processes()?;
        Ok(meter.count(seen.iter().map(|one| (one.pid, one.stat))))
    }

    /// Sends a signal to everything in it but init, also to what is born meanwhile; says how many
    /// got it. For pausing where no cgroup can.
    pub(crate) fn signal(&self, signal: Signal) -> io::Result<usize> {
        let mut done = BTreeSet::new();
        for _ in 0..ROUNDS {
            let before = done.len();
            for one in self.processes()?.iter().skip(1) {
                let process = Process {
                    pid: one.pid,
                    start_time: one.stat.start_time,
                };
                if done.contains(&(process.pid, process.start_time)) {
                    continue;
                }
                if self.signal_one(process, signal)? {
                    done.insert((process.pid, process.start_time));
                }
            }
            if done.len() == before {
                break;
            }
        }
        Ok(done.len())
    }

    /// False if the process is gone.
    fn signal_one(&self, process: Process, signal: Signal) -> io::Result<bool> {
        let pid = i32::try_from(process.pid).ok().and_then(Pid::from_raw);
        let Some(pid) = pid else { return Ok(false) };
        let opened = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(opened) => opened,
            Err(Errno::SRCH) => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        // Asked after it was opened: the number has not passed on to another.
        let still = Stat::read(&self.proc, process.pid).map(|stat| stat.start_time);
        if still.ok() != Some(process.start_time) {
            return Ok(false);
        }
        match pidfd_send_signal(&opened, signal) {
            Ok(()) => Ok(true),
            Err(Errno::SRCH) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// The children of all threads of a process.
    fn children(&self, pid: u32, stat: &Stat) -> io::Result<Vec<u32>> {
        let tasks = self.proc.join(format!("{pid}/task"));
        let mut text = Vec::new();
        let mut found = Vec::new();
        let mut of_thread = |thread: &Path| -> io::Result<()> {
            read_into(&tasks.join(thread).join("children"), &mut text)?;
            let words = text.split(u8::is_ascii_whitespace);
            found.extend(words.filter_map(number));
            Ok(())
        };
        if stat.threads <= 1 {
            of_thread(Path::new(&pid.to_string()))?;
            return Ok(found);
        }
        for thread in fs::read_dir(&tasks)? {
            match of_thread(Path::new(&thread?.file_name())) {
                // A thread may end while the others are read.
                Err(error) if is_gone(&error) && tasks.exists() => {}
                done => done?,
            }
        }
        Ok(found)
    }

    /// For kernels without lists of children: every process there is, by its parent.
    fn scan(&self, seen: &mut Vec<Seen>) {
        let Ok(entries) = fs::read_dir(&self.proc) else {
            return;
        };
        let pids = entries.filter_map(|entry| number(entry.ok()?.file_name().as_bytes()));
        let mut all: Vec<Seen> = pids
            .filter_map(|pid| {
                let stat = Stat::read(&self.proc, pid).ok()?;
                Some(Seen { pid, stat })
            })
            .collect();
        let mut next = 0;
        while let Some(parent) = seen.get(next).map(|one| one.pid) {
            next += 1;
            let is_child = |one: &mut Seen| one.stat.parent == parent && one.pid != parent;
            seen.extend(all.extract_if(.., is_child));
        }
    }

    /// Pages each counted once, and none that a file could be read back from.
    fn exact(&self, seen: &Seen, page: u64) -> Shares {
        let mut text = Vec::new();
        let path = self.proc.join(format!("{}/smaps_rollup", seen.pid));
        let read = read_into(&path, &mut text).ok();
        read.and_then(|()| Shares::parse(&text)).unwrap_or(Shares {
            // Not to be had: then all it has resident counts as its own.
            anonymous: seen.stat.pages.saturating_mul(page),
            shared: 0,
        })
    }

    /// Adds the memory files a process holds open, each once.
    fn memory_files(&self, pid: u32, device: u64, known: &mut BTreeSet<u64>) -> u64 {
        let Ok(entries) = fs::read_dir(self.proc.join(format!("{pid}/fd"))) else {
            return 0;
        };
        let sizes = entries.filter_map(|entry| {
            let path = entry.ok()?.path();
            // Only these are looked at closer: any other could be on a file system that hangs.
            let target = fs::read_link(&path).ok()?;
            if !target.as_os_str().as_bytes().starts_with(b"/memfd:") {
                return None;
            }
            let meta = fs::metadata(&path).ok()?;
            (meta.dev() == device && known.insert(meta.ino())).then(|| meta.blocks() * 512)
        });
        sizes.sum()
    }
}

fn number(text: &[u8]) -> Option<u32> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn is_gone(error: &io::Error) -> bool {
    // Reading of a process that ended while its file was open says so by number.
    error.kind() == io::ErrorKind::NotFound || Errno::from_io_error(error) == Some(Errno::SRCH)
}

/// What is a process's own share of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shares {
    anonymous: u64,
    shared: u64,
}

impl Shares {
    fn parse(text: &[u8]) -> Option<Self> {
        // The first line has the addresses and no name from outside.
        let text = std::str::from_utf8(text).ok()?;
        let field = |name: &str| -> Option<u64> {
            let mut lines = text.lines();
            let value = lines.find_map(|line| line.strip_prefix(name))?;
            let kibibytes: u64 = value.trim().strip_suffix(" kB")?.parse().ok()?;
            kibibytes.checked_mul(1_024)
        };
        let swapped = field("SwapPss:").unwrap_or(0);
        match (field("Pss_Anon:"), field("Pss_Shmem:")) {
            (Some(anonymous), Some(shared)) => Some(Self {
                anonymous: anonymous + swapped,
                shared,
            }),
            _ => field("Pss:").map(|all| Self {
                anonymous: all + swapped,
                shared: 0,
            }),
        }
    }
}

/// How soon to look again at the least and at the most.
const SOONEST: Duration = Duration::from_millis(5);
const LATEST: Duration = Duration::from_millis(50);

/// Memory files are looked for once in so many looks, while memory is far from its limit.
const FILES_EVERY: u32 = 4;

/// Watches one sandbox.
#[derive(Debug)]
pub(crate) struct Watch {
    tree: Tree,
    mounts: Vec<OwnedFd>,
    memory: u64,
    /// The device all memory files are on.
    device: Option<u64>,
    page: u64,
    meter: Meter,
    looks: u32,
    files: u64,
    /// The list of System V segments.
    segments: Option<OwnedFd>,
    peak: Sample,
    last: Option<Sample>,
}

impl Watch {
    /// Watches `tree`, whose limit of memory is `memory`, and the tmpfs mounts that are its own.
    pub(crate) fn new(tree: Tree, mounts: Vec<OwnedFd>, memory: u64) -> Self {
        let probe = memfd_create("airlock", MemfdFlags::CLOEXEC);
        let device = probe.and_then(fstat).ok().map(|stat| stat.st_dev);
        Self {
            tree,
            mounts,
            memory,
            device,
            page: rustix::param::page_size() as u64,
            meter: Meter::new(),
            looks: 0,
            files: 0,
            segments: None,
            peak: Sample::default(),
            last: None,
        }
    }

    /// Counts the segments of this list too.
    pub(crate) fn counting(mut self, segments: Option<OwnedFd>) -> Self {
        self.segments = segments;
        self
    }

    /// Looks once. An error if the sandbox is gone.
    pub(crate) fn sample(&mut self) -> io::Result<Sample> {
        let seen = self.tree.processes()?;
        let resident = seen.iter().map(|one| one.stat.pages);
        let resident = resident.sum::<u64>().saturating_mul(self.page);
        let mounted: u64 = self.mounts.iter().map(used).sum();
        let near = |memory: u64| memory > self.memory / 2;
        let is_near = near(resident.saturating_add(mounted).saturating_add(self.files));
        if is_near || self.looks.is_multiple_of(FILES_EVERY) {
            let segments = self.segments.as_ref().map_or(0, in_segments);
            self.files = self.memory_files(&seen).saturating_add(segments);
        }
        let files = mounted.saturating_add(self.files);
        let memory = if near(resident.saturating_add(files)) {
            let each = seen.iter().map(|one| self.tree.exact(one, self.page));
            let (own, shared) = each.fold((0_u64, 0_u64), |(own, shared), one| {
                (own + one.anonymous, shared + one.shared)
            });
            // What is mapped of the files is among them.
            own.saturating_add(shared.max(files))
        } else {
            resident.saturating_add(files)
        };
        let sample = Sample {
            memory,
            tasks: seen.iter().map(|one| one.stat.threads.max(1)).sum(),
            cpu: self.meter.count(seen.iter().map(|one| (one.pid, one.stat))),
        };
        self.looks = self.looks.wrapping_add(1);
        self.peak = self.peak.most(&sample);
        Ok(sample)
    }

    /// The processes it watches.
    pub(crate) const fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Looks once and says when to look again.
    pub(crate) fn look(&mut self, since_last: Duration) -> io::Result<(Sample, Duration)> {
        let sample = self.sample()?;
        let before = self.last.replace(sample).unwrap_or_default();
        let pause = pause(self.memory, before.memory, sample.memory, since_last);
        Ok((sample, pause))
    }

    /// The most of each there was at any look.
    pub(crate) const fn peak(&self) -> Sample {
        self.peak
    }

    fn memory_files(&self, seen: &[Seen]) -> u64 {
        let Some(device) = self.device else { return 0 };
        let mut known = BTreeSet::new();
        let sizes = seen
            .iter()
            .map(|one| self.tree.memory_files(one.pid, device, &mut known));
        sizes.sum()
    }
}

impl Sample {
    fn most(&self, other: &Self) -> Self {
        Self {
            memory: self.memory.max(other.memory),
            tasks: self.tasks.max(other.tasks),
            cpu: self.cpu.max(other.cpu),
        }
    }
}

/// What one file of a tmpfs costs the kernel beside its content: an inode and a name.
const FILE_COST: u64 = 1 << 10;

/// What of a tmpfs is in use.
fn used(mount: &OwnedFd) -> u64 {
    fstatvfs(mount).map_or(0, |stat| {
        let blocks = stat.f_blocks.saturating_sub(stat.f_bfree);
        let files = stat.f_files.saturating_sub(stat.f_ffree);
        let content = blocks.saturating_mul(stat.f_frsize);
        content.saturating_add(files.saturating_mul(FILE_COST))
    })
}

/// The most that is read of a list of segments: there are no more than 4,096 unless somebody was let
/// make more.
const MOST_LIST: u64 = 4 << 20;

/// What System V segments take, attached or not.
fn in_segments(list: &OwnedFd) -> u64 {
    let mut text = Vec::new();
    let mut block = vec![0; 64 << 10];
    while let Ok(read @ 1..) = pread(list, &mut block, text.len() as u64) {
        text.extend(block.iter().take(read));
        if text.len() as u64 >= MOST_LIST {
            break;
        }
    }
    resident(&text)
}

/// The sum of what is resident and what is swapped out of each, the last two of sixteen columns.
fn resident(list: &[u8]) -> u64 {
    const COLUMNS: usize = 16;
    let text = String::from_utf8_lossy(list);
    let lines = text.lines().skip(1);
    let sizes = lines.filter_map(|line| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let [.., resident, swapped] = words.as_slice() else {
            return None;
        };
        let size = |word: &str| word.parse::<u64>().ok();
        let size = size(resident)?.saturating_add(size(swapped)?);
        (words.len() == COLUMNS).then_some(size)
    });
    sizes.fold(0, u64::saturating_add)
}

/// Half the time memory needs to reach its limit if it goes on growing like this.
fn pause(limit: u64, before: u64, now: u64, since: Duration) -> Duration {
    let growth = now.saturating_sub(before);
    let room = limit.saturating_sub(now);
    let nanos = u128::from(room) * since.as_nanos() / u128::from(growth.max(1)) / 2;
    let nanos = u64::try_from(nanos).unwrap_or(u64::MAX);
    if growth == 0 {
        LATEST
    } else {
        Duration::from_nanos(nanos).clamp(SOONEST, LATEST)
    }
}

#[cfg(test)]
mod tests;
