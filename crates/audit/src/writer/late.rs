//! Digests that a record says and that are computed after it was taken: whoever appends does not wait
//! for them. The writer computes those that nobody had the time for before.

use crate::encoding;
use crate::record::Entry;
use airlock_core::Digest;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

/// Stands in an entry for a digest until that is known: as long as one.
const ROOM: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// A digest, computed by whoever needs it first.
type Sum = Arc<LazyLock<Digest, Box<dyn FnOnce() -> Digest + Send>>>;

/// A digest that stands in a record's metadata from the moment it is sealed.
#[derive(Debug)]
pub struct Late {
    names: &'static [&'static str],
    sum: Sum,
}

impl Late {
    /// The digest of `bytes`, under each of `names`, for which `entry` gets room.
    pub fn new(entry: &mut Entry, names: &'static [&'static str], bytes: Vec<u8>) -> Self {
        for name in names {
            entry.metadata.insert((*name).to_owned(), ROOM.to_owned());
        }
        let sum = LazyLock::new(Box::new(move || Digest::of(&bytes)) as Box<_>);
        let sum = Arc::new(sum);
        Self { names, sum }
    }

    /// Finds the places for it in `stored`, which ends with the encoding of `entry`.
    pub(super) fn found_in(self, entry: &Entry, stored: &[u8]) -> Blank {
        let values = encoding::metadata_values(entry, stored.len());
        let ours = values.filter(|(name, _)| self.names.contains(name));
        Blank {
            places: ours.map(|(_, place)| place).collect(),
            sum: self.sum,
        }
    }
}

/// The same, once it is known where it belongs.
#[derive(Debug)]
pub(super) struct Blank {
    places: Vec<usize>,
    sum: Sum,
}

impl Blank {
    pub(super) fn fill(self, stored: &mut [u8]) {
        let digest = self.sum.to_string();
        for place in self.places {
            let room = stored.get_mut(place..place.saturating_add(digest.len()));
            if let Some(room) = room {
                room.copy_from_slice(digest.as_bytes());
            }
        }
    }
}

/// What was put off last. What was before it is left to the writer.
#[derive(Debug, Default)]
pub(crate) struct PutOff(Mutex<Option<Sum>>);

impl PutOff {
    pub(crate) fn note(&self, late: &Late) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&late.sum));
    }

    /// Does it now, if the writer has not.
    pub(crate) fn catch_up(&self) {
        let sum = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(sum) = sum {
            LazyLock::force(&sum);
        }
    }
}
