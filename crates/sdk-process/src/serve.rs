//! A plugin's life: announce it, serve it, end it.

use crate::accept::{incoming, listen};
use crate::asked::{Asked, AskedError};
use crate::handshake;
use crate::output::{Output, Taken};
use crate::services::Services;
use airlock_plugin_protocol::tls::{self, Identity, TlsError};
use airlock_sdk::Plugin;
use rustls::ServerConfig;
use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tonic::transport::Server;

/// Threads that carry messages.
const WORKERS: usize = 2;
/// Calls at once; more wait.
const CALLS: usize = 64;
/// How long what is on its way has when the plugin is told to end.
const GRACE: Duration = Duration::from_secs(2);

/// Why a plugin cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Nobody asked for it.
    #[error(transparent)]
    Asked(#[from] AskedError),
    /// There is nowhere to listen.
    #[error("cannot listen in `{}`: {source}", .directory.display())]
    Listen {
        /// The directory that is shared with the host.
        directory: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The path of the socket cannot be announced.
    #[error("`{}` cannot be announced in one line", .0.display())]
    Path(PathBuf),
    /// The host's certificate is none, or none can be made.
    #[error("the connection cannot be secured: {0}")]
    Tls(String),
    /// Threads, pipes or standard output cannot be had.
    #[error("the system does not let it: {0}")]
    System(#[from] io::Error),
    /// The connection broke.
    #[error("the connection broke: {0}")]
    Broken(String),
}

impl ServeError {
    /// What to do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Asked(error) => error.hint(),
            Self::Listen { .. }
            | Self::Path(_)
            | Self::Tls(_)
            | Self::System(_)
            | Self::Broken(_) => None,
        }
    }
}

/// Serves `plugin` to the host that started this program, until it is told to end. What goes wrong
/// is said on standard error, and in the code.
pub fn run(plugin: impl Plugin + Send + Sync + 'static) -> ExitCode {
    let served = Asked::from_environment()
        .map_err(ServeError::from)
        .and_then(|asked| serve(plugin, &asked));
    let Err(error) = served else {
        return ExitCode::SUCCESS;
    };
    let hint = error.hint().map(|hint| format!("\n  fix: {hint}"));
    // Nobody is left to be told where this fails.
    let _told = writeln!(io::stderr(), "error: {error}{}", hint.unwrap_or_default());
    ExitCode::FAILURE
}

/// Serves `plugin` to a host that asks like this, until it is told to end. Takes over standard
/// output meanwhile.
pub fn serve(plugin: impl Plugin + Send + Sync + 'static, asked: &Asked) -> Result<(), ServeError> {
    let secured = asked.certificate.as_deref().map(secured).transpose();
    let secured = secured.map_err(|error| ServeError::Tls(error.to_string()))?;
    let (tls, certificate) = secured.unzip();
    let (listener, path) = listen(&asked.directory).map_err(|source| ServeError::Listen {
        directory: asked.directory.clone(),
        source,
    })?;
    let line = handshake::line(asked.version, &path, certificate.as_deref());
    let line = line.ok_or_else(|| ServeError::Path(path.clone()))?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .max_blocking_threads(CALLS)
        .enable_all()
        .build()?;
    let output = Output::default();
    let end = Arc::new(Notify::new());
    let services = Services::new(
        Arc::new(plugin),
        output.clone(),
        Arc::clone(&end),
        environment(),
    );
    // It listens already, so that whoever reads the line finds it.
    writeln!(io::stdout(), "{line}")?;
    let taken = Taken::over(output)?;
    let served = runtime.block_on(until_told(services, listener, tls, &end, taken));
    // A call that does not end holds up nobody.
    runtime.shutdown_background();
    // Gone already if the host removed it.
    let _removed = std::fs::remove_file(&path);
    served
}

/// How connections from the host with this certificate are secured, and what it has to know for it.
fn secured(host: &str) -> Result<(Arc<ServerConfig>, Vec<u8>), TlsError> {
    let identity = Identity::plugin()?;
    let config = identity.server(&tls::certificate(host)?)?;
    Ok((config, identity.der().to_vec()))
}

/// Serves until `end`, and then lets what is on its way arrive.
async fn until_told(
    services: Services,
    listener: UnixListener,
    tls: Option<Arc<ServerConfig>>,
    end: &Notify,
    taken: Taken,
) -> Result<(), ServeError> {
    let told = Arc::new(Notify::new());
    let signal = {
        let told = Arc::clone(&told);
        async move { told.notified().await }
    };
    let incoming = incoming(listener, tls)?;
    let serving = Server::builder().serve_with_incoming_shutdown(services, incoming, signal);
    tokio::pin!(serving);
    let broken = |error: tonic::transport::Error| ServeError::Broken(error.to_string());
    tokio::select! {
        served = &mut serving => return served.map_err(broken),
        () = end.notified() => {}
    }
    // With standard output its stream ends, which the connection would wait for.
    drop(taken);
    told.notify_one();
    match tokio::time::timeout(GRACE, serving).await {
        Ok(served) => served.map_err(broken),
        Err(_late) => Ok(()),
    }
}

fn environment() -> BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_certificate_does_not_turn_security_off() {
        for text in ["", "nonsense", "-----BEGIN CERTIFICATE-----\n"] {
            assert!(secured(text).is_err(), "{text:?}");
        }
        assert!(secured(Identity::host().unwrap().pem()).is_ok());
    }
}
