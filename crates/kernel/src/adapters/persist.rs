//! Trying again, and falling back. Every attempt is a whole call, decided and recorded anew.

use crate::cancel;
use crate::fronts::{Front, Whence};
use crate::kernel::Kernel;
use crate::road::{Call, Outcome};
use crate::tools::Next;

/// Most attempts for one call, whatever definitions say.
const ATTEMPTS: u32 = 25;

impl Kernel {
    /// What finally comes of `call`, of which `outcome` came first.
    pub(crate) fn persist(
        &self,
        front: Front,
        whence: &Whence,
        call: &Call,
        outcome: Outcome,
    ) -> Outcome {
        let (mut call, mut outcome) = (call.clone(), outcome);
        let mut attempt = 1;
        for _ in 0..ATTEMPTS {
            // A denial or a question is an answer, not a failure.
            let Outcome::Failed(failed) = &outcome else {
                break;
            };
            if cancel::is_set() {
                break;
            }
            let Ok(tool) = self.registry().get(&call.name) else {
                break;
            };
            match tool.after(failed.code, attempt) {
                Next::Stop => break,
                Next::Again(wait) => {
                    if !cancel::sleep(wait) {
                        break;
                    }
                    attempt += 1;
                }
                Next::Instead(name) => {
                    call.name = name;
                    attempt = 1;
                }
            }
            outcome = self.once(front, whence, &call, None);
        }
        outcome
    }
}
