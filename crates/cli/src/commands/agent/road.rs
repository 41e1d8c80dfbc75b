//! The way to the workspace's kernel: the one that runs, or one of this process.

use super::super::{open, outcome};
use super::interrupt::Covered;
use crate::config::Config;
use crate::failure::{Failure, Kind};
use crate::output::Output;
use crate::place::Place;
use crate::review;
use airlock_agent::Spent;
use airlock_core::{Mode, SessionId};
use airlock_kernel::tools::ToolSpec;
use airlock_kernel::{Call, Front, Kernel, Lifetime, Outcome, Review, sanitise_line};
use airlock_policy::approval::BudgetLeft;
use serde_json::{Value, json};
use std::sync::{Mutex, OnceLock, PoisonError};

/// A session that is to begin.
pub(super) struct Begin {
    pub(super) title: String,
    pub(super) mode: Option<Mode>,
    pub(super) stage: Option<String>,
    pub(super) turns: u64,
    pub(super) tokens: Option<u64>,
    pub(super) cost_micros: Option<u64>,
}

/// A session's way to its kernel.
pub(super) struct Road {
    place: Place,
    config: Config,
    /// The kernel of this process; without it, the one that runs takes the calls, and this is
    /// opened for what only a process with a terminal may do.
    own: OnceLock<Kernel>,
    runs_elsewhere: bool,
    session: SessionId,
    stage: String,
    /// One question at a time: there is one person.
    asking: Mutex<()>,
}

/// Why there is no outcome.
pub(super) struct Unanswered(pub(super) String);

impl Road {
    /// Opens the way and begins a session.
    pub(super) fn open(
        place: Place,
        config: Config,
        begin: &Begin,
        output: &mut Output,
    ) -> Result<Self, Failure> {
        let runs_elsewhere = open::running(&place, &config, Front::Agent).is_some();
        let own = OnceLock::new();
        if !runs_elsewhere {
            let kernel = open::embedded(&place, &config, Lifetime::Long)?;
            open::introduce(&kernel, output);
            let _first = own.set(kernel);
        }
        let mut road = Self {
            place,
            config,
            own,
            runs_elsewhere,
            session: SessionId::new("none").map_err(|error| Failure::of(Kind::Failed, &error))?,
            stage: "default".to_owned(),
            asking: Mutex::new(()),
        };
        let budget = json!({
            "turns": begin.turns,
            "tokens": begin.tokens,
            "cost_micros": begin.cost_micros,
        });
        let mut asked = json!({ "title": begin.title, "budget": budget });
        if let Some(fields) = asked.as_object_mut() {
            // What is not said is for the policy to say, and is left out rather than null.
            fields.extend(begin.mode.map(|mode| ("mode".to_owned(), json!(mode))));
            let stage = begin.stage.as_ref();
            fields.extend(stage.map(|stage| ("stage".to_owned(), json!(stage))));
        }
        let call = Call::new("session.create", asked);
        let made = road.persons(&call, "beginning a session", output)?;
        let text = |name: &str| made.get(name).and_then(Value::as_str).unwrap_or_default();
        road.session =
            SessionId::new(text("id")).map_err(|error| Failure::of(Kind::Failed, &error))?;
        text("stage").clone_into(&mut road.stage);
        Ok(road)
    }

    /// The workspace's name.
    pub(super) fn name(&self) -> String {
        let root = self.place.workspace.file_name();
        root.map_or_else(
            || "workspace".to_owned(),
            |name| name.to_string_lossy().into_owned(),
        )
    }

    pub(super) const fn session(&self) -> &SessionId {
        &self.session
    }

    pub(super) fn stage(&self) -> &str {
        &self.stage
    }

    /// The kernel of this process.
    pub(super) fn desk(&self) -> Result<&Kernel, Failure> {
        if self.own.get().is_none() {
            let kernel = open::embedded(&self.place, &self.config, Lifetime::Command)?;
            let _first = self.own.set(kernel);
        }
        let own = self.own.get();
        own.ok_or_else(|| Failure::new(Kind::Failed, "cannot open a kernel"))
    }

