//! What a command finds around it.

use crate::support::{Place, command, run, sh};
use airlock_sandbox::launch::StartError;
use airlock_sandbox::lifecycle::Outcome;
use airlock_sandbox::{PlanBuilder, Wall, start};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn writes_land_in_the_stage_and_the_real_tree_stays_as_it_is() {
    let place = Place::new();
    place.write("tree/a", "old\n");
    place.write("tree/gone", "x\n");
    let mut sandbox = place.start();
    let script = "cat a; echo new > a; mkdir -p d/e; echo more > d/e/b; rm gone; cat a d/e/b; ls";
    assert_eq!(sh(&mut sandbox, script), "old\nnew\nmore\na\nd\n");
    assert_eq!(place.read("tree/a").unwrap(), "old\n");
    assert_eq!(place.read("tree/gone").unwrap(), "x\n");
    assert_eq!(place.read("tree/d/e/b"), None);
    assert_eq!(place.read("stage/upper/a").unwrap(), "new\n");
    drop(sandbox);
    // Another sandbox on the same stage goes on where this one left off.
    assert_eq!(
        sh(&mut place.start(), "cat a d/e/b; ls"),
        "new\nmore\na\nd\n"
    );
}

/// With the broker, too, which opens files in the command's stead.
#[test]
fn one_that_shows_now_shows_the_real_tree_as_it_is_by_then() {
    let place = Place::new();
    std::fs::create_dir(place.path("tree/d")).unwrap();
    for denied in [None, Some("**/.env")] {
        let deny = |plan| denied.into_iter().fold(plan, PlanBuilder::deny_pattern);
        let mut sandbox = place.start_with(deny);
        for number in 0..20 {
            let text = format!("{number}\n");
            place.write("tree/new", &text);
            std::fs::rename(place.path("tree/new"), place.path("tree/file")).unwrap();
            std::fs::create_dir(place.path("tree/other")).unwrap();
            place.write("tree/other/file", &text);
            std::fs::remove_dir_all(place.path("tree/d")).unwrap();
            std::fs::rename(place.path("tree/other"), place.path("tree/d")).unwrap();
            assert!(sandbox.shows_now(), "{denied:?}");
            assert_eq!(sh(&mut sandbox, "cat file d/file"), text.repeat(2));
        }
    }
}

/// A process in the making has copies of what the broker has open at that moment, and holds it.
#[test]
fn it_does_so_while_others_are_started() {
    let (place, other) = (Place::new(), Place::new());
    std::fs::create_dir(place.path("tree/d")).unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                drop(other.start());
            }
        });
        let guarded = || place.start_with(|plan| plan.deny_pattern("**/.env"));
        let mut sandbox = guarded();
        for number in 0..20 {
            let text = format!("{number}\n");
            std::fs::create_dir(place.path("tree/other")).unwrap();
            place.write("tree/other/file", &text);
            std::fs::remove_dir_all(place.path("tree/d")).unwrap();
            std::fs::rename(place.path("tree/other"), place.path("tree/d")).unwrap();
            // One that cannot be sure says so, and another takes its place.
            if !sandbox.shows_now() {
                sandbox = guarded();
            }
            let shown = sh(&mut sandbox, "cat d/file");
            if shown != text {
                over.store(true, Ordering::Relaxed);
            }
            assert_eq!(shown, text);
        }
        over.store(true, Ordering::Relaxed);
    });
}

/// A sandbox that is steered from elsewhere forgets ahead of its next command.
#[test]
fn what_is_forgotten_ahead_is_forgotten() {
    let place = Place::new();
    place.write("tree/file", "old\n");
    let mut sandbox = place.start();
    assert_eq!(sh(&mut sandbox, "cat file"), "old\n");
    let control = sandbox.control();
    control.forget();
    std::fs::remove_file(place.path("tree/file")).unwrap();
    assert!(sandbox.shows_now());
    assert_eq!(sh(&mut sandbox, "cat file || echo gone"), "gone\n");
    // What is left of it after its end holds nothing.
    drop(sandbox);
    control.forget();
    assert_eq!(sh(&mut place.start(), "ls"), "");
}

#[test]
fn it_is_nobody_with_nothing() {
    let place = Place::new();
    let mut sandbox = place.start();
    let script = "id -u; id -un; hostname; echo $$ | head -c1; grep -cE '^Cap...:.0+$' \
                  /proc/self/status; grep NoNewPrivs /proc/self/status; ls -A ~ /tmp /dev/shm /run; \
                  env | sort; ls /proc/self/fd | wc -l";
    let want = "1000\nairlock\nairlock\n";
    let out = sh(&mut sandbox, script);
    assert!(out.starts_with(want), "{out}");
    assert!(out.contains("5\nNoNewPrivs:\t1\n"), "{out}");
    assert!(out.contains("PATH=/usr/bin:/bin\nPWD="), "{out}");
    // Standard streams and the directory being listed.
    assert!(out.ends_with("\n4\n"), "{out}");
}

