//! Writing where nothing was granted. What counts is what the host finds afterwards.

use crate::Entry;
use crate::attempt::{Arguments, Attempt};
use crate::files::{below, upwards};
use crate::sys::{
    Fault, HERE, MINUS_ONE, Try, at, c_path, call, fd, in_child, is_root, mount, nothing, old,
    open, open_call, own_namespaces, private_mounts, text,
};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

pub(crate) const ATTACKS: &[Entry] = &[
    ("write-path", write_path),
    ("change-file", change_file),
    ("write-by-symlink", by_symlink),
    ("write-symlink-race", symlink_race),
    ("write-rename-race", rename_race),
    ("write-by-hard-link", by_hard_link),
    ("write-by-tmpfile", by_tmpfile),
    ("write-by-descriptor", by_descriptor),
    ("write-by-bind", by_bind),
    ("write-protected-directory", protected),
    ("remount", remount),
    ("unmount", unmount),
    ("mount-over", mount_over),
    ("make-device", make_device),
    ("make-setuid", make_setuid),
    ("overlay-attribute", overlay_attribute),
    ("overlay-whiteout", overlay_whiteout),
    ("change-owner", change_owner),
    ("stage-traps", stage_traps),
    ("move-between-grants", between_grants),
];

const TEXT: &[u8] = b"written by the probe\n";

/// Appends to a file or makes it.
fn append(path: &Path) -> Try {
    let opened = open(path, libc::O_WRONLY | libc::O_CREAT | libc::O_APPEND)?;
    call(libc::SYS_write, &[fd(&opened), at(TEXT), TEXT.len()])?;
    Ok(format!("wrote {}", path.display()))
}

fn write_path(arguments: &Arguments, attempt: &mut Attempt) {
    for path in arguments.list("paths").iter().map(PathBuf::from) {
        let shown = path.display();
        attempt.route(format!("openat {shown}"), || append(&path));
        if arguments.is("plain") {
            continue;
        }
        attempt.route("openat ../..", || append(&upwards(&path)));
        for root in ["/proc/self/root", "/proc/1/root"] {
            attempt.route(format!("openat {root}"), || append(&below(root, &path)));
        }
        attempt.route("make its directory first", || {
            fs::create_dir_all(path.parent().unwrap_or(Path::new("/")))?;
            append(&path)
        });
        attempt.route("mknodat", || {
            let name = c_path(&path)?;
            let mode = (libc::S_IFREG | 0o644) as usize;
            call(
                libc::SYS_mknodat,
                &[HERE, at(name.as_bytes_with_nul()), mode, 0],
            )?;
            Ok("made it".to_owned())
        });
    }
}

/// Everything that changes a file that is there. All of it is done; the host says what took effect.
fn change_file(arguments: &Arguments, attempt: &mut Attempt) {
    let path = arguments.path("path");
    let name = match c_path(&path) {
        Ok(name) => name,
        Err(fault) => return attempt.route("name", || Err(fault)),
    };
    let name = at(name.as_bytes_with_nul());
    let mut faults = Vec::new();
    let mut done = Vec::new();
    let mut note = |step: &'static str, result: Try| match result {
        Ok(_) => done.push(step),
        Err(fault) => faults.push((step, fault)),
    };
    note("append", append(&path));
    note(
        "chmod",
        call(old::CHMOD, &[name, 0o666]).map(|_| String::new()),
    );
    note("setxattr", {
        let key = text("user.planted");
        call(
            libc::SYS_setxattr,
            &[name, at(key.as_bytes_with_nul()), at(b"1".as_slice()), 1, 0],
        )
        .map(|_| String::new())
    });
    note("utimensat", {
        let times = [1_u64, 0, 1, 0];
        call(libc::SYS_utimensat, &[HERE, name, at(&times), 0]).map(|_| String::new())
    });
    note(
        "truncate",
        call(libc::SYS_truncate, &[name, 0]).map(|_| String::new()),
    );
    note("map and write", {
        open(&path, libc::O_RDWR).and_then(|opened| {
            let flags = libc::MAP_SHARED as usize;
            let protection = (libc::PROT_READ | libc::PROT_WRITE) as usize;
            call(
                libc::SYS_mmap,
                &[0, 4096, protection, flags, fd(&opened), 0],
            )
            .map(|_| String::new())
        })
    });
    note("fallocate", {
        open(&path, libc::O_WRONLY).and_then(|opened| {
            call(libc::SYS_fallocate, &[fd(&opened), 0, 0, 8192]).map(|_| String::new())
        })
    });
    note("rename over it", {
        let other = path.with_file_name("replacement");
        fs::write(&other, TEXT)
            .and_then(|()| fs::rename(&other, &path))
            .map(|()| String::new())
            .map_err(Fault::from)
    });
    note(
        "unlink",
        fs::remove_file(&path)
            .map(|()| String::new())
            .map_err(Fault::from),
    );
    for (step, fault) in faults {
        attempt.route(step, || Err(fault));
    }
    if !done.is_empty() {
        attempt.route("changes", || Ok(done.join(", ")));
    }
}

