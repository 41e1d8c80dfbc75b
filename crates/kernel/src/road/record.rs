//! What is kept of each call: who asked, what was decided, what came of it.

use super::decide::Ruling;
use super::execute::Executed;
use super::notes::{INPUT, OUTPUT, is_foreign, is_merge, kept};
use super::outcome::{Denied, Done, Failed, Invalid, Outcome, Review};
use super::summary::{beginning, digests, ended, note, sanitised, shown, summary};
use super::{Call, Scene};
use crate::agents::AgentCaller;
use crate::fronts::Whence;
use crate::kernel::Kernel;
use crate::policy_store::PolicyInForce;
use crate::process::Planned;
use crate::sanitise::{Clean, Source, Told, sanitise_line};
use crate::tokens::Refused;
use crate::tools::ToolFailure;
use airlock_audit::{
    AppendError, DecisionSummary, Durability, Entry, EventType, Late, Stage, Ticket,
};
use airlock_core::{ActionId, Caller, Effect, EffectSet, Request, Syscall, Timestamp, limits};
use airlock_policy::approval::{ApprovalRequest, Channel, Gate};
use airlock_policy::token::Redeemed;
use airlock_policy::{
    CapabilityCheck, CheckResult, CheckSink, Contribution, Decision, Layer, OnFlag, Opinion,
    Verdict,
};
use airlock_sanitise::Sanitiser;
use airlock_state::{Asked, StateError};
use std::path::PathBuf;
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

/// The longest name of a tool that is kept.
const NAME: usize = 60;