#[test]
fn the_root_is_read_only_and_other_places_are_not_there() {
    let place = Place::new();
    place.write("secret", "beside the workspace");
    let mut sandbox = place.start();
    let secret = place.path("secret");
    let home = std::env::var("HOME").unwrap_or_else(|_| "/root".to_owned());
    for (script, want) in [
        (format!("cat '{}'", secret.display()), "No such file"),
        (format!("ls -A '{home}/.ssh'"), "No such file"),
        ("touch /x".to_owned(), "Read-only file system"),
        ("touch /usr/x".to_owned(), "Read-only file system"),
        ("touch /etc/x".to_owned(), "Read-only file system"),
        ("echo 1 > /proc/sys/kernel/core_pattern".to_owned(), ""),
        ("cat /etc/shadow".to_owned(), "Permission denied"),
        ("ls /sys /boot /root".to_owned(), ""),
    ] {
        let ran = run(&mut sandbox, &command(&["sh", "-c", &script]));
        assert_ne!(ran.ended.outcome, Outcome::Exited(0), "{script}");
        assert!(ran.errors().contains(want), "{script}: {}", ran.errors());
    }
}

#[test]
fn every_wall_is_in_the_report() {
    let place = Place::new();
    let sandbox = place.start();
    for wall in Wall::ALL.iter().filter(|wall| **wall != Wall::Seatbelt) {
        assert!(sandbox.report().walls().contains_key(wall), "{wall}");
    }
}

#[test]
fn grants_are_seen_where_they_are_and_no_more_than_granted() {
    let place = Place::new();
    for name in ["read", "write", "other"] {
        std::fs::create_dir(place.path(name)).unwrap();
        place.write(&format!("{name}/file"), name);
    }
    place.write("single", "one file");
    let launch = place.launch(|plan| {
        plan.read(place.path("read"))
            .write(place.path("write"))
            .read(place.path("single"))
    });
    let mut sandbox = start(launch).unwrap();
    let shown = place.path("");
    let script = format!(
        "cd '{}'; cat read/file write/file single; echo; ls; echo x > write/new && echo wrote; \
         echo x > read/new || echo kept; echo x > single || echo kept",
        shown.display()
    );
    let out = sh(&mut sandbox, &script);
    assert_eq!(
        out,
        "readwriteone file\nread\nsingle\ntree\nwrite\nwrote\nkept\nkept\n"
    );
    assert_eq!(place.read("write/new").unwrap(), "x\n");
    let owner = |name: &str| {
        std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(place.path(name)).unwrap())
    };
    assert_eq!(owner("write/new"), owner("write/file"));
}

#[test]
fn no_program_is_left_that_runs_as_its_owner() {
    let place = Place::new();
    std::fs::create_dir(place.path("write")).unwrap();
    let mut sandbox = start(place.launch(|plan| plan.write(place.path("write")))).unwrap();
    let script = r#"
import os, ctypes
libc = ctypes.CDLL(None, use_errno=True)
open("f", "w").close()
made = []
for name, way in [
    ("chmod", lambda: os.chmod("f", 0o4755)),
    ("fchmod", lambda: os.fchmod(os.open("f", os.O_RDONLY), 0o2755)),
    ("open", lambda: os.open("g", os.O_CREAT | os.O_WRONLY, 0o4755)),
    ("tmpfile", lambda: os.open(".", os.O_TMPFILE | os.O_WRONLY, 0o4755)),
    ("mknod", lambda: os.mknod("h", 0o104755)),
]:
    try:
        way()
        made.append(name)
    except PermissionError:
        pass
how = (ctypes.c_uint64 * 3)(os.O_CREAT | os.O_WRONLY, 0o4755, 0)
if libc.syscall(437, -100, b"i", how, 24) >= 0:
    made.append("openat2")
os.chmod("f", 0o700)
os.open("j", os.O_CREAT | os.O_WRONLY, 0o600)
print(made)
"#;
    let directory = Some(airlock_sandbox::HostPath::new(place.path("write")).unwrap());
    let mut command = command(&["/usr/bin/python3", "-c", script]);
    command.directory = directory;
    let ran = run(&mut sandbox, &command);
    assert_eq!(ran.text(), "[]\n", "{}", ran.errors());
}

#[test]
fn odd_names_are_data() {
    let place = Place::new();
    let names = [
        "-rf",
        "a b",
        "new\nline",
        "*",
        "$(id)",
        "quote'\"",
        "uni\u{e9}",
        "comma,colon:",
    ];
    for name in names {
        std::fs::create_dir(place.path("tree").join(name)).unwrap();
        let odd = place.path("tree").join(name);
        let launch = place.launch(|plan| {
            plan.workspace(&odd, airlock_sandbox::View::Staged)
                .directory(&odd)
        });
        let mut sandbox = start(launch).unwrap();
        assert_eq!(
            sh(&mut sandbox, "echo x > y; cat y; basename \"$PWD\""),
            format!("x\n{name}\n")
        );
        assert!(!odd.join("y").exists());
        let _gone = std::fs::remove_file(place.path("stage/upper/y"));
    }
    let bytes = std::ffi::OsStr::from_bytes(b"bytes\xff");
    let odd = place.path("tree").join(bytes);
    std::fs::create_dir(&odd).unwrap();
    let launch = place.launch(|plan| {
        plan.workspace(&odd, airlock_sandbox::View::Staged)
            .directory(&odd)
    });
    assert_eq!(sh(&mut start(launch).unwrap(), "echo fine"), "fine\n");
}

