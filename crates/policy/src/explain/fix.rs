//! What would make a refused request pass: as data, and in words.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::sync::Arc;

/// One step towards an allow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fix {
    /// What to do, as data.
    #[serde(flatten)]
    pub remedy: Remedy,
    /// What to do, in words; a rule to add stands on lines of its own.
    pub text: String,
}

/// What a fix does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Remedy {
    /// Add values to a field of a rule's `match`; a `!` glob narrows a denial.
    AddValues {
        /// The rule.
        rule: Arc<str>,
        /// The field.
        field: Cow<'static, str>,
        /// The values, as they stand in the file.
        values: Vec<String>,
    },
    /// Take values out of a field of a denial's `match`.
    RemoveValues {
        /// The rule.
        rule: Arc<str>,
        /// The field.
        field: Cow<'static, str>,
        /// The values, as they stand in the file.
        values: Vec<String>,
    },
    /// Add a rule.
    AddRule {
        /// The rule, ready to stand under `rules`.
        yaml: String,
    },
    /// Narrow a denial by hand, or remove it.
    NarrowRule {
        /// The rule.
        rule: Arc<str>,
    },
    /// Change a constraint of an allow, or meet it.
    SetConstraint {
        /// The rule.
        rule: Arc<str>,
        /// The constraint.
        constraint: Cow<'static, str>,
        /// The value it would need; none: remove it.
        value: Option<String>,
    },
    /// Add a capability to a set that lacks it, or take it out of the set that forbids it.
    GrantCapability {
        /// The gate that refused.
        gate: String,
        /// The capability, where it is known.
        capability: Option<String>,
    },
    /// A person answers.
    Answer,
    /// Policy cannot allow it; do something else.
    Otherwise,
}

impl Fix {
    pub(super) fn new(remedy: Remedy, text: impl Into<String>) -> Self {
        Self {
            remedy,
            text: text.into(),
        }
    }

    pub(super) fn otherwise(text: impl Into<String>) -> Self {
        Self::new(Remedy::Otherwise, text)
    }
}
