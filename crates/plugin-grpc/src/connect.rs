//! A gRPC connection over one socket that is open already.
//!
//! Invariant: a channel has one connection in its life. If that is lost, it fails for good.

use airlock_plugin_protocol::{Carrier, tls};
use http::Uri;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use std::future::{Future, ready};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::net::UnixStream;
use tokio_rustls::TlsConnector;
use tonic::transport::{Channel, Endpoint};
use tower_service::Service;

/// Bytes of headers and trailers a peer may send.
const HEADER_BYTES: u32 = 16 * 1024;
/// Bytes a peer may send ahead of whoever reads a stream.
const STREAM_BYTES: u32 = 512 * 1024;
/// The same for all streams together: enough that one nobody reads holds up none of the others.
const CONNECTION_BYTES: u32 = 64 * STREAM_BYTES;

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectError {
    #[error("the TLS handshake failed: {0}")]
    Tls(#[source] io::Error),
    #[error("it does not speak HTTP/2: {0}")]
    Http(#[source] tonic::transport::Error),
}

/// Makes `stream` a channel. Without TLS the directory the socket lies in is what keeps others out.
pub(crate) async fn channel(
    stream: UnixStream,
    tls: Option<Arc<ClientConfig>>,
) -> Result<Channel, ConnectError> {
    let carrier: Box<dyn Carrier> = match tls {
        Some(config) => {
            let name =
                tls::server_name().map_err(|error| ConnectError::Tls(io::Error::other(error)))?;
            let connector = TlsConnector::from(config);
            Box::new(
                connector
                    .connect(name, stream)
                    .await
                    .map_err(ConnectError::Tls)?,
            )
        }
        None => Box::new(stream),
    };
    Endpoint::from_static("http://localhost")
        .http2_max_header_list_size(HEADER_BYTES)
        .initial_stream_window_size(STREAM_BYTES)
        .initial_connection_window_size(CONNECTION_BYTES)
        .connect_with_connector(Once(Some(carrier)))
        .await
        .map_err(ConnectError::Http)
}

/// Gives its carrier once.
struct Once(Option<Box<dyn Carrier>>);

impl Service<Uri> for Once {
    type Response = TokioIo<Box<dyn Carrier>>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _uri: Uri) -> Self::Future {
        let lost = || io::Error::new(io::ErrorKind::NotConnected, "the connection is lost");
        Box::pin(ready(self.0.take().map(TokioIo::new).ok_or_else(lost)))
    }
}
