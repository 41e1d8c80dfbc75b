//! Syscalls that steer Airlock itself, as tools on the same road: policy, trust, the log.
//!
//! Each validates in `prepare`, which has no effect, and acts in `run`, which is reached only after
//! the decision and with the attempt on disk.

mod approvals;
mod audit_read;
pub(crate) mod for_caller;
mod leave;
pub(crate) mod merge;
mod model_chat;
mod policy_init;
mod policy_update;
mod remember;
mod session_view;
mod sessions;
mod summary;
mod trust;

use crate::tools::{InvalidArguments, Keep, Prepared, Registry, ToolSchema, ToolSpec};
use airlock_core::{RequestPath, Tier};
pub(crate) use approvals::Through;
pub(crate) use for_caller::{Desk, ForCaller};
pub(crate) use leave::says_nothing;
use serde::de::DeserializeOwned;
use serde_json::Value;
pub(crate) use sessions::{is_person, meant};

/// Adds the control syscalls to the tools of a kernel.
pub(crate) fn register(registry: &mut Registry, desk: &Desk) {
    let store = &desk.store;
    approvals::register(registry, desk);
    sessions::register(registry, desk);
    remember::register(registry, desk);
    crate::phases::register(registry, desk);
    registry.add(Box::new(policy_init::PolicyInit::new(store)));
    registry.add(Box::new(policy_update::PolicyUpdate::new(store)));
    registry.add(Box::new(trust::Approve::new(store)));
    registry.add(Box::new(trust::Revoke::new(store)));
    registry.add(Box::new(audit_read::AuditRead));
    leave::register(registry);
    registry.add(Box::new(model_chat::ModelChat));
    registry.add(Box::new(merge::Apply::new(desk)));
    registry.add(Box::new(merge::Undo::new(desk)));
    registry.add(Box::new(session_view::SessionPolicy::new(store)));
    registry.add(Box::new(session_view::SessionLog::new(store)));
}

/// The description of a control syscall: tool and syscall have one name.
pub(crate) const fn spec(
    name: &'static str,
    summary: &'static str,
    schema: ToolSchema,
) -> ToolSpec {
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

/// Reads arguments into their type, naming the one at fault.
pub(crate) fn arguments<T: DeserializeOwned>(value: &Value) -> Result<T, InvalidArguments> {
    serde_path_to_error::deserialize(value).map_err(|error| InvalidArguments {
        at: error.path().to_string(),
        what: error.inner().to_string(),
        fix: None,
    })
}

/// A prepared control syscall: a closure over what it validated.
struct Ready<F>(F);

impl<F> Prepared for Ready<F>
where
    F: FnOnce() -> Result<crate::tools::ToolOutput, crate::tools::ToolFailure> + Send,
{
    fn paths(&self) -> &[RequestPath] {
        &[]
    }

    fn run(
        self: Box<Self>,
        _context: &crate::tools::RunContext<'_>,
    ) -> Result<crate::tools::ToolOutput, crate::tools::ToolFailure> {
        (self.0)()
    }
}
