//! What a record says. Plain data; the chain seals it, the store keeps it.

use airlock_core::{ActionId, Caller, Request, SandboxId, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub(crate) mod time_text;

macro_rules! events {
    ($($(#[$doc:meta])* $variant:ident = $word:literal, $code:literal, $durable:literal;)+) => {
        /// What happened. The code of an event never changes meaning: it is in the chain.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum EventType { $($(#[$doc])* #[serde(rename = $word)] $variant),+ }

        impl EventType {
            /// Every event type.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The word used in output and filters.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }

            /// The number that stands for it in the canonical encoding.
            pub const fn code(self) -> u16 {
                match self { $(Self::$variant => $code),+ }
            }

            /// The event type with this number.
            pub fn from_code(code: u16) -> Option<Self> {
                match code { $($code => Some(Self::$variant),)+ _ => None }
            }

            /// Whether such a record must be on disk before anything goes on, whoever writes it.
            pub const fn is_durable(self) -> bool {
                match self { $(Self::$variant => $durable),+ }
            }
        }
    };
}

events! {
    /// An attempt at, or the outcome of, a syscall.
    Syscall = "syscall", 1, false;
    /// The enforcer looked at one capability.
    CapabilityCheck = "capability_check", 2, false;
    /// A tool begins.
    ToolExecute = "tool_execute", 3, false;
    /// A tool ended.
    ToolResult = "tool_result", 4, false;
    /// A session moved to another phase.
    StateTransition = "state_transition", 5, false;
    /// The policy changed.
    PolicyUpdate = "policy_update", 6, true;
    /// A session switched modes.
    SessionModeChange = "session_mode_change", 7, true;
    /// A sandbox exists.
    SandboxCreated = "sandbox_created", 8, false;
    /// A sandbox is gone.
    SandboxDestroyed = "sandbox_destroyed", 9, false;
    /// A sandbox could not be made.
    SandboxFailed = "sandbox_failed", 10, false;
    /// A token was issued.
    CapabilityIssued = "capability_issued", 11, true;
    /// A token ended.
    CapabilityExpired = "capability_expired", 12, false;
    /// A person is asked.
    ApprovalRequested = "approval_requested", 13, true;
    /// A person answered.
    ApprovalDecided = "approval_decided", 14, true;
    /// A merge may be applied.
    MergeApproved = "merge_approved", 15, true;
    /// A merge may not be applied.
    MergeRejected = "merge_rejected", 16, true;
    /// A merge was undone.
    MergeUndone = "merge_undone", 17, true;
    /// A connection was attempted.
    NetworkConnect = "network_connect", 18, false;
    /// A secret was taken out of a text.
    SecretRedacted = "secret_redacted", 19, false;
    /// A text looks like an instruction in disguise.
    InjectionFlagged = "injection_flagged", 20, false;
    /// A kernel began.
    KernelStart = "kernel_start", 21, false;
    /// A kernel ended in good order.
    KernelShutdown = "kernel_shutdown", 22, false;
    /// The log is nearly full.
    AuditStorageWarning = "audit_storage_warning", 23, false;
    /// The log is all but full.
    AuditStorageCritical = "audit_storage_critical", 24, false;
    /// The oldest archive was deleted to make room.
    AuditArchiveDeleted = "audit_archive_deleted", 25, true;
    /// The chain does not hold; the record says where.
    AuditChainBreak = "audit_chain_break", 26, true;
    /// A signed statement about the chain's head.
    Checkpoint = "checkpoint", 27, true;
    /// A person approved, or withdrew approval of, a workspace's files.
    TrustChange = "trust_change", 28, true;
    /// What looks like a plugin was passed over; the record says why.
    PluginSkipped = "plugin_skipped", 29, false;
}

/// Whether a record announces an action or reports its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// About to be tried.
    Attempt,
    /// Tried, with what came of it.
    Outcome,
    /// Neither: something that simply happened.
    Note,
}

impl Stage {
    /// The word used in output and filters.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Attempt => "attempt",
            Self::Outcome => "outcome",
            Self::Note => "note",
        }
    }

    /// The number that stands for it in the canonical encoding; it never changes meaning.
    pub const fn code(self) -> u8 {
        match self {
            Self::Attempt => 1,
            Self::Outcome => 2,
            Self::Note => 3,
        }
    }

    /// The stage with this number.
    pub const fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::Attempt),
            2 => Some(Self::Outcome),
            3 => Some(Self::Note),
            _ => None,
        }
    }
}

/// The decision as the log keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecisionSummary {
    /// `allow`, `deny` or `require_review`.
    pub verdict: String,
    /// `layer/rule` of every contribution, in order.
    pub rules: Vec<String>,
    /// The policy generation, in full.
    pub generation: String,
}

/// What a writer hands in. Sequence number, previous digest and digest are the chain's to add.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// When; the years 1970 to 9998 can be sealed.
    #[serde(with = "time_text")]
    pub time: Timestamp,
    /// What happened.
    pub event: EventType,
    /// Attempt, outcome or note.
    pub stage: Stage,
    /// Joins an attempt with its outcome.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<ActionId>,
    /// The syscall's name, also when it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub syscall: Option<String>,
    /// The tool's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Who asked; mode and phase are in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<Caller>,
    /// What was decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<DecisionSummary>,
    /// The token that was used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What went in, shortened and sanitised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    /// What came out, shortened and sanitised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// How long it took, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<u64>,
    /// The sandbox it ran in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxId>,
    /// On an attempt: what the decision looked at, enough to decide it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Box<Request>>,
    /// Anything else, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
}

impl Entry {
    /// An entry with nothing but its time, event and stage.
    pub fn new(time: Timestamp, event: EventType, stage: Stage) -> Self {
        Self {
            time,
            event,
            stage,
            action: None,
            syscall: None,
            tool: None,
            caller: None,
            decision: None,
            token: None,
            reason: None,
            input: None,
            output: None,
            duration: None,
            sandbox: None,
            request: None,
            metadata: BTreeMap::new(),
        }
    }
}
