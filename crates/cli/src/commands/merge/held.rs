//! A session that is held to phases and has its work in the stage. What it validated goes in its own
//! way, with its commit and its coverage counted; what it did not is said before anybody says yes.

use super::Reach;
use crate::failure::Failure;
use crate::output::Output;
use crate::visible::visible;
use airlock_core::SessionId;
use airlock_kernel::{Call, Done, Outcome, sanitise_line};
use serde_json::{Value, json};
use std::path::Path;

/// The session, and where it stands.
pub(super) struct Held {
    id: SessionId,
    title: String,
    state: String,
}

impl Held {
    /// The session that worked in `stage` last, if it is held and in the middle of a task.
    pub(super) fn in_stage(
        reach: &mut Reach<'_>,
        stage: &str,
        output: &mut Output,
    ) -> Option<Self> {
        let call = Call::new("session.list", json!({ "archived": false }));
        let Ok(Outcome::Done(found)) = reach.submit(&call, output) else {
            return None;
        };
        let sessions = found.value.get("sessions")?.as_array()?;
        let mut own = sessions.iter().filter(|one| {
            text(one, "stage") == stage
                && text(one, "state") == "active"
                && one.get("disciplined") == Some(&Value::Bool(true))
        });
        // Until then nothing of its own is in the stage.
        let session = own.find(|one| !["idle", "planning"].contains(&text(one, "phase")))?;
        Some(Self {
            id: SessionId::new(text(session, "id")).ok()?,
            title: text(session, "title").to_owned(),
            state: text(session, "phase").to_owned(),
        })
    }

    /// What a merge that goes past the session brings.
    pub(super) fn remark(&self) -> String {
        let validated = if self.is_reviewed() {
            "it goes in without the session's commit, and its coverage is not counted"
        } else {
            "nobody has validated it"
        };
        format!(
            "session {} is at work on this, and in `{}`: {validated}",
            self.id,
            sanitise_line(&self.state, 40)
        )
    }

    fn is_reviewed(&self) -> bool {
        ["reviewing", "committing"].contains(&self.state.as_str())
    }

    fn call(&self, name: &str, arguments: Value) -> Call {
        let mut call = Call::new(name, arguments);
        call.session = Some(self.id.clone());
        call
    }

    fn status(&self, reach: &mut Reach<'_>, output: &mut Output) -> Result<Value, Failure> {
        let done = reach.done(&self.call("phase.status", json!({})), output)?;
        Ok(done.value)
    }

    /// Commits and merges all that the session validated, as the session would. None if it did not
    /// validate what is there now.
    pub(super) fn commit(
        &self,
        reach: &mut Reach<'_>,
        output: &mut Output,
    ) -> Result<Option<Done>, Failure> {
        if !self.is_reviewed() {
            return Ok(None);
        }
        let status = self.status(reach, output)?;
        let changes = field(&status, "changes");
        let digest = field(changes, "digest");
        let approved = self.state == "committing";
        let stands = if approved {
            field(&status, "approved") == digest
        } else {
            field(field(&status, "last_run"), "of_the_stage_as_it_is") == &Value::Bool(true)
        };
        if !stands || digest.is_null() {
            return Ok(None);
        }
        for kind in ["tests", "source", "other"] {
            for path in field(changes, kind).as_array().into_iter().flatten() {
                let path = sanitise_line(&visible(path.as_str().unwrap_or_default()), 200);
                output.note(format!("{kind:<7}{path}"));
            }
        }
        let directories = field(changes, "directories").as_array();
        for path in directories.into_iter().flatten() {
            let path = sanitise_line(&visible(path.as_str().unwrap_or_default()), 200);
            output.note(format!("{:<7}{path}/", "other"));
        }
        if !approved {
            let call = self.call("phase.commit", json!({ "digest": digest }));
            let what = format!("merging what session {} made", self.id);
            let done = reach.reviewed(&call, &what, output)?;
            if let Some(warning) = field(&done.value, "warning").as_str() {
                output.warning(&sanitise_line(warning, 200));
            }
        }
        let root = reach.kernel(output)?.workspace().root().path();
        let is_repository = Path::new(root).join(".git/objects").is_dir();
        if field(&status, "commit").is_null() && is_repository {
            reach.free_stages();
            let call = self.call("git.commit", json!({ "message": self.message() }));
            reach.reviewed(&call, "committing it", output)?;
        }
        reach.free_stages();
        let status = self.status(reach, output)?;
        let call = self.call("merge.apply", field(&status, "merge").clone());
        reach.reviewed(&call, "merging it", output).map(Some)
    }

    fn message(&self) -> String {
        match self.title.trim() {
            "" => format!("Merge what session {} made", self.id),
            title => title.to_owned(),
        }
    }

    /// Ends the task of a session whose changes were merged past it.
    pub(super) fn give_up(&self, reach: &mut Reach<'_>, output: &mut Output) {
        let call = self.call("phase.advance", json!({ "to": "idle" }));
        match reach.done(&call, output) {
            Ok(_) => output.note(format!("the task of session {} is given up", self.id)),
            Err(failure) => output.warning(&format!(
                "session {} still stands in `{}`: {}",
                self.id,
                sanitise_line(&self.state, 40),
                failure.what()
            )),
        }
    }
}

/// What `value` has under `name`, or null.
fn field<'a>(value: &'a Value, name: &str) -> &'a Value {
    value.get(name).unwrap_or(&Value::Null)
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}
