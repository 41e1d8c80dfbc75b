//! Questions in pages: however many were ever asked, a page of them is all that is read at once.

use crate::approvals::{Approval, approvals};
use crate::error::StateError;
use crate::fact::Kind;
use crate::journal::Stretch;
use crate::sessions::Owner;
use crate::store::State;
use airlock_core::Timestamp;
use airlock_policy::Generation;
use airlock_policy::approval::ApprovalId;

/// How questions stand, as they are listed: what waits, what can be used, and what is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalStanding {
    /// They wait for an answer.
    Open,
    /// They were approved, and the grant can be used.
    Granted,
    /// They were denied, or are over.
    Closed,
}

/// Which questions are listed. Those that wait come first, then those that grant, then the others,
/// and of each the newest first.
#[derive(Debug, Clone, Copy)]
pub struct Listing<'a> {
    /// Only those that stand so; none: all of them.
    pub standing: Option<ApprovalStanding>,
    /// Only those that come after this one. Of one standing none is left out or listed twice that stands
    /// so from the first page to the last.
    pub after: Option<&'a ApprovalId>,
    /// The policy in force: what was asked or granted under another is over.
    pub policy: Generation,
    /// When they stand so.
    pub now: Timestamp,
    /// No more than that.
    pub most: usize,
}

/// Some of the questions, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The questions. Their rows are taken at their word: [`State::approval`] proves one.
    pub approvals: Vec<Approval>,
    /// How many come after them.
    pub more: u64,
}

impl State {
    /// The questions of `owner` that `listing` asks for. None if it is to go on after one that there
    /// is not.
    pub fn approvals(
        &self,
        owner: &Owner,
        listing: &Listing<'_>,
    ) -> Result<Option<Page>, StateError> {
        let owner = owner.to_string();
        let after = listing.after.map(ToString::to_string);
        let stretch = Stretch {
            owner: &owner,
            rank: listing.standing.map(|standing| match standing {
                ApprovalStanding::Open => 0,
                ApprovalStanding::Granted => 1,
                ApprovalStanding::Closed => 2,
            }),
            after: after.as_deref(),
            policy: listing.policy,
            now: listing.now,
            most: listing.most,
        };
        let found = self.read(|reader| reader.approvals(&stretch))?;
        Ok(found.map(|(facts, more)| Page {
            approvals: approvals(facts),
            more,
        }))
    }

    /// The names of the questions of `owner` that are `name`, or end with it where that is long enough
    /// to tell them apart.
    pub fn approval_names(&self, owner: &Owner, name: &str) -> Result<Vec<ApprovalId>, StateError> {
        let names = self.read(|reader| reader.ending(Kind::Approval, &owner.to_string(), name))?;
        let names = names.iter().filter_map(|name| ApprovalId::new(name).ok());
        Ok(names.collect())
    }
}
