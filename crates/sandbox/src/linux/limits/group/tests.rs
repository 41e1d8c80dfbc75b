use super::super::testing::{Actor, MIB, limits};
use super::*;
use std::os::unix::process::ExitStatusExt;

const V1: &str = "\
31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
37 31 0:34 / /sys/fs/cgroup/freezer rw,relatime - cgroup cgroup rw,freezer
38 31 0:35 / /sys/fs/cgroup/blkio rw,relatime - cgroup cgroup rw,blkio
39 31 0:36 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,xattr,name=systemd
";
const V2: &str = "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";
const V1_OWN: &str = "9:name=systemd:/\n8:pids:/\n6:freezer:/box\n4:memory:/one/two\n\
                      2:cpu,cpuacct:/a:b\n";
const V2_OWN: &str = "0::/user.slice/app.scope\n";

fn directories(cgroup: &str, mountinfo: &str) -> Vec<String> {
    let (places, _) = layout::places(cgroup.as_bytes(), mountinfo.as_bytes());
    let shown = |place: &Place| place.directory.display().to_string();
    places.iter().map(shown).collect()
}

#[test]
fn our_own_cgroups_are_found_in_every_layout() {
    let v1 = [
        "/sys/fs/cgroup/cpu,cpuacct/a:b",
        "/sys/fs/cgroup/memory/one/two",
        "/sys/fs/cgroup/freezer/box",
        "/sys/fs/cgroup/pids",
    ];
    let v2 = ["/sys/fs/cgroup/unified/user.slice/app.scope"];
    assert_eq!(directories(V1_OWN, V1), v1);
    assert_eq!(directories(V2_OWN, V2), v2);
    let both = directories(&(V1_OWN.to_owned() + V2_OWN), &(V1.to_owned() + V2));
    assert_eq!(both, [&v1[..], &v2[..]].concat());
}

#[test]
fn what_is_not_there_or_not_ours_is_said() {
    for (case, cgroup, mountinfo, want) in [
        (
            "nothing mounted",
            V2_OWN,
            "",
            "no cgroup file system is mounted",
        ),
        ("nothing at all", "", "", "no cgroup file system is mounted"),
        (
            "outside the namespace",
            "0::/../../host\n",
            V2,
            "our cgroup `/../../host` is not under what is mounted at `/sys/fs/cgroup/unified`",
        ),
        (
            "another container's",
            "0::/docker/one\n",
            "1 2 0:3 /docker/two /c rw - cgroup2 c rw\n",
            "our cgroup `/docker/one` is not under what is mounted at `/c`",
        ),
    ] {
        let (places, why_not) = layout::places(cgroup.as_bytes(), mountinfo.as_bytes());
        assert_eq!(
            (places, why_not),
            (Vec::new(), vec![want.to_owned()]),
            "{case}"
        );
    }
}

#[test]
fn names_are_data() {
    for (case, cgroup, mountinfo, want) in [
        (
            "a container without a namespace",
            "0::/docker/abc/x\n",
            "1 2 0:3 /docker/abc /sys/fs/cgroup ro - cgroup2 c rw\n",
            "/sys/fs/cgroup/x",
        ),
        (
            "spaces, newlines and backslashes",
            "0::/a b\n",
            "1 2 0:3 / /mnt/a\\040b\\012c\\134d rw - cgroup2 c rw\n",
            "/mnt/a b\nc\\d/a b",
        ),
        (
            "a mount point that looks like the end of the options",
            "0::/x\n",
            "1 2 0:3 / /mnt/-\\040cgroup2 rw master:1 - cgroup2 c rw\n",
            "/mnt/- cgroup2/x",
        ),
        (
            "mounted twice",
            "0::/x\n",
            "1 2 0:3 / /one rw - cgroup2 c rw\n1 2 0:3 / /two rw - cgroup2 c rw\n",
            "/one/x",
        ),
    ] {
        assert_eq!(directories(cgroup, mountinfo), [want], "{case}");
    }
}

/// A cgroup of version 2 as files.
fn fake(directory: &Path, controllers: &str, subtree: &str) {
    fs::create_dir_all(directory).unwrap();
    for (file, text) in [
        ("cgroup.controllers", controllers),
        ("cgroup.subtree_control", subtree),
        ("cgroup.procs", "1\n2\n"),
        ("cgroup.type", "domain\n"),
    ] {
        fs::write(directory.join(file), text).unwrap();
    }
}

