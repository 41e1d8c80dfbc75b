//! Choosing what is merged, from flags or by asking.

use super::Choice;
use crate::failure::{Failure, Kind};
use crate::output::{Output, Tone, styled};
use crate::review::Terminal;
use crate::visible::Reviewed;
use airlock_sandbox::stage::{Change, ChangeKind, Content, Diff, Hunk};
use std::collections::BTreeMap;

/// `PATH:1,3`, as often as it was given.
pub(super) fn hunks(given: &[String]) -> Result<BTreeMap<String, Vec<usize>>, Failure> {
    let mut hunks: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for text in given {
        let parsed = text.rsplit_once(':').and_then(|(path, numbers)| {
            let numbers: Result<Vec<usize>, _> = numbers.split(',').map(str::parse).collect();
            Some((path, numbers.ok().filter(|numbers| !numbers.contains(&0))?))
        });
        let Some((path, numbers)) = parsed else {
            let text = airlock_kernel::sanitise_line(text, 80);
            let what = format!("`{text}` names no hunks");
            let fix = "write a path, a colon and numbers from 1: --hunks src/main.rs:1,3";
            return Err(Failure::new(Kind::Usage, what).fix(fix));
        };
        hunks.entry(path.to_owned()).or_default().extend(numbers);
    }
    Ok(hunks)
}

enum Answer {
    Yes,
    No,
    Hunks,
    Rest,
    Quit,
}

/// Asks about each change; changes with several hunks can be taken apart.
pub(super) fn interactively(diff: &Diff, output: &mut Output) -> Result<Choice, Failure> {
    let Some(mut terminal) = Terminal::open() else {
        return Err(Failure::new(Kind::NeedsReview, "choosing needs a person")
            .why("this command has no terminal")
            .fix("name what to merge with --files or --hunks, in a terminal"));
    };
    let mut choice = Choice {
        files: Some(Vec::new()),
        exactly: true,
        hunks: BTreeMap::new(),
    };
    let mut rest = false;
    for change in &diff.changes {
        let Some(path) = change.path.as_path().to_str() else {
            output.warning("a name that is no text cannot be chosen, and is left");
            continue;
        };
        output.note(super::super::stage::line(change));
        let found = text_hunks(change);
        let mut reviewed = Reviewed::default();
        for (number, hunk) in found.iter().enumerate() {
            show(number, hunk, &mut reviewed, output);
        }
        targets(change, &mut reviewed, output);
        reviewed.tell(output);
        let answer = if rest {
            Answer::Yes
        } else {
            ask(&mut terminal, found.len() > 1)
        };
        match answer {
            Answer::Quit => break,
            Answer::No => {}
            Answer::Hunks => {
                let picked = ask_each(&mut terminal, found.len());
                if !picked.is_empty() {
                    choice.hunks.insert(path.to_owned(), picked);
                }
            }
            Answer::Yes | Answer::Rest => {
                rest |= matches!(answer, Answer::Rest);
                choice.files.get_or_insert_default().push(path.to_owned());
            }
        }
    }
    Ok(choice)
}

fn text_hunks(change: &Change) -> &[Hunk] {
    match (&change.content, &change.kind) {
        (Content::Text { hunks }, ChangeKind::Modified) => hunks,
        _ => &[],
    }
}

fn show(number: usize, hunk: &Hunk, reviewed: &mut Reviewed, output: &mut Output) {
    let (old, new) = (hunk.old_start, hunk.new_start);
    let head = format!("hunk {}: line {old}, now line {new}", number + 1);
    output.note(styled(Tone::Label, &head));
    for line in reviewed.hunk(hunk) {
        output.verbatim(line);
    }
}

/// Where a link pointed and where it points.
fn targets(change: &Change, reviewed: &mut Reviewed, output: &mut Output) {
    for (sign, facts) in [('-', &change.old), ('+', &change.new)] {
        if let Some(target) = facts.as_ref().and_then(|facts| facts.target.as_ref()) {
            let target = target.as_path().display().to_string();
            output.verbatim(reviewed.line(sign, &target));
        }
    }
}

fn ask(terminal: &mut Terminal, several: bool) -> Answer {
    let question = if several {
        "merge it? [y]es, [n]o, [h]unk by hunk, [a]ll the rest, [q]uit:"
    } else {
        "merge it? [y]es, [n]o, [a]ll the rest, [q]uit:"
    };
    match terminal.ask(question).as_deref() {
        Some("y" | "yes") => Answer::Yes,
        Some("a" | "all") => Answer::Rest,
        Some("h" | "hunk" | "hunks") if several => Answer::Hunks,
        // Nobody there is no yes.
        Some("q" | "quit") | None => Answer::Quit,
        Some(_) => Answer::No,
    }
}

fn ask_each(terminal: &mut Terminal, hunks: usize) -> Vec<usize> {
    let mut ask = |number: &usize| {
        let answer = terminal.ask(&format!("hunk {number}? [y]es, [n]o:"));
        matches!(answer.as_deref(), Some("y" | "yes"))
    };
    (1..=hunks).filter(|number| ask(number)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hunks_are_read_from_the_last_colon() {
        let given = ["a:b.rs:1,3".to_owned(), "c:2".to_owned(), "c:4".to_owned()];
        let read = hunks(&given).unwrap();
        let expected = [("a:b.rs", vec![1, 3]), ("c", vec![2, 4])];
        let expected = expected.map(|(path, numbers)| (path.to_owned(), numbers));
        assert_eq!(read, BTreeMap::from(expected));
        for wrong in ["a", "a:", "a:x", "a:0", "a:1,"] {
            assert!(hunks(&[wrong.to_owned()]).is_err(), "{wrong}");
        }
    }
}
