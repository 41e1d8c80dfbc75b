//! The serving end: sockets, and what every connection shares.

mod connection;
mod inlet;
mod outgoing;
mod pump;
mod share;
mod stay;

use crate::cancel::CancelToken;
use crate::error::{WireError, code};
use crate::handshake::Hello;
use crate::limits::Limits;
use crate::message::{Answer, Event};
use crate::peer::{PeerError, Via, Visitor};
use crate::socket::{Socket, SocketError};
use airlock_core::SandboxId;
use serde_json::Value;
use share::Party;
pub(crate) use share::Share;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::{UnixListener, UnixStream};
use tokio::runtime::Handle;
use tokio::sync::watch;

/// What is done with requests. Calls run on threads of their own and may block.
pub trait Handler: Send + Sync + 'static {
    /// Who a connection is, once it has said hello.
    type Identity: Send + Sync + 'static;

    /// Decides whom `visitor` may be, and says what they want to know first. Must not block.
    fn greet(&self, visitor: &Visitor, hello: &Hello)
    -> Result<(Self::Identity, Value), WireError>;

    /// Whether a request may take long: somebody else then listens to its connection at once. That
    /// one takes longer than was said is found out, a little later.
    fn lasts(&self, _request: &Incoming) -> bool {
        false
    }

    /// Whether a request waits for none of those under way: what is to end them must not wait for
    /// them. Few of these run at once.
    fn comes_first(&self, _identity: &Self::Identity, _request: &Incoming) -> bool {
        false
    }

    /// Answers a request.
    fn call(
        &self,
        identity: &Self::Identity,
        request: Incoming,
        cancel: &CancelToken,
    ) -> Result<Answer, WireError>;

    /// Somebody was answered: what was put off until then can be done now. Must not take long.
    fn answered(&self) {}

    /// Lets `identity` have events, and says after which one they begin.
    fn subscribe(&self, identity: &Self::Identity, after: Option<u64>) -> Result<u64, WireError>;

    /// At most `most` events after `after`, oldest first.
    fn events(
        &self,
        identity: &Self::Identity,
        after: u64,
        most: usize,
    ) -> Result<Vec<Event>, WireError>;
}

/// A request, taken from its connection.
#[derive(Debug)]
pub struct Incoming {
    /// What is wanted.
    pub method: String,
    /// With which parameters.
    pub params: Value,
    /// Descriptors that came along.
    pub descriptors: Vec<OwnedFd>,
}

/// How to serve.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// The kernel's own version, told at the handshake.
    pub version: String,
    /// Limits of the main socket.
    pub limits: Limits,
    /// Limits of each sandbox's socket.
    pub sandbox_limits: Limits,
    /// Who may use the main socket.
    pub users: Vec<u32>,
    /// How often subscribers look for events nobody announced.
    pub poll: Duration,
    /// How long requests under way may go on when the server ends.
    pub grace: Duration,
}

impl ServerConfig {
    /// For the user who runs this process, and nobody else.
    pub fn new(version: &str) -> Self {
        Self {
            version: version.to_owned(),
            limits: Limits::MAIN,
            sandbox_limits: Limits::SANDBOX,
            users: vec![rustix::process::geteuid().as_raw()],
            poll: Duration::from_millis(250),
            grace: Duration::from_secs(5),
        }
    }
}

/// Why serving ended before it was told to.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The socket cannot be listened on.
    #[error("cannot listen")]
    Listen(#[source] io::Error),
}

/// What every connection of a server shares.
pub(crate) struct Inner<H> {
    handler: Arc<H>,
    config: ServerConfig,
    ending: watch::Sender<bool>,
    grace: std::sync::Mutex<Duration>,
    news: watch::Sender<u64>,
    main: Arc<Share>,
    quiet_since: std::sync::Mutex<Instant>,
    /// How many calls are under way, on all sockets.
    calls: std::sync::atomic::AtomicUsize,
    /// How many threads stay with a connection.
    staying: std::sync::atomic::AtomicUsize,
}

/// Serves a handler. Clones are one server.
pub struct Server<H> {
    inner: Arc<Inner<H>>,
}

impl<H> Clone for Server<H> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
        }
    }
}

impl<H: Handler> Server<H> {
    /// A server that does not listen yet.
    pub fn new(handler: Arc<H>, config: ServerConfig) -> Self {
        let main = Share::new(config.limits, config.users.clone(), Via::Main);
        Self {
            inner: Arc::new(Inner {
                handler,
                grace: std::sync::Mutex::new(config.grace),
                config,
                ending: watch::Sender::new(false),
                news: watch::Sender::new(0),
                main: Arc::new(main),
                quiet_since: std::sync::Mutex::new(Instant::now()),
                calls: std::sync::atomic::AtomicUsize::new(0),
                staying: std::sync::atomic::AtomicUsize::new(0),
            }),
        }
    }

    /// Serves `socket` until [`Server::shutdown`], and then until every connection is closed.
    pub async fn serve(&self, socket: Socket) -> Result<(), ServerError> {
        let serving = self.serve_for(&socket)?;
        let mut ending = self.inner.ending.subscribe();
        let ended = async {
            let _ends = ending.wait_for(|ends| *ends).await;
            // Nobody new is let in; the file goes first, so that clients stop trying.
            drop(socket);
        };
        tokio::join!(serving, ended);
        Ok(())
    }

    /// The same for a socket that outlives it: whoever connects after the end waits for whoever serves
    /// it next.
    pub fn serve_for(
        &self,
        socket: &Socket,
    ) -> Result<impl Future<Output = ()> + Send + use<H>, ServerError> {
        let listener = listening(socket).map_err(ServerError::Listen)?;
        let (inner, share) = (Arc::clone(&self.inner), Arc::clone(&self.inner.main));
        Ok(async move {
            accept(inner, Arc::clone(&share), listener).await;
            share.emptied().await;
        })
    }

