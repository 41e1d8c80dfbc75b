//! The built-in tools, described by manifests like any plugin's and held to the same checks.
//!
//! They run in the kernel or in its own workers, so their `execution` is never used; what they may
//! ask for is. What a manifest says of a tool is what the kernel's registry has of it: a test over
//! every built-in tool sees to that.

use crate::manifest::Manifest;
use airlock_yaml::DefinitionError;

/// The built-in plugins: name, the area of syscalls that each offers, and its manifest.
const MANIFESTS: &[(&str, &str, &str)] = &[
    ("fs-tool", "fs", include_str!("fs-tool.yaml")),
    ("search-tool", "search", include_str!("search-tool.yaml")),
    ("git-tool", "git", include_str!("git-tool.yaml")),
    ("test-tool", "test", include_str!("test-tool.yaml")),
];

/// The built-in plugins, each with the area of syscalls that it offers.
pub fn built_in() -> Result<Vec<(&'static str, Manifest)>, DefinitionError> {
    MANIFESTS
        .iter()
        .map(|(_, area, text)| Ok((*area, Manifest::parse_built_in(text.as_bytes())?)))
        .collect()
}

/// Whether a built-in plugin is called `name`.
pub(crate) fn is_name(name: &str) -> bool {
    MANIFESTS.iter().any(|(known, ..)| *known == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use airlock_core::{CapabilityForm, Syscall};
    use airlock_policy::capability::CapabilitySet;

    fn needed(form: CapabilityForm) -> String {
        match form {
            CapabilityForm::Fixed(name) => name.to_owned(),
            CapabilityForm::Path(name) => format!("{name}./work/src/main.rs"),
            CapabilityForm::Host(name) => format!("{name}.h.example"),
            CapabilityForm::Secret(name) => format!("{name}.token"),
            CapabilityForm::Tool(name) => format!("{name}.p.t"),
        }
    }

    #[test]
    fn each_has_what_its_syscalls_need_and_what_no_other_does() {
        let built_in = built_in().unwrap_or_else(|error| panic!("{error}"));
        for (area, manifest) in built_in {
            let allow = CapabilitySet::parse(&manifest.capabilities).unwrap();
            let deny = CapabilitySet::parse(&manifest.deny_capabilities).unwrap();
            let may = |capability: &str| allow.contains(capability) && !deny.contains(capability);
            let own: Vec<Syscall> = Syscall::all().filter(|one| one.area() == area).collect();
            assert!(!own.is_empty(), "{area}");
            for syscall in &own {
                assert!(may(&needed(syscall.spec().capability)), "{area}: {syscall}");
            }
            let effects = |effect| own.iter().any(|one| one.spec().effects.contains(effect));
            for syscall in Syscall::all() {
                let spec = syscall.spec();
                let foreign = spec.effects.iter().any(|effect| !effects(effect));
                if foreign {
                    assert!(!may(&needed(spec.capability)), "{area}: {syscall}");
                }
            }
            assert_eq!(manifest.name.as_str(), format!("{area}-tool"));
            assert!(is_name(manifest.name.as_str()), "{area}");
        }
    }

    #[test]
    fn nobody_else_has_the_name_of_one() {
        for (name, _, text) in MANIFESTS {
            let error = Manifest::parse(text.as_bytes()).unwrap_err();
            let problems: Vec<&str> = error.problems().iter().map(|p| p.what.as_str()).collect();
            assert_eq!(problems, [format!("`{name}` is Airlock's own name")]);
        }
    }
}
