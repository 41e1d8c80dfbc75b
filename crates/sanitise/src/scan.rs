//! Finding everything that has to go, in text that comes in pieces.
//!
//! Places where something may stand are found first, then looked at from left to right. What
//! cannot be told yet waits, and nothing from there on is handed over.
//!
//! Invariants: what is found depends on the text alone, never on how it was cut; no look reaches
//! further back than [`CONTEXT`] or further ahead than the longest secret.

use crate::class;
use crate::flags::{self, Meaning};
use crate::kinds::{KINDS, MOST_BEFORE, Step};
use crate::patterns::{Lines, Patterns};
use crate::prefilter::{Entry, Prefilter, Target, scan_brief};
use crate::values::{Finder, Hit, Values};
use std::cmp::Reverse;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock};

/// Text already handed over that looks may reach back to.
pub(crate) const CONTEXT: usize = 2 * 1024;
/// What real placeholders begin with.
pub(crate) const PLACEHOLDER: &str = "[secret:";

static PREFILTER: LazyLock<Prefilter<4096>> = LazyLock::new(|| Prefilter::new(fixed().collect()));

/// The fixed texts of all rules.
fn fixed() -> impl Iterator<Item = Entry> {
    let kinds = KINDS.iter().enumerate().map(|(number, kind)| Entry {
        text: kind.literal.as_bytes(),
        fold: kind.fold,
        next: kind.next(),
        target: Target::Kind(number),
    });
    let flags = flags::RULES.iter().enumerate().flat_map(|(number, rule)| {
        rule.literals.iter().map(move |literal| Entry {
            text: literal.as_bytes(),
            fold: rule.fold(),
            next: None,
            target: Target::Flag(number),
        })
    });
    let forged = Entry {
        text: PLACEHOLDER.as_bytes(),
        fold: true,
        next: None,
        target: Target::Forged,
    };
    kinds.chain(flags).chain([forged])
}

/// Texts up to this long are looked through without the prefilter at first: a command that says a
/// few short things would spend more on making it than on everything it says.
const BRIEF: usize = 1024;
/// How many of them; whoever says more than that will say more.
const BRIEFLY: u32 = 32;
static BRIEF_TEXTS: AtomicU32 = AtomicU32::new(0);

/// Calls `found` with every fixed text that begins in `text` at `from` or later.
fn scan_fixed(text: &[u8], from: usize, found: impl FnMut(usize, Target)) {
    let brief = from == 0 && text.len() <= BRIEF;
    // Not counted on beyond the limit, so that it never begins anew.
    if brief && BRIEF_TEXTS.load(Ordering::Relaxed) < BRIEFLY {
        BRIEF_TEXTS.fetch_add(1, Ordering::Relaxed);
        return scan_brief(fixed(), text, found);
    }
    PREFILTER.scan(text, from, found);
}

/// Whether any fixed text stands anywhere in `text`.
pub(crate) fn has_fixed(text: &[u8]) -> bool {
    let mut found = false;
    PREFILTER.scan(text, 0, |_, _| found = true);
    found
}

/// What a text is searched for, beside what is built in.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wanted {
    pub(crate) values: Arc<Values>,
    pub(crate) patterns: Arc<Patterns>,
}

/// What stands at a place that has to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Label {
    Value(usize),
    Kind(usize),
    Pattern(usize),
    /// Text that reads like a placeholder.
    Forged,
}

impl Wanted {
    /// Whether there is nothing beside what is built in.
    pub(crate) fn is_empty(&self) -> bool {
        self.values.is_empty() && self.patterns.is_empty()
    }
}

impl Label {
    /// What kind of secret it is, if it is one.
    pub(crate) fn name(self, wanted: &Wanted) -> Option<&str> {
        match self {
            Self::Value(number) => Some(wanted.values.name(number)),
            Self::Kind(number) => Some(KINDS.get(number).map_or("secret", |kind| kind.name)),
            Self::Pattern(number) => Some(wanted.patterns.name(number)),
            Self::Forged => None,
        }
    }
}

/// Something to replace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Edit {
    /// What is replaced.
    pub(crate) range: Range<usize>,
    /// The whole secret, which may begin in what another edit replaces.
    pub(crate) whole: Range<usize>,
    pub(crate) label: Label,
}

impl Edit {
    /// Replaces all of a secret.
    pub(crate) fn whole(range: Range<usize>, label: Label) -> Self {
        Self {
            whole: range.clone(),
            range,
            label,
        }
    }
}

/// A flag and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Flagged {
    pub(crate) range: Range<usize>,
    pub(crate) meaning: Meaning,
}

#[derive(Debug, Clone, Copy)]
struct Candidate {
    target: Target,
    at: usize,
    /// Where it may begin.
    begin: usize,
    /// It is not worth looking again before so much text is known.
    retry: usize,
}

/// The search through one text.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    /// Fixed texts that begin before this were found.
    scanned: usize,
    waiting: Vec<Candidate>,
    found: Vec<Edit>,
    flags: Vec<Flagged>,
    /// Kinds found last, and where they ended.
    taken: Vec<(Target, usize)>,
    finder: Finder,
    lines: Lines,
    /// Text before this was handed over.
    done: usize,
}

