//! A thousand sandboxes in a row, fifty at once, ten whose supervisor is killed: nothing is left.
//!
//! What is counted - descriptors, threads, children - belongs to a process, so each count is made
//! in one of its own: the test starts itself anew, with a directory for temporary files that nobody
//! else uses.
#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and starts itself anew to be counted and killed"
)]

#[path = "native/support.rs"]
#[expect(
    dead_code,
    unused_imports,
    reason = "shared with the tests of the launcher, which use all of it"
)]
mod support;

use airlock_sandbox::lifecycle::Outcome;
use airlock_sandbox::{Nursery, Prepared, Sandbox, prepare};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};
use support::{Place, command, run, sh};

/// Says that this process is one started by a test, and where its files go.
const WITHIN: &str = "AIRLOCK_TEST_SOAK";

fn names(directory: impl AsRef<Path>) -> BTreeSet<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.collect()
}

/// Everything of this process that sandboxes could add to.
#[derive(Debug, PartialEq, Eq)]
struct Holdings {
    descriptors: BTreeSet<PathBuf>,
    threads: usize,
    mounts: String,
    children: Vec<u32>,
    temporary: BTreeSet<String>,
}

impl Holdings {
    fn now() -> Self {
        let own = std::process::id();
        // Some threads have open files of their own.
        let tables = names("/proc/self/task").into_iter();
        let tables = tables.map(|thread| format!("/proc/self/task/{thread}/fd"));
        let descriptors = tables.flat_map(|table| {
            let open = names(&table).into_iter();
            open.filter_map(move |number| {
                let target = fs::read_link(format!("{table}/{number}")).ok()?;
                // The directory that is being read is one of them.
                let listing = target.ends_with("fd") && target.starts_with("/proc");
                let told = || Path::new(&number).join(target.strip_prefix("/").unwrap_or(&target));
                (!listing).then(told)
            })
        });
        Self {
            descriptors: descriptors.collect(),
            threads: names("/proc/self/task").len(),
            mounts: fs::read_to_string("/proc/self/mountinfo").unwrap(),
            children: processes(|pid| parent(pid) == Some(own)),
            temporary: names(std::env::temp_dir()),
        }
    }
}

fn processes(wanted: impl Fn(u32) -> bool) -> Vec<u32> {
    let pids = names("/proc")
        .into_iter()
        .filter_map(|name| name.parse().ok());
    pids.filter(|pid| wanted(*pid)).collect()
}

fn parent(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
    line.trim().parse().ok()
}

/// Processes whose command line has `mark` in it, other than those that look for it.
fn marked(mark: &str) -> Vec<u32> {
    processes(|pid| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0)
            .any(|word| word == mark.as_bytes())
    })
}

/// The cgroups of sandboxes that the process `pid` started.
fn cgroups(pid: u32) -> Vec<PathBuf> {
    let prefix = format!("airlock-{pid}-");
    let mut found = Vec::new();
    let mut left = vec![PathBuf::from("/sys/fs/cgroup")];
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if entry.file_name().to_string_lossy().starts_with(&prefix) {
                    found.push(entry.path());
                }
                left.push(entry.path());
            }
        }
    }
    found
}

fn eventually(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Starts the test `name` in a process of its own, whose temporary files go to `directory`. Root's
/// sees no mount but its own; nobody else could make one where others see it.
fn anew(name: &str, directory: &Path) -> Child {
    let own = std::env::current_exe().unwrap();
    let mut command = if rustix::process::geteuid().is_root() {
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "--propagation", "private", "--"])
            .arg(own);
        command
    } else {
        Command::new(own)
    };
    command
        .args(["--exact", name, "--test-threads=1", "--nocapture"])
        .env(WITHIN, directory)
        .env("TMPDIR", directory)
        .spawn()
        .unwrap()
}

/// Where files go, in a process started by [`anew`]; nothing in the one that runs all tests.
fn within() -> Option<PathBuf> {
    std::env::var_os(WITHIN).map(PathBuf::from)
}

fn counted(name: &str) {
    let directory = tempfile::tempdir().unwrap();
    let mut child = anew(name, directory.path());
    assert!(child.wait().unwrap().success(), "{name}");
    assert_eq!(names(directory.path()), BTreeSet::new());
    assert_eq!(cgroups(child.id()), Vec::<PathBuf>::new());
}

#[test]
fn a_thousand_in_a_row() {
    if within().is_none() {
        return;
    }
    let place = Place::new();
    // Whatever is made once and kept is made by the first.
    sh(&mut place.start(), "true");
    let before = Holdings::now();
    for _ in 0..1_000 {
        let mut sandbox = place.start();
        let ran = run(&mut sandbox, &command(&["true"]));
        assert_eq!(ran.ended.outcome, Outcome::Exited(0));
    }
    settled(&before);
    assert_eq!(names(place.path("run")), BTreeSet::new());
    assert_eq!(cgroups(std::process::id()), Vec::<PathBuf>::new());
}

#[test]
fn a_thousand_sandboxes_in_a_row_leave_nothing() {
    counted("a_thousand_in_a_row");
}

#[test]
fn four_hundred_unused() {
    if within().is_none() {
        return;
    }
    drop(prepare().unwrap());
    let before = Holdings::now();
    let nursery = Nursery::open().unwrap();
    for _ in 0..50 {
        let some: Vec<Prepared> = (0..4).map(|_| prepare().unwrap()).collect();
        drop(some);
        let born: Vec<Prepared> = (0..4).map(|_| nursery.prepare().unwrap()).collect();
        drop(born);
    }
    drop(nursery);
    settled(&before);
}

