//! Which adapter a tool means, and what comes after it.

use super::{Adapter, Status};
use std::collections::{BTreeMap, BTreeSet};

/// Most adapters one call may go through.
const CHAIN: usize = 5;

/// The adapters of one tool, the one to use first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    /// Ids: the first is used, the others are fallbacks in their order.
    pub chain: Vec<String>,
    /// What the person should know.
    pub warnings: Vec<String>,
}

/// Why a tool means no adapter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unresolved {
    /// All of them have to be switched on first.
    #[error("`{0}` is experimental and not switched on")]
    Experimental(String),
    /// Several could be meant.
    #[error("`{0}` and `{1}` both are adapters of that tool, and neither is the other's fallback")]
    Ambiguous(String, String),
    /// Fallbacks lead back.
    #[error("the fallbacks lead in a circle at `{0}`")]
    Cycle(String),
    /// A fallback is not there.
    #[error("`{from}` falls back on `{to}`, which {why}")]
    Fallback {
        /// The adapter.
        from: String,
        /// Its fallback.
        to: String,
        /// What is the matter with it.
        why: &'static str,
    },
    /// There are too many.
    #[error("more than {CHAIN} adapters fall back on each other")]
    TooLong,
}

impl Unresolved {
    /// How to mend it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Experimental(_) => "switch it on: `airlock config set adapters.experimental ID`",
            Self::Ambiguous(..) => {
                "give one of them another `tool`, or make it the other's `fallback`"
            }
            Self::Cycle(_) => "remove one `fallback`",
            Self::Fallback { .. } => "name an adapter of the same tool that may be used",
            Self::TooLong => "shorten the chain",
        }
    }
}

/// Decides among `adapters`, which all are of one tool; `on` are the experimental ones that were
/// switched on.
pub fn resolve(
    adapters: &BTreeMap<String, Adapter>,
    on: &BTreeSet<String>,
) -> Result<Resolved, Unresolved> {
    let usable = |adapter: &Adapter| {
        adapter.summary.status != Status::Experimental || on.contains(&adapter.header.id)
    };
    let named: BTreeSet<&str> = adapters
        .values()
        .filter_map(|one| one.fallback.as_deref())
        .collect();
    let mut first = adapters
        .values()
        .filter(|one| !named.contains(one.header.id.as_str()) && usable(one));
    let Some(chosen) = first.next() else {
        let hidden = adapters.values().find(|one| !usable(one));
        return Err(match (hidden, adapters.keys().next()) {
            (Some(hidden), _) => Unresolved::Experimental(hidden.header.id.clone()),
            // Every one is another's fallback.
            (None, any) => Unresolved::Cycle(any.cloned().unwrap_or_default()),
        });
    };
    if let Some(other) = first.next() {
        return Err(Unresolved::Ambiguous(
            chosen.header.id.clone(),
            other.header.id.clone(),
        ));
    }
    let mut chain: Vec<String> = Vec::new();
    let mut warnings = Vec::new();
    let mut next = Some(chosen);
    while let Some(adapter) = next {
        let id = &adapter.header.id;
        if chain.contains(id) {
            return Err(Unresolved::Cycle(id.clone()));
        }
        if chain.len() == CHAIN {
            return Err(Unresolved::TooLong);
        }
        if adapter.summary.status == Status::Deprecated {
            warnings.push(format!("the adapter `{id}` is deprecated"));
        }
        chain.push(id.clone());
        next = match &adapter.fallback {
            None => None,
            Some(to) => {
                let missing = |why| Unresolved::Fallback {
                    from: id.clone(),
                    to: to.clone(),
                    why,
                };
                let found = adapters
                    .get(to)
                    .ok_or_else(|| missing("is no adapter of the same tool"))?;
                if !usable(found) {
                    return Err(missing("is experimental and not switched on"));
                }
                Some(found)
            }
        };
    }
    Ok(Resolved { chain, warnings })
}
