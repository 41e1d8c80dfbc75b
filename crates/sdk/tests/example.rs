//! The example of a Wasm plugin compiles against this SDK, and its own tests hold. It is a workspace
//! of its own, built for Wasm, that nothing else here would compile.
#![expect(
    unreachable_pub,
    reason = "the example is a plugin's code, not Airlock's"
)]

#[path = "../../../examples/plugins/rust-wasm/src/lib.rs"]
mod example;