fn by_symlink(arguments: &Arguments, attempt: &mut Attempt) {
    let (target, workspace) = (arguments.path("path"), arguments.path("workspace"));
    for (word, to) in [
        ("an absolute symlink", target.clone()),
        ("a relative symlink", upwards(&target)),
        (
            "a symlink to a magic link",
            below("/proc/self/root", &target),
        ),
    ] {
        attempt.route(word, || {
            let link = workspace.join("out");
            let _ = fs::remove_file(&link);
            symlink(&to, &link)?;
            append(&link)
        });
    }
    attempt.route("a symlink that was there", || {
        append(&workspace.join("planted-out"))
    });
}

/// How long a race is run.
const RACE: Duration = Duration::from_millis(400);

fn race(flip: impl Fn() + Sync, act: impl Fn() -> Try) -> Try {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                flip();
            }
        });
        let until = Instant::now() + RACE;
        let mut last = nothing("NEVER");
        while Instant::now() < until {
            last = act();
        }
        stop.store(true, Ordering::Relaxed);
        last
    })
}

/// A directory of the workspace is swapped for a symlink to the outside between check and use.
fn symlink_race(arguments: &Arguments, attempt: &mut Attempt) {
    let (outside, workspace) = (arguments.path("outside"), arguments.path("workspace"));
    attempt.route("write while a directory becomes a symlink", || {
        let (door, kept) = (workspace.join("door"), workspace.join("kept"));
        fs::create_dir(&door)?;
        let flip = || {
            let _ = fs::rename(&door, &kept);
            let _ = symlink(&outside, &door);
            let _ = fs::remove_file(&door);
            let _ = fs::rename(&kept, &door);
        };
        let name = arguments.text("name");
        race(flip, || append(&door.join(&name)))
    });
}

/// A directory moves away under a walk that climbs back by `..`.
fn rename_race(arguments: &Arguments, attempt: &mut Attempt) {
    let (outside, workspace) = (arguments.path("outside"), arguments.path("workspace"));
    let name = arguments.text("name");
    attempt.route("walk `..` while a directory moves up", || {
        let (deep, shallow) = (workspace.join("a/b/c"), workspace.join("c"));
        fs::create_dir_all(&deep)?;
        let climb = Path::new("../../../..").join(outside.strip_prefix("/").unwrap_or(&outside));
        let flip = || {
            let _ = fs::rename(&deep, &shallow);
            let _ = fs::rename(&shallow, &deep);
        };
        race(flip, || append(&deep.join(&climb).join(&name)))
    });
    attempt.route("walk from /", || append(&outside.join(&name)));
}

fn by_hard_link(arguments: &Arguments, attempt: &mut Attempt) {
    let (target, workspace) = (arguments.path("path"), arguments.path("workspace"));
    for place in [workspace, PathBuf::from("/tmp"), target.with_file_name("")] {
        let link = place.join(format!("hard-{}", std::process::id()));
        attempt.route(format!("linkat into {}", place.display()), || {
            fs::hard_link(&target, &link)?;
            let result = append(&link);
            let _ = fs::remove_file(&link);
            result
        });
    }
}

