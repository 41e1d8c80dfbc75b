//! `merge.apply` and `merge.undo`: the only ways into the real tree, each of them decided on every
//! path it touches.

use super::{Desk, arguments, spec};
use crate::beneath::Root;
use crate::clock::Clock;
use crate::policy_store::PolicyStore;
use crate::tools::{
    InvalidArguments, Prepared, RunContext, Tool, ToolFailure, ToolOutput, ToolSchema, ToolSpec,
};
use crate::workspace::Workspace;
use airlock_audit::{Durability, Entry, EventType, Log, Stage as AuditStage};
use airlock_core::{
    Caller, Digest, Effect, EffectSet, Request, RequestPath, SessionId, Timestamp, WorkspacePath,
};
use airlock_merge::{
    EntryResult, Journal, MergeError, MergeOutcome, Merges, Recovered, Selection, Since, Undoing,
    named_path,
};
use airlock_sandbox::stage::{ChangeKind, Diff, Stage, Stages, TreePath};
use airlock_state::Session;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// What is merged.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ApplyArguments {
    /// The stage.
    stage: String,
    /// The digest of the changes, as they were reviewed, with every hunk of a file of which some are
    /// chosen; anything else is refused.
    #[schemars(with = "String")]
    digest: Digest,
    /// Only these paths and what is beneath them. Absent: all.
    #[serde(default)]
    files: Option<Vec<String>>,
    /// Whether the paths are meant alone, without what is beneath them.
    #[serde(default)]
    exactly: bool,
    /// Only these hunks of these files, counted from 1.
    #[serde(default)]
    hunks: BTreeMap<String, Vec<usize>>,
    /// Whether to merge over what changed in the real tree after the stage began.
    #[serde(default)]
    overwrite: bool,
}

/// What is undone.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct UndoArguments {
    /// The merge. Absent: the last that is not undone.
    #[serde(default)]
    merge: Option<String>,
    /// The digest of what it would do and of what is in the tree, as they were looked at; anything else
    /// is refused. Absent: as they are found, and an approval is for that alone.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    digest: Option<Digest>,
    /// Whether to restore files that were changed after the merge as well.
    #[serde(default)]
    overwrite: bool,
}

static APPLY: ToolSpec = spec(
    "merge.apply",
    "merge a stage into the tree",
    ToolSchema::of::<ApplyArguments>(),
);
static UNDO: ToolSpec = spec(
    "merge.undo",
    "undo a merge",
    ToolSchema::of::<UndoArguments>(),
);

/// The merges of a workspace.
pub(crate) fn merges(workspace: &Workspace) -> Merges {
    let place = workspace.state().path().join("merges");
    Merges::new(&place, Path::new(workspace.root().path()))
}

/// The same, where a session hears that its task came to an end.
fn merges_of(desk: &Desk) -> Merges {
    let told = desk.clone();
    merges(desk.store.workspace()).telling(move |journal, outcome| {
        let ended = told.merge_ended(journal, outcome);
        ended.map_err(|failure| failure.to_string())
    })
}

/// The merge that was begun to end a task of `session` and is not complete, if there is one. While
/// somebody merges, that cannot be told.
pub(crate) fn unfinished_of(desk: &Desk, session: &Session) -> Result<Option<String>, MergeError> {
    merges(desk.store.workspace()).unfinished_of(|task| {
        task.session == session.id
            && task.tenant == session.owner.tenant
            && task.user == session.owner.user
    })
}

fn refused(error: &MergeError) -> InvalidArguments {
    InvalidArguments {
        at: String::new(),
        what: told(error),
        fix: error.hint(),
    }
}

pub(crate) fn failure(error: &MergeError) -> ToolFailure {
    ToolFailure::Merge {
        what: told(error),
        fix: error.hint(),
        busy: matches!(error, MergeError::Busy),
    }
}

