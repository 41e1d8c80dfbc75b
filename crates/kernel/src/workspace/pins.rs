//! The record of what a person approved, as it is stored in the state directory.

use super::POLICY_FILE;
use super::trust::{FileDigest, is_setting};
use airlock_core::Digest;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The version of the record this code reads and writes.
pub(super) const RECORD_VERSION: u32 = 1;

/// What was approved.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Pins {
    pub(super) version: u32,
    pub(super) files: BTreeMap<String, Digest>,
    /// Those that can be run.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) executable: BTreeSet<String>,
    /// What the policy that was approved last says of the log. It outlives the approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) log: Option<KeptLog>,
}

impl Pins {
    /// Forgets extensions the policy no longer lists: they do not run, so it does not matter what
    /// became of their files.
    pub(super) fn forget_unlisted(&mut self, extensions: &BTreeSet<String>) {
        self.files
            .retain(|path, _| is_setting(path) || extensions.contains(path));
    }

    /// Whether `file` was approved as it is.
    pub(super) fn holds(&self, file: &FileDigest) -> bool {
        self.files.get(&file.path) == Some(&file.digest)
            && self.executable.contains(&file.path) == file.executable
    }

    /// Whether a person ever approved a policy here.
    pub(super) fn had_policy(&self) -> bool {
        self.log.is_some() || self.files.contains_key(POLICY_FILE)
    }
}

/// How a policy wants the log kept: what must not get less because its approval ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeptLog {
    /// Days an archive is kept.
    pub(crate) days: u32,
    /// Most bytes of the log.
    pub(crate) bytes: u64,
    /// Whether a broken chain stops the start.
    pub(crate) stop_on_break: bool,
}

impl KeptLog {
    /// Nothing is deleted: for when it cannot be told what was approved.
    pub(crate) const EVERYTHING: Self = Self {
        days: u32::MAX,
        bytes: u64::MAX,
        stop_on_break: false,
    };

    /// What a policy says.
    pub(crate) fn of(audit: &airlock_policy::Audit) -> Self {
        Self {
            days: audit.retention_days,
            bytes: audit.max_size.as_bytes(),
            stop_on_break: audit.stop_on_break,
        }
    }

    /// The same of a policy's text, if it loads.
    pub(super) fn of_text(policy: &[u8]) -> Option<Self> {
        let (document, _) = airlock_policy::read_document(policy).ok()?;
        Some(Self::of(&document.audit))
    }

    /// As much as either keeps.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            days: self.days.max(other.days),
            bytes: self.bytes.max(other.bytes),
            stop_on_break: self.stop_on_break || other.stop_on_break,
        }
    }
}
