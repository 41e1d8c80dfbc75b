//! The closed word lists: modes, phases, tiers. Unknown words are errors, never defaults.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A word that is not in the list it should come from.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown {kind} `{word}`")]
pub struct UnknownWord {
    /// What kind of word was expected.
    pub kind: &'static str,
    /// The word that was found.
    pub word: String,
    /// Every word that would have been right.
    pub known: &'static [&'static str],
}

macro_rules! words {
    ($(#[$doc:meta])* $name:ident, $kind:literal { $($(#[$vdoc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum $name { $($(#[$vdoc])* #[serde(rename = $word)] $variant),+ }

        impl $name {
            /// Every value, in declaration order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];
            /// Every word, in declaration order.
            pub const WORDS: &'static [&'static str] = &[$($word),+];

            /// The word for this value.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl FromStr for $name {
            type Err = UnknownWord;

            fn from_str(text: &str) -> Result<Self, UnknownWord> {
                match text {
                    $($word => Ok(Self::$variant),)+
                    _ => Err(UnknownWord {
                        kind: $kind,
                        word: text.chars().take(40).collect(),
                        known: Self::WORDS,
                    }),
                }
            }
        }
    };
}
pub(crate) use words;

words! {
    /// How strictly a session is held to the test-first discipline.
    Mode, "mode" {
        /// Tests first.
        Strict = "strict",
        /// Source and tests together; commits are tagged unverified.
        Explore = "explore",
        /// As explore, with containers after review.
        Debug = "debug",
    }
}

words! {
    /// Where a session stands in the test-first discipline.
    Phase, "phase" {
        /// No task.
        Idle = "idle",
        /// Reading and planning.
        Planning = "planning",
        /// Tests may be written.
        TestWriting = "test_writing",
        /// Source may be written.
        CodeWriting = "code_writing",
        /// Source may change while the same tests keep passing.
        Refactoring = "refactoring",
        /// The kernel runs the tests.
        Validating = "validating",
        /// A person looks at the changes.
        Reviewing = "reviewing",
        /// The merge is being applied.
        Committing = "committing",
        /// Source and tests may be written.
        Exploring = "exploring",
        /// Tests for explored code are written.
        RetroactiveTesting = "retroactive_testing",
    }
}

words! {
    /// Where code runs. The order is the order of isolation that `require_sandbox` compares.
    Tier, "tier" {
        /// Read-only built-ins in the kernel's own process.
        Kernel = "kernel",
        /// Guest code in a boxed worker.
        Wasm = "wasm",
        /// An OS-sandboxed process.
        Process = "process",
        /// A container.
        Container = "container",
    }
}

impl Tier {
    /// Whether running in this tier satisfies a rule that requires `wanted`.
    ///
    /// Wasm runs inside a boxed worker process and so counts as `process`.
    pub const fn satisfies(self, wanted: Self) -> bool {
        match wanted {
            Self::Kernel => true,
            Self::Wasm => matches!(self, Self::Wasm | Self::Process | Self::Container),
            Self::Process => matches!(self, Self::Wasm | Self::Process | Self::Container),
            Self::Container => matches!(self, Self::Container),
        }
    }
}