    /// Takes `call` down the road as `front`, in this session, until `covered` takes it back.
    pub(super) fn submit(
        &self,
        front: Front,
        mut call: Call,
        covered: &Covered,
    ) -> Result<Outcome, Unanswered> {
        call.session = Some(self.session.clone());
        if self.runs_elsewhere {
            let remote = open::running(&self.place, &self.config, front);
            let mut remote =
                remote.ok_or_else(|| Unanswered("the kernel that ran is gone".to_owned()))?;
            let result = remote.covered(&call, &covered.0);
            return result
                .map(|result| result.outcome)
                .map_err(|error| Unanswered(error.to_string()));
        }
        let kernel = self
            .desk()
            .map_err(|failure| Unanswered(failure.what().to_owned()))?;
        Ok(covered.0.cover(|| kernel.submit(front, &call)))
    }

    /// A call the person makes themselves; what needs their yes is asked here and now.
    pub(super) fn persons(
        &self,
        call: &Call,
        what: &str,
        output: &mut Output,
    ) -> Result<Value, Failure> {
        let kernel = self.desk()?;
        let mut outcome = kernel.submit(Front::Cli, call);
        if let Outcome::NeedsReview(mut asked) = outcome {
            self.ask(&mut asked, what, output)?;
            outcome = kernel.submit(Front::Cli, call);
            review::withdraw_unused(kernel, &asked, output);
        }
        outcome::done(outcome).map(|done| done.value)
    }

    /// The same in this session.
    pub(super) fn in_session(
        &self,
        name: &str,
        arguments: Value,
        what: &str,
        output: &mut Output,
    ) -> Result<Value, Failure> {
        let mut call = Call::new(name, arguments);
        call.session = Some(self.session.clone());
        self.persons(&call, what, output)
    }

    /// Puts a question to the person at the terminal, if there is one.
    pub(super) fn ask(
        &self,
        review: &mut Review,
        what: &str,
        output: &mut Output,
    ) -> Result<(), Failure> {
        let _alone = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        review::answer(self.desk()?, review, what, None, output)
    }

    /// The content of a file as the session sees it, if the person may read it as text.
    pub(super) fn seen(&self, path: &str) -> Option<String> {
        let mut call = Call::new("fs.read", json!({ "path": path }));
        call.session = Some(self.session.clone());
        let Outcome::Done(done) = self.desk().ok()?.submit(Front::Cli, &call) else {
            return None;
        };
        done.value.get("text")?.as_str().map(str::to_owned)
    }

    /// The tools the agent may know of: name, summary, schema, whether it changes nothing.
    pub(super) fn tools(&self) -> Vec<(String, String, Value, bool)> {
        if self.runs_elsewhere {
            let remote = open::running(&self.place, &self.config, Front::Agent);
            let listed = remote.and_then(|mut remote| remote.tools().ok());
            return listed
                .into_iter()
                .flatten()
                .filter_map(|one| described(&one))
                .collect();
        }
        let Ok(kernel) = self.desk() else {
            return Vec::new();
        };
        let open = kernel
            .registry()
            .list()
            .filter(|tool| tool.open_to(Front::Agent));
        open.map(|tool| {
            let spec: &ToolSpec = tool.spec();
            let schema = tool.schema().into_owned();
            (
                spec.name.to_owned(),
                spec.summary.to_owned(),
                schema,
                spec.read_only,
            )
        })
        .collect()
    }

