//! Plans and runs what was allowed, in the tier it was allowed for.

use super::decide::{Narrowed, Ruling, SearchFilter, of_outer};
use super::outcome::Outcome;
use super::record::Trail;
use super::validate::Valid;
use crate::agents::{Invocation, Invoker};
use crate::control::says_nothing;
use crate::kernel::Kernel;
use crate::phases::{Again, Held};
use crate::plugins::Unheld;
use crate::policy_store::PolicyInForce;
use crate::process::{
    Attached, Changes, Finished, Grounds, Job, Look, Outer, Planned, ProcessFailure, PutBack, Ran,
    Warm, Within, view,
};
use crate::results;
use crate::sanitise::{Clean, unusable};
use crate::tools::{Prepared, ReadFilter, RunContext, ToolFailure, ToolOutput, ToolSpec};
use airlock_core::{ByteSize, Caller, Phase, Request, Syscall, Tier};
use airlock_policy::{Imposed, OnFlag};
use airlock_sanitise::{Bound, Sanitiser};
use serde_json::Value;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// A sanitised result.
pub(super) struct Executed {
    pub(super) clean: Clean,
    pub(super) hidden: u64,
    pub(super) ran: Option<Box<Ran>>,
}

impl Kernel {
    /// What a program will be granted; none for what runs in the kernel itself.
    pub(super) fn plan(
        &self,
        policy: &Arc<PolicyInForce>,
        valid: &Valid,
        ruling: &Ruling,
        look: Look,
    ) -> Result<Option<Planned>, ToolFailure> {
        valid.prepared.ready()?;
        if let Some(within) = &valid.within {
            from_inside(valid, within)?;
        }
        if let Some(unavailable) = crate::phases::unavailable(&valid.request) {
            return Err(unavailable);
        }
        match (valid.request.tier, valid.prepared.job()) {
            (Tier::Kernel, None) => Ok(None),
            (Tier::Process, Some(job)) => {
                let grounds = self.plan_grounds(policy, valid, ruling, look);
                let commits =
                    valid.spec.name == "git.commit" && valid.request.caller.phase.is_some();
                let commit = commits
                    .then(|| self.commit_job(&valid.request, job))
                    .transpose()?;
                let mut planned = Planned::new(commit.as_ref().unwrap_or(job), &grounds)?;
                if ruling.answered {
                    planned.bind(ruling.grounds.staged);
                }
                if self.sandboxes().starts_early() && valid.within.is_none() {
                    planned.begin(self.workspace(), self.sandboxes());
                }
                Ok(Some(planned))
            }
            (tier @ (Tier::Process | Tier::Wasm | Tier::Container), None)
                if valid.prepared.is_hosted() =>
            {
                let least = policy.policy().document().workspace.minimum_tier;
                if tier.satisfies(least) {
                    Ok(None)
                } else {
                    Err(ProcessFailure::TierTooLow.into())
                }
            }
            // There is no fallback to a weaker tier: what has no host does not run.
            (tier @ (Tier::Kernel | Tier::Wasm | Tier::Process | Tier::Container), _) => {
                Err(ToolFailure::TierUnavailable { tier })
            }
        }
    }

