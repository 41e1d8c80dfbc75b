//! A record encoded by its caller and sealed by the writer: only the hash, which needs the
//! predecessor, is left for the one thread everybody shares.

use crate::chain::{Head, STORED_PREFIX, record_digest};
use crate::encoding::{self, FORMAT_VERSION, SealError};
use crate::record::Entry;

/// The largest number a row can have.
const MAX_SEQ: u64 = i64::MAX.cast_unsigned();

/// An encoded entry that has no place in the chain yet.
#[derive(Debug)]
pub(crate) struct Draft {
    body: Vec<u8>,
}

impl Draft {
    pub(crate) fn new(entry: &Entry) -> Result<Self, SealError> {
        encoding::encode(entry).map(|body| Self { body })
    }

    /// Writes the stored form of this draft, as the successor of `head`, into `stored`.
    ///
    /// INVARIANT: the bytes are those [`crate::seal`] gives for the same entry and head.
    pub(crate) fn seal(&self, head: &Head, stored: &mut Vec<u8>) -> Result<Head, SealError> {
        let seq = head.seq.checked_add(1).filter(|seq| *seq <= MAX_SEQ);
        let seq = seq.ok_or(SealError::Exhausted)?;
        let digest = record_digest(FORMAT_VERSION, seq, &head.digest, &self.body);
        stored.clear();
        stored.reserve(STORED_PREFIX + self.body.len());
        stored.push(FORMAT_VERSION);
        stored.extend_from_slice(&seq.to_be_bytes());
        stored.extend_from_slice(head.digest.as_bytes());
        stored.extend_from_slice(digest.as_bytes());
        stored.extend_from_slice(&self.body);
        Ok(Head { seq, digest })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EventType, LogId, Stage, seal};
    use airlock_core::Timestamp;

    #[test]
    fn a_draft_seals_to_the_same_bytes_as_the_chain() {
        let head = Head::genesis(&LogId::from_bytes([7; 16]));
        let mut entry = Entry::new(
            Timestamp::from_micros(1),
            EventType::ToolResult,
            Stage::Outcome,
        );
        entry.reason = Some("because".to_owned());
        let mut stored = b"left over".to_vec();
        let next = Draft::new(&entry)
            .unwrap()
            .seal(&head, &mut stored)
            .unwrap();
        let sealed = seal(&head, &entry).unwrap();
        assert_eq!((next, &*stored), (sealed.head(), sealed.stored()));
    }
}
