use super::super::testing::{Actor, MIB};
use super::*;
use rustix::fs::{Mode, OFlags};

fn watch(actor: &Actor, memory: u64) -> Watch {
    Watch::new(Tree::of(actor.pid()).unwrap(), Vec::new(), memory)
}

#[test]
fn memory_is_seen_to_grow_and_the_most_is_remembered() {
    let mut actor = Actor::start("grows by 32 MiB");
    let mut watch = watch(&actor, 1 << 30);
    let before = watch.sample().unwrap().memory;
    assert!(actor.step());
    let after = watch.sample().unwrap().memory;
    let grown = after - before;
    assert!((31 * MIB..40 * MIB).contains(&grown), "{before} {after}");
    assert_eq!(watch.peak().memory, after);
}

#[test]
fn near_the_limit_only_memory_of_ones_own_counts() {
    let mut actor = Actor::start("grows by 32 MiB");
    assert!(actor.step());
    let cheap = watch(&actor, 1 << 30).sample().unwrap().memory;
    // 40 MiB: more than half is used, so the exact sum is taken.
    let exact = watch(&actor, 40 * MIB).sample().unwrap().memory;
    assert!(exact >= 32 * MIB, "{exact}");
    assert!(exact < cheap, "{exact} {cheap}");
}

#[test]
fn threads_and_grandchildren_born_of_threads_are_counted() {
    let mut actor = Actor::start("has ten threads");
    let mut watch = watch(&actor, 1 << 30);
    let before = watch.sample().unwrap().tasks;
    assert!(actor.step());
    assert_eq!(watch.sample().unwrap().tasks, before + 9);

    let mut parent = Actor::start("has children");
    let mut watch = self::watch(&parent, 1 << 30);
    let before = watch.sample().unwrap().tasks;
    assert!(parent.step());
    assert_eq!(watch.tree.processes().unwrap().len(), 6);
    assert!(watch.sample().unwrap().tasks >= before + 5);
}

#[test]
fn without_lists_of_children_a_scan_finds_the_same() {
    let mut parent = Actor::start("has children");
    assert!(parent.step());
    let tree = Tree::of(parent.pid()).unwrap();
    let mut seen = tree.processes().unwrap();
    let mut walked: Vec<u32> = seen.iter().map(|one| one.pid).collect();
    seen.truncate(1);
    tree.scan(&mut seen);
    let mut scanned: Vec<u32> = seen.iter().map(|one| one.pid).collect();
    walked.sort_unstable();
    scanned.sort_unstable();
    assert_eq!(walked, scanned);
    assert_eq!(walked.len(), 6);
}

#[test]
fn a_memory_file_that_is_not_mapped_counts_once() {
    let mut actor = Actor::start("fills a memory file");
    let mut watch = watch(&actor, 100 * MIB);
    assert!(actor.step());
    let first = watch.sample().unwrap().memory;
    assert!(first >= 48 * MIB, "{first}");
    assert!(first < 96 * MIB, "{first}");
}

/// Held by whoever compares what the machine's shared memory takes: what another test takes away
/// meanwhile would count.
fn alone() -> std::sync::MutexGuard<'static, ()> {
    static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    ONE.lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[test]
fn a_mount_of_its_own_counts() {
    let _alone = alone();
    let actor = Actor::start("waits");
    // Any tmpfs will do: the machine's own is one.
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let mount = rustix::fs::open("/dev/shm", flags, Mode::empty()).unwrap();
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let before = used(&mount);
    fs::write(directory.path().join("file"), vec![1; 16 << 20]).unwrap();
    assert!(used(&mount) >= before + 15 * MIB);
    let tree = || Tree::of(actor.pid()).unwrap();
    let without = Watch::new(tree(), Vec::new(), 1 << 40).sample().unwrap();
    let with = Watch::new(tree(), vec![mount], 1 << 40).sample().unwrap();
    assert!(with.memory >= without.memory + 15 * MIB);
}

#[test]
fn files_without_content_count_too() {
    let _alone = alone();
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let mount = rustix::fs::open("/dev/shm", flags, Mode::empty()).unwrap();
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let before = used(&mount);
    for number in 0..4_000 {
        fs::write(directory.path().join(number.to_string()), "").unwrap();
    }
    assert!(used(&mount) >= before + 3 * MIB);
}

#[test]
fn processes_that_vanish_while_looked_at_do_no_harm() {
    let mut actor = Actor::start("is a bomb");
    let mut watch = watch(&actor, 1 << 30);
    actor.go();
    let begun = std::time::Instant::now();
    while begun.elapsed() < Duration::from_millis(400) {
        let sample = watch.sample().unwrap();
        assert!(sample.tasks >= 1);
    }
    assert!(watch.peak().tasks > 10, "{:?}", watch.peak());
}

#[test]
fn looking_at_a_hundred_processes_is_cheap() {
    let mut actor = Actor::start("is a bomb");
    let mut watch = watch(&actor, 1 << 30);
    actor.go();
    let mut costs = Vec::new();
    for _ in 0..20 {
        let begun = std::time::Instant::now();
        watch.sample().unwrap();
        costs.push(begun.elapsed());
    }
    costs.sort_unstable();
    // A fifth of the time between looks, unoptimised and on a busy machine.
    assert!(costs[10] < Duration::from_millis(10), "{costs:?}");
}

