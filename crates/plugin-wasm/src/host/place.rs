//! From bytes to a worker that is ready: what is sent, what is kept, what is believed.

use super::link::{Link, Spawn, Word};
use super::log::Log;
use crate::cache::CodeCache;
use crate::limits::Bounds;
use crate::message::{
    Form, FromWorker, Kind, Setup, TOOLS, ToWorker, VERSION, frame, message, plain,
};
use airlock_core::Digest;
use airlock_plugin::{StartError, ToolDescription, WasmLimits};
use serde_json::Value;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long starting a worker and compiling a plugin may take. Unoptimised builds compile slowly,
/// and the box has a quarter of a processor.
const START: Duration = Duration::from_mins(1);

/// What a plugin's workers are made from.
pub(super) struct Source {
    pub(super) spawn: Arc<dyn Spawn>,
    pub(super) cache: Option<Arc<CodeCache>>,
    pub(super) module: Vec<u8>,
    pub(super) digest: Digest,
    pub(super) plugin: String,
    pub(super) configuration: Value,
    pub(super) limits: WasmLimits,
}

/// A worker that is ready.
pub(super) struct Loaded {
    pub(super) link: Link,
    /// The digest of all that its code depends on besides the module.
    pub(super) engine: Digest,
    pub(super) form: Form,
    pub(super) tools: Vec<ToolDescription>,
    pub(super) log: Arc<Log>,
    /// Whether its code came from the cache.
    pub(super) was_cached: bool,
}

impl Source {
    /// Starts a worker and loads the plugin into it.
    pub(super) fn load(&self) -> Result<Loaded, StartError> {
        let until = Instant::now() + START;
        let log = Arc::<Log>::default();
        let spawned = self.spawn.spawn();
        let link = spawned
            .and_then(|pipes| Link::new(pipes, Arc::clone(&log)))
            .map_err(|error| StartError::Confinement(error.to_string()))?;
        let setup = Setup {
            plugin: self.plugin.clone(),
            sandbox: link.sandbox.clone(),
            configuration: self.configuration.clone(),
            bounds: Bounds::of(&self.limits),
            wants_code: self.cache.is_some(),
        };
        link.send(message(&ToWorker::Setup(setup)).map_err(|error| unsendable(&error))?);
        let mut talk = Talk {
            link: &link,
            until,
            code: None,
        };
        let engine = talk.hello()?;
        let cached = self
            .cache
            .as_ref()
            .and_then(|cache| cache.find(&self.digest, &engine));
        let mut was_cached = cached.is_some();
        let mut ready = None;
        if let Some(code) = cached {
            talk.send(Kind::Code, &code)?;
            ready = talk.ready()?;
        }
        if ready.is_none() {
            was_cached = false;
            talk.send(Kind::Module, &self.module)?;
            ready = talk.ready()?;
        }
        let (form, tools) = ready.ok_or_else(out_of_turn)?;
        if let (Some(cache), Some(code)) = (&self.cache, talk.code.take()) {
            // Without it the next start compiles again, which is no reason not to start.
            let _not_kept = cache.keep(&self.digest, &engine, &code);
        }
        Ok(Loaded {
            link,
            engine,
            form,
            tools,
            log,
            was_cached,
        })
    }
}

/// What is said until a worker is ready.
struct Talk<'a> {
    link: &'a Link,
    until: Instant,
    code: Option<Vec<u8>>,
}

impl Talk<'_> {
    fn send(&self, kind: Kind, body: &[u8]) -> Result<(), StartError> {
        self.link
            .send(frame(kind, body).map_err(|error| unsendable(&error))?);
        Ok(())
    }

    fn word(&self) -> Result<Word, StartError> {
        let left = self.until.saturating_duration_since(Instant::now());
        match (self.link.word(left), self.link.ended()) {
            (Some(word), _) => Ok(word),
            (None, Some(why)) => Err(StartError::Ended(why.to_owned())),
            (None, None) => Err(StartError::TimedOut(START)),
        }
    }

    fn hello(&self) -> Result<Digest, StartError> {
        match self.word()? {
            Word::Message(FromWorker::Hello { engine, version }) if version == VERSION => {
                engine.parse().map_err(|_| out_of_turn())
            }
            Word::Message(FromWorker::Hello { version, .. }) => Err(of_another(&version)),
            Word::Message(FromWorker::Unconfined(why) | FromWorker::Refused(why)) => {
                Err(StartError::Confinement(plain(&why)))
            }
            Word::Message(_) | Word::Code(_) => Err(out_of_turn()),
        }
    }

    /// None if the code is not for this engine.
    fn ready(&mut self) -> Result<Option<(Form, Vec<ToolDescription>)>, StartError> {
        loop {
            match self.word()? {
                Word::Code(code) if self.code.is_none() => self.code = Some(code),
                Word::Message(FromWorker::Ready { form, tools }) if tools.len() <= TOOLS => {
                    return Ok(Some((form, tools)));
                }
                Word::Message(FromWorker::Stale) => return Ok(None),
                Word::Message(FromWorker::Refused(why)) => {
                    return Err(StartError::Protocol(plain(&why)));
                }
                Word::Message(_) | Word::Code(_) => return Err(out_of_turn()),
            }
        }
    }
}

fn of_another(version: &str) -> StartError {
    StartError::Confinement(format!(
        "its worker is of version {:?}, and this is {VERSION}: install both of one version",
        plain(version)
    ))
}

fn out_of_turn() -> StartError {
    StartError::Ended("its worker did not keep to the protocol".to_owned())
}

fn unsendable(error: &io::Error) -> StartError {
    StartError::Protocol(format!("its settings cannot be sent: {error}"))
}
