//! The host of plugins that are WebAssembly: components of the world `airlock:plugin`, and plain
//! modules with a small interface of their own (`docs/wasm-plugins.md`).
//!
//! Two halves that share a wire format. The worker (`airlock-wasm-worker`, which brings the compiler)
//! confines itself, takes one plugin, and runs its calls, each in an instance made for it and thrown
//! away after. [`WasmHost`] is the host: it starts workers, gives them the approved bytes, and holds
//! them to their limits.
//!
//! Guarantees: no guest code runs, and none is compiled, outside a worker. A guest reaches nothing
//! but the four host functions, and of those only `call` leads out: to the road, under the plugin's
//! name. Fuel, time, memory, tables, stack and instances are limited, and coming to each limit is an
//! error of its own. Code is taken from the disk only if it carries a code that this machine's own
//! key made for that very module, engine and configuration.
//!
//! Not guaranteed here: that a worker is confined. [`Boxed`] puts it in a sandbox, and it insists
//! itself that its filter took before it reads a plugin. A worker that was taken over is contained
//! by those, by the bounds on what it says, and by the clock.

mod cache;
mod host;
mod limits;
#[doc(hidden)]
pub mod message;
#[doc(hidden)]
pub mod probe;

pub use cache::{CacheError, CodeCache};
#[cfg(target_os = "linux")]
pub use host::Boxed;
pub use host::{Pipes, Spawn, WasmHost};
pub use limits::{Bounds, effective};
