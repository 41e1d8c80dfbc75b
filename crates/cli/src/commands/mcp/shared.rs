//! The one kernel of a workspace, as MCP servers use it: the one that runs, or one of this process,
//! which then runs for all others too.
//!
//! Guarantee: a server never works beside the kernel that holds the workspace's lock. Each call
//! reaches whoever holds it at that moment, so servers of several clients share a kernel, and the
//! next one takes over where the one that held it ended. A kernel that was opened before the person's
//! settings changed is asked to take them up, which it does between two calls.
//! Non-guarantee: a call that was under way when its kernel ended is not made again; the log says
//! what came of it. One that was not begun is.

use super::super::{kernel, open};
use crate::args::Global;
use crate::config::Config;
use crate::failure::{Failure, Kind};
use crate::output::Output;
use crate::place::Place;
use airlock_core::SessionId;
use airlock_kernel::{AnswerFailure, Call, Cancel, Front, Kernel, Lifetime, Outcome, Review};
use airlock_mcp::{Road, ToolInfo, Unanswered, begin, begun, end};
use airlock_policy::approval::{Binding, Gate};
use airlock_service::{ClientError, Lock, LockError, Remote, Renewal, Settings, Standing, Stopper};
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
/// How long a kernel that is at work may take until it can take up its settings.
const AT_WORK: Duration = Duration::from_secs(10);
/// How often a call is made that was not begun.
const TRIES: usize = 3;
/// How often it is asked.
const ASK: Duration = Duration::from_millis(250);

/// A kernel of this process that runs for everybody.
struct Hosted {
    stopper: Stopper,
    serving: JoinHandle<Result<(), Failure>>,
}

/// The way to the workspace's kernel.
pub(super) struct Shared {
    global: Global,
    place: Place,
    hosted: Mutex<Option<Hosted>>,
    /// What the kernel has to be opened with: as things were when this process looked, or began one.
    /// A file that changes while clients are at work does not part them from their kernel, unless
    /// somebody had it take that up.
    settings: Mutex<Option<Settings>>,
}

impl Shared {
    pub(super) fn new(global: &Global, place: Place, config: &Config) -> Self {
        Self {
            hosted: Mutex::new(None),
            settings: Mutex::new(open::settings(&place, config)),
            global: global.clone(),
            place,
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
        let mut asked = None;
        let lock = loop {
            // Whoever held the guard before may have begun one, or another process has.
            if let Some(remote) = self.running() {
                return Ok(remote);
            }
            match Lock::take(&state) {
                Ok(lock) => break lock,
                Err(error @ LockError::Taken { .. }) => {
                    if asked.is_none_or(|asked: Instant| asked.elapsed() >= ASK) {
                        asked = Some(Instant::now());
                        self.look_again(&state, begun.elapsed(), &error)?;
                    }
                    std::thread::sleep(LOOK);
                }
                Err(error @ LockError::Io { .. }) => return Err(kernel::locked(&error)),
            }
        };
        let config = open::configuration(&self.global, &self.place)?;
        *self.settings() = open::settings(&self.place, &config);
        let kernel = open::embedded(&self.place, &config, Lifetime::Long)?;
        opened(&kernel);
        let stopper = Stopper::default();
        let hosting = kernel::Hosting {
            global: self.global.clone(),
            place: self.place.clone(),
            stopper: stopper.clone(),
            idle: None,
        };
        let running = hosting.host(&config, kernel, lock)?;
        *hosted = Some(Hosted {
            stopper,
            serving: std::thread::spawn(move || hosting.go_on(running)),
        });
        self.running()
            .ok_or_else(|| Failure::new(Kind::Failed, "the kernel of this process does not answer"))
    }

    /// Somebody else has the lock, as `taken` says, and has had it for `waited`. Takes the settings as
    /// they are by now, and has a kernel that was opened with others take them up. An error once
    /// nothing more is to be hoped for.
    fn look_again(&self, state: &Path, waited: Duration, taken: &LockError) -> Result<(), Failure> {
        let config = open::configuration(&self.global, &self.place)?;
        *self.settings() = open::settings(&self.place, &config);
        if self.running().is_some() {
            return Ok(());
        }
        // As the person who started this process, whose settings they are.
        let renewal = Remote::any(state, Front::Cli).map(|mut kernel| kernel.renew());
        let unusable = |why: String| Err(kernel::locked(taken).why(why));
        match renewal {
            Some(Ok(Renewal::Begun)) => Ok(()),
            Some(Ok(Renewal::Busy(_))) if waited < AT_WORK => Ok(()),
            Some(Ok(Renewal::Busy(count))) => {
                let calls = crate::output::count(count as u64, "call");
                let why = format!("its settings have changed since it started, and {calls} of it");
                unusable(format!("{why} must end before it can take them up"))
            }
            // It may have been opened again between the two looks.
            Some(Ok(Renewal::Current)) if self.running().is_some() => Ok(()),
            Some(Ok(Renewal::Current)) => {
                unusable("it is another version, or was started with other settings".to_owned())
            }
            Some(Ok(Renewal::Unusable(why))) => unusable(format!(
                "it cannot take up settings that have changed: {why}"
            )),
            // It ends, or has just begun.
            Some(Err(_)) | None if waited < STARTING => Ok(()),
            Some(Err(error)) => unusable(error.to_string()),
            None => unusable("it does not answer".to_owned()),
        }
    }

    /// Asks the kernel. What it did not begin, because it ended or was opened again at that moment, is
    /// asked of the next.
    fn asking<T>(
        &self,
        ask: impl Fn(&mut Remote) -> Result<T, ClientError>,
    ) -> Result<T, Unanswered> {
        for _ in 1..TRIES {
            match ask(&mut self.reach()?) {
                Err(error) if error.is_too_late() => std::thread::sleep(LOOK),
                answered => return answered.map_err(unanswered),
            }
        }
        ask(&mut self.reach()?).map_err(unanswered)
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
            Ok(ended) => ended,
            Err(_) => Err(Failure::new(Kind::Failed, "the kernel broke off")
                .fix("see what it did: airlock audit log")),
        }
    }
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
        let described = self.asking(Remote::tools)?;
        Ok(described.iter().filter_map(info).collect())
    }

    fn call(&self, call: &Call, cancel: &Cancel) -> Result<Outcome, Unanswered> {
        let result = self.asking(|remote| remote.covered(call, cancel))?;
        Ok(result.outcome)
    }

    fn opened_to_client(&self, gate: Gate) -> bool {
        let opened = self.asking(Remote::opened);
        opened.is_ok_and(|gates| gates.contains(&gate))
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
        // What a file that a person trusted says of its tool is a hint, and no more is made of it.
        read_only: described.get("says_read_only")?.as_bool()?,
        effects: airlock_core::EffectSet::of(&[]),
    };
    info.offered(text("syscall")?)
}
