//! Opening: by whatever path, the file's own path decides.

use super::{Scenario, Setting, denied, fails, run, run_as};
use crate::linux::sys::notify::open_address;
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, fcntl_getfl, linkat, mknodat, openat,
    openat2, unlinkat,
};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit, umask};
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

pub(super) const SCENARIOS: &[(&str, Scenario)] = &[
    ("reading", reading),
    ("writing", writing),
    ("relative", relative),
    ("processes", processes),
    ("creating", creating),
    ("unnamed", unnamed),
    ("openat2", strict),
    ("fifos", fifos),
    ("semantics", semantics),
    ("devices", devices),
    ("terminal", terminal),
    ("identity", identity),
    ("memory", memory),
    ("apart", apart),
    ("abandoned", abandoned),
];

fn read(path: impl AsRef<Path>) -> std::io::Result<String> {
    fs::read_to_string(path)
}

fn reading(directory: &Path) {
    assert_eq!(read(directory.join("plain.txt")).unwrap(), "plain");
    assert_eq!(read(directory.join("to-plain")).unwrap(), "plain");
    assert_eq!(read(directory.join("fixed.txt")).unwrap(), "fixed");
    for name in [
        "secret.txt",
        "./open/..//secret.txt",
        "to-secret",
        "chain-1/key",
        "chain-1/../vault/key",
        "vault/key",
        "vault",
        "vault/",
        "project/.env",
        "deep/a/key",
    ] {
        denied(File::open(directory.join(name)));
    }
    // A denied directory is not listed, and one that holds something denied is.
    denied(fs::read_dir(directory.join("vault")));
    let names = fs::read_dir(directory.join("project")).unwrap().count();
    assert_eq!(names, 1);
    // Metadata stays.
    assert_eq!(fs::metadata(directory.join("secret.txt")).unwrap().len(), 6);
    fails(File::open(directory.join("missing")), Errno::NOENT);
    fails(File::open(directory.join("plain.txt/x")), Errno::NOTDIR);
    fails(File::open(directory.join("plain.txt/")), Errno::NOTDIR);
    fails(File::open(directory.join("loop")), Errno::LOOP);
    fails(
        File::open(directory.join("x".repeat(300))),
        Errno::NAMETOOLONG,
    );
    fails(File::open(""), Errno::NOENT);
    let odd = directory.join(std::ffi::OsStr::from_bytes(b"\xff\xfe\n -x"));
    fs::write(&odd, "odd").unwrap();
    assert_eq!(read(&odd).unwrap(), "odd");
}

fn writing(directory: &Path) {
    let fixed = directory.join("fixed.txt");
    denied(OpenOptions::new().append(true).open(&fixed));
    denied(OpenOptions::new().write(true).open(&fixed));
    denied(File::create(&fixed));
    let mut truncating = OpenOptions::new();
    truncating.read(true).custom_flags(libc::O_TRUNC);
    denied(truncating.open(&fixed));
    denied(File::create(directory.join("new.pinned")));
    assert_eq!(read(&fixed).unwrap(), "fixed");
    // Not through a link to it either, nor to a name not there yet.
    symlink("later.txt", directory.join("to-later")).unwrap();
    denied(File::create(directory.join("to-later")));
    denied(File::create(directory.join("later.txt")));
    denied(File::create(directory.join("open/.env")));
    denied(fs::create_dir(directory.join("open/.env")));
    denied(symlink("x", directory.join("open/.env")));
    denied(File::create(directory.join("deep/a/key")));
    assert!(!directory.join("later.txt").exists());
    fs::write(directory.join("plain.txt"), "changed").unwrap();
    assert_eq!(read(directory.join("plain.txt")).unwrap(), "changed");
}

