//! One problem in a policy file: where, what, why, and how to mend it.

use crate::document::Place;
use serde::Serialize;

/// Whether a problem stops the policy from loading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// The policy does not load.
    Error,
    /// It loads, but probably does not mean what was written.
    Warning,
}

/// One problem, pointing at the text that causes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    /// Error or warning.
    pub severity: Severity,
    /// A stable code such as `policy/unknown-field`, documented in `docs/`.
    pub code: &'static str,
    /// Where the offending text begins.
    pub place: Place,
    /// How many characters of that line it covers; at least 1.
    pub length: u32,
    /// What is wrong, in one sentence without a full stop.
    pub what: String,
    /// How to mend it.
    pub fix: String,
}
