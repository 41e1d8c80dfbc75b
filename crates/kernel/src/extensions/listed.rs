//! One extension of a policy: the file it must be, whom it is asked about, its worker.

use super::unusable::Unusable;
use super::worker::Launcher;
use super::{Approved, ExtensionProblem, WorkerProgram};
use crate::beneath::Root;
use crate::workspace::{Workspace, read_plain};
use airlock_core::{Digest, Request};
use airlock_policy::{Answer, ExtensionFailure, ExtensionSource, Opinion};
use airlock_script::{Language, Script, ScriptExtension, StartError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Longest script, in bytes: what a worker takes.
pub(crate) const SCRIPT_BYTES: u64 = 256 * 1024;

/// One extension a policy lists.
pub(crate) struct Listed {
    name: Arc<str>,
    file: Arc<str>,
    /// The syscalls it is asked about; none means every one.
    syscalls: Option<Vec<Arc<str>>>,
    pinned: Option<Digest>,
    root: Root,
    launcher: Option<Launcher>,
    state: Mutex<State>,
}

enum State {
    /// Not asked yet, or what kept it from starting may have passed.
    Cold,
    Ready(Arc<ScriptExtension>),
    /// The approved script itself is at fault, so trying again would end the same way.
    Faulty(Arc<str>),
}

impl Listed {
    pub(super) fn new(
        source: &ExtensionSource,
        approved: &Approved,
        workspace: &Workspace,
        worker: Option<&WorkerProgram>,
    ) -> Self {
        // The loader has checked that it is one.
        let own = source.digest.as_deref().and_then(|text| text.parse().ok());
        Self {
            name: Arc::clone(&source.name),
            file: Arc::clone(&source.file),
            syscalls: source.syscall.clone(),
            pinned: own.or_else(|| approved.get(&*source.file).copied()),
            root: workspace.root().clone(),
            launcher: worker.map(|program| Launcher::new(program, workspace.state().path())),
            state: Mutex::new(State::Cold),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Starts it, if it does not run yet, and says what keeps it from being asked.
    pub(crate) fn problem(&self) -> Option<ExtensionProblem> {
        let crashed = || format!("the extension `{}` crashed while it was loaded", self.name);
        let explanation = match self.ready() {
            Ok(_) => return None,
            Err(Some(explanation)) => explanation,
            Err(None) => crashed().into(),
        };
        Some(ExtensionProblem {
            name: Arc::clone(&self.name),
            explanation,
        })
    }

    pub(super) fn evaluate(&self, request: &Request) -> Result<Answer, ExtensionFailure> {
        if !self.is_asked_about(request.syscall.name()) {
            return Ok(Answer {
                opinion: Opinion::Pass,
                reason: format!("the extension `{}` is not asked about this", self.name).into(),
            });
        }
        match self.ready() {
            Ok(script) => airlock_policy::Extension::evaluate(&*script, request),
            Err(Some(reason)) => Ok(Answer {
                opinion: Opinion::Deny,
                reason,
            }),
            Err(None) => Err(ExtensionFailure::Crash),
        }
    }

    pub(super) fn restart(&self) -> Result<(), ExtensionFailure> {
        let mut state = self.state();
        let started = match &*state {
            // From the bytes that were judged: the file may be another by now.
            State::Ready(script) => script.start().map(drop).map_err(drop),
            State::Cold | State::Faulty(_) => self.make_ready(&mut state).map(drop).map_err(drop),
        };
        started.map_err(|()| ExtensionFailure::Crash)
    }

    /// Whether the policy wants it asked about `syscall`: its name, `area.*` or `*` is listed.
    fn is_asked_about(&self, syscall: &str) -> bool {
        let means = |word: &str| match word.strip_suffix(".*") {
            Some(area) => syscall
                .strip_prefix(area)
                .is_some_and(|rest| rest.starts_with('.')),
            None => word == "*" || word == syscall,
        };
        self.syscalls
            .as_ref()
            .is_none_or(|words| words.iter().any(|word| means(word)))
    }

    /// Nothing is left half done under this lock: what failed left it cold.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The script with its worker running, or the reason for a denial. Without a reason it crashed.
    fn ready(&self) -> Result<Arc<ScriptExtension>, Option<Arc<str>>> {
        let mut state = self.state();
        self.make_ready(&mut state)
    }

    fn make_ready(&self, state: &mut State) -> Result<Arc<ScriptExtension>, Option<Arc<str>>> {
        let started = match &*state {
            State::Ready(script) if !self.is_spent() => return Ok(Arc::clone(script)),
            State::Faulty(reason) => return Err(Some(Arc::clone(reason))),
            State::Ready(script) => script.start().map(|()| Arc::clone(script)),
            State::Cold => {
                let script = self.script().map_err(|why| Some(why.explain(&self.name)))?;
                let script = Arc::new(script);
                script.start().map(|()| script)
            }
        };
        started
            .inspect(|script| *state = State::Ready(Arc::clone(script)))
            .map_err(|error| self.not_started(state, error))
    }

    /// What a worker that did not come up means for whoever asks now, and afterwards.
    fn not_started(&self, state: &mut State, error: StartError) -> Option<Arc<str>> {
        *state = State::Cold;
        match &error {
            // It ended while it loaded the script: as much a crash as one later.
            StartError::Worker(_) => None,
            // The machine is at fault. It may be mended while this kernel lives.
            StartError::Spawn { .. } | StartError::Unconfined { .. } => {
                Some(Unusable::Start(error).explain(&self.name))
            }
            StartError::TooLong { .. } | StartError::Script(_) => {
                let reason = Unusable::Start(error).explain(&self.name);
                *state = State::Faulty(Arc::clone(&reason));
                Some(reason)
            }
        }
    }

    fn is_spent(&self) -> bool {
        self.launcher.as_ref().is_some_and(Launcher::is_spent)
    }

    /// The approved script, read and judged once.
    fn script(&self) -> Result<ScriptExtension, Unusable> {
        let file = || Arc::clone(&self.file);
        let language = Language::of_file(&self.file).ok_or(Unusable::Wasm)?;
        let pinned = self
            .pinned
            .ok_or_else(|| Unusable::Unpinned { file: file() })?;
        let bytes = read_plain(&self.root, &self.file, SCRIPT_BYTES).map_err(Unusable::Read)?;
        let bytes = bytes.ok_or_else(|| Unusable::Missing { file: file() })?;
        let found = Digest::of(&bytes);
        if found != pinned {
            return Err(Unusable::Changed {
                file: file(),
                found,
                pinned,
            });
        }
        let source = String::from_utf8(bytes).map_err(|_| Unusable::NotText { file: file() })?;
        let launcher = self.launcher.clone().ok_or(Unusable::NoWorker)?;
        let script = Script {
            name: Arc::clone(&self.name),
            file: file(),
            source: source.into(),
            language,
        };
        Ok(ScriptExtension::new(script, launcher))
    }
}
