//! The one kernel of a workspace, as MCP servers use it: the one that runs, or one of this process,
//! which then runs for all others too.
//!
//! Guarantee: a server never works beside the kernel that holds the workspace's lock. Each call
//! reaches whoever holds it at that moment, so servers of several clients share a kernel, and the
//! next one takes over where the one that held it ended.
//! Non-guarantee: a call that was under way when its kernel ended is not made again; the log says
//! what came of it.

use super::super::{kernel, open};
use crate::config::Config;
use crate::failure::{Failure, Kind};
use crate::output::Output;
use crate::place::Place;
use airlock_core::SessionId;
use airlock_kernel::{AnswerFailure, Call, Cancel, Front, Kernel, Lifetime, Outcome, Review};
use airlock_mcp::{Road, ToolInfo, Unanswered, begin, begun, end};
use airlock_policy::approval::{Binding, Gate};
use airlock_service::{Lock, LockError, Remote, ServeError, Settings, Standing, Stopper};
use serde_json::Value;
use std::fmt::Display;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long whoever has just taken the lock may need until they answer.
const STARTING: Duration = Duration::from_secs(5);
/// How often that is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// A kernel of this process that runs for everybody.
struct Hosted {
    stopper: Stopper,
    serving: JoinHandle<Result<(), ServeError>>,
}

/// The way to the workspace's kernel.
pub(super) struct Shared {
    place: Place,
    config: Config,
    hosted: Mutex<Option<Hosted>>,
    /// What the kernel has to be opened with: as things were when this process looked, or began one.
    /// A file that changes while clients are at work does not part them from their kernel.
    settings: Mutex<Option<Settings>>,
}

impl Shared {
    pub(super) fn new(place: Place, config: Config) -> Self {
        Self {
            hosted: Mutex::new(None),
            settings: Mutex::new(open::settings(&place, &config)),
            place,
            config,
        }
    }

    /// Sees to it that there is a kernel, and says what the person should know of it.
    pub(super) fn begin(&self, output: &mut Output) -> Result<(), Failure> {
        let mut own = false;
        let mut remote = self.reach_with(|kernel| {
            own = true;
            open::introduce(kernel, output);
        })?;
        if own {
            return Ok(());
        }
        let status = remote
            .status()
            .map_err(|error| Failure::of(Kind::Failed, &error))?;
        let flag = |name: &str| status.get(name).and_then(Value::as_bool);
        let broken = status.get("broken").and_then(Value::as_str);
        let standing = Standing {
            untrusted: flag("untrusted").unwrap_or_default(),
            broken: broken.map(str::to_owned),
        };
        open::told(&standing, output);
        Ok(())
    }

    /// Ends the kernel of this process, if it has one.
    pub(super) fn end(&self) -> Result<(), Failure> {
        let hosted = self
            .hosted
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        hosted.map_or(Ok(()), Hosted::end)
    }

    /// A connection to the kernel, which is begun here where nobody else has one.
    fn reach(&self) -> Result<Remote, Unanswered> {
        self.reach_with(|_| {}).map_err(|failure| Unanswered {
            what: failure.what().to_owned(),
            fix: "see `airlock kernel status`, then try again".to_owned(),
        })
    }

    fn reach_with(&self, opened: impl FnOnce(&Kernel)) -> Result<Remote, Failure> {
        if let Some(remote) = self.running() {
            return Ok(remote);
        }
        let mut hosted = self.hosted.lock().unwrap_or_else(PoisonError::into_inner);
        let (state, _) = open::state(&self.place)?;
        let begun = Instant::now();
        let lock = loop {
            // Whoever held the guard before may have begun one, or another process has.
            if let Some(remote) = self.running() {
                return Ok(remote);
            }
            match Lock::take(&state) {
                Ok(lock) => break lock,
                Err(LockError::Taken { .. }) if begun.elapsed() < STARTING => {
                    std::thread::sleep(LOOK);
                }
                Err(error @ LockError::Taken { .. }) => return Err(unusable(&state, &error)),
                Err(error @ LockError::Io { .. }) => return Err(kernel::locked(&error)),
            }
        };
        *self.settings() = open::settings(&self.place, &self.config);
        let kernel = open::embedded(&self.place, &self.config, Lifetime::Long)?;
        opened(&kernel);
        let running = kernel::host(&self.place, &self.config, kernel, lock, None)?;
        *hosted = Some(Hosted {
            stopper: running.stopper(),
            serving: std::thread::spawn(move || running.wait()),
        });
        self.running()
            .ok_or_else(|| Failure::new(Kind::Failed, "the kernel of this process does not answer"))
    }

