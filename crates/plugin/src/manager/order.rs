//! In which order plugins start, and why some never can. Pure.

use crate::manifest::Manifest;
use airlock_core::PluginName;
use std::collections::{BTreeMap, BTreeSet};

/// Why a plugin's dependencies do not hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DependencyError {
    /// What it needs is not there, or cannot be used itself.
    #[error("it needs `{needs}`, which is not there")]
    Missing {
        /// What it needs.
        needs: PluginName,
    },
    /// What it needs is there in another version.
    #[error("it needs `{needs}` {wanted}, but version {found} is there")]
    Version {
        /// What it needs.
        needs: PluginName,
        /// Which versions would do.
        wanted: String,
        /// Which version there is.
        found: String,
    },
    /// It needs itself by way of others.
    #[error("it depends on itself: {}", path(.0))]
    Cycle(Vec<PluginName>),
}

fn path(cycle: &[PluginName]) -> String {
    let names: Vec<&str> = cycle.iter().map(PluginName::as_str).collect();
    names.join(" -> ")
}

/// The order in which plugins can start, and those that cannot.
#[derive(Debug, Default)]
pub(super) struct Order {
    pub(super) names: Vec<PluginName>,
    pub(super) refused: BTreeMap<PluginName, DependencyError>,
}

/// Orders `plugins`: each after all it needs, by name where that leaves a choice.
pub(super) fn order(plugins: &BTreeMap<PluginName, &Manifest>) -> Order {
    let mut alive = plugins.clone();
    let mut refused = BTreeMap::new();
    loop {
        let mut fallen: BTreeMap<PluginName, DependencyError> = alive
            .iter()
            .filter_map(|(name, manifest)| Some((name.clone(), unmet(manifest, &alive)?)))
            .collect();
        let (names, left) = if fallen.is_empty() {
            sorted(&alive)
        } else {
            (Vec::new(), BTreeSet::new())
        };
        fallen.extend(left.iter().filter_map(|name| {
            let cycle = cycle_through(name, &left, &alive)?;
            Some((name.clone(), DependencyError::Cycle(cycle)))
        }));
        if fallen.is_empty() {
            return Order { names, refused };
        }
        alive.retain(|name, _| !fallen.contains_key(name));
        refused.append(&mut fallen);
    }
}

fn unmet(manifest: &Manifest, alive: &BTreeMap<PluginName, &Manifest>) -> Option<DependencyError> {
    manifest.dependencies.iter().find_map(|(needs, wanted)| {
        let needs = needs.clone();
        match alive.get(&needs) {
            None => Some(DependencyError::Missing { needs }),
            Some(there) if !wanted.matches(&there.version) => Some(DependencyError::Version {
                needs,
                wanted: wanted.to_string(),
                found: there.version.to_string(),
            }),
            Some(_) => None,
        }
    })
}

/// What can be ordered, and what is left: cycles and whatever needs one.
fn sorted(alive: &BTreeMap<PluginName, &Manifest>) -> (Vec<PluginName>, BTreeSet<PluginName>) {
    let mut waits: BTreeMap<&PluginName, usize> = BTreeMap::new();
    let mut needed_by: BTreeMap<&PluginName, Vec<&PluginName>> = BTreeMap::new();
    for (name, manifest) in alive {
        waits.insert(name, manifest.dependencies.len());
        for needs in manifest.dependencies.keys() {
            needed_by.entry(needs).or_default().push(name);
        }
    }
    let mut ready: BTreeSet<&PluginName> = waits
        .iter()
        .filter(|(_, count)| **count == 0)
        .map(|(name, _)| *name)
        .collect();
    let mut names = Vec::new();
    while let Some(name) = ready.pop_first() {
        waits.remove(name);
        names.push(name.clone());
        for waiting in needed_by.get(name).into_iter().flatten() {
            if let Some(count) = waits.get_mut(*waiting) {
                *count -= 1;
                if *count == 0 {
                    ready.insert(waiting);
                }
            }
        }
    }
    (names, waits.into_keys().cloned().collect())
}

