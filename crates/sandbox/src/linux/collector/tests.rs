use super::super::hold::{maker, new_id, uptime};
use super::super::limits::testing::{Actor, limits};
use super::super::limits::{Group, Process};
use super::*;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

fn registry() -> (tempfile::TempDir, Registry) {
    let outer = tempfile::tempdir().unwrap();
    let registry = Registry::open(&outer.path().join("registry")).unwrap();
    (outer, registry)
}

fn entry(id: &str) -> Entry {
    Entry {
        id: id.to_owned(),
        supervisor: Process::current().unwrap(),
        init: None,
        cgroups: Vec::new(),
        directories: vec![PathBuf::from(format!("{id}.d"))],
    }
}

fn names(registry: &Registry) -> Vec<String> {
    let entries = fs::read_dir(&registry.path).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

fn troubles(collected: &Collected) -> Vec<&str> {
    collected
        .troubles
        .iter()
        .map(|one| one.what.as_str())
        .collect()
}

#[test]
fn the_directory_is_for_its_owner_alone() {
    let outer = tempfile::tempdir().unwrap();
    let path = outer.path().join("registry");
    let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o777;
    Registry::open(&path).unwrap();
    assert_eq!(mode(), 0o700);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
    Registry::open(&path).unwrap();
    assert_eq!(mode(), 0o700);
    let link = outer.path().join("link");
    symlink(&path, &link).unwrap();
    assert!(matches!(
        Registry::open(&link),
        Err(RegistryError::Directory { .. })
    ));
    // `/proc` is root's, and root's own is someone's that is not the user `1`.
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&path, Some(1), None).unwrap();
        assert!(matches!(
            Registry::open(&path),
            Err(RegistryError::Foreign { .. })
        ));
    } else {
        let foreign = Registry::open(Path::new("/usr"));
        assert!(
            matches!(foreign, Err(RegistryError::Foreign { .. })),
            "{foreign:?}"
        );
    }
}

#[test]
fn what_lives_is_left_alone_and_what_was_cleared_is_gone() {
    let (_outer, registry) = registry();
    let mut noted = registry.note(&entry("one")).unwrap();
    fs::create_dir(registry.path.join("one.d")).unwrap();
    for round in 0..3 {
        let collected = registry.collect();
        assert_eq!(collected.alive, 1, "{round}");
        assert!(collected.removed.is_empty() && collected.troubles.is_empty());
        noted.update(&entry("one")).unwrap();
    }
    assert!(matches!(
        registry.note(&entry("one")),
        Err(RegistryError::Taken { .. })
    ));
    assert_eq!(names(&registry), ["one.d", "one.sandbox"]);
    noted.clear().unwrap();
    assert_eq!(names(&registry), ["one.d"]);
    assert_eq!(registry.collect().alive, 0);
}

#[test]
fn what_was_dropped_is_collected_once() {
    let (_outer, registry) = registry();
    let noted = registry.note(&entry("one")).unwrap();
    fs::create_dir_all(registry.path.join("one.d/deep/er")).unwrap();
    fs::write(registry.path.join("one.d/deep/file"), "x").unwrap();
    drop(noted);
    let collected = registry.collect();
    assert_eq!(collected.removed, ["one"]);
    assert_eq!(troubles(&collected), [""; 0]);
    assert_eq!(names(&registry), [""; 0]);
    assert!(registry.collect().removed.is_empty());
}

#[test]
fn only_directories_beneath_the_registry_can_be_noted() {
    let (_outer, registry) = registry();
    for path in [
        "/",
        "/etc",
        "..",
        "../x",
        "a/../../x",
        "",
        ".",
        "./x",
        "other.sandbox",
    ] {
        let mut entry = entry("one");
        entry.directories = vec![PathBuf::from(path)];
        let refused = registry.note(&entry);
        assert!(
            matches!(refused, Err(RegistryError::Outside { .. })),
            "{path}"
        );
    }
    for id in ["", "a/b", "..", "a b", "x.y"] {
        let refused = registry.note(&entry(id)).unwrap_err();
        assert!(matches!(refused, RegistryError::Id { .. }), "{id}");
        assert_eq!(
            refused.to_string(),
            format!("`{id}` is no name for a sandbox")
        );
        assert!(refused.hint().is_some());
    }
    assert_eq!(names(&registry), [""; 0]);
    let mut absolute = entry("one");
    absolute.directories = vec![registry.path.join("box/one")];
    fs::create_dir_all(&absolute.directories[0]).unwrap();
    drop(registry.note(&absolute).unwrap());
    assert_eq!(registry.collect().removed, ["one"]);
    assert_eq!(names(&registry), ["box"]);
}