    /// What a job of this call is planned on.
    fn plan_grounds<'a>(
        &'a self,
        policy: &'a Arc<PolicyInForce>,
        valid: &'a Valid,
        ruling: &'a Ruling,
        look: Look,
    ) -> Grounds<'a> {
        Grounds {
            policy,
            workspace: self.workspace(),
            machine: valid.machine.as_ref().or(self.machine()),
            worker: self.file_worker(),
            lasting: self.warm().map(AsRef::as_ref),
            stage: &valid.stage,
            sandboxes: self.sandboxes(),
            request: &valid.request,
            decision: &ruling.decision,
            socket: valid.may_ask,
            look,
        }
    }

    /// Plans what was allowed and records the attempt.
    ///
    /// Where a sandbox lasts, the machine is presumed to be as it was, and looked at while the
    /// attempt is on its way to the disk. If it is not, all of it is planned and recorded again
    /// before anything runs.
    pub(super) fn attempt(
        &self,
        policy: &Arc<PolicyInForce>,
        valid: &Valid,
        ruling: &Ruling,
        trail: &mut Trail<'_>,
    ) -> Result<Result<Option<Planned>, ToolFailure>, Outcome> {
        let (request, decision) = (&valid.request, &ruling.decision);
        let mut planned = self.plan(policy, valid, ruling, Look::Later);
        // What cannot be planned was attempted all the same, and fails after its record.
        let attempt = trail.begin_attempt(request, decision, planned.as_ref().ok())?;
        if let (Ok(Some(planned)), Some(warm)) = (&mut planned, self.warm()) {
            make_ready(planned, warm, valid);
        }
        let machine = valid.machine.as_ref().or(self.machine());
        let holds = match &planned {
            Ok(Some(planned)) => planned.holds(machine, self.workspace()),
            Ok(None) | Err(_) => true,
        };
        trail.end_attempt(attempt)?;
        if holds {
            return Ok(planned);
        }
        // With what it held ready: that is of a machine that is no more.
        drop(planned);
        let planned = self.plan(policy, valid, ruling, Look::First);
        let attempt = trail.begin_attempt(request, decision, planned.as_ref().ok())?;
        trail.end_attempt(attempt)?;
        Ok(planned)
    }

    pub(super) fn execute(
        &self,
        policy: &Arc<PolicyInForce>,
        valid: Valid,
        ruling: &Ruling,
        planned: Option<Planned>,
        attached: Option<Attached<'_>>,
        invoker: &Invoker<'_>,
    ) -> Result<Executed, ToolFailure> {
        let waited = valid.turn.wait().map_err(ToolFailure::from)?;
        match planned {
            Some(planned) if valid.within.is_some() => {
                self.run_beside(policy, &valid, ruling, planned)
            }
            Some(planned) => self.run_program(policy, &valid, ruling, planned, attached, invoker),
            None => self.run_here(policy, valid, ruling, waited),
        }
    }

    /// Changes files beside the command that asks for it, which judges what became of them.
    fn run_beside(
        &self,
        policy: &Arc<PolicyInForce>,
        valid: &Valid,
        ruling: &Ruling,
        planned: Planned,
    ) -> Result<Executed, ToolFailure> {
        let within = valid.within.as_deref().ok_or(ToolFailure::Cancelled)?;
        let mut finished = planned.run_beside(within)?;
        finished.value = valid.prepared.shape(finished.value)?;
        let budget = self.output_budget(&ruling.decision.imposed, valid.room);
        let (told, ran) = (finished.value, &mut finished.ran);
        let clean = self.clean(policy, &valid.request, valid.spec, budget, told, Some(ran))?;
        Ok(Executed {
            clean,
            hidden: 0,
            ran: Some(Box::new(finished.ran)),
        })
    }

    fn run_program(
        &self,
        policy: &Arc<PolicyInForce>,
        valid: &Valid,
        ruling: &Ruling,
        planned: Planned,
        attached: Option<Attached<'_>>,
        invoker: &Invoker<'_>,
    ) -> Result<Executed, ToolFailure> {
        let changes = Changes::new(
            self,
            policy,
            &ruling.enforcer,
            &valid.request,
            invoker.action,
            self.held(&valid.request.caller),
        )
        .answered(ruling.answered);
        let mut speaker = valid.prepared.speaker();
        let stage = planned.stage().unwrap_or(&valid.stage).to_owned();
        let place = (valid.turn.place(), stage.as_str());
        let outer = Outer::new(self, invoker, &valid.request.caller, place);
        let terms = valid.prepared.job().map(Job::terms);
        let terms = terms.filter(|terms| !terms.names_no_file());
        let reading = reading(&valid.request)?;
        let (root, now) = (self.workspace().root().path(), self.clock().now());
        let filter = SearchFilter::new(policy, &ruling.enforcer, &reading, root, now);
        may_be_told_of(valid.prepared.job(), &filter)?;
        if let Some(terms) = terms {
            terms.met(&view(self.workspace(), &stage)?, &filter)?;
        }
        let run = |attached: Option<Attached<'_>>| planned.run(&outer, attached, &changes);
        let finished = match &mut speaker {
            Some(speaker) => run(Some(speaker.attach()?)),
            None => run(attached),
        };
        let mut finished =
            finished.map_err(|failure: ProcessFailure| ToolFailure::from(failure))?;
        if let Some(speaker) = speaker {
            speaker.tell(&mut finished.value);
        }
        if let Some(terms) = terms {
            let root = view(self.workspace(), &stage)?;
            let secrets = self.sanitiser(policy, &valid.request)?;
            terms.tell(&root, &filter, &secrets, &mut finished.value);
        }
        finished.value = valid.prepared.shape(finished.value)?;
        let earlier = finished.ran.put_back.iter().filter(|one| one.earlier);
        tell_earlier(earlier, &mut finished.value);
        // Of runs that only try something nothing stays. Where their stage cannot be laid over, they
        // are judged as where nothing may be written.
        let mut trying = valid.request.clone();
        trying.caller.phase = trying.caller.phase.map(|_| Phase::Validating);
        let nothing = Changes::new(
            self,
            policy,
            &ruling.enforcer,
            &trying,
            invoker.action,
            Held::default(),
        );
        let again = |job: &Job| {
            let grounds = self.plan_grounds(policy, valid, ruling, Look::First);
            let planned = Planned::new(job, &grounds)?.on_trial();
            let ran = planned.run(&outer, None, &nothing);
            ran.map_err(ToolFailure::from)
        };
        self.prove(valid, &mut finished, &again)?;
        let budget = self.output_budget(&ruling.decision.imposed, valid.room);
        let (told, ran) = (finished.value, &mut finished.ran);
        let clean = self.clean(policy, &valid.request, valid.spec, budget, told, Some(ran))?;
        Ok(Executed {
            clean,
            hidden: 0,
            ran: Some(Box::new(finished.ran)),
        })
    }

    /// Lets an agent do what it is invoked for.
    pub(super) fn run_agent(
        &self,
        policy: &PolicyInForce,
        valid: &Valid,
        ruling: &Ruling,
        invoker: &Invoker<'_>,
        asked: &Invocation,
    ) -> Result<Executed, ToolFailure> {
        let value = self.invoke(invoker, asked)?;
        let budget = self.output_budget(&ruling.decision.imposed, valid.room);
        let clean = self.clean(policy, &valid.request, valid.spec, budget, value, None)?;
        Ok(Executed {
            clean,
            hidden: 0,
            ran: None,
        })
    }

    /// What a program's end means for the session it ran in.
    fn prove(
        &self,
        valid: &Valid,
        finished: &mut Finished,
        again: Again<'_>,
    ) -> Result<(), ToolFailure> {
        let caller = &valid.request.caller;
        if valid.spec.name == "git.commit" {
            return self.after_commit(caller, &finished.value);
        }
        let Some(job) = valid.prepared.job() else {
            return Ok(());
        };
        let proved = self.after_tests(caller, job, finished, again)?;
        if let (Some(proved), Some(object)) = (proved, finished.value.as_object_mut()) {
            object.insert("phase".to_owned(), proved);
        }
        Ok(())
    }

    fn run_here(
        &self,
        policy: &PolicyInForce,
        valid: Valid,
        ruling: &Ruling,
        waited: bool,
    ) -> Result<Executed, ToolFailure> {
        let budget = self.output_budget(&ruling.decision.imposed, valid.room);
        let root = self.workspace().root().path();
        let now = self.clock().now();
        let of = |request| SearchFilter::new(policy, &ruling.enforcer, request, root, now);
        let outer = valid.within.as_deref();
        let outer = outer.and_then(|within| of_outer(&valid.request, within));
        let filter = Narrowed {
            own: of(&valid.request),
            outer: outer.as_ref().map(of),
        };
        let cancelled = crate::cancel::flag();
        let secrets = self.sanitiser(policy, &valid.request)?;
        let context = RunContext {
            filter: &filter,
            max_output: budget as u64,
            cancelled: &cancelled,
            threads: self.search_threads(),
            secrets: &secrets,
        };
        let imposed = &ruling.decision.imposed;
        let run = |prepared: Box<dyn Prepared>| {
            let least = prepared.memory();
            within(imposed, least, &cancelled, || prepared.run(&context))
        };
        if valid.spec.name == "phase.advance" {
            self.before_advance(&valid.request.caller);
        }
        let again = || self.prepared_again(&valid.request, valid.spec, &valid.stage);
        // What was opened before the wait may be something else by now.
        let prepared = if waited && valid.spec.read_only {
            again()?
        } else {
            valid.prepared
        };
        let mut output = match run(prepared) {
            Err(failure) if valid.spec.read_only && failure.retryable() => {
                if !crate::cancel::sleep(RETRY_AFTER) {
                    return Err(ToolFailure::Cancelled);
                }
                run(again()?)?
            }
            output => output?,
        };
        if valid.spec.name == "merge.apply" {
            self.after_merge(&valid.request.caller, &mut output.value)?;
        }
        tell_earlier(valid.earlier.iter(), &mut output.value);
        let clean = self.clean(
            policy,
            &valid.request,
            valid.spec,
            budget,
            output.value,
            None,
        )?;
        Ok(Executed {
            clean,
            hidden: output.hidden,
            ran: None,
        })
    }
}

