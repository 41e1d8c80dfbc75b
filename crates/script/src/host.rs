//! The host: one script as an extension of the policy, with its worker kept warm.
//!
//! Guarantees: [`ScriptExtension::evaluate`] returns within its time whatever the worker does; what
//! the worker says is checked as if it were the script's author's; no worker outlives the extension.
//!
//! A script that throws, returns nonsense or runs out of memory did no harm to its worker: that is
//! a denial which says why. A worker that ends or babbles crashed; whether it is started again is
//! the policy's [`airlock_policy::ExtensionHost`]'s to say, so a crashed worker stays down until
//! [`Extension::restart`]. A worker that does not answer is killed and replaced at the next question.
//!
//! Evaluations of one script take turns.

use crate::answer::clean;
use crate::link::{Link, Silence, Spawn};
use crate::problem::Problem;
use crate::view;
use crate::wire::{FRAME_BYTES, Fault, Judged, Language, Load, Loaded, Word};
use airlock_core::Request;
use airlock_policy::{Answer, Extension, ExtensionFailure, Opinion};
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Longest script, in bytes.
const SOURCE_BYTES: usize = 256 * 1024;

/// A script to run.
#[derive(Debug, Clone)]
pub struct Script {
    /// The extension's name, as the policy gives it.
    pub name: Arc<str>,
    /// Its file, for messages.
    pub file: Arc<str>,
    /// Its text.
    pub source: Arc<str>,
    /// What it is written in.
    pub language: Language,
}

/// How long things may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// One evaluation, as the worker measures it.
    pub evaluation: Duration,
    /// How much longer the host waits before it kills: the pipe, the scheduler, and the worker
    /// making its next interpreter, which may take another evaluation's time.
    pub margin: Duration,
    /// Starting and loading.
    pub start: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            evaluation: Duration::from_millis(100),
            margin: Duration::from_millis(250),
            start: Duration::from_secs(10),
        }
    }
}

/// Why a script's worker did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Over the limit.
    #[error("the script `{file}` is {bytes} bytes long; {SOURCE_BYTES} is the most")]
    TooLong {
        /// The script's file.
        file: Arc<str>,
        /// Its length.
        bytes: usize,
    },
    /// The worker process cannot be started.
    #[error("the worker of the script `{file}` does not start")]
    Spawn {
        /// The script's file.
        file: Arc<str>,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The worker ended, babbled or fell silent.
    #[error("the worker of the script `{0}` did not come up")]
    Worker(Arc<str>),
    /// The worker could not confine itself.
    #[error("the worker of the script `{file}` could not confine itself: {why}")]
    Unconfined {
        /// The script's file.
        file: Arc<str>,
        /// What the worker says.
        why: String,
    },
    /// The script is at fault.
    #[error(transparent)]
    Script(Problem),
}

impl StartError {
    /// How to mend it.
    pub fn hint(&self) -> &str {
        match self {
            Self::TooLong { .. } => "keep what decides, and generate the rest into rules",
            Self::Spawn { .. } | Self::Unconfined { .. } => {
                "run `airlock doctor` to see what the sandbox lacks"
            }
            Self::Worker(_) => "make the script smaller or less deeply nested",
            Self::Script(problem) => problem.hint(),
        }
    }

    /// Whether trying again would end the same way: the script is to blame, not the machine.
    const fn is_final(&self) -> bool {
        matches!(self, Self::TooLong { .. } | Self::Script(_))
    }
}

enum State {
    /// Not started yet, or ended by us.
    Cold,
    Warm(Link),
    /// It crashed; only a restart helps.
    Down,
    /// The script cannot be used; the reason for every denial until reloaded.
    Unusable(Arc<str>),
}

type Asked = Box<dyn Fn(&Request) -> bool + Send + Sync>;

/// A user script as an extension. The worker is started at the first question.
pub struct ScriptExtension {
    script: Script,
    spawn: Box<dyn Spawn>,
    limits: Limits,
    asked: Asked,
    state: Mutex<State>,
}

impl fmt::Debug for ScriptExtension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ScriptExtension({})", self.script.name)
    }
}

impl ScriptExtension {
    /// `script`, run by workers that `spawn` starts.
    pub fn new(script: Script, spawn: impl Spawn + 'static) -> Self {
        Self {
            script,
            spawn: Box::new(spawn),
            limits: Limits::default(),
            asked: Box::new(|_| true),
            state: Mutex::new(State::Cold),
        }
    }

    /// With other limits.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Asked only about requests `filter` holds for; it passes on others.
    #[must_use]
    pub fn asked_about(
        mut self,
        filter: impl Fn(&Request) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.asked = Box::new(filter);
        self
    }

    /// Starts the worker now, anew if it runs, and says what is wrong with the script.
    pub fn start(&self) -> Result<(), StartError> {
        let mut state = self.state();
        *state = State::Down;
        match self.launch() {
            Ok(link) => {
                *state = State::Warm(link);
                Ok(())
            }
            Err(error) => {
                *state = self.after(&error);
                Err(error)
            }
        }
    }

