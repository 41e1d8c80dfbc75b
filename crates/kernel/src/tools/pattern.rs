//! Globs as searches read them: `*` stays within one component, a pattern without `/` matches the
//! name at any depth, one with `/` is anchored where the search starts, a leading `!` excludes.

use super::contract::{InvalidArguments, RunContext};
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

/// Longest pattern taken.
const PATTERN_BYTES: usize = 4_096;

/// A compiled glob.
#[derive(Debug)]
pub(super) struct Pattern {
    // A set of one is matched by extension or name where it can be, without a regex.
    set: Option<GlobSet>,
    exclude: bool,
}

impl Pattern {
    /// Compiles the glob of the argument `at`.
    pub(super) fn new(at: &str, text: &str) -> Result<Self, InvalidArguments> {
        let invalid = |what: String| InvalidArguments {
            at: at.to_owned(),
            what,
            fix: Some("a glob looks like `*.rs`, `src/**` or `docs/{a,b}.md`".to_owned()),
        };
        let (exclude, glob) = match text.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        if glob.is_empty() {
            return Err(invalid("the glob is empty".to_owned()));
        }
        if glob.len() > PATTERN_BYTES {
            return Err(invalid(format!(
                "the glob is longer than {PATTERN_BYTES} bytes"
            )));
        }
        let set = match glob {
            "**" | "**/*" | "*" => None,
            _ => Some(compile(glob).map_err(|error| invalid(error.to_string()))?),
        };
        Ok(Self { set, exclude })
    }

    /// Whether it may be told that `path` is wanted or not. A name with a secret in it matches nothing
    /// but what matches every name: else it could be guessed letter by letter.
    pub(super) fn may_tell(&self, path: &str, context: &RunContext<'_>) -> bool {
        self.set.is_none() || context.secrets.find(path.as_bytes()).is_empty()
    }

    /// Whether the path, relative to where the search started, is wanted.
    pub(super) fn wants(&self, relative: &str) -> bool {
        let matches = self.set.as_ref().is_none_or(|set| set.is_match(relative));
        matches != self.exclude
    }
}

fn compile(glob: &str) -> Result<GlobSet, globset::Error> {
    let anchored = glob.trim_start_matches("./");
    let full = match anchored.strip_prefix('/') {
        Some(rest) => rest.to_owned(),
        None if anchored.contains('/') => anchored.to_owned(),
        None => format!("**/{anchored}"),
    };
    let glob = GlobBuilder::new(&full)
        .literal_separator(true)
        .backslash_escape(true)
        .build()?;
    GlobSetBuilder::new().add(glob).build()
}
