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

/// How often a kernel is looked for.
const LOOK: Duration = Duration::from_millis(20);
/// How often one that is no help is asked how it stands.
const ASK: Duration = Duration::from_millis(250);

/// How the kernel that has the lock stands, where it is no help yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sign {
    /// It says nothing: it has just begun, ends, or hangs.
    Silent,
    /// It takes up its settings.
    Renews,
    /// It would, and is at work.
    AtWork,
    /// It has no others to take up, and they are not those of this process.
    Foreign,
}

impl Sign {
    /// How long it may stay so.
    const fn patience(self) -> Duration {
        match self {
            Self::Silent => Duration::from_secs(5),
            // Plugins are waited for, and whatever else is to end.
            Self::Renews => Duration::from_secs(45),
            Self::AtWork => Duration::from_secs(10),
            // Either side may have read a file the moment before it changed.
            Self::Foreign => ASK.saturating_mul(2),
        }
    }

    const fn why(self) -> &'static str {
        match self {
            Self::Silent => "it does not answer",
            Self::Renews => "it takes up settings that have changed, and does not come back",
            Self::AtWork => {
                "its settings have changed since it started, and calls of it must end before it can take them up"
            }
            Self::Foreign => "it is another version, or was started with other settings",
        }
    }
}

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
    /// What the kernel was opened with: as things were when this process looked, or began one. A file
    /// that changes while clients are at work does not part them from their kernel, unless somebody
    /// had it take that up.
    settings: Mutex<Settings>,
}

impl Shared {
    pub(super) fn new(global: &Global, place: Place, config: &Config) -> Result<Self, Failure> {
        Ok(Self {
            hosted: Mutex::new(None),
            settings: Mutex::new(open::settings(&place, config)?),
            global: global.clone(),
            place,
        })
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
        let mut asked: Option<Instant> = None;
        let mut seen = (Sign::Silent, Instant::now());
        let lock = loop {
            // Whoever held the guard before may have begun one, or another process has.
            if let Some(remote) = self.running() {
                return Ok(remote);
            }
            match Lock::take(&state) {
                Ok(lock) => break lock,
                Err(error @ LockError::Taken { .. }) => {
                    if asked.is_none_or(|asked| asked.elapsed() >= ASK) {
                        let sign = self.look_again(&state, &error)?;
                        asked = Some(Instant::now());
                        if sign != seen.0 {
                            seen = (sign, Instant::now());
                        }
                    }
                    let (sign, since) = seen;
                    if since.elapsed() >= sign.patience() {
                        return Err(kernel::locked(&error).why(sign.why()));
                    }
                    std::thread::sleep(LOOK);
                }
                Err(error @ LockError::Io { .. }) => return Err(kernel::locked(&error)),
            }
        };
        if let Some(ended) = hosted.take() {
            // What it failed with is met again below, or is nobody's any more.
            let _ended = ended.end();
        }
        let config = open::configuration(&self.global, &self.place)?;
        *self.settings() = open::settings(&self.place, &config)?;
        let kernel = open::embedded(&self.place, &config, Lifetime::Long)?;
        opened(&kernel);
        let stopper = Stopper::default();
        let hosting = kernel::Hosting {
            global: self.global.clone(),
            place: self.place.clone(),
            stopper: stopper.clone(),
            idle: None,
            on_demand: false,
        };
        let running = hosting.host(&config, kernel, lock)?;
        *hosted = Some(Hosted {
            stopper,
            serving: std::thread::spawn(move || hosting.go_on(running, config)),
        });
        self.running()
            .ok_or_else(|| Failure::new(Kind::Failed, "the kernel of this process does not answer"))
    }

    /// Somebody else has the lock, as `taken` says. Says how they stand, and has a kernel that was
    /// opened with other settings than this process had, or would have by now, take up its own. An
    /// error if nothing is to be hoped for.
    fn look_again(&self, state: &Path, taken: &LockError) -> Result<Sign, Failure> {
        // As the person who started this process, whose settings they are.
        let Some(mut kernel) = Remote::any(state, Front::Cli) else {
            let renews = airlock_service::running(state).is_some_and(|notice| notice.renews());
            return Ok(if renews { Sign::Renews } else { Sign::Silent });
        };
        let config = open::configuration(&self.global, &self.place)?;
        let now = open::settings(&self.place, &config)?;
        let mut had = self.settings();
        if kernel.was_opened_with(&now) {
            *had = now;
        }
        if kernel.was_opened_with(&had) {
            return Ok(Sign::Silent);
        }
        drop(had);
        match kernel.renew() {
            Ok(Renewal::Begun) => Ok(Sign::Renews),
            Ok(Renewal::Busy(_)) => Ok(Sign::AtWork),
            Ok(Renewal::Current) => Ok(Sign::Foreign),
            Ok(Renewal::Unusable(why)) => {
                let why = format!("it cannot take up settings that have changed: {why}");
                Err(kernel::locked(taken).why(why))
            }
            Err(_) => Ok(Sign::Silent),
        }
    }

    /// Asks the kernel. What it did not begin, because it ended or was opened again at that moment, is
    /// asked of the next.
    fn asking<T>(
        &self,
        ask: impl Fn(&mut Remote) -> Result<T, ClientError>,
    ) -> Result<Result<T, ClientError>, Unanswered> {
        let begun = Instant::now();
        loop {
            match ask(&mut self.reach()?) {
                Err(error) if error.is_too_late() && begun.elapsed() < Sign::Silent.patience() => {
                    std::thread::sleep(LOOK);
                }
                answered => return Ok(answered),
            }
        }
    }

    fn running(&self) -> Option<Remote> {
        let settings = self.settings().clone();
        open::running_with(&self.place, &settings, Front::Mcp)
    }

    fn settings(&self) -> MutexGuard<'_, Settings> {
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
        let described = self.asking(Remote::tools)?.map_err(unanswered)?;
        Ok(described.iter().filter_map(info).collect())
    }

    fn call(&self, call: &Call, cancel: &Cancel) -> Result<Outcome, Unanswered> {
        let result = self.asking(|remote| remote.covered(call, cancel))?;
        result.map(|result| result.outcome).map_err(unanswered)
    }

    fn opened_to_client(&self, gate: Gate) -> bool {
        let opened = self.asking(Remote::opened);
        opened.is_ok_and(|told| told.is_ok_and(|gates| gates.contains(&gate)))
    }

    fn answer(&self, review: &mut Review, approved: bool) -> Result<(), AnswerFailure> {
        let generation = review.decision.generation;
        let shown = Binding::of(&review.request, None, generation, None).action;
        let id = &review.approval.id;
        let answered = self.asking(|remote| remote.elicited(id, shown, approved));
        let answered = answered.map_err(|error| AnswerFailure::Refused {
            what: error.what,
            fix: Some(error.fix),
        })?;
        answered.map_err(|error| untaken(&error))
    }
}

/// Why an answer was not taken.
fn untaken(error: &ClientError) -> AnswerFailure {
    let fix = if let ClientError::Answer(told) = error {
        told.details.get("fix").and_then(Value::as_str)
    } else {
        None
    };
    AnswerFailure::Refused {
        fix: fix.map(str::to_owned),
        what: error.to_string(),
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
