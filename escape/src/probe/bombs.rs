//! Taking more than the sandbox's share. Every bomb has a size at which it counts as gone off.

use crate::Entry;
use crate::attempt::{Arguments, Attempt};
use crate::sys::{Fault, Try, at, call, fd, fork, leave, nothing, open, open_call, text};
use std::fs::{self, File};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

pub(crate) const ATTACKS: &[Entry] = &[
    ("bomb-fork", processes),
    ("bomb-threads", threads),
    ("bomb-memory", memory),
    ("bomb-shared-memory", shared_memory),
    ("bomb-memory-file", memory_file),
    ("bomb-files", files),
    ("bomb-inodes", inodes),
    ("bomb-file-size", file_size),
    ("bomb-output", output),
    ("bomb-descriptors", descriptors),
    ("bomb-pipes", pipes),
    ("bomb-sockets", sockets),
    ("bomb-time", time),
    ("bomb-queue", queue),
    ("bomb-names", names),
];

const MIB: usize = 1 << 20;

/// Makes processes until there are enough, then ends them.
fn processes(arguments: &Arguments, attempt: &mut Attempt) {
    let want = arguments.number("want") as usize;
    attempt.route("fork", || {
        let (reader, writer) = std::io::pipe()?;
        let mut children = Vec::new();
        let mut fault = None;
        while children.len() < want {
            match fork() {
                Ok(0) => {
                    drop(writer);
                    let _ = crate::sys::drain(reader.into());
                    leave(0);
                }
                Ok(child) => children.push(child),
                Err(stopped) => {
                    fault = Some(stopped);
                    break;
                }
            }
        }
        let count = children.len();
        drop(writer);
        drop(reader);
        for child in children {
            crate::sys::wait_for(child);
        }
        fault.map_or_else(|| Ok(format!("{count} processes")), Err)
    });
}

fn threads(arguments: &Arguments, attempt: &mut Attempt) {
    let want = arguments.number("want") as usize;
    attempt.route("threads", || {
        let mut gates = Vec::new();
        for _ in 0..want {
            let (gate, waiting) = mpsc::channel::<()>();
            thread::Builder::new()
                .stack_size(64 << 10)
                .spawn(move || waiting.recv())?;
            gates.push(gate);
        }
        Ok(format!("{} threads", gates.len()))
    });
}

/// Touches every page of what it asked for.
fn touched(start: usize, length: usize) {
    for offset in (0..length).step_by(4096) {
        // SAFETY: the kernel gave `length` writable bytes at `start`.
        unsafe { std::ptr::write_volatile((start + offset) as *mut u8, 1) };
    }
}

fn memory(arguments: &Arguments, attempt: &mut Attempt) {
    let want = arguments.number("mebibytes") as usize;
    attempt.route("mmap, one process", || {
        for _ in 0..want {
            let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as usize;
            let start = call(libc::SYS_mmap, &[0, MIB, 3, flags, usize::MAX, 0])?;
            touched(start, MIB);
        }
        settled();
        Ok(format!("{want} MiB"))
    });
}

/// Long enough for a supervisor that looks now and then.
fn settled() {
    thread::sleep(Duration::from_millis(1500));
}

/// Segments that belong to no process, so that no process seems large.
fn shared_memory(arguments: &Arguments, attempt: &mut Attempt) {
    let want = arguments.number("mebibytes") as usize;
    attempt.route("shmget, fill, detach", || {
        let mut segments = Vec::new();
        let mut fault = None;
        for _ in 0..want / 8 {
            let filled = call(libc::SYS_shmget, &[0, 8 * MIB, 0o1600]).and_then(|segment| {
                segments.push(segment);
                let start = call(libc::SYS_shmat, &[segment, 0, 0])?;
                touched(start, 8 * MIB);
                call(libc::SYS_shmdt, &[start])
            });
            if let Err(stopped) = filled {
                fault = Some(stopped);
                break;
            }
        }
        if fault.is_none() {
            settled();
        }
        for segment in segments {
            let _ = call(libc::SYS_shmctl, &[segment, libc::IPC_RMID as usize, 0]);
        }
        fault.map_or_else(|| Ok(format!("{want} MiB")), Err)
    });
}

