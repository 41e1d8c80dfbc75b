//! Capability tokens: short-lived, signed, holder-bound grants that skip the slow rule layers.
//!
//! A token is a number and a digest of its claims under HMAC-SHA256, with a secret made at start
//! that never leaves memory. The claims themselves stay with the [`TokenAuthority`], which also
//! counts uses. Pure: the secret and the time come from the caller.
//!
//! Guarantees: a use is granted only to the holder it was issued to, in the workspace, session,
//! phase and policy generation of its issue, within its scope and that of every token it was
//! narrowed from, and never more often than the least of their counts, under any number of
//! threads. There is no usable token before its issue could be recorded: see [`Pending`].
//!
//! Non-guarantees: a valid token silences neither the enforcer nor the built-in rules, and its
//! constraints still have to be checked: [`Redeemed`] hands them to whoever decides. A refused
//! token is no token at all, so the caller falls back to full evaluation; [`NoToken`] is for the
//! log, never for the holder.
//!
//! Invariant: a child's scope lies within its parent's, and a child's use is checked against and
//! counted on every ancestor.

mod authority;
mod event;
mod ledger;
mod mac;
mod refusal;
mod scope;
mod wire;
mod within;

pub use authority::{Pending, Redeemed, TokenAuthority};
pub use event::{ScopeEvent, TokenEvent};
pub use refusal::{NarrowError, NoToken};
pub use scope::{Bearer, Holder, IssueError, Scope, Setting, Terms};
pub use wire::{ParseTokenError, Token, TokenId};
