//! Writing sanitised text: placeholders for what was found, and flags at their places in it.

use crate::flags::Flag;
use crate::numbers::Numbers;
use crate::scan::{Edit, Flagged, Label, Ready, Wanted};
use std::sync::Mutex;

/// The most flags told of one text; more are only counted.
pub(crate) const MOST_FLAGS: usize = 100;
/// The most characters of an excerpt.
pub(crate) const EXCERPT: usize = 120;

/// What is written for `[secret:` that was in the text: close to it, and never a placeholder.
const FORGED: &str = "[\\secret:";

/// What text is written with.
#[derive(Clone, Copy)]
pub(crate) struct Ink<'a> {
    pub(crate) wanted: &'a Wanted,
    pub(crate) numbers: &'a Mutex<Numbers>,
    /// Whether placeholders in the text itself are marked as no real ones.
    pub(crate) marks_forged: bool,
}

/// What was written so far of one text.
#[derive(Debug, Default)]
pub(crate) struct Written {
    /// Bytes.
    length: usize,
    lines: usize,
    pub(crate) secrets: usize,
    pub(crate) flags: Vec<Flag>,
    /// Flags whose end is still to come, with that end in the text.
    open: Vec<(Flag, usize)>,
}

/// A stretch of text and what became of it.
struct Stretch {
    from: usize,
    to: usize,
    written: usize,
    written_to: usize,
    plain: bool,
}

impl Written {
    /// Whether what is ready would be written as it is.
    pub(crate) fn is_plain(ready: &Ready, ink: Ink<'_>) -> bool {
        let same = |edit: &Edit| edit.label == Label::Forged && !ink.marks_forged;
        ready.edits.iter().all(same)
    }

    /// Whether a flag has begun and not ended.
    pub(crate) fn has_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// The first `gone` bytes of the text are no longer kept: places in it are counted anew.
    pub(crate) fn forget(&mut self, gone: usize) {
        for (_, end) in &mut self.open {
            *end = end.saturating_sub(gone);
        }
    }

    /// Text that stays as it is and has no flags.
    pub(crate) fn pass(&mut self, text: &str, last: bool) {
        self.length += text.len();
        // Lines are only needed for flags that may still come.
        if !last {
            self.lines += memchr::memchr_iter(b'\n', text.as_bytes()).count();
        }
    }

    /// Appends `text` from `from` to what is ready.
    pub(crate) fn write(
        &mut self,
        text: &str,
        from: usize,
        ready: Ready,
        ink: Ink<'_>,
        out: &mut String,
    ) {
        let base = out.len();
        let mut stretches = Vec::new();
        let mut at = from;
        let mut numbers = ink
            .numbers
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        for edit in &ready.edits {
            if edit.label == Label::Forged && !ink.marks_forged {
                continue;
            }
            self.plain(text, at..edit.range.start, base, out, &mut stretches);
            let written = self.length + out.len() - base;
            self.replace(text, edit, ink, &mut numbers, out);
            let written_to = self.length + out.len() - base;
            let (from, to) = (edit.range.start, edit.range.end);
            stretches.push(Stretch {
                from,
                to,
                written,
                written_to,
                plain: false,
            });
            at = edit.range.end;
        }
        drop(numbers);
        self.plain(text, at..ready.end, base, out, &mut stretches);
        let written = out.get(base..).unwrap_or_default();
        self.place(ready.flags, ready.end, &stretches, written);
        self.length += written.len();
        self.lines += memchr::memchr_iter(b'\n', written.as_bytes()).count();
    }

    fn plain(
        &self,
        text: &str,
        range: std::ops::Range<usize>,
        base: usize,
        out: &mut String,
        stretches: &mut Vec<Stretch>,
    ) {
        let Some(plain) = text.get(range.clone()).filter(|plain| !plain.is_empty()) else {
            return;
        };
        let written = self.length + out.len() - base;
        out.push_str(plain);
        let written_to = written + plain.len();
        stretches.push(Stretch {
            from: range.start,
            to: range.end,
            written,
            written_to,
            plain: true,
        });
    }

