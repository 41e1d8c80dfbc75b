//! The rules a lookup came upon, without touching the heap where they are few.
//!
//! Guarantee: they are read ascending, so in file order, and each once, however often and in
//! whatever order they were added.

/// So many are held in place.
const FEW: usize = 16;

/// Numbers of rules.
#[derive(Debug, Default)]
pub(super) struct Candidates {
    few: [u32; FEW],
    /// How many of `few` are taken.
    taken: usize,
    /// All of them, once they were too many.
    many: Vec<u32>,
}

impl Candidates {
    pub(super) fn extend(&mut self, ids: &[u32]) {
        if self.many.is_empty() {
            let end = self.taken + ids.len();
            if let Some(free) = self.few.get_mut(self.taken..end) {
                free.copy_from_slice(ids);
                self.taken = end;
                return;
            }
            self.many.extend(self.few.iter().take(self.taken));
        }
        self.many.extend_from_slice(ids);
    }

    /// Drops what was added twice if there are more than `limit`.
    pub(super) fn condense_beyond(&mut self, limit: usize) {
        if self.many.len() > limit {
            self.many.sort_unstable();
            self.many.dedup();
        }
    }

    /// Each once, ascending.
    pub(super) fn ascending(&mut self) -> impl Iterator<Item = u32> {
        let all = if self.many.is_empty() {
            self.few.get_mut(..self.taken).unwrap_or_default()
        } else {
            &mut self.many
        };
        all.sort_unstable();
        all.chunk_by(u32::eq)
            .filter_map(|same| same.first().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn every_number_is_read_once_and_in_order(
            lists in prop::collection::vec(prop::collection::vec(0_u32..40, 0..12), 0..6),
            limit in 0_usize..30,
        ) {
            let mut found = Candidates::default();
            for list in &lists {
                found.extend(list);
                found.condense_beyond(limit);
            }
            let wanted: BTreeSet<u32> = lists.into_iter().flatten().collect();
            let got: Vec<u32> = found.ascending().collect();
            prop_assert_eq!(got, Vec::from_iter(wanted));
        }
    }
}
