//! Real processes under the real filter: each test starts this binary again, guarded.

mod apart;
mod cost;
mod names;
mod paths;
mod programs;
mod races;

use super::{Broker, Guarded, notify_filter};
use crate::launch::Refusal;
use crate::linux::sys::{install_listener, notify::WAIT_KILLABLE_RECV};
use crate::plan::{Denial, Extent, HostPath, Pattern, Target};
use crate::seccomp::Architecture;
use rustix::fs::{Mode, OFlags, open};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::fs;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const SCENARIO: &str = "BROKER_SCENARIO";
const DIRECTORY: &str = "BROKER_DIRECTORY";
/// Who the guarded process is, where root runs the tests.
const SOMEBODY: u32 = 1_879_048_192;

/// The init of namespaces apart: mounts something nobody else sees, and is not guarded itself.
const APART: &str = r#"
    mount -t tmpfs none "$BROKER_DIRECTORY/open" || exit
    echo -n other > "$BROKER_DIRECTORY/open/other.txt"
    echo -n secret > "$BROKER_DIRECTORY/open/.env"
    "$0" "$@"
"#;

/// What a guarded process does, in a directory of its own.
type Scenario = fn(&Path);

fn scenarios() -> Vec<(&'static str, Scenario)> {
    [
        paths::SCENARIOS,
        names::SCENARIOS,
        races::SCENARIOS,
        programs::SCENARIOS,
        cost::SCENARIOS,
        apart::SCENARIOS,
    ]
    .concat()
}

/// How a scenario is run.
#[derive(Default)]
struct Setting {
    identity: Option<(u32, u32)>,
    terminal: Option<OwnedFd>,
    /// Whether the process is in namespaces of its own, with a file system nobody else has.
    apart: bool,
    /// Whether the broker ends before the process does.
    abandoned: bool,
}

/// Runs a scenario under the filter; gives what was refused.
fn run(name: &str) -> Vec<Refusal> {
    run_as(name, Setting::default())
}

fn run_as(name: &str, setting: Setting) -> Vec<Refusal> {
    let directory = tempfile::tempdir().unwrap();
    let path = fs::canonicalize(directory.path()).unwrap();
    furnish(&path);
    let mut command = guarded_command(name, &path, setting.apart);
    if let Some((user, group)) = setting.identity {
        command.uid(user).gid(group);
        give(&path, user, group);
    }
    let (ours, theirs) = UnixStream::pair().unwrap();
    command
        .stdin(OwnedFd::from(theirs))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    drop(command);
    let root = receive_descriptor(ours.as_fd());
    let listener = receive_descriptor(ours.as_fd());
    let broker = Broker::start(Guarded {
        listener,
        root,
        denials: denials(&path),
        identity: setting.identity,
    })
    .unwrap();
    broker.set_terminal(setting.terminal);
    (&ours).write_all(b"g").unwrap();
    let broker = (!setting.abandoned).then_some(broker);
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{name}: {}\n{text}\n{errors}",
        output.status
    );
    for line in text.lines().filter(|line| line.starts_with("cost: ")) {
        say(line);
    }
    broker.map_or_else(Vec::new, |broker| broker.take_refusals())
}

fn say(line: &str) {
    println!("{line}");
}

#[expect(
    clippy::disallowed_methods,
    reason = "a filter can only be tested on another process"
)]
fn guarded_command(name: &str, directory: &Path, apart: bool) -> Command {
    // The link leads to the binary also where its directory is closed to somebody else.
    let mut command = if apart {
        let mut command = Command::new("unshare");
        command
            .args(["--user", "--map-root-user", "--mount", "--pid", "--fork"])
            .args(["--mount-proc", "--kill-child", "sh", "-c", APART])
            .arg(std::env::current_exe().unwrap());
        command
    } else {
        Command::new("/proc/self/exe")
    };
    command
        .args(["--exact", "linux::broker::tests::child"])
        .args(["--nocapture", "--test-threads=1"])
        .env(SCENARIO, name)
        .env(DIRECTORY, directory);
    command
}

/// The other side of the other tests: they start it by its name, with a scenario.
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "told by the environment what to do"
)]
fn child() {
    let all = scenarios();
    let names: BTreeSet<&str> = all.iter().map(|(name, _)| *name).collect();
    assert_eq!(names.len(), all.len(), "each scenario has its own name");
    let Ok(name) = std::env::var(SCENARIO) else {
        return;
    };
    let directory = PathBuf::from(std::env::var_os(DIRECTORY).unwrap());
    let (_, scenario) = all.iter().find(|(known, _)| *known == name).unwrap();
    let architecture = Architecture::find(std::env::consts::ARCH).unwrap();
    let program = notify_filter(architecture);
    rustix::thread::set_no_new_privs(true).unwrap();
    let root = open("/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap();
    send_descriptor(io::stdin().as_fd(), root.as_fd());
    let flags = u32::try_from(WAIT_KILLABLE_RECV).unwrap();
    let listener = install_listener(&program, flags).unwrap();
    send_descriptor(io::stdin().as_fd(), listener.as_fd());
    drop(listener);
    let mut go = [0];
    io::stdin().read_exact(&mut go).unwrap();
    scenario(&directory);
}

fn send_descriptor(socket: BorrowedFd<'_>, descriptor: BorrowedFd<'_>) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let descriptors = [descriptor];
    assert!(ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)));
    sendmsg(
        socket,
        &[IoSlice::new(b"l")],
        &mut ancillary,
        SendFlags::empty(),
    )
    .unwrap();
}