#[test]
fn processor_time_is_seen() {
    let mut actor = Actor::start("works");
    let mut watch = watch(&actor, 1 << 30);
    let before = watch.sample().unwrap().cpu;
    assert!(actor.step());
    let used = watch.sample().unwrap().cpu.saturating_sub(before);
    assert!(used >= Duration::from_millis(20), "{used:?}");
}

#[test]
fn a_sandbox_that_is_gone_is_not_mistaken_for_another() {
    let mut actor = Actor::start("waits");
    let mut gone = watch(&actor, 1 << 30);
    let mut reused = watch(&actor, 1 << 30);
    reused.tree.init.start_time += 1;
    assert!(reused.sample().is_err());
    assert!(gone.sample().is_ok());
    let pid = actor.pid();
    assert!(actor.is_running());
    drop(actor);
    assert!(gone.sample().is_err());
    assert!(Tree::of(pid).is_err());
}

#[test]
fn the_faster_memory_grows_the_sooner_is_looked_again() {
    let tick = Duration::from_millis(20);
    for (case, before, now, want) in [
        ("still", 10, 10, LATEST),
        ("shrinking", 20, 10, LATEST),
        ("slowly", 10, 11, LATEST),
        ("in 40 ms", 20, 40, Duration::from_millis(30)),
        ("in 10 ms", 20, 80, SOONEST),
        ("over", 20, 200, SOONEST),
    ] {
        assert_eq!(pause(100, before, now, tick), want, "{case}");
    }
}

#[test]
fn shares_are_read_from_old_and_new_kernels() {
    let new = "5000-7000 ---p 00000000 00:00 0  [rollup]\nRss: 900 kB\nPss: 500 kB\n\
               Pss_Anon:  300 kB\nPss_File: 150 kB\nPss_Shmem: 50 kB\nSwapPss: 4 kB\n";
    let old = "5000-7000 ---p 00000000 00:00 0  [rollup]\nRss: 900 kB\nPss: 500 kB\n";
    let want = |anonymous: u64, shared: u64| {
        Some(Shares {
            anonymous: anonymous * 1_024,
            shared: shared * 1_024,
        })
    };
    assert_eq!(Shares::parse(new.as_bytes()), want(304, 50));
    assert_eq!(Shares::parse(old.as_bytes()), want(500, 0));
    for text in ["", "Pss:", "Pss: x kB", "Pss: 99999999999999999999 kB"] {
        assert_eq!(Shares::parse(text.as_bytes()), None, "{text}");
    }
}

#[test]
fn everything_but_init_is_stopped_and_goes_on() {
    let mut parent = Actor::start("has children");
    assert!(parent.step());
    let mut watch = watch(&parent, 1 << 30);
    let pids = |watch: &Watch| -> Vec<u32> {
        let seen = watch.tree().processes().unwrap();
        seen.iter().map(|one| one.pid).collect()
    };
    let state = |pid: u32| -> u8 {
        let text = fs::read(format!("/proc/{pid}/stat")).unwrap();
        let end = text.iter().rposition(|byte| *byte == b')').unwrap();
        text[end + 2]
    };
    let all = |watch: &Watch, want: bool| {
        let children = pids(watch).into_iter().skip(1);
        children.map(state).all(|state| (state == b'T') == want)
    };
    let soon = |watch: &Watch, want: bool| {
        let begun = std::time::Instant::now();
        while !all(watch, want) {
            assert!(begun.elapsed() < Duration::from_secs(5), "{want}");
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    assert_eq!(watch.tree().signal(Signal::STOP).unwrap(), 5);
    soon(&watch, true);
    assert_ne!(state(parent.pid()), b'T');
    assert_eq!(watch.tree().signal(Signal::CONT).unwrap(), 5);
    soon(&watch, false);
    assert_eq!(watch.tree().signal(Signal::KILL).unwrap(), 5);
    let (sample, pause) = watch.look(Duration::from_millis(20)).unwrap();
    assert!(sample.tasks >= 1);
    assert!((SOONEST..=LATEST).contains(&pause));
}

#[test]
fn segments_are_summed_from_the_columns_that_say_what_they_take() {
    let head = "       key      shmid perms                  size  cpid  lpid nattch   uid   gid  cuid  \
                cgid      atime      dtime      ctime                   rss                  swap\n";
    let line = |rss: &str, swap: &str| {
        format!(
            "         0          0  1600               8388608    12    12      0  1000  1000  1000  \
             1000 1763261000 1763261000 1763261000 {rss} {swap}\n"
        )
    };
    for (case, list, want) in [
        ("nothing", String::new(), 0),
        ("none", head.to_owned(), 0),
        (
            "one",
            format!("{head}{}", line("8388608", "4096")),
            8_392_704,
        ),
        (
            "two, and one that was cut short",
            format!("{head}{0}{0}         0          0  16", line("1", "0")),
            2,
        ),
        (
            "more than there can be",
            format!("{head}{0}{0}", line("18446744073709551615", "1")),
            u64::MAX,
        ),
    ] {
        assert_eq!(resident(list.as_bytes()), want, "{case}");
    }
}
