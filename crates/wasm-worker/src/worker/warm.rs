//! One plugin in this very process, without a worker or a box.
//!
//! For measuring what a call costs, and for trying plugins of one's own. Not for foreign ones: what
//! confines a worker is not here.

use super::ticker::Ticker;
use crate::engine::{Context, Guest, Outside, Program, Runtime};
use airlock_plugin::{CallError, ToolDescription, WasmLimits};
use airlock_plugin_wasm::message::{Fault, Level, Outcome};
use airlock_plugin_wasm::{Bounds, effective};
use serde_json::Value;
use std::sync::Arc;
use std::time::Instant;

/// Bytes one call may say.
const OUTPUT: usize = 1024 * 1024;

/// A plugin that is loaded and reaches nothing.
pub struct Warm {
    program: Program,
    bounds: Bounds,
    context: Context,
    ticker: Ticker,
    outside: Arc<dyn Outside>,
}

struct Nobody;

impl Outside for Nobody {
    fn ask(&self, _: &str, _: &str, _: Instant) -> Result<String, Fault> {
        let denied = r#"{"error":{"code":"denied","message":"nobody is there","retryable":false}}"#;
        Ok(denied.to_owned())
    }
    fn piece(&self, _: &str) -> Result<bool, Fault> {
        Ok(true)
    }
    fn log(&self, _: Level, _: &str) -> Result<(), Fault> {
        Ok(())
    }
    fn is_cancelled(&self) -> bool {
        false
    }
}

impl Warm {
    /// Compiles `bytes`, a module or a component.
    pub fn load(bytes: &[u8], limits: &WasmLimits) -> Result<Self, CallError> {
        let wrong = |why: &dyn std::fmt::Display| CallError::Protocol(why.to_string());
        let bounds = Bounds::of(&effective(limits));
        let runtime = Runtime::new(&bounds).map_err(|error| wrong(&error))?;
        let program = runtime.compile(bytes).map_err(|error| wrong(&error))?;
        let context = Context {
            action: "measured".to_owned(),
            plugin: "measured".to_owned(),
            sandbox: None,
            session: None,
            mode: None,
            configuration: "{}".to_owned(),
        };
        Ok(Self {
            program,
            bounds,
            context,
            ticker: Ticker::new(runtime).map_err(|error| wrong(&error))?,
            outside: Arc::new(Nobody),
        })
    }

    /// The tools it says it has.
    pub fn tools(&self) -> Result<Vec<ToolDescription>, CallError> {
        let _ticking = self.ticker.enter();
        let described = self.program.describe(self.guest());
        described.map_err(|fault| fault.into_call_error(self.bounds.deadline(), OUTPUT))
    }

    /// Calls `tool` with `arguments`, which are JSON, in an instance of its own.
    pub fn call(&self, tool: &str, arguments: &str) -> Result<Value, CallError> {
        let _ticking = self.ticker.enter();
        let ran = self
            .program
            .execute(self.guest(), tool, arguments, &self.context);
        ran.unwrap_or_else(Outcome::Fault)
            .read(self.bounds.deadline(), OUTPUT)
    }

    fn guest(&self) -> Guest {
        let until = Instant::now() + self.bounds.deadline();
        Guest::new(self.bounds, until, OUTPUT, Arc::clone(&self.outside))
    }
}