    /// Counts what the loop spent. Whether the session may go on is decided with its next call.
    pub(super) fn spend(&self, spent: Spent) -> Result<(), String> {
        if spent == Spent::default() {
            return Ok(());
        }
        let spent = airlock_state::Spent {
            turns: spent.turns,
            tokens: spent.tokens,
            cost_micros: spent.cost_micros,
            ..airlock_state::Spent::default()
        };
        let kernel = self.desk().map_err(|failure| failure.what().to_owned())?;
        let counted = kernel.spend(&self.session, spent);
        counted.map(drop).map_err(|error| error.to_string())
    }

    /// What is left to the session.
    pub(super) fn left(&self) -> Option<BudgetLeft> {
        self.desk().ok()?.left(&self.session).ok()?
    }

    /// Where the session stands, if it is held to phases.
    pub(super) fn standing(&self) -> Option<Value> {
        let kernel = self.desk().ok()?;
        // A build without phases knows the mode and the phase of a session all the same.
        ["phase.status", "session.show"].iter().find_map(|name| {
            let mut call = Call::new(*name, json!({}));
            call.session = Some(self.session.clone());
            if let Outcome::Done(done) = kernel.submit(Front::Cli, &call) {
                Some(done.value)
            } else {
                None
            }
        })
    }

    /// The state of a session that is held to phases and has not validated what it made.
    pub(super) fn unvalidated(&self) -> Option<String> {
        let mut call = Call::new("phase.status", json!({}));
        call.session = Some(self.session.clone());
        let Outcome::Done(done) = self.desk().ok()?.submit(Front::Cli, &call) else {
            return None;
        };
        let state = done.value.get("state")?.as_str()?;
        let validated = ["idle", "reviewing", "committing"].contains(&state);
        (!validated).then(|| sanitise_line(state, 40))
    }

    /// A task begins: a session that idles goes on to planning, where it is held to phases.
    pub(super) fn task_arrives(&self) {
        let state = self.standing();
        let state = state.as_ref().and_then(|state| state.get("state"));
        if state.and_then(Value::as_str) == Some("idle")
            && let Ok(kernel) = self.desk()
        {
            let mut call = Call::new("phase.advance", json!({}));
            call.session = Some(self.session.clone());
            // Where it does not advance, the phase line tells the model where it stands.
            let _advanced = kernel.submit(Front::Cli, &call);
        }
    }

    /// How many files the stage changes.
    pub(super) fn changed(&self) -> Option<u64> {
        let kernel = self.desk().ok()?;
        self.settle();
        let arguments = json!({ "purpose": "diff", "stage": self.stage });
        let asked = kernel.submit(Front::Cli, &Call::new("stage.read", arguments));
        if !matches!(asked, Outcome::Done(_)) {
            return None;
        }
        let diff = kernel.stages().diff(&self.stage).ok()?;
        Some(diff.map_or(0, |diff| diff.changes.len() as u64))
    }

    /// Lets go of the stage, and writes what was kept back of the log: others may look now.
    pub(super) fn settle(&self) {
        if let Some(kernel) = self.own.get() {
            kernel.release_idle();
            // What cannot be written is told when the kernel is closed.
            let _flushed = kernel.log().flush();
        }
        if self.runs_elsewhere
            && let Some(mut remote) = open::running(&self.place, &self.config, Front::Cli)
        {
            let _flushed = remote.flush();
        }
    }

    pub(super) fn close(self, output: &mut Output) -> Result<(), Failure> {
        let Some(kernel) = self.own.into_inner() else {
            return Ok(());
        };
        open::tell_late(&kernel, output);
        kernel.close().map_err(|error| {
            Failure::of(Kind::Failed, &error)
                .headed("the end could not be recorded")
                .maybe_fix(error.hint())
        })
    }
}

/// A tool, as the wire describes it.
fn described(one: &Value) -> Option<(String, String, Value, bool)> {
    let text = |name: &str| one.get(name)?.as_str().map(str::to_owned);
    let read_only = one.get("read_only")?.as_bool()?;
    Some((
        text("name")?,
        text("summary")?,
        one.get("arguments")?.clone(),
        read_only,
    ))
}
