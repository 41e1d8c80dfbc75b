//! Commits and merges of held sessions: when they can be made, and what they lead to.

use super::tools::{next, place_of};
use crate::control::Desk;
use crate::control::for_caller::failure;
use crate::kernel::Kernel;
use crate::process::Job;
use crate::road::Scene;
use crate::tools::ToolFailure;
use airlock_core::{Caller, Mode, Phase, Request, RequestPath, SessionId, WorkspacePath};
use airlock_phases::{Event, Progress, Route};
use airlock_policy::{Contribution, Decision, Layer, Opinion};
use airlock_state::Owner;
use serde_json::Value;

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
            ("phase.commit", Phase::Reviewing) => match self.automatic(scene, request)? {
                Ok(()) => said(AUTOMATIC, "the policy's criteria for a merge hold"),
                Err(why) => held(why.to_string()),
            },
            (_, _) => None,
        }
    }

    fn is_approved_merge(&self, scene: Scene<'_>, request: &Request) -> bool {
        let Some(session) = scene.session else {
            return false;
        };
        let approved = place_of(session).progress.approved;
        let desk = self.desk();
        let Ok(staged) = desk.staged(session) else {
            return false;
        };
        let named = request.arguments.get("stage").and_then(Value::as_str);
        let is_known = |path: &RequestPath| {
            let path = path.inside().map(WorkspacePath::as_str);
            path.is_some_and(|path| {
                staged
                    .changed
                    .paths()
                    .any(|own| own == path || own.starts_with(&format!("{path}/")))
                    || is_of_commit(path)
            })
        };
        approved.is_some()
            && staged.digest == approved
            && named == Some(session.stage.as_str())
            && request.paths.iter().all(is_known)
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
        let paths: Vec<&str> = staged.changed.paths().collect();
        let verified = match (session.mode, &progress.route) {
            (Mode::Strict, Some(Route::TestFirst | Route::Refactoring(_))) => "",
            (Mode::Strict | Mode::Explore | Mode::Debug, _) => "Airlock-Verified: no",
        };
        Ok(job.committing(&paths, verified, self.user().as_str()))
    }

    /// Remembers the commit that was made.
    pub(crate) fn after_commit(&self, caller: &Caller, value: &Value) -> Result<(), ToolFailure> {
        let desk = self.desk();
        let session = desk.held_session(caller, None)?;
        let mut place = place_of(&session);
        let commit = value.get("commit").and_then(Value::as_str);
        place.progress.commit = commit.map(str::to_owned);
        desk.keep(&session, place).map(drop)
    }

    /// A merge that left nothing behind ends the task.
    pub(crate) fn after_merge(
        &self,
        caller: &Caller,
        value: &mut Value,
    ) -> Result<(), ToolFailure> {
        let left = value.get("left").and_then(Value::as_array);
        if caller.phase != Some(Phase::Committing) || left.is_some_and(|left| !left.is_empty()) {
            return Ok(());
        }
        let desk = self.desk();
        let session = desk.held_session(caller, None)?;
        let staged = desk.staged(&session)?;
        let (session, _) = desk.step(&session, &Event::Committed, &staged, None)?;
        if let Some(object) = value.as_object_mut() {
            object.insert("state".to_owned(), serde_json::json!(session.phase));
        }
        Ok(())
    }

    /// A mode that was asked for and refused leaves the session strict.
    pub(crate) fn mode_refused(&self, caller: &Caller) {
        if let Some(id) = &caller.session {
            self.desk().mode_refused(&Owner::of(caller), id);
        }
    }
}

impl Desk {
    /// The same for the session `id` of `owner`.
    pub(crate) fn mode_refused(&self, owner: &Owner, id: &SessionId) {
        let found = self.state().and_then(|state| {
            let found = state.session(owner, id);
            found.map_err(|error| failure(&error))
        });
        if let Ok(Some(session)) = found
            && session.mode != Mode::Strict
        {
            let mut place = place_of(&session);
            place.mode = Mode::Strict;
            if place.state != Phase::Idle {
                place.state = Phase::Planning;
                place.progress = Progress::default();
            }
            // One that cannot be kept is as it was; the denial stands all the same.
            let _ = self.keep(&session, place);
        }
    }
}

/// Whether `path` is what a commit brings: objects, its branch and the index.
fn is_of_commit(path: &str) -> bool {
    crate::process::is_of_commit(path)
}
