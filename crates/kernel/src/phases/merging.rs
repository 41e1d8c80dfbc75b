//! Commits and merges of held sessions: when they can be made, and what they lead to.

use super::tools::{next, place_of};
use crate::control::for_caller::failure;
use crate::control::merge::recover;
use crate::control::{Desk, is_person, meant};
use crate::kernel::Kernel;
use crate::process::Job;
use crate::road::Scene;
use crate::tools::ToolFailure;
use airlock_core::{Caller, Mode, Phase, Request, RequestPath, SessionId, WorkspacePath};
use airlock_phases::{Progress, Route};
use airlock_policy::{Contribution, Decision, Layer, Opinion};
use airlock_state::{Owner, Session};
use serde_json::Value;
use std::collections::BTreeSet;

/// Rules whose review an approved merge has behind it.
const ANSWERED: &[&str] = &["built-in/person-decides", "phases/asked-for", "AG-01"];

/// The setting of the policy that lets merges go without a person.
const AUTOMATIC: &str = "merge.automatic";

/// Why a tool cannot be used where the session stands, if it cannot.
pub(crate) fn unavailable(request: &Request) -> Option<ToolFailure> {
    let state = request.caller.phase?;
    let tool = request.syscall.name();
    let held = ["git.commit", "merge.apply", "merge.undo"].contains(&tool);
    if !held || state == Phase::Committing {
        return None;
    }
    Some(ToolFailure::Stored {
        code: "tool_unavailable",
        what: format!(
            "not available in the state `{state}`: `{tool}` is for a session that is committing"
        ),
        fix: Some(format!("what leads on: {}", next(state))),
        retryable: false,
    })
}

impl Kernel {
    /// What answers the review of `request` by itself: the person's approval of these very changes,
    /// or the policy's own criteria. Where those are asked for and do not hold, one more reason for
    /// the review: which of them.
    pub(crate) fn merge_settled(
        &self,
        scene: Scene<'_>,
        request: &Request,
        decision: &Decision,
    ) -> Option<Contribution> {
        let state = request.caller.phase?;
        let reviews = || {
            let all = decision.contributions.iter();
            all.filter(|one| one.opinion == Opinion::RequireReview)
        };
        if !reviews().all(|one| ANSWERED.contains(&&*one.rule)) {
            return None;
        }
        let said = |rule: &str, reason: &str| {
            Some(Contribution {
                layer: Layer::Grant,
                rule: rule.into(),
                opinion: Opinion::Allow,
                reason: reason.into(),
            })
        };
        let held = |reason: String| {
            Some(Contribution {
                layer: Layer::Gate,
                rule: AUTOMATIC.into(),
                opinion: Opinion::RequireReview,
                reason: format!("not merged without a person: {reason}").into(),
            })
        };
        match (request.syscall.name(), state) {
            ("merge.apply", Phase::Committing) if self.is_approved_merge(scene, request) => {
                said("phases/approved", "these changes were approved")
            }
            ("phase.commit", Phase::Reviewing) => match self.automatic(scene, request) {
                Some(Ok(())) => said(AUTOMATIC, "the policy's criteria for a merge hold"),
                Some(Err(why)) => held(why.to_string()),
                None => scene.session.and_then(reserved),
            },
            (_, _) => None,
        }
    }

    fn is_approved_merge(&self, scene: Scene<'_>, request: &Request) -> bool {
        let Some(session) = scene.session else {
            return false;
        };
        let progress = place_of(session).progress;
        let desk = self.desk();
        let Ok(staged) = desk.staged(session) else {
            return false;
        };
        let argument = |name: &str| request.arguments.get(name);
        let named = argument("stage").and_then(Value::as_str);
        let hunks = argument("hunks").and_then(Value::as_object);
        let in_part = hunks.is_some_and(|hunks| !hunks.is_empty());
        let overwrites = argument("overwrite").and_then(Value::as_bool) == Some(true);
        // Of git's own, only what the commit brought, and nothing that came to it since.
        let committed = progress.commit.is_some() && staged.git == progress.brought;
        let is_known = |path: &&str| {
            let beneath = format!("{path}/");
            let mut own = staged.merged();
            own.any(|own| own == *path || own.starts_with(&beneath))
                || committed && is_of_commit(path)
        };
        let chosen: Option<BTreeSet<&str>> = request.paths.iter().map(inside).collect();
        let Some(chosen) = chosen else {
            return false;
        };
        // All of it was approved, and not each part by itself.
        let whole = staged.merged().all(|own| chosen.contains(own))
            && (progress.commit.is_none() || staged.gits().all(|own| chosen.contains(own)));
        progress.approved.is_some()
            && staged.digest == progress.approved
            && named == Some(session.stage.as_str())
            && !in_part
            && !overwrites
            && whole
            && chosen.iter().all(is_known)
    }

