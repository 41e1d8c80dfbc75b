//! Requests to hosts: the kernel makes the connection, a confined worker speaks on it.
//!
//! Guarantee: the connection is made once the call is allowed and recorded, to the host that was
//! decided on; what the server says is read by a worker that has no network, no files and no
//! secrets, and the kernel only carries its bytes. Non-guarantee: what is sent is the definition's
//! and the caller's; whether that host may know it is the decision's business.

use super::names::lasting;
use super::reach::connect;
use super::tool::NOTHING_RAN;
use crate::extensions::{Launcher, WorkerProgram};
use crate::tools::{Prepared, RunContext, ToolFailure, ToolOutput};
use airlock_core::RequestPath;
use airlock_definitions::{Adapter, Api};
use airlock_request::{Answer, Frame, Frames, Order};
use airlock_script::{Pipes, Spawn as _};
use serde_json::{Value, json};
use std::io::{self, Read as _, Write};
use std::net::{Shutdown, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// Most bytes of an answer: with its quotes and escapes it has to fit what a worker may write.
const MOST: usize = 256 * 1024;
/// How long a request may take where its definition says nothing.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often it is looked whether anybody still wants the answer.
const LOOK: Duration = Duration::from_millis(20);

/// What every request is made with.
#[derive(Debug, Clone, Default)]
pub(super) struct Means {
    /// What reads the answers.
    pub(super) worker: Option<WorkerProgram>,
    /// Airlock's own directory.
    pub(super) state: PathBuf,
    /// Authorities to trust besides the public ones.
    pub(super) certificates: Arc<str>,
}

/// A request to a host.
pub(super) struct Request {
    pub(super) tool: &'static str,
    pub(super) adapter: Arc<Adapter>,
    pub(super) host: Arc<str>,
    pub(super) port: u16,
    pub(super) order: Order,
    pub(super) means: Means,
}

impl Request {
    pub(super) fn new(
        tool: &'static str,
        adapter: &Arc<Adapter>,
        api: &Api,
        call: airlock_definitions::Call,
        means: &Means,
    ) -> Self {
        Self {
            tool,
            adapter: Arc::clone(adapter),
            host: api.host.as_str().into(),
            port: api.port,
            order: Order {
                method: api.method.to_owned(),
                host: api.host.clone(),
                port: api.port,
                target: call.target,
                body: call.body,
                certificates: means.certificates.to_string(),
                most: MOST,
            },
            means: means.clone(),
        }
    }

    fn failure(code: &str, what: impl Into<String>) -> ToolFailure {
        ToolFailure::Adapter {
            code: lasting(code),
            what: what.into(),
        }
    }

    /// What the server's answer means.
    fn meant(&self, answer: Answer) -> Result<Value, ToolFailure> {
        let (status, body) = match answer {
            Answer::Answered { status, body, .. } => (status, body),
            // The worker has read what a host sent; that nothing was sent is not for it to say.
            Answer::Failed { code, what } if NOTHING_RAN.contains(&&*code) => {
                return Err(Self::failure("no_answer", what));
            }
            Answer::Failed { code, what } => return Err(Self::failure(&code, what)),
        };
        if let Some((code, summary)) = self.adapter.answered(status) {
            return Err(Self::failure(&code, format!("{summary} (status {status})")));
        }
        let shaped = self.adapter.output.shape(&body, "");
        let value = shaped.map_err(|error| Self::failure("output_invalid", error.to_string()))?;
        let mut result = json!({
            "adapter": self.adapter.header.id,
            "status": status,
            "value": value,
        });
        super::prepared::warn(&self.adapter, &mut result);
        Ok(result)
    }

    fn exchange(&self, cancelled: &AtomicBool) -> Result<Answer, ToolFailure> {
        let program = self
            .means
            .worker
            .as_ref()
            .ok_or_else(|| ToolFailure::Unavailable {
                tool: self.tool.to_owned(),
                why: "there is no worker program that could read an answer".to_owned(),
                fix: "start Airlock from the program that was installed",
            })?;
        let host = &self.host;
        let network = connect(host, self.port).map_err(|error| {
            Self::failure(
                "unreachable",
                format!("cannot connect to `{host}`: {error}"),
            )
        })?;
        let lost = |what: &str| {
            let what = what.to_owned();
            move |error: io::Error| Self::failure("no_answer", format!("{what}: {error}"))
        };
        let launcher = Launcher::new(&program.for_requests(), &self.means.state);
        let pipes = launcher
            .spawn()
            .map_err(lost("the worker does not start"))?;
        let limit = self.adapter.sandbox.timeout;
        let limit = limit.map_or(PATIENCE, |limit| Duration::from_millis(limit.as_millis()));
        let conversation = Conversation { pipes, network };
        conversation
            .run(&self.order, limit, cancelled)
            .map_err(|end| match end {
                End::Lost(what) => lost(what)(io::ErrorKind::UnexpectedEof.into()),
                End::TimedOut => {
                    Self::failure("timed_out", format!("`{host}` did not answer in time"))
                }
                End::Cancelled => ToolFailure::Cancelled,
            })
    }
}

impl Prepared for Request {
    fn paths(&self) -> &[RequestPath] {
        &[]
    }

    fn describe(&self, request: &mut airlock_core::Request) {
        request.tool = Some(self.tool.into());
        request.host = Some(Arc::clone(&self.host));
        request.port = Some(self.port);
    }

    fn is_hosted(&self) -> bool {
        true
    }

    fn run(self: Box<Self>, context: &RunContext<'_>) -> Result<ToolOutput, ToolFailure> {
        let answer = self.exchange(context.cancelled)?;
        let value = self.meant(answer)?;
        Ok(ToolOutput { value, hidden: 0 })
    }
}

/// How a conversation ends without an answer.
enum End {
    Lost(&'static str),
    TimedOut,
    Cancelled,
}

/// A worker, and the connection it speaks on.
struct Conversation {
    pipes: Pipes,
    network: TcpStream,
}

impl Conversation {
    /// Carries bytes to and fro until there is an answer, the time is over, or nobody wants it.
    fn run(self, order: &Order, limit: Duration, cancelled: &AtomicBool) -> Result<Answer, End> {
        let lost = |_| End::Lost("the connection cannot be used");
        let Pipes {
            stdin,
            stdout,
            mut kill,
        } = self.pipes;
        let network = Arc::new(self.network);
        let order = serde_json::to_vec(order).map_err(|_| End::Lost("the order is no JSON"))?;
        network.set_write_timeout(Some(limit)).map_err(lost)?;
        let (done, waiting) = mpsc::channel();
        let (speaking, hearing) = (Arc::clone(&network), Arc::clone(&network));
        let feeding = std::thread::spawn(move || feed(&hearing, stdin, &order));
        let carrying = std::thread::spawn(move || {
            // Whoever waits may have stopped waiting.
            let _ = done.send(carry(Frames::new(stdout), &speaking));
        });
        let until = Instant::now() + limit;
        let ended = loop {
            match waiting.recv_timeout(LOOK) {
                Ok(answer) => break answer.ok_or(End::Lost("the worker gave no answer")),
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    break Err(End::Lost("the worker gave no answer"));
                }
                Err(mpsc::RecvTimeoutError::Timeout) if cancelled.load(Ordering::Relaxed) => {
                    break Err(End::Cancelled);
                }
                Err(mpsc::RecvTimeoutError::Timeout) if Instant::now() > until => {
                    break Err(End::TimedOut);
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {}
            }
        };
        // Both ends go, so both threads do; each holds nothing but them.
        let _closed = network.shutdown(Shutdown::Both);
        kill();
        let _fed = feeding.join();
        let _carried = carrying.join();
        ended
    }
}

/// The order, and then what comes from the connection.
fn feed(mut network: &TcpStream, mut stdin: Box<dyn Write + Send>, order: &[u8]) {
    if Frame::Order(order.to_vec()).write(&mut stdin).is_err() {
        return;
    }
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let frame = match network.read(&mut buffer) {
            Ok(0) | Err(_) => Frame::Over,
            Ok(read) => Frame::Network(buffer.get(..read).unwrap_or_default().to_vec()),
        };
        if frame.write(&mut stdin).is_err() || frame == Frame::Over {
            return;
        }
    }
}

/// What the worker has for the connection, until its answer.
fn carry(mut frames: Frames<impl io::Read>, mut network: &TcpStream) -> Option<Answer> {
    loop {
        match frames.read().ok()? {
            // A server that no longer listens may have answered all the same.
            Frame::Network(bytes) => drop(network.write_all(&bytes)),
            Frame::Answer(text) => return serde_json::from_slice(&text).ok(),
            Frame::Order(_) | Frame::Over => return None,
        }
    }
}
