//! The check of a stage after each run: what a program did there is judged as if it had asked.
//!
//! Every path that differs from before is put to policy as `fs.write`, `fs.delete` or `fs.move` by
//! the same caller; what is not allowed is put back and named. A change that would need review is
//! put back as well: nobody was asked. Paths that git ignores by the real tree's own files, build
//! output mostly, need no rule that allows them; a rule that denies them still holds.
//!
//! Guarantee: whoever uses the stage next finds nothing in it that this caller might not do, also
//! when a supervisor was killed before it could judge: what it left is judged first, and what of it
//! is put back is in the log before. What was there before the run and is denied to this caller -
//! somebody else's, or approved - is there afterwards as it was. Nothing a run does keeps it from
//! being judged: what no rule can judge is put back, and a run that changes more than can be judged
//! is taken back as a whole.
//!
//! Non-guarantee: what could not be looked at before the run either, because something was mounted
//! or closed in the real tree, is left as it is. It never leaves the stage.
//!
//! Invariant: nothing runs in the stage while it is judged, and the caller of this module holds the
//! stage's claim.

use super::failure::ProcessFailure;
use super::files::is_draft;
use super::git::is_of_commit;
use super::ran::PutBack;
use crate::beneath::{OpenError, Root};
use crate::kernel::Kernel;
use crate::phases::{After, Held};
use crate::policy_store::PolicyInForce;
use crate::road::note_put_back;
use crate::sanitise::sanitise_path;
use crate::tools::GitIgnored;
use airlock_audit::{Durability, Entry, EventType, Stage as AuditStage};
use airlock_core::{
    ActionId, Caller, Request, RequestPath, Syscall, Tier, Timestamp, WorkspacePath,
};
use airlock_policy::{
    CapabilityCheck, CapabilityGate, CheckQuery, CheckResult, Decision, EnforcerSnapshot, Layer,
    Opinion, PathClass, Verdict,
};
use airlock_sandbox::stage::{
    Aside, ChangeKind, DiffOptions, Stage, StageError, Touch, Touched, TreePath,
};
use airlock_sanitise::Sanitiser;
use serde_json::json;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

/// The most paths that are judged, some 130 bytes each: a run that touches more is taken back.
const MOST: u64 = 1_000_000;
/// Putting something back can show something else that is denied; each pass goes one further up.
const PASSES: usize = 8;

/// Policy's view of what one caller changes.
pub(crate) struct Changes<'a> {
    kernel: &'a Kernel,
    policy: &'a PolicyInForce,
    enforcer: &'a EnforcerSnapshot,
    root: &'a Root,
    now: Timestamp,
    caller: Caller,
    /// The call that changes, and what it calls. Not noted by earlier versions.
    action: Option<ActionId>,
    call: Option<Arc<str>>,
    template: Option<Arc<str>>,
    /// What the call itself names, if it is a change: that was decided on.
    decided: BTreeSet<WorkspacePath>,
    /// Whether that was allowed because somebody answered.
    answered: bool,
    ignored: RefCell<GitIgnored<'a>>,
    /// How the caller's session is held.
    held: Held,
    /// Whether what a commit brings was decided on with the commit.
    commits: bool,
    /// The tree as the stage shows it, while it is judged.
    seen: RefCell<Option<Root>>,
    /// The most paths that are judged.
    most: u64,
    /// What was put back of earlier runs that were cut off, until somebody is told.
    earlier: RefCell<Vec<PutBack>>,
}

/// Why a change may not stand.
#[derive(Debug, Clone)]
struct Objection {
    change: &'static str,
    reason: String,
    /// Whether a rule says so, or only none allows it.
    explicit: bool,
    /// Whether that rule says no, and not that a person is to be asked.
    denies: bool,
}

type Denied = BTreeMap<TreePath, Objection>;
/// What is put back, as it is told.
type Backs = BTreeMap<TreePath, PutBack>;

/// What came of the check of a stage.
pub(super) struct Judged {
    pub(super) put_back: Vec<PutBack>,
    /// Whether the stage now differs from the real tree in nothing.
    pub(super) untouched: bool,
}

