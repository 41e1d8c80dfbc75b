//! Gates and questions: what a session may not do by itself, who may say yes, and asking them.

use crate::fronts::Front;
use crate::kernel::Kernel;
use crate::policy_store::PolicyInForce;
use crate::process::{Job, StageHold};
use crate::road::Scene;
use crate::showing::{details, shown_command};
use airlock_core::{ActionId, Digest, Request, Timestamp};
use airlock_policy::approval::{
    Action, Answer, Answerer, ApprovalId, ApprovalRequest, Channel, Gate, GateFacts, Query, Reply,
    gate_for, may_answer,
};
use airlock_policy::{Contribution, Decision, Layer, Opinion, Verdict};
use airlock_sandbox::stage::Change;
use airlock_sanitise::Sanitiser;
use airlock_state::{Approval, Asked, Session, StateError};
use serde_json::{Value, json};

/// What a review is about, beside the request itself.
#[derive(Debug, Clone)]
pub(crate) struct Grounds {
    pub(crate) facts: GateFacts,
    /// The stage it would run on.
    pub(crate) stage: Option<String>,
    /// What that stage holds.
    pub(crate) staged: Option<Digest>,
}

impl Grounds {
    /// Of a request that needs no review.
    pub(crate) fn none(facts: GateFacts) -> Self {
        Self {
            facts,
            stage: None,
            staged: None,
        }
    }
}

/// What became of a review.
pub(crate) enum Answered {
    /// A grant covers it, and its use is counted.
    Granted(Contribution),
    /// The policy answers by itself.
    ByPolicy(Contribution, Gate),
    /// Somebody has to be asked.
    Open,
}

impl Kernel {
    /// Turns an allow into a review where a gate asks for one; gives back what the gates know.
    pub(crate) fn raise_gates(
        scene: Scene<'_>,
        request: &Request,
        decision: &mut Decision,
    ) -> GateFacts {
        let mut facts = GateFacts {
            // To hand on a task reaches nobody: each question is decided on by itself, with its host.
            host_granted: request.tool.as_deref() == Some("agent.invoke"),
            sensitive_path: false,
            over_budget: false,
            first_use: false,
        };
        let gated = decision.verdict != Verdict::Deny && is_gated(scene, request);
        if let Some(session) = scene.session.filter(|_| gated) {
            raise_for(session, request, decision, &mut facts);
        }
        let asks = decision.verdict != Verdict::Deny && is_question(request);
        if let Some(session) = scene.session.filter(|_| asks) {
            raise_for_question(session, request, decision, &mut facts);
        }
        // Most requests need no review, and do not pay for matching their paths once more.
        facts.sensitive_path = decision.verdict == Verdict::RequireReview
            && scene.policy.policy().changes_sensitive(request);
        facts
    }

    /// What an answer is bound to beside action and policy.
    pub(crate) fn grounds(&self, facts: GateFacts, job: Option<&Job>, own: &str) -> Grounds {
        let stage = job.and_then(|job| job.stage(own)).map(str::to_owned);
        let staged = stage
            .as_deref()
            .and_then(|name| stage_digest(&StageHold(self.workspace()), name));
        Grounds {
            facts,
            stage,
            staged,
        }
    }

    /// Whether `request`, which needs review, has its answer already.
    pub(crate) fn settled(
        &self,
        policy: &PolicyInForce,
        request: &Request,
        decision: &Decision,
        grounds: &Grounds,
        now: Timestamp,
    ) -> Result<Answered, StateError> {
        let gate = gate_for(request, &grounds.facts);
        if let Some(contribution) = by_policy(policy, request, decision, grounds, now) {
            return Ok(Answered::ByPolicy(contribution, gate));
        }
        let query = Query {
            request,
            gate,
            diff: None,
            generation: policy.generation(),
            stage: grounds.staged,
            now,
        };
        let granted = self.state()?.use_grant(&query)?;
        Ok(granted.map_or(Answered::Open, |granted| {
            Answered::Granted(Contribution {
                layer: Layer::Grant,
                rule: granted.id.to_string().into(),
                opinion: Opinion::Allow,
                reason: "approved by a person".into(),
            })
        }))
    }

    /// Asks about `request`; `shown` is the same, fit to be shown and kept, by what `cleaner` knows.
    #[expect(
        clippy::too_many_arguments,
        reason = "each is a separate fact of the question"
    )]
    pub(crate) fn ask(
        &self,
        scene: Scene<'_>,
        action: &ActionId,
        (request, shown): (&Request, &Request),
        cleaner: &Sanitiser,
        decision: &Decision,
        grounds: &Grounds,
        now: Timestamp,
    ) -> Result<Asked, StateError> {
        let mut question = question(scene.policy, action, request, decision, grounds, now);
        let result = self.result_to_review(scene.policy, request, cleaner);
        question.action = Action::of(shown, result.or_else(|| details(request, cleaner)));
        question.action.command = shown_command(&request.command, cleaner);
        if let Some(session) = scene.session {
            question.budget_left = session.left();
        }
        let approval = Approval {
            request: question,
            stage: grounds.stage.clone(),
            grant: None,
            ended: false,
        };
        // A person may change their mind by asking again; nobody else wears them down that way.
        let insist = scene.front == Front::Cli;
        let state = self.state()?;
        match scene.within {
            Some(within) => within.asking(|share| state.ask_in(share, approval, insist, now)),
            None => state.ask(approval, insist, now),
        }
    }
}

