//! Taking the host over through what root may write.
//!
//! Nothing here changes a setting: a value is written back as it was read, and what acts at the
//! first byte is only opened.

use crate::Entry;
use crate::attempt::{Arguments, Attempt};
use crate::sys::{Try, at, c_path, call, fd, in_child, mount, old, open, private_mounts, text};
use std::fs;
use std::path::Path;

pub(crate) const ATTACKS: &[Entry] = &[
    ("setting", setting),
    ("trigger", trigger),
    ("release-agent", release_agent),
    ("binary-formats", binary_formats),
    ("mount-disk", mount_disk),
    ("mount-kernel", mount_kernel),
];

/// Writes a setting back as it was.
fn rewrite(path: &Path) -> Try {
    let value = fs::read(path)?;
    let opened = open(path, libc::O_WRONLY)?;
    call(
        libc::SYS_write,
        &[fd(&opened), at(value.as_slice()), value.len()],
    )?;
    Ok(format!("wrote {}", path.display()))
}

fn setting(arguments: &Arguments, attempt: &mut Attempt) {
    for path in arguments.list("paths") {
        for prefix in ["", "/proc/self/root", "/proc/1/root"] {
            let path = format!("{prefix}{path}");
            attempt.route(format!("write {path}"), || rewrite(Path::new(&path)));
        }
        attempt.route(format!("chmod {path}"), || {
            let name = text(&path);
            let mode = fs::metadata(&path)?;
            let mode = std::os::unix::fs::PermissionsExt::mode(&mode.permissions());
            call(
                old::CHMOD,
                &[at(name.as_bytes_with_nul()), mode as usize & 0o7777],
            )?;
            Ok("changed its mode".to_owned())
        });
    }
}

/// What acts on the first byte is opened and left alone.
fn trigger(arguments: &Arguments, attempt: &mut Attempt) {
    for path in arguments.list("paths") {
        for flags in [libc::O_WRONLY, libc::O_RDWR, libc::O_RDONLY] {
            attempt.route(format!("openat {path} {flags}"), || {
                open(Path::new(&path), flags)?;
                Ok(format!("opened {path}"))
            });
        }
    }
}

/// The program the kernel runs as root when a cgroup empties.
fn release_agent(arguments: &Arguments, attempt: &mut Attempt) {
    for path in arguments.list("paths") {
        attempt.route(format!("write {path}"), || rewrite(Path::new(&path)));
    }
    for controller in ["memory", "pids", "rdma", "none,name=airlock-probe"] {
        attempt.route(format!("mount cgroup {controller}, release_agent"), || {
            in_child(|| {
                private_mounts()?;
                mount("none", "/tmp", "cgroup", 0, controller)?;
                rewrite(Path::new("/tmp/release_agent"))
            })
        });
    }
}

/// A handler for a kind of program that root will run sooner or later.
fn binary_formats(_: &Arguments, attempt: &mut Attempt) {
    attempt.route("openat register", || {
        open(
            Path::new("/proc/sys/fs/binfmt_misc/register"),
            libc::O_WRONLY,
        )?;
        Ok("could register a handler".to_owned())
    });
    attempt.route("mount binfmt_misc, openat register", || {
        in_child(|| {
            private_mounts()?;
            mount("none", "/tmp", "binfmt_misc", 0, "")?;
            open(Path::new("/tmp/register"), libc::O_WRONLY)?;
            Ok("could register a handler".to_owned())
        })
    });
}

/// The host's disk, mounted a second time.
fn mount_disk(arguments: &Arguments, attempt: &mut Attempt) {
    for device in arguments.list("devices") {
        for kind in ["ext4", "xfs", "btrfs"] {
            attempt.route(format!("mount {device} {kind}"), || {
                in_child(|| {
                    private_mounts()?;
                    mount(&device, "/tmp", kind, libc::MS_RDONLY, "")?;
                    Ok("mounted the host's disk".to_owned())
                })
            });
        }
    }
    attempt.route("open_tree of /", || {
        in_child(|| {
            private_mounts()?;
            let root = c_path(Path::new("/"))?;
            let clone = 1 | 0x8000;
            call(
                libc::SYS_open_tree,
                &[libc::AT_FDCWD as usize, at(root.as_bytes_with_nul()), clone],
            )?;
            Ok("has a copy of the tree of mounts".to_owned())
        })
    });
}

/// File systems through which the kernel is looked into and steered.
fn mount_kernel(_: &Arguments, attempt: &mut Attempt) {
    for kind in [
        "debugfs",
        "tracefs",
        "securityfs",
        "sysfs",
        "proc",
        "bpf",
        "mqueue",
        "devpts",
        "overlay",
        "fuse",
    ] {
        attempt.route(format!("mount {kind}"), || {
            in_child(|| {
                private_mounts()?;
                mount("none", "/tmp", kind, 0, "")?;
                Ok(format!("mounted {kind}"))
            })
        });
    }
}