impl<'a> Changes<'a> {
    pub(crate) fn new(
        kernel: &'a Kernel,
        policy: &'a PolicyInForce,
        enforcer: &'a EnforcerSnapshot,
        request: &Request,
        action: &ActionId,
        held: Held,
    ) -> Self {
        let changes_files = request.syscall.area() == "fs";
        let decided = request.paths.iter().filter(|_| changes_files);
        let root = kernel.workspace().root();
        let call = request.tool.clone();
        Self {
            kernel,
            policy,
            enforcer,
            root,
            now: kernel.clock().now(),
            caller: request.caller.clone(),
            action: Some(action.clone()),
            call: Some(call.unwrap_or_else(|| request.syscall.name().into())),
            template: request.template.clone(),
            decided: decided.filter_map(RequestPath::inside).cloned().collect(),
            answered: false,
            ignored: RefCell::new(GitIgnored::new(root)),
            held,
            commits: request.syscall.name() == "git.commit",
            seen: RefCell::new(None),
            most: MOST,
            earlier: RefCell::default(),
        }
    }

    /// The same where the call was allowed because somebody answered, if it was.
    pub(crate) fn answered(self, answered: bool) -> Self {
        Self { answered, ..self }
    }

    /// The same where no more than `most` paths are judged.
    #[cfg(test)]
    pub(super) fn at_most(self, most: u64) -> Self {
        Self { most, ..self }
    }

    /// Who changes.
    pub(super) const fn caller(&self) -> &Caller {
        &self.caller
    }

    /// Knows the secrets that are taken out of what the caller is shown.
    pub(super) fn secrets(&self, kernel: &Kernel) -> Arc<Sanitiser> {
        let sanitisers = kernel.sanitisers();
        let known = sanitisers.of(self.caller.session.as_ref(), self.policy);
        // Patterns that cannot be used let no result out.
        known.unwrap_or_default()
    }

    /// Whether `path` is source to the policy.
    pub(super) fn is_source(&self, path: &str) -> bool {
        self.policy.policy().path_class(path) == PathClass::Source
    }

    /// Whether the caller may read `path`, which some program's output shows.
    pub(super) fn may_read(&self, path: &str) -> bool {
        let (Ok(reading), Ok(path)) = (syscall("fs.read"), WorkspacePath::new(path)) else {
            return false;
        };
        let mut request = Request::new(reading, Tier::Kernel, self.caller.clone());
        request.tool = Some(reading.name().into());
        request.paths.push(path.into());
        self.judge(&request).is_none()
    }

    /// Judges a run that was never judged, if there is one: it was cut off, and the stage says so from
    /// now on. What of it may not be is in the log before it is put back.
    pub(crate) fn settle(&self, stage: &Stage) -> Result<(), ProcessFailure> {
        let Some(left) = stage.unsettled()? else {
            return Ok(());
        };
        let run = self.of_note(left.note())?;
        stage.note_cut_off()?;
        let judged = run.end(stage, left, |going| {
            let entry = run.cut_off(stage, going, self.action.as_ref());
            let written = self.kernel.log().append(&entry, Durability::Durable);
            written.map(drop).map_err(ProcessFailure::Unrecorded)
        })?;
        let earlier = judged.put_back.into_iter().map(|back| PutBack {
            reason: format!("a run that was cut off left it: {}", back.reason),
            earlier: true,
            ..back
        });
        self.earlier.borrow_mut().extend(earlier);
        Ok(())
    }

    /// What was put back of earlier runs, for whoever is told.
    pub(crate) fn take_earlier(&self) -> Vec<PutBack> {
        self.earlier.take()
    }

