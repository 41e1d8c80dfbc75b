//! What is kept of each call: who asked, what was decided, what came of it.

use super::decide::Ruling;
use super::execute::Executed;
use super::outcome::{Denied, Done, Failed, Invalid, Outcome, Review};
use super::{Call, Scene};
use crate::agents::AgentCaller;
use crate::fronts::Whence;
use crate::kernel::Kernel;
use crate::policy_store::PolicyInForce;
use crate::process::{Planned, Ran};
use crate::sanitise::{Clean, rules, sanitise, sanitise_line, sanitise_path};
use crate::tokens::Refused;
use crate::tools::{Keep, ToolFailure};
use airlock_audit::{AppendError, DecisionSummary, Durability, Entry, EventType, Stage, Ticket};
use airlock_core::{
    ActionId, Caller, Digest, Effect, EffectSet, Request, RequestPath, SandboxId, Timestamp,
    WorkspacePath, limits,
};
use airlock_policy::approval::{ApprovalRequest, Channel, Gate};
use airlock_policy::token::Redeemed;
use airlock_policy::{
    CapabilityCheck, CheckResult, CheckSink, Contribution, Decision, Layer, Opinion, Verdict,
};
use airlock_state::{Asked, StateError};
use std::sync::Arc;
use std::time::Instant;

/// Effects whose attempt must be on disk before they happen.
const DURABLE: EffectSet = EffectSet::of(&[
    Effect::Write,
    Effect::Delete,
    Effect::Execute,
    Effect::Network,
    Effect::Secret,
    Effect::Control,
]);

/// A record of an attempt, perhaps on its way to the disk.
#[must_use = "nothing may happen before it is there"]
pub(super) struct Attempt(Option<Ticket>);

/// The records of one call, in the making.
pub(super) struct Trail<'k> {
    kernel: &'k Kernel,
    action: ActionId,
    name: String,
    input: String,
    started: Timestamp,
    clock: Instant,
    caller: Option<Caller>,
    checks: Vec<Entry>,
    /// What the outcome is called if it succeeds.
    event: EventType,
    /// Whether more than reading was begun.
    effect: bool,
    /// The token that was used, or why the one presented was not.
    token: Option<Result<String, String>>,
    /// The agent that asks, where one does.
    agent: Option<Arc<AgentCaller>>,
    /// The call that runs the command it comes out of.
    within: Option<ActionId>,
    /// The call that a plugin serves by it.
    serves: Option<ActionId>,
}

impl<'k> Trail<'k> {
    pub(super) fn begin(kernel: &'k Kernel, call: &Call, whence: &Whence) -> Self {
        Self {
            kernel,
            action: Kernel::next_action(),
            name: sanitise_line(&call.name, 60),
            input: summary(&call.arguments),
            started: kernel.clock().now(),
            clock: Instant::now(),
            caller: None,
            checks: Vec::new(),
            event: EventType::Syscall,
            effect: false,
            token: None,
            agent: whence.agent.clone(),
            within: whence.within.as_ref().map(|within| within.action().clone()),
            serves: whence.serves.clone(),
        }
    }

    /// Which action this is.
    pub(super) const fn action(&self) -> &ActionId {
        &self.action
    }

    /// The one time that every part of this decision uses.
    pub(super) fn started(&self) -> Timestamp {
        self.started
    }

    pub(super) fn identified(&mut self, caller: &Caller) {
        self.caller = Some(caller.clone());
    }

    /// A token was presented; why a bad one is bad is for the log alone.
    pub(super) fn presented(&mut self, redeemed: &Result<Redeemed, Refused>) {
        self.token = Some(match redeemed {
            Ok(redeemed) => Ok(redeemed.id.to_string()),
            Err(refused) => Err(refused.to_string()),
        });
    }

    fn entry(&self, event: EventType, stage: Stage) -> Entry {
        let mut entry = Entry::new(self.kernel.clock().now(), event, stage);
        entry.action = Some(self.action.clone());
        entry.syscall = Some(self.name.clone());
        entry.caller.clone_from(&self.caller);
        if let Some(agent) = &self.agent {
            entry.metadata.extend(agent.notes());
        }
        for (name, call) in [("within", &self.within), ("serves", &self.serves)] {
            if let Some(call) = call {
                entry.metadata.insert(name.to_owned(), call.to_string());
            }
        }
        entry
    }

