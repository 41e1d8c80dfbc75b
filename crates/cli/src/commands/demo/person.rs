//! The demo plays the person, too: it says yes at a terminal it makes for itself, as anybody could
//! who already has this user's account. What it approves is shown first.

use super::super::outcome;
use crate::failure::{Failure, Kind};
use airlock_kernel::{Call, Done, Front, Kernel, Outcome};
use rustix::pty::{OpenptFlags, openpt};

/// Makes `call` as the person at the command line, says yes where that is asked for, and makes it
/// again.
pub(super) fn approved(kernel: &Kernel, call: &Call) -> Result<Done, Failure> {
    let mut outcome = kernel.submit(Front::Cli, call);
    if let Outcome::NeedsReview(review) = &mut outcome {
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)
            .map_err(|error| Failure::new(Kind::Failed, "cannot make a terminal").why(error))?;
        let person = kernel
            .person(&terminal, None)
            .map_err(|error| Failure::of(Kind::Failed, &error))?;
        kernel
            .answer(person, review, true)
            .map_err(|error| Failure::new(Kind::Failed, "the answer does not count").why(error))?;
        outcome = kernel.submit(Front::Cli, call);
    }
    outcome::done(outcome)
}