    /// The record of what is put back of this run, which was cut off. Its call stays without an
    /// outcome: it had none.
    fn cut_off(&self, stage: &Stage, going: &Backs, found_by: Option<&ActionId>) -> Entry {
        let now = self.kernel.clock().now();
        let mut entry = Entry::new(now, EventType::ToolResult, AuditStage::Note);
        entry.action.clone_from(&self.action);
        entry.syscall = self.call.as_deref().map(str::to_owned);
        entry.caller = Some(self.caller.clone());
        let cleaner = self.kernel.sanitisers().beside(self.policy);
        note_put_back(&mut entry, going.values(), &cleaner.unwrap_or_default());
        let notes = [
            ("ended", Some("cut_off".to_owned())),
            ("stage", Some(stage.name().to_string())),
            ("found_by", found_by.map(ToString::to_string)),
        ];
        let notes = notes.into_iter();
        let notes = notes.filter_map(|(name, value)| Some((name.to_owned(), value?)));
        entry.metadata.extend(notes);
        entry
    }

    /// Keeps what must be as it is afterwards. A run that was never judged is judged first.
    pub(super) fn begin(&self, stage: &Stage) -> Result<Aside, ProcessFailure> {
        self.settle(stage)?;
        self.check_way(stage)?;
        let touched = stage.touched(self.most)?;
        if touched.is_empty() {
            return self.begin_untouched(stage);
        }
        self.look_through(stage);
        // What stands for the sake of what was decided on is kept as well: that may be about to go.
        let denied = self.denied(&touched, false)?;
        self.keep(stage, &denied.into_keys().collect::<Vec<_>>(), false)
    }

    /// The same for a stage that differs from the real tree in nothing, and has not been out of the
    /// caller's hands since that was found.
    pub(super) fn begin_untouched(&self, stage: &Stage) -> Result<Aside, ProcessFailure> {
        self.check_way(stage)?;
        self.keep(stage, &[], true)
    }

    /// That the directories may be made which what was decided on will need. Nothing ran yet: later
    /// they would be put back, and what was moved into them lost.
    fn check_way(&self, stage: &Stage) -> Result<(), ProcessFailure> {
        let above = |path: &WorkspacePath| {
            let above = Path::new(path.as_str()).ancestors().skip(1);
            let above = above.filter_map(|path| WorkspacePath::new(path.to_str()?).ok());
            above.collect::<Vec<_>>()
        };
        let all: BTreeSet<WorkspacePath> = self.decided.iter().flat_map(above).collect();
        let missing = |root: &Root, path: &WorkspacePath| {
            let opened = root.open_directory(path.as_str());
            matches!(opened, Err(OpenError::NotFound))
        };
        let mut all = all
            .iter()
            .filter(|path| missing(self.root, path))
            .peekable();
        if all.peek().is_none() {
            return Ok(());
        }
        self.look_through(stage);
        let mut request = self.changing("fs.write")?;
        for path in all {
            let there = self.seen.borrow().as_ref().map(|seen| !missing(seen, path));
            if there.unwrap_or_default() {
                continue;
            }
            become_one(&mut request, syscall("fs.write")?, Some(0));
            request.paths = vec![path.clone().into()];
            let is_final =
                |objection: &Objection| objection.denies || (objection.explicit && !self.answered);
            if let Some(objection) = self.judge(&request).filter(is_final) {
                return Err(ProcessFailure::Way {
                    directory: sanitise_path(path.as_str()),
                    why: objection.reason,
                });
            }
        }
        Ok(())
    }

    /// A request of this caller's, whose paths are still to come.
    fn changing(&self, name: &str) -> Result<Request, ProcessFailure> {
        let mut request = Request::new(syscall(name)?, Tier::Process, self.caller.clone());
        request.template.clone_from(&self.template);
        Ok(request)
    }

    /// Whether `path` is a directory that something is in which a person was asked about.
    fn is_on_the_way(&self, path: &TreePath) -> bool {
        if !self.answered {
            return false;
        }
        let decided = self.decided.iter();
        let mut decided = decided.map(|decided| Path::new(decided.as_str()));
        decided.any(|decided| decided.starts_with(path.as_path()))
    }

    fn keep(
        &self,
        stage: &Stage,
        paths: &[TreePath],
        untouched: bool,
    ) -> Result<Aside, ProcessFailure> {
        let note = json!({
            "caller": self.caller,
            "action": self.action,
            "call": self.call,
            "template": self.template,
            "held": self.held,
            "untouched": untouched,
        });
        Ok(stage.set_aside(paths, note)?)
    }

