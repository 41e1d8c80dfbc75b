//! The run of the tests that a step rests on: one of what would be merged.
//!
//! A stage holds more than that. What git ignores is free to be written in every state and never
//! leaves the stage, and a build goes by dates that anybody can set. So a run in the stage that would
//! move a session on is made again in a stage of its own: the real tree, and over it the changes that
//! count, written anew. What git ignores is the real tree's there. The runs that follow from it lie
//! over that stage, too, and find what this one built.
//!
//! Guarantee: where it was made, nothing that the task's stage holds besides what would be merged has
//! a part in what is proven.
//!
//! Non-guarantee: where stages are copies it cannot be made. The run in the stage is all there is
//! then, and whoever is asked about the change is told.

use super::facts::{Staged, counted};
use super::tested::Again;
use crate::kernel::Kernel;
use crate::process::{Finished, Job, StageHold};
use crate::sanitise::{sanitise_line, sanitise_path};
use crate::tools::{GitIgnored, ToolFailure};
use airlock_core::{Phase, WorkspacePath};
use airlock_phases::{Proof, TestRun};
use airlock_sandbox::stage::{Change, ChangeKind, Laid, NodeKind};
use airlock_state::Session;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::path::Path;

/// Most paths that git ignores which are named.
const FEW: usize = 5;
/// The end of what such a run printed that is told, in characters.
const TAIL: usize = 2_000;

/// What a run is judged by.
pub(super) enum Ground<'k> {
    /// Itself: nothing rests on it.
    Stage,
    /// Itself, though something rests on it; with why it could not be made again.
    Unmade(String),
    /// The same tests of what would be merged.
    Anew(Box<Anew<'k>>),
}

/// A run of what would be merged.
pub(super) struct Anew<'k> {
    /// The job of the runs that lie over it.
    pub(super) job: Job,
    pub(super) finished: Finished,
    /// What the run in the task's stage proves.
    plain: Proof,
    /// Paths that git ignores, and which the task's stage changes.
    ignored: Vec<String>,
    /// Whether the stage of its own held all that counts, and nothing else.
    exact: bool,
    _stage: Own<'k>,
}

/// A stage that goes with its runs.
struct Own<'k> {
    kernel: &'k Kernel,
    name: String,
}

impl Drop for Own<'_> {
    fn drop(&mut self) {
        // A sandbox that is on its way out has it until it is gone.
        self.kernel.sandboxes().settle();
        StageHold(self.kernel.workspace()).forget(&self.name);
    }
}

impl Kernel {
    /// What a run of `job` in the stage of `session` is judged by, which proves `plain`.
    pub(super) fn ground<'k>(
        &'k self,
        session: &Session,
        job: &Job,
        staged: &Staged,
        plain: Proof,
        again: Again<'_>,
    ) -> Result<Ground<'k>, ToolFailure> {
        if !decides(session.phase, plain) {
            return Ok(Ground::Stage);
        }
        let own = Own {
            kernel: self,
            name: format!("merged-{:016x}", rand::random::<u64>()),
        };
        let changes = Merged::of(staged);
        let hold = StageHold(self.workspace());
        match hold.lay(&own.name, &session.stage, &changes.laid) {
            Ok(true) => {}
            Ok(false) => {
                let why = "stages are copies here, over which nothing can be laid";
                return Ok(Ground::Unmade(why.to_owned()));
            }
            Err(error) => return Ok(Ground::Unmade(sanitise_line(&error.to_string(), 200))),
        }
        let policy = self.desk().store.current();
        let seen = Staged::look(self.workspace(), &policy, &own.name)?;
        let exact = changes.is_held_by(&Merged::of(&seen));
        let finished = again(&job.of_the_merge(&own.name))?;
        Ok(Ground::Anew(Box::new(Anew {
            job: job.on_stage(&own.name),
            finished,
            plain,
            ignored: changes.ignored,
            exact,
            _stage: own,
        })))
    }
}

/// Whether a run that proves this lets a session in this state go on.
const fn decides(state: Phase, proof: Proof) -> bool {
    match (state, proof) {
        (Phase::Validating | Phase::Reviewing, Proof::Green | Proof::NoTests) => true,
        (Phase::Validating | Phase::Reviewing, Proof::Red | Proof::Nothing)
        | (
            Phase::Idle
            | Phase::Planning
            | Phase::TestWriting
            | Phase::CodeWriting
            | Phase::Refactoring
            | Phase::Committing
            | Phase::Exploring
            | Phase::RetroactiveTesting,
            _,
        ) => false,
    }
}

/// What of the changes of a stage would be merged.
struct Merged<'s> {
    laid: Laid<'s>,
    /// Directories of it that go. One in which git ignores something stays with that.
    places: BTreeSet<&'s Path>,
    /// Paths of the others, which git ignores.
    ignored: Vec<String>,
}

impl<'s> Merged<'s> {
    fn of(staged: &'s Staged) -> Self {
        let mut known = GitIgnored::new(staged.real());
        let mut found = Self {
            laid: Laid::new(),
            places: BTreeSet::new(),
            ignored: Vec::new(),
        };
        let changes = staged.diff.iter().flat_map(|diff| &diff.changes);
        for change in changes.filter(|change| !change.path.as_path().starts_with(".git")) {
            if counted(change, &mut known).is_some() {
                found.add(change, &mut known);
            } else {
                found.ignored.push(ignored_by(change, &mut known));
            }
        }
        found.ignored.dedup();
        found
    }

