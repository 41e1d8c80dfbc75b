//! A kernel of one command, whose plugins can ask it back as those of a kernel that stays can.
//!
//! Non-guarantee: nobody else finds it. It has no socket but those of its plugins, and another
//! process that calls a tool of the same plugin has an instance of its own.

use crate::running::{Connected, LAST_PATIENCE, LISTENERS, ServeError, connect};
use crate::service::{Service, Settings, Shared};
use airlock_kernel::Kernel;
use airlock_wire::{Server, ServerConfig};
use std::path::PathBuf;
use tokio::runtime::{Builder, Runtime};

/// A kernel with its plugins' way back; both end with this value.
pub struct Accompanied {
    // In the order in which they end: plugins hold sockets of the server, which has the threads.
    _connected: Connected,
    _server: Server<Service>,
    _threads: Threads,
    service: Shared,
}

struct Threads(Option<Runtime>);

impl Drop for Threads {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_timeout(LAST_PATIENCE);
        }
    }
}

/// Gives the plugins of `kernel`, which was opened with `settings`, their way back. `own` are
/// Airlock's own directories.
pub fn accompany(
    kernel: Kernel,
    own: Vec<PathBuf>,
    settings: Settings,
) -> Result<Accompanied, ServeError> {
    let config = ServerConfig::new(env!("CARGO_PKG_VERSION"));
    let runtime = Builder::new_multi_thread()
        .worker_threads(LISTENERS)
        .thread_name("airlock-plugins")
        .enable_all()
        .build()
        .map_err(ServeError::Threads)?;
    let service = Service::new(kernel, own, settings);
    let (service, server, connected) = connect(service, config, &runtime);
    Ok(Accompanied {
        _connected: connected,
        _server: server,
        _threads: Threads(Some(runtime)),
        service,
    })
}

impl Accompanied {
    /// The kernel.
    pub fn kernel(&self) -> &Kernel {
        &self.service.kernel
    }
}
