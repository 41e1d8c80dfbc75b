//! Reaching a denied file that lies inside a grant: by other names, by moving it, by races.

use crate::Entry;
use crate::attempt::{Arguments, Attempt};
use crate::files::{
    below, by_mapping, by_openat2, by_reopening, by_sendfile, judged, plainly, upwards,
};
use crate::sys::{Fault, HERE, Try, at, c_path, call, drain, fd, nothing, old, open, open_call};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

pub(crate) const ATTACKS: &[Entry] = &[
    ("denied-spellings", spellings),
    ("denied-reopened", reopened),
    ("denied-copied", copied),
    ("denied-by-symlink", by_symlink),
    ("denied-by-hard-link", by_hard_link),
    ("denied-by-rename", by_rename),
    ("denied-by-directory-rename", by_directory_rename),
    ("denied-by-exchange", by_exchange),
    ("denied-executed", executed),
    ("denied-created", created),
    ("denied-path-race", path_race),
    ("denied-symlink-race", symlink_race),
    ("denied-directory-race", directory_race),
    ("denied-replaced", replaced),
    ("denied-attributes", attributes),
    ("denied-by-socket", by_socket),
    ("denied-directory", directory),
    ("denied-program", program),
];

/// How long a race is run.
const RACE: Duration = Duration::from_millis(600);

fn spellings(arguments: &Arguments, attempt: &mut Attempt) {
    let (path, marker) = (arguments.path("path"), arguments.text("marker"));
    let (parent, name) = split(&path);
    let joined = |middle: &str| {
        let mut text = parent.as_os_str().to_owned();
        text.push(middle);
        text.push(&name);
        PathBuf::from(text)
    };
    for way in ["/", "//", "/./", "/sub/../", "/sub/./../"] {
        attempt.route(format!("openat ..{way}.env"), || {
            plainly(&joined(way), &marker)
        });
    }
    attempt.route("openat2", || by_openat2(&path, &marker));
    attempt.route("open", || {
        let name = c_path(&path)?;
        let opened = open_call(old::OPEN, &[at(name.as_bytes_with_nul()), 0, 0])?;
        judged(&drain(opened)?, &marker)
    });
    attempt.route("openat of its directory's descriptor", || {
        let directory = open(&parent, libc::O_PATH | libc::O_DIRECTORY)?;
        let name = c_path(Path::new(&name))?;
        let opened = open_call(
            libc::SYS_openat,
            &[fd(&directory), at(name.as_bytes_with_nul()), 0, 0],
        )?;
        judged(&drain(opened)?, &marker)
    });
    attempt.route("chdir, then its name", || {
        crate::sys::in_child(|| {
            std::env::set_current_dir(&parent)?;
            plainly(Path::new(&name), &marker)
        })
    });
    for root in ["/proc/self/root", "/proc/thread-self/root", "/proc/1/root"] {
        attempt.route(format!("openat {root}"), || {
            plainly(&below(root, &path), &marker)
        });
    }
    attempt.route("openat ../..", || plainly(&upwards(&path), &marker));
    attempt.route("openat /proc/self/cwd", || {
        crate::sys::in_child(|| {
            std::env::set_current_dir(&parent)?;
            plainly(&Path::new("/proc/self/cwd").join(&name), &marker)
        })
    });
    attempt.route("openat for reading and writing", || {
        judged(&drain(open(&path, libc::O_RDWR)?)?, &marker)
    });
    attempt.route("openat O_CREAT", || {
        judged(&drain(open(&path, libc::O_RDWR | libc::O_CREAT)?)?, &marker)
    });
}

fn split(path: &Path) -> (PathBuf, std::ffi::OsString) {
    let parent = path.parent().unwrap_or(Path::new("/")).to_owned();
    let name = path.file_name().unwrap_or(OsStr::new("")).to_owned();
    (parent, name)
}

