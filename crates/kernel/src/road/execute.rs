//! Runs what was allowed, in the tier it was allowed for.

use super::decide::{Ruling, SearchFilter};
use super::validate::Valid;
use crate::kernel::Kernel;
use crate::policy_store::PolicyInForce;
use crate::sanitise::{Sanitised, sanitise};
use crate::tools::{RunContext, ToolFailure};
use airlock_core::Tier;
use std::sync::atomic::AtomicBool;

/// A sanitised result.
pub(super) struct Executed {
    pub(super) sanitised: Sanitised,
    pub(super) hidden: u64,
}

impl Kernel {
    pub(super) fn execute(
        &self,
        policy: &PolicyInForce,
        valid: Valid,
        ruling: &Ruling,
    ) -> Result<Executed, ToolFailure> {
        match valid.request.tier {
            Tier::Kernel => {}
            // There is no fallback to a weaker tier: what has no host does not run.
            tier @ (Tier::Wasm | Tier::Process | Tier::Container) => {
                return Err(ToolFailure::TierUnavailable { tier });
            }
        }
        let budget = self.output_budget(&ruling.decision.imposed);
        let root = self.workspace().root().path();
        let now = self.clock().now();
        let filter = SearchFilter::new(policy, &ruling.enforcer, &valid.request, root, now);
        let context = RunContext {
            filter: &filter,
            max_output: budget as u64,
            cancelled: &AtomicBool::new(false),
            threads: self.search_threads(),
        };
        let output = valid.prepared.run(&context)?;
        let sanitised = sanitise(output.value, valid.spec.keep, budget);
        Ok(Executed {
            sanitised,
            hidden: output.hidden,
        })
    }
}