fn relative(directory: &Path) {
    std::env::set_current_dir(directory.join("open")).unwrap();
    assert_eq!(read("other.txt").unwrap(), "other");
    assert_eq!(read("../plain.txt").unwrap(), "plain");
    denied(File::open("../secret.txt"));
    std::env::set_current_dir("../vault").unwrap();
    denied(File::open("key"));
    denied(File::open("."));
    denied(File::create("new"));
    let project = File::open(directory.join("project")).unwrap();
    let open = |name: &str| openat(&project, name, OFlags::RDONLY, Mode::empty());
    assert_eq!(open(".env").unwrap_err(), Errno::ACCESS);
    assert_eq!(open("../secret.txt").unwrap_err(), Errno::ACCESS);
    assert!(open("../plain.txt").is_ok());
    assert_eq!(open("").unwrap_err(), Errno::NOENT);
    let file = File::open(directory.join("plain.txt")).unwrap();
    let through = openat(&file, "x", OFlags::RDONLY, Mode::empty());
    assert_eq!(through.unwrap_err(), Errno::NOTDIR);
    // A bare descriptor of a denied directory leads nowhere.
    let bare = OFlags::PATH | OFlags::CLOEXEC;
    let vault = rustix::fs::open(directory.join("vault"), bare, Mode::empty()).unwrap();
    let key = openat(&vault, "key", OFlags::RDONLY, Mode::empty());
    assert_eq!(key.unwrap_err(), Errno::ACCESS);
    let again = format!("/proc/self/fd/{}", vault.as_raw_fd());
    denied(File::open(again));
    let gone = directory.join("gone");
    fs::create_dir(&gone).unwrap();
    std::env::set_current_dir(&gone).unwrap();
    fs::remove_dir(&gone).unwrap();
    fails(File::open("x"), Errno::NOENT);
    fails(File::create("x"), Errno::NOENT);
}

fn processes(directory: &Path) {
    std::env::set_current_dir(directory).unwrap();
    let inside = directory.strip_prefix("/").unwrap();
    assert_eq!(read("/proc/self/cwd/plain.txt").unwrap(), "plain");
    assert_eq!(read("/proc/thread-self/cwd/plain.txt").unwrap(), "plain");
    for root in ["/proc/self/root", "/proc/thread-self/root"] {
        let path = Path::new(root).join(inside);
        assert_eq!(read(path.join("plain.txt")).unwrap(), "plain");
        denied(File::open(path.join("secret.txt")));
    }
    denied(File::open("/proc/self/cwd/secret.txt"));
    let own = read("/proc/self/stat").unwrap();
    let number = std::process::id().to_string();
    assert_eq!(own.split(' ').next(), Some(number.as_str()));
    for path in ["/proc/1/environ", "/proc/1/status", "/proc/1", "/proc/1/fd"] {
        denied(File::open(path));
    }
    std::env::set_current_dir("/proc/1").unwrap();
    denied(File::open("status"));
    denied(File::open("task/1/status"));
    std::env::set_current_dir(directory).unwrap();
    let plain = File::open("plain.txt").unwrap();
    for links in ["/proc/self/fd", "/dev/fd"] {
        let link = PathBuf::from(links).join(plain.as_raw_fd().to_string());
        assert_eq!(read(link).unwrap(), "plain");
    }
    // Opened for reading, and writing is denied: no way around it by the descriptor.
    let fixed = File::open("fixed.txt").unwrap();
    let link = format!("/proc/self/fd/{}", fixed.as_raw_fd());
    denied(OpenOptions::new().write(true).open(link));
    denied(fixed.set_permissions(fs::Permissions::from_mode(0o600)));
    denied(File::open("/proc/self/ns/mnt"));
    denied(File::open("/proc/sys/kernel/hostname"));
    denied(OpenOptions::new().write(true).open("/proc/self/uid_map"));
    denied(
        OpenOptions::new()
            .write(true)
            .open("/proc/sys/kernel/hostname"),
    );
    fs::write("/proc/self/comm", "guarded").unwrap();
    symlink("/proc/self/root", "up").unwrap();
    denied(File::open(Path::new("up").join(inside).join("secret.txt")));
    let exe = fs::read("/proc/self/exe").unwrap();
    assert!(exe.starts_with(b"\x7fELF"));
    assert!(read("/proc/mounts").unwrap().contains(" / "));
}

fn creating(directory: &Path) {
    let path = directory.join("made");
    umask(Mode::from_raw_mode(0o027));
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o666)
        .open(&path);
    file.unwrap().write_all(b"made").unwrap();
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o640);
    fails(
        OpenOptions::new().write(true).create_new(true).open(&path),
        Errno::EXIST,
    );
    let mut exclusive = OpenOptions::new();
    exclusive.write(true).create_new(true);
    fails(exclusive.open(directory.join("to-plain")), Errno::EXIST);
    fails(File::create(directory), Errno::ISDIR);
    fails(File::create(directory.join("missing/x")), Errno::NOENT);
    fails(File::create(directory.join("plain.txt/x")), Errno::NOTDIR);
    let dot = format!("{}/missing/.", directory.display());
    fails(File::create(dot), Errno::NOENT);
    let slash = format!("{}/missing/", directory.display());
    fails(File::create(slash), Errno::ISDIR);
    assert!(!directory.join("missing").exists());
    symlink("through", directory.join("dangling")).unwrap();
    fs::write(directory.join("dangling"), "through").unwrap();
    assert_eq!(read(directory.join("through")).unwrap(), "through");
    let mut kept = OpenOptions::new();
    kept.read(true).custom_flags(libc::O_NOFOLLOW);
    fails(kept.open(directory.join("to-plain")), Errno::LOOP);
    fs::create_dir(directory.join("made-directory")).unwrap();
    let mode = fs::metadata(directory.join("made-directory"))
        .unwrap()
        .mode();
    assert_eq!(mode & 0o7777, 0o750);
    let uid = fs::metadata(&path).unwrap().uid();
    assert_eq!(uid, rustix::process::geteuid().as_raw());
}

