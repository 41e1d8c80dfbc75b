//! What remains of an approval: visible, countable, revocable.
//!
//! A grant without a directory, verb or host is for one very action on one very stage. With one
//! of them it stretches in that direction alone: same asker, same session, same gate, same syscall,
//! tool and secret, same policy, no more effects and no weaker a tier. The stage is not compared then, since the uses it allows change it.

use super::action::{Action, Binding};
use super::answer::{Answer, AnswerError, Answerer, Channel, Condition};
use super::gate::{Gate, MayAnswer};
use super::request::{ApprovalId, ApprovalRequest};
use crate::decision::Generation;
use crate::rules::built_in::is_guarded;
use airlock_core::{Digest, EffectSet, Request, RequestPath, Span, Syscall, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How long a grant for a directory, verb or host lasts when the answer names no time.
const LASTS: Span = Span::from_secs(8 * 3_600);

/// A grant goes by the name of the approval that gave it: one approval, one grant.
pub type GrantId = ApprovalId;

/// What is asked of the grants.
#[derive(Debug, Clone, Copy)]
pub struct Query<'a> {
    /// The request that needs an approval.
    pub request: &'a Request,
    /// The gate it stands at.
    pub gate: Gate,
    /// The digest of the change as it would be made now.
    pub diff: Option<&'a Digest>,
    /// The policy in force.
    pub generation: Generation,
    /// The stage as it stands.
    pub stage: Option<Digest>,
    /// The time at which the decision began.
    pub now: Timestamp,
}

/// An approval that can be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// Its name.
    pub id: GrantId,
    /// The gate it settles.
    pub gate: Gate,
    /// The action it was given for.
    pub action: Action,
    /// What that was bound to.
    pub binding: Binding,
    /// Its bounds.
    pub conditions: Vec<Condition>,
    /// Uses left; none: as many as fit before it expires.
    pub uses_left: Option<u32>,
    /// When it was given.
    pub given: Timestamp,
    /// When it ends.
    pub expires: Timestamp,
    /// Who gave it.
    pub given_by: Answerer,
    /// Which way.
    pub channel: Channel,
    /// Whether it was withdrawn.
    pub revoked: bool,
}

/// The directions a grant stretches in.
#[derive(Default)]
struct Reach<'a> {
    directories: Vec<&'a RequestPath>,
    hosts: Vec<&'a Arc<str>>,
    verbs: Vec<Syscall>,
}

impl<'a> Reach<'a> {
    fn of(conditions: &'a [Condition]) -> Self {
        let mut reach = Self::default();
        for condition in conditions {
            match condition {
                Condition::Directory(path) => reach.directories.push(path),
                Condition::Host(host) => reach.hosts.push(host),
                Condition::Verb(syscall) => reach.verbs.push(*syscall),
                Condition::Once | Condition::Uses(_) | Condition::Until(_) => {}
            }
        }
        reach
    }

    fn is_exact(&self) -> bool {
        self.directories.is_empty() && self.hosts.is_empty() && self.verbs.is_empty()
    }
}

impl Grant {
    /// The grant `answer` gives, if its conditions fit the action it was asked about.
    pub(super) fn new(
        asked: &ApprovalRequest,
        answer: &Answer,
        now: Timestamp,
    ) -> Result<Self, AnswerError> {
        let conditions = answer.conditions.clone();
        check(asked, &conditions, now)?;
        let exact = Reach::of(&conditions).is_exact();
        let timed = least(&conditions, |condition| match condition {
            Condition::Until(time) => Some(*time),
            Condition::Once
            | Condition::Uses(_)
            | Condition::Directory(_)
            | Condition::Verb(_)
            | Condition::Host(_) => None,
        });
        let counted = least(&conditions, |condition| match condition {
            Condition::Once => Some(1),
            Condition::Uses(uses) => Some(*uses),
            Condition::Until(_)
            | Condition::Directory(_)
            | Condition::Verb(_)
            | Condition::Host(_) => None,
        });
        let uses_left = match (counted, timed) {
            // Nothing said about how often or how long: this action, once.
            (None, None) if exact => Some(1),
            (counted, _) => counted,
        };
        let lasts = if exact {
            asked.expires
        } else {
            now.plus(LASTS)
        };
        Ok(Self {
            id: asked.id.clone(),
            gate: asked.gate,
            action: asked.action.clone(),
            binding: asked.binding,
            conditions,
            uses_left,
            given: now,
            expires: timed.unwrap_or(lasts),
            given_by: answer.answered_by.clone(),
            channel: answer.channel.clone(),
            revoked: false,
        })
    }

    /// Whether it can still be used at `now`, for what it covers.
    pub fn is_live(&self, now: Timestamp) -> bool {
        !self.revoked && self.uses_left != Some(0) && self.given <= now && now < self.expires
    }

    /// Whether it covers what `query` asks for.
    pub fn covers(&self, query: &Query<'_>) -> bool {
        let request = query.request;
        self.is_live(query.now)
            && self.gate == query.gate
            && self.binding.generation == query.generation
            && self.action.asker.is(&request.caller)
            && self.action.syscall == request.syscall
            && request.effects.is_subset(self.action.effects)
            && request.tier.satisfies(self.action.tier)
            && self.action.template == request.template
            && self.action.tool == request.tool
            && self.action.secret == request.secret
            && self.reaches(query)
    }

