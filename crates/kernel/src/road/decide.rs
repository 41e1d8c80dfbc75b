//! May it happen? Capabilities first, then rules, then what a person already granted.

use super::Scene;
use super::outcome::{Invalid, Outcome};
use super::record::Trail;
use super::turns::NoTurn;
use super::validate::Valid;
use crate::asking::{Answered, Grounds, is_gated, raise_budget};
use crate::fronts::Front;
use crate::kernel::Kernel;
use crate::phases::{After, Held};
use crate::policy_store::PolicyInForce;
use crate::process::{Job, Within, is_unwritable, view};
use crate::sanitise::sanitise_path;
use crate::tools::ReadFilter;
use airlock_core::{
    CapabilityForm, Effect, EffectSet, PluginName, Request, RequestPath, Syscall, Timestamp,
    WorkspacePath,
};
use airlock_policy::approval::Headless;
use airlock_policy::{
    CheckQuery, CheckResult, CheckSink, Contribution, Decision, EnforcerSnapshot, Imposed, Layer,
    Opinion, Verdict,
};
use airlock_state::{Session, StateError};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A decision, the view of the enforcer it was taken on, and what a review is about.
pub(super) struct Ruling {
    pub(super) decision: Decision,
    pub(super) enforcer: EnforcerSnapshot,
    pub(super) grounds: Grounds,
    /// Whether it is allowed because somebody answered: then only for the stage as it was.
    pub(super) answered: bool,
    /// Why it cannot be told whether somebody answered already; it is not allowed then.
    pub(super) unknown: Option<StateError>,
}

impl Kernel {
    pub(super) fn decide(
        &self,
        scene: Scene<'_>,
        valid: &Valid,
        trail: &mut Trail<'_>,
    ) -> Result<Ruling, NoTurn> {
        let enforcer = self.enforcer().snapshot();
        let request = &valid.request;
        let mut decision = self.judge(scene, &enforcer, valid, trail);
        self.review_result(scene.policy, request, &mut decision);
        let facts = Self::raise_gates(scene, request, &mut decision);
        let mut ruling = Ruling {
            decision,
            enforcer,
            grounds: Grounds::none(facts),
            answered: false,
            unknown: None,
        };
        self.seek_answer(scene, valid, &mut ruling, trail)?;
        Ok(ruling)
    }

    /// Counts the call. If others used the budget up since it was looked at, it needs an answer
    /// after all.
    pub(super) fn count(
        &self,
        scene: Scene<'_>,
        session: &Session,
        valid: &Valid,
        ruling: &mut Ruling,
        trail: &mut Trail<'_>,
    ) -> Result<(), Outcome> {
        let counted = self
            .count_call(session, valid.spec.name)
            .map_err(|problem| trail.refuse(&Invalid::Session(problem)))?;
        let over = counted
            .budget
            .calls
            .is_some_and(|most| counted.used.calls > most);
        let gated = is_gated(scene, &valid.request);
        if over && gated && !ruling.grounds.facts.over_budget {
            raise_budget(&mut ruling.decision, &mut ruling.grounds.facts);
            self.seek_answer(scene, valid, ruling, trail)
                .map_err(|unheard| trail.refuse(&unheard.into()))?;
        }
        Ok(())
    }

