//! What a session asked and was granted, once it ended for good.
//!
//! Guarantee: in the transaction that ends a session for good its open questions and its grants end
//! with it, and those of the sessions that work for it. One that is only put away keeps them, since
//! it can be resumed and use an answer.

use crate::approvals::approvals;
use crate::change::Change;
use crate::error::StateError;
use crate::fact::{Fact, Kind};
use crate::journal::{Reader, Writer};
use crate::sessions::{Owner, Session, SessionState, own};
use crate::store::{Durable, State};
use airlock_core::{SessionId, Timestamp};

/// How far sessions are followed to those they work for: agents are invoked less deep.
const DEEPEST: usize = 32;

impl State {
    /// Archives the session `id` of `owner` for whoever worked in it and does not come back; none if
    /// there is none. A person can still resume it, but what it asked and was granted is over.
    pub fn leave_session(
        &self,
        owner: &Owner,
        id: &SessionId,
        now: Timestamp,
    ) -> Result<Option<Session>, StateError> {
        self.write(Durable::Disk, |writer| {
            let Some(session) = own(writer.find(Kind::Session, id.as_str())?, owner) else {
                return Ok(None);
            };
            if session.state == SessionState::Cancelled {
                return Ok(Some(session));
            }
            let archived = Change::SessionState {
                id: id.clone(),
                state: SessionState::Archived,
            };
            writer.append(&archived, now)?;
            end_asked(writer, &session, now)?;
            Ok(own(writer.find(Kind::Session, id.as_str())?, owner))
        })
    }
}

/// Ends every open question and grant of `ended`, and of the sessions that work for it.
pub(crate) fn end_asked(
    writer: &mut Writer<'_>,
    ended: &Session,
    now: Timestamp,
) -> Result<(), StateError> {
    for approval in approvals(writer.unsettled(&ended.owner.to_string(), now)?) {
        let session = approval.request.action.asker.session;
        if !works_for(writer, session, &ended.id)? {
            continue;
        }
        let id = approval.request.id;
        // What no event made grants nothing, and is to leave none behind.
        if writer.prove(Kind::Approval, &id.to_string())?.is_some() {
            writer.append(&Change::ApprovalEnded { id }, now)?;
        }
    }
    Ok(())
}

/// Whether `session` is `ended`, or one that works for it.
fn works_for(
    reader: &Reader<'_>,
    mut session: Option<SessionId>,
    ended: &SessionId,
) -> Result<bool, StateError> {
    for _ in 0..DEEPEST {
        let Some(id) = session else {
            return Ok(false);
        };
        if id == *ended {
            return Ok(true);
        }
        let found = reader.find(Kind::Session, id.as_str())?;
        session = found.and_then(Fact::session).and_then(|one| one.parent);
    }
    Ok(false)
}
