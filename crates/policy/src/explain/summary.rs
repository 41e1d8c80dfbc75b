//! A policy at a glance: its rules, each on a line.

use super::nearest::{argument, as_json, values};
use super::text;
use crate::document::{Conditions, Place};
use crate::rules::Policy;
use crate::rules::conditions::{Asked, Coverage, Field, Matcher};
use airlock_core::Request;
use serde::Serialize;
use std::sync::Arc;

/// One rule, for a list of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RuleSummary {
    /// Its name.
    pub name: Arc<str>,
    /// `allow`, `deny` or `require_review`.
    pub action: &'static str,
    /// Its conditions on one line.
    pub when: String,
    /// Why, in the author's words.
    pub reason: Option<Arc<str>>,
    /// Where it stands.
    pub place: Place,
}

impl Policy {
    /// Every rule, in the order of the file.
    pub fn summary(&self) -> Vec<RuleSummary> {
        let rules = self.document().rules.iter();
        rules
            .map(|rule| {
                let mut when = one_line(&rule.when);
                if !rule.except.is_empty() {
                    let except: Vec<String> = rule.except.iter().map(one_line).collect();
                    when = format!("{when}, except {}", except.join(" or "));
                }
                RuleSummary {
                    name: Arc::clone(&rule.name),
                    action: rule.action.as_str(),
                    when,
                    reason: rule.reason.clone(),
                    place: rule.place,
                }
            })
            .collect()
    }

    /// How many examples its rules have.
    pub fn example_count(&self) -> usize {
        let rules = self.document().rules.iter();
        rules.map(|rule| rule.examples.len()).sum()
    }

    /// Whether the opinion of some rule on `request` hangs on arguments: a rule, or an exception,
    /// that applies as far as anything else is asked has a condition on them.
    pub fn asks_arguments(&self, request: &Request) -> bool {
        let asked = Asked::new(request);
        let could = |when: &Matcher, coverage: Coverage| {
            when.every_failing(asked, coverage)
                .all(|field| field == Field::Arg)
        };
        self.rules.iter().any(|rule| {
            let asks = |when: &Matcher| when.asks_arguments();
            (asks(&rule.when) || rule.except.iter().any(asks))
                && could(&rule.when, rule.coverage())
                && (asks(&rule.when)
                    || rule
                        .except
                        .iter()
                        .any(|one| asks(one) && could(one, rule.exception_coverage())))
        })
    }
}

fn one_line(when: &Conditions) -> String {
    let all = as_json(when);
    let parts: Vec<String> = Field::ALL
        .into_iter()
        .filter(|field| {
            all.get(field.as_str())
                .is_some_and(|value| !value.is_null())
        })
        .map(|field| {
            let values: Vec<String> = if field == Field::Arg {
                when.arg.iter().flatten().map(argument).collect()
            } else {
                values(&all, field)
            };
            let values = values.join(" | ");
            format!("{} {values}", field.as_str()).trim_end().to_owned()
        })
        .collect();
    if parts.is_empty() {
        return "everything".to_owned();
    }
    text::plain(&parts.join(", "))
}
