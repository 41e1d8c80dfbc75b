//! Capability tokens on the road: issued by the kernel itself, redeemed where a call presents one.
//!
//! Guarantees: no token exists before its issue is on disk; a token's text is in no log, error or
//! debug output; a bad token is no token, and only the log learns why. A good one stands in for the
//! policy's rules and extensions, never for capabilities, built-in rules or gates.
//!
//! Non-guarantee: whether something may be handed out is for the part of the kernel that hands it
//! out to have decided. No front can ask for a token.

use crate::fronts::{Front, Whence};
use crate::kernel::Kernel;
use crate::road::Call;
use crate::sanitise::sanitise_line;
use airlock_audit::{AppendError, Durability, Entry, EventType, Log, Stage};
use airlock_core::{IdError, Request, SessionId, Timestamp};
use airlock_policy::Generation;
use airlock_policy::token::{
    Bearer, IssueError, NoToken, Redeemed, Terms, Token, TokenEvent, TokenId,
};
use std::fmt;
use std::sync::Arc;

/// The text of a token as a caller presents it.
#[derive(Clone, PartialEq, Eq)]
pub struct Presented(Arc<str>);

impl Presented {
    /// Wraps `text`, whatever it is.
    pub fn new(text: &str) -> Self {
        Self(text.into())
    }
}

impl fmt::Debug for Presented {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Presented(..)")
    }
}

/// Why a presented token is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    /// It does not read as one.
    #[error("what was presented does not read as a token")]
    Unreadable,
    /// It is not good for this request.
    #[error(transparent)]
    NoToken(NoToken),
}

/// Why no token was issued.
#[derive(Debug, thiserror::Error)]
pub enum TokenFailure {
    /// Its holder cannot be named.
    #[error("cannot tell who would hold the token")]
    Identity(#[source] IdError),
    /// Its holder is no verified process, or its session is not there.
    #[error("{0}")]
    Holder(String),
    /// The terms are not ones a token can have.
    #[error(transparent)]
    Terms(#[from] IssueError),
    /// Its issue could not be recorded, so it does not exist.
    #[error("the audit log cannot record the token, so it does not exist")]
    Audit(#[from] AppendError),
}

impl Kernel {
    /// Issues a token on `terms` for what `front` does in `session`. Its issue is on disk before it
    /// can be used. Its end is recorded too: by the upkeep of a kernel that stays, when the next one is
    /// issued, or when the kernel closes.
    pub fn issue_token(
        &self,
        front: Front,
        session: Option<&SessionId>,
        terms: impl Into<Terms>,
    ) -> Result<Token, TokenFailure> {
        self.issue_token_to(front, &Whence::default(), session, terms)
    }

    /// The same for what comes from `whence`: another process, in its sandbox, as its plugin.
    pub fn issue_token_to(
        &self,
        front: Front,
        whence: &Whence,
        session: Option<&SessionId>,
        terms: impl Into<Terms>,
    ) -> Result<Token, TokenFailure> {
        let policy = self.policy();
        let now = self.clock().now();
        let mut call = Call::new("token", serde_json::Value::Null);
        call.session = session.cloned();
        let mut caller = self
            .identify(front, whence, &call, &policy)
            .map_err(TokenFailure::Identity)?;
        self.enter(&call, &mut caller)
            .map_err(|problem| TokenFailure::Holder(problem.to_string()))?;
        let nobody = || TokenFailure::Holder("no process would hold the token".to_owned());
        let bearer = Bearer::of(&caller, policy.generation()).ok_or_else(nobody)?;
        let pending = self.tokens().prepare(terms, bearer, now)?;
        let ended = self.tokens().take_expired(now);
        let mut entries: Vec<Entry> = ended.iter().map(|id| over(*id, "expired", now)).collect();
        entries.push(issued(pending.event(), now));
        self.log().append_batch(&entries, Durability::Durable)?;
        Ok(pending.activate())
    }

    /// Voids a token and everything narrowed from it, and records that. False if it is not live. It is
    /// void also if that cannot be recorded.
    pub fn revoke_token(&self, token: &Token) -> Result<bool, AppendError> {
        if !self.tokens().revoke(token.id()) {
            return Ok(false);
        }
        let entry = over(token.id(), "revoked", self.clock().now());
        self.log().append(&entry, Durability::Durable)?;
        Ok(true)
    }

    /// Uses `presented` once for `request`, if it is good for it.
    pub(crate) fn redeem(
        &self,
        presented: &Presented,
        request: &Request,
        generation: Generation,
        now: Timestamp,
    ) -> Result<Redeemed, Refused> {
        let token = Token::parse(&presented.0).map_err(|_| Refused::Unreadable)?;
        self.tokens()
            .redeem(&token, request, generation, now)
            .map_err(Refused::NoToken)
    }
}

/// Records the end of the tokens in `ended`.
pub(crate) fn record_ends(log: &Log, ended: &[TokenId], now: Timestamp) -> Result<(), AppendError> {
    if ended.is_empty() {
        return Ok(());
    }
    let entries: Vec<Entry> = ended.iter().map(|id| over(*id, "expired", now)).collect();
    log.append_batch(&entries, Durability::Buffered).map(drop)
}

/// The record of a token's end.
fn over(id: TokenId, why: &str, now: Timestamp) -> Entry {
    let mut entry = Entry::new(now, EventType::CapabilityExpired, Stage::Note);
    entry.token = Some(id.to_string());
    entry.reason = Some(why.to_owned());
    entry
}

/// The record of an issue: everything but the token.
fn issued(event: &TokenEvent, now: Timestamp) -> Entry {
    let mut entry = Entry::new(now, EventType::CapabilityIssued, Stage::Note);
    entry.token = Some(event.id.to_string());
    entry.syscall = Some(event.scope.syscall.to_string());
    let parent = event.parent.as_ref().map(ToString::to_string);
    let delegable = event.delegable.as_ref().map(written);
    // Whole, however many paths it names: what was handed out is what the record is for.
    let parts = [
        ("scope", Some(written(&event.scope))),
        ("bearer", Some(written(&event.bearer))),
        ("delegable", delegable),
        ("parent", parent),
    ];
    for (name, text) in parts {
        let text = text.map(|text| sanitise_line(&text, usize::MAX));
        entry
            .metadata
            .extend(text.map(|text| (name.to_owned(), text)));
    }
    entry
}

fn written(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
