//! Compiled code from earlier: the one place where bytes become code that runs.
#![expect(
    unsafe_code,
    reason = "taking compiled code back is unsafe by nature; nothing else in this crate is"
)]

use wasmtime::component::Component;
use wasmtime::{Engine, Module, Precompiled};

/// Code that the host of this worker sent as such.
///
/// INVARIANT: only the frame of that kind becomes one, and the host sends it only after the code in
/// its cache was found to be the one made with its key: for this module, by a worker with this
/// engine.
pub(crate) struct FromHost(Vec<u8>);

/// Code that can be linked.
pub(super) enum Code {
    Module(Module),
    Component(Component),
}

impl FromHost {
    /// `bytes` of a frame of code.
    pub(crate) const fn new(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// The code, if the engine finds that it made it.
    pub(super) fn take(&self, engine: &Engine) -> Option<Code> {
        match Engine::detect_precompiled(&self.0)? {
            Precompiled::Module => {
                // SAFETY: the bytes must be what `serialize` gave. They are: the host authenticated
                // them with a key that no plugin, sandbox or worker can read, and it made that
                // authentication over what a worker gave it for this very module. If that worker
                // had been taken over by the module it compiled, the code can do here what it could
                // do there: this process is confined as that one was, serves that module alone, and
                // has read nothing else.
                let module = unsafe { Module::deserialize(engine, &self.0) };
                module.ok().map(Code::Module)
            }
            Precompiled::Component => {
                // SAFETY: as above; it is a component.
                let component = unsafe { Component::deserialize(engine, &self.0) };
                component.ok().map(Code::Component)
            }
        }
    }
}