fn told(error: &MergeError) -> String {
    match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

impl ApplyArguments {
    /// Files by name, or hunks by number: what is not asked for by hunks comes whole.
    fn selection(&self) -> Result<Selection, InvalidArguments> {
        let mut hunks: BTreeMap<TreePath, Vec<usize>> = BTreeMap::new();
        for (path, numbers) in &self.hunks {
            let numbers: Option<Vec<usize>> =
                numbers.iter().map(|number| number.checked_sub(1)).collect();
            let Some(numbers) = numbers.filter(|numbers| !numbers.is_empty()) else {
                return Err(InvalidArguments {
                    at: "hunks".to_owned(),
                    what: "hunks are counted from 1, and at least one is named".to_owned(),
                    fix: Some("`airlock diff` shows them".to_owned()),
                });
            };
            let path = tree_path("hunks", path)?;
            hunks.entry(path).or_default().extend(numbers);
        }
        let files = self.files.as_ref();
        let paths: Option<Result<Vec<TreePath>, InvalidArguments>> =
            files.map(|files| files.iter().map(|path| tree_path("files", path)).collect());
        Ok(Selection {
            paths: paths.transpose()?,
            exactly: self.exactly,
            hunks,
            overwrite: self.overwrite,
        })
    }
}

fn tree_path(at: &str, path: &str) -> Result<TreePath, InvalidArguments> {
    named_path(path).ok_or_else(|| InvalidArguments {
        at: at.to_owned(),
        what: format!("`{path}` names no file or directory"),
        fix: Some("write a path from the root of the workspace: src/main.rs".to_owned()),
    })
}

/// The paths as a decision sees them.
fn judged(paths: &[TreePath]) -> Result<Vec<RequestPath>, InvalidArguments> {
    let path = |path: &TreePath| {
        let text = path.as_path().to_str();
        let named = text.and_then(|text| WorkspacePath::new(text).ok());
        named
            .map(RequestPath::from)
            .ok_or_else(|| InvalidArguments {
                at: "files".to_owned(),
                what: format!(
                    "no rule can be about the name `{}`",
                    path.as_path().display()
                ),
                fix: Some("leave it out: name the others with `files`, or rename it".to_owned()),
            })
    };
    paths.iter().map(path).collect()
}

/// A merge or an undo that is well formed, and every path it touches.
struct Ready<F> {
    /// The stage it is about. An undo is about the real tree, on which every stage stands: it waits
    /// for the one that whoever names none works in.
    stage: String,
    paths: Vec<RequestPath>,
    deletes: bool,
    /// What was looked at to prepare it, where the call itself need not say so: an approval is for that.
    looked: Option<Digest>,
    caller: OnceLock<Caller>,
    run: F,
}

impl<F> Prepared for Ready<F>
where
    F: FnOnce(&Caller) -> Result<Value, ToolFailure> + Send,
{
    fn paths(&self) -> &[RequestPath] {
        &self.paths
    }

    fn describe(&self, request: &mut Request) {
        let _ = self.caller.set(request.caller.clone());
        if self.deletes {
            request.effects = request.effects.union(EffectSet::of(&[Effect::Delete]));
        }
        if let (Some(looked), Some(arguments)) = (self.looked, request.arguments.as_object_mut()) {
            arguments.insert("digest".to_owned(), json!(looked));
        }
    }

    fn has_to_itself(&self) -> Option<&str> {
        Some(&self.stage)
    }

    fn run(self: Box<Self>, _: &RunContext<'_>) -> Result<ToolOutput, ToolFailure> {
        let Some(caller) = self.caller.get() else {
            return Err(ToolFailure::Cancelled);
        };
        (self.run)(caller).map(|value| ToolOutput { value, hidden: 0 })
    }
}

fn stage_of(workspace: &Workspace, name: &str) -> Result<(Stages, Stage), MergeError> {
    let stages = Stages::open(&workspace.state().path().join("stages"))?;
    let stage = stages.find(name)?;
    let stage = stage.ok_or_else(|| MergeError::Missing(format!("stage {name}")))?;
    Ok((stages, stage))
}

fn deletes(diff: &Diff) -> bool {
    diff.changes.iter().any(|change| match change.kind {
        ChangeKind::Deleted | ChangeKind::Renamed { .. } | ChangeKind::TypeChanged => true,
        ChangeKind::Added | ChangeKind::Modified | ChangeKind::ModeChanged => false,
    })
}

/// What came of it, for the caller and for the log.
fn shown(outcome: &MergeOutcome) -> Value {
    let left: Vec<&EntryResult> = outcome.left().collect();
    json!({
        "before": outcome.before,
        "after": outcome.after,
        "merge": outcome.id,
        "undo_of": outcome.undo_of,
        "merged": outcome.merged(),
        "left": left,
    })
}

pub(super) struct Apply(Desk);

impl Apply {
    pub(super) fn new(desk: &Desk) -> Self {
        Self(desk.clone())
    }
}

impl Tool for Apply {
    fn spec(&self) -> &'static ToolSpec {
        &APPLY
    }

    fn prepare(&self, value: &Value, _: &Root) -> Result<Box<dyn Prepared>, InvalidArguments> {
        let asked: ApplyArguments = arguments(value)?;
        let selection = asked.selection()?;
        let desk = self.0.clone();
        let store = Arc::clone(&desk.store);
        let (_, stage) =
            stage_of(store.workspace(), &asked.stage).map_err(|error| refused(&error))?;
        let diff = merges(store.workspace())
            .diff(&stage)
            .map_err(|error| refused(&error))?;
        if selection.reviewed(&diff) != asked.digest {
            return Err(refused(&MergeError::ChangedSinceReview));
        }
        let paths = selection.paths(&diff).map_err(|error| refused(&error))?;
        let name = asked.stage.clone();
        let run = move |caller: &Caller| {
            let merge = || -> Result<MergeOutcome, MergeError> {
                let (stages, mut stage) = stage_of(store.workspace(), &asked.stage)?;
                let id = uuid::Uuid::now_v7().to_string();
                let merges = merges_of(&desk).ending(desk.task(caller));
                let outcome = merges.merge(&id, &mut stage, &selection, asked.digest, now())?;
                forget_old(&store);
                if outcome.is_complete() {
                    // The next command begins with the tree as it is now. If somebody took the
                    // stage meanwhile, it is theirs, and so is what they put into it.
                    let _ = stages.drop_unchanged(&asked.stage);
                }
                Ok(outcome)
            };
            merge()
                .map(|outcome| shown(&outcome))
                .map_err(|error| failure(&error))
        };
        Ok(Box::new(Ready {
            stage: name,
            paths: judged(&paths)?,
            deletes: deletes(&diff),
            looked: None,
            caller: OnceLock::new(),
            run,
        }))
    }
}

