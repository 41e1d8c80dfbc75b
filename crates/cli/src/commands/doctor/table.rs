//! Findings as lines of text: a table, what mends each, and the ladder. Pure but for [`width`].

use crate::output::{Tone, styled};
use crate::place::variable;
use airlock_kernel::strip_control;
use airlock_sandbox::probe::{Finding, Findings, State};

/// Columns when nobody says how many there are.
const USUAL: usize = 100;
/// Fewer cannot hold the first two columns and a word.
const LEAST: usize = 50;
/// More are hard to read across.
const MOST: usize = 160;

/// The columns there are.
pub(super) fn width() -> usize {
    let said = variable("COLUMNS").and_then(|text| text.to_str()?.parse().ok());
    let seen = || {
        let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
        Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
    };
    said.or_else(seen).unwrap_or(USUAL).clamp(LEAST, MOST)
}

/// Everything that is shown, no line but a command wider than `width`.
pub(super) fn lines(findings: &Findings, width: usize) -> Vec<String> {
    let features = findings.findings.iter().map(|one| one.feature.name());
    let first = features
        .map(str::len)
        .max()
        .unwrap_or(0)
        .max("feature".len());
    let mut lines = vec![styled(
        Tone::Heading,
        &format!("{:first$}  state    how it was checked", "feature"),
    )];
    for finding in &findings.findings {
        lines.extend(row(
            finding.feature.name(),
            finding.state,
            &finding.how,
            first,
            width,
        ));
    }
    for (names, fix) in fixes(&findings.findings) {
        lines.push(String::new());
        let heading = format!("to mend {}:", names.join(", "));
        lines.extend(
            wrapped(&heading, width)
                .iter()
                .map(|line| styled(Tone::Heading, line)),
        );
        // Not wrapped: each is to be copied as it is.
        lines.extend(fix.lines().map(|line| format!("  {}", strip_control(line))));
    }
    lines.push(String::new());
    lines.push(styled(
        Tone::Heading,
        &format!("{:first$}  state    why", "launcher"),
    ));
    for rung in &findings.ladder {
        lines.extend(row(
            rung.launcher.name(),
            rung.state,
            &rung.reason,
            first,
            width,
        ));
    }
    lines.push(String::new());
    lines
}

const fn tone(state: State) -> Tone {
    match state {
        State::Works => Tone::Good,
        State::Limited => Tone::Warn,
        State::Missing => Tone::Bad,
    }
}

/// Columns the word for a state takes.
const STATE: usize = 7;

fn row(name: &str, state: State, text: &str, first: usize, width: usize) -> Vec<String> {
    let indent = first + STATE + 4;
    let pieces = wrapped(&strip_control(text), width.saturating_sub(indent));
    let mut pieces = pieces.into_iter();
    let word = format!("{:STATE$}", state.name());
    let start = pieces.next().unwrap_or_default();
    let begin = format!("{name:first$}  {}  {start}", styled(tone(state), &word));
    let rest = pieces.map(|piece| format!("{:indent$}{piece}", ""));
    std::iter::once(begin).chain(rest).collect()
}

/// `text` in lines of at most `width` characters, broken between words, or within one that is
/// longer.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split_whitespace() {
        let letters: Vec<char> = word.chars().collect();
        if used > 0 && used + 1 + letters.len() > width {
            lines.push(String::new());
            used = 0;
        }
        for (at, piece) in letters.chunks(width).enumerate() {
            if at > 0 {
                lines.push(String::new());
                used = 0;
            }
            if let Some(line) = lines.last_mut() {
                if used > 0 {
                    line.push(' ');
                    used += 1;
                }
                line.extend(piece);
                used += piece.len();
            }
        }
    }
    lines
}

/// What mends something, with everything it mends.
fn fixes(findings: &[Finding]) -> Vec<(Vec<&'static str>, &str)> {
    let mut found: Vec<(Vec<&'static str>, &str)> = Vec::new();
    for finding in findings {
        let Some(fix) = &finding.fix else { continue };
        match found.iter_mut().find(|(_, known)| *known == fix.as_str()) {
            Some((names, _)) => names.push(finding.feature.name()),
            None => found.push((vec![finding.feature.name()], fix)),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_broken_between_words_and_within_long_ones() {
        for (text, width, want) in [
            ("", 5, vec![""]),
            ("one two", 20, vec!["one two"]),
            ("one two three", 7, vec!["one two", "three"]),
            ("abcdefgh i", 3, vec!["abc", "def", "gh", "i"]),
            ("é é é", 3, vec!["é é", "é"]),
            ("a", 0, vec!["a"]),
        ] {
            assert_eq!(wrapped(text, width), want, "{text:?} {width}");
        }
    }
}
