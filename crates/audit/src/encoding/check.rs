//! Says whether bytes are a canonical encoding without building the entry: what a verification of
//! millions of records needs to know, at a fraction of the cost.
//!
//! INVARIANT: [`Checker::check`] gives the answer of [`super::decode`], error and offset included;
//! a property test holds the two against each other.

use super::decode::{DecodeError, DecodeProblem, Decoded, Decoder};
use super::parse_path;
use crate::{EventType, Stage};
use airlock_core::{ActionId, Effect, SandboxId, Syscall, Tier};

/// Parts of one kind that are remembered: a log has many records, and few callers at a time.
const REMEMBERED: usize = 8;
/// Paths, and requests, that are remembered, each in the one place its bytes point to.
const PLACES: usize = 1_024;
/// A part longer than this is read anew each time, so that memory stays small.
const PART_BYTES: usize = 1_024;

/// Checks encodings one after another.
#[derive(Debug, Default)]
pub(crate) struct Checker {
    callers: Known,
    decisions: Known,
    paths: Places,
    requests: Places,
}

/// Bytes that were found right as one kind of part: the same bytes are right again.
#[derive(Debug, Default)]
struct Known {
    parts: Vec<Vec<u8>>,
    oldest: usize,
}

impl Known {
    fn holds(&self, bytes: &[u8]) -> bool {
        self.parts.iter().any(|known| known == bytes)
    }

    fn remember(&mut self, bytes: &[u8]) {
        if bytes.len() > PART_BYTES {
            return;
        }
        match self.parts.get_mut(self.oldest) {
            Some(place) => bytes.clone_into(place),
            None => self.parts.push(bytes.to_owned()),
        }
        self.oldest = (self.oldest + 1) % REMEMBERED;
    }

    /// Checks all that is left in a block, unless it is known.
    fn check<'a>(
        &mut self,
        from: &mut Decoder<'a>,
        check: impl FnOnce(&mut Decoder<'a>) -> Decoded<()>,
    ) -> Decoded<()> {
        let bytes = from.rest();
        if self.holds(bytes) {
            from.skip_rest();
            return Ok(());
        }
        check(from)?;
        // Bytes left over make it wrong, which only the block around it can see.
        if from.rest().is_empty() {
            self.remember(bytes);
        }
        Ok(())
    }
}

/// Bytes that were found right as one kind of part: too many to compare one after another.
#[derive(Debug, Default)]
struct Places(Vec<Vec<u8>>);

impl Places {
    /// The place of `bytes`, and whether they are there already.
    fn find(&mut self, bytes: &[u8]) -> (Option<&mut Vec<u8>>, bool) {
        self.0.resize_with(PLACES, Vec::new);
        let place = self.0.get_mut(place_of(bytes));
        let known = place.as_ref().is_some_and(|known| *known == bytes) && !bytes.is_empty();
        (place, known)
    }

    fn holds(&mut self, bytes: &[u8]) -> bool {
        self.find(bytes).1
    }

    fn remember(&mut self, bytes: &[u8]) {
        if let (Some(place), false) = self.find(bytes)
            && bytes.len() <= PART_BYTES
        {
            bytes.clone_into(place);
        }
    }
}

/// Any spread will do: a wrong place costs a second look, never a wrong answer.
fn place_of(bytes: &[u8]) -> usize {
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |sum: u64, word: u64| (sum.rotate_left(5) ^ word).wrapping_mul(SPREAD);
    // Two sums side by side: a processor need not wait for one before it goes on with the other.
    let (pairs, rest) = bytes.as_chunks::<16>();
    let (even, odd) = pairs.iter().fold((0, 0), |(even, odd), pair| {
        let pair = u128::from_le_bytes(*pair);
        (mix(even, low(pair)), mix(odd, low(pair >> 64)))
    });
    let sum = mix(even, odd);
    let sum = match bytes.last_chunk() {
        _ if rest.is_empty() => sum,
        // What was looked at already may be looked at again.
        Some(end) => {
            let end = u128::from_le_bytes(*end);
            mix(mix(sum, low(end)), low(end >> 64))
        }
        None => rest
            .iter()
            .fold(sum, |sum, byte| mix(sum, u64::from(*byte))),
    };
    usize::try_from(sum >> 32).unwrap_or(0) % PLACES
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the lower half is what is wanted"
)]
const fn low(pair: u128) -> u64 {
    pair as u64
}

