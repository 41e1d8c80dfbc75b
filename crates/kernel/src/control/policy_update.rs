//! `policy.update`: the only way policy changes, always after review.

use super::{Ready, arguments, spec};
use crate::beneath::Root;
use crate::policy_store::PolicyStore;
use crate::tools::{
    InvalidArguments, Prepared, Tool, ToolFailure, ToolOutput, ToolSchema, ToolSpec,
};
use airlock_policy::Policy;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// The new policy.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The whole text of the new policy file.
    text: String,
}

static SPEC: ToolSpec = spec(
    "policy.update",
    "replace the policy",
    ToolSchema::of::<Arguments>(),
);

pub(super) struct PolicyUpdate(Arc<PolicyStore>);

impl PolicyUpdate {
    pub(super) fn new(store: &Arc<PolicyStore>) -> Self {
        Self(Arc::clone(store))
    }
}

impl Tool for PolicyUpdate {
    fn spec(&self) -> &'static ToolSpec {
        &SPEC
    }

    /// Loads the new policy in memory: one that does not load is never asked about.
    fn prepare(&self, value: &Value, _root: &Root) -> Result<Box<dyn Prepared>, InvalidArguments> {
        let Arguments { text } = arguments(value)?;
        Policy::load("the new policy", text.as_bytes()).map_err(|error| InvalidArguments {
            at: "text".to_owned(),
            what: error.to_string(),
            fix: Some("check it with `airlock policy check FILE`".to_owned()),
        })?;
        let store = Arc::clone(&self.0);
        let replaced = store.current().generation();
        Ok(Box::new(Ready(move || {
            let updated = store
                .update(text.as_bytes(), replaced)
                .map_err(|error| ToolFailure::control(&error))?;
            let value = json!({
                "generation": updated.generation.to_string(),
                "backup": updated.backup,
                "in_force": updated.in_force,
            });
            Ok(ToolOutput { value, hidden: 0 })
        })))
    }
}
