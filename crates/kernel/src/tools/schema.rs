//! What a tool says of its arguments.

use schemars::JsonSchema;
use serde_json::{Value, json};
use std::sync::OnceLock;

/// The JSON Schema of a tool's arguments, made when it is first asked for and kept from then on.
#[derive(Debug)]
pub struct ToolSchema {
    make: fn() -> Value,
    made: OnceLock<Value>,
}

impl ToolSchema {
    /// That of arguments that are read as a `T`.
    pub(crate) const fn of<T: JsonSchema>() -> Self {
        Self::by(|| schemars::schema_for!(T).to_value())
    }

    /// That of a tool which has its own for each of its states.
    pub(crate) const fn open() -> Self {
        Self::by(|| json!({ "type": "object" }))
    }

    const fn by(make: fn() -> Value) -> Self {
        Self {
            make,
            made: OnceLock::new(),
        }
    }

    /// It.
    pub fn get(&self) -> &Value {
        self.made.get_or_init(self.make)
    }
}