    fn add(&mut self, change: &'s Change, known: &mut GitIgnored<'_>) {
        if let ChangeKind::Renamed { from } = &change.kind {
            let path = from.as_path().to_str();
            let path = path.and_then(|path| WorkspacePath::new(path).ok());
            // What git ignores stays where it is in the real tree.
            if path.is_none_or(|path| !known.holds(&path, is_directory(change))) {
                self.laid.entry(from.as_path()).or_default();
            }
        }
        if change.kind == ChangeKind::Deleted && is_directory(change) {
            self.places.insert(change.path.as_path());
        }
        self.laid.insert(change.path.as_path(), change.new.as_ref());
    }

    /// Whether `laid`, which was made of it, holds that and nothing else.
    fn is_held_by(&self, laid: &Merged<'_>) -> bool {
        let mut wanted = self.laid.iter();
        let held = wanted
            .all(|(path, facts)| laid.laid.get(path) == Some(facts) || self.places.contains(path));
        held && laid.laid.keys().all(|path| self.laid.contains_key(path))
    }
}

/// What of a path that git ignores it ignores as a whole.
fn ignored_by(change: &Change, known: &mut GitIgnored<'_>) -> String {
    let path = change.path.as_path();
    let mut above: Vec<&Path> = path.ancestors().skip(1).collect();
    above.pop();
    let whole = above.into_iter().rev().find(|above| {
        let above = above
            .to_str()
            .and_then(|above| WorkspacePath::new(above).ok());
        above.is_some_and(|above| known.holds(&above, true))
    });
    let shown = sanitise_path(&whole.unwrap_or(path).to_string_lossy());
    if whole.is_some() || is_directory(change) {
        return format!("{shown}/");
    }
    shown
}

fn is_directory(change: &Change) -> bool {
    let facts = change.new.as_ref().or(change.old.as_ref());
    facts.is_some_and(|facts| facts.kind == NodeKind::Directory)
}

impl Ground<'_> {
    /// The job of further runs, and the run that counts, where `job` and `finished` are those of the
    /// stage.
    pub(super) fn run<'r>(
        &'r self,
        job: &'r Job,
        finished: &'r Finished,
    ) -> (&'r Job, &'r Finished) {
        match self {
            Self::Stage | Self::Unmade(_) => (job, finished),
            Self::Anew(anew) => (&anew.job, &anew.finished),
        }
    }

    /// What is to be known of a run that is judged by it.
    pub(super) fn partial(&self) -> Option<String> {
        match self {
            Self::Stage => None,
            Self::Unmade(why) => Some(format!(
                "the tests ran with all that the stage holds, what git ignores among it, and not \
                 by themselves with what would be merged: {why}"
            )),
            Self::Anew(anew) => (!anew.exact).then(|| {
                "what the tests ran with is not in everything what would be merged".to_owned()
            }),
        }
    }

    /// Says in `run`, which is of it, why less is proven than by the run in the stage; and what the
    /// answer tells of it.
    pub(super) fn told(&self, run: &mut TestRun) -> Map<String, Value> {
        match self {
            Self::Stage | Self::Unmade(_) => Map::new(),
            Self::Anew(anew) => Map::from_iter([("anew".to_owned(), anew.told(run))]),
        }
    }
}

impl Anew<'_> {
    fn told(&self, run: &mut TestRun) -> Value {
        let ran = &self.finished.ran;
        let mut told = json!({
            "proof": run.proof.as_str(),
            "why": run.why,
            "outcome": ran.word(),
            "wall_ms": ran.wall_ms,
        });
        match run.proof {
            Proof::Green | Proof::NoTests => return told,
            Proof::Red | Proof::Nothing => {}
        }
        let (why, fix) = self.failed(&run.why);
        run.why = sanitise_line(&why, 500);
        let stream = |name: &str| {
            let text = self.finished.value.get(name).and_then(Value::as_str);
            end_of(text.unwrap_or_default())
        };
        if let Some(object) = told.as_object_mut() {
            object.insert("ignored".to_owned(), json!(self.shown()));
            object.insert("fix".to_owned(), json!(fix));
            object.insert("stdout".to_owned(), json!(stream("stdout")));
            object.insert("stderr".to_owned(), json!(stream("stderr")));
        }
        told
    }

    fn shown(&self) -> Vec<&str> {
        self.ignored.iter().take(FEW).map(String::as_str).collect()
    }

    /// Why it failed though the run in the stage did not, and how to mend it.
    fn failed(&self, why: &str) -> (String, &'static str) {
        let ran = &self.finished.ran;
        if ran.exited().is_none() {
            let how = ran.word();
            return (
                format!(
                    "the tests pass in the stage, but with what would be merged, where all is built \
                     that the real tree has not built yet, they did not come to their end ({how})"
                ),
                "run `test.run` again; if it takes too long, build the real tree and its tests first \
                 (such as `cargo test --no-run` there), so that there is less to build",
            );
        }
        let shown = self.shown();
        let ignored = if shown.is_empty() {
            String::new()
        } else {
            let more = match self.ignored.len().saturating_sub(FEW) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            format!(" (`{}`{more})", shown.join("`, `"))
        };
        let plain = match self.plain {
            Proof::Green => "the tests pass",
            Proof::NoTests | Proof::Red | Proof::Nothing => "nothing fails",
        };
        (
            format!(
                "{plain} only in the stage, with what git ignores there{ignored} or with what was \
                 built before, and not with what would be merged: {why}"
            ),
            "put what the code needs where git does not ignore it, or have the tests make it; what \
             is ignored and built or installed by a person has to be in the real tree",
        )
    }
}

/// The end of a text.
fn end_of(text: &str) -> &str {
    let mut indices = text.char_indices().rev();
    let from = indices.nth(TAIL - 1).map_or(0, |(at, _)| at);
    text.get(from..).unwrap_or_default()
}
