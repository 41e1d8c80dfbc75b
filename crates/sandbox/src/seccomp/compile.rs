//! Rows to a classic BPF program. Pure: the program is returned, not installed.
//!
//! seccompiler knows one answer for what matches and one for what does not, so the three special
//! answers are a prologue before its program. Jumps are relative, so the two simply follow each
//! other.

use super::{Architecture, Check, NEWEST, Profile, Syscall};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};
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
    /// A row is wrong.
    #[error("the rows of `{profile}` do not compile")]
    Rows {
        /// The profile.
        profile: &'static str,
        /// What is wrong.
        #[source]
        source: seccompiler::BackendError,
    },
    /// A row names a call the number table does not have.
    #[error("no number is known for the system call `{0}`")]
    UnknownSyscall(&'static str),
}

const EPERM: u32 = 1;
const ENOSYS: u32 = 38;

const LOAD: u16 = 0x20;
const JUMP_EQUAL: u16 = 0x15;
const JUMP_GREATER: u16 = 0x25;
const JUMP_GREATER_EQUAL: u16 = 0x35;
const RETURN: u16 = 0x06;

const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;

const KILL_PROCESS: u32 = 0x8000_0000;
const ERRNO: u32 = 0x0005_0000;

/// The bit that marks a call of the x32 ABI, which shares its architecture with x86_64.
const X32: u32 = 0x4000_0000;
/// What a tracer puts in place of a call to be skipped: no ABI's number.
const NO_CALL: u32 = u32::MAX;

/// The filter of `profile` for `architecture`.
pub fn compile(
    profile: Profile,
    architecture: Architecture,
) -> Result<Vec<Instruction>, CompileError> {
    let body = body(profile, architecture)?;
    let mut program = prologue(architecture)?;
    program.extend(body.iter().map(|instruction| Instruction {
        code: instruction.code,
        jump_true: instruction.jt,
        jump_false: instruction.jf,
        operand: instruction.k,
    }));
    Ok(program)
}

fn prologue(architecture: Architecture) -> Result<Vec<Instruction>, CompileError> {
    let name = "clone3";
    let clone3 = Syscall::find(name)
        .and_then(|call| call.number(architecture))
        .ok_or(CompileError::UnknownSyscall(name))?;
    Ok(vec![
        step(LOAD, ARCHITECTURE),
        branch(JUMP_EQUAL, audit_value(architecture), 1, 0),
        step(RETURN, KILL_PROCESS),
        step(LOAD, NUMBER),
        branch(JUMP_EQUAL, NO_CALL, 5, 0),
        branch(JUMP_GREATER_EQUAL, X32, 0, 1),
        step(RETURN, KILL_PROCESS),
        branch(JUMP_EQUAL, clone3, 1, 0),
        branch(JUMP_GREATER, NEWEST, 0, 1),
        step(RETURN, ERRNO | ENOSYS),
    ])
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

fn body(profile: Profile, architecture: Architecture) -> Result<BpfProgram, CompileError> {
    let failed = |source| CompileError::Rows {
        profile: profile.name(),
        source,
    };
    let target = match architecture {
        Architecture::X86_64 => TargetArch::x86_64,
        Architecture::Aarch64 => TargetArch::aarch64,
    };
    SeccompFilter::new(
        rules(profile, architecture)?,
        SeccompAction::Errno(EPERM),
        SeccompAction::Allow,
        target,
    )
    .and_then(BpfProgram::try_from)
    .map_err(failed)
}

/// Alternatives by number. None at all means any arguments, so one row without conditions clears
/// the others.
fn rules(
    profile: Profile,
    architecture: Architecture,
) -> Result<BTreeMap<i64, Vec<SeccompRule>>, CompileError> {
    let mut rules: BTreeMap<i64, Option<Vec<SeccompRule>>> = BTreeMap::new();
    for row in profile.rows() {
        let call = Syscall::find(row.syscall).ok_or(CompileError::UnknownSyscall(row.syscall))?;
        let Some(number) = call.number(architecture) else {
            continue;
        };
        let alternatives = rules.entry(i64::from(number)).or_insert(Some(Vec::new()));
        if row.when.is_empty() {
            *alternatives = None;
        } else if let Some(alternatives) = alternatives {
            let rule = rule(row.when).map_err(|source| CompileError::Rows {
                profile: profile.name(),
                source,
            })?;
            alternatives.push(rule);
        }
    }
    Ok(rules
        .into_iter()
        .map(|(number, alternatives)| (number, alternatives.unwrap_or_default()))
        .collect())
}

fn rule(checks: &[Check]) -> Result<SeccompRule, seccompiler::BackendError> {
    let conditions = checks.iter().map(|check| {
        SeccompCondition::new(
            check.argument,
            SeccompCmpArgLen::Dword,
            SeccompCmpOp::MaskedEq(u64::from(check.mask)),
            u64::from(check.value),
        )
    });
    conditions
        .collect::<Result<_, _>>()
        .and_then(SeccompRule::new)
}
