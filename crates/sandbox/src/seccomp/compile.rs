//! Rows to a classic BPF program. Pure: the program is returned, not installed.
//!
//! A prologue gives the three special answers. After it calls are found by halving: neighbours with
//! the same answer are one range, so that a filter is a few hundred instructions of which a call
//! meets a dozen. The kernel runs a new filter once for every call there is, and translates all of
//! it, before anything else happens: a chain of comparisons costs a start a millisecond.

use super::{ABSENT, Architecture, Check, NEWEST, Profile, Syscall};
use std::collections::BTreeMap;

/// One instruction of a classic BPF program, field by field what the kernel reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Instruction {
    /// Operation.
    pub code: u16,
    /// Instructions to skip when a comparison holds.
    pub jump_true: u8,
    /// Instructions to skip when it does not.
    pub jump_false: u8,
    /// Operand.
    pub operand: u32,
}

/// Why a profile did not become a program.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// Too many checks of one call to jump over.
    #[error("the rows of one system call in `{0}` are too many")]
    TooLong(&'static str),
    /// A row names a call the number table does not have.
    #[error("no number is known for the system call `{0}`")]
    UnknownSyscall(&'static str),
}

const EPERM: u32 = 1;
const ENOSYS: u32 = 38;

const LOAD: u16 = 0x20;
const AND: u16 = 0x54;
const JUMP: u16 = 0x05;
const JUMP_EQUAL: u16 = 0x15;
const JUMP_GREATER: u16 = 0x25;
const JUMP_GREATER_EQUAL: u16 = 0x35;
const RETURN: u16 = 0x06;

const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
/// The low half of the first argument; both architectures store it first.
const FIRST_ARGUMENT: u32 = 16;

const KILL_PROCESS: u32 = 0x8000_0000;
const ERRNO: u32 = 0x0005_0000;
const ALLOW: u32 = 0x7fff_0000;

/// The bit that marks a call of the x32 ABI, which shares its architecture with x86_64.
const X32: u32 = 0x4000_0000;
/// What a tracer puts in place of a call to be skipped: no ABI's number.
const NO_CALL: u32 = u32::MAX;

/// The filter of `profile` for `architecture`.
pub fn compile(
    profile: Profile,
    architecture: Architecture,
) -> Result<Vec<Instruction>, CompileError> {
    let mut program = prologue(architecture)?;
    let ranges = ranges(rules(profile, architecture)?);
    let tree = tree(&ranges).ok_or(CompileError::TooLong(profile.name()))?;
    program.extend(tree);
    Ok(program)
}

fn prologue(architecture: Architecture) -> Result<Vec<Instruction>, CompileError> {
    let mut program = vec![
        step(LOAD, ARCHITECTURE),
        branch(JUMP_EQUAL, audit_value(architecture), 1, 0),
        step(RETURN, KILL_PROCESS),
        step(LOAD, NUMBER),
        branch(JUMP_EQUAL, NO_CALL, 2, 0),
        branch(JUMP_GREATER_EQUAL, X32, 0, 1),
        step(RETURN, KILL_PROCESS),
    ];
    for name in ABSENT {
        let number = Syscall::find(name).and_then(|call| call.number(architecture));
        let number = number.ok_or(CompileError::UnknownSyscall(name))?;
        program.push(branch(JUMP_EQUAL, number, 0, 1));
        program.push(step(RETURN, ERRNO | ENOSYS));
    }
    // What is skipped is no newer call, and refused like any that no row allows.
    program.push(branch(JUMP_EQUAL, NO_CALL, 2, 0));
    program.push(branch(JUMP_GREATER, NEWEST, 0, 1));
    program.push(step(RETURN, ERRNO | ENOSYS));
    Ok(program)
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

/// `AUDIT_ARCH_*`: the ELF machine with the bits for 64-bit and little-endian.
const fn audit_value(architecture: Architecture) -> u32 {
    match architecture {
        Architecture::X86_64 => 0xc000_003e,
        Architecture::Aarch64 => 0xc000_00b7,
    }
}

/// Sets of checks that each allow a call; an empty set allows any arguments.
type Alternatives = Vec<&'static [Check]>;

/// Calls from a number on, up to where the next range begins.
struct Range {
    first: u32,
    /// None of them, or the alternatives that allow them.
    allowed: Option<Alternatives>,
}

impl Range {
    /// Whether the same is answered whatever the arguments are, and what.
    fn certain(&self) -> Option<u32> {
        match &self.allowed {
            None => Some(ERRNO | EPERM),
            Some(alternatives) if alternatives.iter().any(|checks| checks.is_empty()) => {
                Some(ALLOW)
            }
            Some(_) => None,
        }
    }
}

/// Alternatives by number.
fn rules(
    profile: Profile,
    architecture: Architecture,
) -> Result<BTreeMap<u32, Alternatives>, CompileError> {
    let mut rules: BTreeMap<u32, Alternatives> = BTreeMap::new();
    for row in profile.rows() {
        let call = Syscall::find(row.syscall).ok_or(CompileError::UnknownSyscall(row.syscall))?;
        if let Some(number) = call.number(architecture) {
            rules.entry(number).or_default().push(row.when);
        }
    }
    Ok(rules)
}

/// Every number there is, in ranges with one answer.
fn ranges(rules: BTreeMap<u32, Alternatives>) -> Vec<Range> {
    let mut ranges: Vec<Range> = Vec::new();
    let mut add = |first: u32, allowed: Option<Alternatives>| {
        let next = Range { first, allowed };
        let same = ranges
            .last()
            .is_some_and(|last| last.certain().is_some() && last.certain() == next.certain());
        if !same {
            ranges.push(next);
        }
    };
    let mut free = 0;
    for (number, alternatives) in rules {
        if number > free {
            add(free, None);
        }
        add(number, Some(alternatives));
        free = number + 1;
    }
    add(free, None);
    ranges
}

/// Finds the range of the number in the accumulator by halving, and answers for it.
fn tree(ranges: &[Range]) -> Option<Vec<Instruction>> {
    let (lower, upper) = ranges.split_at(ranges.len() / 2);
    let first = upper.first()?;
    if lower.is_empty() {
        return answer(first);
    }
    let (lower, upper) = (tree(lower)?, tree(upper)?);
    let distance = u32::try_from(lower.len()).ok()?;
    let mut program = match u8::try_from(distance) {
        Ok(near) => vec![branch(JUMP_GREATER_EQUAL, first.first, near, 0)],
        Err(_) => vec![
            branch(JUMP_GREATER_EQUAL, first.first, 0, 1),
            step(JUMP, distance),
        ],
    };
    program.extend(lower);
    program.extend(upper);
    Some(program)
}

/// What a range of calls is answered.
fn answer(range: &Range) -> Option<Vec<Instruction>> {
    if let Some(certain) = range.certain() {
        return Some(vec![step(RETURN, certain)]);
    }
    let mut program = Vec::new();
    for checks in range.allowed.iter().flatten() {
        program.extend(alternative(checks)?);
    }
    program.push(step(RETURN, ERRNO | EPERM));
    Some(program)
}

/// Allows a call if every check holds, and else goes on behind itself.
fn alternative(checks: &[Check]) -> Option<Vec<Instruction>> {
    const EACH: usize = 3;
    let mut program = Vec::new();
    for (done, check) in checks.iter().enumerate() {
        let left = checks.len().checked_sub(done + 1)?;
        let past = u8::try_from(left * EACH + 1).ok()?;
        program.extend([
            step(LOAD, FIRST_ARGUMENT + 8 * u32::from(check.argument)),
            step(AND, check.mask),
            branch(JUMP_EQUAL, check.value, 0, past),
        ]);
    }
    program.push(step(RETURN, ALLOW));
    Some(program)
}
