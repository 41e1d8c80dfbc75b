//! What the log keeps about a token: everything but the token.

use super::scope::{Bearer, Scope};
use super::wire::TokenId;
use crate::document::Constraints;
use airlock_core::{ByteSize, Digest, Span, Syscall, Tier, Timestamp};
use serde::Serialize;
use std::sync::Arc;

/// The issue of one token, to be recorded before it can be used.
///
/// Its serialised form is also what the token's signature covers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TokenEvent {
    /// The token.
    pub id: TokenId,
    /// The token it was narrowed from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<TokenId>,
    /// Whom it is bound to.
    pub bearer: Bearer,
    /// When it was issued.
    pub issued: Timestamp,
    /// What the holder may do.
    pub scope: ScopeEvent,
    /// What the holder may hand on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delegable: Option<ScopeEvent>,
}

/// A scope as it is recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ScopeEvent {
    /// The syscall.
    pub syscall: Syscall,
    /// The globs.
    pub paths: Vec<Arc<str>>,
    /// The names.
    pub names: Vec<Arc<str>>,
    /// The uses.
    pub operations: u32,
    /// When it ends.
    pub expires: Timestamp,
    /// What each use is held to.
    #[serde(serialize_with = "constraints")]
    pub constraints: Constraints,
}

impl ScopeEvent {
    pub(super) fn new(scope: &Scope, expires: Timestamp) -> Self {
        Self {
            syscall: scope.syscall,
            paths: scope.paths.clone(),
            names: scope.names.clone(),
            operations: scope.operations,
            expires,
            constraints: scope.constraints,
        }
    }
}

impl TokenEvent {
    /// The digest of the claims: differs whenever any of them does.
    pub(super) fn digest(&self) -> Digest {
        // Plain structs and strings always serialise; were that ever to fail, the digest of
        // nothing would still be signed together with the token's own number.
        Digest::of(&serde_json::to_vec(self).unwrap_or_default())
    }
}

fn constraints<S: serde::Serializer>(
    value: &Constraints,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Shown {
        #[serde(skip_serializing_if = "Option::is_none")]
        require_sandbox: Option<Tier>,
        require_capability_token: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        max_file_size: Option<ByteSize>,
        #[serde(skip_serializing_if = "Option::is_none")]
        max_duration: Option<Span>,
        #[serde(skip_serializing_if = "Option::is_none")]
        max_output: Option<ByteSize>,
        #[serde(skip_serializing_if = "Option::is_none")]
        max_memory: Option<ByteSize>,
    }
    // Taken apart in full, so that a new constraint cannot be forgotten here.
    let Constraints {
        require_sandbox,
        require_capability_token,
        max_file_size,
        max_duration,
        max_output,
        max_memory,
    } = *value;
    Shown {
        require_sandbox,
        require_capability_token,
        max_file_size,
        max_duration,
        max_output,
        max_memory,
    }
    .serialize(serializer)
}