    /// A socket for `sandbox` alone, in `directory`, whose processes run as `user`. Whoever comes
    /// through it is that sandbox, whatever they say.
    pub fn socket_for(
        &self,
        sandbox: &SandboxId,
        directory: &Path,
        user: u32,
    ) -> Result<SandboxSocket, SocketError> {
        self.socket_called(&format!("{sandbox}.sock"), sandbox, directory, user)
    }

    /// The same under a name of its own.
    pub fn socket_called(
        &self,
        name: &str,
        sandbox: &SandboxId,
        directory: &Path,
        user: u32,
    ) -> Result<SandboxSocket, SocketError> {
        let socket = Socket::bind(directory, name)?;
        let path = socket.path().to_owned();
        let listener = listening(&socket).map_err(|source| SocketError::Io { path, source })?;
        let via = Via::Sandbox(sandbox.clone());
        let share = Arc::new(Share::new(
            self.inner.config.sandbox_limits,
            vec![user],
            via,
        ));
        let accepting = tokio::spawn(accept(
            Arc::clone(&self.inner),
            Arc::clone(&share),
            listener,
        ));
        Ok(SandboxSocket {
            socket,
            share,
            accepting,
        })
    }

    /// Converses on `runtime` with those who come out of `sandbox`, whose processes run as `user`,
    /// and who are accepted elsewhere.
    pub fn visits(&self, sandbox: &SandboxId, user: u32, runtime: Handle) -> SandboxVisits<H> {
        let via = Via::Sandbox(sandbox.clone());
        let limits = self.inner.config.sandbox_limits;
        SandboxVisits {
            inner: Arc::clone(&self.inner),
            share: Arc::new(Share::new(limits, vec![user], via)),
            runtime,
        }
    }

    /// Tells subscribers that there may be events.
    pub fn announce(&self) {
        self.inner
            .news
            .send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Ends: no new connections or requests; those under way get their grace.
    pub fn shutdown(&self) {
        self.inner.ending.send_replace(true);
    }

    /// The same with another grace: for whoever knows what is under way.
    pub fn shutdown_within(&self, grace: Duration) {
        *lock(&self.inner.grace) = grace;
        self.shutdown();
    }

    /// How long nobody has been connected; none while somebody is.
    pub fn idle(&self) -> Option<Duration> {
        let since = *lock(&self.inner.quiet_since);
        (self.inner.main.connections() == 0).then(|| since.elapsed())
    }

    /// How many are connected to the main socket.
    pub fn connections(&self) -> usize {
        self.inner.main.connections()
    }
}

impl<H> Inner<H> {
    /// How long what is under way may go on once it ends.
    fn grace(&self) -> Duration {
        *lock(&self.grace)
    }

    /// Somebody came or went.
    fn stir(&self) {
        *lock(&self.quiet_since) = Instant::now();
    }
}

fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// A sandbox's socket. Dropping it closes the socket and every connection through it.
#[derive(Debug)]
pub struct SandboxSocket {
    socket: Socket,
    share: Arc<Share>,
    accepting: tokio::task::JoinHandle<()>,
}

impl SandboxSocket {
    /// Where it is, outside the sandbox.
    pub fn path(&self) -> &Path {
        self.socket.path()
    }
}

impl Drop for SandboxSocket {
    fn drop(&mut self) {
        self.accepting.abort();
        self.share.close();
    }
}

fn listening(socket: &Socket) -> io::Result<UnixListener> {
    let listener = socket.listener()?;
    listener.set_nonblocking(true)?;
    UnixListener::from_std(listener)
}

/// How long to wait when the system has no descriptor left for another connection.
const BREATHER: Duration = Duration::from_millis(50);

async fn accept<H: Handler>(inner: Arc<Inner<H>>, share: Arc<Share>, listener: UnixListener) {
    let mut ending = inner.ending.subscribe();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = ending.wait_for(|ends| *ends) => return,
        };
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(BREATHER).await;
            continue;
        };
        admit(&inner, &share, stream);
    }
}

/// Converses with whoever was accepted, if there is a place.
fn admit<H: Handler>(inner: &Arc<Inner<H>>, share: &Arc<Share>, stream: UnixStream) {
    inner.stir();
    let Ok(told) = stream.peer_cred() else {
        let error = WireError::new(code::REFUSED, PeerError::Unnamed.to_string());
        return outgoing::refuse(&stream, &error);
    };
    let Some(place) = share.enter(Party::of(told)) else {
        let text = "there are too many connections, of this process or of all";
        let error = WireError::new(code::OVERLOADED, text).retryable();
        return outgoing::refuse(&stream, &error);
    };
    let inner = Arc::clone(inner);
    tokio::spawn(async move {
        connection::converse(&inner, place, told, stream).await;
        inner.stir();
    });
}

/// Those who came out of one sandbox, whom somebody else accepted. Dropping it ends every connection
/// of theirs.
pub struct SandboxVisits<H> {
    inner: Arc<Inner<H>>,
    share: Arc<Share>,
    runtime: Handle,
}

impl<H: Handler> SandboxVisits<H> {
    /// Converses with another, if there is a place.
    pub fn admit(&self, stream: std::os::unix::net::UnixStream) -> io::Result<()> {
        let _entered = self.runtime.enter();
        stream.set_nonblocking(true)?;
        admit(&self.inner, &self.share, UnixStream::from_std(stream)?);
        Ok(())
    }
}

impl<H> Drop for SandboxVisits<H> {
    fn drop(&mut self) {
        self.share.close();
    }
}
