//! The border of a Wasm module: the only place where numbers become memory.
//!
//! There is none on other targets, but for tests: they have it with a stand-in for the host, so that
//! it is compiled wherever the rest is.
#![cfg_attr(
    any(target_arch = "wasm32", test),
    expect(
        unsafe_code,
        reason = "memory and functions cross the border of the module as plain numbers"
    )
)]

#[cfg(any(target_arch = "wasm32", test))]
pub(crate) mod guest;
#[cfg(any(target_arch = "wasm32", test))]
mod imports;

/// Makes the plugin that an expression gives the one of this Wasm module. Once in a crate of the
/// type `cdylib`; on other targets it only checks that the expression is a plugin.
///
/// ```
/// # struct Greeter;
/// # impl airlock_sdk::Plugin for Greeter {
/// #     fn tools(&self) -> Vec<airlock_sdk::Tool> { Vec::new() }
/// #     fn call(&self, _: &airlock_sdk::Context<'_>, tool: &str, _: &serde_json::Value)
/// #         -> Result<serde_json::Value, airlock_sdk::ToolError> {
/// #         Err(airlock_sdk::ToolError::unknown(tool))
/// #     }
/// # }
/// airlock_sdk::export!(Greeter);
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! export {
    ($plugin:expr) => {
        #[cfg(target_arch = "wasm32")]
        mod airlock_export {
            use super::*;

            $crate::exported_functions!($plugin);
        }

        #[cfg(not(target_arch = "wasm32"))]
        const _: () = {
            fn _is_a_plugin() -> impl $crate::Plugin {
                $plugin
            }
        };
    };
}

/// What a module exports. Not for use by hand.
#[doc(hidden)]
#[macro_export]
macro_rules! exported_functions {
    ($plugin:expr) => {
        #[unsafe(no_mangle)]
        extern "C" fn airlock_alloc(length: usize) -> *mut u8 {
            $crate::exported::alloc(length)
        }

        #[unsafe(no_mangle)]
        extern "C" fn airlock_describe() -> u64 {
            $crate::exported::describe(&$plugin)
        }

        #[unsafe(no_mangle)]
        extern "C" fn airlock_execute(input: *mut u8, length: usize) -> u64 {
            // SAFETY: the host passes what `airlock_alloc` gave it, with the length it asked for, and
            // does not touch it while this runs.
            unsafe { $crate::exported::execute(&$plugin, input, length) }
        }
    };
}