fn unnamed(directory: &Path) {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let open = |name: &str| rustix::fs::open(directory.join(name), flags, Mode::RUSR);
    assert_eq!(open("vault").unwrap_err(), Errno::ACCESS);
    let file = open("open").unwrap();
    rustix::io::write(&file, b"unnamed").unwrap();
    let source = format!("/proc/self/fd/{}", file.as_raw_fd());
    let link = |name: &str| {
        let follow = AtFlags::SYMLINK_FOLLOW;
        linkat(CWD, &source, CWD, directory.join(name), follow)
    };
    assert_eq!(link("later.txt").unwrap_err(), Errno::ACCESS);
    assert_eq!(link("open/.env").unwrap_err(), Errno::ACCESS);
    link("open/named").unwrap();
    assert_eq!(read(directory.join("open/named")).unwrap(), "unnamed");
}

fn strict(directory: &Path) {
    let base = File::open(directory).unwrap();
    let open =
        |path: &str, flags, limits| openat2(&base, path, flags, Mode::empty(), limits).map(drop);
    let none = ResolveFlags::empty();
    let read_only = OFlags::RDONLY;
    let absolute = directory.join("plain.txt");
    for (path, limits, want) in [
        ("plain.txt", none, Ok(())),
        ("secret.txt", none, Err(Errno::ACCESS)),
        ("to-secret", none, Err(Errno::ACCESS)),
        ("plain.txt", ResolveFlags::BENEATH, Ok(())),
        ("secret.txt", ResolveFlags::BENEATH, Err(Errno::ACCESS)),
        ("../x", ResolveFlags::BENEATH, Err(Errno::XDEV)),
        ("open/../plain.txt", ResolveFlags::BENEATH, Ok(())),
        ("/plain.txt", ResolveFlags::IN_ROOT, Ok(())),
        ("/../secret.txt", ResolveFlags::IN_ROOT, Err(Errno::ACCESS)),
        ("to-plain", ResolveFlags::NO_SYMLINKS, Err(Errno::LOOP)),
        ("plain.txt", ResolveFlags::NO_SYMLINKS, Ok(())),
        (
            "/proc/self/cwd",
            ResolveFlags::NO_MAGICLINKS,
            Err(Errno::LOOP),
        ),
        ("/proc/uptime", ResolveFlags::NO_XDEV, Err(Errno::XDEV)),
        ("plain.txt", ResolveFlags::CACHED, Err(Errno::AGAIN)),
        (absolute.to_str().unwrap(), none, Ok(())),
    ] {
        assert_eq!(open(path, read_only, limits), want, "{path} {limits:?}");
    }
    let both = ResolveFlags::BENEATH | ResolveFlags::IN_ROOT;
    assert_eq!(open("plain.txt", read_only, both), Err(Errno::INVAL));
    let unknown = OFlags::from_bits_retain(1 << 30);
    assert_eq!(open("plain.txt", unknown, none), Err(Errno::INVAL));
    assert_eq!(open("plain.txt", OFlags::PATH, none), Err(Errno::NOSYS));
    let make = |path: &str, limits| {
        let flags = OFlags::CREATE | OFlags::WRONLY;
        openat2(&base, path, flags, Mode::RUSR | Mode::WUSR, limits).map(drop)
    };
    assert_eq!(make("open/made", ResolveFlags::BENEATH), Ok(()));
    assert!(directory.join("open/made").exists());
    let denied = make("open/.env", ResolveFlags::BENEATH);
    assert_eq!(denied, Err(Errno::ACCESS));
}

