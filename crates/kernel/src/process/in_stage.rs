//! One command in the sandbox of a stage: claimed, run, judged, and kept for the next or ended.

use super::failure::ProcessFailure;
use super::job::{Job, Listing, Staging, Work};
use super::noted::Noted;
use super::plan::{Bound, Planned};
use super::ran::Ran;
use super::run::Ground;
use super::stages::{self, StageHold};
use super::streams::Attached;
use super::warm::{Granted, Kept, Warm};
use crate::asking::stage_digest;
use airlock_core::{Caller, Peer};
use airlock_sandbox::launch::Command;
use airlock_sandbox::lifecycle::{Outcome, State};
use airlock_sandbox::stage::{Claim, Stage, Trial};

/// Where a command runs.
pub(super) struct InStage<'a, 'g, 'p>(pub(super) &'a Ground<'g, 'p>);

/// A sandbox that stands in its stage. In this order: what is given up gives up its claim last.
struct Standing {
    sandbox: Noted,
    stage: Stage,
    /// Whether it is known that the stage changes nothing.
    untouched: bool,
    /// What lies over the stage, if nothing is to stay.
    trial: Option<Trial>,
    claim: Claim,
}

/// How often a stage is found with a run in it that nobody judged, before it is given up.
const TRIES: usize = 3;

impl InStage<'_, '_, '_> {
    pub(super) fn run(
        &self,
        planned: &mut Planned,
        command: &Command,
        attached: Attached<'_>,
    ) -> Result<Ran, ProcessFailure> {
        let Ground {
            sandboxes,
            changes,
            warm,
            ..
        } = *self.0;
        let name = match &planned.job.staging {
            Staging::Stage(name) => name.clone(),
            Staging::Session | Staging::None => return Err(ProcessFailure::NoMachine),
        };
        let granted = Granted::of(planned, changes.caller());
        let alone = planned.job.is_evidence(changes.caller());
        if let Some(warm) = warm {
            planned.reach(warm, changes.caller());
        }
        let standing = match planned.kept.take() {
            Some(kept) => Standing {
                sandbox: kept.sandbox,
                stage: kept.stage,
                untouched: kept.untouched,
                trial: None,
                claim: kept.claim,
            },
            None => self.raised(planned)?,
        };
        // The stage is this run's alone now. What others of this process could do to it since it was
        // looked at waited for its turn; another process only waits for the claim.
        if let Some(Bound(bound)) = planned.bound {
            let now = stage_digest(&StageHold(self.0.workspace), &name);
            if now != bound {
                return Err(ProcessFailure::ChangedSince { stage: name });
            }
        }
        if standing.trial.is_some() {
            return self.tried(planned, command, attached, standing);
        }
        let aside = if standing.untouched {
            changes.begin_untouched(&standing.stage)?
        } else {
            changes.begin(&standing.stage)?
        };
        let Standing {
            mut sandbox,
            stage,
            untouched: _,
            trial: _,
            claim,
        } = standing;
        let again = comes_again(&planned.job, changes.caller());
        let lasts = attached.terminal.is_none() && again && !alone;
        let ran = planned.one_command(self.0, &mut sandbox, command, attached);
        // One that was ended by force is gone before what it left is looked at.
        let as_good = ran.as_ref().is_ok_and(ended_by_itself);
        let mut sandbox = as_good.then_some(sandbox);
        // Whatever came of it: nothing runs in the stage any more, and nobody else has it yet.
        let judged = changes.end(&stage, aside, |_| {
            drop(sandbox.take());
            Ok(())
        })?;
        let mut ran = ran?;
        if as_good && matches!(planned.job.work, Work::Command | Work::Tests(_)) {
            // Where it stays noted, people only look once more.
            let _stays = stage.forget_cut_off();
        }
        ran.put_back = changes.take_earlier();
        ran.put_back.extend(judged.put_back);
        ran.stage = Some(stage.name().to_string());
        ran.changes = if judged.untouched {
            Some(0)
        } else {
            stages::changes(&stage)
        };
        match (sandbox, warm) {
            (Some(sandbox), Some(warm)) if lasts => {
                let kept = Kept {
                    granted,
                    sandbox,
                    stage,
                    untouched: judged.untouched,
                    claim,
                };
                warm.keep(&name, kept);
            }
            (Some(sandbox), Some(warm)) if !again => {
                let raise = planned.renewal(self.0.workspace, sandboxes);
                warm.renew(&name, granted, move || {
                    sandbox.stop();
                    drop(claim);
                    raise()
                });
            }
            (Some(sandbox), _) => sandboxes.leave(sandbox, Some(claim)),
            (None, _) => drop(claim),
        }
        Ok(ran)
    }

    /// Runs it where nothing that it writes stays, so that there is nothing to be judged.
    fn tried(
        &self,
        planned: &Planned,
        command: &Command,
        attached: Attached<'_>,
        mut standing: Standing,
    ) -> Result<Ran, ProcessFailure> {
        let ran = planned.one_command(self.0, &mut standing.sandbox, command, attached);
        let mut ran = ran?;
        ran.put_back = self.0.changes.take_earlier();
        ran.stage = Some(standing.stage.name().to_string());
        Ok(ran)
    }

    /// A sandbox in its stage, in which every run so far was judged.
    fn raised(&self, planned: &mut Planned) -> Result<Standing, ProcessFailure> {
        for _ in 0..TRIES {
            let started = planned.standing(self.0.workspace, self.0.sandboxes)?;
            let (Some(stage), Some(claim)) = (started.stage, started.claim) else {
                return Err(ProcessFailure::NoMachine);
            };
            if stage.unsettled()?.is_none() {
                return Ok(Standing {
                    sandbox: started.sandbox,
                    stage,
                    untouched: false,
                    trial: started.trial,
                    claim,
                });
            }
            // What is put back must not be mounted.
            drop(started.sandbox);
            drop(started.trial);
            self.0.changes.settle(&stage)?;
            drop(claim);
        }
        Err(ProcessFailure::Stage {
            what: "runs in the stage end faster than they can be judged".to_owned(),
            busy: true,
        })
    }
}

