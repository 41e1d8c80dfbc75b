//! Serving, from the first listener to the last record.

use crate::lock::{Lock, LockError, Notice, is_wanted};
use crate::renewal::Afresh;
use crate::service::{Service, Settings, Shared};
use airlock_audit::AppendError;
use airlock_core::SandboxId;
use airlock_kernel::{Kernel, PluginSockets};
use airlock_plugin::boxed::KERNEL_SOCKET;
use airlock_wire::{SandboxSocket, Server, ServerConfig, ServerError, Socket, SocketError};
use std::any::Any;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::runtime::{Handle, Runtime};
use tokio::sync::Notify;

/// How to serve.
#[derive(Clone)]
pub struct Options {
    /// Airlock's own directories.
    pub own: Vec<PathBuf>,
    /// What the kernel was opened with.
    pub settings: Settings,
    /// How long to stay with nobody connected; none: until told to stop.
    pub idle: Option<Duration>,
    /// Whether it makes way, once nobody is connected, for one that a person starts: with the state of
    /// its workspace, where that is said.
    pub on_demand: Option<PathBuf>,
    /// Limits and patience of the wire.
    pub wire: ServerConfig,
    /// What ends it: one may end several, one after the other.
    pub stopper: Stopper,
    /// What it would be opened with now, for one that is opened again when that changes.
    pub afresh: Option<Afresh>,
}

impl Options {
    /// The usual ones.
    pub fn new(own: Vec<PathBuf>, settings: Settings) -> Self {
        Self {
            own,
            settings,
            idle: None,
            on_demand: None,
            wire: ServerConfig::new(env!("CARGO_PKG_VERSION")),
            stopper: Stopper::default(),
            afresh: None,
        }
    }
}