fn fifos(directory: &Path) {
    let path = directory.join("fifo");
    let fifo = |path: &Path| mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0);
    fifo(&path).unwrap();
    assert_eq!(fifo(&directory.join("later.txt")), Err(Errno::ACCESS));
    for reader_first in [true, false] {
        let (pause_read, pause_write) = if reader_first { (0, 30) } else { (30, 0) };
        let sleep = |time| std::thread::sleep(std::time::Duration::from_millis(time));
        let writer = std::thread::spawn({
            let path = path.clone();
            move || {
                sleep(pause_write);
                fs::write(path, "through").unwrap();
            }
        });
        sleep(pause_read);
        assert_eq!(read(&path).unwrap(), "through");
        writer.join().unwrap();
    }

    let mut writer = OpenOptions::new();
    writer.write(true).custom_flags(libc::O_NONBLOCK);
    fails(writer.open(&path), Errno::NXIO);
    let both = OpenOptions::new()
        .read(true)
        .write(true)
        .open(&path)
        .unwrap();
    assert!(!fcntl_getfl(&both).unwrap().contains(OFlags::NONBLOCK));

    // A writer that says nothing lets the reader in all the same.
    let reader = File::open(&path).unwrap();
    assert!(!fcntl_getfl(&reader).unwrap().contains(OFlags::NONBLOCK));

    // Ends with an opening nobody will ever meet.
    drop((reader, both));
    std::thread::spawn(move || drop(File::open(path)));
}

fn semantics(directory: &Path) {
    let path = directory.join("appended");
    fs::write(&path, "one").unwrap();
    let mut appended = OpenOptions::new()
        .append(true)
        .read(true)
        .open(&path)
        .unwrap();
    appended.rewind().unwrap();
    appended.write_all(b"two").unwrap();
    assert_eq!(read(&path).unwrap(), "onetwo");
    let close = |flags| {
        let file = rustix::fs::open(&path, flags, Mode::empty()).unwrap();
        let kept = rustix::io::fcntl_getfd(&file).unwrap();
        kept.contains(rustix::io::FdFlags::CLOEXEC)
    };
    assert!(close(OFlags::RDONLY | OFlags::CLOEXEC));
    assert!(!close(OFlags::RDONLY));
    fails(
        File::open(directory.join("open")).and_then(|mut open| open.read(&mut [0])),
        Errno::ISDIR,
    );
    fails(
        OpenOptions::new().write(true).open(directory.join("open")),
        Errno::ISDIR,
    );
    let own = File::open(&path).unwrap();
    own.lock().unwrap();
    let other = File::open(&path).unwrap();
    assert!(other.try_lock().is_err());
    drop(own);
    other.try_lock().unwrap();
    assert_eq!(File::create(&path).unwrap().metadata().unwrap().len(), 0);
    let limit = getrlimit(Resource::Nofile);
    let low = Rlimit {
        current: Some(u64::try_from(other.as_raw_fd()).unwrap() + 8),
        maximum: limit.maximum,
    };
    setrlimit(Resource::Nofile, low).unwrap();
    let mut files = Vec::new();
    let error = loop {
        match File::open(&path) {
            Ok(file) => files.push(file),
            Err(error) => break error,
        }
        assert!(files.len() < 64);
    };
    setrlimit(Resource::Nofile, limit).unwrap();
    assert_eq!(error.raw_os_error(), Some(libc::EMFILE));
}

fn devices(_: &Path) {
    let mut zero = [1; 8];
    File::open("/dev/zero")
        .unwrap()
        .read_exact(&mut zero)
        .unwrap();
    assert_eq!(zero, [0; 8]);
    File::open("/dev/urandom")
        .unwrap()
        .read_exact(&mut zero)
        .unwrap();
    fs::write("/dev/null", "x").unwrap();
    fails(fs::write("/dev/full", "x"), Errno::NOSPC);
    fails(File::open("/dev/tty"), Errno::NXIO);
}

fn terminal(_: &Path) {
    let mut terminal = OpenOptions::new().write(true).open("/dev/tty").unwrap();
    terminal.write_all(b"hello").unwrap();
}

fn identity(directory: &Path) {
    assert_eq!(read(directory.join("plain.txt")).unwrap(), "plain");
    fs::write(directory.join("mine"), "x").unwrap();
    let uid = fs::metadata(directory.join("mine")).unwrap().uid();
    assert_eq!(uid, super::SOMEBODY);
    // What only root could do is not done for somebody else.
    denied(File::open("/etc/shadow"));
    denied(File::create("/etc/made-by-a-test"));
    denied(
        OpenOptions::new()
            .write(true)
            .open("/proc/sys/kernel/core_pattern"),
    );
    fails(
        std::os::unix::fs::chown(directory.join("mine"), Some(0), None),
        Errno::PERM,
    );
}

