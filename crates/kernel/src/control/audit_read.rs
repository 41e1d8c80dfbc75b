//! `audit.read`: leave to read the log. The reading itself streams and is not a tool result.

use super::{Ready, arguments, spec};
use crate::beneath::Root;
use crate::tools::{InvalidArguments, Prepared, Tool, ToolOutput, ToolSchema, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// Why the log is read.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// What it is read for: `log`, `show`, `export`, `stats`, `checkpoint` or `replay`.
    purpose: String,
}

static SPEC: ToolSpec = spec(
    "audit.read",
    "read the audit log",
    ToolSchema::of::<Arguments>(),
);

pub(super) struct AuditRead;

impl Tool for AuditRead {
    fn spec(&self) -> &'static ToolSpec {
        &SPEC
    }

    fn prepare(&self, value: &Value, _root: &Root) -> Result<Box<dyn Prepared>, InvalidArguments> {
        let Arguments { purpose } = arguments(value)?;
        Ok(Box::new(Ready(move || {
            Ok(ToolOutput {
                value: json!({ "purpose": purpose }),
                hidden: 0,
            })
        })))
    }
}
