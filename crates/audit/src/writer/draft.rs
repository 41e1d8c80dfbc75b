//! A record encoded by its caller and sealed by the writer: only the hash, which needs the
//! predecessor, is left for the one thread everybody shares.

use super::late::{Blank, Late};
use crate::chain::{Head, STORED_PREFIX, record_digest};
use crate::encoding::{self, FORMAT_VERSION, SealError};
use crate::record::Entry;

/// The largest number a row can have.
const MAX_SEQ: u64 = i64::MAX.cast_unsigned();

/// An encoded entry that has no place in the chain yet, with room in front for its place.
#[derive(Debug)]
pub(crate) struct Draft {
    stored: Vec<u8>,
    /// A digest it says that is not in it yet.
    blank: Option<Blank>,
}

impl Draft {
    pub(crate) fn new(entry: &Entry) -> Result<Self, SealError> {
        let stored = encoding::encode_after(entry, STORED_PREFIX)?;
        Ok(Self {
            stored,
            blank: None,
        })
    }

    /// Has it say `late`, for which `entry`, that this is the draft of, has room.
    pub(crate) fn says_later(&mut self, entry: &Entry, late: Late) {
        self.blank = Some(late.found_in(entry, &self.stored));
    }

    /// Makes this draft the successor of `head`; it can be sealed again onto another.
    ///
    /// INVARIANT: the bytes are those [`crate::seal`] gives for the same entry and head.
    pub(crate) fn seal(&mut self, head: &Head) -> Result<Head, SealError> {
        let seq = head.seq.checked_add(1).filter(|seq| *seq <= MAX_SEQ);
        let seq = seq.ok_or(SealError::Exhausted)?;
        if let Some(blank) = self.blank.take() {
            blank.fill(&mut self.stored);
        }
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
    use super::super::late::PutOff;
    use super::*;
    use crate::{EventType, LogId, Stage, seal};
    use airlock_core::{Digest, Timestamp};

    #[test]
    fn a_digest_that_comes_later_is_sealed_as_if_it_had_been_there() {
        let [head, other] = [7, 8].map(|id| Head::genesis(&LogId::from_bytes([id; 16])));
        let entry = || {
            let time = Timestamp::from_micros(1);
            let mut entry = Entry::new(time, EventType::Syscall, Stage::Outcome);
            // What looks like the place is not taken for it.
            let like = format!("second\0\0\0\u{40}{}", "0".repeat(64));
            entry.output = Some(like.clone());
            for (name, value) in [("a", "b"), ("first_not", &*like), ("z", "")] {
                entry.metadata.insert(name.to_owned(), value.to_owned());
            }
            entry
        };
        let bytes = b"what is hashed".to_vec();
        let mut known = entry();
        for name in ["first", "second"] {
            let digest = Digest::of(&bytes).to_string();
            known.metadata.insert(name.to_owned(), digest);
        }
        for early in [false, true] {
            let mut unknown = entry();
            let late = Late::new(&mut unknown, &["first", "second"], bytes.clone());
            assert_ne!(unknown, known);
            let put_off = PutOff::default();
            put_off.note(&late);
            let mut draft = Draft::new(&unknown).unwrap();
            draft.says_later(&unknown, late);
            if early {
                put_off.catch_up();
            }
            for head in [other, head] {
                let next = draft.seal(&head).unwrap();
                let sealed = seal(&head, &known).unwrap();
                assert_eq!((next, draft.stored()), (sealed.head(), sealed.stored()));
            }
            put_off.catch_up();
        }
    }

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