/// Why a kernel is not served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// There is no socket.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// It cannot be listened on.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// Nobody could find it.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The machine has no threads left.
    #[error("cannot start threads")]
    Threads(#[source] io::Error),
    /// It was to be opened again, and something of it does not end.
    #[error("the kernel was to take up other settings, and something of it does not end")]
    Held,
    /// The end could not be recorded.
    #[error("the end of the kernel could not be recorded")]
    Unrecorded(#[source] AppendError),
}

/// Threads that wait for sockets. Requests run on others.
pub(crate) const LISTENERS: usize = 2;
/// Threads besides those for requests on the main socket: for sandboxes, events and the log.
const SPARE_THREADS: usize = 24;
/// How often an idle kernel looks whether it has been so for long enough.
const GLANCE: Duration = Duration::from_millis(200);
/// How long whoever does not read has until a kernel that is opened again leaves them.
const PARTING: Duration = Duration::from_millis(500);
/// How long what is taken back may take to end before it is left behind.
pub(crate) const LAST_PATIENCE: Duration = Duration::from_secs(10);

/// Ends a served kernel, from any thread. What is said before one is served counts for the next.
#[derive(Debug, Clone, Default)]
pub struct Stopper(Arc<Notify>);

/// Where a kernel serves its workspace: kept while one takes over from another, so that nobody else
/// does, and whoever connects meanwhile only waits.
#[derive(Debug)]
pub struct Post {
    lock: Lock,
    socket: Socket,
}

impl Post {
    /// The one of the workspace that `lock` is for, with a socket in `directory`.
    pub fn take(lock: Lock, directory: &Path) -> Result<Self, ServeError> {
        let socket = Socket::bind(directory, "kernel.sock")?;
        Ok(Self { lock, socket })
    }
}

/// How serving ended.
#[derive(Debug)]
pub enum Ended {
    /// It was told to stop, or nobody needed it.
    Stopped,
    /// Its settings have changed: whoever served it is to open another in its place.
    Renewing(Post),
}

impl Stopper {
    /// Ends it: no new requests; those under way get a little time.
    pub fn stop(&self) {
        self.0.notify_one();
    }
}

/// A kernel that is served.
pub struct Running {
    runtime: Runtime,
    service: Shared,
    server: Server<Service>,
    serving: tokio::task::JoinHandle<()>,
    stopper: Stopper,
    idle: Option<Duration>,
    on_demand: Option<PathBuf>,
    post: Post,
    connected: Connected,
}

/// Gives plugins a way to a kernel, which holds the kernel as long as it is given.
pub(crate) struct Connected(Weak<Service>);

impl Drop for Connected {
    fn drop(&mut self) {
        if let Some(service) = self.0.upgrade() {
            service.kernel.stop_plugins();
            service.kernel.disconnect_plugins();
        }
    }
}

/// A kernel with its server, on the threads of `runtime`, and its plugins' way back.
pub(crate) fn connect(
    service: Service,
    wire: ServerConfig,
    runtime: &Runtime,
) -> (Shared, Server<Service>, Connected) {
    let service = Arc::new(service);
    let server = Server::new(Arc::clone(&service), wire);
    let sockets = Arc::new(Sockets {
        server: server.clone(),
        runtime: runtime.handle().clone(),
    });
    let road: Weak<Service> = Arc::downgrade(&service);
    service.kernel.connect_plugins(road, Some(sockets));
    let connected = Connected(Arc::downgrade(&service));
    (service, server, connected)
}

/// Serves `kernel`, whose workspace `post` is for.
pub fn start(kernel: Kernel, mut post: Post, options: Options) -> Result<Running, ServeError> {
    let limits = options.wire.limits;
    let threads = limits.workers + limits.waiting + SPARE_THREADS;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(LISTENERS)
        .max_blocking_threads(threads)
        .thread_name("airlock-kernel")
        .enable_all()
        .build()
        .map_err(ServeError::Threads)?;
    let service = Service::new(kernel, options.own, options.settings)
        .steered_by(&options.stopper, options.afresh);
    let (service, server, connected) = connect(service, options.wire, &runtime);
    let entered = runtime.enter();
    let serving = server.serve_for(&post.socket)?;
    drop(entered);
    let serving = runtime.spawn(serving);
    post.lock.publish(&Notice {
        pid: std::process::id(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        socket: post.socket.path().to_owned(),
        renewing: false,
        on_demand: options.on_demand.is_some(),
    })?;
    Ok(Running {
        runtime,
        service,
        server,
        serving,
        stopper: options.stopper,
        idle: options.idle,
        on_demand: options.on_demand,
        post,
        connected,
    })
}

impl Running {
    /// Where its socket is.
    pub fn socket(&self) -> &Path {
        self.post.socket.path()
    }

    /// What ends it.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// A socket for `sandbox` alone, whose processes run as `user`.
    pub fn socket_for(&self, sandbox: &SandboxId, user: u32) -> Result<SandboxSocket, SocketError> {
        let _entered = self.runtime.enter();
        let directory = self.socket().parent().unwrap_or(Path::new("/"));
        self.server
            .socket_for(sandbox, &directory.join("sandboxes"), user)
    }

    /// Serves until it is told to stop, has been idle for long enough or is to be opened again; then
    /// closes the kernel.
    pub fn wait(self) -> Result<Ended, ServeError> {
        let Self {
            runtime,
            service,
            server,
            serving,
            stopper,
            idle,
            on_demand,
            post,
            connected,
        } = self;
        let (served, post) = runtime.block_on(async {
            let mut serving = serving;
            let is_renewing = tokio::select! {
                // Whoever ends it does not have it opened again.
                biased;
                () = stopper.0.notified() => false,
                () = service.told_to_renew() => true,
                () = idled(&server, idle, on_demand.as_deref()) => false,
                ended = &mut serving => return (flat(ended), None),
            };
            // Nobody new is let in where there is no next; the file goes first, so that clients stop
            // trying.
            let Post { mut lock, socket } = post;
            let post = if is_renewing {
                lock.renews();
                Ok(Post { lock, socket })
            } else {
                drop(socket);
                Err(lock)
            };
            // A request that waits for a plugin to end must not add its wait to that of all of them.
            service.kernel.hasten_plugins();
            if is_renewing {
                // Nothing is under way: only who does not listen would be waited for.
                server.shutdown_within(PARTING);
            } else {
                server.shutdown();
            }
            let ended = tokio::time::timeout(LAST_PATIENCE, serving).await;
            (ended.map_or(Ok(()), flat), Some(post))
        });
        // Plugins hold sockets of the server's.
        drop(connected);
        drop(server);
        runtime.shutdown_timeout(LAST_PATIENCE);
        // Whatever still runs after all that patience keeps the kernel; its log is flushed anyway.
        let service = Arc::into_inner(service);
        let is_held = service.is_none();
        let closed = service.map_or(Ok(()), |service| service.kernel.close());
        served?;
        closed.map_err(ServeError::Unrecorded)?;
        match post {
            Some(Ok(_)) if is_held => Err(ServeError::Held),
            Some(Ok(post)) => Ok(Ended::Renewing(post)),
            Some(Err(_)) | None => Ok(Ended::Stopped),
        }
    }
}

/// Sockets for plugins, each its plugin's identity.
struct Sockets {
    server: Server<Service>,
    runtime: Handle,
}

impl PluginSockets for Sockets {
    fn open(&self, sandbox: &SandboxId, directory: &Path) -> Result<Box<dyn Any + Send>, String> {
        let _entered = self.runtime.enter();
        // Who the processes of a sandbox are on this machine.
        let user = airlock_sandbox::stage_owner().uid;
        let opened = self
            .server
            .socket_called(KERNEL_SOCKET, sandbox, directory, user);
        match opened {
            Ok(socket) => Ok(Box::new(socket)),
            Err(error) => Err(format!("there is no socket for it: {error}")),
        }
    }
}

fn flat(ended: Result<(), tokio::task::JoinError>) -> Result<(), ServeError> {
    ended.map_err(|error| ServeError::Threads(io::Error::other(error)))
}

/// Waits until nobody has been connected for `limit`, or at all, where somebody wants the place of a kernel
/// whose state is in `on_demand`.
async fn idled(server: &Server<Service>, limit: Option<Duration>, on_demand: Option<&Path>) {
    let Some(limit) = limit else {
        return std::future::pending().await;
    };
    loop {
        let is_wanted = on_demand.is_some_and(is_wanted);
        let least = if is_wanted { Duration::ZERO } else { limit };
        if server.idle().is_some_and(|quiet| quiet >= least) {
            return;
        }
        tokio::time::sleep(GLANCE.min(limit)).await;
    }
}
