//! Why an extension cannot be asked.

use crate::sanitise::sanitise_line;
use crate::workspace::TrustError;
use airlock_core::Digest;
use std::error::Error;
use std::fmt::Write;
use std::sync::Arc;

/// Longest explanation, in characters.
const EXPLANATION_CHARS: usize = 600;

/// Why an extension cannot be asked. Every decision that would ask it is a denial.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unusable {
    /// Modules have no host yet.
    #[error("it is a Wasm module, and nothing here runs Wasm modules yet")]
    Wasm,
    /// It has no digest to be held to.
    #[error("nobody approved `{file}`")]
    Unpinned { file: Arc<str> },
    /// There is no such file.
    #[error("there is no `{file}`")]
    Missing { file: Arc<str> },
    /// Not the file that was approved.
    #[error("`{file}` is not what was approved: its digest is {}, not {}", .found.short(), .pinned.short())]
    Changed {
        file: Arc<str>,
        found: Digest,
        pinned: Digest,
    },
    /// It cannot be read as a plain file of bounded size.
    #[error(transparent)]
    Read(TrustError),
    /// Scripts are text.
    #[error("`{file}` is not UTF-8 text")]
    NotText { file: Arc<str> },
    /// Whoever opened the kernel named no worker.
    #[error("this program has no worker to run scripts in")]
    NoWorker,
    /// The worker or the script does not come up.
    #[error(transparent)]
    Start(#[from] airlock_script::StartError),
}

impl Unusable {
    /// How to mend it.
    pub(crate) fn hint(&self) -> &str {
        match self {
            Self::Wasm => "write it in TypeScript or JavaScript, or take it out of `extensions`",
            Self::Unpinned { .. } => {
                "review it with `airlock trust`, or give its `digest` in the policy"
            }
            Self::Missing { .. } => "put it there, or take it out of `extensions`",
            Self::Changed { .. } => {
                "put the approved file back, or review it with `airlock trust`; a `digest` in the \
                 policy changes with `airlock policy update FILE`"
            }
            Self::Read(error) => error.hint(),
            Self::NotText { .. } => "save it as UTF-8",
            Self::NoWorker => "use the `airlock` command, whose own binary is the worker",
            Self::Start(error) => error.hint(),
        }
    }

    /// What is wrong with the extension `name` and how to mend it, in one line fit for records.
    pub(crate) fn explain(&self, name: &str) -> Arc<str> {
        let mut text = format!("the extension `{name}` cannot be asked: {self}");
        let mut cause = self.source();
        while let Some(error) = cause {
            // Writing to a string cannot fail.
            let _written = write!(text, ": {error}");
            cause = error.source();
        }
        let _written = write!(text, "; {}", self.hint());
        sanitise_line(&text, EXPLANATION_CHARS).into()
    }
}

/// An extension of a policy that cannot be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtensionProblem {
    /// Its name in the policy.
    pub name: Arc<str>,
    /// What is wrong and how to mend it.
    pub explanation: Arc<str>,
}
