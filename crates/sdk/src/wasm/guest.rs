//! The Wasm side: texts in and out of this module's memory.
#![expect(
    unsafe_code,
    reason = "memory and functions cross the border of the module as plain numbers"
)]

use crate::context::{Failure, Kernel, Level};
use crate::interface;
use crate::plugin::Plugin;
use serde_json::Value;

#[link(wasm_import_module = "airlock")]
unsafe extern "C" {
    fn call(name: *const u8, name_length: usize, text: *const u8, length: usize) -> usize;
    fn take(place: *mut u8, length: usize) -> u32;
    fn log(level: u32, text: *const u8, length: usize);
    fn emit(text: *const u8, length: usize) -> u32;
    fn cancelled() -> u32;
}

/// The host of this module.
struct Host;

impl Kernel for Host {
    fn call(&self, name: &str, arguments: &Value) -> Result<Value, Failure> {
        let arguments = arguments.to_string();
        // SAFETY: both are texts that live until the host returns; it only reads them.
        let length = unsafe {
            call(
                name.as_ptr(),
                name.len(),
                arguments.as_ptr(),
                arguments.len(),
            )
        };
        let mut envelope = vec![0; length];
        // SAFETY: the buffer is `length` bytes long, and the host writes no more than that.
        unsafe { take(envelope.as_mut_ptr(), length) };
        interface::replied(&envelope)
    }

    fn log(&self, level: Level, text: &str) {
        let level = match level {
            Level::Debug => 0,
            Level::Info => 1,
            Level::Warn => 2,
            Level::Error => 3,
        };
        // SAFETY: the text lives until the host returns; it only reads it.
        unsafe { log(level, text.as_ptr(), text.len()) }
    }

    fn emit(&self, text: &str) -> bool {
        // SAFETY: as for the log.
        unsafe { emit(text.as_ptr(), text.len()) != 0 }
    }

    fn is_cancelled(&self) -> bool {
        // SAFETY: it takes nothing.
        unsafe { cancelled() != 0 }
    }
}

/// Memory for the host to write to. It stays this module's for the one call there is.
pub fn alloc(length: usize) -> *mut u8 {
    Vec::leak(vec![0; length]).as_mut_ptr()
}

/// Where the host finds the tools.
pub fn describe(plugin: &dyn Plugin) -> u64 {
    packed(interface::describe(plugin))
}

/// Runs the call whose input the host wrote to memory from [`alloc`], and says where its answer is.
pub fn execute(plugin: &dyn Plugin, input: *mut u8, length: usize) -> u64 {
    // SAFETY: the host passes what `alloc` gave it, with the length it asked for, and does not
    // touch it while this runs.
    let input = unsafe { std::slice::from_raw_parts(input, length) };
    packed(interface::execute(plugin, &Host, input))
}

/// A text that outlives the call, as the interface packs it.
fn packed(text: String) -> u64 {
    let text: &'static str = String::leak(text);
    (text.as_ptr() as u64) << 32 | text.len() as u64
}
