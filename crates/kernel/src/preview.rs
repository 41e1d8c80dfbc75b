//! What would be decided, without anything being done or recorded.

use crate::kernel::Kernel;
use crate::policy_store::PolicyInForce;
use airlock_core::{Request, Timestamp};
use airlock_policy::{
    CapabilityCheck, Decision, Engine, ExampleFields, Explanation, Judge, Policy, Replay, replay,
};
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

/// A policy as it works in this workspace: capabilities, then rules.
struct Here<'k> {
    kernel: &'k Kernel,
    policy: &'k PolicyInForce,
}

impl Judge for Here<'_> {
    fn engine(&self) -> &Engine {
        self.policy.engine()
    }

    fn judge(&self, request: &Request, now: Timestamp) -> Decision {
        self.kernel.preview(self.policy, request, now)
    }
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

    /// Past requests, decided under the policy in force and under `next`.
    pub fn replay(&self, requests: &[(u64, Request)], next: &PolicyInForce) -> Replay {
        let current = self.policy();
        let old = Here {
            kernel: self,
            policy: &current,
        };
        let new = Here {
            kernel: self,
            policy: next,
        };
        replay(requests, &old, &new, self.clock().now())
    }

    /// A preview is no action: what the enforcer says of it is shown, not recorded.
    fn preview(&self, policy: &PolicyInForce, request: &Request, now: Timestamp) -> Decision {
        let mut unrecorded = |_: &CapabilityCheck<'_>| {};
        let enforcer = self.enforcer().snapshot();
        self.rule(policy, &enforcer, request, &mut unrecorded, now)
    }

    /// `policy` as it would be in force in this workspace and for this user.
    pub fn policy_like(&self, policy: Policy) -> Result<Arc<PolicyInForce>, String> {
        self.store()
            .try_on(policy)
            .map(Arc::new)
            .map_err(|error| error.to_string())
    }
}
