//! Applies the hunks of one file to its text.

use super::{Hunk, Kind};
use airlock_sanitise::Sanitiser;

/// Why a hunk does not apply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(in crate::process::files) enum ApplyError {
    #[error("hunk {hunk} (line {at} of the patch): line {line} is {found}, the patch has {wanted}")]
    Differs {
        hunk: usize,
        at: usize,
        line: usize,
        found: String,
        wanted: String,
        elsewhere: Option<usize>,
    },
    #[error("hunk {hunk} (line {at} of the patch) begins before the one before it ends")]
    Overlaps { hunk: usize, at: usize },
}

impl ApplyError {
    pub(in crate::process::files) fn hint(&self) -> String {
        match self {
            Self::Differs {
                elsewhere: Some(line),
                ..
            } => format!("the hunk's lines stand at line {line}: correct its header"),
            Self::Differs { .. } => "read the file again and make the patch from it".to_owned(),
            Self::Overlaps { .. } => "order the hunks by line".to_owned(),
        }
    }
}

/// `text` with every hunk applied, or the first that does not fit.
pub(in crate::process::files) fn apply(text: &str, hunks: &[Hunk]) -> Result<String, ApplyError> {
    let old: Vec<&str> = text.split_inclusive('\n').collect();
    let mut new = String::with_capacity(text.len() + 256);
    let mut done = 0_usize;
    for (number, hunk) in hunks.iter().enumerate() {
        let number = number + 1;
        let start = beginning(hunk.old_start, hunk.old_lines);
        let skipped = start.checked_sub(done).ok_or(ApplyError::Overlaps {
            hunk: number,
            at: hunk.at,
        })?;
        for line in old.iter().skip(done).take(skipped) {
            new.push_str(line);
        }
        fits(&old, hunk, start, number)?;
        for line in hunk.lines.iter().filter(|line| line.kind != Kind::Removed) {
            new.push_str(&line.text);
        }
        done = start + hunk.old_lines;
    }
    for line in old.iter().skip(done) {
        new.push_str(line);
    }
    Ok(new)
}

/// The first line counted from 0. An empty range is named by the line before it.
const fn beginning(start: usize, lines: usize) -> usize {
    if lines == 0 {
        start
    } else {
        start.saturating_sub(1)
    }
}

fn wanted(hunk: &Hunk) -> Vec<&str> {
    let lines = hunk.lines.iter().filter(|line| line.kind != Kind::Added);
    lines.map(|line| line.text.as_str()).collect()
}

fn fits(old: &[&str], hunk: &Hunk, start: usize, number: usize) -> Result<(), ApplyError> {
    let wanted = wanted(hunk);
    let found = old.get(start..).unwrap_or_default();
    let differs = |index: usize, wanted: Option<&str>| ApplyError::Differs {
        hunk: number,
        at: hunk.at,
        line: start + index + 1,
        found: found_at(old, start + index),
        wanted: shown(wanted),
        elsewhere: elsewhere(old, hunk),
    };
    if wanted.is_empty() && start > old.len() {
        return Err(differs(0, None));
    }
    for (index, want) in wanted.iter().enumerate() {
        let have = found.get(index).copied();
        if have != Some(want) {
            return Err(differs(index, Some(want)));
        }
    }
    // Lines after one without an end would be glued to it.
    let ends_early = |line: &&str| !line.ends_with('\n');
    let last = hunk
        .lines
        .iter()
        .rposition(|line| line.kind != Kind::Removed);
    let inner = hunk
        .lines
        .iter()
        .enumerate()
        .filter(|(_, line)| line.kind != Kind::Removed);
    let open = inner
        .filter(|(index, _)| Some(*index) != last)
        .find(|(_, line)| ends_early(&line.text.as_str()));
    let follows = found.get(wanted.len()).copied();
    let last_open = last
        .and_then(|last| hunk.lines.get(last))
        .filter(|line| ends_early(&line.text.as_str()));
    if let Some((_, line)) = open {
        return Err(differs(wanted.len(), Some(&line.text)));
    }
    if let (Some(line), Some(_)) = (last_open, follows) {
        return Err(differs(wanted.len(), Some(&line.text)));
    }
    Ok(())
}

/// The one other place where all old lines of `hunk` stand, as a line counted from 1.
fn elsewhere(old: &[&str], hunk: &Hunk) -> Option<usize> {
    let wanted = wanted(hunk);
    if wanted.is_empty() || wanted.len().saturating_mul(old.len()) > 10_000_000 {
        return None;
    }
    let mut places = old.windows(wanted.len()).enumerate();
    let mut matching = places.by_ref().filter(|(_, window)| *window == wanted);
    let (first, _) = matching.next()?;
    matching.next().is_none().then_some(first + 1)
}

/// The most characters of a line that a message has.
const SHOWN_CHARS: usize = 80;

/// A line in a message.
fn shown(line: Option<&str>) -> String {
    let Some(line) = line else {
        return "the end of the file".to_owned();
    };
    let bare = line.strip_suffix('\n');
    quoted(beginning_of(bare.unwrap_or(line)), bare.is_some())
}

/// The line of the file at `index`, without parts of secrets: they are known by what stands around
/// them, and cut off no longer.
fn found_at(old: &[&str], index: usize) -> String {
    let Some(line) = old.get(index) else {
        return shown(None);
    };
    let bare = line.strip_suffix('\n');
    let begin = old.iter().take(index).map(|line| line.len()).sum::<usize>();
    let part = begin..begin + beginning_of(bare.unwrap_or(line)).len();
    let (whole, secrets) = (old.concat(), Sanitiser::new());
    let found = secrets.find(whole.as_bytes());
    let text = secrets.part(whole.as_bytes(), &found, part);
    quoted(&String::from_utf8_lossy(&text), bare.is_some())
}

fn beginning_of(line: &str) -> &str {
    let end = line.char_indices().nth(SHOWN_CHARS);
    end.and_then(|(end, _)| line.get(..end)).unwrap_or(line)
}

fn quoted(text: &str, has_end: bool) -> String {
    if has_end {
        format!("`{text}`")
    } else {
        format!("`{text}` without a line end")
    }
}
