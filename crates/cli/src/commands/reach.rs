//! The kernel of a workspace as one command asks it: the one that runs, or one of this process.
//!
//! Guarantee: every call goes to the kernel that runs, where one does that is as a kernel of this
//! command would be. Whatever needs this process - a person at this terminal, files that are looked
//! at once that is allowed - has a kernel of this process beside it, opened only then.

use super::{open, outcome};
use crate::args::Global;
use crate::failure::{Failure, Kind};
use crate::output::{Output, shown};
use crate::place::{self, Place};
use crate::review;
use airlock_kernel::{Call, Done, Errand, Front, Kernel, Outcome, RunError, RunReport};
use airlock_sandbox::launch::KERNEL_SOCKET;
use airlock_service::{Door, DoorError, Person, Remote, RunAsk, Standing};
use serde_json::Value;
use std::time::Duration;

/// A way to the kernel of a workspace.
pub(super) struct Reach<'g> {
    global: &'g Global,
    front: Front,
    /// What a kernel of this process is opened for.
    errand: Errand,
    door: Door,
    /// The kernel of this process, where the door leads to another.
    beside: Option<Kernel>,
    /// What is still to be said of the kernel.
    untold: Untold,
}

/// What a person is to be told of the kernel whose answers they read: once a command.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Untold {
    Nothing,
    /// All but whether the workspace is trusted, which the command says itself.
    Broken,
    Standing,
}

impl<'g> Reach<'g> {
    /// The way of a person at the command line.
    pub(super) fn new(global: &'g Global, output: &mut Output) -> Result<Self, Failure> {
        Self::acting(global, Front::Cli, output)
    }

    /// The same for a command that a broken log does not stop, whatever the policy says of it.
    pub(super) fn despite_break(global: &'g Global, output: &mut Output) -> Result<Self, Failure> {
        let (front, errand) = (Front::Cli, Errand::WayOut);
        let door = open::door(global, front, errand, output)?;
        let mut reach = Self::through(global, front, door);
        reach.errand = errand;
        Ok(reach)
    }

    /// The same for one that says itself whether the workspace is trusted.
    pub(super) fn unannounced(global: &'g Global, output: &mut Output) -> Result<Self, Failure> {
        let mut reach = Self::despite_break(global, output)?;
        reach.untold = Untold::Broken;
        Ok(reach)
    }

    /// The way of `front`.
    pub(super) fn acting(
        global: &'g Global,
        front: Front,
        output: &mut Output,
    ) -> Result<Self, Failure> {
        let door = open::door(global, front, Errand::Work, output)?;
        Ok(Self::through(global, front, door))
    }

    /// The way to the kernel that runs; none where a command would have one of its own.
    pub(super) fn running(global: &'g Global, front: Front) -> Result<Option<Self>, Failure> {
        let place = Place::find(global.workspace.as_deref())?;
        let config = open::configuration(global, &place)?;
        open::apply_color(&config);
        let door = open::running_door(&place, &config, front);
        Ok(door.map(|door| Self::through(global, front, door)))
    }

    /// The way to a kernel that stays: started if none runs, because what plugins ask is answered by
    /// one that stays. Where there can be none, one of this process.
    pub(super) fn staying(
        global: &'g Global,
        front: Front,
        output: &mut Output,
    ) -> Result<Self, Failure> {
        let place = Place::find(global.workspace.as_deref())?;
        let config = open::configuration(global, &place)?;
        if open::running(&place, &config, front).is_none() {
            super::kernel::start_on_demand(&place);
        }
        Self::acting(global, front, output)
    }

    /// The way to the kernel that runs the sandbox this command is in; none outside of one. What the
    /// command says of itself does not matter: the socket says who asks.
    pub(super) fn inside(
        global: &'g Global,
        front: Front,
        output: &mut Output,
    ) -> Result<Option<Self>, Failure> {
        if let Some(socket) = place::unused_socket() {
            output.warning(&format!(
                "AIRLOCK_SOCKET is not used: {} is not the socket of a sandbox, which is always \
                 {KERNEL_SOCKET}; unset it",
                shown(&socket)
            ));
        }
        let Some(socket) = place::kernel_socket() else {
            return Ok(None);
        };
        let remote = Remote::inside(&socket).map_err(|error| {
            Failure::of(Kind::Failed, &error).fix(
                "whoever made this sandbox takes no calls now; outside of one, unset AIRLOCK_SOCKET",
            )
        })?;
        let door = Door::Running(Box::new(remote));
        Ok(Some(Self::through(global, front, door)))
    }

    fn through(global: &'g Global, front: Front, door: Door) -> Self {
        Self {
            global,
            front,
            errand: Errand::Work,
            door,
            beside: None,
            untold: Untold::Standing,
        }
    }

