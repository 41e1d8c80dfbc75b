//! What would be decided, without anything being done or recorded.
//!
//! Non-guarantee: a plugin is registered, with what its manifest asks for, only while it runs. Of one
//! that does not run here it is decided as if its manifest asked for everything, and said that it was.
//! The log does not keep arguments, so of a past `exec.own` it is not known what it was granted.

use crate::fronts::Front;
use crate::kernel::Kernel;
use crate::policy_store::PolicyInForce;
use crate::process::{ProcessFailure, granted_needs, runnable};
use airlock_core::{PluginName, Request, TagName, Timestamp};
use airlock_policy::capability::CapabilitySet;
use airlock_policy::{
    CapabilityCheck, CapabilityGrants, Decision, Enforcer, EnforcerSnapshot, Engine, ExampleFields,
    Explanation, Judge, Policy, Replay, Verdict, replay,
};
use std::borrow::Cow;
use std::collections::BTreeSet;
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
    /// Whether what the plugin that asks was granted is known; if not, only the workspace's and the
    /// user's word on capabilities was asked.
    pub knows_manifest: bool,
    /// What refuses the program that is to be run, where rules and capabilities do not.
    pub refused: Option<ProcessFailure>,
}

/// A policy as it works in this workspace: capabilities, then rules.
struct Here<'k> {
    kernel: &'k Kernel,
    policy: &'k PolicyInForce,
    /// Tags that one of the policies at hand gives to somebody.
    tags: BTreeSet<Arc<str>>,
}

impl Judge for Here<'_> {
    fn engine(&self) -> &Engine {
        self.policy.engine()
    }

    /// With the tags this policy gives. What a record has beyond those of policies, a plugin was given
    /// when it was approved.
    fn received<'r>(&self, request: &'r Request) -> Cow<'r, Request> {
        let caller = &request.caller;
        let mut tags = self.policy.tags(caller.plugin.as_str(), &caller.user);
        let is_front = Front::ALL
            .iter()
            .any(|front| front.as_str() == caller.plugin.as_str());
        let given = caller
            .tags
            .iter()
            .filter(|tag| !is_front && !self.tags.contains(tag.as_str()) && !tags.contains(tag));
        let given: Vec<TagName> = given.cloned().collect();
        tags.extend(given);
        let mut request = request.clone();
        request.caller.tags = tags;
        Cow::Owned(request)
    }

    fn knows_manifest(&self, request: &Request) -> bool {
        self.kernel.knows_manifest(&request.caller.plugin)
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
        let decision = self.preview(&policy, &request, self.clock().now());
        let explanation = policy.explain(&request, &decision);
        let refused = if decision.verdict == Verdict::Deny {
            None
        } else {
            unlisted(&policy, &request)
        };
        Ok(Explained {
            refused,
            knows_manifest: self.knows_manifest(&request.caller.plugin),
            request,
            decision,
            explanation,
        })
    }

    /// The policy a person approved last, where built-in defaults hold because the workspace's files
    /// were changed since: what a new one takes the place of. None where that is the policy in force,
    /// or is not known.
    pub fn last_approved(&self) -> Option<Arc<PolicyInForce>> {
        self.store().last_approved().map(Arc::new)
    }

    /// Past requests, decided under the policy that `next` would take the place of, and under `next`.
    pub fn replay(&self, requests: &[(u64, Request)], next: &PolicyInForce) -> Replay {
        let current = self.last_approved().unwrap_or_else(|| self.policy());
        let named = |policy: &PolicyInForce| -> BTreeSet<Arc<str>> {
            policy.policy().document().tags.keys().cloned().collect()
        };
        let tags = &named(&current) | &named(next);
        let old = Here {
            kernel: self,
            policy: &current,
            tags: tags.clone(),
        };
        let new = Here {
            kernel: self,
            policy: next,
            tags,
        };
        replay(requests, &old, &new, self.clock().now())
    }

    /// A preview is no action: what the enforcer says of it is shown, not recorded.
    fn preview(&self, policy: &PolicyInForce, request: &Request, now: Timestamp) -> Decision {
        let mut unrecorded = |_: &CapabilityCheck<'_>| {};
        let mut enforcer = self.enforcer().snapshot();
        if enforcer.grants(&request.caller.plugin).is_none() {
            enforcer = asking_for_everything(&request.caller.plugin);
        }
        let granted = granted_needs(request, self.workspace().root());
        let mut decision = self.rule(policy, &enforcer, request, &granted, &mut unrecorded, now);
        if decision.verdict == Verdict::RequireReview {
            self.deny_of_no_use(request, &mut decision);
        }
        decision
    }

    /// Whether `plugin` runs here, or is a front.
    fn knows_manifest(&self, plugin: &PluginName) -> bool {
        self.enforcer().snapshot().grants(plugin).is_some()
    }

    /// `policy` as it would be in force in this workspace and for this user.
    pub fn policy_like(&self, policy: Policy) -> Result<Arc<PolicyInForce>, String> {
        self.store()
            .try_on(policy)
            .map(Arc::new)
            .map_err(|error| error.to_string())
    }
}

/// What the policy's list of commands has against the program that `request` names. What a person runs
/// at the command line needs no place in it.
fn unlisted(policy: &PolicyInForce, request: &Request) -> Option<ProcessFailure> {
    let is_tool = request
        .tool
        .as_ref()
        .is_none_or(|tool| **tool == *"exec.run");
    let asks = request.syscall.name() == "exec.run" && is_tool;
    let of_person = request.caller.plugin.as_str() == Front::Cli.as_str();
    if !asks || of_person || request.command.is_empty() {
        return None;
    }
    let command: Vec<String> = request.command.iter().map(ToString::to_string).collect();
    runnable(policy.commands(), &command).err()
}

/// An enforcer for which `plugin` asks for everything there is: the workspace's set and the user's are
/// what is left to refuse it.
fn asking_for_everything(plugin: &PluginName) -> EnforcerSnapshot {
    let enforcer = Enforcer::new();
    let set = |patterns: &[&str]| CapabilitySet::parse(patterns);
    if let (Ok(allow), Ok(deny)) = (set(&["*"]), set(&[])) {
        // It knows nobody yet.
        let _registered = enforcer.register(plugin.clone(), CapabilityGrants { allow, deny });
    }
    enforcer.snapshot()
}
