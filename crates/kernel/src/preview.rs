//! What would be decided, without anything being done or recorded.

use crate::kernel::Kernel;
use crate::policy_store::PolicyInForce;
use airlock_core::Request;
use airlock_policy::{CapabilityCheck, Decision, ExampleFields, Explanation, Policy};
use std::sync::Arc;

/// A request with its decision and why.
#[derive(Debug)]
pub struct Explained {
    /// The request as it was understood.
    pub request: Request,
    /// What would be decided.
    pub decision: Decision,
    /// Why, and what would change it.
    pub explanation: Explanation,
}

impl Kernel {
    /// What would be decided about the request `fields` describe, in this workspace and for this
    /// user, under `policy` or the one in force.
    pub fn explain(
        &self,
        fields: &ExampleFields,
        policy: Option<Policy>,
    ) -> Result<Explained, String> {
        let policy = match policy {
            Some(policy) => self.policy_like(policy)?,
            None => self.policy(),
        };
        let mut request = fields.request_in(self.workspace().root().path())?;
        request.caller.workspace = self.workspace().id().clone();
        request.caller.user = self.user().clone();
        let granted = policy.tags(request.caller.plugin.as_str(), self.user());
        request.caller.tags.extend(granted);
        // A preview is no action: what the enforcer says of it is shown, not recorded.
        let mut unrecorded = |_: &CapabilityCheck<'_>| {};
        let enforcer = self.enforcer().snapshot();
        let decision = self.rule(
            &policy,
            &enforcer,
            &request,
            &mut unrecorded,
            self.clock().now(),
        );
        let explanation = policy.explain(&request, &decision);
        Ok(Explained {
            request,
            decision,
            explanation,
        })
    }

    /// `policy` as it would be in force in this workspace and for this user.
    pub fn policy_like(&self, policy: Policy) -> Result<Arc<PolicyInForce>, String> {
        self.store()
            .try_on(policy)
            .map(Arc::new)
            .map_err(|error| error.to_string())
    }
}
