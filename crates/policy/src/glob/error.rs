//! Why text is not a path glob, and what to write instead.

/// Why text is not a path glob.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GlobError {
    /// Nothing to match.
    #[error("the glob is empty")]
    Empty,
    /// Over the longest path there can be.
    #[error("the glob is longer than 4096 bytes")]
    TooLong,
    /// A NUL byte is never part of a path.
    #[error("the glob contains a NUL byte")]
    Nul,
    /// White space at an end is almost always a slip, and invisible.
    #[error("`{0}` begins or ends with white space")]
    SurroundingSpace(String),
    /// Alternatives are not part of gitignore's language.
    #[error("`{0}` uses braces, which globs here do not have")]
    Braces(String),
    /// A workspace path never climbs.
    #[error("`{0}` has a `..` component, which no workspace path has")]
    Parent(String),
    /// A normalised path has neither `.` nor empty components.
    #[error("`{0}` has an empty or `.` component, which no workspace path has")]
    EmptyComponent(String),
    /// Globs are relative to the workspace root.
    #[error("`{0}` names a home directory; globs are relative to the workspace root")]
    Home(String),
    /// Globs are relative to the workspace root.
    #[error("`{0}` names a drive; globs are relative to the workspace root")]
    Drive(String),
    /// A class that never ends, is empty, or runs backwards.
    #[error("`{0}` has a character class that is not closed, is empty or runs backwards")]
    Class(String),
    /// A class matches one character of a name, and `/` is part of none.
    #[error("`{0}` has a `/` in a character class")]
    SlashInClass(String),
    /// Named classes are not part of gitignore's language as we read it.
    #[error("`{0}` uses a named character class")]
    NamedClass(String),
    /// Nothing follows the escape.
    #[error("`{0}` ends with a `\\` that escapes nothing")]
    TrailingEscape(String),
    /// `src\main.rs` would silently mean `srcmain.rs`.
    #[error("`{0}` escapes a letter or digit")]
    NeedlessEscape(String),
}

impl GlobError {
    /// How to mend it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Empty => "write a glob such as `src/**`, or leave the entry out",
            Self::TooLong => "no path is that long; shorten it",
            Self::Nul => "remove the NUL byte",
            Self::SurroundingSpace(_) => {
                "remove the white space; a name that really has it is written with `\\ `"
            }
            Self::Braces(_) => "write two globs; a name with a brace in it is written with `\\{`",
            Self::Parent(_) => "write the path from the workspace root",
            Self::EmptyComponent(_) => "write one `/` between names and no `.`",
            Self::Home(_) => {
                "write the path from the workspace root; a name with a tilde is written with `\\~`"
            }
            Self::Drive(_) => "write the path from the workspace root, with `/` between names",
            Self::Class(_) => {
                "close the class with `]`, lower end first; a literal bracket is written with `\\[`"
            }
            Self::SlashInClass(_) => "write two globs",
            Self::NamedClass(_) => "write the characters out, such as `[a-z0-9]`",
            Self::TrailingEscape(_) => "remove it, or write `\\\\` for a backslash",
            Self::NeedlessEscape(_) => {
                "write `/` between names; `\\` escapes special characters only"
            }
        }
    }
}
