//! Compiled filters, run by a small interpreter: each row passes, each change of an argument does
//! not, everything else is refused with the exact answer. Both architectures, on any Linux.
#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use airlock_sandbox::seccomp::{
    ABSENT, Architecture, Check, Instruction, NEVER, Profile, SYSCALLS, Syscall, compile, oci,
};

const ALLOW: u32 = 0x7fff_0000;
const KILL_PROCESS: u32 = 0x8000_0000;
const EPERM: u32 = 0x0005_0001;
const ENOSYS: u32 = 0x0005_0026;

/// The low 32 bits.
fn low(value: u64) -> u32 {
    u32::try_from(value & 0xffff_ffff).unwrap()
}

/// What the kernel shows a filter of one call.
#[derive(Debug, Clone, Copy)]
struct Call {
    number: u32,
    audit: u32,
    arguments: [u64; 6],
}

impl Call {
    fn word(&self, offset: u32) -> u32 {
        let halves = |value: u64| [low(value), low(value >> 32)];
        let mut words = vec![self.number, self.audit, 0xdead_beef, 0xdead_beef];
        words.extend(self.arguments.into_iter().flat_map(halves));
        assert_eq!(offset % 4, 0);
        words[offset as usize / 4]
    }
}

/// Runs a program as the kernel would, and refuses what the kernel's own check would refuse.
fn run(program: &[Instruction], call: &Call) -> u32 {
    let (mut accumulator, mut at) = (0_u32, 0_usize);
    loop {
        let Instruction {
            code,
            jump_true,
            jump_false,
            operand,
        } = program[at];
        at += 1;
        let holds = match code {
            0x20 => {
                accumulator = call.word(operand);
                continue;
            }
            0x54 => {
                accumulator &= operand;
                continue;
            }
            0x05 => {
                at += operand as usize;
                continue;
            }
            0x06 => return operand,
            0x15 => accumulator == operand,
            0x25 => accumulator > operand,
            0x35 => accumulator >= operand,
            0x45 => accumulator & operand != 0,
            other => panic!("unknown operation {other:#x}"),
        };
        at += usize::from(if holds { jump_true } else { jump_false });
    }
}

fn audit(architecture: Architecture) -> u32 {
    match architecture {
        Architecture::X86_64 => 0xc000_003e,
        Architecture::Aarch64 => 0xc000_00b7,
    }
}

fn call(architecture: Architecture, number: u32, arguments: [u64; 6]) -> Call {
    Call {
        number,
        audit: audit(architecture),
        arguments,
    }
}

/// Arguments that meet the checks; what no check looks at is noise.
fn meeting(checks: &[Check]) -> [u64; 6] {
    let mut arguments = [0xa5a5_a5a5_a5a5_a5a5; 6];
    for check in checks {
        arguments[usize::from(check.argument)] = u64::from(check.value);
    }
    arguments
}

/// What the rows say, without the compiler.
fn expected(profile: Profile, name: &str, arguments: &[u64; 6]) -> u32 {
    let holds =
        |check: &Check| low(arguments[usize::from(check.argument)]) & check.mask == check.value;
    let allowed = profile
        .rows()
        .any(|row| row.syscall == name && row.when.iter().all(holds));
    match (allowed, name) {
        (_, name) if ABSENT.contains(&name) => ENOSYS,
        (true, _) => ALLOW,
        (false, _) => EPERM,
    }
}

fn everywhere(test: impl Fn(Profile, Architecture, &[Instruction])) {
    for profile in Profile::ALL {
        for architecture in Architecture::ALL {
            let program = compile(*profile, *architecture).unwrap();
            test(*profile, *architecture, &program);
        }
    }
}

fn number(name: &str, architecture: Architecture) -> Option<u32> {
    Syscall::find(name).unwrap().number(architecture)
}

#[test]
fn each_row_passes_as_written_and_with_high_bits_the_kernel_ignores() {
    everywhere(|profile, architecture, program| {
        for row in profile.rows() {
            let Some(number) = number(row.syscall, architecture) else {
                continue;
            };
            let mut arguments = meeting(row.when);
            let got = run(program, &call(architecture, number, arguments));
            assert_eq!(got, ALLOW, "{profile:?} {architecture:?} {row:?}");
            for check in row.when {
                arguments[usize::from(check.argument)] |= 0xffff_ffff_0000_0000;
            }
            let got = run(program, &call(architecture, number, arguments));
            assert_eq!(got, ALLOW, "{profile:?} {architecture:?} {row:?}");
        }
    });
}