    /// `entry`, after what has to be written before it.
    fn after_checks(&mut self, entry: Entry) -> Vec<Entry> {
        let mut entries = std::mem::take(&mut self.checks);
        let kernel = self.kernel;
        let remarks = kernel.plugins().desk().remarks();
        entries.extend(remarks.take(kernel.clock().now()));
        entries.push(entry);
        entries
    }

    fn write(&mut self, entry: Entry, durability: Durability) -> Result<(), AppendError> {
        let entries = self.after_checks(entry);
        self.kernel
            .log()
            .append_batch(&entries, durability)
            .map(|_| ())
    }

    /// The caller could not be established.
    pub(super) fn fail(&mut self, error: impl std::error::Error) -> Outcome {
        let mut entry = self.entry(EventType::Syscall, Stage::Outcome);
        entry.reason = Some(sanitise_line(&error.to_string(), limits::SUMMARY_CHARS));
        let failed = Failed {
            action: self.action.clone(),
            code: "identity",
            what: sanitise_line(&error.to_string(), limits::SUMMARY_CHARS),
            fix: None,
            retryable: false,
        };
        self.closing(entry, Outcome::Failed(failed))
    }

    /// The call is not well formed, so nothing was decided.
    pub(super) fn refuse(&mut self, invalid: &Invalid) -> Outcome {
        let mut entry = self.entry(EventType::Syscall, Stage::Outcome);
        entry.input = Some(self.input.clone());
        entry.reason = Some(sanitise_line(&invalid.to_string(), limits::SUMMARY_CHARS));
        entry
            .metadata
            .insert("refused".to_owned(), invalid.code().to_owned());
        let failed = Failed {
            action: self.action.clone(),
            code: invalid.code(),
            what: sanitise_line(&invalid.to_string(), limits::SUMMARY_CHARS),
            fix: Some(sanitise_line(&invalid.hint(), limits::SUMMARY_CHARS)),
            retryable: invalid.retryable(),
        };
        self.closing(entry, Outcome::Failed(failed))
    }

    /// The attempt that was decided against; there is no outcome to follow.
    pub(super) fn deny(
        &mut self,
        policy: &PolicyInForce,
        request: &Request,
        ruling: Ruling,
    ) -> Outcome {
        let entry = self.decided(request, &ruling.decision);
        let request = shown(request);
        let explanation = policy.explain(&request, &ruling.decision);
        let denied = Denied {
            action: self.action.clone(),
            request,
            decision: ruling.decision,
            explanation,
        };
        self.closing(entry, Outcome::Denied(Box::new(denied)))
    }

    /// The attempt that waits for a person.
    pub(super) fn ask(&mut self, scene: Scene<'_>, request: &Request, ruling: Ruling) -> Outcome {
        if let Some(error) = ruling.unknown {
            return self.unasked(request, &ruling.decision, &error);
        }
        let shown = shown(request);
        let asked = self.kernel.ask(
            scene,
            &self.action,
            request,
            &shown,
            &ruling.decision,
            &ruling.grounds,
            self.started,
        );
        let mut entry = self.decided(request, &ruling.decision);
        let approval = match asked {
            Ok(Asked::New(approval)) => {
                entry.event = EventType::ApprovalRequested;
                approval
            }
            Ok(Asked::Again(approval)) => approval,
            Ok(Asked::Denied(approval)) => {
                return self.denied_before(scene.policy, request, ruling, &approval.request);
            }
            Ok(Asked::TooMany { open }) => return self.too_many(entry, open, ""),
            Ok(Asked::TooManyOfOne { open }) => {
                return self.too_many(entry, open, " of the command it comes out of");
            }
            Err(error) => return self.unasked(request, &ruling.decision, &error),
        };
        let notes = [
            ("approval", approval.request.id.to_string()),
            ("gate", approval.request.gate.to_string()),
        ];
        entry
            .metadata
            .extend(notes.map(|(name, value)| (name.to_owned(), value)));
        let review = Review {
            action: self.action.clone(),
            request: request.clone(),
            decision: ruling.decision,
            approval: approval.request,
        };
        self.closing(entry, Outcome::NeedsReview(Box::new(review)))
    }

