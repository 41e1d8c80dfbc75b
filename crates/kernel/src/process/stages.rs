//! The stages of a workspace: where programs write, and the syscalls to look at and drop them.

use super::failure::ProcessFailure;
use super::warm::Warm;
use crate::beneath::{Root, Staged};
use crate::policy_store::PolicyStore;
use crate::tools::{
    InvalidArguments, Keep, Prepared, RunContext, Tool, ToolFailure, ToolOutput, ToolSchema,
    ToolSpec,
};
use crate::workspace::Workspace;
use airlock_core::{RequestPath, Tier};
use airlock_sandbox::launch::LayersKind;
use airlock_sandbox::plan::Denial;
use airlock_sandbox::stage::{
    Claim, Diff, DiffOptions, Laid, Passing, Stage, StageError, StageKind, StageSummary, Stages,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

impl From<StageError> for ProcessFailure {
    fn from(error: StageError) -> Self {
        let busy = matches!(error, StageError::InUse { .. });
        Self::Stage {
            what: error.to_string(),
            busy,
        }
    }
}

/// All stages of `workspace`.
fn all(workspace: &Workspace) -> Result<Stages, StageError> {
    Stages::open(&workspace.state().path().join("stages"))
}

/// The stage `name` of the workspace at `root`, made if it is not there.
pub(super) fn open(state: &Path, root: &Path, name: &str) -> Result<Stage, ProcessFailure> {
    let stages = Stages::open(&state.join("stages"))?;
    let owner = airlock_sandbox::stage_owner();
    let found = stages.open_or_create(name, root, owner)?;
    // A copy without changes is of the tree as it was; what is over the tree is of it as it is.
    if found.kind() == StageKind::Copy && stages.drop_unchanged(name)? {
        return Ok(stages.open_or_create(name, root, owner)?);
    }
    Ok(found)
}

/// The same as a copy without what `denials` let nobody read, for a launcher that mounts no overlay.
pub(super) fn open_copy(
    state: &Path,
    root: &Path,
    name: &str,
    denials: &[Denial],
) -> Result<Stage, ProcessFailure> {
    let stages = Stages::open(&state.join("stages"))?;
    if let Some(stage) = stages.find(name)? {
        // What holds no change is made anew, of the tree as it is now.
        if !stages.drop_unchanged(name)? && stage.kind() == StageKind::Overlay {
            let what = format!(
                "stage `{name}` has changes over the real tree, which bubblewrap cannot show"
            );
            return Err(ProcessFailure::Stage { what, busy: false });
        }
    }
    Ok(stages.open_or_copy_without(name, root, airlock_sandbox::stage_owner(), denials)?)
}

pub(super) fn claim(stage: &mut Stage) -> Result<Claim, ProcessFailure> {
    Ok(stage.claim()?)
}

/// The workspace as the stage `name` shows it; the real tree if there is no such stage.
pub(crate) fn view(workspace: &Workspace, name: &str) -> Result<Root, ProcessFailure> {
    let root = workspace.root();
    // Most reads are made where nothing was staged, and this is all they pay for it.
    let Some(stage) = Stages::peek(&workspace.state().path().join("stages"), name)? else {
        return Ok(root.clone());
    };
    through(root, &stage)
}

/// How often, and how far apart, it is looked whether somebody else has judged a stage. To take it is
/// tried for half a second each time.
const LOOKS: usize = 5;
const APART: Duration = Duration::from_millis(20);

/// The same for whoever is shown what is in it: what a supervisor that was killed left there goes to
/// `judge` first, with the stage claimed.
pub(crate) fn judged_view(
    workspace: &Workspace,
    name: &str,
    judge: &mut dyn FnMut(&Stage) -> Result<(), ProcessFailure>,
) -> Result<Root, ProcessFailure> {
    let root = workspace.root();
    let Some(mut stage) = Stages::peek(&workspace.state().path().join("stages"), name)? else {
        return Ok(root.clone());
    };
    let unjudged = |why: &dyn std::fmt::Display| ProcessFailure::Unjudged {
        stage: name.to_owned(),
        why: why.to_string(),
    };
    for _ in 0..LOOKS {
        if !stage.is_unjudged()? {
            return through(root, &stage);
        }
        match stage.claim() {
            Ok(_claim) => judge(&stage).map_err(|failure| {
                if matches!(failure, ProcessFailure::Unrecorded(_)) {
                    failure
                } else {
                    unjudged(&failure)
                }
            })?,
            // Somebody else judges it, or has it after all.
            Err(StageError::InUse { .. }) => std::thread::sleep(APART),
            Err(error) => return Err(unjudged(&error)),
        }
    }
    Err(unjudged(&"it is in use all the time"))
}

/// The tree at `root` as `stage` shows it.
pub(super) fn through(root: &Root, stage: &Stage) -> Result<Root, ProcessFailure> {
    let layers = stage.layers();
    let staged = match layers.kind {
        LayersKind::Copy => Staged::Instead(layers.upper),
        LayersKind::Overlay | LayersKind::Trial => Staged::Over(layers.upper, stage.marks()),
    };
    root.through(&staged)
        .map_err(|error| ProcessFailure::Stage {
            what: format!("stage `{}` cannot be looked at: {error}", stage.name()),
            busy: false,
        })
}

/// How much a stage changes, where that can be told.
pub(super) fn changes(stage: &Stage) -> Option<u64> {
    // Counting needs no content: what is too large to compare counts all the same.
    let options = DiffOptions {
        max_text_bytes: 0,
        max_total_text_bytes: 0,
        ..DiffOptions::default()
    };
    stage
        .diff(&options)
        .ok()
        .map(|diff| diff.changes.len() as u64)
}

/// The stages of a workspace, for whoever `stage.read` allowed to look at them.
pub struct StageHold<'a>(pub(crate) &'a Workspace);

