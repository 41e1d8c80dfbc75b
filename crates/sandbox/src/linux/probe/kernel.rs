//! Abilities of the kernel, each used once by a child that then ends.
//!
//! Whatever a child mounts lies in a mount namespace of its own, made private first, and ends with
//! it. Nothing of the machine changes.

use super::machine::Ability;
use crate::linux::identity::{HOST_USER, Identity};
use crate::linux::prepared::limited;
use crate::linux::program::INSIDE;
use crate::linux::{landlock, sys};
use crate::seccomp::Instruction;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MountPropagationFlags, MoveMountFlags,
    OpenTreeFlags,
};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    Signal, WaitId, WaitIdOptions, pidfd_send_signal, set_parent_process_death_signal, waitid,
};
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

/// What a child ends with that did something and was not stopped as it should have been.
const NOT_REFUSED: i32 = 254;
/// What a child ends with that was never told to begin.
const NOT_BEGUN: i32 = 255;

/// Uses `ability`, with directories beneath `scratch`: how, or what the system said.
pub(super) fn use_ability(ability: Ability, scratch: &Path) -> Result<String, String> {
    let done = match ability {
        Ability::UserNamespace => user_namespace(),
        Ability::MountNamespace => namespace(libc::CLONE_NEWNS),
        Ability::PidNamespace => namespace(libc::CLONE_NEWPID),
        Ability::NetworkNamespace => namespace(libc::CLONE_NEWNET),
        Ability::IpcNamespace => namespace(libc::CLONE_NEWIPC),
        Ability::UtsNamespace => namespace(libc::CLONE_NEWUTS),
        Ability::CgroupNamespace => namespace(libc::CLONE_NEWCGROUP),
        Ability::Proc => proc(scratch),
        Ability::MountApi => mount_api(scratch),
        Ability::Overlay => overlay(scratch),
        Ability::IdmappedMounts => idmapped(scratch),
        Ability::Landlock => return landlocked(),
        Ability::Seccomp => seccomp(),
        Ability::SeccompNotify => seccomp_notify(),
        Ability::Pidfd => pidfd(),
    };
    clear(scratch);
    let how = match ability {
        Ability::UserNamespace => "made one and became a user in it",
        Ability::MountNamespace
        | Ability::PidNamespace
        | Ability::NetworkNamespace
        | Ability::IpcNamespace
        | Ability::UtsNamespace
        | Ability::CgroupNamespace => "made one",
        Ability::Proc => "mounted one in a pid namespace",
        Ability::MountApi => "made and moved a mount by descriptor",
        Ability::Overlay => "mounted one on the state directory and wrote to it",
        Ability::IdmappedMounts => "gave a mount another owner",
        Ability::Landlock => "was refused a directory by a rule",
        Ability::Seccomp => "was refused a system call by a filter",
        Ability::SeccompNotify => "installed a filter that asks",
        Ability::Pidfd => "made a process, ended it and waited for it by descriptor",
    };
    done.map(|()| how.to_owned())
        .map_err(|error| error.to_string())
}

/// Runs `body` in a child with these namespaces, as the user a sandbox has.
///
/// `body` must not allocate: other threads and their locks are not copied with this one.
fn in_child(namespaces: i32, body: impl Fn() -> Result<(), Errno>) -> io::Result<()> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
    let child = sys::clone_process(namespaces, || {
        let _set = set_parent_process_death_signal(Some(Signal::KILL));
        let mut byte = [0];
        match rustix::io::read(&read, &mut byte) {
            Ok(1) => {}
            Ok(_) | Err(_) => return NOT_BEGUN,
        }
        match body() {
            Ok(()) => 0,
            Err(errno) => errno.raw_os_error(),
        }
    })
    .map_err(limited)?;
    let mapped = if namespaces & libc::CLONE_NEWUSER == 0 {
        Ok(())
    } else {
        Identity::own().map(child.pid)
    };
    let begun = mapped.and_then(|()| Ok(rustix::io::write(&write, &[1]).map(drop)?));
    if begun.is_err() {
        let _killed = pidfd_send_signal(&child.pidfd, Signal::KILL);
    }
    let ended = waitid(WaitId::PidFd(child.pidfd.as_fd()), WaitIdOptions::EXITED)?;
    begun?;
    match ended.and_then(|status| status.exit_status()) {
        Some(0) => Ok(()),
        Some(NOT_REFUSED) => Err(io::Error::other("nothing was refused")),
        Some(number @ 1..NOT_REFUSED) => Err(io::Error::from_raw_os_error(number)),
        Some(_) | None => Err(io::ErrorKind::Interrupted.into()),
    }
}