fn place(mount: &Path, own: &str) -> Place {
    Place {
        version: Version::Two,
        mount: mount.to_owned(),
        directory: mount.join(own),
        controllers: Vec::new(),
    }
}

#[test]
fn in_version_2_the_nearest_that_gives_all_controllers_is_taken() {
    let root = tempfile::tempdir().unwrap();
    let mount = root.path();
    let all = "cpu memory pids";
    fake(mount, all, all);
    fake(&mount.join("user"), all, all);
    fake(&mount.join("user/app"), all, "memory");
    fake(&mount.join("user/app/own"), "memory", "");
    let (base, why_not) = unified::base(&place(mount, "user/app/own"), 3);
    let base = base.unwrap();
    assert_eq!(base.directory, mount.join("user"), "{why_not:?}");
    assert_eq!(base.controllers.len(), 3);
    // Ours was asked to give what it has; what is above was left alone.
    let read = |own: &str| fs::read_to_string(mount.join(own).join("cgroup.subtree_control"));
    assert_eq!(read("user/app/own").unwrap(), "+memory");
    assert_eq!(read("user/app").unwrap(), "memory");
}

#[test]
fn in_version_2_a_leaf_is_stepped_into_with_children_and_with_nobody_else() {
    let root = tempfile::tempdir().unwrap();
    fake(root.path(), "memory", "");
    let leaf = root.path().join(unified::LEAF);
    fs::create_dir(&leaf).unwrap();
    fs::write(leaf.join("cgroup.procs"), "").unwrap();
    let own = std::process::id();
    let child = Actor::start("idle");
    for (case, procs, want) in [
        ("alone", format!("{own}\n"), true),
        ("with a child", format!("{own}\n{}\n", child.pid()), true),
        ("with a stranger", format!("{own}\n1\n"), false),
        ("elsewhere", format!("{}\n", child.pid()), false),
    ] {
        fs::write(root.path().join("cgroup.procs"), procs).unwrap();
        let stepped = unified::step_into_leaf(root.path(), own).unwrap();
        assert_eq!(stepped, want, "{case}");
    }
}

#[test]
fn in_version_2_nothing_is_taken_that_is_for_threads_or_above_the_mount() {
    let root = tempfile::tempdir().unwrap();
    fake(root.path(), "cpu memory pids", "cpu memory pids");
    let mount = root.path().join("mount");
    fake(&mount.join("own"), "", "");
    fs::write(mount.join("own/cgroup.type"), "threaded\n").unwrap();
    let (base, why_not) = unified::base(&place(&mount, "own"), 3);
    assert_eq!(base, None);
    assert!(why_not[0].ends_with("it is for threads"), "{why_not:?}");
    // The mount point itself has no files of a cgroup here.
    assert_eq!(why_not.len(), 2, "{why_not:?}");
}

#[test]
fn a_version_2_that_limits_nothing_gives_way_to_a_freezer_and_to_nothing_else() {
    let there = tempfile::tempdir().unwrap();
    let base = |version, controller: Option<Controller>, directory: &Path| Base {
        version,
        directory: directory.to_owned(),
        controllers: controller.into_iter().collect(),
    };
    let missing = there.path().join("missing");
    let (freezer, memory) = (Some(Controller::Freezer), Some(Controller::Memory));
    for (case, two, one, place, want) in [
        ("a freezer", None, freezer, there.path(), 1),
        ("no freezer", None, memory, there.path(), 2),
        ("it limits memory", memory, freezer, there.path(), 2),
        ("a freezer of others", None, freezer, &missing, 2),
    ] {
        let mut bases = vec![
            base(Version::Two, two, there.path()),
            base(Version::One, one, place),
        ];
        leave_out_idle(&mut bases);
        assert_eq!(bases.len(), want, "{case}");
        assert!(bases.iter().any(|base| base.version == Version::One));
    }
}

