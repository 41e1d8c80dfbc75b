//! Text that somebody reviews before they say yes, with every character of it to be seen.
//!
//! Guarantee: what a terminal would obey, what it would not show and what makes text read differently
//! is written out, as `\u{1b}`, and nothing is left out. In lines of content it has a colour of its own,
//! and in how many lines there is some of it is said.
//! Non-guarantee: text that spells out such an escape itself differs from it in colour only; letters
//! that look like others are not told from them.

use crate::output::{Output, Tone, count, painted};
use airlock_kernel::strip_control;
use airlock_sandbox::stage::{Hunk, Line};

/// `text` with everything written out that a terminal would obey, or not show; tabs and newlines too.
pub(crate) fn visible(text: &str) -> String {
    let stretches = stretches(text, &[]).into_iter();
    stretches.map(|(_, text)| text).collect()
}

/// Lines of content that somebody reviews, and in how many of them something is written out.
#[derive(Debug, Default)]
pub(crate) struct Reviewed {
    lines: u64,
}

impl Reviewed {
    /// The lines of a hunk, each behind its sign, and where there is no newline at the end.
    pub(crate) fn hunk(&mut self, hunk: &Hunk) -> Vec<String> {
        let signed: Vec<(char, &str)> = hunk
            .lines
            .iter()
            .map(|line| match line {
                Line::Same(text) => (' ', text.as_str()),
                Line::Removed(text) => ('-', text.as_str()),
                Line::Added(text) => ('+', text.as_str()),
            })
            .collect();
        let mut shown = Vec::with_capacity(signed.len());
        for (line, (_, text)) in self.lines(&signed).into_iter().zip(&signed) {
            shown.push(line);
            if !text.ends_with('\n') {
                shown.push("\\ No newline at end of file".to_owned());
            }
        }
        shown
    }

    /// Lines that belong together, each behind its sign: `+`, `-`, or a space for what is on both sides.
    pub(crate) fn lines(&mut self, signed: &[(char, &str)]) -> Vec<String> {
        let ending = ending(signed);
        let shown = signed.iter().map(|(sign, text)| {
            let text = text.strip_suffix(ending).unwrap_or(text);
            self.line(*sign, text)
        });
        shown.collect()
    }

    /// One line, without what ends it, behind its sign.
    pub(crate) fn line(&mut self, sign: char, text: &str) -> String {
        let tone = match sign {
            '+' => Some(Tone::Good),
            '-' => Some(Tone::Bad),
            _ => None,
        };
        let stretches = stretches(&format!("{sign}{text}"), &['\t']);
        let odd = |(form, _): &(Form, String)| *form == Form::WrittenOut;
        self.lines += u64::from(stretches.iter().any(odd));
        let shown = stretches.into_iter().map(|(form, text)| {
            let tone = match form {
                Form::Plain => tone,
                Form::WrittenOut => Some(Tone::Warn),
            };
            match tone {
                Some(tone) => painted(tone, &text),
                None => text,
            }
        });
        shown.collect()
    }

    /// In how many lines something is written out.
    pub(crate) const fn count(&self) -> u64 {
        self.lines
    }

    /// Says that something is written out, if there is.
    pub(crate) fn tell(&self, output: &mut Output) {
        if self.lines > 0 {
            output.warning(&format!(
                "characters that a terminal would obey, or not show, are written out in {}",
                count(self.lines, "line")
            ));
        }
    }
}

/// What ends lines and is not shown. A carriage return before the newline is not where all of them
/// have it, and some of them had it before: elsewhere it is part of what changed.
fn ending(signed: &[(char, &str)]) -> &'static str {
    let had = signed.iter().any(|(sign, _)| *sign != '+');
    let ends = |(_, text): &(char, &str)| !text.ends_with('\n') || text.ends_with("\r\n");
    if had && signed.iter().all(ends) {
        "\r\n"
    } else {
        "\n"
    }
}

/// How a stretch of text is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Plain,
    WrittenOut,
}

/// `text` in stretches of one form; `kept` stays as it is, whatever it is.
fn stretches(text: &str, kept: &[char]) -> Vec<(Form, String)> {
    let mut found: Vec<(Form, String)> = Vec::new();
    let mut before = None;
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        let plain =
            kept.contains(&c) || !is_hidden(c) || is_joining(before, c, rest.clone().next());
        before = plain.then_some(c);
        let form = if plain { Form::Plain } else { Form::WrittenOut };
        match found.last_mut() {
            Some((last, text)) if *last == form => put(c, form, text),
            Some(_) | None => {
                let mut text = String::new();
                put(c, form, &mut text);
                found.push((form, text));
            }
        }
    }
    found
}

