//! Why text is not a capability or a pattern, worded to stand alone in a diagnostic.

use airlock_core::limits;

/// Why text is not a capability or a pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CapabilityError {
    /// Nothing there.
    #[error("the capability is empty")]
    Empty,
    /// Over the limit in bytes.
    #[error(
        "the capability has {bytes} bytes, over the limit of {}",
        limits::CAPABILITY_BYTES
    )]
    TooLong {
        /// How long it is.
        bytes: usize,
    },
    /// Over the limit in segments; a path scope counts as one.
    #[error(
        "capability `{text}` has {segments} segments, over the limit of {}",
        limits::CAPABILITY_SEGMENTS
    )]
    TooManySegments {
        /// The text, shortened and made printable.
        text: String,
        /// How many it has.
        segments: usize,
    },
    /// The first segment is empty.
    #[error("capability `{text}` begins with a dot")]
    LeadingDot {
        /// The text, shortened and made printable.
        text: String,
    },
    /// The last segment is empty.
    #[error("capability `{text}` ends with a dot")]
    TrailingDot {
        /// The text, shortened and made printable.
        text: String,
    },
    /// A segment in the middle is empty.
    #[error("capability `{text}` has two dots in a row")]
    DoubleDot {
        /// The text, shortened and made printable.
        text: String,
    },
    /// A NUL can be part of no name and no path.
    #[error("capability `{text}` contains a NUL character")]
    Nul {
        /// The text, shortened and made printable.
        text: String,
    },
    /// `//`, or a slash at the end.
    #[error("the path of capability `{text}` has an empty component")]
    EmptyComponent {
        /// The text, shortened and made printable.
        text: String,
    },
    /// `.` or `..` as a component.
    #[error("the path of capability `{text}` has the component `{component}`")]
    DotComponent {
        /// The text, shortened and made printable.
        text: String,
        /// Which of the two.
        component: &'static str,
    },
    /// `~` followed by a name.
    #[error("the path of capability `{text}` begins with `~` but not with `~/`")]
    ForeignHome {
        /// The text, shortened and made printable.
        text: String,
    },
    /// `**` in a dotted segment, or as part of a path component.
    #[error("capability pattern `{text}` has `**` other than as a whole path component")]
    StrayDoubleStar {
        /// The text, shortened and made printable.
        text: String,
    },
    /// A character that other pattern languages give a meaning, or that nobody writes on purpose.
    #[error("capability pattern `{text}` has the character `{}` in a segment", .character.escape_debug())]
    UnsupportedCharacter {
        /// The text, shortened and made printable.
        text: String,
        /// The first such character.
        character: char,
    },
}

impl CapabilityError {
    /// How to mend it.
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::Empty => "name a capability such as `sessions.read`, or remove the entry",
            Self::TooLong { .. } => "shorten it, or use `*` for what varies",
            Self::TooManySegments { .. } => "use `*` as a segment: it stands for one or more",
            Self::LeadingDot { .. } => "remove the dot at the beginning",
            Self::TrailingDot { .. } => {
                "remove the dot at the end, or end in `.*` for everything below"
            }
            Self::DoubleDot { .. } => "write one dot between segments, `*` for any segments",
            Self::Nul { .. } => "remove the NUL character",
            Self::EmptyComponent { .. } => {
                "write one `/` between components and none at the end; `/*` at the end means \
                 everything below"
            }
            Self::DotComponent { .. } => "write the path that it leads to",
            Self::ForeignHome { .. } => {
                "write `~/` for the user's own home, or an absolute path for another's"
            }
            Self::StrayDoubleStar { .. } => {
                "write `*` in a segment; `**` only stands alone between slashes of a path"
            }
            Self::UnsupportedCharacter { .. } => {
                "`*` is the only wildcard: write one entry for each alternative, without spaces, \
                 and put exclusions in the deny list"
            }
        }
    }
}

/// Most characters of a capability that an error repeats.
const SHOWN: usize = 80;

/// `text` for a message: one line, no control characters, not endless.
pub(super) fn shown(text: &str) -> String {
    let mut chars = text.chars();
    let mut shown: String = chars
        .by_ref()
        .take(SHOWN)
        .flat_map(char::escape_debug)
        .collect();
    if chars.next().is_some() {
        shown.push('…');
    }
    shown
}