#[test]
fn each_version_is_told_its_limits_in_its_own_words() {
    for (version, controller, files, how) in [
        (
            Version::Two,
            Controller::Memory,
            &[
                ("memory.max", "67108864"),
                ("memory.swap.max", "0"),
                ("memory.oom.group", "1"),
            ][..],
            "cgroup v2",
        ),
        (
            Version::Two,
            Controller::Memory,
            &[("memory.max", "67108864"), ("memory.oom.group", "1")],
            "cgroup v2, swap is not limited",
        ),
        (
            Version::Two,
            Controller::Cpu,
            &[("cpu.max", "50000 100000")],
            "cgroup v2",
        ),
        (
            Version::Two,
            Controller::Pids,
            &[("pids.max", "21")],
            "cgroup v2",
        ),
        (
            Version::One,
            Controller::Memory,
            &[
                ("memory.limit_in_bytes", "67108864"),
                ("memory.memsw.limit_in_bytes", "67108864"),
                ("memory.swappiness", "0"),
            ],
            "cgroup v1",
        ),
        (
            Version::One,
            Controller::Cpu,
            &[
                ("cpu.cfs_period_us", "100000"),
                ("cpu.cfs_quota_us", "50000"),
            ],
            "cgroup v1",
        ),
    ] {
        let directory = tempfile::tempdir().unwrap();
        for (file, _) in files {
            fs::write(directory.path().join(file), "").unwrap();
        }
        let held = settings::apply(directory.path(), version, controller, &limits());
        assert_eq!(held.unwrap().unwrap().1.how, how);
        for (file, value) in files {
            let written = fs::read_to_string(directory.path().join(file)).unwrap();
            assert_eq!(written, *value, "{file}");
        }
    }
    let empty = tempfile::tempdir().unwrap();
    let reason = settings::apply(empty.path(), Version::Two, Controller::Pids, &limits());
    assert!(reason.unwrap_err().starts_with("`pids.max` of "));
}

#[test]
fn no_identifier_leads_elsewhere() {
    let root = tempfile::tempdir().unwrap();
    let cgroups = Cgroups {
        bases: vec![Base {
            version: Version::Two,
            directory: root.path().to_owned(),
            controllers: Vec::new(),
        }],
        why_not: Vec::new(),
    };
    for id in [
        "",
        "/../x",
        "a/b",
        "..",
        "a b",
        "a\n",
        "\u{e4}",
        &"x".repeat(65),
    ] {
        let (group, holds, why_not) = Group::create_in(&cgroups, id, &limits());
        assert!(group.is_none() && holds.is_empty(), "{id}");
        assert_eq!(why_not, [format!("`{id}` is no name for a cgroup")]);
    }
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
}

/// A group for a test, or nothing where this user can have none and was told why.
fn real(cgroups: &Cgroups, name: &str) -> Option<(Removed, BTreeMap<Limit, Held>)> {
    let id = format!("test-{name}-{}", std::process::id());
    let (group, holds, why_not) = Group::create_in(cgroups, &id, &limits());
    if group.is_none() {
        let root = rustix::process::geteuid().is_root();
        assert!(!root, "root can have no cgroup: {why_not:?}");
        assert!(!why_not.is_empty(), "no cgroup, and no reason");
        assert!(holds.is_empty());
    }
    group.map(|group| (Removed(group), holds))
}

/// Whether there is something to show; a user's own group may lack the controller, root's may not.
fn is_held(holds: &BTreeMap<Limit, Held>, limit: Limit) -> bool {
    let held = holds.contains_key(&limit);
    assert!(
        held || !rustix::process::geteuid().is_root(),
        "{limit} is not held"
    );
    held
}

/// Nothing is left of a group, also when its test fails.
struct Removed(Group);

impl Drop for Removed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.remove();
    }
}

#[test]
fn a_group_is_made_or_the_reasons_are_given() {
    let begun = Instant::now();
    let cgroups = Cgroups::detect();
    let detected = begun.elapsed();
    let begun = Instant::now();
    let Some((group, holds)) = real(&cgroups, "made") else {
        return;
    };
    let made = begun.elapsed();
    assert!(group.0.directories().iter().all(|one| one.is_dir()));
    if rustix::process::geteuid().is_root() {
        let held: Vec<Limit> = holds.keys().copied().collect();
        assert_eq!(held, [Limit::Memory, Limit::Cpus, Limit::Pids]);
    }
    // On the way of every start; a hundredth of this when nothing else runs.
    assert!(
        made + detected < Duration::from_millis(100),
        "{made:?} {detected:?}"
    );
    group.0.remove().unwrap();
    assert!(group.0.directories().iter().all(|one| !one.exists()));
    group.0.remove().unwrap();
}

