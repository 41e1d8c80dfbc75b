//! Cutting over-long text, visibly.

use crate::tools::Keep;
use std::borrow::Cow;

/// `text` if it fits `budget` bytes, else the part worth keeping with the cut marked.
pub(crate) fn bound(text: &str, keep: Keep, budget: usize) -> Cow<'_, str> {
    if text.len() <= budget {
        return Cow::Borrowed(text);
    }
    let marker = |cut: usize| format!("[… {cut} bytes cut …]");
    // Room for the marker itself comes out of the budget; a tiny budget keeps only the marker.
    let room = budget.saturating_sub(marker(text.len()).len() + 2);
    let (head, tail) = match keep {
        Keep::Head => (room, 0),
        Keep::Tail => (0, room),
        Keep::Middle => (room.div_ceil(2), room / 2),
    };
    let head = text.get(..floor(text, head)).unwrap_or_default();
    let tail = text
        .get(ceil(text, text.len().saturating_sub(tail))..)
        .unwrap_or_default();
    let cut = marker(text.len() - head.len() - tail.len());
    let mut parts = Vec::with_capacity(3);
    parts.extend((!head.is_empty()).then_some(head));
    parts.push(cut.as_str());
    parts.extend((!tail.is_empty()).then_some(tail));
    Cow::Owned(parts.join("\n"))
}

fn floor(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

fn ceil(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_wanted_end_is_kept_and_the_cut_is_marked() {
        let text = format!("{}{}", "a".repeat(500), "z".repeat(500));
        for (keep, starts, ends) in [
            (Keep::Head, 'a', ']'),
            (Keep::Tail, '[', 'z'),
            (Keep::Middle, 'a', 'z'),
        ] {
            let out = bound(&text, keep, 100);
            assert!(out.len() <= 100 && out.contains("bytes cut"), "{out}");
            assert!(
                out.starts_with(starts) && out.ends_with(ends),
                "{keep:?}: {out}"
            );
        }
        assert_eq!(bound("short", Keep::Head, 5), "short");
    }

    proptest! {
        #[test]
        fn bounding_never_splits_a_character(text in "\\PC{0,200}", budget in 0usize..300) {
            for keep in [Keep::Head, Keep::Tail, Keep::Middle] {
                let out = bound(&text, keep, budget);
                // A budget too small for the marker still gets the marker.
                prop_assert!(out.len() <= budget.max(48), "{} > {budget}", out.len());
            }
        }
    }
}
