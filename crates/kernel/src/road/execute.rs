//! Plans and runs what was allowed, in the tier it was allowed for.

use super::decide::{Ruling, SearchFilter};
use super::validate::Valid;
use crate::kernel::Kernel;
use crate::policy_store::PolicyInForce;
use crate::process::{Attached, Grounds, Planned, ProcessFailure, Ran};
use crate::sanitise::{Sanitised, sanitise};
use crate::tools::{RunContext, ToolFailure, ToolOutput};
use airlock_core::Tier;
use airlock_policy::Imposed;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// A sanitised result.
pub(super) struct Executed {
    pub(super) sanitised: Sanitised,
    pub(super) hidden: u64,
    pub(super) ran: Option<Box<Ran>>,
}

impl Kernel {
    /// What a program will be granted; none for what runs in the kernel itself.
    pub(super) fn plan(
        &self,
        policy: &PolicyInForce,
        valid: &Valid,
        ruling: &Ruling,
    ) -> Result<Option<Planned>, ToolFailure> {
        match (valid.request.tier, valid.prepared.job()) {
            (Tier::Kernel, None) => Ok(None),
            (Tier::Process, Some(job)) => {
                let grounds = Grounds {
                    policy,
                    workspace: self.workspace(),
                    machine: self.machine(),
                    request: &valid.request,
                    decision: &ruling.decision,
                };
                Ok(Some(Planned::new(job, &grounds)?))
            }
            // There is no fallback to a weaker tier: what has no host does not run.
            (tier @ (Tier::Kernel | Tier::Wasm | Tier::Process | Tier::Container), _) => {
                Err(ToolFailure::TierUnavailable { tier })
            }
        }
    }

    pub(super) fn execute(
        &self,
        policy: &PolicyInForce,
        valid: Valid,
        ruling: &Ruling,
        planned: Option<Planned>,
        attached: Option<Attached<'_>>,
    ) -> Result<Executed, ToolFailure> {
        match planned {
            Some(planned) => self.run_program(&valid, ruling, planned, attached),
            None => self.run_here(policy, valid, ruling),
        }
    }

    fn run_program(
        &self,
        valid: &Valid,
        ruling: &Ruling,
        planned: Planned,
        attached: Option<Attached<'_>>,
    ) -> Result<Executed, ToolFailure> {
        let finished = planned
            .run(self.workspace(), attached)
            .map_err(|failure: ProcessFailure| ToolFailure::from(failure))?;
        let budget = self.output_budget(&ruling.decision.imposed);
        Ok(Executed {
            sanitised: sanitise(finished.value, valid.spec.keep, budget),
            hidden: 0,
            ran: Some(Box::new(finished.ran)),
        })
    }

    fn run_here(
        &self,
        policy: &PolicyInForce,
        valid: Valid,
        ruling: &Ruling,
    ) -> Result<Executed, ToolFailure> {
        let budget = self.output_budget(&ruling.decision.imposed);
        let root = self.workspace().root().path();
        let now = self.clock().now();
        let filter = SearchFilter::new(policy, &ruling.enforcer, &valid.request, root, now);
        let cancelled = crate::cancel::flag();
        let context = RunContext {
            filter: &filter,
            max_output: budget as u64,
            cancelled: &cancelled,
            threads: self.search_threads(),
        };
        let run = || valid.prepared.run(&context);
        let output = within(&ruling.decision.imposed, &cancelled, run)?;
        let sanitised = sanitise(output.value, valid.spec.keep, budget);
        Ok(Executed {
            sanitised,
            hidden: output.hidden,
            ran: None,
        })
    }
}

/// The least memory a limit can promise: built-in tools keep within fixed buffers below this.
const LEAST_MEMORY: u64 = 64 * 1024 * 1024;

/// Runs `run` within the limits policy imposes.
fn within(
    imposed: &Imposed,
    cancelled: &AtomicBool,
    run: impl FnOnce() -> Result<ToolOutput, ToolFailure>,
) -> Result<ToolOutput, ToolFailure> {
    if let Some(limit) = imposed
        .max_memory
        .filter(|limit| limit.as_bytes() < LEAST_MEMORY)
    {
        return Err(ToolFailure::MemoryLimit { limit });
    }
    let Some(limit) = imposed.max_duration else {
        return run();
    };
    let (done, waiting) = mpsc::channel::<()>();
    let begun = Instant::now();
    let allowed = Duration::from_millis(limit.as_millis());
    let result = std::thread::scope(|scope| {
        scope.spawn(move || {
            // Woken at once when the run ends and the sender is dropped.
            if waiting.recv_timeout(allowed) == Err(mpsc::RecvTimeoutError::Timeout) {
                cancelled.store(true, Ordering::Relaxed);
            }
        });
        let result = run();
        drop(done);
        result
    });
    // A result that came too late is none: what took longer is not what was allowed.
    if begun.elapsed() > allowed {
        return Err(ToolFailure::TimedOut { limit });
    }
    result
}