/// A way from `start` back to itself, if there is one.
fn cycle_through(
    start: &PluginName,
    left: &BTreeSet<PluginName>,
    alive: &BTreeMap<PluginName, &Manifest>,
) -> Option<Vec<PluginName>> {
    let mut came_from: BTreeMap<&PluginName, &PluginName> = BTreeMap::new();
    let mut open = vec![start];
    while let Some(at) = open.pop() {
        for needs in alive.get(at)?.dependencies.keys() {
            if needs == start {
                let mut path = vec![start.clone(), at.clone()];
                let mut back = at;
                while let Some(before) = came_from.get(back) {
                    path.push((*before).clone());
                    back = before;
                }
                // A plugin that needs itself directly would be there three times.
                if at == start {
                    path.truncate(2);
                }
                path.reverse();
                return Some(path);
            }
            if left.contains(needs) && !came_from.contains_key(needs) {
                came_from.insert(needs, at);
                open.push(needs);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Name, version, and what it needs in which versions.
    type Row<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)]);

    fn manifests(plugins: &[Row<'_>]) -> Vec<Manifest> {
        let one = |(name, version, needs): &Row<'_>| {
            let needs: Vec<String> = needs
                .iter()
                .map(|(name, wanted)| format!("{name}: '{wanted}'"))
                .collect();
            let text = format!(
                "name: {name}\nversion: {version}\ntype: tool\ndependencies: {{ {} }}\n",
                needs.join(", ")
            );
            Manifest::parse(text.as_bytes()).unwrap()
        };
        plugins.iter().map(one).collect()
    }

    fn ordered(plugins: &[Row<'_>]) -> (Vec<String>, Vec<String>) {
        let manifests = manifests(plugins);
        let by_name = manifests.iter().map(|one| (one.name.clone(), one));
        let order = order(&by_name.collect());
        let refused = order.refused.iter();
        (
            order.names.iter().map(ToString::to_string).collect(),
            refused
                .map(|(name, why)| format!("{name}: {why}"))
                .collect(),
        )
    }

    #[test]
    fn each_comes_after_what_it_needs_and_what_cannot_start_says_why() {
        let any = "*";
        for (plugins, names, refused) in [
            (&[][..], &[][..], &[][..]),
            (
                &[
                    ("a", "1.0.0", &[("c", any)][..]),
                    ("b", "1.0.0", &[]),
                    ("c", "1.0.0", &[("b", any)]),
                ],
                &["b", "c", "a"],
                &[],
            ),
            (
                &[
                    ("a", "1.0.0", &[("b", any)]),
                    ("c", "1.0.0", &[("a", any)]),
                    ("d", "1.0.0", &[]),
                ],
                &["d"],
                &[
                    "a: it needs `b`, which is not there",
                    "c: it needs `a`, which is not there",
                ],
            ),
            (
                &[("a", "1.0.0", &[("b", ">=2")]), ("b", "1.9.0", &[])],
                &["b"],
                &["a: it needs `b` >=2, but version 1.9.0 is there"],
            ),
            (
                &[
                    ("a", "1.0.0", &[("b", any)]),
                    ("b", "1.0.0", &[("c", any)]),
                    ("c", "1.0.0", &[("a", any)]),
                    ("d", "1.0.0", &[("a", any)]),
                    ("e", "1.0.0", &[]),
                ],
                &["e"],
                &[
                    "a: it depends on itself: a -> b -> c -> a",
                    "b: it depends on itself: b -> c -> a -> b",
                    "c: it depends on itself: c -> a -> b -> c",
                    "d: it needs `a`, which is not there",
                ],
            ),
        ] {
            let (found, why) = ordered(plugins);
            assert_eq!(found, names, "{plugins:?}");
            assert_eq!(why, refused, "{plugins:?}");
        }
    }

    #[test]
    fn a_thousand_in_a_row_are_ordered() {
        let names: Vec<String> = (0..1_000).map(|n| format!("p{n:04}")).collect();
        let needs: Vec<Vec<(&str, &str)>> = (0..1_000)
            .map(|n| {
                names
                    .get(n + 1)
                    .map(|next| (next.as_str(), "*"))
                    .into_iter()
                    .collect()
            })
            .collect();
        let plugins: Vec<Row<'_>> = names
            .iter()
            .zip(&needs)
            .map(|(name, needs)| (name.as_str(), "1.0.0", needs.as_slice()))
            .collect();
        let (found, refused) = ordered(&plugins);
        assert!(refused.is_empty());
        let mut want = names.clone();
        want.reverse();
        assert_eq!(found, want);
    }
}
