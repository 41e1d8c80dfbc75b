//! One attempt: a question sent, an answer read.

use super::assemble::{Assembly, Unusable};
use super::body::Names;
use super::refused::Refused;
use super::settings::{OpenAiSettings, Place};
use super::sse::{Events, LONGEST, TooLong};
use super::trust;
use crate::clean::quoted;
use crate::clock::Clock;
use crate::error::{ModelError, Phase};
use crate::message::{Event, Reply};
use reqwest::header::CONTENT_TYPE;
use reqwest::{Client, Response};
use std::time::Duration;

/// Bytes of an answer, and of the text of a refusal.
const MOST_BODY: usize = 64 * 1024 * 1024;
const MOST_REFUSAL: usize = 64 * 1024;

/// What one attempt needs.
pub(crate) struct Exchange<'e> {
    pub(crate) client: &'e Client,
    pub(crate) settings: &'e OpenAiSettings,
    pub(crate) place: &'e Place,
    pub(crate) names: &'e Names,
    pub(crate) clock: &'e Clock,
}

impl From<TooLong> for Unusable {
    fn from(_: TooLong) -> Self {
        Self::TooLarge("one line", LONGEST)
    }
}

impl Exchange<'_> {
    pub(crate) async fn once(
        &self,
        json: &[u8],
        on_event: &mut dyn FnMut(Event),
    ) -> Result<Reply, ModelError> {
        let sent = self
            .client
            .post(self.place.url.clone())
            .body(json.to_vec())
            .send();
        let first = self.settings.timeouts.first_byte;
        let mut response = tokio::time::timeout(first, sent)
            .await
            .map_err(|_| self.timed_out(Phase::FirstByte, first))?
            .map_err(|error| self.unsent(error))?;
        let status = response.status().as_u16();
        if !(200..300).contains(&status) {
            let body = self.some_of(&mut response).await;
            let refused = self.refused();
            return Err(refused.of_status(status, response.headers(), &body));
        }
        let sort = response.headers().get(CONTENT_TYPE);
        let streamed = sort
            .and_then(|sort| sort.to_str().ok())
            .is_some_and(|sort| sort.to_ascii_lowercase().starts_with("text/event-stream"));
        if streamed {
            self.streamed(&mut response, on_event).await
        } else {
            self.whole(&mut response, on_event).await
        }
    }

    async fn streamed(
        &self,
        response: &mut Response,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<Reply, ModelError> {
        let mut events = Events::default();
        let mut assembly = Assembly::new(self.names);
        let mut read = 0_usize;
        while let Some(bytes) = self.next(response).await? {
            read = read.saturating_add(bytes.len());
            if read > MOST_BODY {
                return Err(self.unusable(Unusable::TooLarge("an answer", MOST_BODY)));
            }
            events
                .take(&bytes, |data| assembly.take(data, on_event))
                .map_err(|error| self.unusable(error))?;
            if assembly.is_done() {
                break;
            }
        }
        assembly
            .complete(on_event)
            .map_err(|error| self.unusable(error))
    }

    async fn whole(
        &self,
        response: &mut Response,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<Reply, ModelError> {
        let mut body = Vec::new();
        while let Some(bytes) = self.next(response).await? {
            if body.len() + bytes.len() > MOST_BODY {
                return Err(self.unusable(Unusable::TooLarge("an answer", MOST_BODY)));
            }
            body.extend_from_slice(&bytes);
        }
        let mut assembly = Assembly::new(self.names);
        assembly
            .take(&String::from_utf8_lossy(&body), on_event)
            .and_then(|()| assembly.complete(on_event))
            .map_err(|error| self.unusable(error))
    }

    /// The next piece, which has to come in time.
    async fn next(&self, response: &mut Response) -> Result<Option<Vec<u8>>, ModelError> {
        let between = self.settings.timeouts.between_chunks;
        let piece = tokio::time::timeout(between, response.chunk())
            .await
            .map_err(|_| self.timed_out(Phase::BetweenChunks, between))?
            .map_err(|error| ModelError::Disconnected {
                host: self.place.host.clone(),
                why: self.told(error),
            })?;
        Ok(piece.map(Vec::from))
    }

    /// The beginning of what explains a refusal, as far as it comes.
    async fn some_of(&self, response: &mut Response) -> Vec<u8> {
        let mut body = Vec::new();
        while body.len() < MOST_REFUSAL
            && let Ok(Some(bytes)) = self.next(response).await
        {
            body.extend_from_slice(&bytes);
        }
        body.truncate(MOST_REFUSAL);
        body
    }

    fn refused(&self) -> Refused<'_> {
        Refused {
            host: &self.place.host,
            model: &self.settings.model,
            key: self.settings.key.as_ref(),
            clock: self.clock,
        }
    }

    fn timed_out(&self, phase: Phase, after: Duration) -> ModelError {
        ModelError::TimedOut {
            host: self.place.host.clone(),
            phase,
            after,
        }
    }

    /// Why there is no response at all.
    fn unsent(&self, error: reqwest::Error) -> ModelError {
        let host = self.place.host.clone();
        if error.is_timeout() && error.is_connect() {
            return self.timed_out(Phase::Connect, self.settings.timeouts.connect);
        }
        if let Some(fault) = trust::fault(&error) {
            return ModelError::Certificate { host, fault };
        }
        let connecting = error.is_connect();
        let why = self.told(error);
        if connecting {
            ModelError::Unreachable { host, why }
        } else {
            ModelError::Disconnected { host, why }
        }
    }

    fn unusable(&self, unusable: Unusable) -> ModelError {
        let host = self.place.host.clone();
        match unusable {
            Unusable::Malformed(what) => ModelError::Malformed {
                host,
                what: quoted(&what, self.settings.key.as_ref()),
            },
            Unusable::TooLarge(what, most) => ModelError::TooLarge { host, what, most },
            Unusable::Said(error) => self.refused().in_stream(&error),
            Unusable::Incomplete => ModelError::Disconnected {
                host,
                why: "the connection was closed".to_owned(),
            },
        }
    }

    /// The innermost reason, which is the one people understand.
    fn told(&self, error: reqwest::Error) -> String {
        let error = error.without_url();
        let mut told = error.to_string();
        let mut source = std::error::Error::source(&error);
        while let Some(cause) = source {
            told = cause.to_string();
            source = cause.source();
        }
        quoted(&told, self.settings.key.as_ref())
    }
}
