//! What a record's digest is taken over, as blocks of SHA-256.
//!
//! The blocks in the middle are the entry's own bytes, so nothing is copied but the ends. Two
//! records can be hashed at once: each step of SHA-256 waits for the one before, and a processor
//! fills the wait with the other record's. The value is that of any other SHA-256; a test compares
//! it with crate `sha2`'s own way of hashing.

use airlock_core::Digest;
use sha2::block_api::compress256;
use sha2::{Digest as _, Sha256};

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
        let Some(message) = self.message() else {
            return self.short_digest();
        };
        let mut state = START;
        compress256(&mut state, &message.head);
        compress256(&mut state, message.middle);
        compress256(&mut state, message.tail());
        to_digest(&state)
    }

    /// The digests of two records, in less time than one after the other.
    pub(super) fn digests(self, other: Self) -> [Digest; 2] {
        let (Some(one), Some(two)) = (self.message(), other.message()) else {
            return [self.digest(), other.digest()];
        };
        let mut states = [START; 2];
        in_step(&mut states, &one.head, &two.head);
        in_step(&mut states, one.middle, two.middle);
        in_step(&mut states, one.tail(), two.tail());
        states.map(|state| to_digest(&state))
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

    fn short_digest(self) -> Digest {
        let mut hash = Sha256::new();
        hash.update(self.prefix());
        hash.update(self.body);
        Digest::from_bytes(hash.finalize().into())
    }
}

struct Message<'a> {
    head: [Block; 2],
    middle: &'a [Block],
    tail: [Block; 2],
    /// How many blocks of the tail there are.
    tails: usize,
}

impl Message<'_> {
    fn tail(&self) -> &[Block] {
        self.tail.get(..self.tails).unwrap_or_default()
    }
}

/// Takes both messages on, block by block; what one has more than the other comes last.
fn in_step([one, two]: &mut [State; 2], first: &[Block], second: &[Block]) {
    let common = first.len().min(second.len());
    let (first, first_rest) = first.split_at(common);
    let (second, second_rest) = second.split_at(common);
    for (first, second) in first.iter().zip(second) {
        compress256(one, std::slice::from_ref(first));
        compress256(two, std::slice::from_ref(second));
    }
    compress256(one, first_rest);
    compress256(two, second_rest);
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
    fn digests_alone_and_in_pairs_are_those_of_plain_sha256_at_every_length() {
        let bytes: Vec<u8> = (0..=255).cycle().take(700).collect();
        let previous = Digest::from_bytes([9; 32]);
        let fields = |length: usize, seq: u64| Fields {
            version: 1,
            seq,
            previous: &previous,
            body: bytes.get(..length).unwrap(),
        };
        for length in 0..bytes.len() {
            let (one, two) = (fields(length, 5), fields(bytes.len() - length, u64::MAX));
            let plain = [one.short_digest(), two.short_digest()];
            assert_eq!([one.digest(), two.digest()], plain, "{length}");
            assert_eq!(one.digests(two), plain, "{length}");
        }
    }
}
