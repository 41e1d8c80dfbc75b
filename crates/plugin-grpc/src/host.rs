//! Starts plugins.

use crate::address::Sockets;
use crate::handshake::Handshake;
use crate::line::{FirstLine, Lines};
use crate::output::{Output, last_line};
use crate::plugin::{Engine, GrpcPlugin};
use crate::ready::{Process, ready};
use crate::settings::{COOKIE, PROTOCOL_VERSIONS, Settings};
use airlock_plugin::boxed::{BoxRequest, Boxes, Running};
use airlock_plugin::{Host, Instance, Start, StartError};
use airlock_plugin_protocol::tls::Identity;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Threads that carry messages. Calls wait on the threads they come from.
const WORKERS: usize = 2;
/// How long a process that closed its output has until it is taken for one that goes on.
const LAST_BREATH: Duration = Duration::from_secs(1);
/// The variable with our certificate, by which a plugin is asked to secure the connection.
const CERTIFICATE: &str = "PLUGIN_CLIENT_CERT";
/// Where certificates of authorities are on Linux.
const AUTHORITIES: &str = "/etc/ssl/certs:/etc/pki/tls/certs";

/// Runs plugins that speak go-plugin's protocol over gRPC.
pub struct GrpcHost {
    boxes: Arc<Boxes>,
    settings: Settings,
    /// Made for the first plugin: a host without one has no threads.
    runtime: Mutex<Option<Arc<Engine>>>,
}

impl GrpcHost {
    /// A host whose plugins run in `boxes`.
    pub fn new(boxes: Arc<Boxes>, settings: Settings) -> Self {
        Self {
            boxes,
            settings,
            runtime: Mutex::new(None),
        }
    }

    fn runtime(&self) -> io::Result<Arc<Engine>> {
        let mut runtime = self.runtime.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(runtime) = &*runtime {
            return Ok(Arc::clone(runtime));
        }
        let made = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(WORKERS)
            .thread_name("plugin rpc")
            .enable_all()
            .build()?;
        Ok(Arc::clone(runtime.insert(Arc::new(Engine::new(made)))))
    }

    /// Starts a plugin, of whatever type, and waits until it can be called.
    pub fn launch(&self, start: &Start) -> Result<GrpcPlugin, StartError> {
        let until = Instant::now() + self.settings.start;
        let runtime = self.runtime().map_err(|error| lacking("threads", &error))?;
        let (host, sockets, running) = self.enclose(start)?;
        let output = Output::new(self.settings.output_bytes);
        let first = read(&running, &output)?;
        let said = self.handshake(&running, &first, until)?;
        secured(start, &said)?;
        let process = Process {
            said: &said,
            sandbox: running.sandbox(),
            output: &output,
        };
        let sockets = Arc::new(sockets);
        let ready = ready(start, process, &host, sockets, &self.settings);
        let late = || Err(StartError::TimedOut(self.settings.start));
        let ready = runtime.wait(async {
            let ready = tokio::time::timeout_at(until.into(), ready);
            ready.await.unwrap_or_else(|_| late())
        });
        let ready = ready.unwrap_or_else(late);
        let ready = ready.map_err(|error| explained(error, &running))?;
        Ok(GrpcPlugin {
            runtime,
            running,
            ready,
            output,
            settings: self.settings.clone(),
            lost: AtomicBool::new(false),
        })
    }

    /// Starts its program, with what it needs to find us and we to find it.
    fn enclose(&self, start: &Start) -> Result<(Identity, Sockets, Running), StartError> {
        let reach = &start.reach.directory;
        let host = Identity::host().map_err(|error| lacking("certificate", &error))?;
        let sockets = Sockets::open(reach);
        let sockets = sockets.map_err(|error| lacking("directory for its socket", &error))?;
        let left = sockets.leave("pem", host.pem().as_bytes());
        left.map_err(|error| lacking("certificate", &error))?;
        let mut request = BoxRequest::of(start);
        request.host = environment(reach, &host).into();
        if !start.manifest.execution.tls {
            // By what it is told a library knows that it is to secure the connection.
            request.host.remove(CERTIFICATE);
        }
        let running = self.boxes.start(&request)?;
        Ok((host, sockets, running))
    }

