//! How it went to pass a command's output on, and what the person sent meanwhile.

use crate::failure::{Failure, Kind};
use airlock_kernel::Ran;
use serde::{Deserialize, Serialize};

/// What decides, besides how the command ended, what this one ends with.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Passing {
    /// Why some of it could not be written, though somebody reads.
    pub(super) lost: Option<String>,
    /// The signal for which the command was ended, if that was ours to do.
    pub(super) signal: Option<u8>,
}

impl Passing {
    /// The command's own code; for one we ended, the signal that had us do it. An error if some of what it
    /// said is lost.
    pub(super) fn exit(&self, ran: &Ran) -> Result<u8, Failure> {
        if let Some(error) = &self.lost {
            let what = "the command was ended: what it says cannot be written";
            return Err(Failure::new(Kind::Failed, what).why(error).fix(
                "make room, or write elsewhere; what it changed is in the stage: airlock diff",
            ));
        }
        let cancelled = ran.word() == "cancelled";
        Ok(match self.signal.filter(|_| cancelled) {
            Some(number) => 128_u8.saturating_add(number),
            None => ran.exit(),
        })
    }
}
