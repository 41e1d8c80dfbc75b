//! What a command finds around it.

use crate::support::{Place, command, run, sh, start};
use airlock_sandbox::launch::StartError;
use airlock_sandbox::lifecycle::Outcome;
use airlock_sandbox::presets::{Content, HomeEntry};
use airlock_sandbox::{HostPath, Launcher, View, Wall};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;

#[test]
fn writes_land_in_the_copy_and_the_real_tree_stays_as_it_is() {
    let place = Place::new();
    place.write("tree/a", "old\n");
    place.write("tree/gone", "x\n");
    let mut sandbox = place.start();
    let script = "cat a; echo new > a; mkdir -p d/e; echo more > d/e/b; rm gone; cat a d/e/b; ls";
    assert_eq!(sh(&mut sandbox, script), "old\nnew\nmore\na\nd\n");
    assert!(!sandbox.shows_now(), "a copy is of the tree as it was");
    // The next command of the same sandbox finds it so.
    assert_eq!(sh(&mut sandbox, "cat a d/e/b; ls"), "new\nmore\na\nd\n");
    assert_eq!(place.read("tree/a").unwrap(), "old\n");
    assert_eq!(place.read("tree/gone").unwrap(), "x\n");
    assert_eq!(place.read("tree/d/e/b"), None);
    assert_eq!(place.read("stage/copy/a").unwrap(), "new\n");
    drop(sandbox);
    let again = sh(&mut place.start(), "cat a d/e/b; ls");
    assert_eq!(again, "new\nmore\na\nd\n");
}

#[test]
fn it_is_nobody_with_nothing() {
    let place = Place::new();
    let mut sandbox = place.start();
    let script = "id -u; id -un; hostname; grep -cE '^Cap...:.0+$' /proc/self/status; \
                  grep -E 'NoNewPrivs|Seccomp:|^Groups' /proc/self/status; \
                  ls -A /home/airlock /dev/shm /run; env | sort; ls /proc/self/fd | wc -l; \
                  echo $(ps -o sid= -p $$); ulimit -c; ls -A /proc/1 | wc -l";
    let out = sh(&mut sandbox, script);
    let start = "1000\nairlock\nairlock\n5\nGroups:\t \nNoNewPrivs:\t1\nSeccomp:\t2\n";
    assert!(out.starts_with(start), "{out}");
    let empty = "/dev/shm:\n\n/home/airlock:\n\n/run:\n";
    assert!(out.contains(empty), "{out}");
    let own = format!("PATH=/usr/bin:/bin\nPWD={}\n", place.path("tree").display());
    assert!(out.contains(&own), "{out}");
    // Streams and the directory being listed; a session; no core; nothing of init.
    assert!(out.contains("\n4\n1\n0\n0\n"), "{out}");
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
        ("touch /dev/x".to_owned(), "Read-only file system"),
        ("touch /run/x".to_owned(), "Read-only file system"),
        (
            "echo 1 > /proc/sys/kernel/core_pattern".to_owned(),
            "Read-only",
        ),
        ("echo 1 > /proc/self/oom_score_adj".to_owned(), "Read-only"),
        ("cat /etc/shadow".to_owned(), "Permission denied"),
        ("cat /proc/keys".to_owned(), "Permission denied"),
        ("cat /proc/1/environ".to_owned(), "No such file"),
        ("ls /sys /boot /root".to_owned(), ""),
        ("unshare -r true".to_owned(), ""),
        ("mount -t tmpfs x /tmp".to_owned(), ""),
    ] {
        let ran = run(&mut sandbox, &command(&["sh", "-c", &script]));
        assert_ne!(ran.ended.outcome, Outcome::Exited(0), "{script}");
        assert!(ran.errors().contains(want), "{script}: {}", ran.errors());
    }
}

#[test]
fn every_wall_but_landlock_is_in_the_report() {
    let place = Place::new();
    let sandbox = place.start();
    let report = sandbox.report();
    assert_eq!(report.launcher(), Launcher::Bwrap);
    for wall in Wall::ALL {
        let missing = [Wall::Seatbelt, Wall::Landlock].contains(wall);
        assert_eq!(report.walls().contains_key(wall), !missing, "{wall}");
    }
}

#[test]
fn a_descriptor_of_the_supervisor_is_not_inherited() {
    let place = Place::new();
    let secret = tempfile::tempfile().unwrap();
    rustix::io::fcntl_setfd(&secret, rustix::io::FdFlags::empty()).unwrap();
    let out = sh(&mut place.start(), "ls /proc/self/fd | wc -l");
    // Streams and the directory being listed.
    assert_eq!(out, "4\n");
}

#[test]
fn what_is_outside_belongs_to_no_user_of_the_host() {
    let place = Place::new();
    let mut sandbox = place.start();
    sh(&mut sandbox, "touch mine");
    let found = std::fs::metadata(place.path("stage/copy/mine")).unwrap();
    let owner = std::os::unix::fs::MetadataExt::uid(&found);
    let own = rustix::process::geteuid().as_raw();
    let want = if own == 0 { 1_879_048_192 } else { own };
    assert_eq!(owner, want);
}