/// What can be handed over after a look.
#[derive(Debug, Default)]
pub(crate) struct Ready {
    /// Text up to here.
    pub(crate) end: usize,
    pub(crate) edits: Vec<Edit>,
    pub(crate) flags: Vec<Flagged>,
}

impl Scan {
    /// Looks at `text` on from where the last look ended; `last` if no more follows.
    pub(crate) fn advance(&mut self, wanted: &Wanted, text: &str, last: bool) -> Ready {
        let bytes = text.as_bytes();
        self.find_fixed(bytes, last);
        let mut hold = self.look(bytes, last).min(self.unfinished(bytes, last));
        hold = hold.min(self.find_values(wanted, text, last));
        let found = &mut self.found;
        let line = self
            .lines
            .advance(&wanted.patterns, text, last, |pattern, range| {
                found.push(Edit::whole(range, Label::Pattern(pattern)));
            });
        self.hand_over(text.floor_char_boundary(hold.min(line)), last)
    }

    /// The first `count` bytes of the text are gone.
    pub(crate) fn forget(&mut self, count: usize) {
        let shift = |range: &mut Range<usize>| {
            *range = range.start.saturating_sub(count)..range.end.saturating_sub(count);
        };
        self.scanned = self.scanned.saturating_sub(count);
        self.done = self.done.saturating_sub(count);
        for candidate in &mut self.waiting {
            candidate.at = candidate.at.saturating_sub(count);
            candidate.begin = candidate.begin.saturating_sub(count);
            candidate.retry = candidate.retry.saturating_sub(count);
        }
        for edit in &mut self.found {
            shift(&mut edit.range);
            shift(&mut edit.whole);
        }
        self.flags
            .iter_mut()
            .for_each(|flag| shift(&mut flag.range));
        self.taken
            .iter_mut()
            .for_each(|(_, end)| *end = end.saturating_sub(count));
        self.finder.forget(count);
        self.lines.forget(count);
    }

    /// Adds a flag at a place that was not handed over yet.
    pub(crate) fn flag(&mut self, at: usize, meaning: Meaning) {
        self.flags.push(Flagged {
            range: at..at,
            meaning,
        });
    }

    /// Adds what stands in text that was not handed over yet, and is known by something beside it.
    pub(crate) fn add(&mut self, found: Vec<Edit>) {
        self.found.extend(found);
    }

    /// How much was not handed over of a text of this length.
    pub(crate) fn held(&self, length: usize) -> usize {
        length.saturating_sub(self.done)
    }

    fn find_fixed(&mut self, text: &[u8], last: bool) {
        let stop = if last {
            text.len()
        } else {
            PREFILTER.unfinished(text, self.scanned)
        };
        let waiting = &mut self.waiting;
        scan_fixed(text, self.scanned, |at, target| {
            // From `stop` on they are found again with the text that follows.
            if at < stop {
                let begin = match target {
                    Target::Kind(number) => match KINDS.get(number) {
                        Some(kind) if kind.may_stand(text, at) => kind.earliest(at),
                        Some(_) | None => return,
                    },
                    Target::Flag(_) | Target::Forged => at,
                };
                waiting.push(Candidate {
                    target,
                    at,
                    begin,
                    retry: 0,
                });
            }
        });
        waiting.sort_by_key(|candidate| candidate.at);
        self.scanned = stop;
    }

    /// Looks at every place that can be told; gives the first that cannot.
    fn look(&mut self, text: &[u8], last: bool) -> usize {
        let mut hold = text.len();
        let mut blocked: Vec<Target> = Vec::new();
        for mut candidate in std::mem::take(&mut self.waiting) {
            // One at a time for each kind: what the first takes the next need not look at.
            let early = candidate.retry > text.len() && !last;
            let behind = blocked.contains(&candidate.target);
            if early || behind {
                hold = hold.min(candidate.begin);
                blocked.extend((!behind).then_some(candidate.target));
                self.waiting.push(candidate);
                continue;
            }
            let inside = |(target, end): &(Target, usize)| {
                *target == candidate.target && candidate.at < *end
            };
            if self.taken.iter().any(inside) {
                continue;
            }
            match Self::look_at(text, &candidate, last) {
                Step::No => self.judged(&candidate, text),
                Step::Found(range) => {
                    self.take(&candidate, range);
                    self.judged(&candidate, text);
                }
                Step::More => {
                    hold = hold.min(candidate.begin);
                    blocked.push(candidate.target);
                    candidate.retry = text.len() + 1 + (text.len() - candidate.begin) / 4;
                    self.waiting.push(candidate);
                }
            }
        }
        hold
    }

    fn look_at(text: &[u8], candidate: &Candidate, last: bool) -> Step {
        let at = candidate.at;
        match candidate.target {
            Target::Kind(number) => KINDS
                .get(number)
                .map_or(Step::No, |kind| kind.look(text, at, last)),
            Target::Flag(number) => flags::RULES
                .get(number)
                .map_or(Step::No, |rule| rule.look(text, at, last)),
            Target::Forged => forged(text, at, last),
        }
    }