impl Checker {
    /// Whether [`super::decode`] would take `body`.
    pub(crate) fn check(&mut self, body: &[u8]) -> Result<(), DecodeError> {
        let mut from = Decoder::new(body)?;
        self.entry(&mut from)?;
        from.end()
    }

    fn entry(&mut self, from: &mut Decoder<'_>) -> Decoded<()> {
        from.time()?;
        from.coded(|from| Ok(EventType::from_code(from.u16()?)))?;
        from.coded(|from| Ok(Stage::from_code(from.u8()?)))?;
        from.optional(|from| id(from, ActionId::is_valid))?;
        // Syscall and tool.
        texts(from, 2)?;
        from.optional(|from| from.block(|from| self.caller(from)))?;
        from.optional(|from| from.block(|from| self.decisions.check(from, decision)))?;
        // Token, reason, input and output.
        texts(from, 4)?;
        from.optional(Decoder::u64)?;
        from.optional(|from| id(from, SandboxId::is_valid))?;
        from.optional(|from| from.block(|from| self.known_request(from)))?;
        map(from)
    }

    fn known_request(&mut self, from: &mut Decoder<'_>) -> Decoded<()> {
        let bytes = from.rest();
        if self.requests.holds(bytes) {
            from.skip_rest();
            return Ok(());
        }
        self.request(from)?;
        // Bytes left over make it wrong, which only the block around it can see.
        if from.rest().is_empty() {
            self.requests.remember(bytes);
        }
        Ok(())
    }

    fn request(&mut self, from: &mut Decoder<'_>) -> Decoded<()> {
        from.word::<Syscall>()?;
        effects(from)?;
        items(from, |from| self.path(from))?;
        from.skip_optional_text()?;
        from.optional(Decoder::u16)?;
        items(from, Decoder::skip_text)?;
        // Tool and secret.
        texts(from, 2)?;
        from.word::<Tier>()?;
        from.skip_optional_text()?;
        from.optional(Decoder::u64)?;
        from.block(|from| self.caller(from))
    }

    fn caller(&mut self, from: &mut Decoder<'_>) -> Decoded<()> {
        self.callers.check(from, |from| from.caller().map(drop))
    }

    fn path(&mut self, from: &mut Decoder<'_>) -> Decoded<()> {
        from.judged(DecodeProblem::Invalid, |from| {
            Ok(self.is_path(from.text()?).then_some(()))
        })
    }

    fn is_path(&mut self, text: &str) -> bool {
        let known = self.paths.holds(text.as_bytes());
        if !known && parse_path(text).is_some() {
            self.paths.remember(text.as_bytes());
            return true;
        }
        known
    }
}

fn decision(from: &mut Decoder<'_>) -> Decoded<()> {
    from.skip_text()?;
    items(from, Decoder::skip_text)?;
    from.skip_text()
}

/// An identifier, without the memory it takes to keep one.
fn id(from: &mut Decoder<'_>, is_valid: fn(&str) -> bool) -> Decoded<()> {
    from.judged(DecodeProblem::Invalid, |from| {
        Ok(is_valid(from.text()?).then_some(()))
    })
}

/// In ascending order, each once.
fn effects(from: &mut Decoder<'_>) -> Decoded<()> {
    let mut last = None;
    let mut ascend = true;
    from.judged(DecodeProblem::Order, |from| {
        items(from, |from| {
            let effect: Effect = from.word()?;
            ascend &= last.is_none_or(|last| last < effect);
            last = Some(effect);
            Ok(())
        })?;
        Ok(ascend.then_some(()))
    })
}

fn texts(from: &mut Decoder<'_>, count: usize) -> Decoded<()> {
    (0..count).try_for_each(|_| from.skip_optional_text())
}

fn items<'a>(
    from: &mut Decoder<'a>,
    mut check: impl FnMut(&mut Decoder<'a>) -> Decoded<()>,
) -> Decoded<()> {
    let count = from.u32()?;
    (0..count).try_for_each(|_| check(from))
}

fn map(from: &mut Decoder<'_>) -> Decoded<()> {
    let mut last: Option<&str> = None;
    items(from, |from| {
        let name = from.judged(DecodeProblem::Order, |from| {
            let name = from.text()?;
            Ok(last.is_none_or(|last| last < name).then_some(name))
        })?;
        last = Some(name);
        from.skip_text()
    })
}
