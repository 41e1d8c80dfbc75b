//! Forbidden calls by every route.

use super::nothing;
use crate::attack::{Attack, Class};
use crate::scene::Scene;
use airlock_sandbox::Wall::{Root, Seccomp};
use airlock_sandbox::seccomp::{ABSENT, Architecture, NEVER, SYSCALLS, Syscall};
use serde_json::{Value, json};

const fn row(
    name: &'static str,
    probe: &'static str,
    about: &'static str,
    scene: fn(&mut Scene) -> Value,
) -> Attack {
    Attack::new(Class::Syscalls, name, probe, about, scene).by(&[Seccomp])
}

const REFUSED: &[&str] = &["EPERM"];

pub(super) const ROWS: &[Attack] = &[
    row(
        "never-list",
        "never-list",
        "every call that is never allowed",
        never,
    )
    .denied(REFUSED),
    row(
        "interrupt-gate",
        "interrupt-gate",
        "32-bit calls by int 0x80",
        nothing,
    )
    .denied(&["SIGSYS"]),
    row(
        "far-jump",
        "far-jump",
        "32-bit code by a far return",
        nothing,
    )
    .denied(&["SIGSYS"]),
    row("x32", "x32", "calls of the x32 ABI", nothing).denied(&["SIGSYS"]),
    row(
        "vsyscall",
        "vsyscall",
        "another number through the kernel's fixed page",
        plainly,
    )
    .denied(&["UNCHANGED", "SIGSEGV", "SIGSYS"]),
    row(
        "high-bits",
        "high-bits",
        "numbers and arguments with bits the kernel drops",
        nothing,
    )
    .denied(&["EPERM", "ENOSYS", "SIGSYS"]),
    row(
        "beyond-the-table",
        "beyond-the-table",
        "calls newer than the tables",
        newest,
    )
    .denied(&["ENOSYS"]),
    row("io-uring", "io-uring", "opening files by io_uring", nothing).denied(REFUSED),
    row("clone3", "clone3", "processes by clone3", nothing).denied(&["ENOSYS"]),
    row(
        "userfaultfd",
        "userfaultfd",
        "stopping the kernel in a page fault",
        nothing,
    )
    .denied(&["EPERM", "ENOENT"])
    .by(&[Seccomp, Root]),
    row("bpf", "bpf", "programs in the kernel", nothing)
        .root()
        .denied(REFUSED),
    row("perf", "perf", "performance counters", nothing).denied(REFUSED),
    row("ldt", "ldt", "a segment of its own", nothing).denied(REFUSED),
    row("load-module", "single-call", "init_module", |_| {
        single("init_module", &[0, 0, 0])
    })
    .root()
    .denied(REFUSED),
    row("load-module-file", "single-call", "finit_module", |_| {
        single("finit_module", &[-1, 0, 0])
    })
    .root()
    .denied(REFUSED),
    row("load-kernel", "single-call", "kexec_load", |_| {
        single("kexec_load", &[0, 0, 0, 0])
    })
    .root()
    .denied(REFUSED),
    row(
        "reboot",
        "single-call",
        "reboot with a wrong magic number",
        |_| single("reboot", &[0, 0, 0, 0]),
    )
    .root()
    .denied(REFUSED),
    row("swap", "single-call", "swapon", |_| {
        single("swapon", &[1, 0])
    })
    .root()
    .denied(REFUSED),
    row("accounting", "single-call", "acct", |_| {
        single("acct", &[1])
    })
    .root()
    .denied(REFUSED),
    row("quota", "single-call", "quotactl", |_| {
        single("quotactl", &[-1, 0, 0, 0])
    })
    .root()
    .denied(REFUSED),
    row("clock", "single-call", "settimeofday", |_| {
        single("settimeofday", &[1, 0])
    })
    .denied(REFUSED),
    row("clock-adjust", "single-call", "clock_adjtime", |_| {
        single("clock_adjtime", &[0, 1])
    })
    .denied(REFUSED),
    row("ports", "single-call", "iopl", |_| single("iopl", &[3]))
        .root()
        .denied(REFUSED),
    row("port-range", "single-call", "ioperm", |_| {
        single("ioperm", &[0, 1, 1])
    })
    .root()
    .denied(REFUSED),
    row(
        "null-page",
        "memory-of-null",
        "memory at address 0",
        nothing,
    )
    .root()
    .denied(&["EPERM", "EACCES"]),
    row(
        "pid-memory-advice",
        "single-call",
        "process_madvise",
        |_| single("process_madvise", &[-1, 0, 0, 0, 0]),
    )
    .denied(REFUSED),
    row("kernel-compare", "single-call", "kcmp", |_| {
        single("kcmp", &[0, 0, 99, 0, 0])
    })
    .denied(REFUSED),
    row("watch-queue", "single-call", "lookup_dcookie", |_| {
        single("lookup_dcookie", &[0, 0, 0])
    })
    .root()
    .denied(REFUSED),
];

fn architecture() -> Option<Architecture> {
    Architecture::find(std::env::consts::ARCH)
}

fn number(word: &str) -> Option<u32> {
    Syscall::find(word).and_then(|call| call.number(architecture()?))
}

fn single(word: &str, arguments: &[i64]) -> Value {
    json!({ "call": word, "number": number(word), "arguments": arguments })
}

fn never(_: &mut Scene) -> Value {
    let calls = NEVER
        .iter()
        .filter_map(|never| Some((never.syscall, number(never.syscall)?)));
    json!({ "calls": calls.collect::<Vec<_>>(), "absent": ABSENT })
}

fn plainly(scene: &mut Scene) -> Value {
    json!({ "plainly": !scene.confined })
}

/// The control begins where every kernel has calls.
fn newest(scene: &mut Scene) -> Value {
    let all = SYSCALLS
        .iter()
        .filter_map(|call| call.number(architecture()?));
    let newest = all.max().unwrap_or(0);
    json!({ "newest": if scene.confined { newest } else { newest - 39 } })
}
