//! The vocabulary of Airlock: ids, syscalls, callers, requests, units, limits and the programs that
//! run others.
//!
//! Pure: no I/O, no clock, no randomness. Every other crate speaks in these types, so a value is
//! parsed once, at the edge, and trusted afterwards.

mod caller;
mod digest;
mod hidden;
mod host;
mod ids;
mod json;
pub mod limits;
mod path;
pub mod programs;
mod request;
mod suggest;
mod syscall;
mod time;
mod units;
mod words;

pub use caller::{Caller, Peer};
pub use digest::{Digest, Hashing, ParseDigestError, has_sha_instructions};
pub use hidden::{is_hidden, is_ignorable, is_joiner};
pub use host::canonical_host;
pub use ids::{
    ActionId, IdError, PluginName, SandboxId, SessionId, TagName, TenantId, UserId, WorkspaceId,
};
pub use json::json_values;
pub use path::{PathError, RequestPath, WorkspacePath};
pub use request::{Needs, Request};
pub use suggest::closest;
pub use syscall::{
    CapabilityForm, Effect, EffectSet, SYSCALLS, Syscall, SyscallSpec, UnknownSyscall,
};
pub use time::Timestamp;
pub use units::{ByteSize, Span, UnitError};
pub use words::{Mode, Phase, Tier, UnknownWord};