#[test]
fn each_changed_bit_of_a_checked_argument_is_judged_by_the_rows_alone() {
    everywhere(|profile, architecture, program| {
        let mut refused = 0;
        for row in profile.rows() {
            let Some(number) = number(row.syscall, architecture) else {
                continue;
            };
            for check in row.when {
                let place = usize::from(check.argument);
                for bit in 0..32 {
                    let mut arguments = meeting(row.when);
                    arguments[place] ^= 1 << bit;
                    let want = expected(profile, row.syscall, &arguments);
                    let got = run(program, &call(architecture, number, arguments));
                    assert_eq!(got, want, "{profile:?} {architecture:?} {row:?} bit {bit}");
                    refused += u32::from(got == EPERM);
                }
            }
        }
        assert!(refused > 100, "the changes must matter: {refused}");
    });
}

#[test]
fn every_call_there_is_gets_what_the_rows_say() {
    everywhere(|profile, architecture, program| {
        for syscall in SYSCALLS {
            let Some(number) = syscall.number(architecture) else {
                continue;
            };
            for arguments in [[0; 6], [u64::MAX; 6], [1; 6]] {
                let want = expected(profile, syscall.name, &arguments);
                let got = run(program, &call(architecture, number, arguments));
                assert_eq!(
                    got, want,
                    "{profile:?} {architecture:?} {} {arguments:?}",
                    syscall.name
                );
            }
        }
    });
}

#[test]
fn what_must_never_be_answers_the_exact_error() {
    everywhere(|profile, architecture, program| {
        for never in NEVER {
            let Some(number) = number(never.syscall, architecture) else {
                continue;
            };
            let want = if ABSENT.contains(&never.syscall) {
                ENOSYS
            } else {
                EPERM
            };
            for arguments in [[0; 6], [u64::MAX; 6]] {
                let got = run(program, &call(architecture, number, arguments));
                assert_eq!(got, want, "{profile:?} {architecture:?} {}", never.syscall);
            }
        }
    });
}

#[test]
fn a_foreign_abi_is_killed_whatever_it_calls() {
    const I386: u32 = 0x4000_0003;
    const ARM: u32 = 0x4000_0028;
    everywhere(|profile, architecture, program| {
        let other = match architecture {
            Architecture::X86_64 => Architecture::Aarch64,
            Architecture::Aarch64 => Architecture::X86_64,
        };
        for foreign in [I386, ARM, audit(other), 0, u32::MAX] {
            for number in (0..500).chain([u32::MAX]) {
                let call = Call {
                    number,
                    audit: foreign,
                    arguments: [0; 6],
                };
                assert_eq!(
                    run(program, &call),
                    KILL_PROCESS,
                    "{profile:?} {foreign:#x} {number}"
                );
            }
        }
        // x32 differs from x86_64 by this bit of the number alone.
        for number in (0x4000_0000..0x4000_0300).chain([0x7fff_ffff, 0x8000_0000, 0xffff_fffe]) {
            let got = run(program, &call(architecture, number, [0; 6]));
            assert_eq!(got, KILL_PROCESS, "{profile:?} {number:#x}");
        }
    });
}

#[test]
fn a_call_newer_than_the_table_does_not_exist_and_a_skipped_one_is_refused() {
    everywhere(|_, architecture, program| {
        for number in [470, 471, 512, 547, 1_000, 0x3fff_ffff] {
            assert_eq!(
                run(program, &call(architecture, number, [0; 6])),
                ENOSYS,
                "{number}"
            );
        }
        assert_eq!(run(program, &call(architecture, u32::MAX, [0; 6])), EPERM);
    });
}

/// What it is, the call, its first arguments, the profiles, the answer.
type Case<'a> = (&'a str, &'a str, &'a [u64], &'a [Profile], u32);

const ALL: &[Profile] = Profile::ALL;
const STRICT: &[Profile] = &[Profile::Strict];
const STANDARD: &[Profile] = &[Profile::Standard, Profile::StandardNet];
const WITHOUT_NET: &[Profile] = &[Profile::Strict, Profile::Standard];
const WITH_NET: &[Profile] = &[Profile::StandardNet];

