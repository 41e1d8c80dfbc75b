//! What holds one sandbox to its limits: its cgroup where it has one, else its supervisor's watch.
//!
//! A sandbox with a cgroup is noted in the registry before the group is made, so that whatever
//! happens to the supervisor the group is found and removed. One without leaves nothing behind.

use super::collector::{Entry, Noted, Registry, remove_strays};
use super::limits::{
    Group, Meter, Process, Rlimit, Tally, Throttle, Tree, Watch, file_size_held, pids_held, rlimits,
};
use crate::launch::StartError;
use crate::lifecycle::Outcome;
use crate::plan::{Class, Limit, Limits, Plan};
use crate::report::{Held, Raised};
use rustix::fd::OwnedFd;
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A name no other sandbox of this machine has now.
pub(super) fn new_id() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{}-{:x}-{count}", std::process::id(), uptime())
}

/// Whose name this is by [`new_id`], and when it was made by [`uptime`].
pub(super) fn maker(id: &str) -> Option<(u32, u64)> {
    let words: Vec<&str> = id.split('-').collect();
    let [pid, made, count] = words.as_slice() else {
        return None;
    };
    let _count: u64 = count.parse().ok()?;
    Some((pid.parse().ok()?, u64::from_str_radix(made, 16).ok()?))
}

/// Milliseconds since the machine started.
pub(super) fn uptime() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    u64::try_from(now.tv_sec * 1_000 + now.tv_nsec / 1_000_000).unwrap_or(0)
}

/// The limits of a sandbox, and what holds them.
#[derive(Debug)]
pub(super) struct Hold {
    group: Option<Group>,
    holds: BTreeMap<Limit, Held>,
    noted: Option<Noted>,
    /// The list of the sandbox's shared memory.
    segments: Option<OwnedFd>,
}