fn reopened(arguments: &Arguments, attempt: &mut Attempt) {
    let (path, marker) = (arguments.path("path"), arguments.text("marker"));
    attempt.route("O_PATH and /proc/self/fd", || by_reopening(&path, &marker));
    attempt.route("O_PATH and linkat AT_EMPTY_PATH", || {
        let named = open(&path, libc::O_PATH)?;
        let other = path.with_file_name("linked-by-descriptor");
        let (from, to) = (format!("/proc/self/fd/{}", fd(&named)), c_path(&other)?);
        let from = c_path(Path::new(&from))?;
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
        plainly(&other, &marker)
    });
    attempt.route("O_PATH and openat2 of nothing", || {
        let named = open(&path, libc::O_PATH)?;
        let how: [u64; 3] = [0, 0, 0];
        let empty = c_path(Path::new(""))?;
        let opened = open_call(
            libc::SYS_openat2,
            &[fd(&named), at(empty.as_bytes_with_nul()), at(&how), 24],
        )?;
        judged(&drain(opened)?, &marker)
    });
}

fn copied(arguments: &Arguments, attempt: &mut Attempt) {
    let (path, marker) = (arguments.path("path"), arguments.text("marker"));
    attempt.route("mmap", || by_mapping(&path, &marker));
    attempt.route("sendfile", || by_sendfile(&path, &marker));
    attempt.route("copy_file_range", || {
        let to = path.with_file_name("copied");
        fs::copy(&path, &to)?;
        plainly(&to, &marker)
    });
    attempt.route("FICLONE", || {
        let from = open(&path, libc::O_RDONLY)?;
        let other = path.with_file_name("cloned");
        let to = open(&other, libc::O_WRONLY | libc::O_CREAT)?;
        call(libc::SYS_ioctl, &[fd(&to), 0x4004_9409, fd(&from)])?;
        plainly(&other, &marker)
    });
    attempt.route("another program", || {
        let shown = Command::new("cat")
            .arg(&path)
            .stderr(Stdio::null())
            .output()?;
        if shown.status.success() {
            judged(&shown.stdout, &marker)
        } else {
            nothing("CAT-FAILED")
        }
    });
}

fn by_symlink(arguments: &Arguments, attempt: &mut Attempt) {
    let (path, marker) = (arguments.path("path"), arguments.text("marker"));
    let (parent, name) = split(&path);
    attempt.route("a symlink that was there", || {
        plainly(&parent.join("planted"), &marker)
    });
    attempt.route("an own symlink", || {
        symlink(&path, parent.join("own-link"))?;
        plainly(&parent.join("own-link"), &marker)
    });
    attempt.route("a symlink in /tmp", || {
        let link = Path::new("/tmp").join(format!("link-{}", std::process::id()));
        symlink(&path, &link)?;
        let result = plainly(&link, &marker);
        let _ = fs::remove_file(&link);
        result
    });
    attempt.route("a symlink to its directory", || {
        symlink(&parent, parent.join("own-directory"))?;
        plainly(&parent.join("own-directory").join(&name), &marker)
    });
    attempt.route("a symlink to a magic link", || {
        symlink(below("/proc/self/root", &path), parent.join("magic"))?;
        plainly(&parent.join("magic"), &marker)
    });
    attempt.route("a chain of symlinks", || {
        symlink(&name, parent.join("chain-1"))?;
        symlink("chain-1", parent.join("chain-2"))?;
        plainly(&parent.join("chain-2"), &marker)
    });
}

fn by_hard_link(arguments: &Arguments, attempt: &mut Attempt) {
    let (path, marker) = (arguments.path("path"), arguments.text("marker"));
    let (parent, _) = split(&path);
    for place in [parent, PathBuf::from("/tmp")] {
        let other = place.join(format!("hard-{}", std::process::id()));
        attempt.route(format!("linkat {}", place.display()), || {
            fs::hard_link(&path, &other)?;
            let result = plainly(&other, &marker);
            let _ = fs::remove_file(&other);
            result
        });
    }
}

fn by_rename(arguments: &Arguments, attempt: &mut Attempt) {
    let (path, marker) = (arguments.path("path"), arguments.text("marker"));
    for name in ["plain.txt", "sub/moved.txt"] {
        let other = path.with_file_name(name);
        attempt.route(format!("rename to {name}"), || {
            fs::rename(&path, &other)?;
            plainly(&other, &marker)
        });
    }
}

