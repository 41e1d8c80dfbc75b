//! One command in the sandbox of a stage: claimed, run, judged, and kept for the next or ended.

use super::check::Changes;
use super::failure::ProcessFailure;
use super::ran::Ran;
use super::run::{one_command, start};
use super::stages;
use super::streams::Attached;
use super::warm::{Kept, Warm};
use crate::workspace::Workspace;
use airlock_core::Digest;
use airlock_sandbox::launch::{Command, Launch};
use airlock_sandbox::lifecycle::{Outcome, State};
use std::sync::Arc;

/// Where a command runs.
pub(super) struct InStage<'a, 'p> {
    pub(super) workspace: &'a Workspace,
    pub(super) name: &'a str,
    pub(super) changes: &'a Changes<'p>,
    /// Where its sandbox may be kept.
    pub(super) warm: Option<&'a Arc<Warm>>,
}

impl InStage<'_, '_> {
    pub(super) fn run(
        &self,
        mut launch: Launch,
        command: &Command,
        attached: Attached<'_>,
    ) -> Result<Ran, ProcessFailure> {
        // What was granted, and to whom: nobody finds what another left in the temporary directory.
        let granted = format!("{:?} {:?}", launch.plan, self.changes.caller());
        let granted = Digest::of(granted.as_bytes());
        let kept = self.warm.and_then(|warm| warm.take(self.name, granted));
        let kept = kept.filter(|kept| kept.sandbox.state() == State::Running);
        // In this order: what is given up by a failure gives up its claim last.
        let (claim, stage, sandbox) = if let Some(kept) = kept {
            (kept.claim, kept.stage, Some(kept.sandbox))
        } else {
            let mut stage = stages::open(self.workspace, self.name)?;
            // Held until the sandbox is gone: two overlays on one layer would corrupt it.
            (stages::claim(&mut stage)?, stage, None)
        };
        let aside = self.changes.begin(&stage)?;
        let sandbox = match sandbox {
            Some(sandbox) => Ok(sandbox),
            None => stages::layers(&stage).and_then(|layers| {
                launch.layers = Some(layers);
                start(launch)
            }),
        };
        let lasts = self.warm.is_some() && attached.terminal.is_none();
        let (mut sandbox, ran) = match sandbox {
            Ok(mut sandbox) => {
                let ran = one_command(&mut sandbox, command, attached);
                let keep = lasts && ran.as_ref().is_ok_and(ended_by_itself);
                (keep.then_some(sandbox), ran)
            }
            Err(failure) => (None, Err(failure)),
        };
        // Whatever came of it: nothing runs in the stage any more, and nobody else has it yet.
        let put_back = self
            .changes
            .end_with(&stage, aside, || drop(sandbox.take()))?;
        let mut ran = ran?;
        ran.put_back = put_back;
        ran.stage = Some(stage.name().to_string());
        ran.changes = stages::changes(&stage);
        if let (Some(sandbox), Some(warm)) = (sandbox, self.warm) {
            let kept = Kept {
                granted,
                sandbox,
                stage,
                claim,
            };
            warm.keep(self.name, kept);
        }
        Ok(ran)
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