fn apart(directory: &Path) {
    assert_eq!(read(directory.join("open/other.txt")).unwrap(), "other");
    denied(File::open(directory.join("open/.env")));
    denied(File::create(directory.join("open/x.pinned")));
    std::env::set_current_dir(directory.join("open")).unwrap();
    assert_eq!(read("other.txt").unwrap(), "other");
    assert_eq!(read("../plain.txt").unwrap(), "plain");
    denied(File::open("../secret.txt"));
    assert_ne!(std::process::id(), 1);
    assert_eq!(read("/proc/self/cwd/other.txt").unwrap(), "other");
    let status = read("/proc/self/status").unwrap();
    assert!(status.contains(&format!("\nPid:\t{}\n", std::process::id())));
    // Users are those inside: this one is the only one there is.
    fs::write("own", "x").unwrap();
    std::os::unix::fs::chown("own", Some(0), Some(0)).unwrap();
    fails(std::os::unix::fs::chown("own", Some(1), None), Errno::INVAL);
    fails(File::open("/dev/tty"), Errno::NXIO);
    // Who made the namespaces may look into what no neighbour may.
    let hidden = rustix::process::DumpableBehavior::NotDumpable;
    rustix::process::set_dumpable_behavior(hidden).unwrap();
    assert_eq!(read(directory.join("plain.txt")).unwrap(), "plain");
    assert_eq!(read("other.txt").unwrap(), "other");
    denied(File::open("../secret.txt"));
}

fn abandoned(directory: &Path) {
    let error = loop {
        if let Err(error) = File::open(directory.join("plain.txt")) {
            break error;
        }
    };
    assert_eq!(error.raw_os_error(), Some(libc::ENOSYS));
    fails(File::open(directory.join("secret.txt")), Errno::NOSYS);
}

fn memory(directory: &Path) {
    for nowhere in [0, 8, usize::MAX, usize::MAX - 4_096] {
        assert_eq!(open_address(nowhere).unwrap_err(), Errno::FAULT);
    }
    let long = format!("{}/{}", directory.display(), "a/".repeat(2_100));
    fails(File::open(long), Errno::NAMETOOLONG);
    let base = File::open(directory).unwrap();
    let missing = unlinkat(&base, "missing", AtFlags::empty());
    assert_eq!(missing, Err(Errno::NOENT));
}

#[test]
fn what_is_denied_is_not_read_by_any_name() {
    let refusals = run("reading");
    assert!(refusals.iter().any(|refusal| refusal.denial == "/**/.env"));
    let named = |name: &str| refusals.iter().any(|refusal| refusal.path.ends_with(name));
    assert!(named("secret.txt") && named("vault/key") && named("project/.env"));
}

#[test]
fn what_may_not_be_written_can_be_read_and_stays_as_it_is() {
    run("writing");
}

#[test]
fn a_relative_path_starts_where_the_process_is() {
    run("relative");
}

#[test]
fn links_of_processes_lead_to_the_asker_and_around_nothing() {
    run("processes");
}

#[test]
fn new_files_are_made_as_the_process_would_make_them() {
    run("creating");
}

#[test]
fn a_file_without_a_name_cannot_be_given_a_denied_one() {
    run("unnamed");
}

#[test]
fn the_strict_call_keeps_its_own_limits() {
    run("openat2");
}

#[test]
fn named_pipes_meet_in_either_order() {
    run("fifos");
}

#[test]
fn descriptors_are_as_the_kernel_makes_them() {
    run("semantics");
}

#[test]
fn harmless_devices_open_and_the_supervisors_terminal_does_not() {
    run("devices");
}

#[test]
fn without_its_broker_a_process_opens_nothing_and_does_not_hang() {
    run_as(
        "abandoned",
        Setting {
            abandoned: true,
            ..Setting::default()
        },
    );
}

#[test]
fn errors_of_memory_and_length_are_the_kernels() {
    run("memory");
}

#[test]
fn the_terminal_inside_is_the_one_given() {
    let flags = rustix::pty::OpenptFlags::RDWR | rustix::pty::OpenptFlags::NOCTTY;
    let master = rustix::pty::openpt(flags | rustix::pty::OpenptFlags::CLOEXEC).unwrap();
    rustix::pty::unlockpt(&master).unwrap();
    let slave = rustix::pty::ptsname(&master, Vec::new()).unwrap();
    let slave = rustix::fs::open(&*slave, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
    run_as(
        "terminal",
        Setting {
            terminal: Some(slave),
            ..Setting::default()
        },
    );
    let mut text = [0; 5];
    File::from(master).read_exact(&mut text).unwrap();
    assert_eq!(&text, b"hello");
}