/// The denied name stays, what is above it changes.
fn by_directory_rename(arguments: &Arguments, attempt: &mut Attempt) {
    let (path, marker) = (arguments.path("nested"), arguments.text("marker"));
    let (parent, name) = split(&path);
    let moved = parent.with_file_name("moved-directory");
    attempt.route("rename its directory", || {
        fs::rename(&parent, &moved)?;
        plainly(&moved.join(&name), &marker)
    });
}

/// The denied file and a harmless one change places.
fn by_exchange(arguments: &Arguments, attempt: &mut Attempt) {
    const EXCHANGE: usize = 2;
    let (path, marker) = (arguments.path("path"), arguments.text("marker"));
    let other = arguments.path("allowed");
    attempt.route("renameat2 RENAME_EXCHANGE", || {
        let (from, to) = (c_path(&path)?, c_path(&other)?);
        call(
            libc::SYS_renameat2,
            &[
                HERE,
                at(from.as_bytes_with_nul()),
                HERE,
                at(to.as_bytes_with_nul()),
                EXCHANGE,
            ],
        )?;
        plainly(&other, &marker)
    });
}

/// The file's text comes back in an interpreter's complaint, or runs.
fn executed(arguments: &Arguments, attempt: &mut Attempt) {
    let (path, marker) = (arguments.path("path"), arguments.text("marker"));
    for (word, program) in [
        ("sh reads it", "sh"),
        ("sh sources it", "."),
        ("it runs", ""),
    ] {
        attempt.route(word, || {
            let mut command = match program {
                "sh" => {
                    let mut command = Command::new("sh");
                    command.arg(&path);
                    command
                }
                "." => {
                    let mut command = Command::new("sh");
                    command
                        .arg("-c")
                        .arg(". \"$0\"; echo \"$TOKEN\"")
                        .arg(&path);
                    command
                }
                _ => Command::new(&path),
            };
            let output = command.output()?;
            let mut said = output.stdout;
            said.extend(output.stderr);
            judged(&said, &marker)
        });
    }
    attempt.route("execveat of its descriptor", || {
        let named = open(&path, libc::O_PATH)?;
        let output = Command::new(format!("/proc/self/fd/{}", fd(&named))).output();
        judged(&output?.stdout, &marker)
    });
}

/// A denied name that did not exist, made with a way to read it afterwards.
fn created(arguments: &Arguments, attempt: &mut Attempt) {
    let path = arguments.path("absent");
    attempt.route("create and read", || {
        fs::write(&path, "made inside")?;
        plainly(&path, "made inside")
    });
    attempt.route("rename onto it and read", || {
        let other = path.with_file_name("prepared");
        fs::write(&other, "made inside")?;
        fs::rename(&other, &path)?;
        plainly(&path, "made inside")
    });
    attempt.route("link onto it and read", || {
        let other = path.with_file_name("prepared");
        fs::write(&other, "made inside")?;
        fs::hard_link(&other, &path)?;
        plainly(&path, "made inside")
    });
    attempt.route("mkdir of that name, a file beneath", || {
        fs::create_dir(&path)?;
        fs::write(path.join("beneath"), "made inside")?;
        plainly(&path.join("beneath"), "made inside")
    });
}

/// Runs `flip` over and over in one thread and `look` in this one until it sees the marker.
fn race(flip: impl Fn() + Sync, look: impl Fn() -> Try) -> Try {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                flip();
            }
        });
        let until = Instant::now() + RACE;
        let mut last = Fault::Nothing("NEVER".to_owned());
        let result = loop {
            match look() {
                Ok(evidence) => break Ok(evidence),
                Err(fault) => last = worse(last, fault),
            }
            if Instant::now() > until {
                break Err(last);
            }
        };
        stop.store(true, Ordering::Relaxed);
        result
    })
}

/// Of two faults the one that tells more: a refusal, not the other half of the race.
fn worse(one: Fault, other: Fault) -> Fault {
    match other {
        Fault::Errno(libc::EACCES | libc::EPERM) => other,
        Fault::Errno(_) | Fault::Nothing(_) => one,
    }
}

