//! The nearest known word to a misspelt one.

/// The word of `known` within two edits of `word`, if there is one.
pub(crate) fn closest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known
        .map(|candidate| (distance(word, candidate), candidate))
        .filter(|(edits, candidate)| *edits <= 2 && *edits < candidate.len())
        .min()
        .map(|(_, candidate)| candidate)
}

/// Insertions, deletions and replacements that turn `from` into `to`.
fn distance(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (0..=to.chars().count()).collect();
    for (i, a) in from.chars().enumerate() {
        let mut next = vec![i + 1];
        for ((b, diagonal), above) in to.chars().zip(&row).zip(row.iter().skip(1)) {
            let left = next.last().copied().unwrap_or(0);
            next.push(
                (diagonal + usize::from(a != b))
                    .min(above + 1)
                    .min(left + 1),
            );
        }
        row = next;
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_near_words_are_suggested() {
        let known = ["setup", "test", "tidy", "ci"];
        for (word, want) in [
            ("tset", Some("test")),
            ("tidi", Some("tidy")),
            ("set-up", Some("setup")),
            ("publish", None),
            ("", None),
        ] {
            assert_eq!(closest(word, known.into_iter()), want, "{word}");
        }
    }
}