#[test]
fn grants_are_seen_where_they_are_and_no_more_than_granted() {
    let place = Place::new();
    for name in ["read", "other"] {
        std::fs::create_dir(place.path(name)).unwrap();
        place.write(&format!("{name}/file"), name);
    }
    place.write("single", "one file");
    let launch = place.launch(|plan| plan.read(place.path("read")).read(place.path("single")));
    let mut sandbox = start(launch).unwrap();
    let script = format!(
        "cd '{}'; cat read/file single; echo; ls; echo x > read/new || echo kept; \
         echo x > single || echo kept",
        place.path("").display()
    );
    let out = sh(&mut sandbox, &script);
    assert_eq!(out, "readone file\nread\nsingle\ntree\nkept\nkept\n");
}

#[test]
fn a_writable_grant_is_the_real_directory() {
    let place = Place::new();
    std::fs::create_dir(place.path("write")).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(place.path("write"), mode).unwrap();
    let launch = place.launch(|plan| plan.write(place.path("write")));
    let script = format!("echo x > '{}/new'", place.path("write").display());
    sh(&mut start(launch).unwrap(), &script);
    assert_eq!(place.read("write/new").unwrap(), "x\n");
}

#[test]
fn odd_names_are_data() {
    let names = [
        "-rf",
        "--bind",
        "a b",
        "new\nline",
        "*",
        "$(id)",
        "quote'\"",
        "uni\u{e9}",
        "comma,colon:",
        "back\\slash",
    ];
    for name in names {
        let place = Place::new();
        let odd = place.path("tree").join(name);
        std::fs::create_dir(&odd).unwrap();
        place.copy_of(&odd);
        let launch = place.launch(|plan| plan.workspace(&odd, View::Staged).directory(&odd));
        let mut sandbox = start(launch).unwrap();
        let out = sh(&mut sandbox, "echo x > y; cat y; basename -- \"$PWD\"");
        assert_eq!(out, format!("x\n{name}\n"));
        assert!(!odd.join("y").exists());
    }
    let place = Place::new();
    let bytes = std::ffi::OsStr::from_bytes(b"bytes\xff");
    let odd = place.path("tree").join(bytes);
    std::fs::create_dir(&odd).unwrap();
    place.copy_of(&odd);
    let launch = place.launch(|plan| plan.workspace(&odd, View::Staged).directory(&odd));
    assert_eq!(sh(&mut start(launch).unwrap(), "echo fine"), "fine\n");
}

#[test]
fn a_symlinked_workspace_is_found_under_its_own_name() {
    let place = Place::new();
    place.write("tree/a", "x\n");
    let link = place.path("link");
    symlink(place.path("tree"), &link).unwrap();
    let launch = place.launch(|plan| plan.workspace(&link, View::Staged).directory(&link));
    let out = sh(&mut start(launch).unwrap(), "cat a; pwd; echo y > b");
    assert_eq!(out, format!("x\n{}\n", link.display()));
    assert_eq!(place.read("stage/copy/b").unwrap(), "y\n");
}

#[test]
fn a_granted_path_that_is_not_there_is_an_error_with_its_name() {
    let place = Place::new();
    let missing = place.path("missing");
    let error = start(place.launch(|plan| plan.read(&missing))).unwrap_err();
    assert!(matches!(error, StartError::Step { .. }));
    let shown = missing.display().to_string();
    assert!(error.to_string().contains(&shown), "{error}");
}

#[test]
fn the_home_begins_with_what_is_put_there() {
    let place = Place::new();
    let mut launch = place.launch(|plan| plan);
    launch.home = vec![
        HomeEntry {
            at: ".cargo/config.toml".into(),
            content: Content::File("offline = true\n".to_owned()),
        },
        HomeEntry {
            at: ".cargo/bin".into(),
            content: Content::Link(HostPath::new("/usr/bin").unwrap()),
        },
    ];
    let script = "cd /home/airlock; cat .cargo/config.toml; readlink .cargo/bin; \
                  echo more >> .cargo/config.toml; touch .cargo/new; tail -n1 .cargo/config.toml";
    let mut sandbox = start(launch).unwrap();
    let out = "offline = true\n/usr/bin\nmore\n";
    assert_eq!(sh(&mut sandbox, script), out);
    // Each command has a home of its own.
    assert_eq!(sh(&mut sandbox, script), out);
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
os.environ["TZ"] = "America/New_York"; time.tzset(); assert time.tzname[0] == "EST", time.tzname
locale.setlocale(locale.LC_ALL, "C.UTF-8")
master, slave = os.openpty(); os.write(master, b"hi\n"); assert os.read(slave, 3) == b"hi\n"; assert os.ttyname(slave).startswith("/dev/pts/")
with multiprocessing.Pool(2) as pool: assert pool.map(abs, [-1, -2]) == [1, 2]
assert subprocess.run(["echo", "z"], capture_output=True).stdout == b"z\n"
with tempfile.NamedTemporaryFile() as f: f.write(b"1")
server = socket.socket(socket.AF_UNIX); server.bind("/tmp/s"); server.listen()
for family in (socket.AF_INET, socket.AF_INET6):
    try: socket.socket(family); raise SystemExit("reached the network")
    except OSError: pass
print("as outside")
"#;
    let arguments = ["/usr/bin/python3", "-c", script];
    let ran = run(&mut place.start(), &command(&arguments));
    assert_eq!(ran.text(), "as outside\n", "{}", ran.errors());
}