    /// A review that has its answer already - by a grant, whose use is counted, or by the policy -
    /// is an allow. With nobody there to ask, the policy may make it a denial.
    fn seek_answer(
        &self,
        scene: Scene<'_>,
        valid: &Valid,
        ruling: &mut Ruling,
        trail: &mut Trail<'_>,
    ) -> Result<(), NoTurn> {
        if ruling.decision.verdict != Verdict::RequireReview {
            return Ok(());
        }
        let (job, request) = (valid.prepared.job(), &valid.request);
        if job.is_some() && self.deny_of_no_use(request, &mut ruling.decision) {
            return Ok(());
        }
        // An answer is for what the stage holds. Whoever is before this call may still change that,
        // and nobody can once it is this call's turn: what is looked at now is what it runs on.
        let staged = job.is_some_and(|job| job.stage(&valid.stage).is_some());
        let now = if staged && valid.turn.wait()? {
            self.clock().now()
        } else {
            trail.started()
        };
        ruling.grounds = self.grounds(ruling.grounds.facts, job, &valid.stage);
        let decision = &mut ruling.decision;
        if let Some(by) = self.merge_settled(scene, request, decision) {
            let allows = by.opinion == Opinion::Allow;
            decision.contributions.push(by);
            if allows {
                decision.verdict = Verdict::Allow;
                return Ok(());
            }
        }
        match self.settled(scene.policy, request, decision, &ruling.grounds, now) {
            Ok(Answered::Granted(by)) => {
                ruling.answered = true;
                decision.verdict = Verdict::Allow;
                decision.contributions.push(by);
            }
            Ok(Answered::ByPolicy(by, gate)) => {
                trail.answered_by_policy(gate);
                ruling.answered = true;
                decision.verdict = Verdict::Allow;
                decision.contributions.push(by);
            }
            Ok(Answered::Open) if scene.unattended => deny_unattended(scene.policy, decision),
            Ok(Answered::Open) => {}
            Err(error) => ruling.unknown = Some(error),
        }
        Ok(())
    }

    /// Denies a change of files for which a yes would be of no use: what makes it runs in a sandbox,
    /// which could not. Says whether it is one.
    pub(crate) fn deny_of_no_use(&self, request: &Request, decision: &mut Decision) -> bool {
        let root = Path::new(self.workspace().root().path());
        let mut paths = request.paths.iter().filter_map(RequestPath::inside);
        let changes =
            request.syscall.area() == "fs" && request.effects.intersects(EffectSet::CHANGES);
        let Some(kept) = paths.find(|path| changes && is_unwritable(root, path)) else {
            return false;
        };
        decision.verdict = Verdict::Deny;
        decision.contributions.push(Contribution {
            layer: Layer::BuiltIn,
            rule: "kept-from-sandboxes".into(),
            opinion: Opinion::Deny,
            reason: format!(
                "no sandbox can write `{}`, whoever approves it: a person changes it themselves",
                sanitise_path(kept.as_str())
            )
            .into(),
        });
        true
    }

    /// Capabilities, then rules; or instead of the policy's own rules a token, if it is good for this
    /// very request.
    fn judge(
        &self,
        scene: Scene<'_>,
        enforcer: &EnforcerSnapshot,
        valid: &Valid,
        trail: &mut Trail<'_>,
    ) -> Decision {
        let request = &valid.request;
        let (policy, now) = (scene.policy, trail.started());
        let nothing = BTreeSet::new();
        let granted = valid.prepared.job().map_or(&nothing, Job::needs);
        if let Some(missing) = self.missing_capability(policy, enforcer, request, granted, trail) {
            return refused(policy, missing);
        }
        if let Some(outside) = outside_any_call(scene, request) {
            return refused(policy, outside);
        }
        let redeemed = scene.token.and_then(|token| {
            let redeemed = self.redeem(token, request, policy.generation(), now);
            trail.presented(&redeemed);
            redeemed.ok()
        });
        let token = redeemed.as_ref();
        let held = scene.session.filter(|_| request.caller.phase.is_some());
        let held = held.and_then(|session| {
            let root = view(self.workspace(), &valid.stage).ok()?;
            Some((session, root))
        });
        let decision = match held {
            Some((session, root)) => {
                Held::of(session).decide(policy, request, token, &After::Asked(&root), now)
            }
            None => policy.decide_with(request, token, now),
        };
        let outer = scene.within.and_then(|within| of_outer(request, within));
        match outer {
            Some(outer) => {
                let ruled = self.rule(policy, enforcer, &outer, granted, trail, now);
                narrower(
                    (decision, &request.caller.plugin),
                    (ruled, &outer.caller.plugin),
                )
            }
            None => decision,
        }
    }

