//! The end of a task: its merge came to an end, in its turn or after an interruption.

use super::tools::place_of;
use crate::control::Desk;
use crate::control::for_caller::failure;
use crate::control::merge::{failure as merge_failure, unfinished_of};
use crate::tools::ToolFailure;
use airlock_core::{Caller, Phase};
use airlock_merge::{Journal, MergeError, MergeOutcome, Task};
use airlock_phases::Event;
use airlock_state::{Owner, Session};

impl Desk {
    /// The task that a merge which `caller` makes now would end.
    pub(crate) fn task(&self, caller: &Caller) -> Option<Task> {
        if caller.phase != Some(Phase::Committing) {
            return None;
        }
        let session = self.held_session(caller, None).ok()?;
        Some(Task {
            tenant: caller.tenant.clone(),
            user: caller.user.clone(),
            session: session.id.clone(),
            approved: place_of(&session).progress.approved?,
        })
    }

    /// `session`, which is committing, as it is once no merge is under way that may be its own:
    /// whoever gave the task up meanwhile would have it merged and not counted. What another session
    /// left unfinished keeps it from nothing.
    pub(super) fn after_its_merge(
        &self,
        caller: &Caller,
        session: &Session,
    ) -> Result<Session, ToolFailure> {
        let refused = |what: String, fix: &str| {
            Err(ToolFailure::Stored {
                code: "tool_unavailable",
                what,
                fix: Some(fix.to_owned()),
                retryable: true,
            })
        };
        match unfinished_of(self, session) {
            Ok(None) => self.held_session(caller, None),
            Ok(Some(id)) => refused(
                format!("merge `{id}`, which ends this task, was begun and is not complete"),
                "any `airlock` command completes it once it can",
            ),
            Err(MergeError::Busy) => {
                refused("a merge is under way".to_owned(), "wait until it is done")
            }
            Err(error) => Err(merge_failure(&error)),
        }
    }

    /// Ends the task that a merge was to end, if it left nothing of it behind. Told again, it finds
    /// the session elsewhere and leaves it there.
    pub(crate) fn merge_ended(
        &self,
        journal: &Journal,
        outcome: &MergeOutcome,
    ) -> Result<(), ToolFailure> {
        let Some(task) = journal.task.as_ref().filter(|_| outcome.is_complete()) else {
            return Ok(());
        };
        let owner = Owner {
            tenant: task.tenant.clone(),
            user: task.user.clone(),
        };
        let found = self.state()?.session(&owner, &task.session);
        let Some(session) = found.map_err(|error| failure(&error))? else {
            return Ok(());
        };
        let waits = session.phase == Phase::Committing
            && place_of(&session).progress.approved == Some(task.approved);
        if !waits {
            return Ok(());
        }
        let staged = self.staged(&session)?;
        let committed = place_of(&session).progress.commit.is_some();
        // What was not chosen is still to be merged.
        if staged.digest.is_some() || committed && staged.git.is_some() {
            return Ok(());
        }
        self.step(&session, &Event::Committed, &staged, None)
            .map(drop)
    }
}
