//! A record encoded by its caller and sealed by the writer: only the hash, which needs the
//! predecessor, is left for the one thread everybody shares.

use crate::chain::{Head, STORED_PREFIX, record_digest};
use crate::encoding::{self, FORMAT_VERSION, SealError};
use crate::record::Entry;

/// The largest number a row can have.
const MAX_SEQ: u64 = i64::MAX.cast_unsigned();

/// An encoded entry that has no place in the chain yet, with room in front for its place.
#[derive(Debug)]
pub(crate) struct Draft {
    stored: Vec<u8>,
}

impl Draft {
    pub(crate) fn new(entry: &Entry) -> Result<Self, SealError> {
        encoding::encode_after(entry, STORED_PREFIX).map(|stored| Self { stored })
    }

    /// Makes this draft the successor of `head`; it can be sealed again onto another.
    ///
    /// INVARIANT: the bytes are those [`crate::seal`] gives for the same entry and head.
    pub(crate) fn seal(&mut self, head: &Head) -> Result<Head, SealError> {
        let seq = head.seq.checked_add(1).filter(|seq| *seq <= MAX_SEQ);
        let seq = seq.ok_or(SealError::Exhausted)?;
        // There is always room: it was made together with the draft.
        let Some((place, body)) = self.stored.split_first_chunk_mut::<STORED_PREFIX>() else {
            return Err(SealError::Exhausted);
        };
        let digest = record_digest(FORMAT_VERSION, seq, &head.digest, body);
        let fields: [&[u8]; 4] = [
            &[FORMAT_VERSION],
            &seq.to_be_bytes(),
            head.digest.as_bytes(),
            digest.as_bytes(),
        ];
        let mut rest = place.as_mut_slice();
        for field in fields {
            let (place, behind) = rest.split_at_mut(field.len());
            place.copy_from_slice(field);
            rest = behind;
        }
        Ok(Head { seq, digest })
    }

    /// The stored form, once it was sealed.
    pub(crate) fn stored(&self) -> &[u8] {
        &self.stored
    }
}

/// The drafts of one append: nearly always one.
#[derive(Debug)]
pub(crate) enum Drafts {
    One(Draft),
    Many(Vec<Draft>),
}

impl Drafts {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Many(drafts) => drafts.len(),
        }
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [Draft] {
        match self {
            Self::One(draft) => std::slice::from_mut(draft),
            Self::Many(drafts) => drafts,
        }
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
        let mut draft = Draft::new(&entry).unwrap();
        let other = Head::genesis(&LogId::from_bytes([8; 16]));
        for head in [other, head] {
            let next = draft.seal(&head).unwrap();
            let sealed = seal(&head, &entry).unwrap();
            assert_eq!((next, draft.stored()), (sealed.head(), sealed.stored()));
        }
    }
}
