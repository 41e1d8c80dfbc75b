//! What a plugin is, and what it says of itself.

use crate::context::{About, Context, Failure};
use serde::Serialize;
use serde_json::{Value, json};
use std::fmt;

/// A plugin that offers tools.
pub trait Plugin {
    /// Its tools: the same at every call.
    fn tools(&self) -> Vec<Tool>;

    /// Runs `tool` with `arguments`, which are valid by its schema.
    fn call(
        &self,
        context: &Context<'_>,
        tool: &str,
        arguments: &Value,
    ) -> Result<Value, ToolError>;

    /// Called once before any call, where the plugin is a program: `about` has its name and its
    /// configuration, and no action. An error keeps it from starting.
    fn start(&self, _about: &About) -> Result<(), ToolError> {
        Ok(())
    }

    /// Whether it can serve calls now, where the plugin is a program; if not, why.
    fn health(&self) -> Result<(), ToolError> {
        Ok(())
    }

    /// Called once before the plugin ends, where it is a program that is ended in good order.
    fn stop(&self) {}
}

/// One tool.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Tool {
    /// Its name, without the plugin's before it.
    pub name: String,
    /// One line for people and models.
    pub summary: String,
    /// JSON Schema of its arguments.
    pub schema: Value,
    /// Whether it changes nothing.
    pub read_only: bool,
}

impl Tool {
    /// A tool that takes no arguments and may change things.
    pub fn new(name: impl Into<String>, summary: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            summary: summary.into(),
            schema: json!({ "type": "object", "additionalProperties": false }),
            read_only: false,
        }
    }

    /// With the JSON Schema of its arguments.
    #[must_use]
    pub fn with_schema(mut self, schema: Value) -> Self {
        self.schema = schema;
        self
    }

    /// One that changes nothing.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.read_only = true;
        self
    }
}

/// Why a tool gave no result, in words for whoever called it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolError(String);

impl ToolError {
    /// For these reasons.
    pub fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }

    /// There is no such tool.
    pub fn unknown(tool: &str) -> Self {
        Self(format!("there is no tool `{tool}`"))
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ToolError {}

impl From<Failure> for ToolError {
    fn from(failure: Failure) -> Self {
        Self(failure.to_string())
    }
}

impl From<serde_json::Error> for ToolError {
    fn from(error: serde_json::Error) -> Self {
        Self(error.to_string())
    }
}