    /// A person said no to the same, and that still holds.
    fn denied_before(
        &mut self,
        policy: &PolicyInForce,
        request: &Request,
        mut ruling: Ruling,
        answered: &ApprovalRequest,
    ) -> Outcome {
        let because = answered
            .answered
            .as_ref()
            .and_then(|answered| answered.answer.rationale.as_deref());
        let reason = because.map_or_else(
            || "a person said no".to_owned(),
            |because| format!("a person said no: {}", sanitise_line(because, 200)),
        );
        ruling.decision.verdict = Verdict::Deny;
        ruling.decision.contributions.push(Contribution {
            layer: Layer::Grant,
            rule: answered.id.to_string().into(),
            opinion: Opinion::Deny,
            reason: reason.into(),
        });
        self.deny(policy, request, ruling)
    }

    /// The asker has to wait for answers before it may ask more.
    fn too_many(&mut self, mut entry: Entry, open: usize, of: &str) -> Outcome {
        let failed = Failed {
            action: self.action.clone(),
            code: "too_many_approvals",
            what: format!("it needs a person's approval, and {open} requests{of} wait already"),
            fix: Some("answer them: airlock approvals list".to_owned()),
            retryable: true,
        };
        entry
            .metadata
            .insert("failed".to_owned(), failed.code.to_owned());
        self.closing(entry, Outcome::Failed(failed))
    }

    /// The question could not be kept, so it is not asked, and nothing happens.
    fn unasked(&mut self, request: &Request, decision: &Decision, error: &StateError) -> Outcome {
        let mut entry = self.decided(request, decision);
        let failed = Failed {
            action: self.action.clone(),
            code: "state_unavailable",
            what: sanitise_line(
                &format!(
                    "it needs a person's approval, which cannot be looked up or asked for: {error}"
                ),
                limits::SUMMARY_CHARS,
            ),
            fix: error.hint().map(str::to_owned),
            retryable: error.retryable(),
        };
        entry
            .metadata
            .insert("failed".to_owned(), failed.code.to_owned());
        self.closing(entry, Outcome::Failed(failed))
    }

    /// The policy answered a gate by itself; recorded with the attempt it lets through.
    pub(super) fn answered_by_policy(&mut self, gate: Gate) {
        let mut entry = self.entry(EventType::ApprovalDecided, Stage::Note);
        let notes = [
            ("gate", gate.to_string()),
            ("answer", "approve".to_owned()),
            ("channel", Channel::Policy.to_string()),
            ("answered_by", "approvals.automatic".to_owned()),
        ];
        entry
            .metadata
            .extend(notes.map(|(name, value)| (name.to_owned(), value)));
        self.checks.push(entry);
    }

    /// Writes the attempt. Where the effect is more than reading it is on disk only once
    /// [`Trail::end_attempt`] has returned, and nothing happens before.
    pub(super) fn begin_attempt(
        &mut self,
        request: &Request,
        decision: &Decision,
        planned: Option<&Option<Planned>>,
    ) -> Result<Attempt, Outcome> {
        let mut entry = self.decided(request, decision);
        if let Some(Some(planned)) = planned {
            entry.metadata.extend(planned.notes());
        }
        let effect = request.effects.intersects(DURABLE);
        let written = if effect {
            let entries = self.after_checks(entry);
            self.kernel.log().begin_batch(&entries).map(Some)
        } else {
            self.write(entry, Durability::Buffered).map(|()| None)
        };
        let ticket = written.map_err(|error| self.unrecorded(&error))?;
        self.event = match request.syscall.name() {
            "merge.apply" => EventType::MergeApproved,
            "merge.undo" => EventType::MergeUndone,
            "policy.init" | "policy.update" => EventType::PolicyUpdate,
            "trust.approve" | "trust.revoke" => EventType::TrustChange,
            _ => EventType::Syscall,
        };
        Ok(Attempt(ticket))
    }

    /// Waits until the attempt is where it has to be before anything happens.
    pub(super) fn end_attempt(&mut self, attempt: Attempt) -> Result<(), Outcome> {
        if let Some(ticket) = attempt.0 {
            ticket.wait().map_err(|error| self.unrecorded(&error))?;
            self.effect = true;
        }
        Ok(())
    }