    /// Capabilities - those that `granted` takes, too - then rules; whether a person approved it is
    /// not looked at.
    pub(crate) fn rule(
        &self,
        policy: &PolicyInForce,
        enforcer: &EnforcerSnapshot,
        request: &Request,
        granted: &BTreeSet<String>,
        sink: &mut impl CheckSink,
        now: Timestamp,
    ) -> Decision {
        match self.missing_capability(policy, enforcer, request, granted, sink) {
            Some(contribution) => refused(policy, contribution),
            None => policy.decide(request, now),
        }
    }

    /// Checks every capability the request needs, and those that what its program is granted besides
    /// takes; the first that is not granted is the answer.
    fn missing_capability(
        &self,
        policy: &PolicyInForce,
        enforcer: &EnforcerSnapshot,
        request: &Request,
        granted: &BTreeSet<String>,
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
        needs.iter().chain(granted).find_map(|capability| {
            let query = CheckQuery {
                plugin: &request.caller.plugin,
                capability,
                workspace: policy.workspace_allow(),
                user: policy.user_allow(&request.caller.user),
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
}

/// What a plugin does goes by the session of the call it serves: its mode, its phase, its budget. One
/// that serves none has none of these, so it only reads.
fn outside_any_call(scene: Scene<'_>, request: &Request) -> Option<Contribution> {
    let reads = EffectSet::of(&[Effect::Read]);
    let is_outside = scene.front == Front::Plugin && !scene.serves;
    (is_outside && !request.effects.is_subset(reads)).then(|| Contribution {
        layer: Layer::BuiltIn,
        rule: "plugin-serves-a-call".into(),
        opinion: Opinion::Deny,
        reason: "a plugin changes, runs and reaches things only as part of a call it serves".into(),
    })
}

/// The same request by whoever runs the command that it came out of, where policy may see a
/// difference between them.
pub(super) fn of_outer(request: &Request, within: &Within) -> Option<Request> {
    let outer = within.caller();
    (outer.plugin != request.caller.plugin).then(|| {
        let mut asked = request.clone();
        asked.caller.plugin.clone_from(&outer.plugin);
        asked.caller.tags.clone_from(&outer.tags);
        asked
    })
}

/// The stricter of two decisions, each about a caller, with the stricter limits and the reasons of both:
/// who is asked for review is told all of why.
fn narrower(
    (own, caller): (Decision, &PluginName),
    (outer, runs): (Decision, &PluginName),
) -> Decision {
    let strictness = |decision: &Decision| match decision.verdict {
        Verdict::Allow => 0,
        Verdict::RequireReview => 1,
        Verdict::Deny => 2,
    };
    let imposed = Imposed {
        max_duration: least(own.imposed.max_duration, outer.imposed.max_duration),
        max_output: least(own.imposed.max_output, outer.imposed.max_output),
        max_memory: least(own.imposed.max_memory, outer.imposed.max_memory),
    };
    let (mut stricter, other, whom) = if strictness(&outer) > strictness(&own) {
        (outer, own, caller)
    } else {
        (own, outer, runs)
    };
    for mut one in other.contributions {
        if !stricter.contributions.contains(&one) {
            one.reason = format!("{} (asked as `{whom}`)", one.reason).into();
            stricter.contributions.push(one);
        }
    }
    Decision {
        imposed,
        ..stricter
    }
}

fn least<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// With nobody there, the policy picks: wait, or deny at once.
fn deny_unattended(policy: &PolicyInForce, decision: &mut Decision) {
    match policy.policy().document().approvals.headless {
        Headless::Wait => {}
        Headless::Deny => {
            decision.verdict = Verdict::Deny;
            decision.contributions.push(Contribution {
                layer: Layer::Gate,
                rule: "approvals.headless".into(),
                opinion: Opinion::Deny,
                reason: "it needs a person's approval, and nobody is there to give it".into(),
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
        contributions: vec![contribution].into(),
        imposed: Imposed::default(),
        generation: policy.generation(),
    }
}

/// What one thread decides with, over and over.
struct Scratch {
    request: Request,
    capability: String,
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
    copies: Mutex<Vec<Scratch>>,
    /// What the capability for a path begins with, where a path is all that it is about.
    capability: Option<String>,
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
            capability: path_capability(request.syscall, reading, root),
            reading,
        }
    }

    fn copies(&self) -> MutexGuard<'_, Vec<Scratch>> {
        self.copies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn allows(&self, scratch: &mut Scratch) -> bool {
        self.is_granted(scratch)
            && self.policy.decide(&scratch.request, self.now).verdict == Verdict::Allow
    }

    fn is_granted(&self, scratch: &mut Scratch) -> bool {
        let request = &scratch.request;
        let grants = |capability: &str| {
            self.enforcer.would_grant(&CheckQuery {
                plugin: &request.caller.plugin,
                capability,
                workspace: self.policy.workspace_allow(),
                user: self.policy.user_allow(&request.caller.user),
                workspace_id: &request.caller.workspace,
                user_id: &request.caller.user,
            })
        };
        match (&self.capability, request.paths.as_slice()) {
            (Some(start), [RequestPath::Inside(path)]) if !path.is_root() => {
                scratch.capability.clone_from(start);
                scratch.capability.push_str(path.as_str());
                grants(&scratch.capability)
            }
            _ => request.needs(self.root).iter().all(|need| grants(need)),
        }
    }
}

/// What the capabilities of `syscall` and `reading` for a path beneath `root` begin with, if it is
/// the same: what [`Request::needs`] builds anew for every path.
fn path_capability(syscall: Syscall, reading: Option<Syscall>, root: &str) -> Option<String> {
    let form = syscall.spec().capability;
    let same = reading.is_none_or(|reading| reading.spec().capability == form);
    match form {
        CapabilityForm::Path(name) if same => {
            Some(format!("{name}.{}/", root.trim_end_matches('/')))
        }
        CapabilityForm::Path(_)
        | CapabilityForm::Fixed(_)
        | CapabilityForm::Host(_)
        | CapabilityForm::Secret(_)
        | CapabilityForm::Tool(_) => None,
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

    /// Decides with a copy of the request.
    fn with<T>(&self, decide: impl FnOnce(&mut Scratch) -> T) -> T {
        let copy = self.copies().pop();
        let mut scratch = copy.unwrap_or_else(|| Scratch {
            request: self.request.clone(),
            capability: String::new(),
        });
        let decided = decide(&mut scratch);
        self.name(&mut scratch.request, self.request.syscall);
        self.copies().push(scratch);
        decided
    }

    fn may_read_with(&self, scratch: &mut Scratch, path: WorkspacePath) -> bool {
        about(&mut scratch.request, path);
        // What shows content is reading, whatever it is called.
        let same = self.reading.is_none_or(|reading| {
            self.name(&mut scratch.request, reading);
            self.allows(scratch)
        });
        self.name(&mut scratch.request, self.request.syscall);
        same && self.allows(scratch)
    }
}

/// Makes `request` one that names `path` alone.
fn about(request: &mut Request, path: WorkspacePath) {
    request.paths.clear();
    request.paths.push(path.into());
}

impl ReadFilter for SearchFilter<'_> {
    fn may_read(&self, path: &WorkspacePath) -> bool {
        self.with(|scratch| self.may_read_with(scratch, path.clone()))
    }

    fn may_read_each(&self, paths: &[Box<str>]) -> Vec<bool> {
        self.with(|scratch| {
            let mut ask = |path: &str| {
                WorkspacePath::new(path).is_ok_and(|path| self.may_read_with(scratch, path))
            };
            paths.iter().map(|path| ask(path)).collect()
        })
    }

    fn forbids_content(&self, path: &WorkspacePath) -> bool {
        let Some(reading) = self.reading else {
            return false;
        };
        self.with(|scratch| {
            let request = &mut scratch.request;
            about(request, path.clone());
            self.name(request, reading);
            self.policy.decide(request, self.now).verdict == Verdict::Deny
        })
    }
}

/// Asks about each file for two callers: whoever asks out of a command, and whoever runs that.
pub(super) struct Narrowed<'a> {
    pub(super) own: SearchFilter<'a>,
    pub(super) outer: Option<SearchFilter<'a>>,
}

impl ReadFilter for Narrowed<'_> {
    fn may_read(&self, path: &WorkspacePath) -> bool {
        let outer = self.outer.as_ref();
        self.own.may_read(path) && outer.is_none_or(|outer| outer.may_read(path))
    }

    fn may_read_each(&self, paths: &[Box<str>]) -> Vec<bool> {
        let own = self.own.may_read_each(paths);
        let Some(outer) = &self.outer else {
            return own;
        };
        let outer = outer.may_read_each(paths);
        own.into_iter().zip(outer).map(|(a, b)| a && b).collect()
    }

    fn forbids_content(&self, path: &WorkspacePath) -> bool {
        let mut both = self.outer.iter().chain([&self.own]);
        both.any(|filter| filter.forbids_content(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::some_caller::some_caller;
    use airlock_core::{Digest, Tier};
    use airlock_policy::{Contributions, Generation};

    #[test]
    fn the_capability_for_a_path_is_the_one_its_request_needs() {
        for name in ["search.grep", "search.glob", "fs.read", "fs.write"] {
            for root in ["/", "/home/me/work", "/odd/"] {
                let syscall = Syscall::parse(name).unwrap();
                let path = WorkspacePath::new("src/main.rs").unwrap();
                let mut request = Request::new(syscall, Tier::Kernel, some_caller("agent"));
                about(&mut request, path.clone());
                let start = path_capability(syscall, None, root).unwrap();
                assert_eq!(request.needs(root), [format!("{start}{path}")]);
            }
        }
        let (read, write) = (Syscall::parse("fs.read"), Syscall::parse("fs.write"));
        assert_eq!(path_capability(read.unwrap(), write.ok(), "/"), None);
    }

    fn said(verdict: Verdict, opinions: &[(&str, Opinion)]) -> Decision {
        let contribution = |(rule, opinion): &(&str, Opinion)| Contribution {
            layer: Layer::Rules,
            rule: (*rule).into(),
            opinion: *opinion,
            reason: format!("because of {rule}").into(),
        };
        Decision {
            verdict,
            contributions: opinions.iter().map(contribution).collect::<Contributions>(),
            generation: Generation::new(Digest::of(b"policy")),
            imposed: Imposed::default(),
        }
    }

    #[test]
    fn of_two_decisions_the_stricter_holds_with_the_reasons_of_both() {
        let (tool, agent) = (
            PluginName::new("tool").unwrap(),
            PluginName::new("agent").unwrap(),
        );
        let review = Opinion::RequireReview;
        for (own, outer, verdict, reasons) in [
            (
                said(Verdict::RequireReview, &[("a", review), ("both", review)]),
                said(Verdict::RequireReview, &[("both", review), ("b", review)]),
                Verdict::RequireReview,
                [
                    "because of a",
                    "because of both",
                    "because of b (asked as `agent`)",
                ],
            ),
            (
                said(Verdict::RequireReview, &[("a", review)]),
                said(Verdict::Deny, &[("b", Opinion::Deny), ("c", review)]),
                Verdict::Deny,
                [
                    "because of b",
                    "because of c",
                    "because of a (asked as `tool`)",
                ],
            ),
        ] {
            let ruled = narrower((own, &tool), (outer, &agent));
            assert_eq!(ruled.verdict, verdict);
            let heard: Vec<&str> = ruled.contributions.iter().map(|one| &*one.reason).collect();
            assert_eq!(heard, reasons);
        }
    }
}
