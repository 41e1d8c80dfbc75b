//! What the engine's errors mean.

use airlock_plugin_wasm::message::{Fault, Limit, plain};
use wasmtime::{Error, PoolConcurrencyLimitError, Trap};

/// Why a plugin cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoadError {
    #[error("it is neither a module nor a component of WebAssembly")]
    NotWasm,
    #[error("it is not valid: {0}")]
    Invalid(String),
    #[error("it imports `{0}`, which no plugin can have")]
    Import(String),
    #[error("it imports `{0}` with another type than it has")]
    ImportType(String),
    #[error("it does not export `{0}` as the interface of plugins has it")]
    Export(&'static str),
    #[error("it cannot be linked: {0}")]
    Link(String),
    #[error("the engine does not start: {0}")]
    Engine(String),
    #[error("it does not say what its tools are: {0}")]
    Describe(#[from] Fault),
}

impl LoadError {
    pub(super) fn invalid(error: &Error) -> Self {
        Self::Invalid(text(error))
    }

    pub(super) fn link(error: &Error) -> Self {
        Self::Link(text(error))
    }

    pub(super) fn engine(error: &Error) -> Self {
        Self::Engine(text(error))
    }
}

/// Why a guest gave no answer.
pub(super) fn fault(error: &Error) -> Fault {
    if let Some(fault) = error.downcast_ref::<Fault>() {
        return fault.clone();
    }
    if error.is::<PoolConcurrencyLimitError>() {
        return Fault::Limit(Limit::Instances);
    }
    match error.downcast_ref::<Trap>() {
        Some(&Trap::OutOfFuel) => Fault::Limit(Limit::Fuel),
        Some(&Trap::StackOverflow) => Fault::Limit(Limit::Stack),
        Some(&Trap::Interrupt) => Fault::TimedOut,
        Some(trap) => Fault::Trap(plain(&trap.to_string())),
        None => Fault::Protocol(text(error)),
    }
}

/// The whole chain of reasons, as one line.
fn text(error: &Error) -> String {
    plain(&format!("{error:#}"))
}
