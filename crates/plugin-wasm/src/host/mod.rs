//! The host: starts workers and calls the plugins in them.
//!
//! Guarantees: a plugin is loaded only from bytes with the approved digest, the very ones that were
//! digested; a call returns within its time and a little, whatever the worker does; what a worker
//! says is bounded and checked as if the plugin's author had written it; no worker outlives its
//! instance.
//!
//! A guest that traps or comes to a limit does no harm to its worker: the next call has an instance
//! of its own. A worker that ends or babbles ends all its calls; starting it again is the manager's
//! business.

#[cfg(target_os = "linux")]
mod boxed;
mod instance;
mod link;
mod log;
mod place;
mod slots;
mod spare;

#[cfg(target_os = "linux")]
pub use boxed::Boxed;
pub use link::{Pipes, Spawn};

use crate::cache::CodeCache;
use crate::limits::effective;
use crate::message::MODULE_BYTES;
use airlock_core::Digest;
use airlock_plugin::{Host, Instance, Start, StartError, ToolDescription};
use instance::WasmInstance;
use place::Source;
use rustix::fs::{CWD, Mode, OFlags, openat};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Runs plugins of the Wasm tier.
pub struct WasmHost {
    spawn: Arc<dyn Spawn>,
    cache: Option<Arc<CodeCache>>,
}

impl WasmHost {
    /// A host whose workers `spawn` starts. Without a cache, plugins are compiled at each start.
    pub fn new(spawn: impl Spawn + 'static, cache: Option<CodeCache>) -> Self {
        Self {
            spawn: Arc::new(spawn),
            cache: cache.map(Arc::new),
        }
    }
}

#[cfg(target_os = "linux")]
impl WasmHost {
    /// A host whose workers are `program` with `arguments`, each in a box, and which keeps what it
    /// has to in `place`, a directory of Airlock's own. Where no code can be kept, plugins are
    /// compiled at each start.
    pub fn boxed(program: PathBuf, arguments: Vec<OsString>, place: &Path) -> Self {
        let cache = CodeCache::open(&place.join("code"), &place.join("key"));
        let boxed = Boxed {
            program,
            arguments,
            state: place.to_owned(),
            launcher: airlock_sandbox::Launcher::Native,
        };
        Self::new(boxed, cache.ok())
    }
}

impl Host for WasmHost {
    fn start(&self, start: Start) -> Result<Arc<dyn Instance>, StartError> {
        let entry = &start.manifest.execution.entry;
        let refused = |why: String| StartError::Entry {
            entry: entry.clone(),
            why,
        };
        let module =
            read_entry(&start.directory.join(entry)).map_err(|error| refused(error.to_string()))?;
        if Digest::of(&module) != start.entry {
            return Err(refused("it is not what was approved".to_owned()));
        }
        let source = Source {
            spawn: Arc::clone(&self.spawn),
            cache: self.cache.clone(),
            module,
            digest: start.entry,
            plugin: start.manifest.name.to_string(),
            configuration: start.configuration.clone(),
            limits: effective(&start.manifest.execution.limits),
        };
        let loaded = source.load()?;
        same_tools(&start.manifest.tools, &loaded.tools)?;
        let callback = Arc::clone(&start.reach.callback);
        Ok(Arc::new(WasmInstance::new(source, loaded, callback)))
    }
}

/// The bytes of a regular file. They are digested and used from memory, so it does not matter what
/// the file is a moment later.
fn read_entry(path: &Path) -> io::Result<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(openat(CWD, path, flags, Mode::empty())?);
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is no regular file",
        ));
    }
    let mut bytes = Vec::new();
    file.take(MODULE_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > MODULE_BYTES {
        let what = format!("it is longer than {MODULE_BYTES} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
    }
    Ok(bytes)
}

/// A manifest that describes tools is what was reviewed: the plugin must say the same.
fn same_tools(manifest: &[ToolDescription], found: &[ToolDescription]) -> Result<(), StartError> {
    if manifest.is_empty() {
        return Ok(());
    }
    let sorted = |tools: &[ToolDescription]| {
        let mut tools = tools.to_vec();
        tools.sort_by(|one, other| one.name.cmp(&other.name));
        tools
    };
    if sorted(manifest) == sorted(found) {
        return Ok(());
    }
    let what = "it describes other tools than its manifest";
    Err(StartError::Protocol(what.to_owned()))
}