    fn replace(
        &mut self,
        text: &str,
        edit: &Edit,
        ink: Ink<'_>,
        numbers: &mut Numbers,
        out: &mut String,
    ) {
        let Some(name) = edit.label.name(ink.wanted) else {
            out.push_str(FORGED);
            return;
        };
        let identity = match edit.label {
            // However it is written, it is the same value.
            Label::Value(number) => ink.wanted.values.identity(number),
            Label::Kind(_) | Label::Pattern(_) | Label::Forged => {
                text.as_bytes().get(edit.whole.clone()).unwrap_or_default()
            }
        };
        self.secrets += 1;
        let number = numbers.number(name, identity);
        out.push_str("[secret:");
        out.push_str(name);
        out.push('#');
        push_number(number, out);
        out.push(']');
    }

    /// Puts flags at their places in what was written, and ends those that end in it.
    fn place(&mut self, flags: Vec<Flagged>, end: usize, stretches: &[Stretch], written: &str) {
        let (mut line, mut counted) = (self.lines + 1, 0);
        for flagged in flags {
            let begin = self.position(stretches, flagged.range.start, Side::Begin);
            let before = begin.saturating_sub(self.length);
            let between = written.as_bytes().get(counted..before).unwrap_or_default();
            line += memchr::memchr_iter(b'\n', between).count();
            counted = counted.max(before);
            let flag = Flag {
                rule: flagged.meaning.rule.into(),
                reason: flagged.meaning.reason.into(),
                field: String::new(),
                at: begin..begin,
                line,
                excerpt: String::new(),
            };
            if flagged.range.is_empty() {
                self.keep(flag);
            } else {
                self.open.push((flag, flagged.range.end));
            }
        }
        for (mut flag, flag_end) in std::mem::take(&mut self.open) {
            let stop = if flag_end <= end {
                self.position(stretches, flag_end, Side::End)
            } else {
                self.length + written.len()
            };
            let shown = flag.at.end.saturating_sub(self.length)..stop.saturating_sub(self.length);
            let shown = written.get(shown).unwrap_or_default();
            let room = EXCERPT.saturating_sub(flag.excerpt.chars().count());
            let one_line = |c: char| if c == '\n' { ' ' } else { c };
            flag.excerpt.extend(shown.chars().map(one_line).take(room));
            flag.at.end = stop.max(flag.at.end);
            if flag_end > end {
                self.open.push((flag, flag_end));
            } else {
                self.keep(flag);
            }
        }
    }

    fn keep(&mut self, flag: Flag) {
        if self.flags.len() < MOST_FLAGS {
            self.flags.push(flag);
        }
    }

    /// Where what stood at `at` was written.
    fn position(&self, stretches: &[Stretch], at: usize, side: Side) -> usize {
        let index = match side {
            Side::Begin => stretches.partition_point(|stretch| stretch.to <= at),
            Side::End => stretches.partition_point(|stretch| stretch.to < at),
        };
        let Some(stretch) = stretches.get(index) else {
            return stretches
                .last()
                .map_or(self.length, |stretch| stretch.written_to);
        };
        if stretch.plain {
            return stretch.written + at.saturating_sub(stretch.from);
        }
        match side {
            Side::Begin => stretch.written,
            Side::End => stretch.written_to,
        }
    }

    /// The flags in the order of their places, each once.
    pub(crate) fn take_flags(&mut self) -> Vec<Flag> {
        // The text is over, and with it whatever has begun.
        for (flag, _) in std::mem::take(&mut self.open) {
            self.keep(flag);
        }
        let mut flags = std::mem::take(&mut self.flags);
        flags.sort_by_key(|flag| {
            (
                flag.at.start,
                flag.rule.clone(),
                std::cmp::Reverse(flag.at.end),
            )
        });
        flags.dedup_by_key(|flag| (flag.at.start, flag.rule.clone()));
        flags
    }
}

/// Without the detour of formatting: text full of secrets has a number in every line.
fn push_number(number: u32, out: &mut String) {
    if number >= 10 {
        push_number(number / 10, out);
    }
    out.extend(char::from_digit(number % 10, 10));
}

#[derive(Clone, Copy)]
enum Side {
    Begin,
    End,
}
