//! Choosing what is merged, from flags or by asking.

use super::{Choice, seen, stage};
use crate::failure::{Failure, Kind};
use crate::output::Output;
use crate::review::Terminal;
use airlock_merge::named_path;
use airlock_sandbox::stage::{Change, ChangeKind, Content, Diff};
use std::collections::BTreeMap;

/// The path that `text` names, spelt as changes are: what is shown is what is merged.
fn path(text: &str) -> Result<String, Failure> {
    let named = named_path(text);
    let named = named.and_then(|path| path.as_path().to_str().map(str::to_owned));
    named.ok_or_else(|| {
        let text = airlock_kernel::sanitise_line(text, 80);
        Failure::new(Kind::Usage, format!("`{text}` names no file or directory"))
            .fix("write a path from the root of the workspace: src/main.rs")
    })
}

/// The paths that were given; none if there are none.
pub(super) fn files(given: &[String]) -> Result<Option<Vec<String>>, Failure> {
    if given.is_empty() {
        return Ok(None);
    }
    let files: Result<Vec<String>, Failure> = given.iter().map(|text| path(text)).collect();
    files.map(Some)
}

/// `PATH:1,3`, as often as it was given.
pub(super) fn hunks(given: &[String]) -> Result<BTreeMap<String, Vec<usize>>, Failure> {
    let mut hunks: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for text in given {
        let parsed = text.rsplit_once(':').and_then(|(path, numbers)| {
            let numbers: Result<Vec<usize>, _> = numbers.split(',').map(str::parse).collect();
            Some((path, numbers.ok().filter(|numbers| !numbers.contains(&0))?))
        });
        let Some((named, numbers)) = parsed else {
            let text = airlock_kernel::sanitise_line(text, 80);
            let what = format!("`{text}` names no hunks");
            let fix = "write a path, a colon and numbers from 1: --hunks src/main.rs:1,3";
            return Err(Failure::new(Kind::Usage, what).fix(fix));
        };
        hunks.entry(path(named)?).or_default().extend(numbers);
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
        overwrite: false,
    };
    let mut rest = false;
    for change in &diff.changes {
        let Some(path) = change.path.as_path().to_str() else {
            output.warning("a name that is no text cannot be chosen, and is left");
            continue;
        };
        output.note(stage::line(change));
        seen::show(change, output);
        if stage::is_unread(change) {
            output.warning("it is too large to be read, and is left");
            continue;
        }
        let hunks = hunks_of(change);
        let answer = if rest {
            Answer::Yes
        } else {
            ask(&mut terminal, hunks > 1)
        };
        match answer {
            Answer::Quit => break,
            Answer::No => {}
            Answer::Hunks => {
                let picked = ask_each(&mut terminal, hunks);
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

/// How many hunks of a change can be taken by themselves.
fn hunks_of(change: &Change) -> usize {
    match (&change.content, &change.kind) {
        (Content::Text { hunks }, ChangeKind::Modified) => hunks.len(),
        _ => 0,
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
        for wrong in ["a", "a:", "a:x", "a:0", "a:1,", ":1", ".:1"] {
            assert!(hunks(&[wrong.to_owned()]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_path_is_the_same_however_it_is_spelt() {
        let given = ["a//b:1", "./a/b:2", "a/b/:3"].map(str::to_owned);
        let expected = BTreeMap::from([("a/b".to_owned(), vec![1, 2, 3])]);
        assert_eq!(hunks(&given).unwrap(), expected);
        let given = ["./a//b".to_owned()];
        assert_eq!(files(&given).unwrap(), Some(vec!["a/b".to_owned()]));
        assert_eq!(files(&[]).unwrap(), None);
        for nothing in ["", ".", "./"] {
            assert!(files(&[nothing.to_owned()]).is_err(), "{nothing}");
        }
    }
}
