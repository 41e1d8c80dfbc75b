//! Which calls are sent to the broker: the second filter, stacked on a profile's own.
//!
//! Every call that opens a file or changes one by its name is here, so that no name is ever
//! resolved by the kernel for a guarded process after it was judged. `stat`, `access`, `readlink`,
//! `chdir` and `execve` are not: they disclose no content. A script's interpreter opens it like any
//! file; a denied program can still be run where its mode allows.
//!
//! `open` and `openat` with `O_PATH` are let through: the kernel refuses to hand such a descriptor
//! over, it gives no content, and whatever is opened through it is judged. The flags are in a
//! register, out of reach of other threads. `openat2` keeps its flags in memory, so it is judged,
//! and answers `ENOSYS` to `O_PATH`.

use crate::seccomp::{Architecture, Instruction, Syscall};

/// A call the broker makes on behalf of a guarded process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    Open,
    OpenAt,
    OpenAt2,
    Create,
    Name(NameCall),
    File(FileCall),
    Attribute(AttributeCall),
    /// Newer than anything needs: answered as by an older kernel.
    Unknown,
}

/// A call that changes what names there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NameCall {
    Rename,
    RenameAt,
    RenameAt2,
    Link,
    LinkAt,
    Unlink,
    UnlinkAt,
    RemoveDirectory,
    MakeDirectory,
    MakeDirectoryAt,
    MakeNode,
    MakeNodeAt,
    Symlink,
    SymlinkAt,
}

/// A call that changes a file and not its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileCall {
    Truncate,
    ChangeMode,
    ChangeModeOf,
    ChangeModeAt,
    ChangeModeAt2,
    ChangeOwner,
    ChangeLinkOwner,
    ChangeOwnerOf,
    ChangeOwnerAt,
    Time,
    Times,
    TimesAt,
    TimesAtNanoseconds,
}

/// A call that changes extended attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AttributeCall {
    SetAttribute,
    SetLinkAttribute,
    SetAttributeOf,
    RemoveAttribute,
    RemoveLinkAttribute,
    RemoveAttributeOf,
}

/// Every call, with the kernel's name for it.
const CALLS: &[(&str, Call)] = &[
    ("open", Call::Open),
    ("openat", Call::OpenAt),
    ("openat2", Call::OpenAt2),
    ("creat", Call::Create),
    ("truncate", Call::File(FileCall::Truncate)),
    ("rename", Call::Name(NameCall::Rename)),
    ("renameat", Call::Name(NameCall::RenameAt)),
    ("renameat2", Call::Name(NameCall::RenameAt2)),
    ("link", Call::Name(NameCall::Link)),
    ("linkat", Call::Name(NameCall::LinkAt)),
    ("unlink", Call::Name(NameCall::Unlink)),
    ("unlinkat", Call::Name(NameCall::UnlinkAt)),
    ("rmdir", Call::Name(NameCall::RemoveDirectory)),
    ("mkdir", Call::Name(NameCall::MakeDirectory)),
    ("mkdirat", Call::Name(NameCall::MakeDirectoryAt)),
    ("mknod", Call::Name(NameCall::MakeNode)),
    ("mknodat", Call::Name(NameCall::MakeNodeAt)),
    ("symlink", Call::Name(NameCall::Symlink)),
    ("symlinkat", Call::Name(NameCall::SymlinkAt)),
    ("chmod", Call::File(FileCall::ChangeMode)),
    ("fchmod", Call::File(FileCall::ChangeModeOf)),
    ("fchmodat", Call::File(FileCall::ChangeModeAt)),
    ("fchmodat2", Call::File(FileCall::ChangeModeAt2)),
    ("chown", Call::File(FileCall::ChangeOwner)),
    ("lchown", Call::File(FileCall::ChangeLinkOwner)),
    ("fchown", Call::File(FileCall::ChangeOwnerOf)),
    ("fchownat", Call::File(FileCall::ChangeOwnerAt)),
    ("utime", Call::File(FileCall::Time)),
    ("utimes", Call::File(FileCall::Times)),
    ("futimesat", Call::File(FileCall::TimesAt)),
    ("utimensat", Call::File(FileCall::TimesAtNanoseconds)),
    ("setxattr", Call::Attribute(AttributeCall::SetAttribute)),
    (
        "lsetxattr",
        Call::Attribute(AttributeCall::SetLinkAttribute),
    ),
    ("fsetxattr", Call::Attribute(AttributeCall::SetAttributeOf)),
    (
        "removexattr",
        Call::Attribute(AttributeCall::RemoveAttribute),
    ),
    (
        "lremovexattr",
        Call::Attribute(AttributeCall::RemoveLinkAttribute),
    ),
    (
        "fremovexattr",
        Call::Attribute(AttributeCall::RemoveAttributeOf),
    ),
    ("setxattrat", Call::Unknown),
    ("removexattrat", Call::Unknown),
    ("file_setattr", Call::Unknown),
    ("name_to_handle_at", Call::Unknown),
    ("open_by_handle_at", Call::Unknown),
];