pub(super) struct Undo(Desk);

impl Undo {
    pub(super) fn new(desk: &Desk) -> Self {
        Self(desk.clone())
    }
}

impl Tool for Undo {
    fn spec(&self) -> &'static ToolSpec {
        &UNDO
    }

    fn prepare(&self, value: &Value, _: &Root) -> Result<Box<dyn Prepared>, InvalidArguments> {
        let UndoArguments {
            merge,
            digest,
            overwrite,
        } = arguments(value)?;
        let since = if overwrite { Since::Goes } else { Since::Stays };
        let desk = self.0.clone();
        let Undoing {
            merge: of,
            paths,
            digest: looked,
        } = merges(desk.store.workspace())
            .undoing(merge.as_deref(), since)
            .map_err(|error| refused(&error))?;
        if digest.is_some_and(|reviewed| reviewed != looked) {
            return Err(refused(&MergeError::ChangedSinceLook));
        }
        let paths: Vec<TreePath> = paths.into_iter().map(|(path, _)| path).collect();
        let run = move |_: &Caller| {
            let id = uuid::Uuid::now_v7().to_string();
            let undone = merges_of(&desk).undo(&id, Some(&of), since, looked, now());
            undone
                .map(|outcome| shown(&outcome))
                .map_err(|error| failure(&error))
        };
        Ok(Box::new(Ready {
            stage: "default".to_owned(),
            paths: judged(&paths)?,
            deletes: true,
            looked: Some(looked),
            caller: OnceLock::new(),
            run,
        }))
    }
}