    /// The job of a commit with what it commits: what the stage changes, and nothing else that may
    /// lie in the tree.
    pub(crate) fn commit_job(&self, request: &Request, job: &Job) -> Result<Job, ToolFailure> {
        let desk = self.desk();
        let session = desk.held_session(&request.caller, None)?;
        let staged = desk.staged(&session)?;
        let progress = place_of(&session).progress;
        if progress.approved.is_none() || progress.approved != staged.digest {
            return Err(ToolFailure::Stored {
                code: "tool_unavailable",
                what: "the stage does not hold what was approved".to_owned(),
                fix: Some("give the task up, or ask again with `phase.commit`".to_owned()),
                retryable: false,
            });
        }
        // It would be a parent that nobody saw, or move a branch that nobody named.
        if staged.moves_git && staged.git != progress.brought {
            return Err(ToolFailure::Stored {
                code: "tool_unavailable",
                what: "the stage changes references or the index of the repository, and no commit of this session did".to_owned(),
                fix: Some("give the task up, and drop the stage: airlock stage drop NAME".to_owned()),
                retryable: false,
            });
        }
        let verified = match (session.mode, &progress.route) {
            (Mode::Strict, Some(Route::TestFirst | Route::Refactoring(_))) => "",
            (Mode::Strict | Mode::Explore | Mode::Debug, _) => "Airlock-Verified: no",
        };
        Ok(job.committing(staged.tracked.paths(), verified, self.user().as_str()))
    }

    /// Remembers the commit that was made. Where git sees no change there is none, or the one that
    /// is there already.
    pub(crate) fn after_commit(&self, caller: &Caller, value: &Value) -> Result<(), ToolFailure> {
        let Some(commit) = value.get("commit").and_then(Value::as_str) else {
            return Ok(());
        };
        let desk = self.desk();
        let session = desk.held_session(caller, None)?;
        let mut place = place_of(&session);
        place.progress.commit = Some(commit.to_owned());
        place.progress.brought = desk.staged(&session)?.git;
        desk.keep(&session, place).map(drop)
    }

    /// Says where the session stands after its merge, which ended the task if it left nothing behind.
    pub(crate) fn after_merge(
        &self,
        caller: &Caller,
        value: &mut Value,
    ) -> Result<(), ToolFailure> {
        if caller.phase != Some(Phase::Committing) {
            return Ok(());
        }
        let session = self.desk().held_session(caller, None)?;
        if let Some(object) = value.as_object_mut() {
            object.insert("state".to_owned(), serde_json::json!(session.phase));
        }
        Ok(())
    }

    /// Carries on what an interrupted merge left, and records that, before a session that is
    /// committing moves on: it may end its task.
    pub(crate) fn before_advance(&self, caller: &Caller) {
        if caller.phase == Some(Phase::Committing) {
            // What was completed is in the log; what could not be keeps the session that it is of.
            let _said = recover(&self.desk(), self.log());
        }
    }

    /// A mode that was asked for and refused leaves the session strict: the one that asked, or the
    /// one that the person named. Nobody else moves a session by asking for what is denied.
    pub(crate) fn mode_refused(&self, request: &Request) {
        let caller = &request.caller;
        let asked = request.arguments.get("session").and_then(Value::as_str);
        let asked = asked.and_then(|text| SessionId::new(text).ok());
        let Ok(id) = meant(caller, asked.as_ref()) else {
            return;
        };
        if caller.session.as_ref() == Some(&id) || is_person(caller) {
            self.desk().mode_refused(&Owner::of(caller), &id);
        }
    }
}

impl Desk {
    /// The same for the session `id` of `owner`. One that is not held to the discipline stays free
    /// of it, and a task that is being committed goes on: its merge may be under way.
    pub(crate) fn mode_refused(&self, owner: &Owner, id: &SessionId) {
        let found = self.state().and_then(|state| {
            let found = state.session(owner, id);
            found.map_err(|error| failure(&error))
        });
        if let Ok(Some(session)) = found
            && session.mode != Mode::Strict
            && session.progress.is_some()
        {
            let mut place = place_of(&session);
            place.mode = Mode::Strict;
            if !matches!(place.state, Phase::Idle | Phase::Committing) {
                place.state = Phase::Planning;
                place.progress = Progress::default();
            }
            // One that cannot be kept is as it was; the denial stands all the same.
            let _ = self.keep(&session, place);
        }
    }
}

/// What whoever is asked about the changes of `session` should know of its tests.
fn reserved(session: &Session) -> Option<Contribution> {
    let run = place_of(session).progress.last?;
    let reason = super::automatic::reservation(&run)?;
    Some(Contribution {
        layer: Layer::Gate,
        rule: "phases/same-tests".into(),
        opinion: Opinion::RequireReview,
        reason: reason.into(),
    })
}

fn inside(path: &RequestPath) -> Option<&str> {
    path.inside().map(WorkspacePath::as_str)
}

/// Whether `path` is what a commit brings: objects, its branch and the index.
fn is_of_commit(path: &str) -> bool {
    crate::process::is_of_commit(path)
}
