//! Reading other processes: their environment, memory, descriptors, directories.

use crate::Entry;
use crate::attempt::{Arguments, Attempt};
use crate::files::{judged, plainly};
use crate::sys::{
    Fault, Try, at, call, drain, fd, fork, leave, nothing, open, open_call, text, wait_for,
};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

pub(crate) const ATTACKS: &[Entry] = &[
    ("process-environment", environment),
    ("process-arguments", started_with),
    ("process-memory", memory),
    ("process-maps", maps),
    ("process-descriptors", descriptors),
    ("process-directories", directories),
    ("process-list", list),
    ("vm-read", vm_read),
    ("vm-write", vm_write),
    ("ptrace", ptrace),
    ("pidfd-getfd", pidfd_getfd),
    ("core-dump", core_dump),
    ("shared-memory", shared_memory),
    ("message-queue", message_queue),
    ("keyring", keyring),
];

/// The one attacked first, then every process there is.
fn targets(arguments: &Arguments) -> Vec<PathBuf> {
    let pid = arguments.number("pid");
    let mut targets = vec![PathBuf::from(format!("/proc/{pid}"))];
    if !arguments.is("only") {
        targets.extend(all());
    }
    targets
}

fn all() -> Vec<PathBuf> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let own = std::process::id().to_string();
    entries
        .filter(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            name != own && name.bytes().all(|byte| byte.is_ascii_digit())
        })
        .map(|entry| entry.path())
        .collect()
}

fn environment(arguments: &Arguments, attempt: &mut Attempt) {
    let marker = arguments.text("marker");
    for target in targets(arguments) {
        let file = target.join("environ");
        attempt.route(format!("read {}", file.display()), || {
            plainly(&file, &marker)
        });
    }
}

/// What a process was started with, which anybody may read who sees the process.
fn started_with(arguments: &Arguments, attempt: &mut Attempt) {
    let file = PathBuf::from(format!("/proc/{}/cmdline", arguments.number("pid")));
    attempt.route(format!("read {}", file.display()), || {
        let mut bytes = drain(open(&file, libc::O_RDONLY)?)?;
        // What was overwritten is as long as before, and says nothing.
        bytes.retain(|byte| *byte != 0);
        judged(&bytes, "")
    });
}

/// The first range of addresses named `[stack]`, or else any writable one.
fn readable_range(target: &Path) -> Try<(u64, usize)> {
    let bytes = drain(open(&target.join("maps"), libc::O_RDONLY)?)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let stack = text.lines().find(|line| line.ends_with("[stack]"));
    let line = stack.or_else(|| text.lines().find(|line| line.contains(" rw-p ")));
    let range = line.and_then(|line| line.split(' ').next()?.split_once('-'));
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    match range.and_then(|(from, to)| Some((number(from)?, number(to)?))) {
        Some((from, to)) => Ok((from, (to - from) as usize)),
        None => nothing("EMPTY"),
    }
}

fn memory(arguments: &Arguments, attempt: &mut Attempt) {
    let marker = arguments.text("marker");
    for target in targets(arguments) {
        attempt.route(format!("read {}/mem", target.display()), || {
            let (from, length) = readable_range(&target)?;
            let memory = fs::File::from(open(&target.join("mem"), libc::O_RDONLY)?);
            let mut bytes = vec![0_u8; length];
            let read = memory.read_at(&mut bytes, from)?;
            bytes.truncate(read);
            judged(&bytes, &marker)
        });
    }
}

fn maps(arguments: &Arguments, attempt: &mut Attempt) {
    let pid = arguments.number("pid");
    for file in [
        "maps", "smaps", "pagemap", "auxv", "stack", "wchan", "syscall",
    ] {
        let path = PathBuf::from(format!("/proc/{pid}/{file}"));
        attempt.route(format!("read {file}"), || {
            let bytes = drain(open(&path, libc::O_RDONLY)?)?;
            // What any process may know of any other it can see.
            if matches!(bytes.as_slice(), b"" | b"0" | b"0\n") {
                return nothing("EMPTY");
            }
            judged(&bytes, "")
        });
    }
}

fn descriptors(arguments: &Arguments, attempt: &mut Attempt) {
    let marker = arguments.text("marker");
    for target in targets(arguments) {
        let directory = target.join("fd");
        attempt.route(format!("list {}", directory.display()), || {
            let mut last = Fault::Nothing("NONE".to_owned());
            for entry in fs::read_dir(&directory)?.flatten() {
                let Ok(found) = fs::metadata(entry.path()) else {
                    continue;
                };
                if !found.is_file() {
                    continue;
                }
                match plainly(&entry.path(), &marker) {
                    Ok(evidence) => return Ok(evidence),
                    Err(fault) => last = fault,
                }
            }
            Err(last)
        });
    }
}

