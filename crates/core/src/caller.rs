//! Who asks.

use crate::{
    Mode, Phase, PluginName, SandboxId, SessionId, TagName, TenantId, UserId, WorkspaceId,
};
use serde::{Deserialize, Serialize};

/// A process the operating system vouched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Peer {
    /// Process id.
    pub pid: u32,
    /// User id.
    pub uid: u32,
    /// When the process began, in the system's own ticks since boot: tells a reused pid apart.
    pub started: u64,
}

/// Who asks for a syscall, as established by the identify step and by nothing else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caller {
    /// Tenant.
    pub tenant: TenantId,
    /// Person or service account.
    pub user: UserId,
    /// Workspace.
    pub workspace: WorkspaceId,
    /// Session, if the call belongs to one.
    pub session: Option<SessionId>,
    /// The plugin it acts as; the fronts `cli`, `agent`, `mcp`, `server` are plugins too.
    pub plugin: PluginName,
    /// Capability tags given by policy, never by the caller itself.
    pub tags: Vec<TagName>,
    /// The verified process, where there is one.
    pub peer: Option<Peer>,
    /// The sandbox the call comes from, if it comes from one.
    pub sandbox: Option<SandboxId>,
    /// The session's mode.
    pub mode: Option<Mode>,
    /// The session's phase; rules call it `state`.
    pub phase: Option<Phase>,
}
