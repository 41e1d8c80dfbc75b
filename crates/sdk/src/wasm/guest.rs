//! The Wasm side: texts in and out of this module's memory.

use super::imports::{call, cancelled, emit, log, take};
use crate::context::{Failure, Kernel, Level};
use crate::interface;
use crate::plugin::Plugin;
use serde_json::Value;

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
///
/// # Safety
/// `input` has to be what [`alloc`] gave for `length`, and nobody may touch it while this runs.
pub unsafe fn execute(plugin: &dyn Plugin, input: *mut u8, length: usize) -> u64 {
    // SAFETY: the caller promises it.
    let input = unsafe { std::slice::from_raw_parts(input, length) };
    packed(interface::execute(plugin, &Host, input))
}

/// A text that outlives the call, as the interface packs it.
fn packed(text: String) -> u64 {
    let text: &'static str = String::leak(text);
    (text.as_ptr() as u64) << 32 | text.len() as u64
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    use super::*;
    use crate::context::Context;
    use crate::plugin::{Tool, ToolError};
    use crate::wasm::imports::stand_in::heard;
    use serde_json::json;

    struct Everything;

    impl Plugin for Everything {
        fn tools(&self) -> Vec<Tool> {
            vec![Tool::new("try", "Try it")]
        }

        fn call(
            &self,
            context: &Context<'_>,
            tool: &str,
            given: &Value,
        ) -> Result<Value, ToolError> {
            context.log(Level::Warn, "careful");
            let wanted = context.emit("piece") && !context.is_cancelled();
            Ok(json!([wanted, context.call(tool, given)?]))
        }
    }

    // What `export!` makes of a plugin in a module, without the module.
    crate::exported_functions!(Everything);

    /// Runs a call as the host of a module does, and gives the length of its answer.
    fn ran(tool: &str) -> u64 {
        let input = json!({ "tool": tool, "arguments": { "a": "\u{fc}" }, "context": { "action": "a", "plugin": "p" } });
        let input = input.to_string();
        let place = airlock_alloc(input.len());
        // SAFETY: the memory is as long as was asked for, and nobody else has it yet.
        unsafe { std::ptr::copy_nonoverlapping(input.as_ptr(), place, input.len()) };
        airlock_execute(place, input.len()) & u64::from(u32::MAX)
    }

    #[test]
    fn texts_cross_the_border_whole_in_both_directions() {
        let described = json!(Everything.tools()).to_string();
        assert_eq!(
            airlock_describe() & u64::from(u32::MAX),
            described.len() as u64
        );
        let answer = json!({ "ok": [true, { "a": "\u{fc}" }] }).to_string();
        assert_eq!(ran("fs.read"), answer.len() as u64);
        let want = [
            "log 2 careful",
            "emit piece",
            "call fs.read {\"a\":\"\u{fc}\"}",
        ];
        assert_eq!(heard(), want);
    }

    #[test]
    fn a_refusal_of_the_kernel_is_an_error_of_the_call() {
        let refused = Host.call("refused", &json!({})).unwrap_err();
        assert_eq!(
            (refused.code.as_str(), refused.retryable),
            ("denied", false)
        );
        let answer = json!({ "error": ToolError::from(refused).to_string() }).to_string();
        assert_eq!(ran("refused"), answer.len() as u64);
    }
}
