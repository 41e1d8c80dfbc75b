//! What a record's digest is taken over, as blocks of SHA-256.
//!
//! Where the processor has instructions for it: the blocks in the middle are the entry's own bytes,
//! so nothing is copied but the ends, and several records can be hashed at once, for each step of
//! SHA-256 waits for the one before, and a processor fills the wait with the other records'.
//! Elsewhere a record is hashed as anything else is. The value is the same, which a test shows.

use airlock_core::{Digest, Hashing, has_sha_instructions};
use sha2::block_api::compress256;

const RECORD_TAG: &[u8; 21] = b"airlock/audit/record\0";
/// Tag, version, number, previous digest and length: all that stands before the entry.
const PREFIX: usize = RECORD_TAG.len() + 1 + 8 + 32 + 4;
const BLOCK: usize = 64;
/// Bytes of the entry that fill up the second block.
const FIRST: usize = 2 * BLOCK - PREFIX;
/// The mark after the message, and its length in bits.
const ENDING: usize = 1 + 8;

type Block = [u8; BLOCK];
type State = [u32; 8];

/// Where SHA-256 starts (FIPS 180-4, 5.3.3).
const START: State = [
    0x6a09_e667,
    0xbb67_ae85,
    0x3c6e_f372,
    0xa54f_f53a,
    0x510e_527f,
    0x9b05_688c,
    0x1f83_d9ab,
    0x5be0_cd19,
];

/// A record's fields in the order they are hashed.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a> {
    pub(super) version: u8,
    pub(super) seq: u64,
    pub(super) previous: &'a Digest,
    pub(super) body: &'a [u8],
}

impl<'a> Fields<'a> {
    /// The digest of one record.
    pub(super) fn digest(self) -> Digest {
        if has_sha_instructions()
            && let Some(message) = self.message()
        {
            return message.digest();
        }
        self.plain_digest()
    }

    fn prefix(self) -> [u8; PREFIX] {
        // The body is below `MAX_BODY`, so its length fits 32 bits.
        let length = u32::try_from(self.body.len()).unwrap_or(u32::MAX);
        let mut prefix = [0; PREFIX];
        let fields: [&[u8]; 5] = [
            RECORD_TAG,
            &[self.version],
            &self.seq.to_be_bytes(),
            self.previous.as_bytes(),
            &length.to_be_bytes(),
        ];
        let mut rest = prefix.as_mut_slice();
        for field in fields {
            let (place, behind) = rest.split_at_mut(field.len());
            place.copy_from_slice(field);
            rest = behind;
        }
        prefix
    }

    /// The message in blocks; none if the entry does not even fill the second.
    fn message(self) -> Option<Message<'a>> {
        let (first, rest) = self.body.split_first_chunk::<FIRST>()?;
        let mut head = [[0; BLOCK]; 2];
        let (prefix, filled) = head.as_flattened_mut().split_at_mut(PREFIX);
        prefix.copy_from_slice(&self.prefix());
        filled.copy_from_slice(first);
        let (middle, end) = rest.as_chunks::<BLOCK>();
        let mut tail = [[0; BLOCK]; 2];
        let tails = if end.len() + ENDING <= BLOCK { 1 } else { 2 };
        let used = tail.get_mut(..tails)?.as_flattened_mut();
        let (copied, padding) = used.split_at_mut_checked(end.len())?;
        copied.copy_from_slice(end);
        *padding.first_mut()? = 0x80;
        let bits = ((PREFIX + self.body.len()) as u64) * 8;
        *padding.last_chunk_mut()? = bits.to_be_bytes();
        Some(Message {
            head,
            middle,
            tail,
            tails,
        })
    }

    fn plain_digest(self) -> Digest {
        let mut hash = Hashing::new();
        hash.update(self.prefix());
        hash.update(self.body);
        hash.finish()
    }
}

/// The digests of several records, in less time than one after the other.
pub(super) fn digests<const N: usize>(records: [Fields<'_>; N]) -> [Digest; N] {
    if has_sha_instructions()
        && let Some(digests) = digests_in_step(records)
    {
        return digests;
    }
    records.map(Fields::digest)
}

fn digests_in_step<const N: usize>(records: [Fields<'_>; N]) -> Option<[Digest; N]> {
    let messages = records.map(Fields::message);
    if messages.iter().any(Option::is_none) {
        return None;
    }
    let mut states = [START; N];
    let parts = messages
        .each_ref()
        .map(|message| message.as_ref().map(Message::parts));
    for part in 0..PARTS {
        let blocks = parts.map(|parts| parts.and_then(|parts| parts.get(part).copied()));
        in_step(&mut states, blocks.map(Option::unwrap_or_default));
    }
    Some(states.map(|state| to_digest(&state)))
}

/// Pieces in which a message lies in memory.
const PARTS: usize = 3;

struct Message<'a> {
    head: [Block; 2],
    middle: &'a [Block],
    tail: [Block; 2],
    /// How many blocks of the tail there are.
    tails: usize,
}

impl Message<'_> {
    fn digest(&self) -> Digest {
        let mut state = START;
        for part in self.parts() {
            compress256(&mut state, part);
        }
        to_digest(&state)
    }

    /// All of it, in order.
    fn parts(&self) -> [&[Block]; PARTS] {
        let tail = self.tail.get(..self.tails).unwrap_or_default();
        [&self.head, self.middle, tail]
    }
}

/// Takes all messages on, block by block; what one has more than the others comes last.
fn in_step<const N: usize>(states: &mut [State; N], mut messages: [&[Block]; N]) {
    let common = messages.iter().map(|blocks| blocks.len()).min();
    for _ in 0..common.unwrap_or(0) {
        for (state, blocks) in states.iter_mut().zip(&mut messages) {
            if let Some(block) = blocks.split_off_first() {
                compress256(state, std::slice::from_ref(block));
            }
        }
    }
    for (state, rest) in states.iter_mut().zip(messages) {
        compress256(state, rest);
    }
}

fn to_digest(state: &State) -> Digest {
    let mut bytes = [0; 32];
    let (words, _) = bytes.as_chunks_mut();
    for (slot, word) in words.iter_mut().zip(state) {
        *slot = word.to_be_bytes();
    }
    Digest::from_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_alone_and_together_are_those_of_plain_sha256_at_every_length_on_every_processor() {
        let bytes: Vec<u8> = (0..=255).cycle().take(700).collect();
        let previous = Digest::from_bytes([9; 32]);
        let fields = |length: usize, seq: u64| Fields {
            version: 1,
            seq,
            previous: &previous,
            body: bytes.get(..length).unwrap(),
        };
        for length in 0..bytes.len() {
            let rest = bytes.len() - length;
            let records = [(length, 5), (rest, u64::MAX), (length / 2, 1), (200, 77)];
            let records = records.map(|(length, seq)| fields(length, seq));
            let plain = records.map(Fields::plain_digest);
            for (record, plain) in records.iter().zip(&plain) {
                if let Some(message) = record.message() {
                    assert_eq!(message.digest(), *plain, "{length}");
                }
            }
            if let Some(together) = digests_in_step(records) {
                assert_eq!(together, plain, "{length}");
            }
            assert_eq!(records.map(Fields::digest), plain, "{length}");
            assert_eq!(digests(records), plain, "{length}");
        }
    }
}
