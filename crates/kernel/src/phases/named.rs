//! What a person is told of changed source that may take something from tests by means which nobody
//! can see through. It is not refused for that, and not merged without them.

use super::facts::{Staged, side};
use crate::sanitise::{sanitise_line, sanitise_path};
use airlock_phases::{TestFile, names_tests, newly_evaluates};

/// Most remarks that are told.
const FEW: usize = 5;
/// Longest telling, in characters.
const LENGTH: usize = 500;

/// What is to be known of the source that `staged` changes, if anything is.
pub(super) fn suspicion(staged: &Staged) -> Option<String> {
    let tests = staged.changed.tests.iter();
    // Inline tests are in the product's own files.
    let tests = tests.filter(|path| staged.is_test(path));
    let read: Vec<(&str, Option<String>)> = tests
        .map(|path| (path.as_str(), side(staged.root(), path)))
        .collect();
    let files: Vec<TestFile<'_>> = read
        .iter()
        .filter_map(|(path, text)| TestFile::new(path, text.as_deref()))
        .collect();
    let mut told = Vec::new();
    for path in &staged.changed.source {
        // What cannot be read as text is not merged without a person either.
        let Some(new) = staged.new_text(path) else {
            continue;
        };
        let source = sanitise_path(path);
        let named = names_tests(path, &new, &files);
        let named = named.iter().map(|test| sanitise_path(test));
        told.extend(named.map(|test| format!("`{source}` names `{test}`")));
        let old = staged.old(path).unwrap_or_default();
        let does = newly_evaluates(path, &old, &new).into_iter();
        told.extend(does.map(|does| format!("`{source}` newly {does}")));
    }
    let more = match told.len().saturating_sub(FEW) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    told.truncate(FEW);
    (!told.is_empty()).then(|| {
        let told = told.join("; ");
        let why = format!(
            "source may take something from tests, or from where it cannot be seen: {told}{more}"
        );
        sanitise_line(&why, LENGTH)
    })
}