    /// Waits for the plugin's first line.
    fn handshake(
        &self,
        running: &Running,
        first: &Receiver<FirstLine>,
        until: Instant,
    ) -> Result<Handshake, StartError> {
        let line = match first.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => {
                return Err(StartError::TimedOut(self.settings.start));
            }
            Err(RecvTimeoutError::Disconnected) => FirstLine::Unfinished(Vec::new()),
        };
        let said = Handshake::read(&line, PROTOCOL_VERSIONS);
        if matches!(line, FirstLine::Unfinished(_)) && running.wait(LAST_BREATH).is_some() {
            let error = StartError::Ended(String::new());
            return Err(explained(error, running));
        }
        said.map_err(|error| StartError::Protocol(error.to_string()))
    }
}

impl Host for GrpcHost {
    fn start(&self, start: Start) -> Result<Arc<dyn Instance>, StartError> {
        Ok(Arc::new(self.launch(&start)?))
    }
}

/// Whether the plugin wants its connection as its manifest says: one that was asked to secure it and
/// does not is never spoken to in the clear.
fn secured(start: &Start, said: &Handshake) -> Result<(), StartError> {
    let why = match (start.manifest.execution.tls, &said.certificate) {
        (true, Some(_)) | (false, None) => return Ok(()),
        (true, None) => {
            "it gave no certificate, so the connection to it would not be secured; if it cannot, \
             its manifest has to say `tls: false` under `execution`"
        }
        (false, Some(_)) => {
            "it gave a certificate, though its manifest says `tls: false` and it was not asked to"
        }
    };
    Err(StartError::Protocol(why.to_owned()))
}

fn lacking(what: &str, error: &dyn std::fmt::Display) -> StartError {
    StartError::Confinement(format!("there is no {what}: {error}"))
}

/// What makes a program a plugin of ours.
fn environment(reach: &Path, host: &Identity) -> [(String, String); 6] {
    let versions: Vec<String> = PROTOCOL_VERSIONS.iter().map(u32::to_string).collect();
    let reach = reach.to_string_lossy();
    let (cookie, value) = COOKIE;
    [
        (cookie, value.to_owned()),
        ("PLUGIN_PROTOCOL_VERSIONS", versions.join(",")),
        (CERTIFICATE, host.pem().to_owned()),
        ("PLUGIN_UNIX_SOCKET_DIR", reach.to_string()),
        // Libraries that do not know the variable above listen where temporary files are.
        ("TMPDIR", reach.to_string()),
        // Libraries of old do not expect our certificate where they connect to the kernel, and look
        // for it among those of the system.
        ("SSL_CERT_DIR", format!("{AUTHORITIES}:{reach}")),
    ]
    .map(|(name, value)| (name.to_owned(), value))
}

/// Reads what it prints, for as long as it prints.
fn read(running: &Running, output: &Output) -> Result<Receiver<FirstLine>, StartError> {
    let (mut lines, first) = Lines::new(output.clone());
    let unread = |why: &str| StartError::Confinement(format!("its output cannot be read: {why}"));
    let mut stdout: File = running.take_stdout().ok_or_else(|| unread("it is gone"))?;
    std::thread::Builder::new()
        .name("plugin output".to_owned())
        // An end of file and a failure are the same here: there is nothing more to read.
        .spawn(move || io::copy(&mut stdout, &mut lines))
        .map_err(|error| unread(&error.to_string()))?;
    Ok(first)
}

/// The same failure, with what the process's end says about it.
fn explained(error: StartError, running: &Running) -> StartError {
    let end = match &error {
        StartError::Ended(_) => running.wait(LAST_BREATH),
        StartError::Protocol(_) => running.end(),
        StartError::Entry { .. }
        | StartError::Confinement(_)
        | StartError::NotGranted { .. }
        | StartError::TimedOut(_) => None,
    };
    let Some(end) = end else {
        return error;
    };
    let said = last_line(&running.said());
    StartError::Ended(said.map_or_else(
        || end.to_string(),
        |said| format!("{end}; it said `{said}`"),
    ))
}
