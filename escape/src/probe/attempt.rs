//! One attack's routes and what came of them.

use crate::sys::Try;
use serde_json::{Value, json};
use std::path::PathBuf;

/// What the suite told the probe about the scene.
pub(crate) struct Arguments(pub(crate) Value);

impl Arguments {
    pub(crate) fn text(&self, key: &str) -> String {
        self.0
            .get(key)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    }

    pub(crate) fn path(&self, key: &str) -> PathBuf {
        PathBuf::from(self.text(key))
    }

    pub(crate) fn number(&self, key: &str) -> u64 {
        self.0.get(key).and_then(Value::as_u64).unwrap_or(0)
    }

    pub(crate) fn is(&self, key: &str) -> bool {
        self.0.get(key).and_then(Value::as_bool).unwrap_or(false)
    }

    pub(crate) fn list(&self, key: &str) -> Vec<String> {
        let items = self.0.get(key).and_then(Value::as_array);
        items
            .into_iter()
            .flatten()
            .filter_map(|item| item.as_str().map(str::to_owned))
            .collect()
    }
}

/// The routes tried, in order. After the first that leads somewhere none is taken.
#[derive(Default)]
pub(crate) struct Attempt {
    tried: Vec<(String, String)>,
    achieved: Option<(String, String)>,
}

impl Attempt {
    /// Takes a route, unless one has already led somewhere.
    pub(crate) fn route(&mut self, step: impl Into<String>, act: impl FnOnce() -> Try) {
        if self.achieved.is_some() {
            return;
        }
        let step = step.into();
        match act() {
            Ok(evidence) => self.achieved = Some((step, evidence)),
            Err(fault) => self.tried.push((step, fault.to_string())),
        }
    }

    /// Whether a route has led somewhere.
    pub(crate) fn done(&self) -> bool {
        self.achieved.is_some()
    }

    /// The line for the suite.
    pub(crate) fn report(&self, attack: &str) -> Value {
        let last = self.tried.last();
        let (step, evidence) = match &self.achieved {
            Some((step, evidence)) => (Some(step), Some(shortened(evidence))),
            None => (last.map(|(step, _)| step), None),
        };
        json!({
            "attack": attack,
            "achieved": self.achieved.is_some(),
            "evidence": evidence,
            "errno": last.map(|(_, fault)| fault),
            "step": step,
            "tried": self.tried,
        })
    }
}

fn shortened(evidence: &str) -> String {
    let printable = evidence
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c });
    printable.take(160).collect()
}