    /// Writes the outcome and hands it over.
    pub(super) fn finish(&mut self, result: Result<Executed, ToolFailure>) -> Outcome {
        let mut entry = self.entry(EventType::Syscall, Stage::Outcome);
        let outcome = match result {
            Ok(executed) => {
                entry.event = self.event;
                note(&mut entry, "hidden", executed.hidden);
                sanitised(&mut entry, &executed.clean);
                if let Some(ran) = &executed.ran {
                    ended(&mut entry, ran);
                }
                if let Some(failure) = executed.clean.withheld {
                    self.failed(&mut entry, &failure)
                } else {
                    let clean = executed.clean.sanitised;
                    entry.output = Some(beginning(&clean.value));
                    Outcome::Done(Done {
                        action: self.action.clone(),
                        value: clean.value,
                        hidden: executed.hidden,
                        cut: clean.cut,
                        secrets: clean.secrets,
                        flags: clean.flags,
                        origin: executed.clean.origin,
                        ran: executed.ran,
                    })
                }
            }
            Err(failure) => self.failed(&mut entry, &failure),
        };
        self.closing(entry, outcome)
    }

    fn failed(&self, entry: &mut Entry, failure: &ToolFailure) -> Outcome {
        entry.reason = Some(sanitise_line(&failure.to_string(), limits::SUMMARY_CHARS));
        entry
            .metadata
            .insert("failed".to_owned(), failure.code().to_owned());
        Outcome::Failed(Failed::tool(self.action.clone(), failure))
    }

    fn decided(&self, request: &Request, decision: &Decision) -> Entry {
        let mut entry = self.entry(EventType::Syscall, Stage::Attempt);
        entry.tool = request.tool.as_deref().map(str::to_owned);
        match &self.token {
            Some(Ok(used)) => entry.token = Some(used.clone()),
            Some(Err(why)) => {
                let why = why.clone();
                entry.metadata.insert("token_refused".to_owned(), why);
            }
            None => {}
        }
        entry.input = Some(self.input.clone());
        entry.request = Some(Box::new(shown(request)));
        entry.decision = Some(DecisionSummary {
            verdict: decision.verdict.to_string(),
            rules: decision
                .contributions
                .iter()
                .map(|c| format!("{}/{}", c.layer.as_str(), c.rule))
                .collect(),
            generation: decision.generation.digest().to_string(),
        });
        let reasons: Vec<&str> = decision.deciding().map(|c| &*c.reason).collect();
        entry.reason = (!reasons.is_empty())
            .then(|| sanitise_line(&reasons.join("; "), limits::SUMMARY_CHARS));
        entry
    }

    /// Writes a last record; an answer that cannot be recorded is not given.
    fn closing(&mut self, mut entry: Entry, outcome: Outcome) -> Outcome {
        let micros = self.clock.elapsed().as_micros();
        entry.duration = Some(u64::try_from(micros).unwrap_or(u64::MAX));
        match self.write(entry, Durability::Buffered) {
            Ok(()) => outcome,
            Err(error) if self.effect => self.unfinished(&error),
            Err(error) => self.unrecorded(&error),
        }
    }

    /// The attempt is on disk and was carried out; only what came of it could not be kept.
    fn unfinished(&self, error: &AppendError) -> Outcome {
        Outcome::Failed(Failed {
            action: self.action.clone(),
            code: "outcome_unrecorded",
            what: format!(
                "it was carried out, but the audit log cannot record how it ended: {error}"
            ),
            fix: error.hint().map(str::to_owned),
            retryable: false,
        })
    }

    fn unrecorded(&self, error: &AppendError) -> Outcome {
        Outcome::Failed(Failed {
            action: self.action.clone(),
            code: "audit_unavailable",
            what: format!(
                "nothing was done or returned, because the audit log cannot record it: {error}"
            ),
            fix: error.hint().map(str::to_owned),
            retryable: true,
        })
    }
}

/// Arguments for the log. Each string is sanitised before it is written as JSON, where an escaped
/// newline would stand as a letter in front of a secret and hide it.
fn summary(arguments: &serde_json::Value) -> String {
    let clean = sanitise(arguments.clone(), Keep::Head, 4 * limits::SUMMARY_CHARS);
    sanitise_line(&clean.value.to_string(), limits::SUMMARY_CHARS)
}

