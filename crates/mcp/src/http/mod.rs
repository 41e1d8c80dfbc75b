//! The server over streamable HTTP, on this machine's own addresses only.
//!
//! Guarantees: a request is looked at only after its `Host`, its `Origin` and its token were found
//! to be right; connections, sessions, the size of a request and the time it may take to arrive are
//! bounded, and whoever does not know the token keeps nobody out who does. Non-guarantee: there is no
//! TLS, and so no other address than loopback.

mod guard;
mod places;
mod reply;
mod sessions;

use crate::calls::Calls;
use crate::handler::Handler;
use crate::road::Road;
use crate::stdio::SETTLING;
use crate::stop::{ServeError, Stop, runtime};
use crate::token::Token;
use guard::Guard;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use places::{Place, Places};
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use sessions::Sessions;
use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

/// Bytes of a request's head.
const HEAD_BYTES: usize = 32 * 1024;
/// Header fields of a request.
const FIELDS: usize = 64;
/// After an error of the listener, such as too many open files.
const PAUSE: Duration = Duration::from_millis(100);

/// How much clients may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Connections at once of clients that have shown the token.
    pub(crate) connections: usize,
    /// Connections at once of others.
    pub(crate) strangers: usize,
    /// Sessions at once.
    pub(crate) sessions: usize,
    /// How long the head of a request may take to arrive, and a connection may lie idle.
    pub(crate) head: Duration,
    /// How long the rest of a request may take to arrive.
    pub(crate) body: Duration,
}

const LIMITS: Limits = Limits {
    connections: 64,
    strangers: 64,
    sessions: 32,
    head: Duration::from_secs(15),
    body: Duration::from_secs(30),
};

/// Why an address cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Others could reach it.
    #[error("`{0}` is not an address of this machine alone")]
    NotLoopback(SocketAddr),
    /// It is taken, or not ours.
    #[error("cannot listen on `{address}`")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why not.
        #[source]
        source: io::Error,
    },
}

impl BindError {
    /// What would help.
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::NotLoopback(_) => {
                "use 127.0.0.1:PORT; for other machines put a proxy with TLS in front of it"
            }
            Self::Listen { .. } => "choose another port, or 0 for any that is free",
        }
    }
}

/// An address that is listened on.
#[derive(Debug)]
pub struct Bound {
    listener: TcpListener,
    address: SocketAddr,
}

impl Bound {
    /// Listens on `address`, which must be a loopback address.
    pub fn bind(address: SocketAddr) -> Result<Self, BindError> {
        if !address.ip().is_loopback() {
            return Err(BindError::NotLoopback(address));
        }
        let listen = |source| BindError::Listen { address, source };
        let listener = TcpListener::bind(address).map_err(listen)?;
        listener.set_nonblocking(true).map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        Ok(Self { listener, address })
    }

    /// The address, with the port that was found.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves clients that bear `token` until `stop` says so. Blocks.
    pub fn serve(self, road: Arc<dyn Road>, token: Token, stop: &Stop) -> Result<(), ServeError> {
        let runtime = runtime()?;
        let ended = runtime.block_on(self.run(road, token, LIMITS, stop));
        runtime.shutdown_timeout(PAUSE);
        ended
    }

    pub(crate) async fn run(
        self,
        road: Arc<dyn Road>,
        token: Token,
        limits: Limits,
        stop: &Stop,
    ) -> Result<(), ServeError> {
        let stop = stop.token();
        let listener =
            tokio::net::TcpListener::from_std(self.listener).map_err(ServeError::Listen)?;
        let calls = Calls::new(road, stop.clone());
        let sessions = Arc::new(Sessions::new(limits.sessions));
        let service = service(&calls, &sessions, stop);
        let guard = Arc::new(Guard::new(
            self.address,
            token,
            sessions,
            service,
            limits.body,
        ));
        let places = Places::new(limits.strangers, limits.connections);
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = stop.cancelled() => break,
            };
            let Ok((stream, _)) = accepted else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            let place = tokio::select! {
                place = places.enter() => place,
                () = stop.cancelled() => break,
            };
            let Some(place) = place.map(Arc::new) else {
                break;
            };
            let (guard, stop) = (Arc::clone(&guard), stop.clone());
            tokio::spawn(async move {
                tokio::select! {
                    () = converse(stream, guard, Arc::clone(&place), limits.head) => {}
                    () = place.closed() => {}
                    () = stop.cancelled() => {}
                }
            });
        }
        calls.settle(SETTLING).await;
        Ok(())
    }
}

type Service = StreamableHttpService<Handler, Sessions>;

fn service(calls: &Calls, sessions: &Arc<Sessions>, stop: &CancellationToken) -> Service {
    let calls = calls.clone();
    let config = StreamableHttpServerConfig::default()
        // The guard has looked at the host and the origin, more strictly than this would.
        .disable_allowed_hosts()
        .with_max_request_body_bytes(crate::admit::MOST_BYTES)
        .with_cancellation_token(stop.child_token());
    let handler = move || Ok(Handler::new(calls.of_one()));
    StreamableHttpService::new(handler, Arc::clone(sessions), config)
}

/// Serves one connection to its end.
async fn converse(stream: TcpStream, guard: Arc<Guard>, place: Arc<Place>, head: Duration) {
    let answer = service_fn(move |request| {
        let (guard, place) = (Arc::clone(&guard), Arc::clone(&place));
        async move { Ok::<_, Infallible>(guard.answer(request, &place).await) }
    });
    // Whatever ends it, the connection is over and nobody else's.
    let _ended = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(head)
        .max_buf_size(HEAD_BYTES)
        .max_headers(FIELDS)
        .serve_connection(TokioIo::new(stream), answer)
        .await;
}