/// Whether gates hold for it: a person who types a command is not what budgets are for, and neither
/// is what a session says about itself.
pub(crate) fn is_gated(scene: Scene<'_>, request: &Request) -> bool {
    let own = ["session", "phase", "plan"].contains(&request.syscall.area());
    scene.front != Front::Cli && !own && !is_question(request)
}

/// Whether it is leave to ask a model. Its gate holds for everybody: what a question costs is spent
/// by the session, whoever drives it.
fn is_question(request: &Request) -> bool {
    request.tool.as_deref() == Some("model.chat")
}

/// The gate of a question that the budget of `session` does not cover. Its tool calls are not
/// looked at: a question begins a turn.
fn raise_for_question(
    session: &Session,
    request: &Request,
    decision: &mut Decision,
    facts: &mut GateFacts,
) {
    let amount = |name: &str| {
        let amount = request.arguments.get(name);
        amount.and_then(Value::as_u64).unwrap_or(0)
    };
    let over = session.exceeded_by_question(amount("tokens"), amount("cost_micros"));
    if let Some(over) = over {
        facts.over_budget = true;
        raise(decision, Gate::Budget, &over);
    }
}

/// The gates that `session` itself raises.
fn raise_for(session: &Session, request: &Request, decision: &mut Decision, facts: &mut GateFacts) {
    if let Some(exceeded) = session.exceeded() {
        facts.over_budget = true;
        raise(decision, Gate::Budget, exceeded);
    }
    let tool = request.tool.as_deref().unwrap_or(request.syscall.name());
    // Only where nothing else wants a review: policy may answer for a first use, and must not
    // answer for a rule in passing.
    if decision.verdict == Verdict::Allow && !session.tools.contains(tool) {
        facts.first_use = true;
        raise(decision, Gate::FirstUse, Gate::FirstUse.title());
    }
}

fn raise(decision: &mut Decision, gate: Gate, reason: &str) {
    decision.verdict = Verdict::RequireReview;
    decision.contributions.push(Contribution {
        layer: Layer::Gate,
        rule: gate.as_str().into(),
        opinion: Opinion::RequireReview,
        reason: reason.into(),
    });
}

/// One more gate, found after the decision: somebody else used up the budget meanwhile.
pub(crate) fn raise_budget(decision: &mut Decision, facts: &mut GateFacts) {
    facts.over_budget = true;
    raise(
        decision,
        Gate::Budget,
        "the tool calls of this turn are used up",
    );
}

fn question(
    policy: &PolicyInForce,
    action: &ActionId,
    request: &Request,
    decision: &Decision,
    grounds: &Grounds,
    now: Timestamp,
) -> ApprovalRequest {
    let lifetime = policy.policy().document().approvals.expires_after;
    let id = ApprovalId::from(action.clone());
    ApprovalRequest::new(
        id,
        request,
        &grounds.facts,
        decision,
        None,
        grounds.staged,
        now,
        lifetime,
    )
}

/// The policy's own answer, where the table of gates lets it give one and it does.
fn by_policy(
    policy: &PolicyInForce,
    request: &Request,
    decision: &Decision,
    grounds: &Grounds,
    now: Timestamp,
) -> Option<Contribution> {
    const RULE: &str = "approvals.automatic";
    let rules = policy.answer_rules();
    let gate = gate_for(request, &grounds.facts);
    may_answer(gate, &Channel::Policy, &rules).ok()?;
    let answer = Answer {
        reply: Reply::Approve,
        conditions: Vec::new(),
        rationale: None,
        answered_by: Answerer::Policy(RULE.into()),
        channel: Channel::Policy,
    };
    // Asked and answered as by anybody else, so that no check is left out.
    let action = Kernel::next_action();
    let mut question = question(policy, &action, request, decision, grounds, now);
    if question.is_of_a_rule() {
        return None;
    }
    let current = question.binding;
    question.answer(answer, &rules, &current, now).ok()??;
    Some(Contribution {
        layer: Layer::Grant,
        rule: RULE.into(),
        opinion: Opinion::Allow,
        reason: format!("the policy answers {gate} by itself").into(),
    })
}

/// What a stage holds, as one digest; none for an empty one. A stage that cannot be read has a
/// digest no answer was ever bound to.
pub(crate) fn stage_digest(stages: &StageHold<'_>, name: &str) -> Option<Digest> {
    let Ok(diff) = stages.diff(name) else {
        let unreadable = format!("unreadable {}", Kernel::next_action());
        return Some(Digest::of(unreadable.as_bytes()));
    };
    let diff = diff.filter(|diff| !diff.is_empty())?;
    let fact = |change: &Change| {
        json!({
            "path": change.path, "kind": change.kind, "old": change.old, "new": change.new,
        })
    };
    let changes: Vec<_> = diff.changes.iter().map(fact).collect();
    let whole = json!({ "changes": changes, "refused": diff.refused });
    Some(Digest::of(whole.to_string().as_bytes()))
}