impl Planned {
    /// Takes the sandbox that stands in its stage, if that serves it. Nobody else may use the stage by
    /// then.
    pub(crate) fn reach(&mut self, warm: &Warm, caller: &Caller) {
        let Staging::Stage(name) = &self.job.staging else {
            return;
        };
        if self.kept.is_some() {
            return;
        }
        let kept = warm.take(name, &Granted::of(self, caller));
        // One that stands in the stage has seen other runs, which may have left something in its home
        // or its temporary directory; and what it would write stays.
        let alone = self.job.is_evidence(caller);
        let kept = kept.filter(|_| !self.trial && !alone);
        let kept = kept.filter(|kept| kept.sandbox.state() == State::Running);
        self.kept = kept.and_then(Kept::of_now);
    }
}

impl Job {
    /// Whether something is proven by it: tests of a session that is held to them.
    const fn is_evidence(&self, caller: &Caller) -> bool {
        matches!(self.work, Work::Tests(_)) && caller.phase.is_some()
    }
}

/// Whether the same caller can ask for another command. A process that is there for one command of
/// the person's cannot, and what it left would only hold the stage.
fn comes_again(job: &Job, caller: &Caller) -> bool {
    let another = |peer: &Peer| peer.pid != std::process::id();
    match job.listing {
        Listing::Person => !caller.peer.as_ref().is_some_and(another),
        Listing::Policy | Listing::Own => true,
    }
}

/// Whether the sandbox is as good as before: the command ran, over no limit, and was not ended.
const fn ended_by_itself(ran: &Ran) -> bool {
    match ran.outcome {
        Outcome::Exited(_) | Outcome::Signalled(_) => ran.not_started.is_none(),
        Outcome::TimedOut
        | Outcome::OutOfMemory
        | Outcome::TooManyProcesses
        | Outcome::TooMuchOutput
        | Outcome::FileTooLarge
        | Outcome::Cancelled => false,
    }
}
