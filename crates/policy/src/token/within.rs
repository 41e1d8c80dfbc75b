//! When one scope provably lies within another.

use super::refusal::NarrowError;
use crate::document::Constraints;
use airlock_core::Tier;
use std::sync::Arc;

/// The first glob that keeps `child` from provably lying within `parent`.
///
/// Conservative: textual prefixes only, so some true inclusions are refused. An exclusion of the
/// parent must be repeated by the child.
pub(super) fn first_uncovered(parent: &[Arc<str>], child: &[Arc<str>]) -> Option<Arc<str>> {
    let (excluded, included): (Vec<_>, Vec<_>) =
        parent.iter().partition(|glob| glob.starts_with('!'));
    excluded
        .into_iter()
        .find(|glob| !child.contains(glob))
        .or_else(|| {
            child
                .iter()
                .filter(|glob| !glob.starts_with('!'))
                .find(|glob| !included.iter().any(|wider| covers(wider, glob)))
        })
        .cloned()
}

fn covers(wider: &str, narrower: &str) -> bool {
    if wider == narrower || wider == "**" {
        return true;
    }
    let literal =
        |text: &str| !text.is_empty() && !text.contains(['*', '?', '[', ']', '{', '}', '\\', '!']);
    // `src/` alone would not be anchored, so something has to follow the slash.
    wider
        .strip_suffix("/**")
        .filter(|directory| literal(directory))
        .and_then(|directory| narrower.strip_prefix(directory))
        .and_then(|rest| rest.strip_prefix('/'))
        .is_some_and(|rest| !rest.trim_matches('/').is_empty())
}

/// The child's constraints with the parent's where the child has none of its own.
pub(super) fn stricter(
    parent: &Constraints,
    child: &Constraints,
) -> Result<Constraints, NarrowError> {
    Ok(Constraints {
        require_sandbox: sandbox(parent.require_sandbox, child.require_sandbox)?,
        require_capability_token: parent.require_capability_token || child.require_capability_token,
        max_file_size: least("max_file_size", parent.max_file_size, child.max_file_size)?,
        max_duration: least("max_duration", parent.max_duration, child.max_duration)?,
        max_output: least("max_output", parent.max_output, child.max_output)?,
        max_memory: least("max_memory", parent.max_memory, child.max_memory)?,
    })
}

fn least<T: Ord + Copy>(
    name: &'static str,
    parent: Option<T>,
    child: Option<T>,
) -> Result<Option<T>, NarrowError> {
    match (parent, child) {
        (Some(most), Some(wanted)) if wanted > most => Err(NarrowError::Constraint(name)),
        (_, Some(wanted)) => Ok(Some(wanted)),
        (most, None) => Ok(most),
    }
}

fn sandbox(parent: Option<Tier>, child: Option<Tier>) -> Result<Option<Tier>, NarrowError> {
    match (parent, child) {
        (Some(least), Some(wanted)) => {
            // Whatever satisfies the child's demand must satisfy the parent's.
            let holds = Tier::ALL
                .iter()
                .all(|tier| !tier.satisfies(wanted) || tier.satisfies(least));
            if holds {
                Ok(Some(wanted))
            } else {
                Err(NarrowError::Constraint("require_sandbox"))
            }
        }
        (least, None) => Ok(least),
        (None, wanted) => Ok(wanted),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_provable_inclusions_cover() {
        for (wider, narrower, want) in [
            ("src/**", "src/**", true),
            ("src/**", "src/a.rs", true),
            ("src/**", "src/deep/*.rs", true),
            ("src/**", "src/{a,b}/x", true),
            ("**", "anything/*.rs", true),
            ("src/**", "src", false),
            ("src/**", "src/", false),
            ("src/**", "src//", false),
            ("src/**", "srcs/a", false),
            ("src/**", "**", false),
            ("src/**", "*/a", false),
            ("src/**", "{src,etc}/a", false),
            ("*/**", "src/a", false),
            ("src/*", "src/a", false),
            ("/**", "src/a", false),
        ] {
            assert_eq!(covers(wider, narrower), want, "{wider} over {narrower}");
        }
    }

    #[test]
    fn a_parents_exclusion_must_be_repeated() {
        let globs = |texts: &[&str]| {
            texts
                .iter()
                .map(|text| Arc::from(*text))
                .collect::<Vec<_>>()
        };
        let parent = globs(&["src/**", "!src/keys/**"]);
        assert!(first_uncovered(&parent, &globs(&["src/**"])).is_some());
        assert!(first_uncovered(&parent, &globs(&["src/a", "!src/keys/**"])).is_none());
        assert!(first_uncovered(&parent, &globs(&["etc/a", "!src/keys/**"])).is_some());
    }
}
