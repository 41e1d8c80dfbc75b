//! The worker: an order in, TLS and HTTP over frames, an answer out.

use crate::frame::{Frame, FrameError, Frames};
use crate::http;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde::{Deserialize, Serialize};
use std::io::{self, BufReader, Read, Write};
use std::sync::Arc;

/// What is asked of a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// `GET`, `POST`, ...
    pub method: String,
    /// Who is asked, and whose certificate it must be.
    pub host: String,
    /// At which port.
    pub port: u16,
    /// Path and query, percent-encoded.
    pub target: String,
    /// The body, as JSON.
    pub body: Option<String>,
    /// Authorities to trust besides the public ones, as PEM.
    pub certificates: String,
    /// Most bytes of the answer's body.
    pub most: usize,
}

/// What a worker says in the end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The server answered.
    Answered {
        /// The status.
        status: u16,
        /// What it says its body is.
        content_type: Option<String>,
        /// The body; what is no text is replaced.
        body: String,
    },
    /// It did not, or not so that it can be used.
    Failed {
        /// A stable word.
        code: String,
        /// What happened.
        what: String,
    },
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// The order cannot be carried out.
    #[error("the request cannot be made: {0}")]
    Order(String),
    /// Whom we reached is not whom we meant, or cannot be talked to in confidence.
    #[error("no trusted connection: {0}")]
    Tls(String),
    /// What it said is not HTTP as it should be.
    #[error("the answer is not well formed: {0}")]
    Http(String),
    /// It ended in the middle.
    #[error("the connection ended before the answer did")]
    Closed,
    /// It said too much.
    #[error("the answer is over {0} bytes")]
    TooMuch(usize),
}

impl Problem {
    /// A stable word for it.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Order(_) => "request_invalid",
            Self::Tls(_) => "connection_not_trusted",
            Self::Http(_) => "output_invalid",
            Self::Closed => "no_answer",
            Self::TooMuch(_) => "too_much_output",
        }
    }

    pub(crate) fn reading(error: &io::Error) -> Self {
        let inner = error
            .get_ref()
            .and_then(|inner| inner.downcast_ref::<rustls::Error>());
        match inner {
            Some(error) => Self::Tls(error.to_string()),
            None => Self::Closed,
        }
    }
}

/// Carries out the one order that comes over `input`. `confine` is called before anything that a
/// server says is looked at.
pub fn serve(
    input: impl Read,
    output: impl Write,
    confine: impl FnOnce() -> io::Result<()>,
) -> Result<(), FrameError> {
    let mut channel = Channel {
        frames: Frames::new(input),
        output,
        rest: Vec::new(),
        used: 0,
        over: false,
    };
    let Frame::Order(order) = channel.frames.read()? else {
        return Err(FrameError::Malformed);
    };
    let answered = serde_json::from_slice::<Order>(&order)
        .map_err(|error| Problem::Order(error.to_string()))
        .and_then(|order| {
            let connection = connection(&order)?;
            confine().map_err(|error| {
                Problem::Order(format!("the worker cannot be confined: {error}"))
            })?;
            exchange(&order, connection, &mut channel)
        });
    let answer = answered.unwrap_or_else(|problem| Answer::Failed {
        code: problem.code().to_owned(),
        what: problem.to_string(),
    });
    let text = serde_json::to_vec(&answer).map_err(io::Error::other)?;
    Ok(Frame::Answer(text).write(&mut channel.output)?)
}

fn connection(order: &Order) -> Result<ClientConnection, Problem> {
    let tls = |error: rustls::Error| Problem::Tls(error.to_string());
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter().cloned());
    for certificate in CertificateDer::pem_slice_iter(order.certificates.as_bytes()) {
        let certificate = certificate
            .map_err(|error| Problem::Order(format!("a certificate of yours: {error}")))?;
        roots.add(certificate).map_err(tls)?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(tls)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(order.host.clone())
        .map_err(|_| Problem::Order(format!("`{}` is no host", order.host)))?;
    ClientConnection::new(Arc::new(config), name).map_err(tls)
}

fn exchange<R: Read, W: Write>(
    order: &Order,
    connection: ClientConnection,
    channel: &mut Channel<R, W>,
) -> Result<Answer, Problem> {
    let mut stream = StreamOwned::new(connection, channel);
    stream
        .write_all(&http::request(order))
        .and_then(|()| stream.flush())
        .map_err(|error| Problem::reading(&error))?;
    let mut input = BufReader::new(stream);
    let (status, content_type, body) = http::answer(&mut input, &order.method, order.most)?;
    Ok(Answer::Answered {
        status,
        content_type,
        body: String::from_utf8_lossy(&body).into_owned(),
    })
}

/// The connection, as the worker has it.
struct Channel<R, W> {
    frames: Frames<R>,
    output: W,
    rest: Vec<u8>,
    used: usize,
    over: bool,
}

impl<R: Read, W> Read for &mut Channel<R, W> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.used == self.rest.len() && !self.over {
            match self.frames.read() {
                Ok(Frame::Network(bytes)) => (self.rest, self.used) = (bytes, 0),
                Ok(Frame::Over) => self.over = true,
                Ok(Frame::Order(_) | Frame::Answer(_)) | Err(FrameError::Malformed) => {
                    return Err(io::ErrorKind::InvalidData.into());
                }
                Err(FrameError::Io(error)) => return Err(error),
            }
        }
        let mut left = self.rest.get(self.used..).unwrap_or_default();
        let read = left.read(buffer)?;
        self.used += read;
        Ok(read)
    }
}

impl<R, W: Write> Write for &mut Channel<R, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Frame::Network(bytes.to_vec()).write(&mut self.output)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}