    /// Takes `call` down the road.
    pub(super) fn submit(&mut self, call: &Call, output: &mut Output) -> Result<Outcome, Failure> {
        let patience = if self.untold == Untold::Nothing {
            Duration::ZERO
        } else {
            open::HEALTH_PATIENCE
        };
        let mut submitted = self.door.submit(self.front, call, self.person(), patience);
        let untaken = submitted.as_ref().is_err_and(DoorError::is_untaken);
        if untaken && place::kernel_socket().is_none() {
            // It ended between two words, or takes none that long: a kernel of one's own does the same.
            self.door = open::own_door(self.global, self.errand, output)?;
            submitted = self.door.submit(self.front, call, None, patience);
        }
        let (outcome, standing) =
            submitted.map_err(|error| Failure::of(Kind::Failed, &error).fix(error.hint()))?;
        self.tell(standing, output);
        if let Door::Embedded(kernel) = &self.door {
            open::tell_late(kernel, output);
        }
        Ok(outcome)
    }

    /// Asks the kernel that runs about a run of a workflow. None if it took nothing: it ended between two
    /// words, or takes none that long.
    pub(super) fn ask_run(
        &mut self,
        asked: &RunAsk,
        output: &mut Output,
    ) -> Result<Option<Result<RunReport, RunError>>, Failure> {
        let asked = asked.clone().by(self.person());
        match self.door.ask_run(&asked) {
            Some(Ok((came, standing))) => {
                self.tell(standing, output);
                Ok(Some(came))
            }
            Some(Err(error)) if !error.is_untaken() => {
                Err(Failure::of(Kind::Failed, &error).fix(error.hint()))
            }
            Some(Err(_)) | None => Ok(None),
        }
    }

    /// The person's home and environment, which a program that they start may get some of; none for
    /// whoever is no person, and inside a sandbox: then it is the kernel's own, where one runs.
    fn person(&self) -> Option<Person> {
        if self.front != Front::Cli || place::kernel_socket().is_some() {
            return None;
        }
        let place = Place::find(self.global.workspace.as_deref()).ok()?;
        place.person()
    }

    fn tell(&mut self, mut standing: Standing, output: &mut Output) {
        match std::mem::replace(&mut self.untold, Untold::Nothing) {
            Untold::Nothing => return,
            Untold::Broken => standing.untrusted = false,
            Untold::Standing => {}
        }
        open::told(&standing, output);
    }

    /// The same, for its result.
    pub(super) fn done(&mut self, call: &Call, output: &mut Output) -> Result<Done, Failure> {
        outcome::done(self.submit(call, output)?)
    }

    /// The same, by its name and arguments.
    pub(super) fn value(
        &mut self,
        name: &str,
        arguments: Value,
        output: &mut Output,
    ) -> Result<Value, Failure> {
        let done = self.done(&Call::new(name, arguments), output)?;
        Ok(done.value)
    }

    /// The same for a call that a person may have to approve: it is put to the one at this terminal
    /// as `what`, and made again after a yes. What they saw is what happens: if it is refused then, the
    /// yes is withdrawn.
    pub(super) fn reviewed(
        &mut self,
        call: &Call,
        what: &str,
        output: &mut Output,
    ) -> Result<Done, Failure> {
        self.confirmed(call, what, None, output)
    }

    /// The same, where `typed` is what they have to type for a yes.
    pub(super) fn confirmed(
        &mut self,
        call: &Call,
        what: &str,
        typed: Option<&str>,
        output: &mut Output,
    ) -> Result<Done, Failure> {
        let outcome = self.submit(call, output)?;
        self.answered(outcome, call, what, typed, output)
    }

    /// The same once `outcome` came of the call.
    pub(super) fn answered(
        &mut self,
        outcome: Outcome,
        call: &Call,
        what: &str,
        typed: Option<&str>,
        output: &mut Output,
    ) -> Result<Done, Failure> {
        let Outcome::NeedsReview(mut asked) = outcome else {
            return outcome::done(outcome);
        };
        review::answer(self.kernel(output)?, &mut asked, what, typed, output)?;
        let done = self.done(call, output);
        review::withdraw_unused(self.kernel(output)?, &asked, output);
        done
    }

    /// Whether calls go to a kernel of this process.
    pub(super) const fn is_embedded(&self) -> bool {
        matches!(self.door, Door::Embedded(_))
    }

    /// Frees stages that a kernel which runs keeps ready for the next command.
    pub(super) fn free_stages(&mut self) {
        if let Door::Running(remote) = &mut self.door {
            // It does so by itself after a while.
            let _ = remote.flush();
        }
    }

    /// A kernel of this process: for an answer, whose proof is this terminal, and to look at files
    /// once a call allowed it.
    pub(super) fn kernel(&mut self, output: &mut Output) -> Result<&Kernel, Failure> {
        match &mut self.door {
            Door::Embedded(kernel) => Ok(kernel),
            Door::Running(remote) => {
                let kernel = if let Some(kernel) = self.beside.take() {
                    kernel
                } else {
                    // What it has written down so far is to be seen. It does so by itself, too.
                    let _ = remote.flush();
                    open::beside(self.global, self.errand, output)?
                };
                Ok(self.beside.insert(kernel))
            }
        }
    }

    /// The same, for a command that asks for nothing more.
    pub(super) fn into_kernel(self, output: &mut Output) -> Result<Kernel, Failure> {
        match (self.door, self.beside) {
            (Door::Embedded(kernel), _) => Ok(*kernel),
            (Door::Running(_), Some(kernel)) => Ok(kernel),
            (Door::Running(mut remote), None) => {
                let _ = remote.flush();
                open::beside(self.global, self.errand, output)
            }
        }
    }
}
