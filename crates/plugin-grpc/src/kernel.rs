//! The kernel, as served to one plugin on a brokered connection.
//!
//! Who asks is known by the connection: the callback it leads to is that plugin's alone.

use crate::output::shown;
use crate::settings::Settings;
use airlock_plugin::{Callback, CallbackError};
use airlock_plugin_protocol::Accepted;
use airlock_plugin_protocol::messages::airlock::submit_response::Came;
use airlock_plugin_protocol::messages::airlock::{
    SubmitError, SubmitRequest, SubmitResponse, kernel,
};
use airlock_plugin_protocol::server::{Sizes, unary, unknown};
use http::{Request, Response};
use serde_json::Value;
use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::Semaphore;
use tokio::task::{AbortHandle, spawn_blocking};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;
use tonic::body::Body;
use tonic::transport::Server;
use tower_service::Service;

/// Streams a plugin may have open on one connection. Only `callbacks` of them are read, so that what
/// waits takes no memory.
const STREAMS: u32 = 128;
/// Bytes of one request, as on the kernel's socket for sandboxes.
const REQUEST: usize = 1024 * 1024;

/// Serves the kernel to whatever comes in, until aborted.
pub(crate) fn serve(
    callback: Arc<dyn Callback>,
    incoming: ReceiverStream<io::Result<Accepted>>,
    settings: &Settings,
) -> AbortHandle {
    let kernel = Served {
        callback,
        places: Arc::new(Semaphore::new(settings.callbacks)),
        sizes: Sizes {
            asked: REQUEST,
            answered: settings.message_bytes,
        },
    };
    let server = Server::builder()
        .max_concurrent_streams(STREAMS)
        .concurrency_limit_per_connection(settings.callbacks)
        .serve_with_incoming(kernel, incoming);
    tokio::spawn(server).abort_handle()
}

#[derive(Clone)]
struct Served {
    callback: Arc<dyn Callback>,
    /// So that a plugin cannot take every thread there is for waiting.
    places: Arc<Semaphore>,
    sizes: Sizes,
}

impl Service<Request<Body>> for Served {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let served = self.clone();
        Box::pin(async move { Ok(served.answer(request).await) })
    }
}

impl Served {
    async fn answer(self, request: Request<Body>) -> Response<Body> {
        let path = request.uri().path();
        if path != kernel::SUBMIT.path() {
            return unknown(path);
        }
        let answer = |asked| self.clone().submit(asked);
        unary(kernel::SUBMIT, self.sizes, request, answer).await
    }

    async fn submit(self, asked: SubmitRequest) -> Result<SubmitResponse, Status> {
        let SubmitRequest {
            name,
            arguments_json,
            within,
        } = asked;
        let arguments: Value = serde_json::from_str(&arguments_json)
            .map_err(|error| Status::invalid_argument(format!("arguments_json: {error}")))?;
        let place = Arc::clone(&self.places).acquire_owned().await;
        let place = place.map_err(|_| Status::unavailable("the plugin ends"))?;
        let callback = Arc::clone(&self.callback);
        let submitted = spawn_blocking(move || {
            let _place = place;
            let within = Some(within.as_str()).filter(|action| !action.is_empty());
            callback.submit(&name, &arguments, within)
        });
        let came = match submitted.await {
            Ok(Ok(value)) => Came::ResultJson(value.to_string()),
            Ok(Err(error)) => Came::Error(refusal(error)),
            Err(error) => return Err(Status::internal(shown(&error.to_string()))),
        };
        Ok(SubmitResponse { came: Some(came) })
    }
}

fn refusal(error: CallbackError) -> SubmitError {
    SubmitError {
        code: error.code,
        message: error.message,
        retryable: error.retryable,
    }
}
