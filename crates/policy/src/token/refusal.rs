//! Why a token is none, and why one was not narrowed.

use super::ledger::DEPTH;
use super::scope::IssueError;
use airlock_core::Syscall;
use std::sync::Arc;

/// Why a presented token is no token. For the log alone: the holder learns nothing from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum NoToken {
    /// The signature is not ours, or not of these claims.
    #[error("the token is forged, altered or from an earlier start")]
    Altered,
    /// Signed by us, but long over: a replay.
    #[error("the token is long over")]
    Unknown,
    /// Its issue was not recorded yet.
    #[error("the token's issue was not recorded")]
    Unrecorded,
    /// The clock stands before its issue.
    #[error("the token was issued later than now")]
    BeforeIssue,
    /// Its time is over.
    #[error("the token has expired")]
    Expired,
    /// It, or one it was narrowed from, has no operations left.
    #[error("the token is used up")]
    UsedUp,
    /// It, or one it was narrowed from, was revoked.
    #[error("the token was revoked")]
    Revoked,
    /// Presented from elsewhere.
    #[error("the token belongs to another sandbox")]
    OtherSandbox,
    /// Presented by another process, or by one that was not verified.
    #[error("the token belongs to another process")]
    OtherProcess,
    /// Presented by another plugin.
    #[error("the token belongs to another plugin")]
    OtherPlugin,
    /// Presented for another user.
    #[error("the token belongs to another user")]
    OtherUser,
    /// Presented in another workspace.
    #[error("the token is for another workspace")]
    OtherWorkspace,
    /// Presented in another session.
    #[error("the token is for another session")]
    OtherSession,
    /// The session moved on.
    #[error("the session's phase has changed since the token's issue")]
    OtherPhase,
    /// The policy changed.
    #[error("the policy has changed since the token's issue")]
    OtherGeneration,
    /// For another syscall.
    #[error("the token is for another syscall")]
    OtherSyscall,
    /// A path outside its globs, or none where it has globs.
    #[error("a path is outside the token's globs")]
    OutsidePaths,
    /// A host, tool, secret or program it does not list.
    #[error("the token does not list what the request names")]
    OutsideNames,
}

/// Why a token was not narrowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NarrowError {
    /// The parent is no token.
    #[error("the token to narrow is not valid")]
    NoToken(#[from] NoToken),
    /// The child's scope is not one a token can have.
    #[error(transparent)]
    Issue(#[from] IssueError),
    /// Another syscall than the parent's.
    #[error("the parent token does not cover `{0}`")]
    Syscall(Syscall),
    /// A glob that is not provably within the parent's.
    #[error("`{0}` is not provably within the parent token's paths")]
    Paths(Arc<str>),
    /// A name the parent does not list.
    #[error("the parent token does not name `{0}`")]
    Names(Arc<str>),
    /// More uses than the parent has left.
    #[error("the parent token has only {left} operations left")]
    Operations {
        /// What is left.
        left: u32,
    },
    /// A constraint looser than the parent's.
    #[error("`{0}` is looser than the parent token's")]
    Constraint(&'static str),
    /// A child of a child of a child.
    #[error("a chain of narrowed tokens holds at most {DEPTH}")]
    TooDeep,
}

impl NarrowError {
    /// What would help, where something would.
    pub const fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Issue(error) => Some(error.hint()),
            Self::Paths(_) => {
                Some("begin the glob with a directory the parent covers, and repeat its exclusions")
            }
            Self::Constraint(_) => Some("leave the constraint out to inherit the parent's"),
            Self::NoToken(_)
            | Self::Syscall(_)
            | Self::Names(_)
            | Self::Operations { .. }
            | Self::TooDeep => None,
        }
    }
}