fn fill(file: &mut File, mebibytes: usize) -> Try<()> {
    let block = vec![1_u8; MIB];
    for _ in 0..mebibytes {
        file.write_all(&block)?;
    }
    Ok(())
}

/// Files in memory that nobody maps.
fn memory_file(arguments: &Arguments, attempt: &mut Attempt) {
    let want = arguments.number("mebibytes") as usize;
    let name = text("bomb");
    attempt.route("memfd_create", || {
        let mut held = Vec::new();
        for _ in 0..want / 8 {
            let made = open_call(libc::SYS_memfd_create, &[at(name.as_bytes_with_nul()), 0])?;
            let mut file = File::from(made);
            fill(&mut file, 8)?;
            held.push(file);
        }
        settled();
        Ok(format!("{want} MiB"))
    });
}

/// Files where the sandbox has memory for a disk.
fn files(arguments: &Arguments, attempt: &mut Attempt) {
    let want = arguments.number("mebibytes") as usize;
    for place in arguments.list("places") {
        let directory = Path::new(&place).join(format!("bomb-{}", std::process::id()));
        attempt.route(format!("fill {place}"), || {
            fs::create_dir_all(&directory)?;
            let result = (0..want / 8).try_for_each(|index| {
                fill(&mut File::create(directory.join(index.to_string()))?, 8)
            });
            if result.is_ok() {
                settled();
            }
            let _ = fs::remove_dir_all(&directory);
            result.map(|()| format!("{want} MiB in {place}"))
        });
    }
}

fn inodes(arguments: &Arguments, attempt: &mut Attempt) {
    let want = arguments.number("want");
    for place in arguments.list("places") {
        let directory = Path::new(&place).join(format!("inodes-{}", std::process::id()));
        attempt.route(format!("empty files in {place}"), || {
            fs::create_dir_all(&directory)?;
            let result = (0..want).try_for_each(|index| {
                open(
                    &directory.join(index.to_string()),
                    libc::O_CREAT | libc::O_WRONLY,
                )
                .map(|_| ())
            });
            let _ = fs::remove_dir_all(&directory);
            result.map(|()| format!("{want} files in {place}"))
        });
    }
}

fn file_size(arguments: &Arguments, attempt: &mut Attempt) {
    let want = arguments.number("mebibytes") as usize;
    for place in arguments.list("places") {
        let path = Path::new(&place).join("large");
        attempt.route(format!("write {place}"), || {
            fill(&mut File::create(&path)?, want)?;
            Ok(format!("a file of {want} MiB"))
        });
        attempt.route(format!("ftruncate {place}"), || {
            File::create(&path)?.set_len((want * MIB) as u64)?;
            Ok(format!("a file of {want} MiB"))
        });
        attempt.route(format!("fallocate {place}"), || {
            let file = File::create(&path)?;
            call(libc::SYS_fallocate, &[fd(&file), 0, 0, want * MIB])?;
            Ok(format!("a file of {want} MiB"))
        });
    }
}

fn output(arguments: &Arguments, attempt: &mut Attempt) {
    let want = arguments.number("mebibytes") as usize;
    let errors = arguments.is("errors");
    attempt.route("write to a standard stream", || {
        let mut line = vec![b'x'; MIB - 1];
        line.push(b'\n');
        let mut out: Box<dyn Write> = if errors {
            Box::new(std::io::stderr())
        } else {
            Box::new(std::io::stdout())
        };
        for _ in 0..want {
            out.write_all(&line)?;
        }
        Ok(format!("{want} MiB of output"))
    });
}

fn descriptors(arguments: &Arguments, attempt: &mut Attempt) {
    let want = arguments.number("want") as usize;
    attempt.route("dup", || {
        unlimited_descriptors();
        let (reader, _writer) = std::io::pipe()?;
        let mut held: Vec<OwnedFd> = Vec::new();
        while held.len() < want {
            held.push(open_call(libc::SYS_dup, &[fd(&reader)])?);
        }
        Ok(format!("{want} descriptors"))
    });
}

