//! Which tokens live and how much of each is left.
//!
//! Invariant: a pool's source lives at least as long as the pool, and its number is smaller, so
//! walking up ends and meets no gap.

use super::refusal::NoToken;
use super::scope::{Bearer, Compiled, IssueError};
use super::wire::TokenId;
use airlock_core::{Digest, Span, Timestamp};
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
    pub(super) left: u32,
    pub(super) from: Option<Source>,
}

/// One token.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) claims: Digest,
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

    fn pool_mut(&mut self, part: Part) -> Option<&mut Pool> {
        match part {
            Part::Own => Some(&mut self.own),
            Part::Delegable => self.delegable.as_mut(),
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
    entries: HashMap<TokenId, Entry>,
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
            let recorded = self.entries.remove(&id).is_some_and(|entry| entry.active);
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

    /// The scope at `source` and all it was narrowed from, if none is revoked or used up.
    pub(super) fn chain(&self, source: Source) -> Result<Vec<(Source, &Pool)>, NoToken> {
        let mut chain = Vec::with_capacity(1);
        let mut next = Some(source);
        while let Some(source) = next {
            let entry = self.entries.get(&source.id).ok_or(NoToken::Unknown)?;
            if entry.revoked {
                return Err(NoToken::Revoked);
            }
            if !entry.active {
                return Err(NoToken::Unrecorded);
            }
            let pool = entry.pool(source.part).ok_or(NoToken::Unknown)?;
            if pool.left == 0 {
                return Err(NoToken::UsedUp);
            }
            chain.push((source, pool));
            next = pool.from;
        }
        Ok(chain)
    }

    /// Counts one use of `source` and of all it was narrowed from, or of none.
    pub(super) fn draw(&mut self, source: Source) -> Result<(), NoToken> {
        let chain: Vec<Source> = self.chain(source)?.into_iter().map(|(s, _)| s).collect();
        for source in chain {
            if let Some(pool) = self
                .entries
                .get_mut(&source.id)
                .and_then(|entry| entry.pool_mut(source.part))
            {
                pool.left = pool.left.saturating_sub(1);
            }
        }
        Ok(())
    }
}