fn directories(arguments: &Arguments, attempt: &mut Attempt) {
    let marker = arguments.text("marker");
    let secret = arguments.text("path");
    let name = arguments.text("name");
    for target in targets(arguments) {
        let by_root = target.join("root").join(secret.trim_start_matches('/'));
        attempt.route(format!("read {}/root", target.display()), || {
            plainly(&by_root, &marker)
        });
        let by_cwd = target.join("cwd").join(&name);
        attempt.route(format!("read {}/cwd", target.display()), || {
            plainly(&by_cwd, &marker)
        });
    }
}

fn list(arguments: &Arguments, attempt: &mut Attempt) {
    let marker = arguments.text("marker");
    for target in all() {
        let file = target.join("cmdline");
        attempt.route(format!("read {}", file.display()), || {
            plainly(&file, &marker)
        });
    }
    attempt.route("look for it", || nothing("NOT-THERE"));
}

/// A child of the probe's own, which any process may read, and the one attacked.
fn with_child(act: impl Fn(i32) -> Try) -> Try {
    let child = fork()?;
    if child == 0 {
        std::thread::sleep(std::time::Duration::from_secs(20));
        leave(0);
    }
    let result = act(child);
    let _ = call(libc::SYS_kill, &[child as usize, libc::SIGKILL as usize]);
    wait_for(child);
    result
}

/// Parent and child have this at the same address.
static SHARED: [u8; 16] = *b"same everywhere!";

fn vm_read(arguments: &Arguments, attempt: &mut Attempt) {
    let read = |pid: i32| {
        let mut bytes = [0_u8; 16];
        let to = [bytes.as_mut_ptr() as usize, bytes.len()];
        let from = [at(&SHARED), SHARED.len()];
        call(
            libc::SYS_process_vm_readv,
            &[pid as usize, at(&to), 1, at(&from), 1, 0],
        )?;
        Ok("read another process's memory".to_owned())
    };
    attempt.route("process_vm_readv of a child", || with_child(read));
    attempt.route("process_vm_readv of the first process", || {
        read(arguments.number("pid") as i32)
    });
}

fn vm_write(_: &Arguments, attempt: &mut Attempt) {
    attempt.route("process_vm_writev of a child", || {
        with_child(|pid| {
            let target = Box::new(0_u64);
            let value = 1_u64;
            let from = [at(&value), 8];
            let to = [at(&*target), 8];
            call(
                libc::SYS_process_vm_writev,
                &[pid as usize, at(&from), 1, at(&to), 1, 0],
            )?;
            Ok("wrote another process's memory".to_owned())
        })
    });
    attempt.route("/proc/CHILD/mem for writing", || {
        with_child(|pid| {
            let memory = open(Path::new(&format!("/proc/{pid}/mem")), libc::O_RDWR)?;
            let target = Box::new(0_u64);
            call(
                libc::SYS_pwrite64,
                &[fd(&memory), at(b"12345678".as_slice()), 8, at(&*target)],
            )?;
            // A process may write its own children's memory through files it can open: that is no
            // way out of the sandbox, which they are in as well.
            nothing("OWN-CHILD")
        })
    });
}

fn ptrace(arguments: &Arguments, attempt: &mut Attempt) {
    const ATTACH: usize = 16;
    const SEIZE: usize = 0x4206;
    for (word, request) in [("PTRACE_ATTACH", ATTACH), ("PTRACE_SEIZE", SEIZE)] {
        attempt.route(format!("{word} a child"), || {
            with_child(|pid| {
                call(libc::SYS_ptrace, &[request, pid as usize, 0, 0])?;
                Ok("traces a process".to_owned())
            })
        });
        attempt.route(format!("{word} the first process"), || {
            let pid = arguments.number("pid") as usize;
            call(libc::SYS_ptrace, &[request, pid, 0, 0])?;
            Ok("traces the first process".to_owned())
        });
    }
    attempt.route("PTRACE_TRACEME", || {
        crate::sys::in_child(|| {
            call(libc::SYS_ptrace, &[0, 0, 0, 0])?;
            Ok("is traced by its parent".to_owned())
        })
    });
}

fn pidfd_getfd(arguments: &Arguments, attempt: &mut Attempt) {
    let steal = |pid: i32| {
        let process = open_call(libc::SYS_pidfd_open, &[pid as usize, 0])?;
        for number in 0..16_usize {
            if open_call(438, &[fd(&process), number, 0]).is_ok() {
                return Ok(format!("took descriptor {number}"));
            }
        }
        call(438, &[fd(&process), 0, 0]).map(|_| String::new())
    };
    attempt.route("pidfd_getfd of the first process", || {
        steal(arguments.number("pid") as i32)
    });
    attempt.route("pidfd_getfd of a child", || with_child(steal));
}

