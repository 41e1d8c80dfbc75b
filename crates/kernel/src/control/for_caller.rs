//! Control syscalls on what is stored: they act for whoever calls, and for nobody else.

use crate::clock::Clock;
use crate::hold::StateHold;
use crate::policy_store::PolicyStore;
use crate::sanitise::{Sessions, unusable};
use crate::tools::{Prepared, RunContext, ToolFailure, ToolOutput};
use airlock_core::{Caller, Request, RequestPath, SessionId};
use airlock_sanitise::Sanitiser;
use airlock_state::{State, StateError};
use serde_json::Value;
use std::sync::{Arc, OnceLock};

/// What these syscalls work with.
#[derive(Clone)]
pub(crate) struct Desk {
    pub(crate) store: Arc<PolicyStore>,
    pub(crate) hold: Arc<StateHold>,
    pub(crate) clock: Clock,
    pub(crate) sanitisers: Arc<Sessions>,
}

impl Desk {
    pub(crate) fn state(&self) -> Result<Arc<State>, ToolFailure> {
        self.hold.get().map_err(|error| failure(&error))
    }

    /// What cleans text that is kept for `session`: it looks for all that is looked for in results.
    pub(crate) fn sanitiser(&self, session: &SessionId) -> Result<Arc<Sanitiser>, ToolFailure> {
        let policy = self.store.current();
        let sanitiser = self.sanitisers.of(Some(session), &policy);
        sanitiser.map_err(|refused| unusable(&refused))
    }
}

/// A failure of the store, as the tool's.
pub(crate) fn failure(error: &StateError) -> ToolFailure {
    let code = match error {
        StateError::Limit { .. } => "limit",
        StateError::Unfit(_) => "state_unfit",
        StateError::NotRegular(_)
        | StateError::Newer { .. }
        | StateError::Foreign(_)
        | StateError::Damaged { .. }
        | StateError::InUse(_)
        | StateError::Io { .. }
        | StateError::Unwritable { .. }
        | StateError::Database { .. }
        | StateError::Seal(_) => "state_unavailable",
    };
    ToolFailure::Stored {
        code,
        what: error.to_string(),
        fix: error.hint().map(str::to_owned),
        retryable: error.retryable(),
    }
}

/// A session that is not there, or not the caller's: the same to whoever asks.
pub(crate) fn unknown_session(id: &SessionId) -> ToolFailure {
    ToolFailure::Stored {
        code: "unknown_session",
        what: format!("there is no session `{id}`"),
        fix: Some("`airlock session list` shows what there is".to_owned()),
        retryable: false,
    }
}

/// A prepared syscall: a closure over what it validated, run for the caller the road established.
pub(crate) struct ForCaller<F> {
    run: F,
    caller: OnceLock<Caller>,
}

impl<F> ForCaller<F>
where
    F: FnOnce(&Caller) -> Result<Value, ToolFailure> + Send + 'static,
{
    pub(crate) fn boxed(run: F) -> Box<dyn Prepared> {
        Box::new(Self {
            run,
            caller: OnceLock::new(),
        })
    }
}

impl<F> Prepared for ForCaller<F>
where
    F: FnOnce(&Caller) -> Result<Value, ToolFailure> + Send,
{
    fn paths(&self) -> &[RequestPath] {
        &[]
    }

    /// The road shows the request before it is decided, once: this is where the caller is in it.
    fn describe(&self, request: &mut Request) {
        let _ = self.caller.set(request.caller.clone());
    }

    fn run(self: Box<Self>, _context: &RunContext<'_>) -> Result<ToolOutput, ToolFailure> {
        let Some(caller) = self.caller.get() else {
            return Err(ToolFailure::Cancelled);
        };
        let value = (self.run)(caller)?;
        Ok(ToolOutput { value, hidden: 0 })
    }
}