fn receive_descriptor(socket: BorrowedFd<'_>) -> OwnedFd {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    recvmsg(
        socket,
        &mut [IoSliceMut::new(&mut byte)],
        &mut ancillary,
        RecvFlags::CMSG_CLOEXEC,
    )
    .unwrap();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(mut descriptors) = message {
            return descriptors.next().unwrap();
        }
    }
    panic!("the guarded process sent no listener");
}

/// What every scenario finds.
fn furnish(directory: &Path) {
    for name in ["vault", "project", "open", "deep/a", "moving/a", "moving/c"] {
        fs::create_dir_all(directory.join(name)).unwrap();
    }
    for (name, content) in [
        ("plain.txt", "plain"),
        ("open/other.txt", "other"),
        ("secret.txt", "secret"),
        ("vault/key", "secret"),
        ("project/.env", "secret"),
        ("deep/a/key", "secret"),
        ("moving/a/key", "moved"),
        ("fixed.txt", "fixed"),
    ] {
        fs::write(directory.join(name), content).unwrap();
    }
    symlink("secret.txt", directory.join("to-secret")).unwrap();
    symlink("chain-2", directory.join("chain-1")).unwrap();
    symlink(directory.join("vault"), directory.join("chain-2")).unwrap();
    symlink("plain.txt", directory.join("to-plain")).unwrap();
    symlink("loop", directory.join("loop")).unwrap();
}

fn denials(directory: &Path) -> Vec<Denial> {
    let path = |name: &str| Target::Path(HostPath::new(directory.join(name)).unwrap());
    let pattern = |text: &str| Target::Pattern(Pattern::new(text, None).unwrap());
    let deep = format!("{}/deep/*/key", directory.display());
    [
        (path("secret.txt"), Extent::Everything),
        (path("vault"), Extent::Everything),
        (path("later.txt"), Extent::Everything),
        (path("moving/b/key"), Extent::Everything),
        (pattern("**/.env"), Extent::Everything),
        (pattern(&deep), Extent::Everything),
        (path("fixed.txt"), Extent::Writing),
        (pattern("**/*.pinned"), Extent::Writing),
    ]
    .into_iter()
    .map(|(target, extent)| Denial { target, extent })
    .collect()
}

fn give(path: &Path, user: u32, group: u32) {
    std::os::unix::fs::lchown(path, Some(user), Some(group)).unwrap();
    if path.is_dir() && !path.is_symlink() {
        for entry in fs::read_dir(path).unwrap() {
            give(&entry.unwrap().path(), user, group);
        }
    }
}

/// Asserts the exact error.
#[track_caller]
fn fails<T: Debug>(result: io::Result<T>, want: rustix::io::Errno) {
    let error = result.unwrap_err();
    assert_eq!(error.raw_os_error(), Some(want.raw_os_error()), "{error}");
}

#[track_caller]
fn denied<T: Debug>(result: io::Result<T>) {
    fails(result, rustix::io::Errno::ACCESS);
}

#[test]
fn the_control_reads_what_is_denied_when_nobody_guards_it() {
    let directory = tempfile::tempdir().unwrap();
    furnish(directory.path());
    for name in ["secret.txt", "to-secret", "chain-1/key", "project/.env"] {
        let content = fs::read_to_string(directory.path().join(name)).unwrap();
        assert_eq!(content, "secret", "{name}");
    }
}

#[test]
fn in_namespaces_of_its_own_a_process_is_judged_by_the_paths_it_sees() {
    let setting = || Setting {
        apart: true,
        ..Setting::default()
    };
    let refusals = run_as("apart", setting());
    let named = |name: &str| refusals.iter().any(|refusal| refusal.path.ends_with(name));
    assert!(named("open/.env"), "{refusals:?}");
    for name in ["reading", "writing", "relative", "processes", "linking"] {
        run_as(name, setting());
    }
}

#[test]
fn a_supervisor_that_is_root_acts_as_the_sandbox_and_others_cannot() {
    let identity = Some((SOMEBODY, SOMEBODY));
    if rustix::process::geteuid().is_root() {
        let setting = || Setting {
            identity,
            ..Setting::default()
        };
        run_as("identity", setting());
        run_as("reading", setting());
        run_as("processes", setting());
        run_as("renaming", setting());
    } else {
        assert!(super::identity::Powers::take(identity).is_err());
    }
}