#[test]
fn four_hundred_sandboxes_made_ahead_and_never_used_leave_nothing() {
    counted("four_hundred_unused");
}

/// The threads of a scope end a moment after they are waited for.
fn settled(before: &Holdings) {
    eventually("threads end", || Holdings::now().threads == before.threads);
    assert_eq!(Holdings::now(), *before);
}

#[test]
fn fifty_at_once() {
    if within().is_none() {
        return;
    }
    sh(&mut Place::new().start(), "true");
    let before = Holdings::now();
    let all_stand = std::sync::Barrier::new(50);
    std::thread::scope(|scope| {
        for number in 0..50 {
            let all_stand = &all_stand;
            scope.spawn(move || {
                let place = Place::new();
                place.write("tree/number", &number.to_string());
                let mut sandbox = place.start();
                all_stand.wait();
                let script = "seq 100 | while read i; do echo $i >> all; done; sleep 4741 & \
                              mkdir made; cat number; wc -l < all";
                let want = format!("{number}100\n");
                assert_eq!(sh(&mut sandbox, script), want);
                assert_eq!(place.read("tree/all"), None);
                assert_eq!(place.read("stage/upper/all").unwrap().lines().count(), 100);
                drop(sandbox);
                assert_eq!(names(place.path("run")), BTreeSet::new());
            });
        }
    });
    settled(&before);
    assert_eq!(cgroups(std::process::id()), Vec::<PathBuf>::new());
}

#[test]
fn fifty_sandboxes_at_once_keep_apart_and_leave_nothing() {
    counted("fifty_at_once");
}

/// How many sandboxes the supervisor has that is killed.
const LIVE: usize = 10;

/// Where that supervisor notes the processes of those it made ahead.
const AHEAD: &str = "ahead";

/// A command line no other run of this test has.
fn mark(directory: &Path) -> String {
    let name = directory.file_name().unwrap().to_string_lossy();
    format!(
        "soak{}",
        name.replace(|letter: char| !letter.is_ascii_alphanumeric(), "")
    )
}

#[test]
fn a_supervisor_of_ten() {
    let Some(directory) = within() else { return };
    let mark = mark(&directory);
    let _ahead: Vec<Prepared> = (0..3).map(|_| prepare().unwrap()).collect();
    let nursery = Nursery::open().unwrap();
    let _born: Vec<Prepared> = (0..3).map(|_| nursery.prepare().unwrap()).collect();
    let own = std::process::id();
    let ahead = processes(|pid| parent(pid) == Some(own));
    let ahead: Vec<String> = ahead.iter().map(u32::to_string).collect();
    fs::write(directory.join(AHEAD), ahead.join(" ")).unwrap();
    let script = format!("trap '' TERM HUP; setsid sh -c 'sleep 4742; :' {mark} & sleep 4742; :");
    std::thread::scope(|scope| {
        for number in 0..LIVE {
            let place = Place::of_another(&directory.join(number.to_string()));
            let (script, mark) = (&script, &mark);
            scope.spawn(move || {
                let mut launch = place.launch(|plan| plan);
                launch.registry = place.path("../registry");
                let mut sandbox: Sandbox = airlock_sandbox::start(launch).unwrap();
                run(&mut sandbox, &command(&["sh", "-c", script, mark]));
            });
        }
    });
}

#[test]
fn ten_sandboxes_whose_supervisor_is_killed_leave_nothing_once_collected() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    let registry = root.join("registry");
    fs::create_dir(&registry).unwrap();
    for number in 0..LIVE {
        let place = root.join(number.to_string());
        for name in ["tree", "stage/upper", "stage/work"] {
            fs::create_dir_all(place.join(name)).unwrap();
        }
        let owner = airlock_sandbox::stage_owner();
        let (user, group) = (Some(owner.uid), Some(owner.gid));
        std::os::unix::fs::chown(place.join("stage/upper"), user, group).unwrap();
    }
    let mark = mark(&root);
    let mut supervisor = anew("a_supervisor_of_ten", &root);
    // The shell of each sandbox, and the one it started in a session of its own.
    eventually("all run", || marked(&mark).len() == 2 * LIVE);
    supervisor.kill().unwrap();
    supervisor.wait().unwrap();
    eventually("all ended", || marked(&mark).is_empty());
    let ahead = fs::read_to_string(root.join(AHEAD)).unwrap();
    let ahead: Vec<&str> = ahead.split(' ').collect();
    assert_eq!(ahead.len(), 3 + 1 + 3, "and the nursery");
    let gone = |pid: &&str| !Path::new("/proc").join(pid).exists();
    eventually("those made ahead ended", || ahead.iter().all(gone));
    let noted = names(&registry).len();
    let groups = cgroups(supervisor.id()).len();
    assert!(noted == 0 || noted == LIVE, "{noted}");
    assert_eq!(noted > 0, groups > 0, "what has a cgroup is noted");
    let collected = airlock_sandbox::collect(&registry).unwrap();
    assert!(collected.troubles.is_empty(), "{collected:?}");
    assert_eq!(collected.removed.len(), noted);
    assert_eq!(names(&registry), BTreeSet::new());
    assert_eq!(cgroups(supervisor.id()), Vec::<PathBuf>::new());
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(root.to_str().unwrap()), "{mounts}");
    // Whoever comes next finds the stages usable.
    for number in 0..LIVE {
        let place = Place::of_another(&root.join(number.to_string()));
        fs::create_dir(place.path("run")).unwrap();
        assert_eq!(sh(&mut place.start(), "echo again"), "again\n");
    }
    directory.close().unwrap();
}