    fn reaches(&self, query: &Query<'_>) -> bool {
        let reach = Reach::of(&self.conditions);
        let request = query.request;
        if reach.is_exact() {
            let current = Binding::of(request, query.diff, query.generation, query.stage);
            return current == self.binding;
        }
        let any = !reach.verbs.is_empty();
        let paths = if reach.directories.is_empty() {
            // However wide the verb, an outside path is granted only by its own name.
            request.paths == self.action.paths
                || (any && request.paths.iter().all(|path| path.inside().is_some()))
        } else {
            reach
                .directories
                .iter()
                .all(|directory| all_below(&request.paths, directory))
        };
        let host = if reach.hosts.is_empty() {
            any || (request.host == self.action.host && request.port == self.action.port)
        } else {
            request.port == self.action.port
                && reach
                    .hosts
                    .iter()
                    .all(|host| request.host.as_ref() == Some(*host))
        };
        let command = any || request.command == self.action.command;
        paths && host && command && !self.stretches_over_guarded(request)
    }

    /// Whether the request changes a path nobody was shown and a built-in rule holds for review: a
    /// yes to a directory is no yes to the hooks and the policy in it.
    fn stretches_over_guarded(&self, request: &Request) -> bool {
        request.effects.intersects(EffectSet::CHANGES)
            && request
                .paths
                .iter()
                .any(|path| is_guarded(path) && !self.action.paths.contains(path))
    }
}

fn least<T: Ord>(conditions: &[Condition], of: impl Fn(&Condition) -> Option<T>) -> Option<T> {
    conditions.iter().filter_map(of).min()
}

/// Whether there are paths and each is `directory` or below it.
fn all_below(paths: &[RequestPath], directory: &RequestPath) -> bool {
    let Some(directory) = directory.inside() else {
        return false;
    };
    !paths.is_empty()
        && paths.iter().all(|path| {
            path.inside().is_some_and(|path| {
                let mut components = path.components();
                directory
                    .components()
                    .all(|wanted| components.next() == Some(wanted))
            })
        })
}

impl Condition {
    /// Checks that it holds for `action` and can be kept.
    pub fn fits(&self, action: &Action, now: Timestamp) -> Result<(), AnswerError> {
        let (holds, otherwise) = match self {
            Self::Once => (true, ""),
            Self::Uses(uses) => (*uses > 0, "zero uses approve nothing"),
            Self::Until(time) => (*time > now, "the time it would last until is over"),
            Self::Directory(directory) => (
                all_below(&action.paths, directory),
                "the action's paths are not all in that directory of the workspace",
            ),
            Self::Verb(syscall) => (*syscall == action.syscall, "the action is another syscall"),
            Self::Host(host) => (
                action.host.as_ref() == Some(host),
                "the action reaches another host, or none",
            ),
        };
        if holds {
            Ok(())
        } else {
            Err(AnswerError::Condition(otherwise))
        }
    }
}

/// Checks that the conditions are ones this gate takes, and that they hold for the action asked
/// about: whoever answers sees that action and may not be led to approve another.
fn check(
    asked: &ApprovalRequest,
    conditions: &[Condition],
    now: Timestamp,
) -> Result<(), AnswerError> {
    for condition in conditions {
        condition.fits(&asked.action, now)?;
    }
    let single = conditions
        .iter()
        .all(|condition| matches!(condition, Condition::Once));
    match asked.gate.may_answer() {
        MayAnswer::PersonOnly if !single => Err(AnswerError::Condition(
            "elevated permission is approved for one action, once",
        )),
        MayAnswer::PersonOnly
        | MayAnswer::Person
        | MayAnswer::PersonUnlessDelegated
        | MayAnswer::PolicyOrPerson => Ok(()),
    }
}

/// Every grant there is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Grants {
    by_id: BTreeMap<GrantId, Grant>,
}

impl Grants {
    /// Keeps `grant`. False if there is one of that name: a grant is never replaced, or its uses
    /// could be counted anew.
    #[must_use = "a grant that was not kept cannot be used"]
    pub fn insert(&mut self, grant: Grant) -> bool {
        match self.by_id.entry(grant.id.clone()) {
            std::collections::btree_map::Entry::Vacant(slot) => {
                slot.insert(grant);
                true
            }
            std::collections::btree_map::Entry::Occupied(_) => false,
        }
    }

    /// A grant that covers `query`; its use is not counted yet.
    pub fn matching(&self, query: &Query<'_>) -> Option<&GrantId> {
        self.by_id
            .values()
            .find(|grant| grant.covers(query))
            .map(|grant| &grant.id)
    }

    /// Counts one use of `id`. False if there was none left: then it grants nothing.
    #[must_use = "a use that was not counted is not granted"]
    pub fn use_up(&mut self, id: &GrantId, now: Timestamp) -> bool {
        match self.by_id.get_mut(id) {
            Some(grant) if grant.is_live(now) => {
                grant.uses_left = grant.uses_left.map(|left| left.saturating_sub(1));
                true
            }
            Some(_) | None => false,
        }
    }

    /// Withdraws a grant. False if it is not there or was withdrawn before.
    pub fn revoke(&mut self, id: &GrantId) -> bool {
        self.by_id
            .get_mut(id)
            .is_some_and(|grant| !std::mem::replace(&mut grant.revoked, true))
    }

    /// One grant.
    pub fn get(&self, id: &GrantId) -> Option<&Grant> {
        self.by_id.get(id)
    }

    /// Every grant, live or not, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Grant> {
        self.by_id.values()
    }

    /// Forgets what can never be used again.
    pub fn prune(&mut self, now: Timestamp) {
        self.by_id
            .retain(|_, grant| !grant.revoked && grant.uses_left != Some(0) && now < grant.expires);
    }
}
