//! Who signed for a log: a new key beside what another one signed must not go unsaid.

use super::Log;
use super::checkpoints::read_checkpoints;
use crate::checkpoint::{CHECKPOINT_METADATA, PublicKey, SignedCheckpoint};
use crate::query::Filter;
use crate::segment::ReadError;
use crate::{EventType, Record};

impl Log {
    /// Another key than that of `signed` which signed for this log before, if one did.
    ///
    /// Looked at are the checkpoints beside the key and the last one in the chain before `signed`.
    pub fn earlier_key(&self, signed: &SignedCheckpoint) -> Result<Option<PublicKey>, ReadError> {
        let before = Filter {
            event: Some(EventType::Checkpoint),
            last: Some(signed.head().seq),
            limit: Some(1),
            newest_first: true,
            ..Filter::default()
        };
        let recorded = self.read(before)?.next().transpose()?;
        let recorded = recorded.as_ref().and_then(held);
        // The file may be gone with the key; verification says what is wrong with one that is there.
        let kept = read_checkpoints(&self.layout.checkpoints()).unwrap_or_default();
        let mut others = recorded.into_iter().chain(kept.valid);
        let own = signed.checkpoint();
        let other = others.find(|other| {
            let other = other.checkpoint();
            other.log == own.log && other.key != own.key
        });
        Ok(other.map(|other| other.checkpoint().key))
    }
}

/// The checkpoint that a record holds.
fn held(record: &Record) -> Option<SignedCheckpoint> {
    record.entry.metadata.get(CHECKPOINT_METADATA)?.parse().ok()
}