    /// Judges what is there now, and puts back what may not be. `before` hears of everything before it
    /// is put back, and of what had to go with it right after; if it fails, no more is put back. It
    /// ends whatever has the stage mounted.
    pub(super) fn end(
        &self,
        stage: &Stage,
        aside: Aside,
        mut before: impl FnMut(&Backs) -> Result<(), ProcessFailure>,
    ) -> Result<Judged, ProcessFailure> {
        let mut told = Backs::new();
        for _ in 0..PASSES {
            let touched = match stage.touched(self.most) {
                // Once: what is left of it then was there before.
                Err(StageError::TooManyChanges { .. }) if !told.contains_key(&whole()) => {
                    let all = Backs::from([(whole(), self.taken_back())]);
                    before(&all)?;
                    stage.undo(&aside, was_untouched(&aside))?;
                    told.extend(all);
                    continue;
                }
                touched => touched?,
            };
            if !touched.is_empty() || aside.paths().next().is_some() {
                self.look_through(stage);
            }
            let denied = self.changed(stage, &touched, &aside)?;
            if denied.is_empty() {
                stage.settle(aside)?;
                return Ok(Judged {
                    put_back: told.into_values().collect(),
                    untouched: touched.is_empty(),
                });
            }
            let paths: BTreeSet<TreePath> = denied.keys().cloned().collect();
            let going = denied.into_iter().map(|(path, objection)| {
                let back = put_back(&path, objection.change, objection.reason);
                (path, back)
            });
            let going: Backs = going.collect();
            before(&going)?;
            let unseen = touched.iter().filter(|one| one.touch == Touch::Unseen);
            let unseen = unseen.map(|one| one.path.clone()).collect();
            let also = stage.put_back(&paths, &unseen, &aside, self.most)?;
            let also = also.into_iter().map(|path| {
                let reason = "it took the place of a directory that was put back".to_owned();
                let back = put_back(&path, "fs.write", reason);
                (path, back)
            });
            let also: Backs = also.collect();
            if !also.is_empty() {
                before(&also)?;
            }
            for (path, back) in also.into_iter().chain(going) {
                told.entry(path).or_insert(back);
            }
        }
        Err(ProcessFailure::Stage {
            what: format!(
                "what policy denies in stage `{}` cannot be put back",
                stage.name()
            ),
            busy: false,
        })
    }

    /// What is told of a run that was taken back.
    fn taken_back(&self) -> PutBack {
        let most = self.most;
        PutBack {
            path: ".".to_owned(),
            change: "fs.write".into(),
            reason: format!(
                "over {most} files and directories were changed, more than can be judged: all that \
                 was made was taken back"
            ),
            earlier: false,
        }
    }