/// The name is changed between the moment it is judged and the moment it is used.
fn path_race(arguments: &Arguments, attempt: &mut Attempt) {
    let (path, marker) = (arguments.path("path"), arguments.text("marker"));
    let allowed = arguments.path("allowed");
    // The two names have one length, so that any mix of them is one of them or nothing.
    let (one, two) = (path.as_os_str().as_bytes(), allowed.as_os_str().as_bytes());
    attempt.route("openat while the name changes", || {
        let mut name = two.to_vec();
        name.push(0);
        let start = name.as_mut_ptr() as usize;
        let flip = || {
            for source in [one, two] {
                for (offset, byte) in source.iter().enumerate() {
                    // SAFETY: `name` is as long as either source and outlives the race; that the
                    // other thread reads it meanwhile is the attack.
                    unsafe { std::ptr::write_volatile((start as *mut u8).add(offset), *byte) };
                }
            }
        };
        race(flip, || {
            let opened = open_call(libc::SYS_openat, &[HERE, start, 0, 0])?;
            judged(&drain(opened)?, &marker)
        })
    });
}

fn symlink_race(arguments: &Arguments, attempt: &mut Attempt) {
    let (path, marker) = (arguments.path("path"), arguments.text("marker"));
    let allowed = arguments.path("allowed");
    let (parent, _) = split(&path);
    attempt.route("openat while a symlink changes", || {
        let link = parent.join("racing");
        let flip = || {
            for target in [&allowed, &path] {
                let fresh = parent.join("racing-next");
                let _ = symlink(target, &fresh);
                let _ = fs::rename(&fresh, &link);
            }
        };
        race(flip, || plainly(&link, &marker))
    });
}

/// Directories that hold an allowed file and a link to a denied one change places.
fn directory_race(arguments: &Arguments, attempt: &mut Attempt) {
    const EXCHANGE: usize = 2;
    let (path, marker) = (arguments.path("path"), arguments.text("marker"));
    let (one, other) = (path.with_file_name("race-1"), path.with_file_name("race-2"));
    attempt.route("openat while directories change places", || {
        fs::create_dir(&one)?;
        fs::create_dir(&other)?;
        fs::write(one.join("plain.txt"), "harmless")?;
        symlink(&path, other.join("plain.txt"))?;
        let (from, to) = (c_path(&one)?, c_path(&other)?);
        let flip = || {
            let (from, to) = (at(from.as_bytes_with_nul()), at(to.as_bytes_with_nul()));
            let _ = call(libc::SYS_renameat2, &[HERE, from, HERE, to, EXCHANGE]);
        };
        race(flip, || plainly(&one.join("plain.txt"), &marker))
    });
}

/// Taking the file away, so that something else is read in its place by whoever trusts it.
fn replaced(arguments: &Arguments, attempt: &mut Attempt) {
    let path = arguments.path("path");
    attempt.route("truncate", || {
        let name = c_path(&path)?;
        call(libc::SYS_truncate, &[at(name.as_bytes_with_nul()), 0])?;
        Ok("truncated".to_owned())
    });
    attempt.route("openat O_TRUNC", || {
        open(&path, libc::O_WRONLY | libc::O_TRUNC)?;
        Ok("truncated".to_owned())
    });
    attempt.route("openat O_APPEND", || {
        open(&path, libc::O_WRONLY | libc::O_APPEND)?;
        Ok("opened for writing".to_owned())
    });
}

/// Secrets in extended attributes of a denied file.
fn attributes(arguments: &Arguments, attempt: &mut Attempt) {
    let (path, marker) = (arguments.path("path"), arguments.text("marker"));
    let name = crate::sys::text("user.secret");
    let mut value = [0_u8; 128];
    attempt.route("getxattr", || {
        let path = c_path(&path)?;
        let length = call(
            libc::SYS_getxattr,
            &[
                at(path.as_bytes_with_nul()),
                at(name.as_bytes_with_nul()),
                value.as_mut_ptr() as usize,
                128,
            ],
        )?;
        judged(value.get(..length).unwrap_or_default(), &marker)
    });
}

