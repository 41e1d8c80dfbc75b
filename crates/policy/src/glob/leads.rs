//! Which globs of a long list a path could match, told by its names.
//!
//! A glob that applies at any depth needs a name that fits its first component. Most names fit
//! none, so most globs of a list are never tried.

use super::{Component, Glob, Leaf, PathText};
use crate::hash::Seeded;
use std::collections::HashMap;

/// Lists shorter than this are tried one by one: most are ruled out by their letters.
const FEW: usize = 32;

/// The globs of a list by what their first component asks for.
#[derive(Debug, Clone, Default)]
pub(super) struct Leads {
    /// At any depth, below exactly this name.
    named: HashMap<Box<str>, Vec<usize>, Seeded>,
    /// At any depth, below a name that fits a wildcard.
    loose: Vec<usize>,
    /// From the root.
    rooted: Vec<usize>,
}

impl Leads {
    /// Sorts `globs`, if they are many enough for that to pay.
    pub(super) fn of(globs: &[Glob]) -> Option<Box<Self>> {
        if globs.len() < FEW {
            return None;
        }
        let mut leads = Self::default();
        for (at, glob) in globs.iter().enumerate() {
            match glob.floating() {
                Some(Component::Literal(name)) => {
                    leads.named.entry(name.clone()).or_default().push(at);
                }
                Some(
                    Component::Any
                    | Component::Suffix(_)
                    | Component::Prefix(_)
                    | Component::Inner(_)
                    | Component::Wild(_),
                ) => leads.loose.push(at),
                None => leads.rooted.push(at),
            }
        }
        Some(Box::new(leads))
    }

    /// Whether one of `globs`, those it was made of, matches `path`.
    pub(super) fn any(&self, globs: &[Glob], path: PathText<'_>, leaf: Leaf) -> bool {
        let matches = |at: &usize| globs.get(*at).is_some_and(|glob| glob.matches(path, leaf));
        let fits = |at: &usize, name: &str| {
            let first = globs.get(*at).and_then(Glob::floating);
            first.is_some_and(|first| first.matches(name))
        };
        self.rooted.iter().any(matches)
            || path.components().any(|name| {
                self.named
                    .get(name)
                    .is_some_and(|all| all.iter().any(matches))
                    || self.loose.iter().any(|at| fits(at, name) && matches(at))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::super::PathGlobs;
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn glob() -> impl Strategy<Value = String> {
        "(/|\\*\\*/)?[abé*?]{1,4}(/(\\*\\*|[abé*?]{1,2})){0,2}/?"
    }

    proptest! {
        #[test]
        fn a_list_matches_what_its_globs_match(
            globs in prop_oneof![vec(glob(), 2..FEW), vec(glob(), FEW..FEW + 6)],
            path in "[abé]{1,4}(/[abé]{1,2}){0,3}",
        ) {
            let globs: Vec<String> = globs.into_iter().filter(|one| super::super::check(one).is_ok()).collect();
            let list = PathGlobs::parse(&globs).unwrap();
            for leaf in [Leaf::File, Leaf::Directory] {
                let path = PathText::new(&path);
                let one_by_one = list.includes().iter().any(|glob| glob.matches(path, leaf));
                prop_assert_eq!(list.matches(path, leaf), one_by_one, "{:?}", globs);
            }
        }
    }
}