fn assert_answers(cases: &[Case<'_>]) {
    for (case, name, given, profiles, want) in cases {
        let mut arguments = [0; 6];
        arguments[..given.len()].copy_from_slice(given);
        for profile in *profiles {
            for architecture in Architecture::ALL {
                let program = compile(*profile, *architecture).unwrap();
                let number = number(name, *architecture).unwrap();
                let got = run(&program, &call(*architecture, number, arguments));
                assert_eq!(got, *want, "{case}: {profile:?} {architecture:?}");
            }
        }
    }
}

#[test]
fn processes_terminals_and_devices_are_what_the_profile_is_for() {
    const SIGNAL: u64 = 0x11;
    const NEW_USER: u64 = 0x1000_0000;
    const THREAD: u64 = 0x003d_0f00;
    assert_answers(&[
        ("thread", "clone", &[THREAD], ALL, ALLOW),
        ("process", "clone", &[SIGNAL], STANDARD, ALLOW),
        ("process of a worker", "clone", &[SIGNAL], STRICT, EPERM),
        ("user namespace", "clone", &[NEW_USER | SIGNAL], ALL, EPERM),
        (
            "user namespace beside a thread",
            "clone",
            &[NEW_USER | THREAD],
            ALL,
            EPERM,
        ),
        ("opening by a worker", "openat", &[], STRICT, EPERM),
        ("exec by a worker", "execve", &[], STRICT, EPERM),
        ("typing into a terminal", "ioctl", &[0, 0x5412], ALL, EPERM),
        (
            "typing, with a high bit",
            "ioctl",
            &[0, 0x1_0000_5412],
            ALL,
            EPERM,
        ),
        ("console selection", "ioctl", &[0, 0x541c], ALL, EPERM),
        ("line discipline", "ioctl", &[0, 0x5423], ALL, EPERM),
        ("size of the window", "ioctl", &[0, 0x5413], STANDARD, ALLOW),
        (
            "device by mknodat",
            "mknodat",
            &[0, 0, 0o020_666],
            ALL,
            EPERM,
        ),
        ("block device", "mknodat", &[0, 0, 0o060_666], ALL, EPERM),
        ("named pipe", "mknodat", &[0, 0, 0o010_666], STANDARD, ALLOW),
        ("seccomp by prctl", "prctl", &[22, 2], ALL, EPERM),
        ("memory map", "prctl", &[35], ALL, EPERM),
        ("core dumps on", "prctl", &[4, 1], ALL, EPERM),
        ("ambient capabilities", "prctl", &[47], ALL, EPERM),
    ]);
}

#[test]
fn limits_and_scheduling_are_ones_own() {
    const PROCESS: u64 = 0;
    const GROUP: u64 = 1;
    const USER: u64 = 2;
    const OTHER: u64 = 0;
    const IDLE: u64 = 5;
    assert_answers(&[
        ("own limits", "prlimit64", &[0, 7], ALL, ALLOW),
        ("limits of another", "prlimit64", &[1, 7], ALL, EPERM),
        (
            "own niceness",
            "setpriority",
            &[PROCESS, 0],
            STANDARD,
            ALLOW,
        ),
        (
            "niceness of another",
            "setpriority",
            &[PROCESS, 1],
            ALL,
            EPERM,
        ),
        (
            "that of the group",
            "setpriority",
            &[GROUP, 0],
            STANDARD,
            ALLOW,
        ),
        (
            "that of another group",
            "setpriority",
            &[GROUP, 1],
            ALL,
            EPERM,
        ),
        ("that of everybody", "setpriority", &[USER, 0], ALL, EPERM),
        (
            "own policy",
            "sched_setscheduler",
            &[0, IDLE],
            STANDARD,
            ALLOW,
        ),
        (
            "policy of another",
            "sched_setscheduler",
            &[1, IDLE],
            ALL,
            EPERM,
        ),
        (
            "a library for its thread",
            "sched_setscheduler",
            &[1, OTHER],
            STANDARD,
            ALLOW,
        ),
        ("own attributes", "sched_setattr", &[0], STANDARD, ALLOW),
        ("attributes of another", "sched_setattr", &[1], ALL, EPERM),
        ("reading before others", "ioprio_set", &[1, 1], ALL, EPERM),
    ]);
}

#[test]
fn sockets_are_what_the_profile_is_for() {
    assert_answers(&[
        ("unix", "socket", &[1, 0x8_0001, 0], ALL, ALLOW),
        (
            "unix datagrams of a worker",
            "socket",
            &[1, 2, 0],
            STRICT,
            EPERM,
        ),
        ("tcp", "socket", &[2, 1, 0], WITHOUT_NET, EPERM),
        (
            "tcp with a high bit",
            "socket",
            &[0x1_0000_0002, 1, 0],
            WITHOUT_NET,
            EPERM,
        ),
        ("tcp over ipv6", "socket", &[10, 1, 6], WITHOUT_NET, EPERM),
        ("tcp in tests", "socket", &[2, 0x8_0801, 6], WITH_NET, ALLOW),
        ("raw", "socket", &[2, 3, 1], ALL, EPERM),
        ("ping", "socket", &[2, 2, 1], ALL, EPERM),
        ("multipath tcp", "socket", &[2, 1, 262], ALL, EPERM),
        ("packet", "socket", &[17, 3, 0], ALL, EPERM),
        ("kernel crypto", "socket", &[38, 5, 0], ALL, EPERM),
        ("virtual machine", "socket", &[40, 1, 0], ALL, EPERM),
        ("reading routes", "socket", &[16, 3, 0], STANDARD, ALLOW),
        ("routes of a worker", "socket", &[16, 3, 0], STRICT, EPERM),
        ("audit netlink", "socket", &[16, 3, 9], ALL, EPERM),
        ("netfilter", "socket", &[16, 3, 12], ALL, EPERM),
        ("kernel objects", "socket", &[16, 2, 15], ALL, EPERM),
    ]);
}

/// The kernel takes at most 4096 instructions, and checks every jump.
#[test]
fn programs_are_ones_the_kernel_takes() {
    everywhere(|profile, architecture, program| {
        let length = program.len();
        assert!(length < 4_096, "{profile:?} {architecture:?}: {length}");
        assert_eq!(program[length - 1].code, 0x06);
        for (at, instruction) in program.iter().enumerate() {
            let furthest = match instruction.code {
                0x05 => instruction.operand as usize,
                _ => usize::from(instruction.jump_true.max(instruction.jump_false)),
            };
            assert!(
                at + 1 + furthest < length || instruction.code == 0x06,
                "{at}"
            );
        }
    });
}

#[test]
fn engines_read_the_same_tables() {
    everywhere(|profile, architecture, program| {
        let json = oci(profile, architecture);
        assert_eq!(json["defaultAction"], "SCMP_ACT_ERRNO");
        assert_eq!(json["defaultErrnoRet"], 1);
        for syscall in SYSCALLS {
            let Some(number) = syscall.number(architecture) else {
                continue;
            };
            for arguments in [
                [0; 6],
                [u64::MAX; 6],
                [1; 6],
                [2, 1, 6, 0, 0, 0],
                [0, 0x5412, 0, 0, 0, 0],
            ] {
                let want = run(program, &call(architecture, number, arguments));
                assert_eq!(
                    judged(&json, syscall.name, &arguments),
                    want,
                    "{}",
                    syscall.name
                );
            }
        }
    });
}

/// What an engine does by the JSON.
fn judged(json: &serde_json::Value, name: &str, arguments: &[u64; 6]) -> u32 {
    let holds = |argument: &serde_json::Value| {
        assert_eq!(argument["op"], "SCMP_CMP_MASKED_EQ");
        let index = usize::try_from(argument["index"].as_u64().unwrap()).unwrap();
        arguments[index] & argument["value"].as_u64().unwrap()
            == argument["valueTwo"].as_u64().unwrap()
    };
    let rules = json["syscalls"].as_array().unwrap();
    let rule = rules.iter().find(|rule| {
        let named = rule["names"]
            .as_array()
            .unwrap()
            .iter()
            .any(|own| own == name);
        named
            && rule["args"]
                .as_array()
                .is_none_or(|all| all.iter().all(holds))
    });
    match rule.map(|rule| rule["action"].as_str().unwrap()) {
        Some("SCMP_ACT_ALLOW") => ALLOW,
        Some("SCMP_ACT_ERRNO") => ENOSYS,
        None => EPERM,
        Some(other) => panic!("{other}"),
    }
}
