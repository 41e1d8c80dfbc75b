//! `policy.init`: the starter policy, where there is none yet.

use super::{Ready, arguments, spec};
use crate::beneath::Root;
use crate::policy_store::PolicyStore;
use crate::tools::{
    InvalidArguments, Prepared, Tool, ToolFailure, ToolOutput, ToolSchema, ToolSpec,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// Nothing to say: the policy is made from what the workspace looks like.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {}

static SPEC: ToolSpec = spec(
    "policy.init",
    "write a starter policy where there is none",
    ToolSchema::of::<Arguments>(),
);

pub(super) struct PolicyInit(Arc<PolicyStore>);

impl PolicyInit {
    pub(super) fn new(store: &Arc<PolicyStore>) -> Self {
        Self(Arc::clone(store))
    }
}

impl Tool for PolicyInit {
    fn spec(&self) -> &'static ToolSpec {
        &SPEC
    }

    fn prepare(&self, value: &Value, _root: &Root) -> Result<Box<dyn Prepared>, InvalidArguments> {
        let Arguments {} = arguments(value)?;
        let store = Arc::clone(&self.0);
        Ok(Box::new(Ready(move || {
            let starter = store
                .initialise()
                .map_err(|error| ToolFailure::control(&error))?;
            Ok(ToolOutput {
                value: json!({ "languages": starter.names(), "sample": starter.sample() }),
                hidden: 0,
            })
        })))
    }
}