impl Kernel {
    /// Opens what a call reads once more. Whatever leads elsewhere now was not decided on.
    fn prepared_again(
        &self,
        request: &Request,
        spec: &ToolSpec,
        stage: &str,
    ) -> Result<Box<dyn Prepared>, ToolFailure> {
        let root = view(self.workspace(), stage)?;
        let moved = || ToolFailure::Moved {
            path: request
                .paths
                .first()
                .map(ToString::to_string)
                .unwrap_or_default(),
        };
        let tool = self.registry().get(spec.name).map_err(|_| moved())?;
        let prepared = tool
            .prepare(&request.arguments, &root)
            .map_err(|_| moved())?;
        if prepared.paths() == request.paths {
            Ok(prepared)
        } else {
            Err(moved())
        }
    }

    /// What knows the secrets in results of `request`.
    fn sanitiser(
        &self,
        policy: &PolicyInForce,
        request: &Request,
    ) -> Result<Arc<Sanitiser>, ToolFailure> {
        let session = request.caller.session.as_ref();
        let sanitiser = self.sanitisers().of(session, policy);
        sanitiser.map_err(|refused| unusable(&refused))
    }

    /// What of a result may be given out, within `budget` bytes, and of how a command `ran`.
    fn clean(
        &self,
        policy: &PolicyInForce,
        request: &Request,
        spec: &ToolSpec,
        budget: usize,
        value: Value,
        ran: Option<&mut Ran>,
    ) -> Result<Clean, ToolFailure> {
        // What was set for a plugin while the call was carried out is a secret by now.
        let held = self.plugins().desk().hold_secrets();
        if !says_nothing(spec.name, &value) {
            held.map_err(|why| unheld(&why))?;
        }
        let sanitiser = self.sanitiser(policy, request)?;
        if let Some(ran) = ran {
            ran.clean(&sanitiser);
        }
        let bound = Bound::bytes(spec.keep, budget);
        let bound = match spec.name {
            "fs.read" => bound.paged("read on with `offset_line`"),
            "search.grep" | "search.glob" => bound.paged("narrow the pattern or the path"),
            _ => bound,
        };
        let on_flag = policy.policy().document().sanitise.flagged;
        let clean = if spec.name == results::TOOL {
            self.page(value, &request.caller, &sanitiser, bound.bytes, on_flag)?
        } else {
            Clean::new(value, request, &sanitiser, bound, on_flag, self.results())
        };
        let session = request.caller.session.as_ref();
        let numbered = session.map_or(Ok(()), |session| self.sanitisers().keep(session));
        numbered.map_err(|error| ToolFailure::Control {
            what: format!("cannot keep which numbers stand for secrets: {error}"),
            fix: "make room in the state directory",
        })?;
        Ok(clean)
    }