/// A descriptor of the denied file made by one process and sent to another.
fn by_socket(arguments: &Arguments, attempt: &mut Attempt) {
    let (path, marker) = (arguments.path("path"), arguments.text("marker"));
    attempt.route("a child opens, the parent reads its /proc/PID/fd", || {
        let (reader, writer) = std::io::pipe()?;
        let child = crate::sys::fork()?;
        if child == 0 {
            let named = open(&path, libc::O_PATH);
            drop(writer);
            thread::sleep(Duration::from_secs(2));
            drop(named);
            crate::sys::leave(0);
        }
        drop(writer);
        let _ = drain(reader.into());
        thread::sleep(Duration::from_millis(20));
        let result = (3..12).fold(nothing("NONE"), |found: Try, number| match found {
            Ok(evidence) => Ok(evidence),
            Err(fault) => {
                plainly(Path::new(&format!("/proc/{child}/fd/{number}")), &marker).or(Err(fault))
            }
        });
        let _ = call(libc::SYS_kill, &[child as usize, libc::SIGKILL as usize]);
        crate::sys::wait_for(child);
        result
    });
}

/// Everything beneath a denied directory, also from a descriptor of it or from inside.
fn directory(arguments: &Arguments, attempt: &mut Attempt) {
    let (path, marker) = (arguments.path("path"), arguments.text("marker"));
    let (parent, name) = split(&path);
    attempt.route("getdents64", || {
        let names = fs::read_dir(&parent)?.flatten();
        let names: Vec<String> = names
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        judged(names.join(" ").as_bytes(), "")
    });
    attempt.route("openat", || plainly(&path, &marker));
    attempt.route("openat from its descriptor", || {
        let directory = open(&parent, libc::O_PATH | libc::O_DIRECTORY)?;
        let name = c_path(Path::new(&name))?;
        let given = [fd(&directory), at(name.as_bytes_with_nul()), 0, 0];
        judged(&drain(open_call(libc::SYS_openat, &given)?)?, &marker)
    });
    attempt.route("openat through its magic link", || {
        let directory = open(&parent, libc::O_PATH | libc::O_DIRECTORY)?;
        plainly(
            &PathBuf::from(format!("/proc/self/fd/{}", fd(&directory))).join(&name),
            &marker,
        )
    });
    attempt.route("chdir, openat", || {
        crate::sys::in_child(|| {
            std::env::set_current_dir(&parent)?;
            plainly(Path::new(&name), &marker)
        })
    });
    attempt.route("fchdir, openat", || {
        crate::sys::in_child(|| {
            let directory = open(&parent, libc::O_PATH | libc::O_DIRECTORY)?;
            call(libc::SYS_fchdir, &[fd(&directory)])?;
            plainly(&Path::new(".").join(&name), &marker)
        })
    });
    attempt.route("move the file out", || {
        let out = parent.with_file_name("moved-out");
        fs::rename(&path, &out)?;
        plainly(&out, &marker)
    });
    attempt.route("link the file out", || {
        let out = parent.with_file_name("linked-out");
        fs::hard_link(&path, &out)?;
        plainly(&out, &marker)
    });
    attempt.route("move the directory", || {
        let out = parent.with_file_name("public");
        fs::rename(&parent, &out)?;
        plainly(&out.join(&name), &marker)
    });
    attempt.route("a symlink to the directory", || {
        let link = parent.with_file_name("public-link");
        symlink(&parent, &link)?;
        plainly(&link.join(&name), &marker)
    });
}

/// A denied program: once it runs, its content is in memory that it can read.
fn program(arguments: &Arguments, attempt: &mut Attempt) {
    let path = arguments.path("path");
    let ran = |command: &mut Command| -> Try {
        let output = command.arg("effective-user").output()?;
        judged(&output.stdout, "achieved")
    };
    attempt.route("execve", || ran(&mut Command::new(&path)));
    attempt.route("execve through a symlink", || {
        let link = path.with_file_name("program-link");
        symlink(&path, &link)?;
        ran(&mut Command::new(&link))
    });
    attempt.route("execve through a magic link", || {
        let named = open(&path, libc::O_PATH)?;
        ran(&mut Command::new(format!("/proc/self/fd/{}", fd(&named))))
    });
    attempt.route("the loader", || {
        let loader = Path::new("/lib64/ld-linux-x86-64.so.2");
        ran(Command::new(loader).arg(&path))
    });
}
