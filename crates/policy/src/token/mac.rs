//! HMAC-SHA256 of one short message, with the key set once.
//!
//! A message of 55 bytes fits one block together with its padding, and so does the outer one. With
//! the two blocks of the key compressed beforehand, a signature is two compressions and nothing
//! else. The value is that of any other HMAC-SHA256; a test compares it with crate `hmac`.
//!
//! Guarantee: the time taken depends on neither key, message nor tag; what could sign, and every
//! tag that was computed, is wiped when dropped.
//!
//! Not wiped: copies the compiler makes in registers and spills, and the inner digest, which is
//! worth nothing without the outer half of the key.

use sha2::block_api::compress256;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// The only length a message has: the longest that fits one block.
pub(super) const MESSAGE: usize = 55;
/// As long as the output of SHA-256.
pub(super) const TAG: usize = 32;
const BLOCK: usize = 64;

type State = [u32; 8];
type Block = [u8; BLOCK];

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
const INNER_PAD: u8 = 0x36;
const OUTER_PAD: u8 = 0x5c;

/// A key, ready to sign.
pub(super) struct Key {
    inner: Zeroizing<State>,
    outer: Zeroizing<State>,
}

impl Key {
    pub(super) fn new(secret: &[u8; 32]) -> Self {
        Self {
            inner: padded(secret, INNER_PAD),
            outer: padded(secret, OUTER_PAD),
        }
    }

    #[inline]
    pub(super) fn sign(&self, message: &[u8; MESSAGE]) -> Tag {
        let mut inner = *self.inner;
        compress256(&mut inner, &[last_block(message)]);
        let mut tag = Zeroizing::new(*self.outer);
        compress256(&mut tag, &[last_block(&bytes(&inner))]);
        Tag(tag)
    }
}

/// A signature.
pub(super) struct Tag(Zeroizing<State>);

impl Tag {
    pub(super) fn to_bytes(&self) -> Zeroizing<[u8; TAG]> {
        Zeroizing::new(bytes(&self.0))
    }

    /// Whether `other` is this signature, in the same time wherever they differ.
    #[inline]
    pub(super) fn is(&self, other: &[u8; TAG]) -> bool {
        let (theirs, _) = other.as_chunks();
        let differing = self.0.iter().zip(theirs).fold(0, |found, (ours, theirs)| {
            found | (ours ^ u32::from_be_bytes(*theirs))
        });
        differing.ct_eq(&0).into()
    }
}

/// The state after the block that is the key, padded with zeros, over `pad`.
fn padded(secret: &[u8; 32], pad: u8) -> Zeroizing<State> {
    let mut block = Zeroizing::new([pad; BLOCK]);
    for (slot, byte) in block.iter_mut().zip(secret) {
        *slot ^= byte;
    }
    let mut state = Zeroizing::new(START);
    compress256(&mut state, &[*block]);
    state
}

/// `message` as the second and last block: the mark of its end, zeros, and how many bits came in
/// both.
fn last_block<const LENGTH: usize>(message: &[u8; LENGTH]) -> Block {
    const { assert!(LENGTH <= MESSAGE, "the message must fit with its padding") };
    let mut block = [0; BLOCK];
    let bits = ((BLOCK + LENGTH) * 8) as u64;
    if let Some(start) = block.first_chunk_mut() {
        *start = *message;
    }
    if let Some(mark) = block.get_mut(LENGTH) {
        *mark = 0x80;
    }
    if let Some(length) = block.last_chunk_mut() {
        *length = bits.to_be_bytes();
    }
    block
}

fn bytes(state: &State) -> [u8; TAG] {
    let mut all = [0; TAG];
    let (words, _) = all.as_chunks_mut();
    for (slot, word) in words.iter_mut().zip(state) {
        *slot = word.to_be_bytes();
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use hmac::{Hmac, KeyInit, Mac};
    use proptest::prelude::*;
    use sha2::Sha256;

    proptest! {
        #[test]
        fn a_signature_is_that_of_any_other_hmac_sha256(
            secret: [u8; 32],
            head: [u8; 32],
            tail: [u8; 23],
        ) {
            let mut message = [0; MESSAGE];
            message[..32].copy_from_slice(&head);
            message[32..].copy_from_slice(&tail);
            let mut other = Hmac::<Sha256>::new_from_slice(&secret).unwrap();
            other.update(&message);
            let wanted: [u8; TAG] = other.finalize().into_bytes().into();
            let tag = Key::new(&secret).sign(&message);
            prop_assert_eq!(*tag.to_bytes(), wanted);
            prop_assert!(tag.is(&wanted));
        }
    }

    #[test]
    fn a_tag_that_differs_in_any_bit_is_another() {
        let tag = Key::new(&[3; 32]).sign(&[9; MESSAGE]);
        for bit in 0..TAG * 8 {
            let mut other = *tag.to_bytes();
            other[bit / 8] ^= 1 << (bit % 8);
            assert!(!tag.is(&other), "{bit}");
        }
    }
}
