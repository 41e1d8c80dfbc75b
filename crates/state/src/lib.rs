//! What outlives a call: sessions, approvals and their grants, observations, workflow runs.
//!
//! Every change is an event, sealed into a hash chain like the audit log's and by its code; tables
//! for looking things up are written in the same transaction and can be made anew from the events.
//! Several processes may use one store at once.
//!
//! Guarantees: a grant is used only if its events prove it, and never more often than it allows,
//! whatever number of processes race for it; what another owner's session holds does not exist for
//! whoever asks; a damaged store is set aside, never deleted, and what was rescued no longer grants
//! anything.
//!
//! Non-guarantee: whoever can write the file can write a whole new chain. Only the audit log, whose
//! checkpoints are signed, tells of that.

mod approvals;
mod change;
mod ending;
mod error;
mod fact;
mod journal;
mod listing;
mod observations;
mod open;
mod passphrase;
mod recovery;
mod runs;
mod sessions;
mod store;
mod verify;

pub use approvals::{AnswerStateError, Approval, ApprovalStatus, Asked, Granted, Share};
pub use error::StateError;
pub use listing::{ApprovalStanding, Listing, Page};
pub use observations::Observation;
pub use passphrase::{PassphraseError, PassphraseFile};
pub use recovery::StateRecovery;
pub use runs::{NewRun, Run, RunStatus, Step};
pub use sessions::{Budget, NewSession, Owner, Session, SessionState, Spent, Used};
pub use store::State;
pub use verify::{StateBreak, StateVerified};
