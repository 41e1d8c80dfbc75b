//! Connections that come in on a socket, and who gets in.

use rustls::ServerConfig;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::Connected;

/// How long nobody is taken in after that failed: there may be descriptors again in a moment.
const PAUSE: Duration = Duration::from_millis(100);

/// How many get in, and how fast they have to be.
#[derive(Debug, Clone, Copy)]
pub struct Door {
    /// Connections at once. One too many is closed.
    pub connections: usize,
    /// For the TLS handshake.
    pub handshake: Duration,
}

/// Those who get in at `listener`, for as long as anybody takes them. Without `tls` the directory the
/// socket lies in is what keeps others out. Has to be called within a runtime.
pub fn incoming(
    listener: UnixListener,
    tls: Option<Arc<ServerConfig>>,
    door: Door,
) -> ReceiverStream<io::Result<Accepted>> {
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(accept(listener, tls.map(TlsAcceptor::from), door, sender));
    ReceiverStream::new(receiver)
}

async fn accept(
    listener: UnixListener,
    tls: Option<TlsAcceptor>,
    door: Door,
    sender: mpsc::Sender<io::Result<Accepted>>,
) {
    let places = Arc::new(Semaphore::new(door.connections));
    loop {
        let accepted = tokio::select! {
            () = sender.closed() => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            continue;
        };
        let (tls, sender) = (tls.clone(), sender.clone());
        // Whoever is slow to prove who it is holds up nobody.
        tokio::spawn(async move {
            if let Ok(Some(carrier)) = timeout(door.handshake, secure(stream, tls)).await {
                let accepted = Accepted {
                    carrier,
                    _place: place,
                };
                // Fails once nobody serves any more, and the connection goes too.
                let _sent = sender.send(Ok(accepted)).await;
            }
        });
    }
}

async fn secure(stream: UnixStream, tls: Option<TlsAcceptor>) -> Option<Box<dyn Carrier>> {
    match tls {
        Some(tls) => Some(Box::new(tls.accept(stream).await.ok()?)),
        None => Some(Box::new(stream)),
    }
}

/// A socket, with TLS or without.
pub trait Carrier: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Carrier for T {}

/// A connection, and its place among those.
pub struct Accepted {
    carrier: Box<dyn Carrier>,
    _place: OwnedSemaphorePermit,
}

impl Connected for Accepted {
    type ConnectInfo = ();

    fn connect_info(&self) -> Self::ConnectInfo {}
}

impl AsyncRead for Accepted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.carrier).poll_read(context, buffer)
    }
}

impl AsyncWrite for Accepted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.carrier).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.carrier).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.carrier).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::Identity;
    use tokio::io::AsyncReadExt as _;
    use tokio_stream::StreamExt as _;

    const DOOR: Door = Door {
        connections: 2,
        handshake: Duration::from_secs(2),
    };

    /// A socket in a directory of its own.
    fn socket() -> (tempfile::TempDir, std::path::PathBuf, UnixListener) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        (directory, path, listener)
    }

    /// Whether the other end is closed, rather than silent.
    async fn is_closed(stream: &mut UnixStream) -> bool {
        let mut byte = [0];
        let read = stream.read(&mut byte);
        matches!(
            timeout(Duration::from_secs(10), read).await,
            Ok(Ok(0) | Err(_))
        )
    }

    #[tokio::test]
    async fn one_too_many_is_closed_and_a_place_given_up_is_had_again() {
        let (_directory, path, listener) = socket();
        let mut incoming = incoming(listener, None, DOOR);
        let _first = UnixStream::connect(&path).await.unwrap();
        let first = incoming.next().await.unwrap().unwrap();
        let _second = UnixStream::connect(&path).await.unwrap();
        let _served = incoming.next().await.unwrap().unwrap();
        let mut third = UnixStream::connect(&path).await.unwrap();
        assert!(is_closed(&mut third).await);
        drop(first);
        let _fourth = UnixStream::connect(&path).await.unwrap();
        assert!(incoming.next().await.unwrap().is_ok());
    }

    #[tokio::test]
    async fn whoever_never_proves_who_it_is_is_closed_and_holds_up_nobody() {
        let (_directory, path, listener) = socket();
        let (us, them) = (Identity::host().unwrap(), Identity::plugin().unwrap());
        let mut incoming = incoming(listener, Some(us.server(them.der()).unwrap()), DOOR);
        let mut silent = UnixStream::connect(&path).await.unwrap();
        let known = UnixStream::connect(&path).await.unwrap();
        let connector = tokio_rustls::TlsConnector::from(them.client(us.der()).unwrap());
        let name = crate::tls::server_name().unwrap();
        let (connected, accepted) = tokio::join!(connector.connect(name, known), incoming.next());
        assert!(connected.is_ok() && accepted.unwrap().is_ok());
        assert!(is_closed(&mut silent).await);
    }
}