    /// A part of a result that was kept, as it may be given out.
    fn page(
        &self,
        value: Value,
        caller: &Caller,
        sanitiser: &Sanitiser,
        bytes: usize,
        on_flag: OnFlag,
    ) -> Result<Clean, ToolFailure> {
        let mut asked = results::Asked::of(value)?;
        let page = asked.page(sanitiser, bytes.saturating_sub(BESIDE).max(BESIDE))?;
        // Whoever looks at it for another has not answered yet.
        let reviewed = !asked.kept.flags.is_empty() && asked.kept.is_for(caller);
        if on_flag == OnFlag::Review && reviewed {
            self.result_was_reviewed(page.digest)?;
        }
        Ok(Clean::page(&page, &asked.kept, on_flag))
    }
}

/// What may be done out of a command that is being run: reading, changing files, asking a plugin.
/// Whatever else would have to wait for the command, or steer what runs it.
fn from_inside(valid: &Valid, within: &Within) -> Result<(), ToolFailure> {
    let (job, spec) = (valid.prepared.job(), valid.spec);
    let unavailable = |why: &str, fix| {
        Err(ToolFailure::Unavailable {
            tool: spec.name.to_owned(),
            why: why.to_owned(),
            fix,
        })
    };
    match job {
        Some(job) if job.changes_named_paths_only() && within.can_change_files() => Ok(()),
        Some(job) if job.changes_named_paths_only() => unavailable(
            "the command that asks has the stage to itself here while it runs",
            "write the file itself: the workspace is writable where it runs, and what it leaves is \
             judged when it ends",
        ),
        Some(_) => unavailable(
            "the command that asks runs in a sandbox, which runs nothing else",
            "start the program itself: it is in the same sandbox then",
        ),
        None if spec.read_only || valid.prepared.is_hosted() => Ok(()),
        None => unavailable(
            "a command in a sandbox reads, changes files and asks plugins, and steers nothing",
            "call it outside, before or after the command",
        ),
    }
}