impl StageHold<'_> {
    /// What the stage `name` changes; none if there is no such stage.
    pub fn diff(&self, name: &str) -> Result<Option<Diff>, StageError> {
        let stage = all(self.0)?.find_any(name)?;
        // Without what was merged before, only more conflicts are found.
        let own = |stage: &Stage| self.merges().diff(stage).ok();
        stage
            .map(|stage| own(&stage).map_or_else(|| stage.diff(&DiffOptions::default()), Ok))
            .transpose()
    }

    /// Whether the stage `name` holds what a run left that was cut off before that was judged.
    pub fn is_unjudged(&self, name: &str) -> Result<bool, StageError> {
        let stage = all(self.0)?.find(name)?;
        stage.map_or(Ok(false), |stage| stage.is_unjudged())
    }

    /// The merges that were made.
    pub fn merges(&self) -> airlock_merge::Merges {
        crate::control::merge::merges(self.0)
    }

    /// A stage for some runs, which shows the real tree as it is.
    pub(crate) fn passing(&self, label: &str) -> Result<Passing, StageError> {
        let root = Path::new(self.0.root().path());
        all(self.0)?.make_passing(label, root, airlock_sandbox::stage_owner())
    }

    /// Whether the stage `name` lies over the real tree, so that what it changes can be laid elsewhere.
    pub(crate) fn lies_over(&self, name: &str) -> Result<bool, StageError> {
        let stage = all(self.0)?.find(name)?;
        Ok(stage.is_some_and(|stage| stage.kind() == StageKind::Overlay))
    }

    /// Has the stage `into` hold `changes` as the stage `of` has them.
    pub(crate) fn lay(
        &self,
        into: &Passing,
        of: &str,
        changes: &Laid<'_>,
    ) -> Result<(), StageError> {
        let stages = all(self.0)?;
        let missing = || StageError::Missing(into.name().clone());
        let from = stages.find_any(of)?.ok_or_else(missing)?;
        let stage = stages.find_any(into.name().as_str())?;
        let mut stage = stage.ok_or_else(missing)?;
        let claim = stage.claim()?;
        stage.lay(&from, changes, &claim)
    }

    /// Drops a stage that was for some runs.
    pub(crate) fn forget(&self, passing: &Passing) {
        // One that cannot be dropped now goes when nobody holds it any more.
        let _ = all(self.0).and_then(|stages| stages.drop_passing(passing));
    }

    /// Every stage, with those that cannot be made sense of.
    pub fn list(&self) -> Result<Vec<Result<StageSummary, StageError>>, StageError> {
        all(self.0)?.list()
    }
}

