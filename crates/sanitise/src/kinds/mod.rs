//! The kinds of secrets that are known by their form.
//!
//! Each is a fixed text that all secrets of the kind contain, and what stands around it. The fixed
//! texts of all kinds are looked for at once; only where one stands is the rest compared. A kind
//! never rests on randomness or on a telling name alone: those are second conditions.
//!
//! Invariant: whether a secret is found depends on the text around it, never on how much of the
//! text is known yet. Where that is too little to tell, the answer is [`Step::More`].

mod ai;
mod checks;
mod cloud;
mod code;
mod custom;
mod pay;
mod pem;
mod saas;

use crate::class::{self, Class};
use std::ops::{Range, RangeInclusive};
use std::sync::LazyLock;

/// No secret spans more bytes.
pub(crate) const LONGEST: usize = 64 * 1024;
/// The most bytes of a secret before its fixed text.
pub(crate) const MOST_BEFORE: usize = 32;

/// What looking at one place says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// There is none.
    No,
    /// The text ends before it can be told.
    More,
    /// It stands here.
    Found(Range<usize>),
}

/// A piece of a secret after its fixed text.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Part {
    /// This text.
    Lit(&'static str),
    /// So many bytes of a class. If both numbers are equal, a longer run is something else; if
    /// not, it is cut at the larger.
    Run(Class, usize, usize),
    /// The first of these that stands here; an empty one, last, makes it optional.
    Any(&'static [&'static str]),
    /// What stands between a name and its value: blanks, quotes, `=`, `:`, `=>`.
    Assign,
    /// The secret begins here; what came before is only its context.
    Start,
}

/// What has to stand before the fixed text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    /// Anything.
    Any,
    /// No letter or digit, unless that is part of an escape.
    Edge,
}

/// How the rest is compared.
#[derive(Debug, Clone, Copy)]
enum How {
    Parts(&'static [Part]),
    /// From the text and where the fixed text begins.
    Custom(fn(&[u8], usize, bool) -> Step),
}

/// One kind of secret, or one of its forms.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kind {
    /// The word in the placeholder.
    pub(crate) name: &'static str,
    /// What every secret of this form contains.
    pub(crate) literal: &'static str,
    /// Whether the case of the fixed text does not matter.
    pub(crate) fold: bool,
    before: Option<(Class, usize)>,
    /// How far before the fixed text a secret can begin.
    reach: usize,
    left: Left,
    /// The name of a value that is one, where the fixed text does not tell it.
    called: Option<&'static str>,
    how: How,
    check: fn(&[u8]) -> bool,
}

/// A kind whose secrets begin with `literal`.
const fn kind(name: &'static str, literal: &'static str, parts: &'static [Part]) -> Kind {
    Kind {
        name,
        literal,
        fold: false,
        before: None,
        reach: 0,
        left: Left::Any,
        called: None,
        how: How::Parts(parts),
        check: checks::real,
    }
}

/// A kind with a matcher of its own.
const fn custom(
    name: &'static str,
    literal: &'static str,
    how: fn(&[u8], usize, bool) -> Step,
) -> Kind {
    let mut made = kind(name, literal, &[]);
    made.how = How::Custom(how);
    made.check = checks::any;
    made
}

impl Kind {
    /// The fixed text stands at an edge of a word.
    const fn edge(mut self) -> Self {
        self.left = Left::Edge;
        self
    }

    /// The case of the fixed text does not matter.
    const fn folded(mut self) -> Self {
        self.fold = true;
        self
    }

    /// Exactly so many bytes of a class stand before the fixed text.
    const fn before(mut self, class: Class, count: usize) -> Self {
        self.before = Some((class, count));
        self.reach = count;
        self
    }

    /// The matcher itself looks so far before the fixed text.
    const fn reaching(mut self, count: usize) -> Self {
        self.reach = count;
        self
    }

    /// A value of that name is one, too: a key in a structure has no sign after it.
    const fn called(mut self, name: &'static str) -> Self {
        self.called = Some(name);
        self
    }

    /// A second condition.
    const fn check(mut self, check: fn(&[u8]) -> bool) -> Self {
        self.check = check;
        self
    }

    /// What may follow the fixed text, if that is one class.
    pub(crate) fn next(&self) -> Option<Class> {
        match self.how {
            How::Parts([Part::Run(class, 1.., _), ..]) => Some(*class),
            How::Parts(_) | How::Custom(_) => None,
        }
    }

    /// Whether the left side of a fixed text at `at` is right: quickly told, and mostly not.
    pub(crate) fn may_stand(&self, text: &[u8], at: usize) -> bool {
        self.begin(text, at).is_some()
    }

    /// The first place a secret whose fixed text stands at `at` can begin.
    pub(crate) fn earliest(&self, at: usize) -> usize {
        at.saturating_sub(self.reach)
    }

