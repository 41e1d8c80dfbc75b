//! A pattern that finds every line that another one would find once its secrets are taken out.
//!
//! What a search finds must not depend on secrets, and looking for those in every file is slow. So
//! the wide pattern is looked for in files as they are; where it is found, secrets are taken out and
//! the pattern itself decides. Were the pattern itself looked for first, `x|ghp_a` would tell
//! whether the token in a line with an `x` in its placeholder begins with an `a`.
//!
//! Invariant: if a pattern matches a line in which each secret is one [`TAKEN_OUT`], the wide one
//! matches the line with any text in their places.

use regex_syntax::hir::{Class, ClassBytes, ClassBytesRange, Hir, HirKind, Look, Repetition};

/// What stands in the place of a secret while a pattern is looked for: the character "substitute".
/// It is no letter, no digit and no blank, and one byte in every encoding.
pub(super) const TAKEN_OUT: u8 = 0x1a;

/// What stands for that character where a file itself has it.
pub(super) const SET_ASIDE: u8 = 0x19;

/// The wide pattern of `pattern`; none if it is the same.
pub(super) fn widened(pattern: &Hir) -> Option<Hir> {
    let mut widen = Widen { changed: false };
    let wide = widen.hir(pattern);
    widen.changed.then_some(wide)
}

struct Widen {
    changed: bool,
}

impl Widen {
    fn hir(&mut self, hir: &Hir) -> Hir {
        match hir.kind() {
            HirKind::Empty => Hir::empty(),
            HirKind::Literal(literal) if has_one(&literal.0) => self.anything(),
            HirKind::Literal(literal) => Hir::literal(literal.0.clone()),
            HirKind::Class(class) if may_be_one(class) => self.anything(),
            HirKind::Class(class) => Hir::class(class.clone()),
            // A line keeps its ends.
            HirKind::Look(look @ (Look::StartLF | Look::EndLF)) => Hir::look(*look),
            // What stands beside a place may be part of a secret.
            HirKind::Look(_) => {
                self.changed = true;
                Hir::empty()
            }
            HirKind::Repetition(repetition) => Hir::repetition(Repetition {
                sub: Box::new(self.hir(&repetition.sub)),
                ..repetition.clone()
            }),
            HirKind::Capture(capture) => self.hir(&capture.sub),
            HirKind::Concat(parts) => {
                Hir::concat(parts.iter().map(|part| self.hir(part)).collect())
            }
            HirKind::Alternation(parts) => {
                Hir::alternation(parts.iter().map(|part| self.hir(part)).collect())
            }
        }
    }

    /// What may be a secret may be as long as one.
    fn anything(&mut self) -> Hir {
        self.changed = true;
        let mut line_end = ClassBytes::new([ClassBytesRange::new(b'\n', b'\n')]);
        line_end.negate();
        Hir::repetition(Repetition {
            min: 1,
            max: None,
            greedy: true,
            sub: Box::new(Hir::class(Class::Bytes(line_end))),
        })
    }
}

/// Whether `bytes` have one of the two characters.
pub(super) fn has_one(bytes: &[u8]) -> bool {
    bytes
        .iter()
        .any(|byte| [TAKEN_OUT, SET_ASIDE].contains(byte))
}

fn may_be_one(class: &Class) -> bool {
    let mut any = [TAKEN_OUT, SET_ASIDE].into_iter();
    match class {
        Class::Unicode(class) => any.any(|byte| {
            let mut ranges = class.ranges().iter();
            ranges.any(|range| (range.start()..=range.end()).contains(&char::from(byte)))
        }),
        Class::Bytes(class) => any.any(|byte| {
            let mut ranges = class.ranges().iter();
            ranges.any(|range| (range.start()..=range.end()).contains(&byte))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use regex::bytes::RegexBuilder;

    fn parsed(pattern: &str) -> Hir {
        let mut parser = regex_syntax::ParserBuilder::new();
        parser
            .utf8(false)
            .multi_line(true)
            .build()
            .parse(pattern)
            .unwrap()
    }

    fn matches(pattern: &str, line: &[u8]) -> bool {
        let built = RegexBuilder::new(pattern).multi_line(true).build();
        built.unwrap().is_match(line)
    }

    #[test]
    fn patterns_that_cannot_match_a_secrets_place_stay() {
        for pattern in [
            "fn main",
            r"fn \w+\(",
            r"^use\s+(a|b)\d*;$",
            "(?i)todo",
            "[a-z]+",
        ] {
            assert!(widened(&parsed(pattern)).is_none(), "{pattern}");
        }
        for pattern in [
            ".",
            r"\S+",
            r"\bfn\b",
            r#""[^"]*""#,
            r"\x1a",
            r"\Aa",
            r"(?-u:\W)",
        ] {
            assert!(widened(&parsed(pattern)).is_some(), "{pattern}");
        }
    }

    proptest! {
        #[test]
        fn a_wide_pattern_matches_whatever_the_secret_is(
            pattern in r"(a|b|=|\.|\\S|\\W|\\w|\\b|\\B|\^|\$|\[\^a\]|\[\^=b\]\*|\.\*|\.\{2\}|\x1a|\|){1,8}",
            before in "[ab= ]{0,4}",
            secret in "[ab=\u{e9}]{1,6}",
            after in "[ab= ]{0,4}",
        ) {
            let wide = widened(&parsed(&pattern)).map_or(pattern.clone(), |wide| wide.to_string());
            let taken_out = [before.as_bytes(), &[TAKEN_OUT], after.as_bytes()].concat();
            let line = format!("{before}{secret}{after}");
            if matches(&pattern, &taken_out) {
                prop_assert!(matches(&wide, line.as_bytes()), "{pattern} {wide} {line}");
            }
            if matches(&pattern, line.as_bytes()) {
                prop_assert!(matches(&wide, line.as_bytes()), "{pattern} {wide} {line}");
            }
        }
    }
}
