//! Cutting over-long text, visibly, and saying how to get at the rest.

use std::borrow::Cow;

/// Which part of an over-long result is worth keeping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// The beginning.
    Head,
    /// The end.
    Tail,
    /// Both ends; the middle is cut.
    Middle,
}

/// How much text may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bound<'p> {
    /// Which part is kept.
    pub keep: Keep,
    /// The most bytes.
    pub bytes: usize,
    /// How to get at what was cut, if there is a way: it stands in the mark.
    pub paging: Option<&'p str>,
}

/// Bytes of a token, on average.
const TOKEN: usize = 4;

/// The shortest mark there is.
pub(crate) const LEFT_OUT: &str = "…";

impl<'p> Bound<'p> {
    /// At most `bytes` bytes.
    pub fn bytes(keep: Keep, bytes: usize) -> Self {
        Self {
            keep,
            bytes,
            paging: None,
        }
    }

    /// At most about `tokens` tokens, at the usual four bytes each.
    pub fn tokens(keep: Keep, tokens: usize) -> Self {
        Self::bytes(keep, tokens.saturating_mul(TOKEN))
    }

    /// With a word on how to get at what was cut.
    #[must_use]
    pub fn paged(self, paging: &'p str) -> Self {
        Self {
            paging: Some(paging),
            ..self
        }
    }

    fn mark(&self, cut: usize) -> String {
        self.note(cut, "byte", usize::MAX)
    }

    /// What says that so many of `what` are not there, in at most `room` bytes if there is a way.
    pub(crate) fn note(&self, cut: usize, what: &str, room: usize) -> String {
        let plural = if cut == 1 { "" } else { "s" };
        let short = format!("[… {cut} {what}{plural} cut");
        let paged = self.paging.map(|paging| format!("{short}; {paging} …]"));
        match paged {
            Some(paged) if paged.len() <= room => paged,
            Some(_) | None => {
                let short = short + " …]";
                if short.len() <= room {
                    short
                } else {
                    LEFT_OUT.to_owned()
                }
            }
        }
    }

    /// `text` if it fits, else the part worth keeping with the cut marked.
    pub fn apply<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if text.len() <= self.bytes {
            return Cow::Borrowed(text);
        }
        // Room for the mark itself comes out of the budget; a tiny budget keeps only the mark.
        let room = self.bytes.saturating_sub(self.mark(text.len()).len() + 2);
        let (head, tail) = match self.keep {
            Keep::Head => (room, 0),
            Keep::Tail => (0, room),
            Keep::Middle => (room.div_ceil(2), room / 2),
        };
        let head = text.get(..whole_before(text, head)).unwrap_or_default();
        let tail = text
            .get(whole_after(text, text.len() - tail)..)
            .unwrap_or_default();
        let cut = self.mark(text.len() - head.len() - tail.len());
        let mut parts = Vec::with_capacity(3);
        parts.extend((!head.is_empty()).then_some(head));
        parts.push(cut.as_str());
        parts.extend((!tail.is_empty()).then_some(tail));
        Cow::Owned(parts.join("\n"))
    }
}

/// About `bytes` bytes of `text` from `offset` on; empty at its end. It tears no character, and no
/// placeholder unless it begins in one.
pub fn page(text: &str, offset: usize, bytes: usize) -> &str {
    let begin = text.ceil_char_boundary(offset);
    let end = begin.saturating_add(bytes).min(text.len());
    // Whatever stands there, each page has something.
    let least = text.ceil_char_boundary(begin.saturating_add(1));
    let end = match whole_before(text, end) {
        whole if whole > begin => whole,
        _ => text.floor_char_boundary(end).max(least),
    };
    text.get(begin..end).unwrap_or_default()
}

/// The longest placeholder that a cut must not tear apart.
const PLACEHOLDER: usize = 96;

/// The last place up to `at` that is in no character and no placeholder.
fn whole_before(text: &str, at: usize) -> usize {
    let at = text.floor_char_boundary(at);
    torn(text, at).map_or(at, |(begin, _)| begin)
}

/// The first place from `at` on that is in no character and no placeholder.
fn whole_after(text: &str, at: usize) -> usize {
    let at = text.ceil_char_boundary(at);
    torn(text, at).map_or(at, |(_, end)| end)
}

/// The placeholder that `at` is within.
fn torn(text: &str, at: usize) -> Option<(usize, usize)> {
    let from = text.floor_char_boundary(at.saturating_sub(PLACEHOLDER));
    // It may begin right before the cut.
    let near = text.floor_char_boundary(at + "[secret:".len() - 1);
    let begin = from + text.get(from..near)?.rfind("[secret:")?;
    if begin >= at {
        return None;
    }
    let to = text.floor_char_boundary(begin + PLACEHOLDER);
    let end = begin + text.get(begin..to)?.find(']')? + 1;
    (end > at).then_some((begin, end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pages_one_after_the_other_are_the_text(
            text in "([aé€]|\\[secret:github-token#1\\]){0,12}",
            bytes in 1_usize..40,
        ) {
            let (mut read, mut pages) = (String::new(), 0);
            while read.len() < text.len() {
                let next = page(&text, read.len(), bytes);
                prop_assert!(!next.is_empty() && pages <= text.len());
                read.push_str(next);
                pages += 1;
            }
            prop_assert_eq!(&read, &text);
            prop_assert_eq!(page(&text, text.len(), bytes), "");
            prop_assert_eq!(page(&text, usize::MAX, bytes), "");
        }
    }

    #[test]
    fn the_wanted_end_is_kept_and_the_cut_is_marked() {
        let text = format!("{}{}", "a".repeat(500), "z".repeat(500));
        for (keep, starts, ends) in [
            (Keep::Head, 'a', ']'),
            (Keep::Tail, '[', 'z'),
            (Keep::Middle, 'a', 'z'),
        ] {
            let out = Bound::bytes(keep, 100).apply(&text);
            assert!(out.len() <= 100 && out.contains("bytes cut"), "{out}");
            assert!(
                out.starts_with(starts) && out.ends_with(ends),
                "{keep:?}: {out}"
            );
        }
        assert_eq!(Bound::bytes(Keep::Head, 5).apply("short"), "short");
        let paged = Bound::tokens(Keep::Head, 40).paged("read on with offset_line");
        let out = paged.apply(&text);
        assert!(
            out.ends_with("; read on with offset_line …]") && out.len() <= 160,
            "{out}"
        );
    }

    #[test]
    fn a_cut_tears_no_placeholder_apart() {
        let text = format!(
            "{}[secret:github-token#1]{}",
            "a".repeat(100),
            "b".repeat(100)
        );
        for keep in [Keep::Head, Keep::Tail, Keep::Middle] {
            for bytes in 40..220 {
                let out = Bound::bytes(keep, bytes).apply(&text);
                let whole = out.contains("[secret:github-token#1]");
                assert!(
                    whole || !(out.contains("secret") || out.contains("token")),
                    "{out}"
                );
            }
        }
    }

    proptest! {
        #[test]
        fn bounding_never_splits_a_character(text in "\\PC{0,200}", budget in 0usize..300) {
            for keep in [Keep::Head, Keep::Tail, Keep::Middle] {
                let out = Bound::bytes(keep, budget).apply(&text);
                // A budget too small for the mark still gets the mark.
                prop_assert!(out.len() <= budget.max(48), "{} > {budget}", out.len());
            }
        }
    }
}
