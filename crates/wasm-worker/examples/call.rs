//! Calls a tool of a plugin of one's own, without a kernel: what it asks of one is denied.
//!
//! `cargo run -p airlock-wasm-worker --example call -- plugin.wasm TOOL ARGUMENTS`

use airlock_core::ByteSize;
use airlock_plugin::WasmLimits;
use airlock_wasm_worker::Warm;
use std::error::Error;
use std::io::Write;
use std::time::Duration;

const LIMITS: WasmLimits = WasmLimits {
    fuel: 1_000_000_000,
    deadline: Duration::from_secs(10),
    memory: ByteSize::from_bytes(16 << 20),
    tables: 10_000,
    stack: ByteSize::from_bytes(512 << 10),
    instances: 1,
};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [module, tool, arguments] = arguments.as_slice() else {
        return Err("three things are wanted: a module, a tool, and its arguments as JSON".into());
    };
    let plugin = Warm::load(&std::fs::read(module)?, &LIMITS)?;
    let known = plugin.tools()?;
    if !known.iter().any(|known| known.name == *tool) {
        return Err(format!("there is no tool `{tool}`").into());
    }
    let value = plugin.call(tool, arguments)?;
    writeln!(std::io::stdout(), "{value}")?;
    Ok(())
}