/// As many as the hard limit allows.
fn unlimited_descriptors() {
    let mut limit = [0_u64; 2];
    if call(libc::SYS_prlimit64, &[0, 7, 0, limit.as_mut_ptr() as usize]).is_ok() {
        limit[0] = limit[1];
        let _ = call(libc::SYS_prlimit64, &[0, 7, at(&limit), 0]);
    }
}

/// Data that waits in pipes belongs to no process.
fn pipes(arguments: &Arguments, attempt: &mut Attempt) {
    let want = arguments.number("mebibytes") as usize;
    attempt.route("fill pipes", || {
        unlimited_descriptors();
        let block = vec![1_u8; MIB];
        let mut held = Vec::new();
        let mut filled = 0;
        while filled < want * MIB {
            let (reader, writer) = std::io::pipe()?;
            let _ = call(libc::SYS_fcntl, &[fd(&writer), 1031, MIB]);
            call(
                libc::SYS_fcntl,
                &[
                    fd(&writer),
                    libc::F_SETFL as usize,
                    libc::O_NONBLOCK as usize,
                ],
            )?;
            while let Ok(written) = call(libc::SYS_write, &[fd(&writer), at(block.as_slice()), MIB])
            {
                filled += written;
            }
            held.push((reader, writer));
        }
        settled();
        Ok(format!("{want} MiB in {} pipes", held.len()))
    });
}

/// Data that waits in sockets belongs to no process either.
fn sockets(arguments: &Arguments, attempt: &mut Attempt) {
    let want = arguments.number("mebibytes") as usize;
    attempt.route("fill sockets", || {
        unlimited_descriptors();
        let block = vec![1_u8; 64 << 10];
        let mut held = Vec::new();
        let mut filled = 0;
        while filled < want * MIB {
            let mut pair = [0_i32; 2];
            call(libc::SYS_socketpair, &[1, 1, 0, pair.as_mut_ptr() as usize])?;
            for end in pair {
                loop {
                    let given = [
                        end as usize,
                        at(block.as_slice()),
                        block.len(),
                        libc::MSG_DONTWAIT as usize,
                    ];
                    match call(libc::SYS_sendto, &given) {
                        Ok(written) => filled += written,
                        Err(_) => break,
                    }
                }
            }
            held.push(pair);
        }
        settled();
        Ok(format!("{want} MiB in {} pairs", held.len()))
    });
}

/// Computes until it is stopped or has had enough.
fn time(arguments: &Arguments, attempt: &mut Attempt) {
    let until = Instant::now() + Duration::from_millis(arguments.number("millis"));
    // SAFETY: installs the default way to ignore signals.
    unsafe {
        for signal in [
            libc::SIGTERM,
            libc::SIGINT,
            libc::SIGHUP,
            libc::SIGALRM,
            libc::SIGXCPU,
        ] {
            libc::signal(signal, libc::SIG_IGN);
        }
    }
    attempt.route("spin", || {
        let mut turns = 0_u64;
        while Instant::now() < until {
            turns = std::hint::black_box(turns + 1);
        }
        Ok(format!("{turns} turns"))
    });
}

/// Message queues hold memory of the host's user.
fn queue(_: &Arguments, attempt: &mut Attempt) {
    let name = format!("airlock-bomb-{}", std::process::id());
    attempt.route("mq_open", || {
        let name = text(&name);
        let flags = (libc::O_CREAT | libc::O_RDWR) as usize;
        open_call(
            libc::SYS_mq_open,
            &[at(name.as_bytes_with_nul()), flags, 0o600, 0],
        )?;
        let _ = call(libc::SYS_mq_unlink, &[at(name.as_bytes_with_nul())]);
        Ok("has a queue".to_owned())
    });
}

/// A path so deep that whoever walks it runs out of something.
fn names(arguments: &Arguments, attempt: &mut Attempt) {
    let want = arguments.number("want");
    let name = "d".repeat(200);
    attempt.route("nested directories", || {
        std::env::set_current_dir(arguments.path("place"))?;
        for _ in 0..want {
            match fs::create_dir(&name) {
                Ok(()) => {}
                Err(error) => return Err(Fault::from(error)),
            }
            std::env::set_current_dir(&name)?;
        }
        if want == 0 {
            nothing("NONE")
        } else {
            Ok(format!("{want} levels"))
        }
    });
}
