//! The server on the standard streams of its process: one client, who started it.

use crate::calls::Calls;
use crate::handler::Handler;
use crate::lines::Lines;
use crate::road::Road;
use crate::stop::{ServeError, Stop, runtime};
use rmcp::service::{ServerInitializeError, serve_server_with_ct};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, BufReader};

/// How long a program that is ended may take to be gone, and its end to be recorded.
pub(crate) const SETTLING: Duration = Duration::from_secs(10);

/// Serves the client on standard input and output until it leaves, or `stop` says so. Blocks.
///
/// Nothing but protocol goes to standard output as long as nobody else writes there.
pub fn serve_stdio(road: Arc<dyn Road>, stop: &Stop) -> Result<(), ServeError> {
    let runtime = runtime()?;
    let ended = runtime.block_on(serve(road, stop));
    // A thread may still stand in a read of standard input, which nothing can wake.
    runtime.shutdown_timeout(Duration::from_millis(200));
    ended
}

async fn serve(road: Arc<dyn Road>, stop: &Stop) -> Result<(), ServeError> {
    let streams = (tokio::io::stdin(), tokio::io::stdout());
    converse(road, streams, stop).await
}

/// Serves one client on a pair of streams.
pub(crate) async fn converse(
    road: Arc<dyn Road>,
    (input, output): (
        impl AsyncRead + Unpin + Send + 'static,
        impl AsyncWrite + Unpin + Send + 'static,
    ),
    stop: &Stop,
) -> Result<(), ServeError> {
    // The client's leaving ends this server and no other.
    let ending = stop.token().child_token();
    let calls = Calls::new(road, ending.clone());
    let (lines, writing) = Lines::new(BufReader::new(input), output, ending.clone());
    let handler = Handler::new(calls.clone());
    let ended = match serve_server_with_ct(handler, lines, ending).await {
        Ok(running) => {
            let _reason = running.waiting().await;
            Ok(())
        }
        Err(error) => greeting(&error),
    };
    calls.settle(SETTLING).await;
    let _written = tokio::time::timeout(Duration::from_secs(1), writing).await;
    ended
}

/// A client that leaves before it says anything is none; one that says something else is wrong.
fn greeting(error: &ServerInitializeError) -> Result<(), ServeError> {
    let left = matches!(
        error,
        ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled
    );
    if left {
        return Ok(());
    }
    let what = airlock_kernel::sanitise_line(&error.to_string(), 200);
    Err(ServeError::Greeting(what))
}
