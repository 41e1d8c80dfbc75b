//! The table of syscalls: the one place that says what exists, what it needs and what it does.
//!
//! Validation, the enforcer, the rule index and the documentation all read [`SYSCALLS`]. A name
//! that is not in it does not exist.

use crate::words::words;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

words! {
    /// What a syscall does to the world.
    Effect, "effect" {
        /// Looks at files or records.
        Read = "read",
        /// Creates or changes files.
        Write = "write",
        /// Removes files.
        Delete = "delete",
        /// Runs code.
        Execute = "execute",
        /// Reaches another host.
        Network = "network",
        /// Releases a secret.
        Secret = "secret",
        /// Steers Airlock itself.
        Control = "control",
    }
}
use crate::words::UnknownWord;

/// A set of effects.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct EffectSet(u8);

impl EffectSet {
    /// What changes files.
    pub const CHANGES: Self = Self::of(&[Effect::Write, Effect::Delete]);

    /// The set of exactly these effects.
    pub const fn of(effects: &[Effect]) -> Self {
        let mut bits = 0;
        let mut rest = effects;
        while let Some((first, others)) = rest.split_first() {
            bits |= 1 << *first as u8;
            rest = others;
        }
        Self(bits)
    }

    /// Whether `effect` is in the set.
    pub const fn contains(self, effect: Effect) -> bool {
        self.0 & (1 << effect as u8) != 0
    }

    /// Whether the sets share an effect.
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether every effect of `self` is in `other`.
    pub const fn is_subset(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    /// Both sets together.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether there is no effect at all.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The effects, in declaration order.
    pub fn iter(self) -> impl Iterator<Item = Effect> {
        Effect::ALL
            .iter()
            .copied()
            .filter(move |effect| self.contains(*effect))
    }
}

impl fmt::Debug for EffectSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl Serialize for EffectSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for EffectSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::<Effect>::deserialize(deserializer).map(|effects| Self::of(&effects))
    }
}