fn written(id: &str, init: &str, cgroups: &str, directories: &str) -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let boot = boot.trim();
    format!(
        r#"{{"id":"{id}","boot":"{boot}","supervisor":{{"pid":1,"start_time":0}},"init":{init},"cgroups":[{cgroups}],"directories":[{directories}]}}"#
    )
}

#[test]
fn a_hostile_note_is_reported_and_does_no_harm() {
    let (outer, registry) = registry();
    let victim = outer.path().join("victim");
    fs::create_dir(&victim).unwrap();
    fs::write(victim.join("file"), "precious").unwrap();
    let group = outer.path().join("airlock-x");
    fs::create_dir(&group).unwrap();
    symlink(&victim, registry.path.join("link")).unwrap();
    let (mut actor, own) = (Actor::start("waits"), Process::current().unwrap());
    let process = |of: Process| format!(r#"{{"pid":{},"start_time":{}}}"#, of.pid, of.start_time);
    let plain = Process::of(actor.pid()).unwrap();
    let group_text = format!("{:?}", group.to_str().unwrap());
    let cases = [
        (
            "",
            "EOF while parsing a value at line 1 column 0".to_owned(),
        ),
        (
            "{",
            "EOF while parsing an object at line 1 column 1".to_owned(),
        ),
        ("\u{0}\u{1}", "expected value at line 1 column 1".to_owned()),
        (&written("y", "null", "", ""), "it is about `y`".to_owned()),
        (
            &written("x", "null", "", r#""%""#),
            "a path is broken".to_owned(),
        ),
        (&" ".repeat(70_000), "it is too long for a note".to_owned()),
        (
            &written("x", "null", "", r#""/""#),
            "`/` is not in the registry's directory".to_owned(),
        ),
        (
            &written("x", "null", "", r#""/etc""#),
            "`/etc` is not in the registry's directory".to_owned(),
        ),
        (
            &written("x", "null", "", r#""../victim""#),
            "`../victim` is not in the registry's directory".to_owned(),
        ),
        (
            &written("x", "null", "", r#""a/%2E%2E/../../victim""#),
            "`a/../../../victim` is not in the registry's directory".to_owned(),
        ),
        (
            &written("x", "null", r#""/sys/fs/cgroup/memory""#, ""),
            "`/sys/fs/cgroup/memory` is not a cgroup of this sandbox".to_owned(),
        ),
        (
            &written("x", "null", r#""/sys/fs/cgroup/airlock-y""#, ""),
            "`/sys/fs/cgroup/airlock-y` is not a cgroup of this sandbox".to_owned(),
        ),
        (
            &written("x", "null", &group_text, ""),
            format!("`{}` is not on a cgroup file system", group.display()),
        ),
        (
            &written("x", r#"{"pid":0,"start_time":0}"#, "", ""),
            "0 is no init".to_owned(),
        ),
        (
            &written("x", &process(own), "", ""),
            format!("{} is no init", own.pid),
        ),
        (
            &written("x", &process(plain), "", ""),
            format!("{} is no init of a sandbox", plain.pid),
        ),
    ];
    for (text, want) in cases {
        fs::write(registry.path.join("x.sandbox"), text).unwrap();
        let collected = registry.collect();
        assert_eq!(troubles(&collected), [want], "{text}");
        assert!(collected.removed.is_empty());
        assert_eq!(names(&registry), ["link"], "{text}");
    }
    // A link is removed, not followed; what is behind it cannot be reached.
    for (directory, is_removed) in [("link/victim", false), ("link", true)] {
        let text = written("x", "null", "", &format!("{directory:?}"));
        fs::write(registry.path.join("x.sandbox"), text).unwrap();
        let collected = registry.collect();
        assert_eq!(collected.troubles.is_empty(), is_removed, "{collected:?}");
        let _ = fs::remove_file(registry.path.join("x.sandbox"));
    }
    assert_eq!(names(&registry), [""; 0]);
    assert_eq!(fs::read(victim.join("file")).unwrap(), b"precious");
    assert!(group.is_dir());
    assert!(actor.is_running());
}

#[test]
fn what_is_no_file_is_reported_and_does_not_block() {
    let (outer, registry) = registry();
    let victim = outer.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    symlink(&victim, registry.path.join("a.sandbox")).unwrap();
    let mode = Mode::RUSR | Mode::WUSR;
    rustix::fs::mkfifoat(rustix::fs::CWD, registry.path.join("b.sandbox"), mode).unwrap();
    fs::create_dir(registry.path.join("c.sandbox")).unwrap();
    let raw = std::ffi::OsStr::from_bytes(b"\xff\xfe.sandbox");
    fs::write(registry.path.join(raw), "x").unwrap();
    let collected = registry.collect();
    assert_eq!(collected.troubles.len(), 5, "{collected:?}");
    // A directory is not a note, and not ours to remove.
    assert_eq!(names(&registry), ["c.sandbox"]);
    assert_eq!(fs::read(&victim).unwrap(), b"precious");
}

#[test]
fn what_a_sandbox_made_of_its_directory_is_removed_without_leaving_it() {
    let (outer, registry) = registry();
    let victim = outer.path().join("victim");
    fs::create_dir(&victim).unwrap();
    fs::write(victim.join("file"), "precious").unwrap();
    let noted = registry.note(&entry("one")).unwrap();
    let own = registry.path.join("one.d");
    fs::create_dir_all(own.join("a/b")).unwrap();
    symlink(&victim, own.join("a/link")).unwrap();
    symlink("../..", own.join("a/b/up")).unwrap();
    fs::create_dir(own.join("locked")).unwrap();
    fs::write(own.join("locked/file"), "x").unwrap();
    fs::set_permissions(own.join("locked"), fs::Permissions::from_mode(0o000)).unwrap();
    // Deeper than any path can say, and than there are descriptors.
    let mut at = rustix::fs::open(&own, OFlags::PATH, Mode::empty()).unwrap();
    for _ in 0..1_500 {
        rustix::fs::mkdirat(&at, "deep", Mode::RWXU).unwrap();
        at = rustix::fs::openat(&at, "deep", OFlags::PATH, Mode::empty()).unwrap();
    }
    drop(noted);
    let collected = registry.collect();
    assert_eq!(troubles(&collected), [""; 0]);
    assert_eq!(names(&registry), [""; 0]);
    assert_eq!(fs::read(victim.join("file")).unwrap(), b"precious");
}

#[test]
fn what_an_interrupted_removal_or_note_left_is_removed() {
    let (_outer, registry) = registry();
    fs::create_dir_all(registry.path.join(".doomed-1-1/a/b")).unwrap();
    fs::write(registry.path.join(".draft-1-1"), "half").unwrap();
    let held = File::create(registry.path.join(".draft-2-2")).unwrap();
    flock(&held, FlockOperation::LockExclusive).unwrap();
    let collected = registry.collect();
    assert_eq!(troubles(&collected), [""; 0]);
    assert_eq!(names(&registry), [".draft-2-2"]);
}

#[test]
fn notes_and_collectors_do_not_disturb_each_other() {
    let (_outer, registry) = registry();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..200 {
                    let collected = registry.collect();
                    assert!(collected.removed.is_empty(), "{collected:?}");
                    assert!(collected.troubles.is_empty(), "{collected:?}");
                }
            });
        }
        for thread in 0..2 {
            let registry = &registry;
            scope.spawn(move || {
                for round in 0..50 {
                    let entry = entry(&format!("s{thread}-{round}"));
                    let mut noted = registry.note(&entry).unwrap();
                    noted.update(&entry).unwrap();
                    noted.update(&entry).unwrap();
                    noted.clear().unwrap();
                }
            });
        }
    });
    assert_eq!(names(&registry), [""; 0]);
}

#[test]
fn collectors_at_once_remove_everything_once() {
    let (_outer, registry) = registry();
    for number in 0..20 {
        let entry = entry(&format!("s{number}"));
        let noted = registry.note(&entry).unwrap();
        fs::create_dir_all(registry.path.join(&entry.directories[0]).join("a/b/c")).unwrap();
        drop(noted);
    }
    let removed: usize = std::thread::scope(|scope| {
        let collect = || {
            let collected = registry.collect();
            assert!(collected.troubles.is_empty(), "{collected:?}");
            collected.removed.len()
        };
        let threads: Vec<_> = (0..3).map(|_| scope.spawn(collect)).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum()
    });
    assert_eq!(removed, 20);
    assert_eq!(names(&registry), [""; 0]);
}

/// A sandbox's init as far as the collector can tell: the first of a pid namespace.
struct Init {
    parent: Child,
    process: Process,
}

impl Drop for Init {
    fn drop(&mut self) {
        let _ = self.parent.kill();
        let _ = self.parent.wait();
    }
}

fn init() -> Init {
    #[expect(clippy::disallowed_methods, reason = "a test needs a pid namespace")]
    let mut command = Command::new("unshare");
    let spawned = command
        .args([
            "--user",
            "--map-root-user",
            "--pid",
            "--fork",
            "sleep",
            "60",
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let mut init = Init {
        parent: spawned.unwrap(),
        process: Process::current().unwrap(),
    };
    let path = format!("/proc/{0}/task/{0}/children", init.parent.id());
    let begun = Instant::now();
    loop {
        let children = fs::read_to_string(&path).unwrap();
        if let Ok(pid) = children.trim().parse() {
            init.process = Process::of(pid).unwrap();
            break init;
        }
        assert!(begun.elapsed() < Duration::from_secs(10), "no child came");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn ends(child: &mut Child, within: Duration) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < within {
        if child.try_wait().unwrap().is_some() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    false
}

#[test]
fn an_init_is_killed_and_one_that_has_its_number_now_is_not() {
    let (_outer, registry) = registry();
    let mut init = init();
    let process = init.process;
    let mut reused = entry("reused");
    reused.init = Some(Process {
        start_time: process.start_time + 1,
        ..process
    });
    drop(registry.note(&reused).unwrap());
    assert_eq!(registry.collect().removed, ["reused"]);
    let mut other_run = registry.clone();
    other_run.boot = "another run of the machine".into();
    let mut entry = entry("one");
    entry.init = Some(process);
    drop(other_run.note(&entry).unwrap());
    assert_eq!(registry.collect().removed, ["one"]);
    let soon = Duration::from_millis(200);
    assert!(!ends(&mut init.parent, soon), "another was killed");

    drop(registry.note(&entry).unwrap());
    assert_eq!(registry.collect().removed, ["one"]);
    assert!(
        ends(&mut init.parent, Duration::from_secs(5)),
        "it outlived its collection"
    );
}

const HOLDER: &str = "AIRLOCK_TEST_REGISTRY";

/// A supervisor that lives until it is killed.
fn hold(path: &Path) -> ! {
    let registry = Registry::open(path).unwrap();
    let id = format!("held-{}", std::process::id());
    let mut entry = entry(&id);
    let mut noted = registry.note(&entry).unwrap();
    fs::create_dir(registry.path.join(&entry.directories[0])).unwrap();
    let (group, _, _) = Group::create(&id, &limits());
    let init = init();
    if let Some(group) = &group {
        entry.cgroups = group.directories().to_vec();
        group.add(init.process.pid).unwrap();
    }
    entry.init = Some(init.process);
    noted.update(&entry).unwrap();
    fs::write(registry.path.join("ready"), init.process.pid.to_string()).unwrap();
    std::thread::sleep(Duration::from_mins(1));
    panic!("nobody killed it");
}

#[test]
fn what_a_killed_supervisor_left_is_gone_after_collection() {
    #[expect(clippy::disallowed_methods, reason = "how this test says where")]
    let held = std::env::var_os(HOLDER);
    if let Some(path) = held {
        hold(Path::new(&path));
    }
    let (_outer, registry) = registry();
    #[expect(clippy::disallowed_methods, reason = "a test needs a process to kill")]
    let mut command = Command::new(std::env::current_exe().unwrap());
    let name = "linux::collector::tests::what_a_killed_supervisor_left_is_gone_after_collection";
    let mut holder = command
        .args(["--exact", name])
        .env(HOLDER, &registry.path)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let ready = registry.path.join("ready");
    let begun = Instant::now();
    let pid: u32 = loop {
        let text = fs::read_to_string(&ready).unwrap_or_default();
        if let Ok(pid) = text.parse() {
            break pid;
        }
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "it never held anything"
        );
        assert!(holder.try_wait().unwrap().is_none(), "it failed");
        std::thread::sleep(Duration::from_millis(5));
    };
    let init = Process::of(pid).unwrap();
    let note = fs::read(registry.path.join(format!("held-{}.sandbox", holder.id()))).unwrap();
    let (entry, _) = Entry::from_text(&note).unwrap();
    assert_eq!(entry.supervisor.pid, holder.id());
    assert_eq!(registry.collect().alive, 1);
    assert_eq!(Process::of(pid).unwrap(), init);

    holder.kill().unwrap();
    holder.wait().unwrap();
    let collected = registry.collect();
    assert_eq!(troubles(&collected), [""; 0]);
    assert_eq!(collected.removed, [entry.id]);
    let begun = Instant::now();
    while Process::of(pid).is_ok_and(|process| process == init) {
        assert!(begun.elapsed() < Duration::from_secs(5), "its init lives");
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(entry.cgroups.iter().all(|cgroup| !cgroup.exists()));
    if rustix::process::geteuid().is_root() {
        assert!(
            !entry.cgroups.is_empty(),
            "root had no cgroup to leave behind"
        );
    }
    assert_eq!(names(&registry), ["ready"]);
}

/// No process has this number: it is above the most there can be.
const NOBODY: i32 = i32::MAX;

#[test]
fn only_old_and_empty_cgroups_of_dead_supervisors_are_strays() {
    let base = tempfile::tempdir().unwrap();
    let (own, made) = (std::process::id(), uptime());
    let now = made + 600_000;
    let young = now - 30_000;
    let victim = tempfile::tempdir().unwrap();
    symlink(
        victim.path(),
        base.path().join(format!("airlock-{NOBODY}-1-9")),
    )
    .unwrap();
    let cases = [
        ("dead", format!("airlock-{NOBODY}-{made:x}-0"), false),
        ("number taken", format!("airlock-{own}-1-0"), false),
        ("not empty", format!("airlock-{NOBODY}-1-0/inner"), true),
        ("alive", format!("airlock-{own}-{made:x}-7"), true),
        ("young", format!("airlock-{NOBODY}-{young:x}-0"), true),
        ("to come", format!("airlock-{NOBODY}-{:x}-0", now + 1), true),
        ("no process", "airlock-0-1-0".to_owned(), true),
        ("too large", format!("airlock-{}-1-0", u32::MAX), true),
        ("short", format!("airlock-{NOBODY}-1"), true),
        ("long", format!("airlock-{NOBODY}-1-0-0"), true),
        ("no time", format!("airlock-{NOBODY}-x-0"), true),
        ("a leaf", "airlock-supervisor".to_owned(), true),
        ("another's", format!("other-{NOBODY}-1-0"), true),
    ];
    for (_, name, _) in &cases {
        fs::create_dir_all(base.path().join(name)).unwrap();
    }
    strays::remove_strays_in(base.path(), now);
    for (case, name, stays) in &cases {
        assert_eq!(base.path().join(name).exists(), *stays, "{case}");
    }
    assert!(victim.path().exists(), "a link was followed");
    strays::remove_strays_in(&base.path().join("none"), now);
}

#[test]
fn a_stray_goes_whichever_version_it_is_of() {
    // The last number keeps tests apart that run at once.
    let id = format!("{NOBODY}-1-{}", std::process::id());
    let (group, _, _) = Group::create(&id, &limits());
    // A machine that was started just now is taken for older.
    let now = uptime().max(600_000);
    for base in Group::bases() {
        strays::remove_strays_in(base, now);
    }
    let left = group.iter().flat_map(Group::directories);
    assert_eq!(left.filter(|one| one.exists()).count(), 0);
}

#[test]
fn the_name_of_a_sandbox_says_whose_it_is() {
    let before = uptime();
    let (pid, made) = maker(&new_id()).unwrap();
    assert_eq!(pid, std::process::id());
    assert!((before..=uptime()).contains(&made));
}