#[test]
fn a_hog_is_killed_by_the_kernel_and_tallied() {
    let Some((group, holds)) = real(&Cgroups::detect(), "hog") else {
        return;
    };
    if !is_held(&holds, Limit::Memory) {
        return;
    }
    let mut hog = Actor::start("grows by 256 MiB");
    group.0.add(hog.pid()).unwrap();
    assert_eq!(group.0.tally().oom_kills, 0);
    assert!(!hog.step(), "it had four times its limit");
    assert_eq!(hog.wait().signal(), Some(9));
    let tally = group.0.tally();
    assert_eq!(tally.oom_kills, 1);
    assert!(
        group
            .0
            .peak_memory()
            .is_none_or(|peak| peak > 60 * MIB && peak <= 64 * MIB)
    );
}

#[test]
fn one_thread_too_many_is_refused_and_tallied() {
    let Some((group, holds)) = real(&Cgroups::detect(), "many") else {
        return;
    };
    if !is_held(&holds, Limit::Pids) {
        return;
    }
    let mut actor = Actor::start("threads until refused");
    group.0.add(actor.pid()).unwrap();
    assert!(actor.step(), "a refusal kills nobody");
    assert!(group.0.tally().pids_refused >= 1);
    let text = fs::read_to_string(format!("/proc/{}/stat", actor.pid())).unwrap();
    let stat = super::super::proc::Stat::parse(text.as_bytes()).unwrap();
    assert_eq!(stat.threads, u64::from(limits().pids) + 1);
}

fn ticks(actor: &Actor) -> u64 {
    let text = fs::read(format!("/proc/{}/stat", actor.pid())).unwrap();
    super::super::proc::Stat::parse(&text).unwrap().own
}

fn freezes_and_kills(cgroups: &Cgroups, name: &str) {
    let Some((group, _)) = real(cgroups, name) else {
        return;
    };
    let mut actors: Vec<Actor> = (0..4).map(|_| Actor::start("works")).collect();
    for actor in &actors {
        group.0.add(actor.pid()).unwrap();
    }
    assert!(group.0.freeze(true).unwrap());
    let actor = &mut actors[0];
    let before = ticks(actor);
    actor.go();
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(ticks(actor), before, "it works while it is to stand still");
    assert!(group.0.freeze(false).unwrap());
    assert!(actor.step(), "it goes on");
    assert!(ticks(actor) > before);
    // Also while everything stands still.
    assert!(group.0.freeze(true).unwrap());
    group.0.kill().unwrap();
    for actor in &mut actors {
        assert_eq!(actor.wait().signal(), Some(9));
    }
    group.0.kill().unwrap();
    group.0.remove().unwrap();
    assert!(group.0.add(std::process::id()).is_err());
}

#[test]
fn a_group_is_frozen_thawed_and_killed() {
    freezes_and_kills(&Cgroups::detect(), "two");
}

#[test]
fn without_version_2_a_group_is_still_frozen_thawed_and_killed() {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let one: Vec<&str> = mounts
        .lines()
        .filter(|line| !line.contains(" - cgroup2 "))
        .collect();
    let cgroup = fs::read("/proc/self/cgroup").unwrap();
    let (places, _) = layout::places(&cgroup, one.join("\n").as_bytes());
    if places
        .iter()
        .any(|place| place.controllers.contains(&Controller::Freezer))
    {
        freezes_and_kills(
            &Cgroups::from_texts(&cgroup, one.join("\n").as_bytes()),
            "one",
        );
    }
}

#[test]
fn a_group_in_use_is_removed_once_it_is_left() {
    let Some((group, _)) = real(&Cgroups::detect(), "busy") else {
        return;
    };
    let actor = Actor::start("waits");
    group.0.add(actor.pid()).unwrap();
    let leaves = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        drop(actor);
    });
    group.0.remove().unwrap();
    leaves.join().unwrap();
    assert!(group.0.directories().iter().all(|one| !one.exists()));
}
