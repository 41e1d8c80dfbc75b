//! From a call to a request: the tool exists, its arguments fit, its files are open.

use super::Call;
use super::outcome::Invalid;
use crate::fronts::Front;
use crate::kernel::Kernel;
use crate::process::Machine;
use crate::tools::{InvalidArguments, Prepared, ToolSpec};
use airlock_core::{Caller, Request, Syscall};

/// A call that is well formed, with everything it will read already open.
pub(super) struct Valid {
    pub(super) request: Request,
    pub(super) prepared: Box<dyn Prepared>,
    pub(super) spec: &'static ToolSpec,
    /// The machine of whoever asks, where it is not the kernel's own.
    pub(super) machine: Option<Machine>,
}

impl Kernel {
    pub(super) fn validate(
        &self,
        front: Front,
        call: &Call,
        caller: Caller,
    ) -> Result<Valid, Invalid> {
        let unknown = |suggestion| Invalid::UnknownTool {
            name: call.name.chars().take(60).collect(),
            suggestion,
        };
        let tool = self
            .registry()
            .get(&call.name)
            .map_err(|error| unknown(error.suggestion))?;
        if !tool.open_to(front) {
            return Err(unknown(None));
        }
        let spec = tool.spec();
        // A tool whose syscall is not in the table would be a bug of ours; it is refused all the
        // same, because what is unknown is denied.
        let syscall = Syscall::parse(spec.syscall).map_err(|_| Invalid::UnknownTool {
            name: spec.name.to_owned(),
            suggestion: None,
        })?;
        let refused = |source| Invalid::Arguments {
            tool: spec.name,
            source,
        };
        // A list would pass for an object with its fields in order, and no schema says that.
        if !call.arguments.is_object() {
            return Err(refused(InvalidArguments {
                at: String::new(),
                what: "the arguments are not an object".to_owned(),
                fix: None,
            }));
        }
        let prepared = tool
            .prepare(&call.arguments, self.workspace().root())
            .map_err(refused)?;
        let mut request = Request::new(syscall, spec.tier, caller);
        request.paths = prepared.paths().to_vec();
        request.tool = Some(spec.name.into());
        request.arguments = call.arguments.clone();
        prepared.describe(&mut request);
        Ok(Valid {
            request,
            prepared,
            spec,
            machine: None,
        })
    }
}
