//! What is remembered of a session's way through the states.

use crate::coverage::Coverage;
use crate::exemption::Exemption;
use crate::runs::Proof;
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

/// One whole run of the tests by the kernel: no filter, nothing left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestRun {
    /// What the stage held, as one digest; none: nothing.
    pub stage: Option<Digest>,
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
    /// The names of all tests that passed, as one digest.
    pub names: Digest,
    /// New tests that are yet to show that they can fail.
    #[serde(default)]
    pub suspects: Vec<String>,
    /// Line coverage, where the run left any.
    #[serde(default)]
    pub coverage: Option<Coverage>,
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