/// Forgets merges that policy no longer keeps for an undo.
fn forget_old(store: &PolicyStore) {
    let kept = store.current().policy().document().merge.keep_undo;
    let micros = i64::try_from(kept.as_millis())
        .unwrap_or(i64::MAX)
        .saturating_mul(1_000);
    let before = Timestamp::from_micros(now().as_micros().saturating_sub(micros));
    // What cannot be removed now is tried again with the next merge.
    let _forgotten = merges(store.workspace()).forget(before);
}

/// When a merge was begun is for listing merges in order and forgetting old ones, and by the
/// system's clock.
fn now() -> Timestamp {
    Clock::system().now()
}

/// Carries on what an earlier process could not finish, ends the tasks that it was to end, and
/// records that. What there is to say.
pub(crate) fn recover(desk: &Desk, log: &Log) -> Option<String> {
    let cannot = |error: &MergeError| {
        let why = told(error);
        format!("an interrupted merge cannot be completed: {why}")
    };
    let Recovered { ended, untold } = match merges_of(desk).recover() {
        Ok(recovered) => recovered,
        Err(error) => return Some(cannot(&error)),
    };
    // Told below, with the merge that moved them.
    let moves = desk.hold.take_moves();
    let mut said = Vec::new();
    for (journal, outcome) in &ended {
        drop_empty(desk, journal);
        let session = journal.task.as_ref().map(|task| &task.session);
        let ended = moves.iter().any(|moved| Some(&moved.session) == session);
        let entry = completed(desk, outcome, session.filter(|_| ended));
        // The merge was recorded before it began; what cannot be added here is told all the same.
        let _ = log.append(&entry, Durability::Durable);
        said.push(match outcome.left().count() {
            0 => outcome.id.clone(),
            left => format!(
                "{} ({left} paths were changed meanwhile and left)",
                outcome.id
            ),
        });
    }
    let said = match said.join(", ") {
        said if said.is_empty() => None,
        said => Some(format!("an interrupted merge was completed: {said}")),
    };
    untold.as_ref().map(cannot).or(said)
}

/// What the log says of a merge that was completed out of turn, and of the session whose task that
/// ended.
fn completed(desk: &Desk, outcome: &MergeOutcome, session: Option<&SessionId>) -> Entry {
    let mut entry = Entry::new(desk.clock.now(), EventType::MergeApproved, AuditStage::Note);
    let notes = [
        ("merge", outcome.id.clone()),
        ("completed", "after an interruption".to_owned()),
        ("merged", outcome.merged().to_string()),
        ("left", outcome.left().count().to_string()),
    ];
    let digests = [("before", outcome.before), ("after", outcome.after)];
    let digests = digests.into_iter();
    let digests = digests.filter_map(|(name, digest)| Some((name, digest?.to_string())));
    let ended = session.map(|session| ("ended_task_of", session.to_string()));
    let notes = notes.into_iter().chain(digests).chain(ended);
    let notes = notes.map(|(name, value)| (name.to_owned(), value));
    entry.metadata.extend(notes);
    entry
}

/// A stage that was merged to the end goes, as it does in turn.
fn drop_empty(desk: &Desk, journal: &Journal) {
    let stages = Stages::open(&desk.store.workspace().state().path().join("stages"));
    if let (Ok(stages), Some(stage)) = (stages, &journal.stage) {
        // If somebody took it meanwhile, it is theirs.
        let _ = stages.drop_unchanged(stage);
    }
}