/// Stands in a record for what could not be cleaned.
const WITHHELD: &str = "[withheld]";

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
    /// What goes with the next record.
    notes: Vec<Entry>,
    /// What the next record says the digest of.
    late: Option<Late>,
    /// Secrets that were taken out of the arguments, until that is recorded.
    redacted: usize,
    /// Takes secrets out of what is kept and told.
    cleaner: Sanitiser,
    /// Whose words a failure may be told in.
    source: Source,
    /// What policy does with those that may be instructions.
    on_flag: OnFlag,
    /// Where whole contents are kept, if they are, and the digest of the arguments there.
    contents: Option<(PathBuf, String)>,
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
        let cleaner = Sanitiser::new();
        let (input, redacted) = summary(&cleaner, &call.arguments);
        let name = cleaner.line(&call.name, NAME);
        Self {
            kernel,
            action: Kernel::next_action(),
            source: Source::named(&name),
            name,
            input,
            started: kernel.clock().now(),
            clock: Instant::now(),
            caller: None,
            notes: Vec::new(),
            late: None,
            redacted,
            cleaner,
            // Until policy was looked at.
            on_flag: OnFlag::Block,
            contents: None,
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

    /// What was asked for, cleaned and cut: all that may be repeated of it.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The one time that every part of this decision uses.
    pub(super) fn started(&self) -> Timestamp {
        self.started
    }

    pub(super) fn identified(&mut self, caller: &Caller) {
        self.caller = Some(caller.clone());
    }

    /// Has more looked for than the usual kinds of secrets, and flags treated as `policy` says.
    pub(super) fn looks_for(&mut self, policy: &PolicyInForce, call: &Call) {
        self.on_flag = policy.policy().document().sanitise.flagged;
        if let Some(cleaner) = self.kernel.sanitisers().beside(policy) {
            (self.input, self.redacted) = summary(&cleaner, &call.arguments);
            // Of the name as it was asked for: what was cut before may be half a secret.
            self.name = cleaner.line(&call.name, NAME);
            self.source = Source::named(&self.name);
            self.cleaner = cleaner;
        }
    }

    /// Keeps nothing of what was asked: which secrets are in it cannot be told.
    pub(super) fn withholds(&mut self) {
        WITHHELD.clone_into(&mut self.input);
        if Syscall::parse(&self.name).is_err() {
            WITHHELD.clone_into(&mut self.name);
            self.source = Source::named(WITHHELD);
        }
    }

    pub(super) const fn cleaner(&self) -> &Sanitiser {
        &self.cleaner
    }

    /// Where whole contents can be kept.
    pub(super) fn state(&self) -> PathBuf {
        self.kernel.workspace().state().path().to_owned()
    }

    /// Whole contents are kept in `place`; the arguments are there under `digest`.
    pub(super) fn keep_in(&mut self, place: PathBuf, digest: String) {
        self.contents = Some((place, digest));
    }

    /// One line without secrets.
    pub(super) fn line(&self, text: &str, limit: usize) -> String {
        self.cleaner.line(text, limit)
    }

    /// A token was presented; why a bad one is bad is for the log alone.
    pub(super) fn presented(&mut self, redeemed: &Result<Redeemed, Refused>) {
        self.token = Some(match redeemed {
            Ok(redeemed) => Ok(redeemed.id.to_string()),
            Err(refused) => Err(refused.to_string()),
        });
    }

    pub(super) fn entry(&self, event: EventType, stage: Stage) -> Entry {
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

    fn write(&mut self, entry: Entry, durability: Durability) -> Result<(), AppendError> {
        let book = self.kernel.book();
        let (mut noted, mut entries) = (book.take(), self.gathered());
        let first = noted.len();
        if first > 0 {
            noted.append(&mut entries);
            entries = noted;
        }
        entries.push(entry);
        let (log, late) = (self.kernel.log(), self.late.take());
        let written = log.append_batch_with(&entries, late, durability);
        if written.is_err() {
            book.put_back(entries.drain(..first));
        }
        written.map(|_| ())
    }

    /// What goes with the next record.
    fn gathered(&mut self) -> Vec<Entry> {
        let mut notes = std::mem::take(&mut self.notes);
        match std::mem::take(&mut self.redacted) {
            0 => {}
            count => notes.push(self.redacted("arguments", count)),
        }
        notes
    }

    /// The caller could not be established.
    pub(super) fn fail(&mut self, error: impl std::error::Error) -> Outcome {
        let mut entry = self.entry(EventType::Syscall, Stage::Outcome);
        entry.reason = Some(sanitise_line(&error.to_string(), limits::SUMMARY_CHARS));
        let what = sanitise_line(&error.to_string(), limits::SUMMARY_CHARS);
        let failed = Failed::own(self.action.clone(), "identity", what, None, false);
        entry
            .metadata
            .insert("failed".to_owned(), failed.code.to_owned());
        self.closing(entry, Outcome::Failed(failed))
    }

    /// The call is not well formed, so nothing was decided.
    pub(super) fn refuse(&mut self, invalid: &Invalid) -> Outcome {
        let mut entry = self.entry(EventType::Syscall, Stage::Outcome);
        entry.input = Some(self.input.clone());
        entry.reason = Some(self.line(&invalid.to_string(), limits::SUMMARY_CHARS));
        entry
            .metadata
            .insert("refused".to_owned(), invalid.code().to_owned());
        let said = (&*invalid.to_string(), Some(&*invalid.hint()));
        let told = Told::new(said, &self.source, &self.cleaner, self.on_flag);
        self.notes.extend(self.suspected(&told));
        let mut failed = Failed::told(
            self.action.clone(),
            invalid.code(),
            told,
            invalid.retryable(),
        );
        // It quotes whoever asks, or a plugin's own words; else it is Airlock that refuses.
        if failed.flags.is_empty() {
            failed.origin = None;
        }
        self.closing(entry, Outcome::Failed(failed))
    }

    /// The attempt that was decided against; there is no outcome to follow.
    pub(super) fn deny(
        &mut self,
        policy: &PolicyInForce,
        request: &Request,
        ruling: Ruling,
    ) -> Outcome {
        let mut entry = self.decided(request, &ruling.decision);
        if is_merge(request.syscall.name()) {
            entry.event = EventType::MergeRejected;
        }
        let request = shown(&self.cleaner, request);
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
        let shown = shown(&self.cleaner, request);
        let asked = self.kernel.ask(
            scene,
            &self.action,
            (request, &shown),
            &self.cleaner,
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
        let what = format!("it needs a person's approval, and {open} requests{of} wait already");
        let fix = Some("answer them: airlock approvals list".to_owned());
        let action = self.action.clone();
        let failed = Failed::own(action, "too_many_approvals", what, fix, true);
        entry
            .metadata
            .insert("failed".to_owned(), failed.code.to_owned());
        self.closing(entry, Outcome::Failed(failed))
    }

    /// The question could not be kept, so it is not asked, and nothing happens.
    fn unasked(&mut self, request: &Request, decision: &Decision, error: &StateError) -> Outcome {
        let mut entry = self.decided(request, decision);
        let what = format!(
            "it needs a person's approval, which cannot be looked up or asked for: {error}"
        );
        let failed = Failed::own(
            self.action.clone(),
            "state_unavailable",
            sanitise_line(&what, limits::SUMMARY_CHARS),
            error.hint().map(str::to_owned),
            error.retryable(),
        );
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
        self.notes.push(entry);
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
            let notes = planned.notes().into_iter();
            let notes =
                notes.map(|(name, value)| (name, self.line(&value, 2 * limits::SUMMARY_CHARS)));
            entry.metadata.extend(notes);
        }
        self.source = Source::of(request);
        let effect = request.effects.intersects(DURABLE);
        // What could not be planned is not begun.
        let runs = is_foreign(request) && planned.is_some();
        let written = if effect {
            let mut entries = self.gathered();
            entries.push(entry);
            entries.extend(runs.then(|| self.begins(request)));
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
            _ if runs => EventType::ToolResult,
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
    pub(super) fn finish(
        &mut self,
        policy: &PolicyInForce,
        result: Result<Executed, ToolFailure>,
    ) -> Outcome {
        let mut entry = self.entry(EventType::Syscall, Stage::Outcome);
        let outcome = match result {
            Ok(executed) => {
                entry.event = self.event;
                let found: Vec<Entry> = self.found(&executed.clean).collect();
                self.notes.extend(found);
                note(&mut entry, "hidden", executed.hidden);
                sanitised(&mut entry, &executed.clean);
                let Clean {
                    sanitised: clean,
                    origin,
                    original,
                    given,
                    withheld,
                } = executed.clean;
                if withheld.is_none() {
                    entry.output = Some(beginning(&self.cleaner, given.beginning()));
                }
                self.late = digests(&mut entry, original, given);
                if let Some(ran) = &executed.ran {
                    ended(&mut entry, ran, &self.cleaner);
                }
                if let Some(failure) = withheld {
                    self.failed(policy, &mut entry, &failure)
                } else {
                    if let Some((place, _)) = &self.contents {
                        entry
                            .metadata
                            .insert(OUTPUT.to_owned(), kept(place, &clean.value));
                    }
                    Outcome::Done(Done {
                        action: self.action.clone(),
                        value: clean.value,
                        hidden: executed.hidden,
                        cut: clean.cut,
                        secrets: clean.secrets,
                        flags: clean.flags,
                        origin,
                        ran: executed.ran,
                    })
                }
            }
            Err(failure) => self.failed(policy, &mut entry, &failure),
        };
        self.closing(entry, outcome)
    }

    /// What is said of a failure is sanitised like a result, and flagged like one.
    fn failed(
        &mut self,
        policy: &PolicyInForce,
        entry: &mut Entry,
        failure: &ToolFailure,
    ) -> Outcome {
        let (what, fix) = (failure.to_string(), failure.hint());
        entry.reason = Some(self.line(&what, limits::SUMMARY_CHARS));
        entry
            .metadata
            .insert("failed".to_owned(), failure.code().to_owned());
        let session = self
            .caller
            .as_ref()
            .and_then(|caller| caller.session.as_ref());
        let sanitisers = self.kernel.sanitisers();
        let told = match sanitisers.of(session, policy) {
            Ok(sanitiser) => {
                let said = (&*what, fix.as_deref());
                let told = Told::new(said, &self.source, &sanitiser, self.on_flag);
                let numbered = session.map_or(Ok(()), |session| sanitisers.keep(session));
                match numbered {
                    Ok(()) => told,
                    Err(error) => Told::unnumbered(&self.source, &error),
                }
            }
            Err(refused) => Told::unclean(&self.source, &refused),
        };
        self.notes.extend(self.suspected(&told));
        let (action, retryable) = (self.action.clone(), failure.retryable());
        Outcome::Failed(Failed::told(action, failure.code(), told, retryable))
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
        if let Some((_, digest)) = &self.contents {
            entry.metadata.insert(INPUT.to_owned(), digest.clone());
        }
        entry.request = Some(Box::new(shown(&self.cleaner, request)));
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
        entry.reason =
            (!reasons.is_empty()).then(|| self.line(&reasons.join("; "), limits::SUMMARY_CHARS));
        entry
    }

    /// Writes a last record; an answer that cannot be recorded is not given.
    fn closing(&mut self, mut entry: Entry, outcome: Outcome) -> Outcome {
        for moved in self.kernel.hold().take_moves() {
            let steps = self.moved(&moved);
            self.notes.extend(steps);
        }
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
        let what =
            format!("it was carried out, but the audit log cannot record how it ended: {error}");
        self.unwritten("outcome_unrecorded", what, error, false)
    }

    fn unrecorded(&self, error: &AppendError) -> Outcome {
        let what = format!(
            "nothing was done or returned, because the audit log cannot record it: {error}"
        );
        self.unwritten("audit_unavailable", what, error, true)
    }

    fn unwritten(
        &self,
        code: &'static str,
        what: String,
        error: &AppendError,
        retryable: bool,
    ) -> Outcome {
        let fix = error.hint().map(str::to_owned);
        Outcome::Failed(Failed::own(self.action.clone(), code, what, fix, retryable))
    }
}

impl CheckSink for Trail<'_> {
    fn record(&mut self, check: &CapabilityCheck<'_>) {
        let mut entry = self.entry(EventType::CapabilityCheck, Stage::Note);
        let result = match check.result {
            CheckResult::Allowed => "allowed".to_owned(),
            CheckResult::Denied(gate) => format!("denied: {gate}"),
        };
        entry
            .metadata
            .insert("capability".to_owned(), self.line(check.capability, 1_024));
        entry
            .metadata
            .insert("plugin".to_owned(), check.plugin.to_string());
        entry.metadata.insert("result".to_owned(), result);
        self.notes.push(entry);
    }
}