const LOAD: u16 = 0x20;
const JUMP_EQUAL: u16 = 0x15;
const JUMP_SET: u16 = 0x45;
const RETURN: u16 = 0x06;

const NUMBER: u32 = 0;
/// The low half of the second and third argument, on little-endian machines.
const SECOND: u32 = 24;
const THIRD: u32 = 32;

const ERRNO: u32 = 0x0005_0000;
const EOPNOTSUPP: u32 = 95;
const ALLOW: u32 = 0x7fff_0000;
const NOTIFY: u32 = 0x7fc0_0000;

const O_PATH: u32 = 0o10_000_000;

/// The calls by number.
pub(super) fn numbers(architecture: Architecture) -> Vec<(u32, Call)> {
    let number = |(name, call): &(&str, Call)| {
        let number = Syscall::find(name)?.number(architecture)?;
        Some((number, *call))
    };
    CALLS.iter().filter_map(number).collect()
}

/// Reading extended attributes by a path, which would show those of a denied file. Programs know
/// file systems that have none; through an open file they can still be read.
const ATTRIBUTES: &[&str] = &["getxattr", "lgetxattr", "listxattr", "llistxattr"];

/// The filter that sends them to the listener and allows everything else.
///
/// It is no filter on its own: calls of a foreign ABI pass it, and are for the profile's to kill.
pub(crate) fn notify_filter(architecture: Architecture) -> Vec<Instruction> {
    let calls = numbers(architecture);
    let mut program = vec![step(LOAD, NUMBER)];
    let absent = ATTRIBUTES.iter().filter_map(|name| Syscall::find(name));
    for number in absent.filter_map(|call| call.number(architecture)) {
        program.push(branch(JUMP_EQUAL, number, 0, 1));
        program.push(step(RETURN, ERRNO | EOPNOTSUPP));
    }
    for (place, (number, call)) in calls.iter().enumerate() {
        // From the instruction after this one: past the other comparisons and the first answer.
        let end = calls.len() - place;
        let distance = if *call == Call::Open {
            end
        } else if *call == Call::OpenAt {
            end + 2
        } else {
            end + 5
        };
        let distance = u8::try_from(distance).unwrap_or(u8::MAX);
        program.push(branch(JUMP_EQUAL, *number, distance, 0));
    }
    program.extend([
        step(RETURN, ALLOW),
        step(LOAD, SECOND),
        branch(JUMP_SET, O_PATH, 2, 3),
        step(LOAD, THIRD),
        branch(JUMP_SET, O_PATH, 0, 1),
        step(RETURN, ALLOW),
        step(RETURN, NOTIFY),
    ]);
    program
}

const fn step(code: u16, operand: u32) -> Instruction {
    branch(code, operand, 0, 0)
}

const fn branch(code: u16, operand: u32, jump_true: u8, jump_false: u8) -> Instruction {
    Instruction {
        code,
        jump_true,
        jump_false,
        operand,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the program answers, by running it as the kernel would.
    fn answer(program: &[Instruction], number: u32, arguments: [u32; 6]) -> u32 {
        let (mut at, mut value) = (0, 0);
        loop {
            let instruction = program[at];
            at += 1;
            match instruction.code {
                LOAD if instruction.operand == NUMBER => value = number,
                LOAD => value = arguments[(instruction.operand as usize - 16) / 8],
                JUMP_EQUAL | JUMP_SET => {
                    let holds = match instruction.code {
                        JUMP_EQUAL => value == instruction.operand,
                        _ => value & instruction.operand != 0,
                    };
                    at += usize::from(if holds {
                        instruction.jump_true
                    } else {
                        instruction.jump_false
                    });
                }
                RETURN => return instruction.operand,
                code => panic!("{code}"),
            }
        }
    }

    #[test]
    fn just_the_listed_calls_are_sent_and_none_with_a_bare_path_descriptor() {
        for architecture in Architecture::ALL {
            let program = notify_filter(*architecture);
            assert!(program.len() < 250);
            let calls = numbers(*architecture);
            for number in 0..500 {
                let listed = calls.iter().find(|(known, _)| *known == number);
                let attribute = ATTRIBUTES
                    .iter()
                    .filter_map(|name| Syscall::find(name))
                    .any(|call| call.number(*architecture) == Some(number));
                let want = match (attribute, listed.is_some()) {
                    (true, _) => ERRNO | EOPNOTSUPP,
                    (false, true) => NOTIFY,
                    (false, false) => ALLOW,
                };
                assert_eq!(answer(&program, number, [0; 6]), want, "{number}");
                let path = answer(&program, number, [O_PATH; 6]);
                let bare = matches!(listed, Some((_, Call::Open | Call::OpenAt)));
                assert_eq!(path, if bare { ALLOW } else { want }, "{number}");
            }
        }
    }

    #[test]
    fn a_name_with_a_number_is_listed_on_some_architecture() {
        for (name, _) in CALLS {
            assert!(Syscall::find(name).is_some(), "{name}");
        }
    }
}