#[test]
fn a_symlinked_workspace_is_found_under_its_own_name() {
    let place = Place::new();
    place.write("tree/a", "x\n");
    let link = place.path("link");
    symlink(place.path("tree"), &link).unwrap();
    let launch = place.launch(|plan| {
        plan.workspace(&link, airlock_sandbox::View::Staged)
            .directory(&link)
    });
    let out = sh(&mut start(launch).unwrap(), "cat a; pwd; echo y > b");
    assert_eq!(out, format!("x\n{}\n", link.display()));
    assert_eq!(place.read("stage/upper/b").unwrap(), "y\n");
}

#[test]
fn a_workspace_in_memory_works_as_well() {
    let place = Place::beneath(std::path::Path::new("/dev/shm"));
    place.write("tree/a", "x\n");
    assert_eq!(sh(&mut place.start(), "cat a; echo y > a; cat a"), "x\ny\n");
    assert_eq!(place.read("tree/a").unwrap(), "x\n");
}

#[test]
fn a_granted_path_that_is_not_there_is_an_error_with_its_name() {
    let place = Place::new();
    let missing = place.path("missing");
    let error = start(place.launch(|plan| plan.read(&missing))).unwrap_err();
    assert!(matches!(error, StartError::Step { .. }));
    assert!(
        error.to_string().contains(&missing.display().to_string()),
        "{error}"
    );
}

/// A program that may write beside a place exchanges the place for a link while a sandbox is being
/// started that may write there.
#[test]
fn a_grant_that_becomes_a_link_meanwhile_never_writes_elsewhere() {
    let place = Place::new();
    for name in ["shared", "shared/out"] {
        std::fs::create_dir(place.path(name)).unwrap();
    }
    let (out, link) = (place.path("shared/out"), place.path("shared/link"));
    symlink(place.path("tree"), &link).unwrap();
    let over = AtomicBool::new(false);
    let (mut started, mut refused) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                renameat_with(CWD, &out, CWD, &link, RenameFlags::EXCHANGE).unwrap();
            }
        });
        for _ in 0..40 {
            match start(place.launch(|plan| plan.write(&out))) {
                Ok(mut sandbox) => {
                    started += 1;
                    let script = format!("echo escaped > {}/escaped", out.display());
                    let _ran = run(&mut sandbox, &command(&["sh", "-c", &script]));
                }
                Err(_) => refused += 1,
            }
        }
        over.store(true, Ordering::Relaxed);
    });
    assert_eq!(place.read("tree/escaped"), None);
    assert!(
        started + refused == 40 && refused > 0,
        "{started} {refused}"
    );
}

#[test]
fn threads_pipes_shared_memory_locales_and_time_zones_are_as_outside() {
    let place = Place::new();
    let script = r#"
import threading, os, time, locale, multiprocessing, subprocess, socket, tempfile
from multiprocessing import shared_memory
results = []
threads = [threading.Thread(target=lambda: results.append(1)) for _ in range(20)]
[t.start() for t in threads]; [t.join() for t in threads]
assert len(results) == 20
memory = shared_memory.SharedMemory(create=True, size=100); memory.buf[0] = 7; memory.close(); memory.unlink()
read, write = os.pipe(); os.write(write, b"x"); assert os.read(read, 1) == b"x"
a, b = socket.socketpair(); a.send(b"y"); assert b.recv(1) == b"y"
os.environ["TZ"] = "America/New_York"; time.tzset(); assert time.tzname[0] == "EST", time.tzname
locale.setlocale(locale.LC_ALL, "C.UTF-8")
master, slave = os.openpty(); os.write(master, b"hi\n"); assert os.read(slave, 3) == b"hi\n"; assert os.ttyname(slave).startswith("/dev/pts/")
with multiprocessing.Pool(2) as pool: assert pool.map(abs, [-1, -2]) == [1, 2]
assert subprocess.run(["echo", "z"], capture_output=True).stdout == b"z\n"
with tempfile.NamedTemporaryFile() as f: f.write(b"1")
server = socket.socket(socket.AF_UNIX); server.bind("/tmp/s"); server.listen()
print("as outside")
"#;
    let ran = run(
        &mut place.start(),
        &command(&["/usr/bin/python3", "-c", script]),
    );
    assert_eq!(ran.text(), "as outside\n", "{}", ran.errors());
}
