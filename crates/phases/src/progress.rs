//! What is remembered of a session's way through the states.

use crate::coverage::Coverage;
use crate::exemption::Exemption;
use crate::report::Lines;
use crate::runs::{Framework, Proof};
use airlock_core::{Digest, Mode, Phase};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Which way a session works towards validation, and so where it is sent back to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Route {
    /// Tests, then code.
    TestFirst,
    /// Source that covered tests hold in place: inclusive ranges of lines, by file.
    Refactoring(BTreeMap<String, Vec<(u32, u32)>>),
    /// Source and tests together.
    Exploring,
    /// Nothing but what an exemption names.
    Exempt(Exemption),
}

impl Route {
    /// Where work goes on after validation or review failed.
    pub const fn working_state(&self) -> Phase {
        match self {
            Self::TestFirst => Phase::CodeWriting,
            Self::Refactoring(_) => Phase::Refactoring,
            Self::Exploring | Self::Exempt(_) => Phase::Exploring,
        }
    }
}

/// Why it is not known of tests that were there whether they still run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unsure {
    /// The runner names no test any more.
    Unnamed,
    /// The tests of the real tree, which would tell, did not come to an end.
    Unended,
}

impl Unsure {
    /// The same in words.
    pub const fn why(self) -> &'static str {
        match self {
            Self::Unnamed => "the runner names no test now, and does in the real tree",
            Self::Unended => {
                "these are not named, and the tests of the real tree did not come to an end, so that it is not known whether they ever ran"
            }
        }
    }

    /// How it would be known.
    pub const fn fix(self) -> &'static str {
        match self {
            Self::Unnamed => {
                "let the runner name its tests as before: leave its settings, and what sets them, as they were"
            }
            Self::Unended => {
                "run `test.run` with a longer `timeout` or more `memory`: the tests of the real tree get no less"
            }
        }
    }
}

/// One whole run of the tests by the kernel: no filter, nothing left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestRun {
    /// What the stage held, as one digest; none: nothing.
    pub stage: Option<Digest>,
    /// What ran it.
    #[serde(default)]
    pub framework: Option<Framework>,
    /// What it proves.
    pub proof: Proof,
    /// Why, in words.
    pub why: String,
    /// Tests that passed.
    pub passed: u64,
    /// Tests that failed.
    pub failed: u64,
    /// Tests that were left out.
    pub ignored: u64,
    /// Whether tests were there that it did not come to, so that these are not all counts.
    #[serde(default)]
    pub stopped: bool,
    /// The names of all tests that passed, as one digest.
    pub names: Digest,
    /// New tests that are yet to show that they can fail.
    #[serde(default)]
    pub suspects: Vec<String>,
    /// New tests that have shown it: they noticed a mutation.
    #[serde(default)]
    pub noticed: Vec<String>,
    /// What was changed in the source that the suspects did not notice, in words.
    #[serde(default)]
    pub unnoticed: Vec<String>,
    /// New tests that said nothing when the code was changed, also when they were asked alone.
    #[serde(default)]
    pub unheard: Vec<String>,
    /// Tests of the real tree that are gone, or no longer run.
    #[serde(default)]
    pub lost: Vec<String>,
    /// Why it is only not known whether they run, where it is so.
    #[serde(default)]
    pub unsure: Option<Unsure>,
    /// Why it proves perhaps less than it seems to, in words: for a person to judge.
    #[serde(default)]
    pub partial: Option<String>,
    /// Line coverage, where the run was measured.
    #[serde(default)]
    pub coverage: Option<Coverage>,
    /// Why this run, or an earlier one of the task, could not be measured when the kernel tried to.
    #[serde(default)]
    pub unmeasured: Option<String>,
    /// What of it is certain: all of it but lines that only new tests run and nobody shows to be
    /// looked at. Told only where the coverage budget depends on it.
    #[serde(default)]
    pub proven: Option<Coverage>,
    /// The lines themselves, while somebody may ask for them: before refactoring.
    #[serde(default)]
    pub lines: Option<Spans>,
}

/// Lines by file, as inclusive ranges.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spans {
    /// Those that were run.
    pub run: BTreeMap<String, Vec<(u32, u32)>>,
    /// Those that were not.
    pub missed: BTreeMap<String, Vec<(u32, u32)>>,
}

impl Spans {
    /// `lines` as ranges. Lines that hold nothing to be run do not part them.
    pub fn of(lines: &Lines) -> Self {
        let mut spans = Self::default();
        for (path, lines) in lines {
            let mut last: Option<bool> = None;
            for (number, run) in lines {
                let side = if *run {
                    &mut spans.run
                } else {
                    &mut spans.missed
                };
                let ranges = side.entry(path.clone()).or_default();
                match ranges.last_mut().filter(|_| last == Some(*run)) {
                    Some((_, to)) => *to = *number,
                    None => ranges.push((*number, *number)),
                }
                last = Some(*run);
            }
        }
        spans
    }

