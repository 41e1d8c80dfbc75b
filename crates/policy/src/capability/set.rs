//! A compiled, immutable set of patterns.

use super::index::Index;
use super::{Capability, CapabilityError, Pattern};
use std::fmt;
use std::sync::Arc;

/// Patterns compiled once into an index. Cloning shares it.
///
/// There is no `Default`: an empty set grants nothing, and whoever wants that says so.
#[derive(Clone)]
pub struct CapabilitySet(Arc<Compiled>);

struct Compiled {
    patterns: Box<[Pattern]>,
    index: Index,
}

/// One entry of a list is not a pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("entry {}: {error}", .position + 1)]
pub struct PatternError {
    /// Its place in the list, from 0.
    pub position: usize,
    /// What is wrong with it.
    #[source]
    pub error: CapabilityError,
}

impl CapabilitySet {
    /// The set that contains nothing.
    pub fn empty() -> Self {
        Self::compile([])
    }

    /// Compiles `patterns`.
    pub fn compile(patterns: impl IntoIterator<Item = Pattern>) -> Self {
        let patterns: Box<[Pattern]> = patterns.into_iter().collect();
        let index = Index::new(&patterns);
        Self(Arc::new(Compiled { patterns, index }))
    }

    /// Parses and compiles `texts`; one bad entry refuses the whole list.
    pub fn parse<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> Result<Self, PatternError> {
        let parse = |(position, text): (usize, T)| {
            Pattern::parse(text.as_ref()).map_err(|error| PatternError { position, error })
        };
        let patterns: Result<Vec<_>, _> = texts.into_iter().enumerate().map(parse).collect();
        patterns.map(Self::compile)
    }

    /// Whether `capability` is well formed and some pattern matches it.
    pub fn contains(&self, capability: &str) -> bool {
        Capability::parse(capability).is_ok_and(|capability| self.contains_parsed(&capability))
    }

    /// Whether some pattern matches `capability`.
    pub fn contains_parsed(&self, capability: &Capability<'_>) -> bool {
        self.0.index.contains(capability)
    }

    /// Whether one of the patterns alone [covers](Pattern::covers) `pattern`. For set-up: it looks
    /// at each.
    pub fn covers(&self, pattern: &Pattern) -> bool {
        self.0.patterns.iter().any(|ours| ours.covers(pattern))
    }

    /// Whether there are no patterns, so that nothing is contained.
    pub fn is_empty(&self) -> bool {
        self.0.patterns.is_empty()
    }

    /// The patterns, in the order given.
    pub fn patterns(&self) -> &[Pattern] {
        &self.0.patterns
    }
}

impl fmt::Debug for CapabilitySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts = self.0.patterns.iter().map(Pattern::as_str);
        f.debug_set().entries(texts).finish()
    }
}

impl PartialEq for CapabilitySet {
    fn eq(&self, other: &Self) -> bool {
        self.0.patterns == other.0.patterns
    }
}

impl Eq for CapabilitySet {}
