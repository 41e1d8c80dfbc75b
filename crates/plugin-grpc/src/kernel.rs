//! The kernel, as served to one plugin on a brokered connection.
//!
//! Who asks is known by the connection: the callback it leads to is that plugin's alone.

use crate::connect::Accepted;
use crate::output::shown;
use crate::proto::airlock::kernel_server::{Kernel, KernelServer};
use crate::proto::airlock::submit_response::Came;
use crate::proto::airlock::{SubmitError, SubmitRequest, SubmitResponse};
use crate::settings::Settings;
use airlock_plugin::{Callback, CallbackError};
use serde_json::Value;
use std::io;
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio::task::{AbortHandle, spawn_blocking};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Server;
use tonic::{Request, Response, Status};

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
    };
    let service = KernelServer::new(kernel)
        .max_decoding_message_size(REQUEST)
        .max_encoding_message_size(settings.message_bytes);
    let server = Server::builder()
        .max_concurrent_streams(STREAMS)
        .concurrency_limit_per_connection(settings.callbacks)
        .add_service(service)
        .serve_with_incoming(incoming);
    tokio::spawn(server).abort_handle()
}

struct Served {
    callback: Arc<dyn Callback>,
    /// So that a plugin cannot take every thread there is for waiting.
    places: Arc<Semaphore>,
}

#[tonic::async_trait]
impl Kernel for Served {
    async fn submit(
        &self,
        request: Request<SubmitRequest>,
    ) -> Result<Response<SubmitResponse>, Status> {
        let SubmitRequest {
            name,
            arguments_json,
            within,
        } = request.into_inner();
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
        Ok(Response::new(SubmitResponse { came: Some(came) }))
    }
}

fn refusal(error: CallbackError) -> SubmitError {
    SubmitError {
        code: error.code,
        message: error.message,
        retryable: error.retryable,
    }
}