/// How the capability a syscall needs is built from the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CapabilityForm {
    /// Always the same name.
    Fixed(&'static str),
    /// The name, then the absolute path; one capability for each path.
    Path(&'static str),
    /// The name, then the host.
    Host(&'static str),
    /// The name, then the secret's name.
    Secret(&'static str),
    /// The name, then `<plugin>.<tool>`.
    Tool(&'static str),
}

/// One row of the syscall table.
#[derive(Debug, PartialEq, Eq)]
pub struct SyscallSpec {
    /// `area.verb`.
    pub name: &'static str,
    /// The capability it needs.
    pub capability: CapabilityForm,
    /// What it does, at least.
    pub effects: EffectSet,
    /// One line for people.
    pub summary: &'static str,
}

const fn row(
    name: &'static str,
    capability: CapabilityForm,
    effects: &[Effect],
    summary: &'static str,
) -> SyscallSpec {
    SyscallSpec {
        name,
        capability,
        effects: EffectSet::of(effects),
        summary,
    }
}

use CapabilityForm::{Fixed, Host, Path, Secret, Tool};
use Effect::{Control, Delete, Execute, Network, Read, Secret as SecretEffect, Write};

/// Every syscall there is.
pub static SYSCALLS: &[SyscallSpec] = &[
    row("fs.read", Path("filesystem.read"), &[Read], "read a file"),
    row(
        "fs.list",
        Path("filesystem.read"),
        &[Read],
        "list a directory",
    ),
    row(
        "fs.exists",
        Path("filesystem.read"),
        &[Read],
        "ask whether a path exists",
    ),
    row(
        "search.grep",
        Path("filesystem.read"),
        &[Read],
        "search file contents",
    ),
    row(
        "search.glob",
        Path("filesystem.read"),
        &[Read],
        "find files by name",
    ),
    row(
        "fs.write",
        Path("filesystem.write"),
        &[Write],
        "create or replace a file",
    ),
    row(
        "fs.patch",
        Path("filesystem.write"),
        &[Write],
        "apply a unified diff",
    ),
    row(
        "fs.delete",
        Path("filesystem.write"),
        &[Delete],
        "delete a file",
    ),
    row(
        "fs.move",
        Path("filesystem.write"),
        &[Write, Delete],
        "move a file",
    ),
    row(
        "exec.run",
        Fixed("exec.run.sandboxed"),
        &[Execute],
        "run a program in a sandbox",
    ),
    row(
        "test.run",
        Fixed("exec.run.sandboxed"),
        &[Execute],
        "run the project's tests",
    ),
    row(
        "git.status",
        Fixed("exec.run.sandboxed"),
        &[Execute],
        "show the state of the tree",
    ),
    row(
        "git.diff",
        Fixed("exec.run.sandboxed"),
        &[Execute],
        "show changes",
    ),
    row(
        "git.log",
        Fixed("exec.run.sandboxed"),
        &[Execute],
        "show history",
    ),
    row(
        "git.commit",
        Fixed("exec.run.sandboxed"),
        &[Execute],
        "commit the stage",
    ),
    row(
        "shell.run",
        Fixed("exec.shell.sandboxed"),
        &[Execute],
        "run a shell command line",
    ),
    row(
        "container.run",
        Fixed("exec.container"),
        &[Execute],
        "run a container",
    ),
    row(
        "net.connect",
        Host("network.connect"),
        &[Network],
        "connect to a host",
    ),
    row(
        "secret.use",
        Secret("secret.use"),
        &[SecretEffect],
        "use a stored secret",
    ),
    row(
        "tool.call",
        Tool("tool"),
        &[Execute],
        "call a plugin's tool",
    ),
    row(
        "model.chat",
        Fixed("provider.chat"),
        &[Network],
        "ask a model",
    ),
    row(
        "merge.apply",
        Fixed("merge.apply"),
        &[Write],
        "merge a stage into the tree",
    ),
    row("merge.undo", Fixed("merge.apply"), &[Write], "undo a merge"),
    row(
        "session.create",
        Fixed("sessions.write.self"),
        &[Control],
        "begin a session",
    ),
    row(
        "session.set_mode",
        Fixed("sessions.write.self"),
        &[Control],
        "switch a session's mode",
    ),
    row(
        "session.resume",
        Fixed("sessions.write.self"),
        &[Control],
        "resume a session",
    ),
    row(
        "session.cancel",
        Fixed("sessions.write.self"),
        &[Control],
        "cancel a session",
    ),
    row(
        "session.archive",
        Fixed("sessions.write.self"),
        &[Control],
        "archive a session",
    ),
    row(
        "session.list",
        Fixed("sessions.read.self"),
        &[Read],
        "list sessions",
    ),
    row(
        "session.show",
        Fixed("sessions.read.self"),
        &[Read],
        "show a session",
    ),
    row(
        "session.observe",
        Fixed("sessions.write.self"),
        &[Control],
        "remember something for a session",
    ),
    row(
        "session.recall",
        Fixed("sessions.read.self"),
        &[Read],
        "search what a session remembers",
    ),
    row(
        "session.result",
        Fixed("sessions.read.self"),
        &[Read],
        "read on in a result that was cut or withheld",
    ),
    row(
        "workflow.run",
        Fixed("sessions.write.self"),
        &[Control],
        "begin a run of a workflow",
    ),
    row(
        "workflow.resume",
        Fixed("sessions.write.self"),
        &[Control],
        "resume a run of a workflow",
    ),
    row(
        "workflow.cancel",
        Fixed("sessions.write.self"),
        &[Control],
        "cancel a run of a workflow",
    ),
    row(
        "workflow.confirm",
        Fixed("sessions.write.self"),
        &[Control],
        "ask a person whether a workflow may go on",
    ),
    row(
        "session.policy",
        Fixed("sessions.read.self"),
        &[Read],
        "read the policy a session works under",
    ),
    row(
        "session.log",
        Fixed("sessions.read.self"),
        &[Read],
        "read a session's own records",
    ),
    row(
        "plan.complete",
        Fixed("sessions.write.self"),
        &[Control],
        "end planning",
    ),
    row(
        "phase.advance",
        Fixed("sessions.write.self"),
        &[Control],
        "ask for the next phase",
    ),
    row(
        "phase.status",
        Fixed("sessions.read.self"),
        &[Read],
        "show where a session stands",
    ),
    row(
        "phase.commit",
        Fixed("sessions.write.self"),
        &[Control],
        "ask for the merge of what was reviewed",
    ),
    row(
        "phase.request_exemption",
        Fixed("sessions.write.self"),
        &[Control],
        "ask for an exemption",
    ),
    row("plugin.list", Fixed("plugin.read"), &[Read], "list plugins"),
    row(
        "plugin.show",
        Fixed("plugin.read"),
        &[Read],
        "show a plugin",
    ),
    row(
        "plugin.install",
        Fixed("plugin.manage"),
        &[Control],
        "install a plugin",
    ),
    row(
        "plugin.remove",
        Fixed("plugin.manage"),
        &[Control],
        "remove a plugin",
    ),
    row(
        "plugin.enable",
        Fixed("plugin.manage"),
        &[Control],
        "enable a plugin",
    ),
    row(
        "plugin.disable",
        Fixed("plugin.manage"),
        &[Control],
        "disable a plugin",
    ),
    row(
        "plugin.reload",
        Fixed("plugin.manage"),
        &[Control],
        "reload a plugin",
    ),
    row(
        "policy.init",
        Fixed("policy.update"),
        &[Control],
        "write a starter policy",
    ),
    row(
        "policy.update",
        Fixed("policy.update"),
        &[Control],
        "replace the policy",
    ),
    row(
        "approval.decide",
        Fixed("approvals.decide"),
        &[Control],
        "answer an approval request",
    ),
    row(
        "approval.read",
        Fixed("approvals.read"),
        &[Read],
        "look at approval requests and grants",
    ),
    row(
        "approval.revoke",
        Fixed("approvals.decide"),
        &[Control],
        "withdraw a grant",
    ),
    row(
        "approval.passphrase",
        Fixed("approvals.decide"),
        &[Control],
        "replace the passphrase that approvals are given with",
    ),
    row(
        "kernel.stop",
        Fixed("kernel.stop"),
        &[Control],
        "end a kernel that stays",
    ),
    row(
        "kernel.renew",
        Fixed("kernel.stop"),
        &[Control],
        "renew a kernel that stays, with settings that have changed",
    ),
    row(
        "trust.approve",
        Fixed("trust.manage"),
        &[Control],
        "trust a workspace's files",
    ),
    row(
        "trust.revoke",
        Fixed("trust.manage"),
        &[Control],
        "withdraw trust",
    ),
    row("stage.read", Fixed("stage.read"), &[Read], "look at stages"),
    row(
        "stage.drop",
        Fixed("stage.manage"),
        &[Control],
        "drop a stage and what it changed",
    ),
    row(
        "audit.read",
        Fixed("audit.read"),
        &[Read],
        "read the audit log",
    ),
];

/// A name that is not in the table.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown syscall `{name}`")]
pub struct UnknownSyscall {
    /// The name that was asked for, shortened.
    pub name: String,
}

impl UnknownSyscall {
    /// The nearest syscall that exists.
    pub fn suggestion(&self) -> Option<&'static str> {
        crate::closest(&self.name, SYSCALLS.iter().map(|spec| spec.name))
    }
}

/// A syscall that exists.
#[derive(Clone, Copy)]
pub struct Syscall(&'static SyscallSpec);

impl Syscall {
    /// Looks `name` up in the table.
    pub fn parse(name: &str) -> Result<Self, UnknownSyscall> {
        SYSCALLS
            .iter()
            .find(|spec| spec.name == name)
            .map(Self)
            .ok_or_else(|| UnknownSyscall {
                name: name.chars().take(60).collect(),
            })
    }

    /// Every syscall there is, in table order.
    pub fn all() -> impl Iterator<Item = Self> {
        SYSCALLS.iter().map(Self)
    }

    /// The name, `area.verb`.
    pub const fn name(self) -> &'static str {
        self.0.name
    }

    /// The part before the dot.
    pub fn area(self) -> &'static str {
        self.0
            .name
            .split_once('.')
            .map_or(self.0.name, |(area, _)| area)
    }

    /// The row of the table.
    pub const fn spec(self) -> &'static SyscallSpec {
        self.0
    }

    /// Position in the table: dense, for indexes.
    #[inline]
    pub fn index(self) -> usize {
        // Every decision asks: where a row stands tells its number.
        let offset = std::ptr::from_ref(self.0)
            .addr()
            .wrapping_sub(SYSCALLS.as_ptr().addr());
        let at = offset / size_of::<SyscallSpec>();
        match SYSCALLS.get(at) {
            Some(spec) if std::ptr::eq(spec, self.0) => at,
            Some(_) | None => self.index_by_name(),
        }
    }

    /// The same of a row in another copy of the table.
    #[cold]
    fn index_by_name(self) -> usize {
        SYSCALLS
            .iter()
            .position(|spec| spec.name == self.0.name)
            .unwrap_or(usize::MAX)
    }
}

impl PartialEq for Syscall {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0) || self.0.name == other.0.name
    }
}

