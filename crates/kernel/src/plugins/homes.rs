//! What a plugin's manifest says of `~`, in the names that requests use.
//!
//! Guarantee: whatever is denied in the home is denied by every name the home has, or the plugin is
//! not let in.

use airlock_plugin::{Grants, SandboxAsk};
use airlock_policy::CapabilityGrants;
use airlock_policy::capability::CapabilitySet;
use std::path::Path;

/// `grants`, where `~` is `home`, by each name it has.
pub(super) fn placed(
    grants: &CapabilityGrants,
    home: Option<&Path>,
) -> Result<CapabilityGrants, String> {
    let found = Grants::find(&SandboxAsk::default(), home).map_err(|error| error.to_string())?;
    let homes: Vec<&str> = found.homes().filter_map(Path::to_str).collect();
    let mut denied = grants.deny.patterns().iter();
    if let Some(lost) = denied.find(|one| one.is_of_home() && homes.is_empty()) {
        return Err(format!(
            "it does without `{lost}`, and the home is not known"
        ));
    }
    // There a `*` would grant more than the home.
    let plain: Vec<&str> = homes
        .iter()
        .copied()
        .filter(|home| !home.contains('*'))
        .collect();
    Ok(CapabilityGrants {
        allow: with_homes(&grants.allow, &plain)?,
        deny: with_homes(&grants.deny, &homes)?,
    })
}

fn with_homes(set: &CapabilitySet, homes: &[&str]) -> Result<CapabilitySet, String> {
    let mut patterns = set.patterns().to_vec();
    for one in set.patterns().iter().filter(|one| one.is_of_home()) {
        for home in homes {
            patterns.push(one.in_home(home).map_err(|error| error.to_string())?);
        }
    }
    Ok(CapabilitySet::compile(patterns))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn grants(allow: &[&str], deny: &[&str]) -> CapabilityGrants {
        CapabilityGrants {
            allow: CapabilitySet::parse(allow).unwrap(),
            deny: CapabilitySet::parse(deny).unwrap(),
        }
    }

    #[test]
    fn the_home_is_meant_by_each_name_it_has() {
        let place = tempfile::tempdir().unwrap();
        let place = place.path().canonicalize().unwrap();
        let (real, named) = (place.join("disk"), place.join("home"));
        std::fs::create_dir(&real).unwrap();
        symlink(&real, &named).unwrap();
        let asked = grants(
            &["filesystem.read.~/notes/*", "exec.*"],
            &["filesystem.read.~/private/**"],
        );
        let placed = placed(&asked, Some(&named)).unwrap();
        for home in [&real, &named] {
            let capability = |below: &str| format!("filesystem.read.{}/{below}", home.display());
            assert!(placed.allow.contains(&capability("notes/a")));
            assert!(!placed.allow.contains(&capability("other")));
            assert!(placed.deny.contains(&capability("private/x/y")));
            assert!(!placed.deny.contains(&capability("notes/a")));
        }
        assert!(placed.allow.contains("exec.run.sandboxed"));
        assert!(!placed.allow.contains("filesystem.read./notes/a"));
    }

    #[test]
    fn what_cannot_be_denied_is_not_let_in_and_a_wildcard_grants_nothing() {
        let denies = grants(&["filesystem.*"], &["filesystem.read.~/x"]);
        assert!(placed(&denies, None).unwrap_err().contains("~/x"));
        let asks = grants(&["filesystem.read.~/x"], &[]);
        assert_eq!(placed(&asks, None).unwrap(), asks);
        let odd = Some(Path::new("/nowhere/a*"));
        let found = placed(&asks, odd).unwrap();
        assert!(!found.allow.contains("filesystem.read./nowhere/ab/x"));
        let found = placed(&denies, odd).unwrap();
        assert!(found.deny.contains("filesystem.read./nowhere/a*/x"));
    }
}
