//! May it happen? Capabilities first, then rules, then what a person already granted.

use super::record::Trail;
use crate::kernel::Kernel;
use crate::policy_store::PolicyInForce;
use crate::sanitise::sanitise_path;
use crate::tools::ReadFilter;
use airlock_core::{Request, Syscall, Timestamp, WorkspacePath};
use airlock_policy::{
    CheckQuery, CheckResult, CheckSink, Contribution, Decision, EnforcerSnapshot, Imposed, Layer,
    Opinion, Verdict,
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A decision, and the view of the enforcer it was taken on.
pub(super) struct Ruling {
    pub(super) decision: Decision,
    pub(super) enforcer: EnforcerSnapshot,
}

impl Kernel {
    pub(super) fn decide(
        &self,
        policy: &PolicyInForce,
        request: &Request,
        trail: &mut Trail<'_>,
    ) -> Ruling {
        let enforcer = self.enforcer().snapshot();
        let now = trail.started();
        let mut decision = self.rule(policy, &enforcer, request, trail, now);
        self.apply_grant(policy, request, &mut decision, now);
        Ruling { decision, enforcer }
    }

    /// Capabilities, then rules; what a person granted is not looked at.
    pub(crate) fn rule(
        &self,
        policy: &PolicyInForce,
        enforcer: &EnforcerSnapshot,
        request: &Request,
        sink: &mut impl CheckSink,
        now: Timestamp,
    ) -> Decision {
        match self.missing_capability(policy, enforcer, request, sink) {
            Some(contribution) => refused(policy, contribution),
            None => policy.decide(request, now),
        }
    }

    /// Checks every capability the request needs; the first that is not granted is the answer.
    fn missing_capability(
        &self,
        policy: &PolicyInForce,
        enforcer: &EnforcerSnapshot,
        request: &Request,
        sink: &mut impl CheckSink,
    ) -> Option<Contribution> {
        let needs = request.needs(self.workspace().root().path());
        if needs.is_empty() {
            let reason = format!(
                "`{}` names nothing it could be granted for",
                request.syscall
            );
            return Some(denial("capability", reason));
        }
        needs.iter().find_map(|capability| {
            let query = CheckQuery {
                plugin: &request.caller.plugin,
                capability,
                workspace: policy.workspace_allow(),
                user: policy.user_allow(),
                workspace_id: &request.caller.workspace,
                user_id: &request.caller.user,
            };
            match enforcer.check(&query, sink) {
                CheckResult::Allowed => None,
                CheckResult::Denied(gate) => {
                    let capability = sanitise_path(capability);
                    let reason = format!("capability `{capability}` is not granted: {gate}");
                    Some(denial(gate.as_str(), reason))
                }
            }
        })
    }

    /// A review that a person already answered with yes counts as allowed.
    fn apply_grant(
        &self,
        policy: &PolicyInForce,
        request: &Request,
        decision: &mut Decision,
        now: Timestamp,
    ) {
        if decision.verdict == Verdict::RequireReview
            && let Some(grant) = self.granted(policy, request, now)
        {
            decision.verdict = Verdict::Allow;
            decision.contributions.push(Contribution {
                layer: Layer::Grant,
                rule: grant.into(),
                opinion: Opinion::Allow,
                reason: "approved by a person".into(),
            });
        }
    }
}

fn denial(rule: &str, reason: String) -> Contribution {
    Contribution {
        layer: Layer::Capability,
        rule: Arc::from(rule),
        opinion: Opinion::Deny,
        reason: reason.into(),
    }
}

fn refused(policy: &PolicyInForce, contribution: Contribution) -> Decision {
    Decision {
        verdict: Verdict::Deny,
        contributions: vec![contribution],
        imposed: Imposed::default(),
        generation: policy.generation(),
    }
}

/// Asks policy about each file a search or a listing comes across.
pub(super) struct SearchFilter<'a> {
    policy: &'a PolicyInForce,
    enforcer: &'a EnforcerSnapshot,
    request: &'a Request,
    root: &'a str,
    now: Timestamp,
    /// Copies of the request, one a thread: copying its arguments for each of thousands of files
    /// would cost more than deciding.
    copies: Mutex<Vec<Request>>,
    /// `fs.read`, where the search shows what it would show.
    reading: Option<Syscall>,
}

impl<'a> SearchFilter<'a> {
    pub(super) fn new(
        policy: &'a PolicyInForce,
        enforcer: &'a EnforcerSnapshot,
        request: &'a Request,
        root: &'a str,
        now: Timestamp,
    ) -> Self {
        let copies = Mutex::new(Vec::new());
        let shows_content = request.syscall.name() == "search.grep";
        let reading = shows_content
            .then(|| Syscall::parse("fs.read").ok())
            .flatten()
            .filter(|reading| policy.policy().tells_apart(request.syscall, *reading));
        Self {
            policy,
            enforcer,
            request,
            root,
            now,
            copies,
            reading,
        }
    }

    fn copies(&self) -> MutexGuard<'_, Vec<Request>> {
        self.copies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn allows(&self, request: &Request) -> bool {
        let granted = request.needs(self.root).iter().all(|capability| {
            self.enforcer.would_grant(&CheckQuery {
                plugin: &request.caller.plugin,
                capability,
                workspace: self.policy.workspace_allow(),
                user: self.policy.user_allow(),
                workspace_id: &request.caller.workspace,
                user_id: &request.caller.user,
            })
        });
        granted && self.policy.decide(request, self.now).verdict == Verdict::Allow
    }
}

impl SearchFilter<'_> {
    /// Makes `request` one for `syscall`, and for the tool of that name.
    fn name(&self, request: &mut Request, syscall: Syscall) {
        if self.reading.is_some() {
            request.syscall = syscall;
            request.tool = Some(syscall.name().into());
        }
    }

    /// Decides with a copy of the request that names `path` alone.
    fn with<T>(&self, path: &WorkspacePath, decide: impl FnOnce(&mut Request) -> T) -> T {
        let copy = self.copies().pop();
        let mut request = copy.unwrap_or_else(|| self.request.clone());
        request.paths.clear();
        request.paths.push(path.clone().into());
        let decided = decide(&mut request);
        self.name(&mut request, self.request.syscall);
        self.copies().push(request);
        decided
    }
}

impl ReadFilter for SearchFilter<'_> {
    fn may_read(&self, path: &WorkspacePath) -> bool {
        self.with(path, |request| {
            // What shows content is reading, whatever it is called.
            let same = self.reading.is_none_or(|reading| {
                self.name(request, reading);
                self.allows(request)
            });
            self.name(request, self.request.syscall);
            same && self.allows(request)
        })
    }

    fn forbids_content(&self, path: &WorkspacePath) -> bool {
        let Some(reading) = self.reading else {
            return false;
        };
        self.with(path, |request| {
            self.name(request, reading);
            self.policy.decide(request, self.now).verdict == Verdict::Deny
        })
    }
}