/// A file without a name, given one elsewhere.
fn by_tmpfile(arguments: &Arguments, attempt: &mut Attempt) {
    let target = arguments.path("path");
    for place in arguments.list("places") {
        attempt.route(format!("O_TMPFILE in {place}, linkat"), || {
            let opened = open(Path::new(&place), libc::O_TMPFILE | libc::O_WRONLY)?;
            call(libc::SYS_write, &[fd(&opened), at(TEXT), TEXT.len()])?;
            let from = text(&format!("/proc/self/fd/{}", fd(&opened)));
            let to = c_path(&target)?;
            call(
                libc::SYS_linkat,
                &[
                    HERE,
                    at(from.as_bytes_with_nul()),
                    HERE,
                    at(to.as_bytes_with_nul()),
                    libc::AT_SYMLINK_FOLLOW as usize,
                ],
            )?;
            Ok("gave it a name outside".to_owned())
        });
    }
}

/// Through descriptors of directories and magic links.
fn by_descriptor(arguments: &Arguments, attempt: &mut Attempt) {
    let outside = arguments.path("outside");
    let name = arguments.text("name");
    attempt.route("O_PATH of the directory, openat", || {
        let directory = open(&outside, libc::O_PATH | libc::O_DIRECTORY)?;
        append(Path::new(&format!(
            "/proc/self/fd/{}/{name}",
            fd(&directory)
        )))
    });
    for process in ["1", "self", "thread-self"] {
        for link in ["cwd", "root"] {
            let base = PathBuf::from(format!("/proc/{process}/{link}"));
            attempt.route(format!("through {}", base.display()), || {
                append(&below(&base.to_string_lossy(), &outside.join(&name)))
            });
        }
    }
    for number in 0..3 {
        attempt.route(format!("through descriptor {number}"), || {
            let base = format!("/proc/self/fd/{number}/../../../../../..");
            append(&below(&base, &outside.join(&name)))
        });
    }
}

/// Mounts need a namespace in which one is root: with it, if it can be had, and without.
fn both_ways(attempt: &mut Attempt, step: &str, act: impl Fn() -> Try) {
    attempt.route(step, || {
        in_child(|| {
            // A control that is root must not change the host's mounts.
            if is_root() {
                private_mounts()?;
            }
            act()
        })
    });
    attempt.route(format!("unshare, {step}"), || {
        in_child(|| {
            own_namespaces(libc::CLONE_NEWNS)?;
            act()
        })
    });
}

fn by_bind(arguments: &Arguments, attempt: &mut Attempt) {
    let (outside, workspace) = (arguments.path("outside"), arguments.path("workspace"));
    let name = arguments.text("name");
    both_ways(attempt, "mount MS_BIND", || {
        let here = workspace.join("bound");
        fs::create_dir_all(&here)?;
        mount(
            &outside.to_string_lossy(),
            &here.to_string_lossy(),
            "",
            libc::MS_BIND,
            "",
        )?;
        append(&here.join(&name))
    });
    both_ways(attempt, "open_tree, move_mount", || {
        let here = workspace.join("bound");
        fs::create_dir_all(&here)?;
        let (from, to, empty) = (c_path(&outside)?, c_path(&here)?, text(""));
        let tree = open_call(
            libc::SYS_open_tree,
            &[HERE, at(from.as_bytes_with_nul()), 1],
        )?;
        call(
            libc::SYS_move_mount,
            &[
                fd(&tree),
                at(empty.as_bytes_with_nul()),
                HERE,
                at(to.as_bytes_with_nul()),
                4,
            ],
        )?;
        append(&here.join(&name))
    });
}

