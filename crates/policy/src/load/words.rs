//! Closed word lists of the file. Unknown words are errors with a suggestion, never defaults.

use airlock_core::{Effect, Mode, Phase, Tier};

/// A type whose values are words of a closed list.
pub(crate) trait Word: Sized {
    /// What the words are called.
    const KIND: &'static str;
    /// Every word.
    const WORDS: &'static [&'static str];

    /// The value of a word.
    fn find(word: &str) -> Option<Self>;
}

macro_rules! core_words {
    ($($type:ident = $kind:literal),+) => {
        $(
            impl Word for $type {
                const KIND: &'static str = $kind;
                const WORDS: &'static [&'static str] = $type::WORDS;

                fn find(word: &str) -> Option<Self> {
                    word.parse().ok()
                }
            }
        )+
    };
}

core_words!(
    Mode = "mode",
    Phase = "state",
    Tier = "tier",
    Effect = "effect"
);

/// Makes an enum whose values are words of the file.
macro_rules! choice {
    (
        $(#[$meta:meta])*
        $vis:vis enum $name:ident, $kind:literal {
            $($(#[$variant_meta:meta])* $variant:ident = $word:literal),+ $(,)?
        }
    ) => {
        $(#[$meta])*
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord,
            serde::Serialize, schemars::JsonSchema,
        )]
        $vis enum $name {
            $($(#[$variant_meta])* #[serde(rename = $word)] $variant),+
        }

        impl $name {
            /// The word used in policy.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }

        impl $crate::load::Word for $name {
            const KIND: &'static str = $kind;
            const WORDS: &'static [&'static str] = &[$($word),+];

            fn find(word: &str) -> Option<Self> {
                match word {
                    $($word => Some(Self::$variant),)+
                    _ => None,
                }
            }
        }
    };
}
pub(crate) use choice;