    /// Whether a secret of this kind has its fixed text at `at`.
    pub(crate) fn look(&self, text: &[u8], at: usize, last: bool) -> Step {
        let Some(begin) = self.begin(text, at) else {
            return Step::No;
        };
        let step = match self.how {
            How::Custom(look) => look(text, at, last),
            How::Parts(parts) => follow(parts, text, begin, at + self.literal.len(), last),
        };
        match step {
            Step::Found(range)
                if range.is_empty()
                    || !(self.check)(text.get(range.clone()).unwrap_or_default()) =>
            {
                Step::No
            }
            step @ (Step::Found(_) | Step::No | Step::More) => step,
        }
    }

    /// What a value is called that is one, and how it begins; none where no name tells it.
    pub(crate) fn known_as(&self) -> Option<(&'static str, &'static str)> {
        match (self.called, self.how) {
            (Some(name), _) => {
                let rest = self.literal.get(name.len()..).unwrap_or_default();
                Some((name, rest.trim_start_matches([':', '=', ' '])))
            }
            (None, How::Parts([Part::Assign, ..])) => Some((self.literal.trim_matches('"'), "")),
            (None, How::Parts(_) | How::Custom(_)) => None,
        }
    }

    /// How a value that is called `name` begins where it is one; none where the name does not tell it.
    pub(crate) fn begins_under(&self, name: &[u8]) -> Option<&'static str> {
        let (own, begins) = self.known_as()?;
        let at = name.len().checked_sub(own.len())?;
        let end = name.get(at..)?;
        let same = if self.fold {
            end.eq_ignore_ascii_case(own.as_bytes())
        } else {
            end == own.as_bytes()
        };
        // In quotes, the fixed text is the whole name.
        let whole = self.literal.starts_with('"');
        (same && !(whole && at > 0)).then_some(begins)
    }

    /// Where a secret of this kind stands in the value that is called `name`.
    pub(crate) fn under(&self, name: &[u8], value: &[u8]) -> Option<Range<usize>> {
        let begins = self.begins_under(name)?;
        let How::Parts(parts) = self.how else {
            return None;
        };
        let near = value.get(..VALUE).unwrap_or(value);
        let signs = near.iter().take(ASSIGNING);
        let signs = signs.take_while(|byte| assigns(**byte)).count();
        let after = signs + begins.len();
        if !near
            .get(signs..after)?
            .eq_ignore_ascii_case(begins.as_bytes())
        {
            return None;
        }
        let parts = match parts {
            [Part::Assign, rest @ ..] => rest,
            parts => parts,
        };
        match follow(parts, near, after, after, true) {
            Step::Found(range) => {
                let secret = near.get(range.clone())?;
                (!secret.is_empty() && (self.check)(secret)).then_some(range)
            }
            Step::No | Step::More => None,
        }
    }

    /// Where a secret begins whose fixed text stands at `at`, if the left side is right.
    fn begin(&self, text: &[u8], at: usize) -> Option<usize> {
        let left = text.get(..at)?;
        let begin = match self.before {
            None => at,
            Some((class, count)) => {
                // One more than wanted: a longer run is something else, unless an escape ends there.
                let run = class.run_back(left, count + 1);
                let begin = at.checked_sub(count)?;
                let whole = run == count || at_edge(text.get(..begin)?);
                if run < count || !whole {
                    return None;
                }
                begin
            }
        };
        let edge = self.left == Left::Any || at_edge(text.get(..begin)?);
        edge.then_some(begin)
    }
}

/// Whether text after `left` begins a word: nothing of a word stands there, or an escape such as
/// `\n` or `%3D` ends there.
pub(crate) fn at_edge(left: &[u8]) -> bool {
    let (Some(&last), before) = (left.last(), left.len().saturating_sub(1)) else {
        return true;
    };
    if !class::WORD.has(last) {
        return true;
    }
    let before = left.get(..before).unwrap_or_default();
    let escaped = before.last() == Some(&b'\\') && b"nrtbfve0".contains(&last);
    let percent = matches!(before, [.., b'%', first] if first.is_ascii_hexdigit())
        && last.is_ascii_hexdigit();
    escaped || percent
}

fn follow(parts: &[Part], text: &[u8], begin: usize, after: usize, last: bool) -> Step {
    let (mut begin, mut at) = (begin, after);
    for part in parts {
        let rest = text.get(at..).unwrap_or_default();
        let taken = match *part {
            Part::Start => {
                begin = at;
                Taken::Bytes(0)
            }
            Part::Lit(word) => literal(rest, word, last),
            Part::Any(words) => any(rest, words, last),
            Part::Run(class, from, to) => run(rest, class, from..=to, last),
            Part::Assign => assign(rest, last),
        };
        match taken {
            Taken::Bytes(count) => at += count,
            Taken::No => return Step::No,
            Taken::More => return Step::More,
        }
    }
    Step::Found(begin..at)
}