/// A directory that is visible and must not be written: by itself, by moving it, by replacing it.
fn protected(arguments: &Arguments, attempt: &mut Attempt) {
    let directory = arguments.path("directory");
    let file = directory.join(arguments.text("name"));
    let moved = directory.with_file_name("moved-away");
    attempt.route("openat", || append(&file));
    attempt.route("make the directory", || {
        fs::create_dir(&directory)?;
        append(&file)
    });
    attempt.route("rename a prepared directory there", || {
        let prepared = directory.with_file_name("prepared-directory");
        fs::create_dir_all(&prepared)?;
        append(&prepared.join(arguments.text("name")))?;
        fs::rename(&prepared, &directory)?;
        Ok("moved a directory there".to_owned())
    });
    attempt.route("a symlink there to a prepared directory", || {
        symlink("prepared-directory", &directory)?;
        Ok("made a symlink there".to_owned())
    });
    attempt.route("a new file", || append(&directory.join("new")));
    attempt.route("a new file by magic link", || {
        append(&below("/proc/self/root", &file))
    });
    attempt.route("truncate", || {
        let name = c_path(&file)?;
        call(libc::SYS_truncate, &[at(name.as_bytes_with_nul()), 0])?;
        Ok("truncated".to_owned())
    });
    attempt.route("unlink", || {
        fs::remove_file(&file)?;
        Ok("removed".to_owned())
    });
    attempt.route("rename over", || {
        let other = directory.with_file_name("prepared");
        fs::write(&other, TEXT)?;
        fs::rename(&other, &file)?;
        Ok("replaced".to_owned())
    });
    attempt.route("rename the directory", || {
        fs::rename(&directory, &moved)?;
        Ok("moved the directory away".to_owned())
    });
    attempt.route("replace the directory", || {
        fs::remove_dir_all(&directory)?;
        fs::create_dir(&directory)?;
        Ok("replaced the directory".to_owned())
    });
    attempt.route("exchange the directory", || {
        fs::create_dir_all(&moved)?;
        let (from, to) = (c_path(&moved)?, c_path(&directory)?);
        call(
            libc::SYS_renameat2,
            &[
                HERE,
                at(from.as_bytes_with_nul()),
                HERE,
                at(to.as_bytes_with_nul()),
                2,
            ],
        )?;
        Ok("exchanged the directory".to_owned())
    });
    attempt.route("hard link, write", || {
        let link = directory.with_file_name("hard");
        fs::hard_link(&file, &link)?;
        append(&link)
    });
    attempt.route("symlink, write", || {
        let link = directory.with_file_name("soft");
        symlink(&file, &link)?;
        append(&link)
    });
    attempt.route("chmod, write", || {
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o777))?;
        append(&file)
    });
    attempt.route("setxattr", || {
        let (path, key) = (c_path(&file)?, text("user.planted"));
        call(
            libc::SYS_setxattr,
            &[
                at(path.as_bytes_with_nul()),
                at(key.as_bytes_with_nul()),
                at(b"1".as_slice()),
                1,
                0,
            ],
        )?;
        Ok("set an attribute".to_owned())
    });
}

fn remount(arguments: &Arguments, attempt: &mut Attempt) {
    let path = arguments.text("path");
    both_ways(attempt, "mount MS_REMOUNT", || {
        mount(&path, &path, "", libc::MS_BIND, "")?;
        mount("", &path, "", libc::MS_REMOUNT | libc::MS_BIND, "")?;
        Ok("mounted it writable".to_owned())
    });
    both_ways(attempt, "mount MS_REMOUNT of /", || {
        mount("", "/", "", libc::MS_REMOUNT | libc::MS_BIND, "")?;
        Ok("mounted / writable".to_owned())
    });
    both_ways(attempt, "mount_setattr", || {
        let attributes: [u64; 4] = [0, 1, 0, 0];
        let name = text(&path);
        call(
            libc::SYS_mount_setattr,
            &[HERE, at(name.as_bytes_with_nul()), 0, at(&attributes), 32],
        )?;
        Ok("mounted it writable".to_owned())
    });
}

fn unmount(arguments: &Arguments, attempt: &mut Attempt) {
    for path in arguments.list("paths") {
        both_ways(attempt, &format!("umount2 {path}"), || {
            if arguments.is("mount") {
                mount("none", &path, "tmpfs", 0, "")?;
            }
            let name = text(&path);
            call(
                libc::SYS_umount2,
                &[at(name.as_bytes_with_nul()), libc::MNT_DETACH as usize],
            )?;
            Ok("took a mount away".to_owned())
        });
    }
}

fn mount_over(_: &Arguments, attempt: &mut Attempt) {
    both_ways(attempt, "mount tmpfs on /etc", || {
        mount("none", "/etc", "tmpfs", 0, "")?;
        Ok("/etc is the attacker's".to_owned())
    });
    both_ways(attempt, "fsopen tmpfs", || {
        let kind = text("tmpfs");
        open_call(libc::SYS_fsopen, &[at(kind.as_bytes_with_nul()), 0])?;
        Ok("opened a file system".to_owned())
    });
    both_ways(attempt, "mount proc", || {
        let here = "/tmp";
        mount("none", here, "proc", 0, "")?;
        Ok("mounted a fresh /proc".to_owned())
    });
}

