//! Calls of a plugin's methods.

use airlock_plugin_protocol::{Duplex, Streaming as Streamed, Unary};
use http::uri::PathAndQuery;
use prost::Message;
use tonic::client::Grpc;
use tonic::transport::Channel;
use tonic::{IntoRequest, IntoStreamingRequest, Status, Streaming};
use tonic_prost::ProstCodec;

/// Where methods are called, and how large a message may be in either direction. Clones are the same
/// connection.
#[derive(Clone)]
pub(crate) struct Rpc {
    channel: Channel,
    message_bytes: usize,
}

impl Rpc {
    pub(crate) fn new(channel: Channel, message_bytes: usize) -> Self {
        Self {
            channel,
            message_bytes,
        }
    }

    /// Asks, and waits for the answer.
    pub(crate) async fn ask<Q, A>(
        &self,
        method: Unary<Q, A>,
        request: impl IntoRequest<Q>,
    ) -> Result<A, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let mut grpc = self.grpc().await?;
        let (path, codec) = (path(method.path()), ProstCodec::default());
        let answer = grpc.unary(request.into_request(), path, codec);
        Ok(answer.await?.into_inner())
    }

    /// Asks, and waits for the first of the answer.
    pub(crate) async fn stream<Q, A>(
        &self,
        method: Streamed<Q, A>,
        request: impl IntoRequest<Q>,
    ) -> Result<Streaming<A>, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let mut grpc = self.grpc().await?;
        let (path, codec) = (path(method.path()), ProstCodec::default());
        let answer = grpc.server_streaming(request.into_request(), path, codec);
        Ok(answer.await?.into_inner())
    }

    /// Talks, and waits until the other side does.
    pub(crate) async fn talk<Q, A>(
        &self,
        method: Duplex<Q, A>,
        messages: impl IntoStreamingRequest<Message = Q>,
    ) -> Result<Streaming<A>, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let mut grpc = self.grpc().await?;
        let (path, codec) = (path(method.path()), ProstCodec::default());
        let answer = grpc.streaming(messages.into_streaming_request(), path, codec);
        Ok(answer.await?.into_inner())
    }

    async fn grpc(&self) -> Result<Grpc<Channel>, Status> {
        let mut grpc = Grpc::new(self.channel.clone())
            .max_decoding_message_size(self.message_bytes)
            .max_encoding_message_size(self.message_bytes);
        let lost = |error: tonic::transport::Error| Status::from_error(error.into());
        grpc.ready().await.map_err(lost)?;
        Ok(grpc)
    }
}

fn path(path: &'static str) -> PathAndQuery {
    PathAndQuery::from_static(path)
}
