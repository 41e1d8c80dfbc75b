//! Which tokens live and how much of each is left.
//!
//! Invariant: a pool's source lives at least as long as the pool, and its number is smaller, so
//! walking up ends and meets no gap.

use super::refusal::NoToken;
use super::scope::{Bearer, Compiled, IssueError};
use super::wire::TokenId;
use crate::hash::Seeded;
use airlock_core::{Digest, Span, Timestamp};
use std::cell::Cell;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// Most tokens alive at once. Each takes a few hundred bytes; a caller that asks for tokens in a
/// loop runs into this instead of into the machine's memory.
const LIVE: usize = 65_536;
/// How long an expired token is remembered, so that a decision begun just before its end still
/// finds it: the time a decision began at is the time that counts.
const REMEMBERED: Span = Span::from_secs(60);
/// Most tokens in a chain of narrowings, the first included: bounds the work of one use.
pub(super) const DEPTH: usize = 8;

/// Which of a token's two scopes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Own,
    Delegable,
}

/// One scope of one token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Source {
    pub(super) id: TokenId,
    pub(super) part: Part,
}

/// What is left of one scope.
#[derive(Debug)]
pub(super) struct Pool {
    pub(super) scope: Arc<Compiled>,
    pub(super) expires: Timestamp,
    /// A cell, because counting a chain of uses holds on to all of its entries.
    pub(super) left: Cell<u32>,
    pub(super) from: Option<Source>,
}

/// One token.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) claims: Digest,
    /// Its number as text.
    pub(super) name: Arc<str>,
    pub(super) bearer: Arc<Bearer>,
    pub(super) issued: Timestamp,
    pub(super) active: bool,
    pub(super) revoked: bool,
    pub(super) own: Pool,
    pub(super) delegable: Option<Pool>,
}

impl Entry {
    pub(super) fn pool(&self, part: Part) -> Option<&Pool> {
        match part {
            Part::Own => Some(&self.own),
            Part::Delegable => self.delegable.as_ref(),
        }
    }

    fn expires(&self) -> Timestamp {
        let own = self.own.expires;
        self.delegable
            .as_ref()
            .map_or(own, |delegable| own.max(delegable.expires))
    }
}

#[derive(Debug, Default)]
pub(super) struct Ledger {
    last: u64,
    entries: HashMap<TokenId, Entry, Seeded>,
    ends: BTreeSet<(Timestamp, TokenId)>,
    /// Forgotten and not reported yet.
    ended: Vec<TokenId>,
}

impl Ledger {
    /// The next number; never given twice.
    pub(super) fn number(&mut self) -> Result<TokenId, IssueError> {
        self.last = self.last.checked_add(1).ok_or(IssueError::Exhausted)?;
        Ok(TokenId(self.last))
    }

    /// Keeps `entry`, if there is room once what is over was forgotten.
    pub(super) fn insert(
        &mut self,
        id: TokenId,
        entry: Entry,
        now: Timestamp,
    ) -> Result<(), IssueError> {
        self.prune(now);
        if self.entries.len() >= LIVE {
            return Err(IssueError::Full);
        }
        self.ends.insert((entry.expires(), id));
        self.entries.insert(id, entry);
        Ok(())
    }

    fn prune(&mut self, now: Timestamp) {
        while let Some((end, id)) = self.ends.first().copied() {
            if end.plus(REMEMBERED) >= now {
                break;
            }
            self.ends.pop_first();
            // The end of one that was revoked was told then.
            let ends_now = |entry: Entry| entry.active && !entry.revoked;
            let recorded = self.entries.remove(&id).is_some_and(ends_now);
            // Where nobody ever asks, the list must not grow without end either.
            if recorded && self.ended.len() < LIVE {
                self.ended.push(id);
            }
        }
    }

    /// Forgets what is over, and names all that was forgotten since it was last asked.
    pub(super) fn take_ended(&mut self, now: Timestamp) -> Vec<TokenId> {
        self.prune(now);
        std::mem::take(&mut self.ended)
    }

    /// Voids and forgets everything; names what was live, and what was forgotten since it was last
    /// asked.
    pub(super) fn end_all(&mut self) -> Vec<TokenId> {
        let mut ended = std::mem::take(&mut self.ended);
        let live = self
            .entries
            .drain()
            .filter(|(_, entry)| entry.active && !entry.revoked);
        ended.extend(live.map(|(id, _)| id));
        self.ends.clear();
        ended.sort_unstable();
        ended
    }

    pub(super) fn forget(&mut self, id: TokenId) {
        if let Some(entry) = self.entries.remove(&id) {
            self.ends.remove(&(entry.expires(), id));
        }
    }

    pub(super) fn get(&self, id: TokenId) -> Option<&Entry> {
        self.entries.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: TokenId) -> Option<&mut Entry> {
        self.entries.get_mut(&id)
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Checks that neither this scope of `entry` nor any it was narrowed from is revoked or used up.
    pub(super) fn check(&self, entry: &Entry, part: Part) -> Result<(), NoToken> {
        let (mut entry, mut part) = (entry, part);
        loop {
            if entry.revoked {
                return Err(NoToken::Revoked);
            }
            if !entry.active {
                return Err(NoToken::Unrecorded);
            }
            let pool = entry.pool(part).ok_or(NoToken::Unknown)?;
            if pool.left.get() == 0 {
                return Err(NoToken::UsedUp);
            }
            let Some(from) = pool.from else {
                return Ok(());
            };
            entry = self.entries.get(&from.id).ok_or(NoToken::Unknown)?;
            part = from.part;
        }
    }

    /// What is left of this scope of `entry`, and of all it was narrowed from. Whole once they were
    /// [checked](Ledger::check).
    pub(super) fn pools<'l>(
        &'l self,
        entry: &'l Entry,
        part: Part,
    ) -> impl Iterator<Item = &'l Pool> {
        std::iter::successors(entry.pool(part), |below| {
            let from = below.from?;
            self.entries.get(&from.id)?.pool(from.part)
        })
    }

    /// Counts one use of this scope of `entry` and of all it was narrowed from, or of none.
    pub(super) fn draw(&self, entry: &Entry, part: Part) -> Result<(), NoToken> {
        self.check(entry, part)?;
        self.count(entry, part);
        Ok(())
    }

    /// The same where a [check](Ledger::check) went well under the same lock.
    pub(super) fn count(&self, entry: &Entry, part: Part) {
        for pool in self.pools(entry, part) {
            pool.left.set(pool.left.get().saturating_sub(1));
        }
    }
}