/// A crash whose memory the host would keep, or hand to a program of its own.
fn core_dump(_: &Arguments, attempt: &mut Attempt) {
    for raise in [true, false] {
        let step = if raise {
            "abort with a raised limit"
        } else {
            "abort"
        };
        attempt.route(step, || {
            let child = fork()?;
            if child == 0 {
                let limit = [u64::MAX; 2];
                if raise && call(libc::SYS_prlimit64, &[0, 4, at(&limit), 0]).is_err() {
                    leave(7);
                }
                // SAFETY: takes nothing and never returns.
                unsafe { libc::abort() }
            }
            let status = wait_for(child);
            if libc::WIFSIGNALED(status) && libc::WCOREDUMP(status) {
                return Ok("a core was dumped".to_owned());
            }
            if libc::WIFEXITED(status) {
                return Err(Fault::Errno(libc::EPERM));
            }
            nothing("NO-CORE")
        });
    }
}

fn shared_memory(arguments: &Arguments, attempt: &mut Attempt) {
    let marker = arguments.text("marker");
    attempt.route("shmget, shmat", || {
        let segment = call(libc::SYS_shmget, &[arguments.number("key") as usize, 0, 0])?;
        let start = call(libc::SYS_shmat, &[segment, 0, libc::SHM_RDONLY as usize])?;
        // SAFETY: the kernel attached a segment of at least one page.
        let bytes = unsafe { std::slice::from_raw_parts(start as *const u8, 64) };
        judged(bytes, &marker)
    });
    // Every segment by number, whatever its key.
    attempt.route("shmctl SHM_STAT_ANY", || {
        let mut info = [0_u8; 256];
        for index in 0..64_usize {
            if let Ok(segment) = call(libc::SYS_shmctl, &[index, 15, info.as_mut_ptr() as usize]) {
                return Ok(format!("sees segment {segment}"));
            }
        }
        nothing("NONE")
    });
}

fn message_queue(arguments: &Arguments, attempt: &mut Attempt) {
    let marker = arguments.text("marker");
    attempt.route("msgget, msgrcv", || {
        let queue = call(libc::SYS_msgget, &[arguments.number("key") as usize, 0])?;
        let mut message = [0_u8; 128];
        call(
            libc::SYS_msgrcv,
            &[
                queue,
                message.as_mut_ptr() as usize,
                100,
                0,
                libc::IPC_NOWAIT as usize,
            ],
        )?;
        judged(&message, &marker)
    });
    attempt.route("mq_open", || {
        let name = text(arguments.text("queue").trim_start_matches('/'));
        let queue = open_call(
            libc::SYS_mq_open,
            &[
                at(name.as_bytes_with_nul()),
                (libc::O_RDONLY | libc::O_NONBLOCK) as usize,
            ],
        )?;
        let mut message = vec![0_u8; 8192];
        let length = call(
            libc::SYS_mq_timedreceive,
            &[
                fd(&queue),
                message.as_mut_ptr() as usize,
                message.len(),
                0,
                0,
            ],
        )?;
        judged(message.get(..length).unwrap_or_default(), &marker)
    });
}

fn keyring(arguments: &Arguments, attempt: &mut Attempt) {
    const SEARCH: usize = 10;
    const READ: usize = 11;
    let kind = text("user");
    let description = text(&arguments.text("description"));
    let marker = arguments.text("marker");
    // The user's, the session's and the user's default session ring.
    for ring in [-4_isize, -3, -5] {
        attempt.route(format!("keyctl search {ring}"), || {
            let key = call(
                libc::SYS_keyctl,
                &[
                    SEARCH,
                    ring as usize,
                    at(kind.as_bytes_with_nul()),
                    at(description.as_bytes_with_nul()),
                    0,
                ],
            )?;
            let mut bytes = [0_u8; 128];
            let length = call(
                libc::SYS_keyctl,
                &[READ, key, bytes.as_mut_ptr() as usize, bytes.len()],
            )?;
            judged(bytes.get(..length).unwrap_or_default(), &marker)
        });
    }
    attempt.route("request_key", || {
        call(
            libc::SYS_request_key,
            &[
                at(kind.as_bytes_with_nul()),
                at(description.as_bytes_with_nul()),
                0,
                0,
            ],
        )?;
        Ok("found the key".to_owned())
    });
    attempt.route("add_key", || {
        let payload = b"x".as_slice();
        call(
            libc::SYS_add_key,
            &[
                at(kind.as_bytes_with_nul()),
                at(description.as_bytes_with_nul()),
                at(payload),
                1,
                -4_isize as usize,
            ],
        )?;
        Ok("replaced the key".to_owned())
    });
}