fn failed(step: &str, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> StartError {
    StartError::Step {
        step: step.to_owned(),
        source: io::Error::other(source),
    }
}

impl Hold {
    /// Makes a cgroup for the sandbox `id`, where one may be made.
    pub(super) fn new(id: &str, limits: &Limits, registry: &Path) -> Result<Self, StartError> {
        if !Group::possible() {
            return Ok(Self {
                group: None,
                holds: BTreeMap::new(),
                noted: None,
                segments: None,
            });
        }
        remove_strays();
        let noting = |error| failed("note the sandbox for the collector", error);
        let registry = Registry::open(registry).map_err(noting)?;
        let supervisor =
            Process::current().map_err(|error| failed("find out who we are", error))?;
        let mut entry = Entry {
            id: id.to_owned(),
            supervisor,
            init: None,
            cgroups: Group::would_be(id),
            directories: Vec::new(),
        };
        let mut noted = registry.note(&entry).map_err(noting)?;
        let (group, holds, _why_not) = Group::create(id, limits);
        let Some(group) = group else {
            noted
                .clear()
                .map_err(|error| failed("forget the sandbox", error))?;
            return Ok(Self {
                group: None,
                holds,
                noted: None,
                segments: None,
            });
        };
        if entry.cgroups != group.directories() {
            entry.cgroups = group.directories().to_vec();
            noted.update(&entry).map_err(noting)?;
        }
        Ok(Self {
            group: Some(group),
            holds,
            noted: Some(noted),
            segments: None,
        })
    }

    /// Counts what this list of shared memory says, where no cgroup does.
    pub(super) fn count_segments(&mut self, list: Option<OwnedFd>) {
        self.segments = list.filter(|_| !self.holds.contains_key(&Limit::Memory));
    }

    /// Lists of tasks by which the sandbox's first process joins the group by itself.
    pub(super) fn own_lists(&self) -> Vec<PathBuf> {
        let lists = self.group.as_ref().map(Group::own_lists);
        lists.unwrap_or_default()
    }

    /// Takes the process into those parts of the group that it cannot join by itself.
    pub(super) fn take_in_rest(&self, pid: i32) -> Result<(), StartError> {
        let Some(group) = &self.group else {
            return Ok(());
        };
        let pid = u32::try_from(pid).unwrap_or(0);
        group
            .add_unified(pid)
            .map_err(|error| failed("put the sandbox into its cgroup", error))
    }

    /// Takes the process and what it starts into the group.
    pub(super) fn take_in(&self, pid: i32) -> Result<(), StartError> {
        let Some(group) = &self.group else {
            return Ok(());
        };
        let pid = u32::try_from(pid).unwrap_or(0);
        group
            .add(pid)
            .map_err(|error| failed("put the sandbox into its cgroup", error))
    }

    /// Whether there is more than processes: a cgroup, which nobody else would remove.
    pub(super) const fn leaves_something(&self) -> bool {
        self.group.is_some() || self.noted.is_some()
    }

    /// What every process inherits.
    pub(super) fn rlimits(&self, limits: &Limits) -> Vec<Rlimit> {
        rlimits(limits, &self.holds)
    }

    /// Says how each limit is held.
    pub(super) fn report(&self, mut raised: Raised) -> Raised {
        let held = |class, how: &str| Held {
            class,
            how: how.to_owned(),
        };
        for limit in Limit::ALL {
            let otherwise = || match limit {
                Limit::Memory => held(Class::Supervised, "watched, and ended when over"),
                Limit::Cpus => held(Class::Supervised, "watched, and stopped by signal"),
                Limit::Pids => pids_held(),
                Limit::Duration => held(Class::Enforced, "ended by the supervisor"),
                Limit::Output => held(Class::Enforced, "cut by the supervisor, and ended"),
                Limit::FileSize => file_size_held(),
            };
            let found = self.holds.get(limit).cloned().unwrap_or_else(otherwise);
            raised = raised.limit(*limit, found.class, found.how);
        }
        raised
    }

    fn tally(&self) -> Tally {
        self.group.as_ref().map(Group::tally).unwrap_or_default()
    }

    /// Begins to look after one command; files in `scratch` take memory too.
    pub(super) fn look_after(&self, plan: &Plan, init: i32, scratch: Vec<OwnedFd>) -> Lookout {
        let limits = plan.limits();
        let watched = [Limit::Memory, Limit::Cpus];
        let needed = watched.iter().any(|limit| !self.holds.contains_key(limit));
        let init = u32::try_from(init).unwrap_or(0);
        let watch = needed
            .then(|| {
                let tree = Tree::of(init).ok()?;
                let segments = self.segments.as_ref();
                let segments = segments.and_then(|list| list.try_clone().ok());
                let watch = Watch::new(tree, scratch, limits.memory.as_bytes());
                Some(watch.counting(segments))
            })
            .flatten();
        let throttled = !self.holds.contains_key(&Limit::Cpus);
        Lookout {
            before: self.tally(),
            watch,
            throttle: throttled.then(|| Throttle::new(limits.cpus)),
            memory: limits.memory.as_bytes(),
            pids: u64::from(limits.pids),
            looked: Instant::now(),
            next: Instant::now() + FIRST_LOOK,
            resting: None,
            init,
            paused: None,
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let gone = self
            .group
            .as_ref()
            .is_none_or(|group| group.remove().is_ok());
        // What could not be removed stays noted, for the collector.
        if gone && let Some(noted) = self.noted.take() {
            let _cleared = noted.clear();
        }
    }
}

/// Most commands are over before there is anything to see.
const FIRST_LOOK: Duration = Duration::from_millis(10);

/// Looks after one command.
pub(super) struct Lookout {
    before: Tally,
    watch: Option<Watch>,
    throttle: Option<Throttle>,
    memory: u64,
    pids: u64,
    looked: Instant,
    next: Instant,
    /// Since when the tree stands still, having used too much of the processor.
    resting: Option<Still>,
    init: u32,
    paused: Option<Paused>,
}

/// A tree that was told to stand still for a while.
#[derive(Clone, Copy)]
struct Still {
    since: Instant,
    /// What it had used by then.
    used: Duration,
}

/// A tree that stands still until somebody lets it go on.
struct Paused {
    /// Which of the pauses it is.
    number: u64,
    tree: Tree,
    meter: Meter,
    /// What it had used when it was told to.
    before: Duration,
    /// What it had used at the last look.
    last: Duration,
    /// How long not to look.
    patience: Duration,
}

impl Lookout {
    /// When to look next.
    pub(super) fn next(&self) -> Option<Instant> {
        (self.watch.is_some() || self.paused.is_some()).then_some(self.next)
    }

    /// Looks, if it is time to: the limit that is broken, if one is.
    pub(super) fn look(&mut self, now: Instant) -> Option<Outcome> {
        if let Some(paused) = self.paused.take() {
            // It may have been stopped once more just after it was let go on.
            if self.resting.is_none() {
                let _continued = paused.tree.signal(Signal::CONT);
            }
            self.next = now;
        }
        let watch = self.watch.as_mut().filter(|_| now >= self.next)?;
        let passed = now.duration_since(self.looked);
        self.looked = now;
        // A tree that is gone is seen to by whoever waits for its end.
        let (sample, pause) = watch.look(passed).ok()?;
        self.next = now + pause;
        if sample.memory > self.memory {
            return Some(Outcome::OutOfMemory);
        }
        let throttle = self.throttle.as_mut()?;
        let rest = throttle.rest(passed, sample.cpu);
        match self.resting {
            Some(still) if rest > Duration::ZERO => {
                let used = sample.cpu.saturating_sub(still.used);
                let may = throttle.share(now.duration_since(still.since)) + LEEWAY;
                if used > may {
                    return Some(Outcome::TimedOut);
                }
                // Whoever has itself woken is stopped again; what it used prolongs the rest.
                if used > Duration::ZERO {
                    let _stopped = watch.tree().signal(Signal::STOP);
                }
                self.next = now + rest.min(AT_REST);
            }
            Some(_) => {
                self.resting = None;
                let _continued = watch.tree().signal(Signal::CONT);
            }
            None if rest > SHORTEST_REST && watch.tree().signal(Signal::STOP).is_ok() => {
                let (since, used) = (now, sample.cpu);
                self.resting = Some(Still { since, used });
                self.next = now + rest.min(AT_REST);
            }
            None => {}
        }
        None
    }

    /// Sees to it that everything stands still, if it is time to. What goes on using the processor
    /// is stopped again, and ended once it has used more than anybody needs to come to a stand.
    /// Between two pauses it went on by right: each has its `number`.
    pub(super) fn look_paused(&mut self, now: Instant, number: u64) -> Option<Outcome> {
        let same = self.paused.as_mut();
        let Some(paused) = same.filter(|paused| paused.number == number) else {
            // A tree that is gone is seen to by whoever waits for its end.
            self.paused = Paused::begin(self.init, number).ok();
            self.next = now + AT_REST;
            return None;
        };
        if now < self.next {
            return None;
        }
        let outcome = paused.look();
        self.next = now + paused.patience;
        outcome
    }

    /// What `outcome` was really due to, of a command that left `left` processes behind.
    pub(super) fn explain(&self, hold: &Hold, outcome: Outcome, left: u32) -> Outcome {
        if matches!(outcome, Outcome::Exited(0)) {
            return outcome;
        }
        let tally = hold.tally();
        if tally.oom_kills > self.before.oom_kills {
            return Outcome::OutOfMemory;
        }
        let peak = self.watch.as_ref().map(|watch| watch.peak().tasks);
        // Init is among those seen, the command is not among those left.
        let seen = peak.is_some_and(|tasks| tasks > self.pids);
        let full = hold.group.is_none() && (seen || u64::from(left) + 1 >= self.pids);
        if tally.pids_refused > self.before.pids_refused || full {
            return Outcome::TooManyProcesses;
        }
        outcome
    }

    /// The most memory there was.
    pub(super) fn peak_memory(&self, hold: &Hold) -> Option<u64> {
        let watched = self.watch.as_ref().map(|watch| watch.peak().memory);
        let counted = hold.group.as_ref().and_then(Group::peak_memory);
        counted.or(watched)
    }
}

impl Paused {
    fn begin(init: u32, number: u64) -> io::Result<Self> {
        let (tree, mut meter) = (Tree::of(init)?, Meter::new());
        // Also what was started after the pause was asked for.
        let _stopped = tree.signal(Signal::STOP)?;
        let used = tree.used(&mut meter)?;
        Ok(Self {
            number,
            tree,
            meter,
            before: used,
            last: used,
            patience: AT_REST,
        })
    }

    fn look(&mut self) -> Option<Outcome> {
        let used = self.tree.used(&mut self.meter).ok()?;
        if used > self.last {
            let _stopped = self.tree.signal(Signal::STOP);
            self.patience = AT_REST;
        } else {
            self.patience = (self.patience * 2).min(AT_LONG_REST);
        }
        self.last = used;
        let over = used.saturating_sub(self.before) > LEEWAY;
        over.then_some(Outcome::TimedOut)
    }
}

/// Standing still for less is not worth two signals to everyone.
const SHORTEST_REST: Duration = Duration::from_millis(2);
/// How often to see whether everything stands still.
const AT_REST: Duration = Duration::from_millis(20);
/// The same of what has been seen to.
const AT_LONG_REST: Duration = Duration::from_millis(320);
/// What may be used of the processor while standing still, beyond the share: a stop takes effect at
/// once, so this is far more than a tree that does not have itself woken comes to.
const LEEWAY: Duration = Duration::from_millis(500);
