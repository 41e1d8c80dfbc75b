//! Sessions on the road: a call that names one acts in it, within its budget, or not at all.

use crate::kernel::Kernel;
use crate::road::Call;
use airlock_core::{Caller, SessionId};
use airlock_policy::approval::BudgetLeft;
use airlock_state::{Owner, Session, SessionState, Spent, StateError};

/// Why a call cannot act in the session it names.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SessionProblem {
    /// There is none; another user's is none.
    #[error("there is no session `{0}`")]
    Unknown(SessionId),
    /// It is over.
    #[error("session `{id}` is {state}")]
    Ended { id: SessionId, state: SessionState },
    /// The store cannot tell.
    #[error("nothing was done, because sessions cannot be looked up or counted: {0}")]
    Store(#[from] StateError),
}

impl SessionProblem {
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::Unknown(_) => "unknown_session",
            Self::Ended { .. } => "session_ended",
            Self::Store(_) => "state_unavailable",
        }
    }

    pub(crate) fn hint(&self) -> String {
        match self {
            Self::Unknown(_) => "`airlock session list` shows what there is".to_owned(),
            Self::Ended {
                state: SessionState::Archived,
                id,
            } => format!("resume it: airlock session resume {id}"),
            Self::Ended { .. } => "begin another with `session.create`".to_owned(),
            Self::Store(error) => error.hint().unwrap_or_default().to_owned(),
        }
    }

    pub(crate) fn retryable(&self) -> bool {
        match self {
            Self::Unknown(_) | Self::Ended { .. } => false,
            Self::Store(error) => error.retryable(),
        }
    }
}

impl Kernel {
    /// The session `call` acts in; its mode and phase become the caller's.
    pub(crate) fn enter(
        &self,
        call: &Call,
        caller: &mut Caller,
    ) -> Result<Option<Session>, SessionProblem> {
        let Some(id) = &call.session else {
            return Ok(None);
        };
        let state = self.state()?;
        let session = state
            .session(&Owner::of(caller), id)?
            .ok_or_else(|| SessionProblem::Unknown(id.clone()))?;
        match session.state {
            SessionState::Active => {}
            state @ (SessionState::Cancelled | SessionState::Archived) => {
                let id = id.clone();
                return Err(SessionProblem::Ended { id, state });
            }
        }
        caller.mode = Some(session.mode);
        // A session that is not held to the discipline stands nowhere in it.
        caller.phase = session.progress.is_some().then_some(session.phase);
        Ok(Some(session))
    }

    /// Counts one call of `tool` in `session`; gives back the session with it.
    pub(crate) fn count_call(
        &self,
        session: &Session,
        tool: &str,
    ) -> Result<Session, SessionProblem> {
        let spent = Spent {
            calls: 1,
            ..Spent::default()
        };
        self.charge(session, spent, Some(tool))
    }

    /// Counts what the session `id` spent beside its calls: turns, tokens, cost. For the loop that
    /// drives it.
    pub fn spend(&self, id: &SessionId, spent: Spent) -> Result<Option<Session>, StateError> {
        let now = self.clock().now();
        self.state()?.charge(&self.owner(), id, spent, None, now)
    }

    /// What is left to the session `id`; none if there is none.
    pub fn left(&self, id: &SessionId) -> Result<Option<BudgetLeft>, StateError> {
        let found = self.state()?.session(&self.owner(), id)?;
        Ok(found.map(|session| session.left()))
    }

    fn charge(
        &self,
        session: &Session,
        spent: Spent,
        tool: Option<&str>,
    ) -> Result<Session, SessionProblem> {
        let now = self.clock().now();
        self.state()?
            .charge(&session.owner, &session.id, spent, tool, now)?
            .ok_or_else(|| SessionProblem::Unknown(session.id.clone()))
    }
}