    /// Why `wanted` is not all covered; none if it is.
    pub fn uncovered(&self, wanted: &BTreeMap<String, Vec<(u32, u32)>>) -> Option<String> {
        let side =
            |side: &BTreeMap<String, Vec<(u32, u32)>>, path: &str, (from, to): (u32, u32)| {
                let ranges = side.get(path).into_iter().flatten();
                let mut ranges = ranges.filter(|(first, last)| *first <= to && *last >= from);
                ranges.next().map(|(first, _)| (*first).max(from))
            };
        wanted.iter().find_map(|(path, ranges)| {
            if !self.run.contains_key(path) && !self.missed.contains_key(path) {
                return Some(format!("no run of the tests knows lines of `{path}`"));
            }
            ranges.iter().find_map(|(from, to)| {
                let range = (*from, (*to).max(*from));
                match (
                    side(&self.missed, path, range),
                    side(&self.run, path, range),
                ) {
                    (Some(line), _) => Some(format!("no test runs line {line} of `{path}`")),
                    (None, None) => Some(format!(
                        "lines {} to {} of `{path}` hold nothing a test could run",
                        range.0, range.1
                    )),
                    (None, Some(_)) => None,
                }
            })
        })
    }
}

/// What a session has to show.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// The way it took, once it began to work.
    #[serde(default)]
    pub route: Option<Route>,
    /// The last whole run of its tests.
    #[serde(default)]
    pub last: Option<TestRun>,
    /// The run before the work, which every later one is held against.
    #[serde(default)]
    pub before: Option<TestRun>,
    /// What the tests were when they had failed: each file, and the inline tests of source files.
    #[serde(default)]
    pub tests: BTreeMap<String, Digest>,
    /// The changes that were approved, as one digest.
    #[serde(default)]
    pub approved: Option<Digest>,
    /// The commit made of them.
    #[serde(default)]
    pub commit: Option<String>,
    /// What the stage changed of git's own when that was made, as one digest.
    #[serde(default)]
    pub brought: Option<Digest>,
    /// What the last validation warned of.
    #[serde(default)]
    pub warning: Option<String>,
}

/// Where a session stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Its mode.
    pub mode: Mode,
    /// Its state.
    pub state: Phase,
    /// What it has to show.
    pub progress: Progress,
}

/// What a stage changes, by what it is. Paths that git ignores are not in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changed {
    /// Changed tests.
    pub tests: Vec<String>,
    /// Changed source, but for files in which only inline tests differ: those are tests.
    pub source: Vec<String>,
    /// Everything else.
    pub other: Vec<String>,
    /// Source that makes tests part of the product.
    pub smuggled: Option<String>,
}

impl Changed {
    /// Whether there is nothing.
    pub const fn is_empty(&self) -> bool {
        self.tests.is_empty() && self.source.is_empty() && self.other.is_empty()
    }

    /// Every path.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        let all = self.tests.iter().chain(&self.source).chain(&self.other);
        all.map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_to_be_changed_are_covered_only_if_every_one_that_can_be_run_is() {
        let lines = [(2, true), (3, true), (5, true), (6, false), (9, true)];
        let lines = Lines::from([("a".to_owned(), lines.into_iter().collect())]);
        let spans = Spans::of(&lines);
        assert_eq!(spans.run["a"], [(2, 5), (9, 9)]);
        assert_eq!(spans.missed["a"], [(6, 6)]);
        let told = |path: &str, ranges: &[(u32, u32)]| {
            let wanted = BTreeMap::from([(path.to_owned(), ranges.to_vec())]);
            spans.uncovered(&wanted)
        };
        for (path, ranges, want) in [
            ("a", vec![(2, 5)], None),
            ("a", vec![(1, 3)], None),
            ("a", vec![(2, 2), (9, 12)], None),
            ("a", vec![(2, 6)], Some("line 6")),
            ("a", vec![(2, 3), (6, 9)], Some("line 6")),
            ("a", vec![(20, 30)], Some("nothing a test could run")),
            // One range that is covered does not speak for another that holds nothing.
            (
                "a",
                vec![(2, 3), (20, 30)],
                Some("nothing a test could run"),
            ),
            ("b", vec![(1, 1)], Some("`b`")),
        ] {
            let found = told(path, &ranges);
            let fits = match (&found, want) {
                (None, None) => true,
                (Some(found), Some(want)) => found.contains(want),
                (_, _) => false,
            };
            assert!(fits, "{path} {ranges:?}: {found:?}");
        }
    }
}
