//! The ones attacked: they hold a secret, say that they are ready, and wait for their input to end.

use crate::attempt::Arguments;
use crate::sys::{Try, at, call, fd, open, open_call, text};
use serde_json::{Value, json};
use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::ExitCode;

pub(crate) fn play(kind: &str, arguments: &Arguments) -> ExitCode {
    let held = match kind {
        "sleeper" => sleeper(arguments),
        "exchange" => exchange(arguments),
        "key" => key(arguments),
        "terminal" => terminal(),
        _ => return ExitCode::from(crate::MISUSED),
    };
    match held {
        Ok(told) => {
            println!("{told}");
            let _ = std::io::stdout().flush();
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
            clean(kind, arguments, &told);
            ExitCode::SUCCESS
        }
        Err(fault) => {
            println!("{}", json!({ "failed": fault.to_string() }));
            ExitCode::FAILURE
        }
    }
}

/// Holds the secret on its stack, in its environment (which the suite set) and in an open file.
fn sleeper(arguments: &Arguments) -> Try<Value> {
    let mut secret = [0_u8; 64];
    let marker = arguments.text("marker");
    for (to, from) in secret.iter_mut().zip(marker.bytes()) {
        *to = from;
    }
    std::hint::black_box(&secret);
    let path = arguments.text("path");
    if !path.is_empty() {
        // Kept open until the end of the process.
        std::mem::forget(open(Path::new(&path), libc::O_RDONLY)?);
        let _ = fs::remove_file(&path);
    }
    Ok(json!({ "pid": std::process::id() }))
}

/// Shared memory and message queues of the host.
fn exchange(arguments: &Arguments) -> Try<Value> {
    let marker = arguments.text("marker");
    let key = arguments.number("key") as usize;
    let flags = libc::IPC_CREAT as usize | 0o666;
    let segment = call(libc::SYS_shmget, &[key, 4096, flags])?;
    let start = call(libc::SYS_shmat, &[segment, 0, 0])?;
    // SAFETY: the kernel attached one page, and a marker is far shorter.
    unsafe { std::ptr::copy_nonoverlapping(marker.as_ptr(), start as *mut u8, marker.len()) };
    let queue = call(libc::SYS_msgget, &[key, flags])?;
    let mut message = 1_u64.to_ne_bytes().to_vec();
    message.extend(marker.bytes());
    call(
        libc::SYS_msgsnd,
        &[queue, at(message.as_slice()), marker.len(), 0],
    )?;
    let name = text(&arguments.text("queue"));
    let flags = (libc::O_CREAT | libc::O_RDWR) as usize;
    let mailbox = open_call(
        libc::SYS_mq_open,
        &[at(name.as_bytes_with_nul()), flags, 0o666, 0],
    )?;
    call(
        libc::SYS_mq_timedsend,
        &[fd(&mailbox), at(marker.as_bytes()), marker.len(), 0, 0],
    )?;
    Ok(json!({ "pid": std::process::id(), "segment": segment, "messages": queue }))
}

/// A secret in the ring of keys of the user.
fn key(arguments: &Arguments) -> Try<Value> {
    let (kind, description) = (text("user"), text(&arguments.text("description")));
    let marker = arguments.text("marker");
    let key = call(
        libc::SYS_add_key,
        &[
            at(kind.as_bytes_with_nul()),
            at(description.as_bytes_with_nul()),
            at(marker.as_bytes()),
            marker.len(),
            -4_isize as usize,
        ],
    )?;
    // Everything to the possessor and the user.
    let _ = call(libc::SYS_keyctl, &[5, key, 0x3f3f_0000]);
    Ok(json!({ "key": key }))
}

/// A terminal someone sits at.
fn terminal() -> Try<Value> {
    let main = open(Path::new("/dev/ptmx"), libc::O_RDWR | libc::O_NOCTTY)?;
    let (mut number, unlocked) = (0_i32, 0_i32);
    call(libc::SYS_ioctl, &[fd(&main), 0x4004_5431, at(&unlocked)])?;
    call(
        libc::SYS_ioctl,
        &[fd(&main), 0x8004_5430, &raw mut number as usize],
    )?;
    std::mem::forget(main);
    Ok(json!({ "path": format!("/dev/pts/{number}") }))
}

fn clean(kind: &str, arguments: &Arguments, told: &Value) {
    let number = |key: &str| told.get(key).and_then(Value::as_u64).unwrap_or(0) as usize;
    let remove = libc::IPC_RMID as usize;
    match kind {
        "exchange" => {
            let _ = call(libc::SYS_shmctl, &[number("segment"), remove, 0]);
            let _ = call(libc::SYS_msgctl, &[number("messages"), remove, 0]);
            let name = text(&arguments.text("queue"));
            let _ = call(libc::SYS_mq_unlink, &[at(name.as_bytes_with_nul())]);
        }
        "key" => {
            // KEYCTL_UNLINK from the user's ring.
            let _ = call(libc::SYS_keyctl, &[9, number("key"), -4_isize as usize]);
        }
        _ => {}
    }
}
