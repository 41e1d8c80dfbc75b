//! Where the names lead that a plan denies, if there are links in them.
//!
//! A file is judged by its own path. What is denied under a name that is a link, or lies beyond one, has
//! another path: it is denied there as well, and so under every name.
//!
//! Not guaranteed: where a link leads that changes after it was looked at; where links lead whose names
//! only a wildcard says.

use crate::plan::{Denial, Extent, HostPath, Plan, PlanError, Problem};
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::{Component, Path, PathBuf};

/// The most links a path may lead through, as for the system.
const LINKS: usize = 40;

/// What is denied besides, because what `plan` denies leads there. Refused if it holds the workspace.
pub fn also_denied(plan: &Plan) -> Result<Vec<Denial>, PlanError> {
    let mut found = BTreeSet::new();
    let mut parents = HashMap::new();
    let all = plan.denials().iter();
    for denial in all.filter(|denial| denial.extent == Extent::Everything) {
        let root = denial.target.root();
        for real in ends(&root, plan, &mut parents) {
            for target in denial.target.moved(&root, &real) {
                let held = plan.workspace().map(|workspace| &workspace.path);
                if let Some(path) = held.filter(|workspace| target.covers(workspace)) {
                    let problem = Problem::GrantBeyondDenial {
                        path: path.clone(),
                        denial: denial.target.to_string(),
                        place: real,
                    };
                    return Err(problem.into());
                }
                let extent = denial.extent;
                found.insert(Denial { target, extent });
            }
        }
    }
    found.retain(|denial| !plan.denials().contains(denial));
    Ok(found.into_iter().collect())
}

/// Where `path` leads: by the name that has no links in it, and by those that mounts of `plan` give it.
/// Nothing if no link is in it.
fn ends(
    path: &HostPath,
    plan: &Plan,
    parents: &mut HashMap<PathBuf, Option<PathBuf>>,
) -> Vec<HostPath> {
    let Some(parent) = path.as_path().parent() else {
        return Vec::new();
    };
    let known = parents.entry(parent.to_owned());
    let above = known.or_insert_with(|| end(parent));
    let below = path.as_path().file_name().map(Path::new);
    let real = above.as_deref().zip(below);
    let real = real.and_then(|(above, name)| go_on(above.to_owned(), name));
    let Some(real) = real.and_then(|real| HostPath::new(real).ok()) else {
        return Vec::new();
    };
    if real == *path {
        return Vec::new();
    }
    let mounts = plan.mounts();
    let shown = mounts.keys().filter_map(|place| {
        let source = end(place.as_path())?;
        real.moved(&HostPath::new(source).ok()?, place)
    });
    let mut all: BTreeSet<HostPath> = shown.collect();
    all.insert(real.clone());
    all.remove(path);
    all.into_iter().collect()
}

/// The same path without links, whether or not anything is there. None if it leads through too many.
fn end(path: &Path) -> Option<PathBuf> {
    go_on(PathBuf::from("/"), path)
}

fn go_on(here: PathBuf, path: &Path) -> Option<PathBuf> {
    let mut links = LINKS;
    walk(here, path, &mut links)
}

/// Goes on from `here`, in which no link is, by the names of `path`.
fn walk(mut here: PathBuf, path: &Path, links: &mut usize) -> Option<PathBuf> {
    for name in path.components() {
        match name {
            Component::RootDir => here = PathBuf::from("/"),
            Component::ParentDir => {
                here.pop();
            }
            Component::Normal(name) => {
                here.push(name);
                if let Ok(target) = fs::read_link(&here) {
                    *links = links.checked_sub(1)?;
                    here.pop();
                    here = walk(here, &target, links)?;
                }
            }
            Component::CurDir | Component::Prefix(_) => {}
        }
    }
    Some(here)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_path_ends_where_its_links_lead_whether_or_not_anything_is_there() {
        let place = tempfile::tempdir().unwrap();
        let place = place.path().canonicalize().unwrap();
        let at = |name: &str| place.join(name);
        fs::create_dir_all(at("deep/er")).unwrap();
        for (target, name) in [
            ("deep", "link"),
            ("link/er", "second"),
            ("../later", "deep/out"),
            ("/", "top"),
            ("round", "trip"),
            ("trip", "round"),
        ] {
            symlink(target, at(name)).unwrap();
        }
        for (path, want) in [
            ("deep/er", Some(at("deep/er"))),
            ("link/er", Some(at("deep/er"))),
            ("second/x", Some(at("deep/er/x"))),
            ("link/out/y", Some(at("later/y"))),
            ("no/such/../link", Some(at("no/link"))),
            ("top/etc", Some("/etc".into())),
            ("trip/x", None),
        ] {
            let found = end(&at(path));
            assert_eq!(found, want, "{path}");
        }
    }
}
