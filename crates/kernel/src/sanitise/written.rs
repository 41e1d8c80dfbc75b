//! What is kept of a value as JSON: its digest, and how it begins. A long one is not written out in
//! memory.

use airlock_core::{Digest, Hashing, limits};
use airlock_sanitise::weight;
use serde_json::Value;
use std::io::{self, BufWriter, Write};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};

/// Enough bytes for a summary, whatever characters they are, and as many again to know what stands
/// where it ends.
const BEGINNING: usize = 8 * limits::SUMMARY_CHARS;
/// A text that is no longer than this is kept until somebody has the time to hash it.
const LIGHT: usize = 16 * 1024;
/// A value that weighs more is hashed beside whatever else is done with it.
const HEAVY: usize = 128 * 1024;
/// Bytes that are handed over at once...
const LOT: usize = 64 * 1024;
/// ...and how often, before whoever writes waits for whoever hashes.
const LOTS: usize = 16;

#[derive(Debug)]
pub(crate) struct Written {
    /// None where the text is all of it, which can be hashed while nobody waits.
    digest: Option<Digest>,
    /// At least the first [`BEGINNING`] bytes, if there are as many.
    text: Vec<u8>,
}

/// The same while it may still be hashed.
pub(super) enum Writing {
    Done(Written),
    Beside {
        digest: JoinHandle<Digest>,
        beginning: Vec<u8>,
    },
}

impl Written {
    pub(super) fn of(value: &Value) -> Self {
        let weight = weight(value);
        if weight <= HEAVY {
            return Self::at_once(value, weight);
        }
        let (hashing, beginning) = write(value, Hashing::new(), 8 * 1024);
        Self {
            digest: Some(hashing.finish()),
            text: beginning,
        }
    }

    /// Of a value that weighs so little that it is written out as a whole.
    fn at_once(value: &Value, weight: usize) -> Self {
        // As a rule that is room for what has to be escaped, too.
        let mut text = Vec::with_capacity(weight + weight / 8 + 256);
        // Writing into memory cannot fail.
        let _ = serde_json::to_writer(&mut text, value);
        if text.len() <= LIGHT {
            let digest = None;
            return Self { digest, text };
        }
        let digest = Some(Digest::of(&text));
        text.truncate(BEGINNING);
        Self { digest, text }
    }

    pub(crate) fn beginning(&self) -> &[u8] {
        self.text.get(..BEGINNING).unwrap_or(&self.text)
    }

    pub(super) fn digest(&self) -> Digest {
        self.digest.unwrap_or_else(|| Digest::of(&self.text))
    }

    /// Its digest, or all that is still to be hashed.
    pub(crate) fn into_digest(self) -> Result<Digest, Vec<u8>> {
        self.digest.ok_or(self.text)
    }
}

impl Writing {
    pub(super) fn begin(value: &Value) -> Self {
        let weight = weight(value);
        if weight <= HEAVY {
            return Self::Done(Written::at_once(value, weight));
        }
        let (lots, taken) = sync_channel::<Vec<u8>>(LOTS);
        let thread = Builder::new().name("hashing".to_owned());
        let thread = thread.spawn(move || {
            let mut hashing = Hashing::new();
            for lot in taken {
                hashing.update(&lot);
            }
            hashing.finish()
        });
        // Where there is no thread for it, it is done here.
        let Ok(digest) = thread else {
            return Self::Done(Written::of(value));
        };
        let (lots, beginning) = write(value, lots, LOT);
        // Then there are no more.
        drop(lots);
        Self::Beside { digest, beginning }
    }

    pub(super) fn finish(self) -> Written {
        match self {
            Self::Done(written) => written,
            Self::Beside { digest, beginning } => {
                let digest = digest.join();
                let digest = digest.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                Written {
                    digest: Some(digest),
                    text: beginning,
                }
            }
        }
    }
}

/// What hashes bytes, here or elsewhere.
trait Hashes {
    fn hash(&mut self, bytes: &[u8]);
}

impl Hashes for Hashing {
    fn hash(&mut self, bytes: &[u8]) {
        self.update(bytes);
    }
}

impl Hashes for SyncSender<Vec<u8>> {
    fn hash(&mut self, bytes: &[u8]) {
        // A long text comes at once, and must not wait in the queue as a whole.
        for lot in bytes.chunks(LOT) {
            // Whoever hashes takes everything, or ends with a panic that is told at the end.
            let _taken = self.send(lot.to_vec());
        }
    }
}

/// Has `value` hashed as JSON, `lot` bytes at a time, and keeps how it begins.
fn write<H: Hashes>(value: &Value, hashes: H, lot: usize) -> (H, Vec<u8>) {
    // Gathered first: the writer comes with a few bytes at a time, a digest takes blocks.
    let mut sum = BufWriter::with_capacity(
        lot,
        Sum {
            hashes,
            beginning: Vec::with_capacity(BEGINNING),
        },
    );
    // Writing into a digest cannot fail.
    let _ = serde_json::to_writer(&mut sum, value);
    let _ = sum.flush();
    let (sum, _) = sum.into_parts();
    (sum.hashes, sum.beginning)
}

/// Has hashed what is written, and keeps how it begins.
struct Sum<H> {
    hashes: H,
    beginning: Vec<u8>,
}

impl<H: Hashes> Write for Sum<H> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.hashes.hash(bytes);
        let room = BEGINNING.saturating_sub(self.beginning.len());
        self.beginning
            .extend_from_slice(bytes.get(..room).unwrap_or(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_value_has_one_digest_wherever_it_is_hashed() {
        let paths = |count: usize| -> Value { (0..count).map(|n| format!("src/{n}.rs")).collect() };
        for value in [
            json!(null),
            json!("x".repeat(LIGHT - 2)),
            json!("x".repeat(LIGHT - 1)),
            json!({ "text": "x".repeat(HEAVY) }),
            json!({ "text": "x".repeat(HEAVY + 1) }),
            json!({ "text": "\u{1}\n\"".repeat(LOT * LOTS) }),
            json!({ "paths": paths(10), "more": "x".repeat(3 * LOT) }),
            paths(100_000),
        ] {
            let text = value.to_string().into_bytes();
            let heavy = weight(&value) > HEAVY;
            let writing = Writing::begin(&value);
            assert_eq!(matches!(writing, Writing::Beside { .. }), heavy);
            for written in [writing.finish(), Written::of(&value)] {
                assert_eq!(written.digest(), Digest::of(&text));
                assert_eq!(written.beginning(), text.get(..BEGINNING).unwrap_or(&text));
                let light = text.len() <= LIGHT;
                let expected = if light {
                    Err(text.clone())
                } else {
                    Ok(Digest::of(&text))
                };
                assert_eq!(written.into_digest(), expected);
            }
        }
    }
}
