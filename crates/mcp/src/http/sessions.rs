//! The sessions of HTTP clients: a bounded number, each with what it has in flight.

use crate::in_flight::{InFlight, answers};
use rmcp::RoleServer;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::streamable_http_server::session::local::{
    LocalSessionManager, LocalSessionManagerError,
};
use rmcp::transport::streamable_http_server::session::{
    ServerSseMessage, SessionId, SessionManager,
};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// An answered request is kept so long for a client that lost its connection.
const KEPT: Duration = Duration::from_secs(10);

type Inner = <LocalSessionManager as SessionManager>::Transport;

pub(super) struct Sessions {
    inner: LocalSessionManager,
    flights: Mutex<HashMap<SessionId, Arc<InFlight>>>,
    most: usize,
}

/// Why a session could not be had.
#[derive(Debug, thiserror::Error)]
pub(super) enum SessionsError {
    #[error("there are too many sessions")]
    Full,
    #[error(transparent)]
    Session(#[from] LocalSessionManagerError),
}

impl Sessions {
    /// Holds at most `most` sessions.
    pub(super) fn new(most: usize) -> Self {
        let mut inner = LocalSessionManager::default();
        inner.session_config.completed_cache_ttl = KEPT;
        Self {
            inner,
            flights: Mutex::default(),
            most,
        }
    }

    /// Whether another session is one too many.
    pub(super) fn is_full(&self) -> bool {
        self.flights().len() >= self.most
    }

    /// What the session `id` has in flight.
    pub(super) fn in_flight(&self, id: &str) -> Option<Arc<InFlight>> {
        self.flights().get(id).cloned()
    }

    fn flights(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<InFlight>>> {
        self.flights.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SessionManager for Sessions {
    type Error = SessionsError;
    type Transport = Counted;

    async fn create_session(&self) -> Result<(SessionId, Counted), SessionsError> {
        if self.is_full() {
            return Err(SessionsError::Full);
        }
        let (id, inner) = self.inner.create_session().await?;
        let in_flight = Arc::new(InFlight::default());
        self.flights()
            .insert(Arc::clone(&id), Arc::clone(&in_flight));
        Ok((id, Counted { inner, in_flight }))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, SessionsError> {
        Ok(self.inner.initialize_session(id, message).await?)
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, SessionsError> {
        Ok(self.inner.has_session(id).await?)
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), SessionsError> {
        self.flights().remove(id);
        Ok(self.inner.close_session(id).await?)
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<
        impl futures_core::Stream<Item = ServerSseMessage> + Send + Sync + 'static,
        SessionsError,
    > {
        Ok(self.inner.create_stream(id, message).await?)
    }

    async fn accept_message(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<(), SessionsError> {
        Ok(self.inner.accept_message(id, message).await?)
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<
        impl futures_core::Stream<Item = ServerSseMessage> + Send + Sync + 'static,
        SessionsError,
    > {
        Ok(self.inner.create_standalone_stream(id).await?)
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<
        impl futures_core::Stream<Item = ServerSseMessage> + Send + Sync + 'static,
        SessionsError,
    > {
        Ok(self.inner.resume(id, last_event_id).await?)
    }
}

/// The transport of one session, which notes what it answers.
pub(super) struct Counted {
    inner: Inner,
    in_flight: Arc<InFlight>,
}

impl Transport<RoleServer> for Counted {
    type Error = <Inner as Transport<RoleServer>>::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let leaving = self.in_flight.answer(answers(&message).as_ref());
        let sending = self.inner.send(message);
        async move {
            let sent = sending.await;
            drop(leaving);
            sent
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        self.inner.receive().await
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}
