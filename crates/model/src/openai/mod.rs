//! OpenAI's chat completions, as OpenAI and most servers of local models speak them.
//!
//! Guarantee: the key goes into the header of requests to the configured host, and nowhere else: no
//! redirect is followed, no proxy is used that the configuration does not name, and none is shown it:
//! a proxy only carries what is encrypted. A server whose certificate does not hold is told nothing. A
//! question that is taken back, or ends in an error, leaves no connection behind.

mod assemble;
mod body;
mod exchange;
mod refused;
mod retry;
mod settings;
mod sse;
mod trust;

pub use settings::{Backoff, OpenAiSettings, Timeouts};

use crate::cancel::Cancel;
use crate::clock::Clock;
use crate::error::ModelError;
use crate::message::{Event, Reply, Request, Usage};
use crate::model::Model;
use crate::tokens::Counter;
use exchange::Exchange;
use settings::Place;

/// A server of chat completions, and a model there.
#[derive(Debug)]
pub struct OpenAi {
    name: String,
    settings: OpenAiSettings,
    place: Place,
    client: reqwest::Client,
    clock: Clock,
}

impl OpenAi {
    /// The model `name`, configured by `settings`. Nothing is connected to yet.
    pub fn new(
        name: impl Into<String>,
        settings: OpenAiSettings,
        clock: Clock,
    ) -> Result<Self, ModelError> {
        let name = name.into();
        let wrong = |why: String| ModelError::Configuration {
            model: name.clone(),
            why,
        };
        let place = Place::of(&settings).map_err(wrong)?;
        let client = settings::client(&settings, &place).map_err(wrong)?;
        Ok(Self {
            name,
            settings,
            place,
            client,
            clock,
        })
    }

    /// Asks until somebody answers, or it makes no sense any more.
    async fn ask(
        &self,
        request: &Request,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<Reply, ModelError> {
        let sent = body::encode(&self.settings, request);
        let exchange = Exchange {
            client: &self.client,
            settings: &self.settings,
            place: &self.place,
            names: &sent.names,
            clock: &self.clock,
        };
        let mut attempt = 0;
        loop {
            let error = match exchange.once(&sent.json, on_event).await {
                Ok(reply) => return Ok(self.completed(reply, request)),
                Err(error) => error,
            };
            let Some(wait) = retry::wait(&self.settings.backoff, attempt, &error) else {
                return Err(error);
            };
            on_event(Event::Error {
                message: error.to_string(),
                retrying: true,
            });
            tokio::time::sleep(wait).await;
            attempt += 1;
        }
    }

    /// With what only this side knows: who answered, and an estimate where no usage was told.
    fn completed(&self, mut reply: Reply, request: &Request) -> Reply {
        reply.model.clone_from(&self.name);
        if reply.usage.total() == 0 {
            let counter = self.counter();
            let said = crate::message::Message::Assistant {
                text: format!("{}{}", reply.reasoning, reply.text),
                calls: reply.calls.clone(),
            };
            reply.usage = Usage {
                input: counter.question(request),
                output: counter.message(&said),
                estimated: true,
                ..Usage::default()
            };
        }
        reply
    }
}

impl Model for OpenAi {
    fn name(&self) -> &str {
        &self.name
    }

    fn chat(
        &self,
        request: &Request,
        on_event: &mut dyn FnMut(Event),
        cancel: &Cancel,
    ) -> Result<Reply, ModelError> {
        // A runtime for each question: with it everything ends that belongs to the question,
        // connections first. One that lives on would close them when it is next used.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| ModelError::Unreachable {
                host: self.place.host.clone(),
                why: error.to_string(),
            })?;
        let total = self.settings.timeouts.total;
        let answered = runtime.block_on(async {
            tokio::select! {
                biased;
                () = cancel.cancelled() => Err(ModelError::Cancelled),
                answered = self.ask(request, on_event) => answered,
                () = tokio::time::sleep(total) => Err(ModelError::TimedOut {
                    host: self.place.host.clone(),
                    phase: crate::error::Phase::Total,
                    after: total,
                }),
            }
        });
        // Not waiting for a look-up of a name that nobody needs any more.
        runtime.shutdown_background();
        let reply = answered?;
        on_event(Event::Usage { usage: reply.usage });
        on_event(Event::Done {
            finish: reply.finish,
        });
        Ok(reply)
    }

    fn counter(&self) -> Counter {
        Counter::of(&self.settings.model)
    }

    fn window(&self) -> u32 {
        self.settings.window
    }

    fn hosts(&self) -> Vec<String> {
        vec![self.place.host.clone()]
    }
}
