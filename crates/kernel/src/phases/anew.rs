//! The run of the tests that a step rests on: one of what would be merged.
//!
//! A stage holds more than that. What git ignores is free to be written in every state and never
//! leaves the stage, and a build goes by dates that anybody can set. So a run in the stage that would
//! move a session on is made again over a stage of its own: the real tree, and over it the changes that
//! count, written anew ([`Clean`]). What git ignores is the real tree's there. The runs that follow from
//! it lie over the same stage, and so do those that new tests are tried by before there is code.
//!
//! Guarantee: where it was made, nothing that the task's stage holds besides what would be merged has
//! a part in what is proven, nor has anything that another run of the tests wrote.
//!
//! Non-guarantee: where stages are copies it cannot be made. The run in the stage is all there is
//! then, and whoever is asked about the change is told.

use super::clean::{Clean, Task, Unclean};
use super::facts::{Staged, counted, is_directory};
use super::tested::Again;
use crate::kernel::Kernel;
use crate::process::{Finished, Job, ProcessFailure};
use crate::sanitise::{sanitise_line, sanitise_path};
use crate::tools::{GitIgnored, ToolFailure};
use airlock_core::{Phase, WorkspacePath};
use airlock_phases::{Proof, TestRun};
use airlock_sandbox::stage::{Change, ChangeKind, Laid};
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
    /// Itself; the runs that its tests are tried by are of what would be merged.
    Tried(Box<Clean<'k>>),
    /// The same tests of what would be merged.
    Anew(Box<Anew<'k>>),
}

/// A run of what would be merged.
pub(super) struct Anew<'k> {
    clean: Clean<'k>,
    finished: Finished,
    /// What the run in the task's stage proves.
    plain: Proof,
}

/// What the run in the task's stage came to.
pub(super) struct Plain {
    pub(super) proof: Proof,
    /// Whether new tests of it have not shown that they can fail.
    pub(super) suspected: bool,
}

impl Kernel {
    /// What a run of `job` in the stage of `session` is judged by, which came to `plain`.
    pub(super) fn ground<'k>(
        &'k self,
        session: &'k Session,
        job: &Job,
        staged: &'k Staged,
        plain: &Plain,
        again: Again<'_>,
    ) -> Result<Ground<'k>, ToolFailure> {
        let tries = session.phase == Phase::TestWriting && plain.suspected;
        if !tries && !decides(session.phase, plain.proof, job) {
            return Ok(Ground::Stage);
        }
        let task = Task {
            kernel: self,
            session,
            staged,
        };
        let mut clean = match task.clean(job, again) {
            Ok(clean) => clean,
            Err(Unclean::Run(failure)) => return Err(failure),
            // What becomes of the change is decided later, and told then.
            Err(Unclean::Copies) if tries => return Ok(Ground::Stage),
            Err(Unclean::Stage(error)) if tries => return Err(ProcessFailure::from(error).into()),
            Err(Unclean::Copies) => {
                let why = "stages are copies here, over which nothing can be laid";
                return Ok(Ground::Unmade(why.to_owned()));
            }
            Err(Unclean::Stage(error)) => {
                return Ok(Ground::Unmade(sanitise_line(&error.to_string(), 200)));
            }
        };
        if tries {
            return Ok(Ground::Tried(Box::new(clean)));
        }
        let finished = clean.decisive(again)?;
        Ok(Ground::Anew(Box::new(Anew {
            clean,
            finished,
            plain: plain.proof,
        })))
    }
}

/// Whether a run of `job` that proves this lets a session in this state go on.
fn decides(state: Phase, proof: Proof, job: &Job) -> bool {
    match (state, proof) {
        (Phase::Validating | Phase::Reviewing, Proof::Green | Proof::NoTests) => true,
        // What is refactored has to be covered, and only a run that is measured says so.
        (Phase::Planning, Proof::Green) => job.is_measured(),
        (Phase::Planning, Proof::NoTests | Proof::Red | Proof::Nothing)
        | (Phase::Validating | Phase::Reviewing, Proof::Red | Proof::Nothing)
        | (
            Phase::Idle
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
pub(super) struct Merged<'s> {
    pub(super) laid: Laid<'s>,
    /// Directories of it that go. One in which git ignores something stays with that.
    places: BTreeSet<&'s Path>,
    /// Paths of the others, which git ignores.
    pub(super) ignored: Vec<String>,
}

impl<'s> Merged<'s> {
    pub(super) fn of(staged: &'s Staged) -> Self {
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
            if is_directory(change) {
                self.places.insert(from.as_path());
            }
        }
        if change.kind == ChangeKind::Deleted && is_directory(change) {
            self.places.insert(change.path.as_path());
        }
        self.laid.insert(change.path.as_path(), change.new.as_ref());
    }

    /// Whether `laid`, which was made of it, holds that and nothing else.
    pub(super) fn is_held_by(&self, laid: &Merged<'_>) -> bool {
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
            Self::Tried(clean) => (&clean.job, finished),
            Self::Anew(anew) => (&anew.clean.job, &anew.finished),
        }
    }

    /// The run that counts, which `finished`, if the further ones are made where it was.
    pub(super) const fn known<'r>(&self, finished: &'r Finished) -> Option<&'r Finished> {
        match self {
            Self::Stage | Self::Unmade(_) | Self::Anew(_) => Some(finished),
            Self::Tried(_) => None,
        }
    }

    /// Makes a further run, of `job`.
    pub(super) fn again(&self, job: &Job, again: Again<'_>) -> Result<Finished, ToolFailure> {
        match self {
            Self::Stage | Self::Unmade(_) => again(job),
            Self::Tried(clean) => clean.run(job, again),
            Self::Anew(anew) => anew.clean.run(job, again),
        }
    }

    /// What is to be known of a run that is judged by it.
    pub(super) fn partial(&self) -> Option<String> {
        match self {
            Self::Stage | Self::Tried(_) => None,
            Self::Unmade(why) => Some(format!(
                "the tests ran with all that the stage holds, what git ignores among it, and not \
                 by themselves with what would be merged: {why}"
            )),
            Self::Anew(anew) => (!anew.clean.exact).then(|| {
                "what the tests ran with is not in everything what would be merged".to_owned()
            }),
        }
    }

    /// Says in `run`, which is of it, why less is proven than by the run in the stage; and what the
    /// answer tells of it.
    pub(super) fn told(&self, run: &mut TestRun) -> Map<String, Value> {
        match self {
            Self::Stage | Self::Unmade(_) | Self::Tried(_) => Map::new(),
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
        // What the run in the stage covered is not what counts.
        let coverage = self.finished.value.get("coverage");
        if let (Some(coverage), Some(object)) = (coverage, told.as_object_mut()) {
            object.insert("coverage".to_owned(), coverage.clone());
        }
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
        self.clean
            .ignored
            .iter()
            .take(FEW)
            .map(String::as_str)
            .collect()
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
            let more = match self.clean.ignored.len().saturating_sub(FEW) {
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
