//! Forbidden calls by every way there is to make a call.

use crate::Entry;
use crate::attempt::{Arguments, Attempt};
use crate::sys::{Fault, at, call, fd, in_child, nothing, old, open_call};
use serde_json::Value;
use std::path::Path;

pub(crate) const ATTACKS: &[Entry] = &[
    ("never-list", never_list),
    ("single-call", single_call),
    ("interrupt-gate", interrupt_gate),
    ("far-jump", far_jump),
    ("x32", x32),
    ("vsyscall", vsyscall),
    ("high-bits", high_bits),
    ("beyond-the-table", beyond_the_table),
    ("io-uring", io_uring),
    ("clone3", clone3),
    ("userfaultfd", userfaultfd),
    ("bpf", bpf),
    ("perf", perf),
    ("ldt", ldt),
    ("memory-of-null", memory_of_null),
];

/// Every call that is never allowed, with arguments that do no harm where it is.
fn never_list(arguments: &Arguments, attempt: &mut Attempt) {
    let calls = arguments
        .0
        .get("calls")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    let absent = arguments.list("absent");
    let mut refused = 0;
    for entry in calls {
        let word = entry
            .get(0)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        let Some(number) = entry.get(1).and_then(Value::as_i64) else {
            continue;
        };
        let answer = in_child(|| {
            // Without a terminal of its own `vhangup` hangs up nothing.
            let _ = call(libc::SYS_setsid, &[]);
            let given = harmless(&word);
            match call(number, &given) {
                Ok(_) => Ok("success".to_owned()),
                Err(fault) => Err(fault),
            }
        });
        match answer {
            Err(Fault::Errno(libc::EPERM)) => refused += 1,
            Err(Fault::Errno(libc::ENOSYS)) if absent.contains(&word) => refused += 1,
            Ok(evidence) => attempt.route(word.clone(), || Ok(format!("{word}: {evidence}"))),
            Err(fault) => attempt.route(word.clone(), || {
                Ok(format!("{word} reached the kernel: {fault}"))
            }),
        }
    }
    attempt.route(format!("{refused} calls"), || {
        Err(Fault::Errno(libc::EPERM))
    });
}

/// Arguments that a kernel refuses or that change nothing.
fn harmless(word: &str) -> [usize; 6] {
    match word {
        "acct" | "swapon" | "swapoff" | "chroot" | "umount2" | "pivot_root" | "uselib" => [1; 6],
        "unshare" | "setfsuid" | "setfsgid" | "iopl" => [0; 6],
        "sethostname" | "setdomainname" => [1, usize::MAX >> 1, 0, 0, 0, 0],
        _ => [usize::MAX; 6],
    }
}

/// One call by number: whatever the kernel itself answers shows that no filter stood before it.
fn single_call(arguments: &Arguments, attempt: &mut Attempt) {
    let word = arguments.text("call");
    let number = arguments.number("number") as i64;
    let given: Vec<usize> = arguments
        .0
        .get("arguments")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .map(|value| value.as_i64().unwrap_or(0) as usize)
        .collect();
    attempt.route(word.clone(), || {
        in_child(|| match call(number, &given) {
            Ok(answer) => Ok(format!("{word} answered {answer}")),
            Err(Fault::Errno(libc::EPERM)) => Err(Fault::Errno(libc::EPERM)),
            Err(fault) => Ok(format!("the kernel itself answered {fault}")),
        })
    });
}