    /// The view of whoever ran something that was never judged.
    fn of_note(&self, note: &serde_json::Value) -> Result<Changes<'a>, ProcessFailure> {
        let unknown = || ProcessFailure::Stage {
            what: "an earlier run in the stage was never judged, and whose it was is not known"
                .to_owned(),
            busy: false,
        };
        let caller = note.get("caller").cloned().ok_or_else(unknown)?;
        let caller: Caller = serde_json::from_value(caller).map_err(|_| unknown())?;
        let text = |name: &str| note.get(name).and_then(serde_json::Value::as_str);
        let held = note.get("held").cloned().unwrap_or_default();
        let held: Held = serde_json::from_value(held).unwrap_or_default();
        Ok(Changes {
            kernel: self.kernel,
            policy: self.policy,
            enforcer: self.enforcer,
            root: self.root,
            now: self.now,
            caller,
            action: text("action").and_then(|id| ActionId::new(id).ok()),
            call: text("call").map(Into::into),
            template: text("template").map(Into::into),
            decided: BTreeSet::new(),
            answered: false,
            ignored: RefCell::new(GitIgnored::new(self.root)),
            held,
            commits: false,
            seen: RefCell::new(None),
            most: self.most,
            earlier: RefCell::default(),
        })
    }

    /// Lets what is judged be read as the stage shows it.
    fn look_through(&self, stage: &Stage) {
        *self.seen.borrow_mut() = super::stages::through(self.root, stage).ok();
    }

    /// What is denied and is not what it was before the run.
    fn changed(
        &self,
        stage: &Stage,
        touched: &[Touched],
        aside: &Aside,
    ) -> Result<Denied, ProcessFailure> {
        let mut denied = self.denied(touched, true)?;
        self.add_moves(stage, touched, &mut denied)?;
        self.add_lost(stage, touched, aside, &mut denied)?;
        let mut changed = Denied::new();
        for (path, objection) in denied {
            if !stage.is_as_kept(&path, aside)? && !is_untouched(stage, touched, &path)? {
                changed.insert(path, objection);
            }
        }
        add_beneath(touched, &mut changed);
        Ok(changed)
    }

    /// Every touched path that this caller might not change so. Whether those are left out that who was
    /// asked about what is in them was asked about, too.
    fn denied(&self, touched: &[Touched], lenient: bool) -> Result<Denied, ProcessFailure> {
        let mut request = self.changing("fs.write")?;
        let mut denied = Denied::new();
        let mut standing: Option<&TreePath> = None;
        // What is in a directory comes right after it, so from the end: all of a chain of them goes
        // with the last.
        for one in touched.iter().rev() {
            let holds = standing.is_some_and(|next| is_beneath(next, &one.path));
            let objection = self.objection(&mut request, one)?;
            // A directory stands with what may be in it, unless something is against itself.
            let stands = |objection: &Objection| {
                let is_new = one.touch == Touch::Made && !one.over;
                let asked = || lenient && !objection.denies && self.is_on_the_way(&one.path);
                holds && is_new && (!objection.explicit || asked())
            };
            match objection.filter(|objection| !stands(objection)) {
                Some(objection) => {
                    denied.insert(one.path.clone(), objection);
                }
                None => standing = Some(&one.path),
            }
        }
        Ok(denied)
    }

    fn objection(
        &self,
        request: &mut Request,
        touched: &Touched,
    ) -> Result<Option<Objection>, ProcessFailure> {
        let (name, size) = match touched.touch {
            Touch::Written { size } => ("fs.write", Some(size)),
            // A directory has no content whose size a rule could mean.
            Touch::Made | Touch::Mode => ("fs.write", Some(0)),
            Touch::Deleted => ("fs.delete", None),
            Touch::Unseen => {
                let reason =
                    "no rule can judge it: its path is too long, or it cannot be looked at";
                return Ok(Some(unjudgeable("fs.write", reason)));
            }
        };
        let Some(path) = workspace_path(&touched.path) else {
            let reason = "no rule can judge its name, which is not UTF-8 or too long";
            return Ok(Some(unjudgeable(name, reason)));
        };
        if self.decided.contains(&path) || (self.commits && is_of_commit(path.as_str())) {
            return Ok(None);
        }
        if matches!(touched.touch, Touch::Written { .. }) && is_draft(path.as_str()) {
            let reason = "it is a draft that a file worker left, which gave no answer";
            return Ok(Some(unjudgeable(name, reason)));
        }
        become_one(request, syscall(name)?, size);
        request.paths.clear();
        request.paths.push(path.clone().into());
        let objection = self.judge(request);
        Ok(objection
            .filter(|objection| objection.explicit || !self.is_ignored(&path, touched.touch)))
    }

    /// What policy has against `request`.
    fn judge(&self, request: &Request) -> Option<Objection> {
        let change = request.syscall.name();
        if let Some((capability, gate)) = self.missing_capability(request) {
            let explicit = match gate {
                CapabilityGate::PluginDeny | CapabilityGate::UnknownPlugin => true,
                CapabilityGate::Plugin | CapabilityGate::Workspace | CapabilityGate::User => false,
            };
            let capability = sanitise_path(&capability);
            return Some(Objection {
                change,
                reason: format!("capability `{capability}` is not granted: {gate}"),
                explicit,
                denies: explicit,
            });
        }
        let seen = self.seen.borrow();
        let after = After::Done(self.root, seen.as_ref());
        let decision = self
            .held
            .decide(self.policy, request, None, &after, self.now);
        (decision.verdict != Verdict::Allow).then(|| objection(change, &decision))
    }

    fn missing_capability(&self, request: &Request) -> Option<(String, CapabilityGate)> {
        let needs = request.needs(self.root.path());
        needs.into_iter().find_map(|capability| {
            let query = CheckQuery {
                plugin: &request.caller.plugin,
                capability: &capability,
                workspace: self.policy.workspace_allow(),
                user: self.policy.user_allow(&request.caller.user),
                workspace_id: &request.caller.workspace,
                user_id: &request.caller.user,
            };
            // One record of the run tells what was put back; a record a path would drown it.
            match self
                .enforcer
                .check(&query, &mut |_: &CapabilityCheck<'_>| {})
            {
                CheckResult::Allowed => None,
                CheckResult::Denied(gate) => Some((capability, gate)),
            }
        })
    }

    fn is_ignored(&self, path: &WorkspacePath, touch: Touch) -> bool {
        let is_directory = match touch {
            Touch::Made | Touch::Mode => true,
            Touch::Written { .. } | Touch::Unseen => false,
            Touch::Deleted => self.root.open_directory(path.as_str()).is_ok(),
        };
        self.ignored.borrow_mut().holds(path, is_directory)
    }

    /// Adds both ends of moves that policy denies though it lets one be written and one deleted.
    fn add_moves(
        &self,
        stage: &Stage,
        touched: &[Touched],
        denied: &mut Denied,
    ) -> Result<(), ProcessFailure> {
        let moving = syscall("fs.move")?;
        let policy = self.policy.policy();
        let apart = policy.tells_apart(moving, syscall("fs.write")?)
            || policy.tells_apart(moving, syscall("fs.delete")?);
        let any = |wanted: fn(Touch) -> bool| touched.iter().any(|one| wanted(one.touch));
        let both = any(|touch| touch == Touch::Deleted)
            && any(|touch| matches!(touch, Touch::Written { .. } | Touch::Made));
        if !apart || !both {
            return Ok(());
        }
        let options = DiffOptions {
            max_text_bytes: 0,
            max_total_text_bytes: 0,
            // As many as were found to be touched.
            max_entries: self.most,
            ..DiffOptions::default()
        };
        let mut request = self.changing(moving.name())?;
        request.tool = Some(moving.name().into());
        for change in stage.diff(&options)?.changes {
            let ChangeKind::Renamed { from } = &change.kind else {
                continue;
            };
            let ends = [from, &change.path];
            let paths: Option<Vec<WorkspacePath>> =
                ends.iter().map(|path| workspace_path(path)).collect();
            let Some(paths) = paths else {
                continue;
            };
            if paths.iter().all(|path| self.decided.contains(path)) {
                continue;
            }
            request.file_size = change.new.as_ref().map(|facts| facts.size);
            let free = paths
                .iter()
                .all(|path| self.is_ignored(path, Touch::Written { size: 0 }));
            request.paths = paths.into_iter().map(RequestPath::from).collect();
            if let Some(objection) = self.judge(&request)
                && (objection.explicit || !free)
            {
                for path in ends {
                    denied.insert(path.clone(), objection.clone());
                }
            }
        }
        Ok(())
    }

    /// Adds what was kept and is now neither there nor anything else.
    fn add_lost(
        &self,
        stage: &Stage,
        touched: &[Touched],
        aside: &Aside,
        denied: &mut Denied,
    ) -> Result<(), ProcessFailure> {
        let mut request = self.changing("fs.delete")?;
        let there: BTreeSet<&TreePath> = touched.iter().map(|one| &one.path).collect();
        for path in aside.paths().filter(|path| !there.contains(path)) {
            if stage.is_as_kept(path, aside)? {
                continue;
            }
            let lost = Touched {
                path: path.clone(),
                touch: Touch::Deleted,
                over: false,
            };
            if let Some(objection) = self.objection(&mut request, &lost)? {
                denied.insert(path.clone(), objection);
            }
        }
        Ok(())
    }
}

