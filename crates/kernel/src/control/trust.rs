//! `trust.approve` and `trust.revoke`: what a person says of a workspace's own files.

use super::{Ready, arguments, spec};
use crate::beneath::Root;
use crate::policy_store::PolicyStore;
use crate::tools::{
    InvalidArguments, Prepared, Tool, ToolFailure, ToolOutput, ToolSchema, ToolSpec,
};
use airlock_core::Digest;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// Which files are approved.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ApproveArguments {
    /// The digest over all files, as shown to the person; anything else is refused.
    #[schemars(with = "String")]
    digest: Digest,
}

/// Nothing to say.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RevokeArguments {}

static APPROVE: ToolSpec = spec(
    "trust.approve",
    "approve a workspace's .airlock files",
    ToolSchema::of::<ApproveArguments>(),
);
static REVOKE: ToolSpec = spec(
    "trust.revoke",
    "withdraw every approval",
    ToolSchema::of::<RevokeArguments>(),
);

pub(super) struct Approve(Arc<PolicyStore>);

impl Approve {
    pub(super) fn new(store: &Arc<PolicyStore>) -> Self {
        Self(Arc::clone(store))
    }
}

impl Tool for Approve {
    fn spec(&self) -> &'static ToolSpec {
        &APPROVE
    }

    fn prepare(&self, value: &Value, _root: &Root) -> Result<Box<dyn Prepared>, InvalidArguments> {
        let ApproveArguments { digest } = arguments(value)?;
        let store = Arc::clone(&self.0);
        Ok(Box::new(Ready(move || {
            let trusted = store
                .approve(digest)
                .map_err(|error| ToolFailure::control(&error))?;
            Ok(ToolOutput {
                value: json!({ "approved": trusted.files, "backup": trusted.backup }),
                hidden: 0,
            })
        })))
    }
}

pub(super) struct Revoke(Arc<PolicyStore>);

impl Revoke {
    pub(super) fn new(store: &Arc<PolicyStore>) -> Self {
        Self(Arc::clone(store))
    }
}

impl Tool for Revoke {
    fn spec(&self) -> &'static ToolSpec {
        &REVOKE
    }

    fn prepare(&self, value: &Value, _root: &Root) -> Result<Box<dyn Prepared>, InvalidArguments> {
        let RevokeArguments {} = arguments(value)?;
        let store = Arc::clone(&self.0);
        Ok(Box::new(Ready(move || {
            store
                .revoke()
                .map_err(|error| ToolFailure::control(&error))?;
            Ok(ToolOutput {
                value: json!({ "revoked": true }),
                hidden: 0,
            })
        })))
    }
}
