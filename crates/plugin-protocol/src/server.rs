//! From a request to whoever answers it.
//!
//! Does what generated servers do, in a few lines that hold for every service.

use crate::method::{Streaming, Unary};
use http::{Request as HttpRequest, Response as HttpResponse};
use prost::Message;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio_stream::Stream;
use tonic::body::Body;
use tonic::server::Grpc;
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;
use tower_service::Service;

/// Bytes of one message.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    /// One that is asked.
    pub asked: usize,
    /// One that is answered.
    pub answered: usize,
}

/// Answers one message by one.
pub async fn unary<Q, A, F>(
    _method: Unary<Q, A>,
    sizes: Sizes,
    request: HttpRequest<Body>,
    answer: impl FnMut(Q) -> F + Send,
) -> HttpResponse<Body>
where
    Q: Message + Default + Send + Sync + 'static,
    A: Message + Default + Send + Sync + 'static,
    F: Future<Output = Result<A, Status>> + Send + 'static,
{
    grpc::<Q, A>(sizes).unary(Answer(answer), request).await
}

/// Answers one message by any number.
pub async fn stream<Q, A, S, F>(
    _method: Streaming<Q, A>,
    sizes: Sizes,
    request: HttpRequest<Body>,
    answer: impl FnMut(Q) -> F + Send,
) -> HttpResponse<Body>
where
    Q: Message + Default + Send + Sync + 'static,
    A: Message + Default + Send + Sync + 'static,
    S: Stream<Item = Result<A, Status>> + Send + 'static,
    F: Future<Output = Result<S, Status>> + Send + 'static,
{
    grpc::<Q, A>(sizes)
        .server_streaming(Answer(answer), request)
        .await
}

/// What is not served here.
pub fn unknown(path: &str) -> HttpResponse<Body> {
    Status::unimplemented(format!("`{path}` is not served")).into_http()
}

fn grpc<Q, A>(sizes: Sizes) -> Grpc<ProstCodec<A, Q>>
where
    Q: Message + Default + Send + 'static,
    A: Message + Send + 'static,
{
    Grpc::new(ProstCodec::default())
        .max_decoding_message_size(sizes.asked)
        .max_encoding_message_size(sizes.answered)
}

/// A function as the service that tonic calls.
struct Answer<F>(F);

impl<Q, A, F, Fut> Service<Request<Q>> for Answer<F>
where
    F: FnMut(Q) -> Fut,
    Fut: Future<Output = Result<A, Status>> + Send + 'static,
{
    type Response = Response<A>;
    type Error = Status;
    type Future = Pin<Box<dyn Future<Output = Result<Response<A>, Status>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Q>) -> Self::Future {
        let answer = (self.0)(request.into_inner());
        Box::pin(async move { answer.await.map(Response::new) })
    }
}