/// What is told of a run that is told of as one.
fn whole() -> TreePath {
    TreePath::default()
}

/// Whether the stage changed nothing when the run began.
fn was_untouched(aside: &Aside) -> bool {
    let noted = aside.note().get("untouched");
    noted.and_then(serde_json::Value::as_bool).unwrap_or(false)
}

fn unjudgeable(change: &'static str, reason: &str) -> Objection {
    Objection {
        change,
        reason: reason.to_owned(),
        explicit: true,
        denies: true,
    }
}

/// Makes `request` one for `syscall`, asked for as the tool of that name.
fn become_one(request: &mut Request, syscall: Syscall, size: Option<u64>) {
    if request.syscall != syscall || request.tool.is_none() {
        request.syscall = syscall;
        request.effects = syscall.spec().effects;
        request.tool = Some(syscall.name().into());
    }
    request.file_size = size;
}

fn syscall(name: &str) -> Result<Syscall, ProcessFailure> {
    Syscall::parse(name).map_err(|error| ProcessFailure::Sandbox(error.to_string()))
}

fn workspace_path(path: &TreePath) -> Option<WorkspacePath> {
    let text = std::str::from_utf8(path.as_bytes()).ok()?;
    WorkspacePath::new(text).ok()
}

fn is_beneath(path: &TreePath, directory: &TreePath) -> bool {
    path != directory && path.as_path().starts_with(directory.as_path())
}