    /// A panic elsewhere cannot have left half a conversation: an answer is taken or the link goes.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn after(&self, error: &StartError) -> State {
        if error.is_final() {
            State::Unusable(self.says(&format!("cannot be used: {error}")))
        } else {
            State::Down
        }
    }

    fn launch(&self) -> Result<Link, StartError> {
        let file = || Arc::clone(&self.script.file);
        let load = self.load_frame()?;
        let spawned = self.spawn.spawn().and_then(Link::new);
        let link = spawned.map_err(|source| StartError::Spawn {
            file: file(),
            source,
        })?;
        let answer = link.ask(load, self.limits.start);
        let loaded = answer
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok());
        match loaded {
            Some(Loaded::Ready) => Ok(link),
            Some(Loaded::Refused(problem)) => Err(StartError::Script(plain(&problem))),
            Some(Loaded::Unconfined(why)) => {
                let why = clean(&why);
                Err(StartError::Unconfined { file: file(), why })
            }
            None => Err(StartError::Worker(file())),
        }
    }

    fn load_frame(&self) -> Result<Vec<u8>, StartError> {
        let Script {
            file,
            source,
            language,
            ..
        } = &self.script;
        let too_long = || StartError::TooLong {
            file: Arc::clone(file),
            bytes: source.len(),
        };
        if source.len() > SOURCE_BYTES {
            return Err(too_long());
        }
        let micros = self.limits.evaluation.as_micros();
        let load = Load {
            file: file.to_string(),
            source: source.to_string(),
            language: *language,
            limit_micros: u64::try_from(micros).unwrap_or(u64::MAX),
        };
        // Escapes can make the frame longer than the script.
        let frame = serde_json::to_vec(&load).ok();
        frame
            .filter(|frame| frame.len() <= FRAME_BYTES)
            .ok_or_else(too_long)
    }

    /// The warm worker's answer. Starting a cold one is not counted against its time.
    fn ask(&self, state: &mut State, frame: Vec<u8>) -> Result<Result<Judged, Arc<str>>, Silence> {
        if matches!(state, State::Cold) {
            *state = match self.launch() {
                Ok(link) => State::Warm(link),
                Err(error) => self.after(&error),
            };
        }
        match state {
            State::Warm(link) => {
                let answer = link.ask(frame, self.limits.evaluation + self.limits.margin)?;
                serde_json::from_slice(&answer)
                    .map(Ok)
                    .map_err(|_| Silence::Ended)
            }
            State::Unusable(reason) => Ok(Err(Arc::clone(reason))),
            State::Cold | State::Down => Err(Silence::Ended),
        }
    }

    fn says(&self, what: &str) -> Arc<str> {
        clean(&format!("the extension `{}` {what}", self.script.name)).into()
    }

    fn deny(reason: Arc<str>) -> Answer {
        Answer {
            opinion: Opinion::Deny,
            reason,
        }
    }

    fn answer(&self, decision: Word, reason: &str) -> Answer {
        let (opinion, word) = match decision {
            Word::Allow => (Opinion::Allow, "allows this"),
            Word::Deny => (Opinion::Deny, "denies this"),
            Word::RequireReview => (Opinion::RequireReview, "wants this reviewed"),
            Word::Pass => (Opinion::Pass, "has no opinion"),
        };
        // The worker cleaned it already; a worker that was taken over did not.
        let reason = clean(reason);
        let reason = if reason.is_empty() {
            self.says(word)
        } else {
            reason.into()
        };
        Answer { opinion, reason }
    }
}

/// `problem` with its texts made plain: they come from a worker.
fn plain(problem: &Problem) -> Problem {
    Problem {
        file: clean(&problem.file),
        message: clean(&problem.message),
        text: clean(&problem.text),
        hint: clean(&problem.hint),
        line: problem.line,
        column: problem.column,
    }
}

impl Extension for ScriptExtension {
    fn name(&self) -> &str {
        &self.script.name
    }

    fn evaluate(&self, request: &Request) -> Result<Answer, ExtensionFailure> {
        if !(self.asked)(request) {
            return Ok(Answer {
                opinion: Opinion::Pass,
                reason: self.says("is not asked about this"),
            });
        }
        let frame = view::encode(request)
            .ok()
            .filter(|frame| frame.len() <= FRAME_BYTES);
        let Some(frame) = frame else {
            return Ok(Self::deny(self.says("cannot judge a request this large")));
        };
        let mut state = self.state();
        match self.ask(&mut state, frame) {
            Ok(Ok(Judged::Answer { decision, reason })) => Ok(self.answer(decision, &reason)),
            Ok(Ok(Judged::Failed(Fault::Timeout))) => Err(ExtensionFailure::Timeout),
            Ok(Ok(Judged::Failed(fault))) => Ok(Self::deny(self.says(&fault.to_string()))),
            Ok(Err(reason)) => Ok(Self::deny(reason)),
            Err(Silence::Late) => {
                *state = State::Cold;
                Err(ExtensionFailure::Timeout)
            }
            Err(Silence::Ended) => {
                *state = State::Down;
                Err(ExtensionFailure::Crash)
            }
        }
    }

    fn restart(&self) -> Result<(), ExtensionFailure> {
        self.start().map_err(|_| ExtensionFailure::Crash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_evaluation_has_a_tenth_of_a_second_and_the_host_waits_longer() {
        let limits = Limits::default();
        assert_eq!(limits.evaluation, Duration::from_millis(100));
        // The worker may be making its next interpreter when a request comes.
        assert!(limits.margin >= 2 * limits.evaluation);
    }
}
