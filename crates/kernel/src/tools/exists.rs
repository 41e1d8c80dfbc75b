//! `fs.exists`: whether something is there, and what kind of thing.

use super::arguments::{self, Arguments};
use super::contract::{
    InvalidArguments, Keep, Prepared, RunContext, Tool, ToolFailure, ToolOutput, ToolSpec,
};
use super::schema::ToolSchema;
use super::target::Target;
use crate::beneath::{OpenError, Root};
use airlock_core::{RequestPath, Tier};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// The tool.
pub(super) struct Exists;

static SPEC: ToolSpec = ToolSpec {
    name: "fs.exists",
    summary: "Say whether a path exists in the workspace, and whether it is a file or a directory",
    syscall: "fs.exists",
    tier: Tier::Kernel,
    read_only: true,
    keep: Keep::Head,
    schema: ToolSchema::of::<ExistsArguments>(),
    examples: &[r#"{"path": "Cargo.toml"}"#],
};

/// Arguments of `fs.exists`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ExistsArguments {
    /// The path, relative to the workspace root.
    path: String,
}

impl Arguments for ExistsArguments {
    const FIELDS: &'static [&'static str] = &["path"];
}

impl Tool for Exists {
    fn spec(&self) -> &'static ToolSpec {
        &SPEC
    }

    fn prepare(&self, value: &Value, root: &Root) -> Result<Box<dyn Prepared>, InvalidArguments> {
        let arguments: ExistsArguments = arguments::parse(value)?;
        let target = Target::reach(&arguments.path, root)?;
        Ok(Box::new(PreparedExists { target }))
    }
}

struct PreparedExists {
    target: Target,
}

impl Prepared for PreparedExists {
    fn paths(&self) -> &[RequestPath] {
        self.target.paths()
    }

    fn run(self: Box<Self>, _: &RunContext<'_>) -> Result<ToolOutput, ToolFailure> {
        let path = self.target.shown();
        let value = match self.target.open() {
            Ok(opened) => json!({ "path": path, "exists": true, "kind": opened.kind.word() }),
            // `a/b` where `a` is a file does not exist either.
            Err(ToolFailure::Open {
                source: OpenError::NotFound | OpenError::NotADirectory,
                ..
            }) => json!({ "path": path, "exists": false }),
            Err(failure) => return Err(failure),
        };
        Ok(ToolOutput { value, hidden: 0 })
    }
}
