//! A policy at a glance: its rules, each on a line.

use super::nearest::{argument, as_json, values};
use super::text;
use crate::document::{Conditions, Constraints, Place};
use crate::rules::Policy;
use crate::rules::conditions::Field;
use serde::Serialize;
use serde_json::Value;
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
    /// What it asks of the run, on one line.
    pub constraints: Option<String>,
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
                    constraints: constraints(&rule.constraints),
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
}

/// The constraints that are set, each with its value.
fn constraints(all: &Constraints) -> Option<String> {
    let all = serde_json::to_value(all).unwrap_or_default();
    let fields = all.as_object()?.iter();
    let set: Vec<String> = fields
        .filter(|(_, value)| !matches!(value, Value::Null | Value::Bool(false)))
        .map(|(name, value)| match value {
            Value::Bool(_) => name.clone(),
            Value::String(text) => format!("{name} {text}"),
            Value::Null | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                format!("{name} {value}")
            }
        })
        .collect();
    (!set.is_empty()).then(|| set.join(", "))
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