/// Fails if the result would tell of a path that the caller may not read, be it there or not.
fn may_be_told_of(job: Option<&Job>, filter: &dyn ReadFilter) -> Result<(), ToolFailure> {
    match job.and_then(Job::about) {
        Some(path) if !filter.may_read(path) => Err(ToolFailure::Withheld {
            path: path.to_string(),
        }),
        Some(_) | None => Ok(()),
    }
}

/// Tells whoever came upon it what was put back of runs that were cut off, where a result does not say
/// what was put back anyway.
fn tell_earlier<'a>(earlier: impl Iterator<Item = &'a PutBack>, value: &mut Value) {
    let earlier: Vec<&PutBack> = earlier.take(EARLIER).collect();
    if let Some(object) = value.as_object_mut()
        && !earlier.is_empty()
    {
        let entry = object.entry("put_back");
        entry.or_insert_with(|| serde_json::json!(earlier));
    }
}

/// Where the secrets of plugins cannot be known, nothing is let through.
fn unheld(why: &Unheld) -> ToolFailure {
    ToolFailure::Control {
        what: why.to_string(),
        fix: Unheld::FIX,
    }
}

/// Does what there is to do before a program can be started, while its record is on its way.
#[cfg(target_os = "linux")]
fn make_ready(planned: &mut Planned, warm: &Warm, valid: &Valid) {
    if valid.within.is_some() {
        return;
    }
    if valid.turn.has_come() {
        planned.reach(warm, &valid.request.caller);
    } else if let Some(stage) = planned.stage() {
        warm.forget(stage);
    }
}

#[cfg(not(target_os = "linux"))]
const fn make_ready(_: &mut Planned, _: &Warm, _: &Valid) {}

/// A read by whoever makes `request`.
fn reading(request: &Request) -> Result<Request, ToolFailure> {
    let read = Syscall::parse("fs.read").map_err(|error| ToolFailure::Control {
        what: error.to_string(),
        fix: "",
    })?;
    let mut reading = Request::new(read, Tier::Kernel, request.caller.clone());
    reading.tool = Some(read.name().into());
    Ok(reading)
}

/// What a page of a result has besides its text: a digest, an origin, numbers.
const BESIDE: usize = 512;

/// The most that is told of what earlier runs left: it is not what was asked for.
const EARLIER: usize = 100;

/// How long a read that failed and may succeed waits before it is tried once more.
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// Runs `run`, which takes up to `least` of memory, within the limits policy imposes.
fn within(
    imposed: &Imposed,
    least: ByteSize,
    cancelled: &AtomicBool,
    run: impl FnOnce() -> Result<ToolOutput, ToolFailure>,
) -> Result<ToolOutput, ToolFailure> {
    if let Some(limit) = imposed.max_memory.filter(|limit| *limit < least) {
        return Err(ToolFailure::MemoryLimit { limit, least });
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
