//! One compiled rule and its opinion on a request.

use super::conditions::{Asked, ConditionError, Coverage, Matcher};
use crate::decision::Opinion;
use crate::document::{Action, Constraints, Place, Rule};
use std::sync::Arc;

/// A rule of the policy file, ready to be asked.
#[derive(Debug)]
pub(crate) struct CompiledRule {
    pub(crate) name: Arc<str>,
    pub(crate) place: Place,
    pub(crate) action: Action,
    pub(crate) reason: Arc<str>,
    pub(crate) when: Matcher,
    pub(crate) except: Box<[Matcher]>,
    pub(crate) constraints: Constraints,
}

impl CompiledRule {
    pub(crate) fn compile(rule: &Rule) -> Result<Self, ConditionError> {
        let reason = rule.reason.clone().unwrap_or_else(|| {
            let done = match rule.action {
                Action::Allow => "allowed",
                Action::Deny => "denied",
                Action::RequireReview => "held for review",
            };
            format!("{done} by rule `{}`", rule.name).into()
        });
        // A denial has no exceptions: one that slipped past the loader must not weaken it.
        let except = match rule.action {
            Action::Deny => &[],
            Action::Allow | Action::RequireReview => rule.except.as_slice(),
        };
        Ok(Self {
            name: Arc::clone(&rule.name),
            place: rule.place,
            action: rule.action,
            reason,
            when: Matcher::compile(&rule.when, coverage(rule.action))?,
            except: except
                .iter()
                .map(|when| Matcher::compile(when, exception_coverage(rule.action)))
                .collect::<Result<_, _>>()?,
            constraints: rule.constraints,
        })
    }

    /// How much of a request the conditions must cover.
    pub(crate) const fn coverage(&self) -> Coverage {
        coverage(self.action)
    }

    /// How much of a request an exception must cover.
    pub(crate) const fn exception_coverage(&self) -> Coverage {
        exception_coverage(self.action)
    }

    /// What the rule says, before its constraints; `None` if it does not apply.
    pub(crate) fn opinion(&self, asked: Asked<'_>) -> Option<Opinion> {
        if !self.when.matches(asked, self.coverage()) {
            return None;
        }
        let coverage = self.exception_coverage();
        if self
            .except
            .iter()
            .any(|except| except.matches(asked, coverage))
        {
            return Some(Opinion::Pass);
        }
        Some(self.spoken())
    }

    /// What the rule says where it applies and no exception does.
    pub(crate) const fn spoken(&self) -> Opinion {
        match self.action {
            Action::Allow => Opinion::Allow,
            Action::Deny => Opinion::Deny,
            Action::RequireReview => Opinion::RequireReview,
        }
    }

    /// Whether the rule triggers: it applies and no exception does.
    pub(crate) fn triggers(&self, asked: Asked<'_>) -> bool {
        self.opinion(asked)
            .is_some_and(|opinion| opinion != Opinion::Pass)
    }
}

const fn coverage(action: Action) -> Coverage {
    match action {
        Action::Allow => Coverage::All,
        Action::Deny | Action::RequireReview => Coverage::Any,
    }
}

/// All where passing widens, any where it narrows.
const fn exception_coverage(action: Action) -> Coverage {
    match action {
        Action::Allow | Action::Deny => Coverage::Any,
        Action::RequireReview => Coverage::All,
    }
}