fn make_device(arguments: &Arguments, attempt: &mut Attempt) {
    for place in arguments.list("places") {
        for (word, kind) in [("block", libc::S_IFBLK), ("character", libc::S_IFCHR)] {
            // High bits of the mode are cut off by the kernel and must be by the filter.
            for high in [0_usize, 1 << 32, 1 << 16] {
                let path = Path::new(&place).join(format!("{word}-{high:x}"));
                attempt.route(format!("mknod {word} {place} {high:#x}"), || {
                    let name = c_path(&path)?;
                    let mode = (kind | 0o666) as usize | high;
                    call(old::MKNOD, &[at(name.as_bytes_with_nul()), mode, 0x0103])?;
                    Ok(format!("made a {word} device"))
                });
            }
        }
    }
}

/// A program with the set-user-id bit where the host can run it, by every call that takes a mode.
fn make_setuid(arguments: &Arguments, attempt: &mut Attempt) {
    const MODE: usize = 0o6755;
    let create = (libc::O_CREAT | libc::O_WRONLY) as usize;
    for place in arguments.list("places") {
        let path = |name: &str| Path::new(&place).join(name);
        let mut make = |step: &str, act: &dyn Fn(&Path, usize) -> Try<usize>| {
            let path = path(step);
            attempt.route(format!("{step} in {place}"), || {
                let name = c_path(&path)?;
                act(&path, at(name.as_bytes_with_nul()))?;
                match fs::metadata(&path)?.permissions().mode() & 0o6000 {
                    0 => nothing("BITS-DROPPED"),
                    _ => Ok("the bit stands".to_owned()),
                }
            });
        };
        let written = |path: &Path| fs::write(path, "#!/bin/sh\n").map_err(Fault::from);
        make("chmod", &|path, name| {
            written(path)?;
            call(old::CHMOD, &[name, MODE])
        });
        make("fchmod", &|path, _| {
            let opened = fs::File::create(path)?;
            call(libc::SYS_fchmod, &[fd(&opened), MODE])
        });
        make("fchmodat", &|path, name| {
            written(path)?;
            call(libc::SYS_fchmodat, &[HERE, name, MODE])
        });
        make("fchmodat2", &|path, name| {
            written(path)?;
            call(452, &[HERE, name, MODE, 0])
        });
        make("open", &|_, name| call(old::OPEN, &[name, create, MODE]));
        make("creat", &|_, name| call(old::CREAT, &[name, MODE]));
        make("openat", &|_, name| {
            call(libc::SYS_openat, &[HERE, name, create, MODE])
        });
        make("openat2", &|_, name| {
            let how = [create as u64, MODE as u64, 0];
            call(libc::SYS_openat2, &[HERE, name, at(&how), 24])
        });
        make("mknod", &|_, name| {
            call(old::MKNOD, &[name, MODE | libc::S_IFREG as usize, 0])
        });
        make("mknodat", &|_, name| {
            call(libc::SYS_mknodat, &[HERE, name, MODE, 0])
        });
    }
}

/// Attributes by which overlayfs would look for a directory's content elsewhere on the host. All
/// are tried; the host says which of them took effect.
fn overlay_attribute(arguments: &Arguments, attempt: &mut Attempt) {
    let directory = arguments.path("directory");
    let mut done = Vec::new();
    for key in [
        "trusted.overlay.redirect",
        "user.overlay.redirect",
        "user.overlay.opaque",
        "user.overlay.metacopy",
        "user.overlay.whiteout",
    ] {
        let value = b"/../outside".as_slice();
        let result = c_path(&directory).and_then(|path| {
            let name = text(key);
            let (path, name) = (at(path.as_bytes_with_nul()), at(name.as_bytes_with_nul()));
            call(libc::SYS_setxattr, &[path, name, at(value), value.len(), 0])
        });
        match result {
            Ok(_) => done.push(key),
            Err(fault) => attempt.route(format!("setxattr {key}"), || Err(fault)),
        }
    }
    if !done.is_empty() {
        attempt.route("setxattr", || Ok(done.join(", ")));
    }
}