/// The first characters of a sanitised value as JSON, without writing out the rest.
fn beginning(value: &serde_json::Value) -> String {
    let mut kept = Beginning(Vec::new());
    // It stops with an error once it has enough.
    let _ = serde_json::to_writer(&mut kept, value);
    let text = String::from_utf8_lossy(&kept.0);
    if text.chars().nth(limits::SUMMARY_CHARS).is_none() {
        return text.into_owned();
    }
    let mut short: String = text.chars().take(limits::SUMMARY_CHARS - 1).collect();
    short.push('…');
    short
}

/// Keeps enough bytes for a summary, whatever characters they are.
struct Beginning(Vec<u8>);

impl std::io::Write for Beginning {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.0.len() > 4 * limits::SUMMARY_CHARS {
            return Err(std::io::ErrorKind::WriteZero.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// `request` with paths that can be shown and kept.
fn shown(request: &Request) -> Request {
    let mut shown = request.clone();
    // An argument may be a password; which program it is still shows.
    for word in &mut shown.command {
        *word = sanitise_line(word, limits::SUMMARY_CHARS).into();
    }
    if let Some(host) = &mut shown.host {
        *host = sanitise_line(host, 253).into();
    }
    for path in &mut shown.paths {
        let clean = sanitise_path(path.as_str());
        if clean != path.as_str() {
            *path = match path {
                RequestPath::Outside(_) => RequestPath::parse(&clean, "/dev/null")
                    .unwrap_or_else(|_| RequestPath::Outside("/[unprintable]".into())),
                // Written out, control characters can make it longer than any path.
                RequestPath::Inside(_) => WorkspacePath::new(&clean)
                    .or_else(|_| WorkspacePath::new("[unprintable]"))
                    .unwrap_or_else(|_| WorkspacePath::root())
                    .into(),
            };
        }
    }
    shown
}

/// What sanitising did: digests of before and after, what was taken out, what was flagged.
fn sanitised(entry: &mut Entry, clean: &Clean) {
    let digests = [
        ("digest_original", clean.original),
        ("digest_sanitised", clean.given),
    ];
    for (name, digest) in digests {
        entry.metadata.insert(name.to_owned(), digest.to_string());
    }
    note(entry, "secrets", clean.sanitised.secrets as u64);
    if !clean.sanitised.flags.is_empty() {
        let rules = rules(&clean.sanitised.flags);
        entry.metadata.insert("flags".to_owned(), rules);
    }
}

/// How a command ended.
fn ended(entry: &mut Entry, ran: &Ran) {
    let report = Digest::of(ran.report.to_string().as_bytes());
    let launcher = ran.report.get("launcher").and_then(|name| name.as_str());
    entry.sandbox = SandboxId::new(&ran.sandbox).ok();
    let notes = [
        ("ended", Some(ran.word().to_owned())),
        ("exit", Some(ran.exit().to_string())),
        ("limit", ran.limit().map(|limit| limit.as_str().to_owned())),
        ("report", Some(report.to_string())),
        ("launcher", launcher.map(str::to_owned)),
        ("stage", ran.stage.clone()),
        ("changes", ran.changes.map(|changes| changes.to_string())),
    ];
    let notes = notes
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)));
    entry.metadata.extend(notes);
    note(entry, "refusals", ran.refusals.len() as u64);
    if !ran.put_back.is_empty() {
        let paths: Vec<&str> = ran.put_back.iter().map(|one| one.path.as_str()).collect();
        let listed = serde_json::to_string(&paths).unwrap_or_default();
        let listed = sanitise_line(&listed, limits::SUMMARY_CHARS);
        entry.metadata.insert("put_back".to_owned(), listed);
    }
}

fn note(entry: &mut Entry, name: &str, count: u64) {
    if count > 0 {
        entry.metadata.insert(name.to_owned(), count.to_string());
    }
}

impl CheckSink for Trail<'_> {
    fn record(&mut self, check: &CapabilityCheck<'_>) {
        let mut entry = self.entry(EventType::CapabilityCheck, Stage::Note);
        let result = match check.result {
            CheckResult::Allowed => "allowed".to_owned(),
            CheckResult::Denied(gate) => format!("denied: {gate}"),
        };
        entry.metadata.insert(
            "capability".to_owned(),
            sanitise_line(check.capability, 1_024),
        );
        entry
            .metadata
            .insert("plugin".to_owned(), check.plugin.to_string());
        entry.metadata.insert("result".to_owned(), result);
        self.checks.push(entry);
    }
}