/// Whether a denied path is only a copy of what the real tree has.
fn is_untouched(stage: &Stage, touched: &[Touched], path: &TreePath) -> Result<bool, StageError> {
    let at = touched.binary_search_by(|one| one.path.cmp(path));
    match at.ok().and_then(|at| touched.get(at)) {
        Some(Touched {
            touch: Touch::Written { .. },
            over: true,
            ..
        }) => stage.is_as_real(path.as_path()),
        Some(_) | None => Ok(false),
    }
}

/// What lies in a directory that may not be there cannot stay.
fn add_beneath(touched: &[Touched], denied: &mut Denied) {
    let mut gone: Option<(&TreePath, Objection)> = None;
    for one in touched {
        match &gone {
            Some((directory, objection)) if is_beneath(&one.path, directory) => {
                let entry = denied.entry(one.path.clone());
                entry.or_insert_with(|| objection.clone());
            }
            Some(_) | None => {
                let own = denied.get(&one.path).cloned();
                gone = own
                    .filter(|_| one.touch == Touch::Made)
                    .map(|objection| (&one.path, objection));
            }
        }
    }
}

fn objection(change: &'static str, decision: &Decision) -> Objection {
    let against = decision
        .contributions
        .iter()
        .filter(|one| match one.opinion {
            Opinion::Deny | Opinion::RequireReview => one.layer != Layer::Default,
            Opinion::Allow | Opinion::Pass => false,
        });
    let reasons: Vec<String> = against
        .map(|one| match one.opinion {
            Opinion::RequireReview => format!("{} needs review: {}", one.rule, one.reason),
            Opinion::Deny | Opinion::Allow | Opinion::Pass => {
                format!("{}: {}", one.rule, one.reason)
            }
        })
        .collect();
    // The state a session is in says what may be written, not what may lie about: what git ignores
    // is free, and a directory stands with what may be in it.
    let says = |opinions: &[Opinion]| {
        decision.contributions.iter().any(|one| {
            opinions.contains(&one.opinion)
                && one.layer != Layer::Default
                && !one.rule.starts_with("phases/")
        })
    };
    Objection {
        change,
        explicit: says(&[Opinion::Deny, Opinion::RequireReview]),
        denies: says(&[Opinion::Deny]),
        reason: if reasons.is_empty() {
            format!("no rule allows `{change}` here")
        } else {
            reasons.join("; ")
        },
    }
}

fn put_back(path: &TreePath, change: &'static str, reason: String) -> PutBack {
    PutBack {
        path: sanitise_path(&path.as_path().to_string_lossy()),
        change: change.into(),
        reason,
        earlier: false,
    }
}
