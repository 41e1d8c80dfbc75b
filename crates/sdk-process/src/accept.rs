//! Where the plugin listens, and who gets in.

use crate::tls::Secured;
use std::collections::hash_map::RandomState;
use std::fs::File;
use std::hash::{BuildHasher as _, Hasher as _};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::UnixListener as Listener;
use std::path::{Path, PathBuf};
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

/// Bytes of a socket's address, its end included.
const ADDRESS: usize = 108;
/// Names that are tried.
const ATTEMPTS: usize = 16;
/// Connections at once. A host has one.
const CONNECTIONS: usize = 8;
/// How long a host has for the TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Listens under a name nothing has yet, in the directory that is shared with the host.
pub(crate) fn listen(directory: &Path) -> io::Result<(Listener, PathBuf)> {
    let mut last = io::Error::from(io::ErrorKind::AddrInUse);
    for _ in 0..ATTEMPTS {
        let random = RandomState::new().build_hasher().finish();
        let path = directory.join(format!("plugin-{random:016x}"));
        match bind(&path) {
            Ok(listener) => return Ok((listener, path)),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => last = error,
            Err(error) => return Err(error),
        }
    }
    Err(last)
}

fn bind(path: &Path) -> io::Result<Listener> {
    short(path, |path| Listener::bind(path))
}

/// Does something with `path`, by a shorter name for it where an address cannot hold it.
pub(crate) fn short<T>(path: &Path, with: impl Fn(&Path) -> io::Result<T>) -> io::Result<T> {
    if path.as_os_str().as_bytes().len() < ADDRESS {
        return with(path);
    }
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let directory = File::open(directory)?;
    let by_descriptor = format!("/proc/self/fd/{}", directory.as_raw_fd());
    with(&Path::new(&by_descriptor).join(name))
}

/// Those who get in. Has to be called within a runtime.
pub(crate) fn incoming(
    listener: Listener,
    secured: Option<&Secured>,
) -> io::Result<ReceiverStream<io::Result<Accepted>>> {
    listener.set_nonblocking(true)?;
    let listener = UnixListener::from_std(listener)?;
    let tls = secured.map(|secured| TlsAcceptor::from(Arc::clone(&secured.config)));
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(accept(listener, tls, sender));
    Ok(ReceiverStream::new(receiver))
}

async fn accept(
    listener: UnixListener,
    tls: Option<TlsAcceptor>,
    sender: mpsc::Sender<io::Result<Accepted>>,
) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let accepted = tokio::select! {
            () = sender.closed() => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, _)) = accepted else {
            // Out of descriptors, say: there may be some again in a moment.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            continue;
        };
        let (tls, sender) = (tls.clone(), sender.clone());
        // Whoever is slow to prove who it is holds up nobody.
        tokio::spawn(async move {
            if let Ok(Some(carrier)) = timeout(HANDSHAKE, secure(stream, tls)).await {
                let accepted = Accepted {
                    carrier,
                    _place: place,
                };
                // Fails once the plugin ends, and the connection goes too.
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
trait Carrier: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Carrier for T {}

/// A connection, and its place among those.
pub(crate) struct Accepted {
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
    use std::os::unix::net::UnixStream as Stream;

    #[test]
    fn sockets_have_names_of_their_own_however_long_the_directorys_is() {
        let top = tempfile::tempdir().unwrap();
        let deep = top.path().join("d".repeat(60)).join("e".repeat(60));
        std::fs::create_dir_all(&deep).unwrap();
        for directory in [top.path(), &deep] {
            let (_one, first) = listen(directory).unwrap();
            let (_two, second) = listen(directory).unwrap();
            assert!(first != second && first.exists() && second.exists());
            short(&first, |path| Stream::connect(path)).unwrap();
        }
        assert!(listen(&top.path().join("absent")).is_err());
    }
}
