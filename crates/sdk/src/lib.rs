//! What a plugin for Airlock written in Rust needs.
//!
//! A plugin is a value that implements [`Plugin`]: it says what its tools are and runs them. What a
//! call may do goes through its [`Context`], and each of those things is a syscall: decided by
//! policy, recorded, and refused with a [`Failure`] that says why. [`export!`] makes a Wasm module of
//! it; `airlock-sdk-process` makes the same plugin a program; [`testing::Fake`] stands in for the
//! kernel in tests.
//!
//! ```
//! use airlock_sdk::{Context, Plugin, Tool, ToolError, testing::Fake};
//! use serde_json::{Value, json};
//!
//! struct Greeter;
//!
//! impl Plugin for Greeter {
//!     fn tools(&self) -> Vec<Tool> {
//!         vec![Tool::new("greet", "Greet somebody").with_schema(json!({
//!             "type": "object",
//!             "properties": { "name": { "type": "string" } },
//!             "required": ["name"],
//!         }))]
//!     }
//!
//!     fn call(&self, _: &Context<'_>, tool: &str, arguments: &Value) -> Result<Value, ToolError> {
//!         match tool {
//!             "greet" => Ok(json!(format!("hello, {}", arguments["name"].as_str().unwrap_or("you")))),
//!             other => Err(ToolError::unknown(other)),
//!         }
//!     }
//! }
//!
//! let greeted = Fake::new().call(&Greeter, "greet", &json!({ "name": "Ada" }));
//! assert_eq!(greeted, Ok(json!("hello, Ada")));
//! ```
//!
//! Guarantee: nothing here reaches the machine by itself. Non-guarantee: what a plugin keeps between
//! calls is there in a program only, and calls come at the same time there; every call of a Wasm
//! plugin has an instance of its own.

mod context;
mod interface;
mod plugin;
pub mod testing;
mod wasm;

pub use context::{About, Context, Entry, Failure, Kernel, Level, Ran};
pub use plugin::{Plugin, Tool, ToolError};

/// What [`export!`] is made of. Not for use by hand.
#[cfg(any(target_arch = "wasm32", test))]
#[doc(hidden)]
pub mod exported {
    pub use crate::wasm::guest::{alloc, describe, execute};
}