    /// Some looks judge more than their own place.
    fn judged(&mut self, candidate: &Candidate, text: &[u8]) {
        let Target::Flag(number) = candidate.target else {
            return;
        };
        let judged = flags::RULES
            .get(number)
            .and_then(|rule| rule.judged(text, candidate.at));
        if let Some(end) = judged {
            self.taken.retain(|(_, end)| *end > candidate.at);
            self.taken.push((candidate.target, end));
        }
    }

    fn take(&mut self, candidate: &Candidate, range: Range<usize>) {
        let label = match candidate.target {
            Target::Kind(number) => Label::Kind(number),
            Target::Forged => Label::Forged,
            Target::Flag(number) => {
                if let Some(rule) = flags::RULES.get(number) {
                    self.flags.push(Flagged {
                        range,
                        meaning: rule.meaning,
                    });
                }
                return;
            }
        };
        self.taken.retain(|(_, end)| *end > candidate.at);
        self.taken.push((candidate.target, range.end));
        self.found.push(Edit::whole(range, label));
    }

    fn find_values(&mut self, wanted: &Wanted, text: &str, last: bool) -> usize {
        if wanted.values.is_empty() {
            return text.len();
        }
        let mut hits: Vec<Hit> = Vec::new();
        let hold = self
            .finder
            .advance(&wanted.values, text.as_bytes(), last, &mut hits);
        for Hit { value, range } in hits {
            let range = text.floor_char_boundary(range.start)..text.ceil_char_boundary(range.end);
            self.found.push(Edit::whole(range, Label::Value(value)));
        }
        hold
    }

    /// Where something may begin whose fixed text has not come yet, or not in full.
    fn unfinished(&self, text: &[u8], last: bool) -> usize {
        if last {
            return text.len();
        }
        let before = text.get(..self.scanned).unwrap_or(text);
        match text.get(self.scanned) {
            // What begins with these is the middle of a secret.
            None | Some(b'0'..=b'9' | b'.' | b'-' | b':') => {
                self.scanned - class::LEADING.run_back(before, MOST_BEFORE)
            }
            Some(_) => self.scanned,
        }
    }

    /// Hands over what stands before `hold`. Edits that overlap belong together: none of them is
    /// handed over before all that may join them are known.
    fn hand_over(&mut self, mut hold: usize, last: bool) -> Ready {
        self.found
            .sort_by_key(|edit| (edit.range.start, Reverse(edit.range.end), edit.label));
        let (mut edits, mut kept) = (Vec::new(), Vec::new());
        let mut found = std::mem::take(&mut self.found).into_iter().peekable();
        while let Some(first) = found.next() {
            let (begin, mut end) = (first.range.start, first.range.end);
            let joins = |next: &Edit, end: usize| next.range.start < end.min(begin + MOST_JOINED);
            // Nearly all stand alone.
            let alone = found.peek().is_none_or(|next| !joins(next, end));
            if alone && (end <= hold || last) {
                edits.push(first);
                continue;
            }
            let mut group = vec![first];
            while let Some(next) = found.next_if(|next| joins(next, end)) {
                end = end.max(next.range.end);
                group.push(next);
            }
            if end > hold && !last {
                hold = hold.min(begin);
                kept.extend(group);
            } else {
                join(group, &mut edits);
            }
        }
        self.found = kept;
        self.done = hold.max(self.done);
        let flags = self.flags.extract_if(.., |flag| flag.range.start <= hold);
        let mut flags: Vec<Flagged> = flags.collect();
        flags.sort_by_key(|flag| (flag.range.start, flag.range.end));
        Ready {
            end: self.done,
            edits,
            flags,
        }
    }
}

/// The most bytes of edits that overlap one another.
const MOST_JOINED: usize = 128 * 1024;

/// Appends edits that overlap one another, without the overlaps.
fn join(group: Vec<Edit>, edits: &mut Vec<Edit>) {
    let mut end = 0;
    let first = edits.len();
    for mut edit in group {
        if edit.range.end <= end {
            continue;
        }
        let overlaps = edit.range.start < end;
        edit.range.start = edit.range.start.max(end);
        end = edit.range.end;
        match edits.get_mut(first..).and_then(<[Edit]>::last_mut) {
            // The same secret in two readings, one longer than the other.
            Some(before) if overlaps && before.label == edit.label => before.range.end = end,
            Some(_) | None => edits.push(edit),
        }
    }
}

/// Whether text reads like a placeholder of ours: a name and a number.
fn forged(text: &[u8], at: usize, last: bool) -> Step {
    let from = at + PLACEHOLDER.len();
    let rest = text.get(from..).unwrap_or_default();
    let name = class::DOTTED.run(rest, 65);
    match rest.get(name) {
        _ if name == 0 || name > 64 => {
            if name == 0 && rest.is_empty() && !last {
                Step::More
            } else {
                Step::No
            }
        }
        Some(b'#') => Step::Found(at..from),
        Some(_) => Step::No,
        None if last => Step::No,
        None => Step::More,
    }
}