/// What an ordinary user needs beside other namespaces: root makes them without.
fn with_user(namespaces: i32) -> i32 {
    match Identity::own() {
        Identity::User { .. } => namespaces | libc::CLONE_NEWUSER,
        Identity::Root { .. } => namespaces,
    }
}

fn user_namespace() -> io::Result<()> {
    // Root maps another user than itself, whom its child would still have to become.
    let ordinary = matches!(Identity::own(), Identity::User { .. });
    in_child(libc::CLONE_NEWUSER, || {
        let inside = rustix::process::getuid().as_raw();
        if ordinary && inside != INSIDE {
            return Err(Errno::PERM);
        }
        Ok(())
    })
}

fn namespace(kind: i32) -> io::Result<()> {
    in_child(with_user(kind), || Ok(()))
}

/// Goes to `scratch`, from where no path needs to be said again: as part of a mount's options it
/// could be read as more options.
fn alone_at(scratch: &CString) -> Result<(), Errno> {
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    rustix::mount::mount_change(c"/", private)?;
    rustix::process::chdir(scratch.as_c_str())
}

/// Removes what was made beneath `scratch`.
fn clear(scratch: &Path) {
    // An overlay leaves a directory there that its owner may not even look into.
    let open = fs::Permissions::from_mode(0o700);
    let _opened = fs::set_permissions(scratch.join("work/work"), open);
    for name in DIRECTORIES {
        let _removed = fs::remove_dir_all(scratch.join(name));
    }
}

/// Every directory that is made beneath the scratch.
const DIRECTORIES: &[&str] = &["mount", "lower", "upper", "work"];