impl Eq for Syscall {}

impl std::hash::Hash for Syscall {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.name.hash(state);
    }
}

impl fmt::Display for Syscall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name)
    }
}

impl fmt::Debug for Syscall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Syscall({})", self.0.name)
    }
}

impl FromStr for Syscall {
    type Err = UnknownSyscall;

    fn from_str(text: &str) -> Result<Self, UnknownSyscall> {
        Self::parse(text)
    }
}

impl Serialize for Syscall {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.name)
    }
}

impl<'de> Deserialize<'de> for Syscall {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_area_dot_verb_and_have_an_effect() {
        for (i, spec) in SYSCALLS.iter().enumerate() {
            assert_eq!(spec.name.split('.').count(), 2, "{}", spec.name);
            assert!(!spec.effects.is_empty(), "{}", spec.name);
            assert_eq!(Syscall::parse(spec.name).unwrap().index(), i);
            assert_eq!(Syscall::parse(spec.name).unwrap().index_by_name(), i);
        }
    }

    #[test]
    fn unknown_names_do_not_exist_and_get_a_suggestion() {
        let error = Syscall::parse("fs.raed").unwrap_err();
        assert_eq!(error.suggestion(), Some("fs.read"));
        assert!(Syscall::parse("fs.*").is_err());
        assert!(Syscall::parse("FS.READ").is_err());
    }
}
