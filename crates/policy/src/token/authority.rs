//! Issues, narrows, redeems and revokes.

use super::event::{ScopeEvent, TokenEvent};
use super::ledger::{DEPTH, Entry, Ledger, Part, Pool, Source};
use super::mac::{Key, MESSAGE, Tag};
use super::refusal::{NarrowError, NoToken};
use super::scope::{Bearer, Compiled, Holder, IssueError, Scope, Terms};
use super::wire::{Token, TokenId};
use crate::decision::Generation;
use crate::document::Constraints;
use airlock_core::{Caller, Digest, Request, Timestamp};
use std::cell::Cell;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use zeroize::Zeroizing;

/// Sets these signatures apart from any other use of the same secret.
///
/// 15 bytes, so that with number and digest the message still fits one block of SHA-256.
const DOMAIN: &[u8; 15] = b"airlock token 1";

/// One use of a token, already counted.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "the constraints still have to be checked and imposed"]
pub struct Redeemed {
    /// The token, for the log.
    pub id: TokenId,
    /// The same as text, made once for all uses.
    pub(crate) name: Arc<str>,
    /// The policy it was issued and redeemed under.
    pub(crate) generation: Generation,
    /// What this use is held to.
    pub constraints: Constraints,
}

/// A token that was made but cannot be used: its issue has to be recorded first.
///
/// Dropped without [`Pending::activate`], the token never existed.
#[must_use = "a token exists only once its issue was recorded and it was activated"]
pub struct Pending<'a> {
    authority: &'a TokenAuthority,
    event: TokenEvent,
    token: Token,
    activated: bool,
}

impl Pending<'_> {
    /// What to record durably before activating.
    pub const fn event(&self) -> &TokenEvent {
        &self.event
    }

    /// Makes the token usable. Call it after the event is durable, never before.
    pub fn activate(mut self) -> Token {
        if let Some(entry) = self.authority.ledger().get_mut(self.token.id) {
            entry.active = true;
        }
        self.activated = true;
        self.token.clone()
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        if !self.activated {
            self.authority.ledger().forget(self.token.id);
        }
    }
}

impl fmt::Debug for Pending<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pending({})", self.event.id)
    }
}

/// Signs tokens and knows which are live. One per start of the kernel.
pub struct TokenAuthority {
    key: Key,
    ledger: Mutex<Ledger>,
}

impl fmt::Debug for TokenAuthority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenAuthority")
    }
}

impl TokenAuthority {
    /// An authority with no tokens. `secret` must be fresh random bytes at each start.
    pub fn new(secret: [u8; 32]) -> Self {
        Self {
            key: Key::new(&Zeroizing::new(secret)),
            ledger: Mutex::default(),
        }
    }

