//! Some hunks of a text and not others.

use airlock_sandbox::stage::{Hunk, Line};

/// The old text with the chosen hunks (counted from zero) applied; none if a chosen hunk does not
/// exist or does not fit the text.
pub fn pick_hunks(old: &str, hunks: &[Hunk], chosen: &[usize]) -> Option<String> {
    if chosen.iter().any(|index| *index >= hunks.len()) {
        return None;
    }
    let mut lines = old.split_inclusive('\n');
    let mut text = String::with_capacity(old.len());
    let mut at = 0;
    for (index, hunk) in hunks.iter().enumerate() {
        // An empty range is named by the line before it.
        let start = hunk.old_start - usize::from(hunk.old_lines > 0);
        while at < start {
            text.push_str(lines.next()?);
            at += 1;
        }
        for line in &hunk.lines {
            match line {
                Line::Same(same) => {
                    take(&mut lines, same, &mut at)?;
                    text.push_str(same);
                }
                Line::Removed(removed) => {
                    take(&mut lines, removed, &mut at)?;
                    if !chosen.contains(&index) {
                        text.push_str(removed);
                    }
                }
                Line::Added(added) if chosen.contains(&index) => text.push_str(added),
                Line::Added(_) => {}
            }
        }
    }
    lines.for_each(|line| text.push_str(line));
    Some(text)
}

fn take<'a>(
    lines: &mut impl Iterator<Item = &'a str>,
    expected: &str,
    at: &mut usize,
) -> Option<()> {
    *at += 1;
    (lines.next()? == expected).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hunk(old_start: usize, old_lines: usize, lines: Vec<Line>) -> Hunk {
        Hunk {
            old_start,
            old_lines,
            new_start: 0,
            new_lines: 0,
            lines,
        }
    }

    fn both() -> (&'static str, Vec<Hunk>) {
        let first = vec![
            Line::Removed("a\n".into()),
            Line::Added("A\n".into()),
            Line::Same("b\n".into()),
        ];
        let second = vec![Line::Same("d\n".into()), Line::Added("e".into())];
        ("a\nb\nc\nd\n", vec![hunk(1, 2, first), hunk(4, 1, second)])
    }

    #[test]
    fn each_choice_gives_its_text() {
        let (old, hunks) = both();
        let table: [(&[usize], &str); 4] = [
            (&[], "a\nb\nc\nd\n"),
            (&[0], "A\nb\nc\nd\n"),
            (&[1], "a\nb\nc\nd\ne"),
            (&[0, 1], "A\nb\nc\nd\ne"),
        ];
        for (chosen, expected) in table {
            assert_eq!(pick_hunks(old, &hunks, chosen).as_deref(), Some(expected));
        }
    }

    #[test]
    fn hunks_that_do_not_fit_are_refused() {
        let (_, hunks) = both();
        assert_eq!(pick_hunks("a\nB\nc\nd\n", &hunks, &[0]), None);
        assert_eq!(pick_hunks("a\n", &hunks, &[1]), None);
        assert_eq!(pick_hunks("a\nb\nc\nd\n", &hunks, &[2]), None);
    }

    #[test]
    fn lines_can_come_where_there_were_none() {
        let hunks = [hunk(0, 0, vec![Line::Added("new\n".into())])];
        assert_eq!(pick_hunks("", &hunks, &[0]).as_deref(), Some("new\n"));
        assert_eq!(pick_hunks("", &hunks, &[]).as_deref(), Some(""));
    }
}