/// Why stages are looked at.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReadArguments {
    /// What for: `diff` or `list`.
    purpose: String,
    /// The stage, if it is one.
    #[serde(default)]
    stage: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct DropArguments {
    /// The stage.
    stage: String,
}

const fn spec(name: &'static str, summary: &'static str, schema: ToolSchema) -> ToolSpec {
    ToolSpec {
        name,
        summary,
        syscall: name,
        tier: Tier::Kernel,
        read_only: false,
        keep: Keep::Head,
        schema,
        examples: &[],
    }
}

static READ: ToolSpec = spec(
    "stage.read",
    "look at stages",
    ToolSchema::of::<ReadArguments>(),
);
static DROP: ToolSpec = spec(
    "stage.drop",
    "drop a stage and what it changed",
    ToolSchema::of::<DropArguments>(),
);

fn arguments<T: serde::de::DeserializeOwned>(value: &Value) -> Result<T, InvalidArguments> {
    serde_path_to_error::deserialize(value).map_err(|error| InvalidArguments {
        at: error.path().to_string(),
        what: error.inner().to_string(),
        fix: None,
    })
}

/// A prepared syscall on stages: the stage that goes, if one does, and what it does once it is
/// allowed.
struct Ready<F>(Option<String>, F);

impl<F> Prepared for Ready<F>
where
    F: FnOnce() -> Result<Value, ToolFailure> + Send,
{
    fn paths(&self) -> &[RequestPath] {
        &[]
    }

    fn has_to_itself(&self) -> Option<&str> {
        self.0.as_deref()
    }

    fn run(self: Box<Self>, _: &RunContext<'_>) -> Result<ToolOutput, ToolFailure> {
        (self.1)().map(|value| ToolOutput { value, hidden: 0 })
    }
}

/// `stage.read`: leave to look at stages. The looking itself is no tool result: a diff is long.
pub(super) struct Read;

impl Read {
    pub(super) fn new(_: &Arc<PolicyStore>) -> Self {
        Self
    }
}

impl Tool for Read {
    fn spec(&self) -> &'static ToolSpec {
        &READ
    }

    fn prepare(&self, value: &Value, _: &Root) -> Result<Box<dyn Prepared>, InvalidArguments> {
        let ReadArguments { purpose, stage } = arguments(value)?;
        Ok(Box::new(Ready(None, move || {
            Ok(json!({ "purpose": purpose, "stage": stage }))
        })))
    }
}

/// `stage.drop`: a stage and everything in it goes.
pub(super) struct Drop(Arc<PolicyStore>, Arc<Warm>);

impl Drop {
    pub(super) fn new(store: &Arc<PolicyStore>, warm: &Arc<Warm>) -> Self {
        Self(Arc::clone(store), Arc::clone(warm))
    }
}

impl Tool for Drop {
    fn spec(&self) -> &'static ToolSpec {
        &DROP
    }

    fn prepare(&self, value: &Value, _: &Root) -> Result<Box<dyn Prepared>, InvalidArguments> {
        let DropArguments { stage } = arguments(value)?;
        let (store, warm) = (Arc::clone(&self.0), Arc::clone(&self.1));
        Ok(Box::new(Ready(Some(stage.clone()), move || {
            warm.release(&stage);
            let dropped = all(store.workspace()).and_then(|stages| stages.drop_stage(&stage));
            dropped.map_err(ProcessFailure::from)?;
            Ok(json!({ "dropped": stage }))
        })))
    }
}