/// No letter ends what is written out: in front of a secret it would hide it.
fn put(c: char, form: Form, text: &mut String) {
    match form {
        Form::Plain => text.push(c),
        Form::WrittenOut => text.extend(c.escape_unicode()),
    }
}

/// Whether `c` alone would be obeyed, not be shown, or pass for a space.
fn is_hidden(c: char) -> bool {
    if matches!(c, ' '..='~') {
        return false;
    }
    let mut buffer = [0; 4];
    c.is_whitespace() || strip_control(c.encode_utf8(&mut buffer)).is_empty()
}

/// Whether `c` makes one emoji of what stands around it, and so is seen. Elsewhere the same
/// characters tell two names apart that look alike.
fn is_joining(before: Option<char>, c: char, after: Option<char>) -> bool {
    match c {
        '\u{fe0f}' => before.is_some_and(is_picture),
        '\u{200d}' => {
            let stands = before.is_some_and(|c| is_picture(c) || c == '\u{fe0f}');
            stands && after.is_some_and(is_picture)
        }
        _ => false,
    }
}

/// Whether emoji are made of `c`: arrows, symbols and pictures, of which no name is.
fn is_picture(c: char) -> bool {
    matches!(c, '\u{2190}'..='\u{27ff}' | '\u{2900}'..='\u{2bff}' | '\u{1f000}'..='\u{1faff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What each kind of hidden character is written as.
    const HIDDEN: [(&str, &str); 10] = [
        (
            "a\u{1b}]0; rm -r ~ # \u{7}b",
            "a\\u{1b}]0; rm -r ~ # \\u{7}b",
        ),
        ("a\u{1b}[8mb", "a\\u{1b}[8mb"),
        ("a\u{9b}2Jb", "a\\u{9b}2Jb"),
        ("a\rb", "a\\u{d}b"),
        ("a\u{202e}b", "a\\u{202e}b"),
        ("a\u{200b}b\u{ad}", "a\\u{200b}b\\u{ad}"),
        ("a\u{e0041}b", "a\\u{e0041}b"),
        ("é\u{200d}x\u{fe0f}", "é\\u{200d}x\\u{fe0f}"),
        ("a\u{a0}b\u{2028}", "a\\u{a0}b\\u{2028}"),
        ("💻\u{200d}", "💻\\u{200d}"),
    ];

    fn plain(lines: &[String]) -> Vec<String> {
        let plain = |line: &String| anstream::adapter::strip_str(line).to_string();
        lines.iter().map(plain).collect()
    }

    #[test]
    fn every_character_is_seen() {
        for (text, want) in HIDDEN {
            assert_eq!(visible(text), want);
            let mut reviewed = Reviewed::default();
            let line = reviewed.line('+', text);
            assert_eq!(plain(&[line]), [format!("+{want}")]);
            assert_eq!(reviewed.count(), 1, "{want}");
        }
        assert_eq!(visible("a\tb\nc"), "a\\u{9}b\\u{a}c");
        for text in [
            "日本語 ümlaut e\u{301}",
            "👩\u{200d}💻 ❤\u{fe0f}\u{200d}🔥 x",
        ] {
            assert_eq!(visible(text), text);
        }
    }

    #[test]
    fn what_is_written_out_has_a_colour_of_its_own() {
        let mut reviewed = Reviewed::default();
        let want = [
            painted(Tone::Good, "+a\t"),
            painted(Tone::Warn, "\\u{1b}"),
            painted(Tone::Good, "[0m"),
        ];
        assert_eq!(reviewed.line('+', "a\t\u{1b}[0m"), want.concat());
    }

    #[test]
    fn a_carriage_return_is_shown_where_an_ending_changed() {
        for (old, new, want, written) in [
            ("a\r\nb\r\n", "a\r\nc\r\n", &[" a", "-b", "+c"][..], 0),
            ("a\nb\n", "a\nb\r\n", &[" a", "-b", "+b\\u{d}"], 1),
            ("a\r\nb\r\n", "a\r\nb\n", &[" a\\u{d}", "-b\\u{d}", "+b"], 2),
            ("", "a\r\n", &["+a\\u{d}"], 1),
            ("a\r\n", "", &["-a"], 0),
            ("a\r\n", "a\rb\r\n", &["-a", "+a\\u{d}b"], 1),
            (
                "a\n",
                "a\r",
                &["-a", "+a\\u{d}", "\\ No newline at end of file"],
                1,
            ),
        ] {
            let mut reviewed = Reviewed::default();
            let hunks = Hunk::between(old, new, 3);
            let shown: Vec<String> = hunks.iter().flat_map(|hunk| reviewed.hunk(hunk)).collect();
            assert_eq!(plain(&shown), want, "{old:?} {new:?}");
            assert_eq!(reviewed.count(), written, "{old:?} {new:?}");
        }
    }
}