    /// Prepares a token for `bearer`; it can be used once its issue was recorded.
    pub fn prepare(
        &self,
        terms: impl Into<Terms>,
        bearer: Bearer,
        now: Timestamp,
    ) -> Result<Pending<'_>, IssueError> {
        let Terms { scope, delegable } = terms.into();
        let own = fresh(scope, now)?;
        let delegable = delegable.map(|scope| fresh(scope, now)).transpose()?;
        self.enter(None, bearer, own, delegable, now)
    }

    /// Prepares a token for `to` whose scopes lie within what `by` may do or hand on.
    ///
    /// What fits the parent's delegable scope is drawn from that, else from its own. The child is
    /// bound to the parent's setting and ends with the parent at the latest.
    pub fn narrow(
        &self,
        parent: &Token,
        by: &Caller,
        generation: Generation,
        child: impl Into<Terms>,
        to: Holder,
        now: Timestamp,
    ) -> Result<Pending<'_>, NarrowError> {
        self.verify(parent)?;
        let Terms { scope, delegable } = child.into();
        let (setting, own, delegable) = {
            let ledger = self.ledger();
            let entry = held(&ledger, parent)?;
            entry.bearer.is_caller(by, generation)?;
            if now < entry.issued {
                return Err(NoToken::BeforeIssue.into());
            }
            let setting = entry.bearer.setting.clone();
            let own = drawn(&ledger, parent.id, &scope, now)?;
            let delegable = delegable
                .map(|scope| drawn(&ledger, parent.id, &scope, now))
                .transpose()?;
            (setting, own, delegable)
        };
        let bearer = Bearer {
            holder: to,
            setting,
        };
        Ok(self.enter(Some(parent.id), bearer, own, delegable, now)?)
    }

    /// Uses `token` once for `request`, if it is good for it at `now`: the time at which the
    /// decision began.
    pub fn redeem(
        &self,
        token: &Token,
        request: &Request,
        generation: Generation,
        now: Timestamp,
    ) -> Result<Redeemed, NoToken> {
        self.verify(token)?;
        let ledger = self.ledger();
        let entry = held(&ledger, token)?;
        entry.bearer.is_caller(&request.caller, generation)?;
        if now < entry.issued {
            return Err(NoToken::BeforeIssue);
        }
        if now >= entry.own.expires {
            return Err(NoToken::Expired);
        }
        ledger.check(entry, Part::Own)?;
        let scopes = || ledger.pools(entry, Part::Own).map(|pool| &pool.scope);
        if scopes().all(|scope| scope.is_quick_for(request)) {
            scopes().try_for_each(|scope| scope.permits(request))?;
            // Checked above, and nobody else has had the lock since.
            ledger.count(entry, Part::Own);
            return Ok(used(entry, token.id));
        }
        // Matching a long list of paths must not hold up other threads, so the lock is let go in
        // between; drawing looks at everything that may have changed once more.
        let scopes: Vec<_> = scopes().cloned().collect();
        drop(ledger);
        scopes.iter().try_for_each(|scope| scope.permits(request))?;
        let ledger = self.ledger();
        let entry = held(&ledger, token)?;
        ledger.draw(entry, Part::Own)?;
        Ok(used(entry, token.id))
    }

    /// Voids a token and everything narrowed from it. False if it is not live.
    pub fn revoke(&self, id: TokenId) -> bool {
        self.ledger()
            .get_mut(id)
            .is_some_and(|entry| !std::mem::replace(&mut entry.revoked, true))
    }

    /// Forgets tokens that are long over, and names those forgotten since this was last called:
    /// each is one to record as expired.
    pub fn take_expired(&self, now: Timestamp) -> Vec<TokenId> {
        self.ledger().take_ended(now)
    }

    /// Voids every token, and names those that were live or not named yet: each is one to record as
    /// expired.
    pub fn end_all(&self) -> Vec<TokenId> {
        self.ledger().end_all()
    }

    /// How many tokens are remembered.
    pub fn remembered(&self) -> usize {
        self.ledger().len()
    }

    fn enter(
        &self,
        parent: Option<TokenId>,
        bearer: Bearer,
        own: Pool,
        delegable: Option<Pool>,
        now: Timestamp,
    ) -> Result<Pending<'_>, IssueError> {
        let nothing = |pool: &Pool| pool.left.get() == 0;
        if nothing(&own) && delegable.as_ref().is_none_or(nothing) {
            return Err(IssueError::NoOperations);
        }
        let mut ledger = self.ledger();
        let id = ledger.number()?;
        let shown = |pool: &Pool| ScopeEvent::new(&pool.scope.scope, pool.expires);
        let event = TokenEvent {
            id,
            parent,
            bearer: bearer.clone(),
            issued: now,
            scope: shown(&own),
            delegable: delegable.as_ref().map(shown),
        };
        let claims = event.digest();
        let entry = Entry {
            claims,
            name: id.to_string().into(),
            bearer: Arc::new(bearer),
            issued: now,
            active: false,
            revoked: false,
            own,
            delegable,
        };
        ledger.insert(id, entry, now)?;
        Ok(Pending {
            authority: self,
            event,
            token: Token {
                id,
                claims,
                tag: self.sign(id, &claims).to_bytes(),
            },
            activated: false,
        })
    }

    #[inline]
    fn sign(&self, id: TokenId, claims: &Digest) -> Tag {
        let mut message = [0; MESSAGE];
        let (domain, rest) = message.split_at_mut(DOMAIN.len());
        let (number, digest) = rest.split_at_mut(size_of::<u64>());
        domain.copy_from_slice(DOMAIN);
        number.copy_from_slice(&id.0.to_be_bytes());
        digest.copy_from_slice(claims.as_bytes());
        self.key.sign(&message)
    }

    #[inline]
    fn verify(&self, token: &Token) -> Result<(), NoToken> {
        if self.sign(token.id, &token.claims).is(&token.tag) {
            Ok(())
        } else {
            Err(NoToken::Altered)
        }
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        // Counts only ever fall and flags only ever close, so what a panicking thread left behind
        // grants nothing.
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The entry of a token whose signature was verified.
fn held<'a>(ledger: &'a Ledger, token: &Token) -> Result<&'a Entry, NoToken> {
    let entry = ledger.get(token.id).ok_or(NoToken::Unknown)?;
    if entry.claims == token.claims {
        Ok(entry)
    } else {
        Err(NoToken::Altered)
    }
}

/// One use of `entry`, the token `id`, which was counted.
fn used(entry: &Entry, id: TokenId) -> Redeemed {
    Redeemed {
        id,
        name: Arc::clone(&entry.name),
        // Checked to be the one in force.
        generation: entry.bearer.setting.generation,
        constraints: entry.own.scope.scope.constraints,
    }
}

fn fresh(scope: Scope, now: Timestamp) -> Result<Pool, IssueError> {
    let scope = Compiled::new(scope)?;
    Ok(Pool {
        expires: now.plus(scope.scope.lifetime),
        left: Cell::new(scope.scope.operations),
        scope: Arc::new(scope),
        from: None,
    })
}

/// A pool for `child` within one of the scopes of token `parent`.
fn drawn(
    ledger: &Ledger,
    parent: TokenId,
    child: &Scope,
    now: Timestamp,
) -> Result<Pool, NarrowError> {
    let draw = |part| drawn_from(ledger, Source { id: parent, part }, child.clone(), now);
    let has_delegable = ledger
        .get(parent)
        .is_some_and(|entry| entry.delegable.is_some());
    if !has_delegable {
        return draw(Part::Own);
    }
    // If neither fits, the delegable scope is the one that was meant: say what it lacks.
    draw(Part::Delegable).or_else(|error| draw(Part::Own).map_err(|_| error))
}

fn drawn_from(
    ledger: &Ledger,
    source: Source,
    child: Scope,
    now: Timestamp,
) -> Result<Pool, NarrowError> {
    let entry = ledger.get(source.id).ok_or(NoToken::Unknown)?;
    ledger.check(entry, source.part)?;
    let chain: Vec<&Pool> = ledger.pools(entry, source.part).collect();
    if chain.len() >= DEPTH {
        return Err(NarrowError::TooDeep);
    }
    let left = chain.iter().map(|pool| pool.left.get()).min().unwrap_or(0);
    let pool = chain.first().ok_or(NoToken::Unknown)?;
    if now >= pool.expires {
        return Err(NoToken::Expired.into());
    }
    if child.operations > left {
        return Err(NarrowError::Operations { left });
    }
    let mut own = fresh(pool.scope.narrow(child)?, now)?;
    own.expires = own.expires.min(pool.expires);
    own.from = Some(source);
    Ok(own)
}