fn directories(scratch: &Path, names: &[&str]) -> io::Result<CString> {
    for name in names {
        match fs::create_dir(scratch.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    CString::new(scratch.as_os_str().as_bytes()).map_err(io::Error::other)
}

fn proc(scratch: &Path) -> io::Result<()> {
    let at = directories(scratch, &["mount"])?;
    in_child(with_user(libc::CLONE_NEWNS | libc::CLONE_NEWPID), || {
        alone_at(&at)?;
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        rustix::mount::mount(c"proc", c"mount", c"proc", flags, None)?;
        rustix::fs::open(c"mount/self/status", OFlags::RDONLY, Mode::empty()).map(drop)
    })
}

fn mount_api(scratch: &Path) -> io::Result<()> {
    let at = directories(scratch, &["mount"])?;
    in_child(with_user(libc::CLONE_NEWNS), || {
        alone_at(&at)?;
        let context = rustix::mount::fsopen(c"tmpfs", FsOpenFlags::empty())?;
        rustix::mount::fsconfig_create(context.as_fd())?;
        let flags = FsMountFlags::empty();
        let made = rustix::mount::fsmount(context.as_fd(), flags, MountAttrFlags::empty())?;
        let empty = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        rustix::mount::move_mount(made.as_fd(), c"", CWD, c"mount", empty)?;
        let flags = OpenTreeFlags::OPEN_TREE_CLONE;
        rustix::mount::open_tree(CWD, c"mount", flags).map(drop)
    })
}

fn overlay(scratch: &Path) -> io::Result<()> {
    let at = directories(scratch, DIRECTORIES)?;
    let options = match Identity::own() {
        Identity::User { .. } => c"lowerdir=lower,upperdir=upper,workdir=work,userxattr",
        Identity::Root { .. } => c"lowerdir=lower,upperdir=upper,workdir=work",
    };
    in_child(with_user(libc::CLONE_NEWNS), || {
        alone_at(&at)?;
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        rustix::mount::mount(c"overlay", c"mount", c"overlay", flags, options)?;
        let flags = OFlags::WRONLY | OFlags::CREATE;
        rustix::fs::open(c"mount/file", flags, Mode::RUSR | Mode::WUSR)?;
        rustix::fs::unlink(c"mount/file")
    })
}

fn idmapped(scratch: &Path) -> io::Result<()> {
    let at = directories(scratch, &["lower"])?;
    let owner = fs::metadata(scratch)?;
    let map = another_owner(owner.uid(), owner.gid())?;
    in_child(libc::CLONE_NEWNS, || {
        alone_at(&at)?;
        let tree = rustix::mount::open_tree(CWD, c"lower", OpenTreeFlags::OPEN_TREE_CLONE)?;
        sys::set_mount_attributes(tree.as_fd(), 0, Some(map.as_fd()), false)
    })
}

/// A user namespace in which files of this owner are a sandbox's.
fn another_owner(user: u32, group: u32) -> io::Result<OwnedFd> {
    let sleeper = sys::sleeper_in_user_namespace()?;
    let about = format!("/proc/{}", sleeper.pid);
    let made = (|| {
        fs::write(
            format!("{about}/gid_map"),
            format!("{group} {HOST_USER} 1\n"),
        )?;
        fs::write(
            format!("{about}/uid_map"),
            format!("{user} {HOST_USER} 1\n"),
        )?;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let namespace = format!("{about}/ns/user");
        Ok(rustix::fs::open(namespace, flags, Mode::empty())?)
    })();
    let _killed = pidfd_send_signal(&sleeper.pidfd, Signal::KILL);
    let _reaped = waitid(WaitId::PidFd(sleeper.pidfd.as_fd()), WaitIdOptions::EXITED);
    made
}

fn landlocked() -> Result<String, String> {
    let version = sys::landlock_version();
    if version == 0 {
        return Err("the kernel has none, or has it turned off".to_owned());
    }
    let ruleset = landlock::ruleset(version);
    let tried = in_child(0, || {
        let bytes = landlock::ruleset_bytes(version);
        let rules = sys::landlock_ruleset(&ruleset, bytes)?;
        rustix::thread::set_no_new_privs(true)?;
        sys::landlock_restrict(rules.as_fd())?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        refused(rustix::fs::open(c"/", flags, Mode::empty()).map(drop))
    });
    tried
        .map(|()| format!("version {version}; was refused a directory by a rule"))
        .map_err(|error| error.to_string())
}

/// Whether `result` is the refusal it should be.
fn refused(result: Result<(), Errno>) -> Result<(), Errno> {
    match result {
        Err(Errno::ACCESS | Errno::PERM) => Ok(()),
        Ok(()) => Err(Errno::from_raw_os_error(NOT_REFUSED)),
        Err(other) => Err(other),
    }
}

/// A filter that answers one harmless call with `answer` and allows every other.
fn filter(answer: u32) -> [Instruction; 4] {
    const LOAD: u16 = 0x20;
    const EQUAL: u16 = 0x15;
    const ANSWER: u16 = 0x06;
    const ALLOW: u32 = 0x7fff_0000;
    let row = |code, jump_false, operand| Instruction {
        code,
        jump_true: 0,
        jump_false,
        operand,
    };
    let number = u32::try_from(libc::SYS_getpgid).unwrap_or(u32::MAX);
    [
        row(LOAD, 0, 0),
        row(EQUAL, 1, number),
        row(ANSWER, 0, answer),
        row(ANSWER, 0, ALLOW),
    ]
}

fn seccomp() -> io::Result<()> {
    const REFUSE: u32 = 0x0005_0000;
    let number = u32::try_from(libc::EPERM).unwrap_or(1);
    let filter = filter(REFUSE | number);
    in_child(0, || {
        if sys::confine_process(&filter).is_err() {
            return Err(Errno::NOSYS);
        }
        refused(rustix::process::getpgid(None).map(drop))
    })
}

fn seccomp_notify() -> io::Result<()> {
    const ASK: u32 = 0x7fc0_0000;
    let filter = filter(ASK);
    in_child(0, || {
        rustix::thread::set_no_new_privs(true)?;
        sys::install_listener(&filter, 0).map(drop)
    })
}

fn pidfd() -> io::Result<()> {
    let child = sys::clone_process(0, || {
        let _set = set_parent_process_death_signal(Some(Signal::KILL));
        loop {
            rustix::event::pause();
        }
    })?;
    pidfd_send_signal(&child.pidfd, Signal::KILL)?;
    waitid(WaitId::PidFd(child.pidfd.as_fd()), WaitIdOptions::EXITED)?;
    Ok(())
}
