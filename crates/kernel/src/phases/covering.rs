//! What the new tests of a stage cover that the others do not: the same source, run twice.
//!
//! The first run is made with the tests as they were before the session, whatever they are called
//! and whatever they would do to a report; a line only the second one runs is newly covered.
//!
//! Non-guarantee: a test that falsifies its own measuring is believed here. What counts is what is
//! noticed when such a line is changed.

use super::facts::Staged;
use super::tested::Again;
use crate::process::{Finished, Job, Measured, Variation};
use crate::tools::ToolFailure;
use airlock_phases::{Language, LineSet, Lines, new_tests, newly_covered, product_of};

/// Two measured runs of one stage.
pub(super) struct Covering {
    pub(super) before: Lines,
    pub(super) after: Lines,
    /// What only the new tests run.
    pub(super) new: LineSet,
}

impl Covering {
    /// Measures what `known`, a run on the same ground, did not; or says why that cannot be done.
    pub(super) fn measure(
        job: &Job,
        known: Option<&Finished>,
        staged: &Staged,
        again: Again<'_>,
    ) -> Result<Result<Self, &'static str>, ToolFailure> {
        let measured = |files: Vec<(String, String)>| {
            let variation = Variation {
                measured: true,
                files,
                ..Variation::default()
            };
            again(&job.varied(&variation)).map(|finished| finished.measured)
        };
        let mut own = known.and_then(|finished| finished.measured.clone());
        if own.is_none() {
            own = measured(Vec::new())?;
        }
        let after = match own {
            Some(Ok(Measured { lines, .. })) => lines,
            Some(Err(missing)) => return Ok(Err(missing.why())),
            None => return Ok(Err("nothing is measured here")),
        };
        let without = without_tests(staged);
        let before = if without.is_empty() {
            after.clone()
        } else {
            match measured(without)? {
                Some(Ok(Measured { lines, .. })) => lines,
                // Where there were no tests nothing was covered, and none is.
                Some(Err(_)) | None => after.iter().map(unrun).collect(),
            }
        };
        let new = newly_covered(&before, &after);
        Ok(Ok(Self { before, after, new }))
    }
}

/// A file none of whose lines was run.
fn unrun(
    (path, lines): (&String, &std::collections::BTreeMap<u32, bool>),
) -> (String, std::collections::BTreeMap<u32, bool>) {
    let lines = lines.keys().map(|number| (*number, false)).collect();
    (path.clone(), lines)
}

/// The stage's tests as they were before, by file.
fn without_tests(staged: &Staged) -> Vec<(String, String)> {
    let mut files = Vec::new();
    for path in &staged.changed.tests {
        let (Some(language), Some(new)) = (Language::of(path), staged.new_text(path)) else {
            continue;
        };
        let old = staged.old(path);
        files.push((
            path.clone(),
            old.unwrap_or_else(|| language.nothing_in_place_of(&new)),
        ));
    }
    // Source with new inline tests keeps its own lines, and loses the tests.
    for path in &staged.changed.source {
        let (Some(language), Some(new)) = (Language::of(path), staged.new_text(path)) else {
            continue;
        };
        let added = new_tests(language, staged.old(path).as_deref(), &new);
        if language == Language::Rust
            && !added.is_empty()
            && let Some(product) = product_of(&new)
        {
            files.push((path.clone(), product));
        }
    }
    files
}