/// The 0:0 device by which overlayfs marks what was removed.
fn overlay_whiteout(arguments: &Arguments, attempt: &mut Attempt) {
    let path = arguments.path("directory").join("whiteout");
    attempt.route("mknod 0:0", || {
        let name = c_path(&path)?;
        let mode = (libc::S_IFCHR | 0o600) as usize;
        call(
            libc::SYS_mknodat,
            &[HERE, at(name.as_bytes_with_nul()), mode, 0],
        )?;
        Ok("made a whiteout".to_owned())
    });
    attempt.route("renameat2 RENAME_WHITEOUT", || {
        let from = arguments.path("directory").join("plain");
        fs::write(&from, "x")?;
        let (from, to) = (c_path(&from)?, c_path(&path)?);
        call(
            libc::SYS_renameat2,
            &[
                HERE,
                at(from.as_bytes_with_nul()),
                HERE,
                at(to.as_bytes_with_nul()),
                4,
            ],
        )?;
        Ok("made a whiteout".to_owned())
    });
}

fn change_owner(arguments: &Arguments, attempt: &mut Attempt) {
    let path = arguments.path("path");
    for (user, group) in [
        (0_usize, 0_usize),
        (0, MINUS_ONE),
        (MINUS_ONE, 0),
        (65_534, MINUS_ONE),
    ] {
        attempt.route(format!("fchownat {} {}", user as i32, group as i32), || {
            fs::write(&path, "x")?;
            let name = c_path(&path)?;
            call(
                libc::SYS_fchownat,
                &[HERE, at(name.as_bytes_with_nul()), user, group, 0],
            )?;
            Ok("changed the owner".to_owned())
        });
    }
}

/// What a careless reader of the stage would follow out of it, wait for, or choke on.
fn stage_traps(arguments: &Arguments, attempt: &mut Attempt) {
    let workspace = arguments.path("workspace");
    let outside = arguments.path("outside");
    attempt.route("plant traps", || {
        std::env::set_current_dir(&workspace)?;
        fs::remove_file("plain.txt")?;
        symlink(outside.join("target.txt"), "plain.txt")?;
        fs::remove_dir_all("sub")?;
        symlink(&outside, "sub")?;
        symlink("loop", "loop")?;
        symlink("/proc/self/environ", "environ")?;
        symlink("/dev/zero", "zero")?;
        let _ = std::os::unix::net::UnixListener::bind("socket");
        for name in ["okay", "line\nbreak", "--option", "\x1b[2J"] {
            let _ = fs::remove_file(name);
            let name = text(name);
            let mode = (libc::S_IFIFO | 0o666) as usize;
            let _ = call(
                libc::SYS_mknodat,
                &[HERE, at(name.as_bytes_with_nul()), mode, 0],
            );
        }
        fs::File::create("hole")?.set_len(1 << 30)?;
        for level in 0..200 {
            fs::create_dir("deep")?;
            std::env::set_current_dir("deep")?;
            fs::write(format!("file-{level}"), "x")?;
        }
        Ok("planted".to_owned())
    });
}

/// A file that can only be read, brought to where writing is granted.
fn between_grants(arguments: &Arguments, attempt: &mut Attempt) {
    let (from, to) = (arguments.path("from"), arguments.path("to"));
    attempt.route("linkat, write", || {
        fs::hard_link(&from, to.join("linked"))?;
        append(&to.join("linked"))
    });
    attempt.route("rename, write", || {
        fs::rename(&from, to.join("renamed"))?;
        append(&to.join("renamed"))
    });
    attempt.route("O_PATH, linkat, write", || {
        let named = open(&from, libc::O_PATH)?;
        let (magic, name) = (
            text(&format!("/proc/self/fd/{}", fd(&named))),
            c_path(&to.join("magic"))?,
        );
        let follow = libc::AT_SYMLINK_FOLLOW as usize;
        let (magic, name) = (at(magic.as_bytes_with_nul()), at(name.as_bytes_with_nul()));
        call(libc::SYS_linkat, &[HERE, magic, HERE, name, follow])?;
        append(&to.join("magic"))
    });
    attempt.route("FICLONE back", || {
        let other = to.join("clone");
        fs::write(&other, TEXT)?;
        let (source, target) = (open(&other, libc::O_RDONLY)?, open(&from, libc::O_WRONLY)?);
        call(libc::SYS_ioctl, &[fd(&target), 0x4004_9409, fd(&source)])?;
        Ok("cloned over it".to_owned())
    });
}
