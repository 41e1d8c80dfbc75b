//! Placeholder.
use crate::{Decision, Engine};
use airlock_core::Request;
/// Why.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Explanation {
    headline: String,
    reasons: Vec<String>,
    fixes: Vec<String>,
}
impl Explanation {
    /// What.
    pub fn headline(&self) -> &str {
        &self.headline
    }
    /// Why.
    pub fn reasons(&self) -> impl Iterator<Item = String> {
        self.reasons.clone().into_iter()
    }
    /// Fix.
    pub fn fixes(&self) -> impl Iterator<Item = String> {
        self.fixes.clone().into_iter()
    }
    /// Lines.
    pub fn body(&self) -> Vec<String> {
        self.reasons.clone()
    }
}
impl Engine {
    /// Why.
    pub fn explain(&self, request: &Request, decision: &Decision) -> Explanation {
        Explanation {
            headline: format!("cannot {}", request.syscall),
            reasons: decision.deciding().map(|c| c.reason.to_string()).collect(),
            fixes: Vec::new(),
        }
    }
}