    fn running(&self) -> Option<Remote> {
        let settings = self.settings().clone()?;
        open::running_with(&self.place, &settings, Front::Mcp)
    }

    fn settings(&self) -> MutexGuard<'_, Option<Settings>> {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Hosted {
    fn end(self) -> Result<(), Failure> {
        self.stopper.stop();
        match self.serving.join() {
            Ok(ended) => ended.map_err(kernel::serve_failure),
            Err(_) => Err(Failure::new(Kind::Failed, "the kernel broke off")
                .fix("see what it did: airlock audit log")),
        }
    }
}

/// Somebody has the lock and is no help.
fn unusable(state: &Path, error: &LockError) -> Failure {
    let failure = kernel::locked(error);
    if Remote::any(state, Front::Mcp).is_some() {
        return failure.why("it is another version, or was started with other settings");
    }
    failure.why("it does not answer")
}

impl Road for Shared {
    fn begin(&self) -> Result<Option<SessionId>, Unanswered> {
        begun(&self.call(&begin(), &Cancel::new())?)
    }

    fn end(&self, session: &SessionId) {
        // No kernel is begun for this alone.
        if let Some(mut remote) = self.running() {
            let _ended = remote.covered(&end(session), &Cancel::new());
        }
    }

    fn tools(&self) -> Result<Vec<ToolInfo>, Unanswered> {
        // Asked each time: plugins and adapters come, change and go while a client is at work.
        let described = self.reach()?.tools().map_err(unanswered)?;
        Ok(described.iter().filter_map(info).collect())
    }

    fn call(&self, call: &Call, cancel: &Cancel) -> Result<Outcome, Unanswered> {
        let result = self.reach()?.covered(call, cancel);
        result.map(|result| result.outcome).map_err(unanswered)
    }

    fn opened_to_client(&self, gate: Gate) -> bool {
        let opened = self
            .reach()
            .ok()
            .and_then(|mut remote| remote.opened().ok());
        opened.is_some_and(|gates| gates.contains(&gate))
    }

    fn answer(&self, review: &mut Review, approved: bool) -> Result<(), AnswerFailure> {
        let mut remote = self.reach().map_err(|error| AnswerFailure::Refused {
            what: error.what,
            fix: Some(error.fix),
        })?;
        let generation = review.decision.generation;
        let shown = Binding::of(&review.request, None, generation, None).action;
        remote.elicited(&review.approval.id, shown, approved)
    }
}

fn unanswered(error: impl Display) -> Unanswered {
    Unanswered {
        what: format!("the kernel gave no outcome: {error}"),
        fix: "`airlock audit log` says what was done; try again".to_owned(),
    }
}

/// A tool, as the wire describes it.
fn info(described: &Value) -> Option<ToolInfo> {
    let text = |name: &str| described.get(name)?.as_str();
    let examples = described.get("examples").and_then(Value::as_array);
    let examples = examples.into_iter().flatten().filter_map(Value::as_str);
    let info = ToolInfo {
        name: text("name")?.to_owned(),
        summary: text("summary")?.to_owned(),
        schema: described.get("arguments")?.clone(),
        examples: examples.map(str::to_owned).collect(),
        read_only: described.get("read_only")?.as_bool()?,
        effects: airlock_core::EffectSet::of(&[]),
    };
    info.offered(text("syscall")?)
}
