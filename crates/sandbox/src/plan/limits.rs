//! How much a sandbox may use, and how firmly that must hold.
//!
//! A limit is `enforced` when the operating system stops the process at it, `supervised` when
//! Airlock watches and kills. Never is `RLIMIT_AS` a memory limit: Go, Node and Java reserve far
//! more than they use.

use airlock_core::{ByteSize, Span};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// Something that is limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Memory of the whole tree of processes.
    Memory,
    /// Processors.
    Cpus,
    /// Processes and threads.
    Pids,
    /// Wall time.
    Duration,
    /// Output, of each stream.
    Output,
    /// The size of one file.
    FileSize,
}

impl Limit {
    /// Every limit.
    pub const ALL: &'static [Self] = &[
        Self::Memory,
        Self::Cpus,
        Self::Pids,
        Self::Duration,
        Self::Output,
        Self::FileSize,
    ];

    /// The word for it in policies and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Cpus => "cpus",
            Self::Pids => "pids",
            Self::Duration => "duration",
            Self::Output => "output",
            Self::FileSize => "file_size",
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How firmly a limit holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Airlock watches, and kills what goes over.
    Supervised,
    /// The operating system does not let it go over.
    Enforced,
}

/// The limits of one sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub struct Limits {
    /// Memory of the whole tree of processes.
    pub memory: ByteSize,
    /// Processors, in thousandths.
    pub cpus: u32,
    /// Processes and threads.
    pub pids: u32,
    /// Wall time.
    pub duration: Span,
    /// Bytes on standard output.
    pub stdout: ByteSize,
    /// Bytes on standard error.
    pub stderr: ByteSize,
    /// The size of one file.
    pub file_size: ByteSize,
}

const MIB: u64 = 1 << 20;

/// What one value may be.
struct Range {
    limit: &'static str,
    of: fn(&Limits) -> u64,
    least: u64,
    most: u64,
}

const fn range(limit: &'static str, of: fn(&Limits) -> u64, least: u64, most: u64) -> Range {
    Range {
        limit,
        of,
        least,
        most,
    }
}

/// What a value may be at all, whatever the template: under the least nothing starts, over the
/// most one sandbox takes the machine. Memory, time and processes have their most from the
/// execution contract, which counts children: one more with the process itself. The least of time
/// and processors is under the templates' own smallest.
const RANGES: &[Range] = &[
    range(
        "memory",
        |limits| limits.memory.as_bytes(),
        64 * MIB,
        4096 * MIB,
    ),
    range("cpus", |limits| u64::from(limits.cpus), 100, 4_000),
    range("pids", |limits| u64::from(limits.pids), 1, 101),
    range(
        "duration",
        |limits| limits.duration.as_millis(),
        10,
        600_000,
    ),
    range(
        "stdout",
        |limits| limits.stdout.as_bytes(),
        1_024,
        1024 * MIB,
    ),
    range(
        "stderr",
        |limits| limits.stderr.as_bytes(),
        1_024,
        1024 * MIB,
    ),
    range(
        "file_size",
        |limits| limits.file_size.as_bytes(),
        MIB,
        65_536 * MIB,
    ),
];

/// A limit that is no usable number.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{limit}` is {value}, outside {least} to {most}")]
pub struct OutOfRange {
    /// Which.
    pub limit: &'static str,
    /// What it is, in bytes, thousandths, processes or milliseconds.
    pub value: u64,
    /// Least it may be.
    pub least: u64,
    /// Most it may be.
    pub most: u64,
}

impl Limits {
    /// The most of everything under the execution contract, which bounds tools in place of their
    /// template: the most that `RANGES` knows, with the templates' own for output and files.
    pub const CONTRACT: Self = Self {
        memory: ByteSize::from_bytes(4096 * MIB),
        cpus: 4_000,
        pids: 101,
        duration: Span::from_secs(600),
        stdout: ByteSize::from_bytes(64 * MIB),
        stderr: ByteSize::from_bytes(64 * MIB),
        file_size: ByteSize::from_bytes(4096 * MIB),
    };

    /// Every value outside its range.
    pub(crate) fn problems(&self) -> Vec<OutOfRange> {
        let rows = RANGES.iter().map(|range| OutOfRange {
            limit: range.limit,
            value: (range.of)(self),
            least: range.least,
            most: range.most,
        });
        rows.filter(|row| !(row.least..=row.most).contains(&row.value))
            .collect()
    }

    /// The names of the values above those of `other`.
    pub fn above(&self, other: &Self) -> Vec<&'static str> {
        let rows = RANGES
            .iter()
            .filter(|range| (range.of)(self) > (range.of)(other));
        rows.map(|range| range.limit).collect()
    }

    /// The lower of each.
    #[must_use]
    pub fn narrow(&self, other: &Self) -> Self {
        Self {
            memory: self.memory.min(other.memory),
            cpus: self.cpus.min(other.cpus),
            pids: self.pids.min(other.pids),
            duration: self.duration.min(other.duration),
            stdout: self.stdout.min(other.stdout),
            stderr: self.stderr.min(other.stderr),
            file_size: self.file_size.min(other.file_size),
        }
    }
}

/// The class each limit must have at least.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Classes(BTreeMap<Limit, Class>);

impl Classes {
    /// What holds unless policy says otherwise: time and output enforced, the others supervised.
    pub fn usual() -> Self {
        Self::supervised()
            .with(Limit::Duration, Class::Enforced)
            .with(Limit::Output, Class::Enforced)
    }

    fn supervised() -> Self {
        Self(
            Limit::ALL
                .iter()
                .map(|limit| (*limit, Class::Supervised))
                .collect(),
        )
    }

    /// Raises one limit to at least `class`.
    #[must_use]
    pub fn with(mut self, limit: Limit, class: Class) -> Self {
        let entry = self.0.entry(limit).or_insert(class);
        *entry = class.max(*entry);
        self
    }

    /// The class `limit` must have.
    pub fn of(&self, limit: Limit) -> Class {
        // A limit nobody mentioned must be enforced: unknown is the stricter.
        self.0.get(&limit).copied().unwrap_or(Class::Enforced)
    }

    /// The firmer of each.
    pub(super) fn narrow(&self, other: &Self) -> Self {
        Limit::ALL.iter().fold(self.clone(), |classes, limit| {
            classes.with(*limit, other.of(*limit))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_time_and_output_must_be_enforced_by_default() {
        for limit in Limit::ALL {
            let want = match limit {
                Limit::Duration | Limit::Output => Class::Enforced,
                Limit::Memory | Limit::Cpus | Limit::Pids | Limit::FileSize => Class::Supervised,
            };
            assert_eq!(Classes::usual().of(*limit), want, "{limit}");
        }
    }

    #[test]
    fn the_contract_is_in_range_and_has_more_than_any_template() {
        assert_eq!(Limits::CONTRACT.problems(), []);
        for template in crate::TEMPLATES {
            let above = template.limits.above(&Limits::CONTRACT);
            assert!(above.is_empty(), "{}: {above:?}", template.name);
        }
    }

    #[test]
    fn a_class_can_only_rise() {
        let classes = Classes::usual()
            .with(Limit::Memory, Class::Enforced)
            .with(Limit::Memory, Class::Supervised);
        assert_eq!(classes.of(Limit::Memory), Class::Enforced);
        assert_eq!(Classes::usual().narrow(&classes), classes);
        assert_eq!(classes.narrow(&Classes::usual()), classes);
    }
}
