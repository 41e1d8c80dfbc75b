//! Records of what steers Airlock without being a call: runs of workflows as a whole, the passphrase,
//! the end of a kernel.
//!
//! Non-guarantee: nothing is decided here. Whoever may do these things is the person, by the file
//! system and the socket; what the steps of a run may do is decided step by step.

use crate::fronts::{Front, Whence};
use crate::kernel::Kernel;
use crate::road::Call;
use crate::sanitise::sanitise_line;
use airlock_audit::{AppendError, Durability, Entry, EventType, Stage};
use serde_json::Value;

/// Longest value of a note, in characters.
const NOTE_CHARS: usize = 200;

impl Kernel {
    /// Records that `front` does `what`, which is no tool's name. It is on disk when this returns;
    /// where it cannot be recorded it must not be done.
    pub fn note<const N: usize>(
        &self,
        front: Front,
        whence: &Whence,
        what: &str,
        notes: [(&str, String); N],
    ) -> Result<(), AppendError> {
        let mut entry = Entry::new(self.clock().now(), EventType::Syscall, Stage::Note);
        entry.action = Some(Self::next_action());
        entry.syscall = Some(what.to_owned());
        let call = Call::new(what, Value::Null);
        entry.caller = self.identify(front, whence, &call, &self.policy()).ok();
        let notes = notes.map(|(name, value)| (name.to_owned(), sanitise_line(&value, NOTE_CHARS)));
        entry.metadata.extend(notes);
        self.log().append(&entry, Durability::Durable).map(drop)
    }
}