/// `getpid` through the 32-bit gate: if it answers, so would any call.
#[cfg(target_arch = "x86_64")]
fn interrupt_gate(_: &Arguments, attempt: &mut Attempt) {
    for (word, number) in [("getpid", 20_u64), ("unshare", 310), ("socket call", 102)] {
        attempt.route(format!("int 0x80 {word}"), || {
            in_child(|| {
                let mut result = number;
                // SAFETY: the gate takes its arguments from registers and keeps the others.
                unsafe {
                    std::arch::asm!(
                        "push rbx", "xor ebx, ebx", "int 0x80", "pop rbx",
                        inout("rax") result, in("rcx") 0, in("rdx") 0, out("r8") _, out("r9") _,
                        out("r10") _, out("r11") _
                    );
                }
                Ok(format!("answered {:#x}", result as u32))
            })
        });
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn interrupt_gate(_: &Arguments, attempt: &mut Attempt) {
    attempt.route("int 0x80", || nothing("NO-SUCH-GATE"));
}

/// Into a 32-bit code segment and from there to a call, in memory below four gibibytes.
#[cfg(target_arch = "x86_64")]
fn far_jump(_: &Arguments, attempt: &mut Attempt) {
    attempt.route("far return to 32-bit code, int 0x80", || {
        in_child(|| {
            let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_32BIT) as usize;
            let protection = (libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC) as usize;
            let page = call(libc::SYS_mmap, &[0, 4096, protection, flags, usize::MAX, 0])?;
            // mov eax, 20 (getpid); int 0x80; then a far return to the 64-bit caller.
            let code: [u8; 8] = [0xb8, 20, 0, 0, 0, 0xcd, 0x80, 0xcb];
            // SAFETY: the page is writable and larger than the code.
            unsafe { std::ptr::copy_nonoverlapping(code.as_ptr(), page as *mut u8, code.len()) };
            let result: u64;
            // SAFETY: the stack is switched to the page's end, which 32-bit code can address, and
            // back; the code ends with a far return to the label.
            unsafe {
                std::arch::asm!(
                    "mov r12, rsp",
                    "lea rsp, [rdi + 4096 - 64]",
                    // A 32-bit return reaches no address above four gibibytes, so it lands next to
                    // the code, on a jump to the label.
                    "lea r13, [rip + 2f]",
                    "mov rsi, rdi",
                    "add rsi, 64",
                    "mov byte ptr [rsi], 0x41",
                    "mov byte ptr [rsi + 1], 0xff",
                    "mov byte ptr [rsi + 2], 0xe5",
                    "mov dword ptr [rsp], esi",
                    "mov dword ptr [rsp + 4], 0x33",
                    "sub rsp, 8",
                    "mov dword ptr [rsp], edi",
                    "mov dword ptr [rsp + 4], 0x23",
                    "retf",
                    "2:",
                    "mov rsp, r12",
                    inout("rdi") page => _, out("rax") result, out("rcx") _, out("rdx") _,
                    out("rsi") _, out("r8") _, out("r9") _, out("r10") _, out("r11") _,
                    out("r12") _, out("r13") _
                );
            }
            Ok(format!("answered {result:#x}"))
        })
    });
}

#[cfg(not(target_arch = "x86_64"))]
fn far_jump(_: &Arguments, attempt: &mut Attempt) {
    attempt.route("far return", || nothing("NO-SUCH-SEGMENT"));
}

/// The x32 bit on a number: a kernel without x32 says so, and a filter kills before that.
fn x32(_: &Arguments, attempt: &mut Attempt) {
    const BIT: i64 = 0x4000_0000;
    for (word, number) in [
        ("getpid", 39),
        ("unshare", 272),
        ("ptrace", 521),
        ("execve", 520),
    ] {
        attempt.route(format!("x32 {word}"), || {
            in_child(|| match call(BIT | number, &[0; 6]) {
                Ok(answer) => Ok(format!("answered {answer}")),
                Err(fault) => Ok(format!("the kernel itself answered {fault}")),
            })
        });
    }
}

/// The kernel's fixed page answers three calls. A forbidden number in the register must not be read.
#[cfg(target_arch = "x86_64")]
fn vsyscall(arguments: &Arguments, attempt: &mut Attempt) {
    for (word, address) in [
        ("gettimeofday", 0xffff_ffff_ff60_0000_u64),
        ("time", 0xffff_ffff_ff60_0400),
        ("getcpu", 0xffff_ffff_ff60_0800),
        ("between two entries", 0xffff_ffff_ff60_0007),
    ] {
        attempt.route(format!("vsyscall {word} with unshare's number"), || {
            in_child(|| {
                let before = std::fs::read_link("/proc/self/ns/user")?;
                // SAFETY: an entry of the page is a function of up to three arguments; the ones
                // given are null or flags, which all of them take.
                unsafe {
                    std::arch::asm!(
                        "call {entry}", entry = in(reg) address,
                        inout("rax") libc::SYS_unshare as u64 => _,
                        inout("rdi") 0_u64 => _, inout("rsi") 0_u64 => _, inout("rdx") 0_u64 => _,
                        out("rcx") _, out("r8") _, out("r9") _, out("r10") _, out("r11") _
                    );
                }
                changed(&before)
            })
        });
    }
    if arguments.is("plainly") {
        attempt.route("the same call by the instruction", || {
            in_child(|| {
                let before = std::fs::read_link("/proc/self/ns/user")?;
                call(libc::SYS_unshare, &[libc::CLONE_NEWUSER as usize])?;
                changed(&before)
            })
        });
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn vsyscall(_: &Arguments, attempt: &mut Attempt) {
    attempt.route("vsyscall", || nothing("NO-SUCH-PAGE"));
}

#[cfg(target_arch = "x86_64")]
fn changed(before: &Path) -> crate::sys::Try {
    let after = std::fs::read_link("/proc/self/ns/user")?;
    if after == before {
        return nothing("UNCHANGED");
    }
    Ok(format!("now in {}", after.display()))
}

/// The kernel takes 32 bits of a number; a filter that compared 64 would see another call.
fn high_bits(_: &Arguments, attempt: &mut Attempt) {
    for high in [1_i64 << 32, 1 << 63, 0x7fff_ffff << 32] {
        attempt.route(format!("unshare | {high:#x}"), || {
            in_child(|| {
                call(libc::SYS_unshare | high, &[libc::CLONE_NEWUSER as usize])?;
                Ok("made a namespace".to_owned())
            })
        });
    }
    // A socket whose domain has high bits, which the kernel cuts off.
    attempt.route("socket AF_INET with high bits", || {
        open_call(libc::SYS_socket, &[2 | (1 << 40), 1 | (1 << 33), 0])?;
        Ok("made an internet socket".to_owned())
    });
}

/// Calls newer than any table: a filter that lets the unknown through lets tomorrow's through.
fn beyond_the_table(arguments: &Arguments, attempt: &mut Attempt) {
    let from = arguments.number("newest") as i64;
    for number in from + 1..from + 40 {
        if let Ok(answer) = call(number, &[usize::MAX; 6]) {
            attempt.route(format!("call {number}"), || {
                Ok(format!("answered {answer}"))
            });
        }
    }
    // `listmount` and its like are known to newer kernels only by number.
    attempt.route("calls the table does not have", || {
        in_child(|| {
            for number in from + 1..from + 40 {
                match call(number, &[usize::MAX; 6]) {
                    Err(Fault::Errno(libc::ENOSYS)) => {}
                    Err(fault) => return Ok(format!("call {number} reached the kernel: {fault}")),
                    Ok(_) => return Ok(format!("call {number} succeeded")),
                }
            }
            Err(Fault::Errno(libc::ENOSYS))
        })
    });
}

fn io_uring(_: &Arguments, attempt: &mut Attempt) {
    attempt.route("io_uring_setup", || {
        let mut parameters = [0_u32; 30];
        let ring = open_call(
            libc::SYS_io_uring_setup,
            &[4, parameters.as_mut_ptr() as usize],
        )?;
        Ok(format!("has ring {}", fd(&ring)))
    });
    for (word, number) in [("io_uring_enter", 426_i64), ("io_uring_register", 427)] {
        attempt.route(word, || match call(number, &[usize::MAX; 6]) {
            Err(Fault::Errno(libc::EPERM)) => Err(Fault::Errno(libc::EPERM)),
            Err(fault) => Ok(format!("the kernel itself answered {fault}")),
            Ok(_) => Ok("answered".to_owned()),
        });
    }
}

/// A plain child by `clone3`, which a filter cannot look into.
fn clone3(_: &Arguments, attempt: &mut Attempt) {
    attempt.route("clone3", || {
        let mut request = [0_u64; 11];
        request[4] = libc::SIGCHLD as u64;
        let child = call(libc::SYS_clone3, &[at(&request), size_of_val(&request)])? as i32;
        if child == 0 {
            crate::sys::leave(0);
        }
        crate::sys::wait_for(child);
        Ok("made a child".to_owned())
    });
}

fn userfaultfd(_: &Arguments, attempt: &mut Attempt) {
    for flags in [1_usize, 0] {
        attempt.route(format!("userfaultfd {flags}"), || {
            open_call(libc::SYS_userfaultfd, &[flags])?;
            Ok("stops the kernel at will".to_owned())
        });
    }
    attempt.route("/dev/userfaultfd", || {
        crate::sys::open(Path::new("/dev/userfaultfd"), libc::O_RDWR)?;
        Ok("opened".to_owned())
    });
}

fn bpf(_: &Arguments, attempt: &mut Attempt) {
    attempt.route("bpf BPF_MAP_CREATE", || {
        // An array of one value of 8 bytes.
        let request: [u32; 32] = std::array::from_fn(|index| match index {
            0 => 2,
            1 => 4,
            2 => 8,
            3 => 1,
            _ => 0,
        });
        open_call(libc::SYS_bpf, &[0, at(&request), size_of_val(&request)])?;
        Ok("has a map in the kernel".to_owned())
    });
    attempt.route("BPF_PROG_LOAD", || {
        let request = [0_u64; 18];
        match call(libc::SYS_bpf, &[5, at(&request), size_of_val(&request)]) {
            Err(Fault::Errno(libc::EPERM)) => Err(Fault::Errno(libc::EPERM)),
            Err(fault) => Ok(format!("the kernel itself answered {fault}")),
            Ok(_) => Ok("loaded".to_owned()),
        }
    });
}

fn perf(_: &Arguments, attempt: &mut Attempt) {
    // Software clock of this process, without kernel and hypervisor: what an ordinary user may.
    let mut request = [0_u64; 16];
    request[0] = 1 | (128 << 32);
    request[5] = (1 << 5) | (1 << 6);
    for process in [0_usize, 1] {
        attempt.route(format!("perf_event_open {process}"), || {
            let given = [at(&request), process, usize::MAX, usize::MAX, 0];
            open_call(libc::SYS_perf_event_open, &given)?;
            Ok("measures".to_owned())
        });
    }
}

fn ldt(_: &Arguments, attempt: &mut Attempt) {
    attempt.route("modify_ldt write", || {
        in_child(|| {
            // Entry 0, base 0, limit 0xfffff, 32-bit code in pages.
            let entry: [u32; 4] = [0, 0, 0xf_ffff, 0b0101_0001];
            call(old::MODIFY_LDT, &[1, at(&entry), 16])?;
            Ok("has a segment of its own".to_owned())
        })
    });
}

/// The page at address 0, which turns null pointers of the kernel into the attacker's.
fn memory_of_null(_: &Arguments, attempt: &mut Attempt) {
    attempt.route("mmap at 0", || {
        in_child(|| {
            let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED) as usize;
            call(libc::SYS_mmap, &[0, 4096, 3, flags, usize::MAX, 0])?;
            Ok("mapped".to_owned())
        })
    });
}