/// How much of the text one part took.
enum Taken {
    Bytes(usize),
    No,
    More,
}

fn literal(text: &[u8], word: &str, last: bool) -> Taken {
    let word = word.as_bytes();
    if text.starts_with(word) {
        Taken::Bytes(word.len())
    } else if !last && word.starts_with(text) {
        Taken::More
    } else {
        Taken::No
    }
}

fn any(text: &[u8], words: &[&str], last: bool) -> Taken {
    for word in words {
        match literal(text, word, last) {
            Taken::No => {}
            taken @ (Taken::Bytes(_) | Taken::More) => return taken,
        }
    }
    Taken::No
}

fn run(text: &[u8], class: Class, counts: RangeInclusive<usize>, last: bool) -> Taken {
    let (fewest, most) = counts.into_inner();
    let count = class.run(text, most + 1);
    if count == text.len() && count <= most && !last {
        return Taken::More;
    }
    if count < fewest || (count > most && fewest == most) {
        return Taken::No;
    }
    Taken::Bytes(count.min(most))
}

/// The most bytes between a name and its value.
const ASSIGNING: usize = 12;
/// As much of a value as any secret takes up that is known by its name.
const VALUE: usize = 4 * 1024;

/// Whether it may stand between a name and its value.
pub(crate) fn assigns(byte: u8) -> bool {
    b" \t\"'`:=>\\".contains(&byte)
}

fn assign(text: &[u8], last: bool) -> Taken {
    let near = text.get(..ASSIGNING).unwrap_or(text);
    let count = near.iter().take_while(|byte| assigns(**byte)).count();
    if count == text.len() && !last {
        return Taken::More;
    }
    let signs = near.get(..count).unwrap_or_default();
    if count < near.len().max(1) && signs.iter().any(|byte| b":=".contains(byte)) {
        Taken::Bytes(count)
    } else {
        Taken::No
    }
}

/// All kinds. Where two find the same text, the first names it.
pub(crate) static KINDS: LazyLock<Vec<Kind>> = LazyLock::new(|| {
    let tables = [
        code::KINDS,
        cloud::KINDS,
        ai::KINDS,
        pay::KINDS,
        saas::KINDS,
        custom::KINDS,
    ];
    tables.concat()
});

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn there_are_more_than_sixty_kinds() {
        let names: BTreeSet<&str> = KINDS.iter().map(|kind| kind.name).collect();
        assert!(names.len() >= 60, "{}", names.len());
        let plain = |name: &&str| {
            name.bytes()
                .all(|b| b.is_ascii_lowercase() || b == b'-' || b.is_ascii_digit())
        };
        assert!(names.iter().all(plain), "{names:?}");
        assert!(KINDS.iter().all(|kind| kind.literal.len() >= 3));
        assert!(KINDS.iter().map(|kind| kind.reach).max() <= Some(MOST_BEFORE));
    }

    #[test]
    fn a_kind_that_is_assigned_is_known_by_its_name() {
        let assigned = |kind: &&Kind| matches!(kind.how, How::Parts([Part::Assign, ..]));
        let unknown = |kind: &Kind| kind.known_as().is_none();
        assert!(!KINDS.iter().filter(assigned).any(unknown));
        let names: BTreeSet<(&str, &str)> = KINDS.iter().filter_map(Kind::known_as).collect();
        for name in [
            ("auth", ""),
            ("secretaccesskey", ""),
            ("AccountKey", ""),
            ("authorization", "basic "),
        ] {
            assert!(names.contains(&name), "{name:?} of {names:?}");
        }
    }

    #[test]
    fn a_word_begins_after_an_escape() {
        for (left, edge) in [
            ("", true),
            ("a ", true),
            ("a", false),
            ("_", false),
            (r"a\n", true),
            ("a%3D", true),
            ("an", false),
            ("a3D", false),
        ] {
            assert_eq!(at_edge(left.as_bytes()), edge, "{left}");
        }
    }

    #[test]
    fn too_little_text_is_no_answer() {
        let parts = &[
            Part::Run(class::HEX, 4, 4),
            Part::Lit("-"),
            Part::Run(class::HEX, 2, 3),
        ];
        for (text, last, want) in [
            ("abcd-12 ", false, Step::Found(0..7)),
            ("abcd-1234", false, Step::Found(0..8)),
            ("abcd-12", false, Step::More),
            ("abcd-12", true, Step::Found(0..7)),
            ("abcd", false, Step::More),
            ("abcd", true, Step::No),
            ("abcde", false, Step::No),
            ("abcd-1 ", false, Step::No),
        ] {
            assert_eq!(
                follow(parts, text.as_bytes(), 0, 0, last),
                want,
                "{text} {last}"
            );
        }
    }
}
