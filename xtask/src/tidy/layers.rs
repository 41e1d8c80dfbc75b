//! Dependencies between our crates point down, and the pure crates stay pure.

use super::tree::{File, Finding, Tree};
use crate::manifest::{Dependency, dependencies, entries};

/// A crate may depend on crates of lower layers only. Two of one layer do not know each other.
const LAYERS: &[(&str, u8)] = &[
    ("airlock-core", 0),
    ("airlock-sdk", 0),
    ("airlock-plugin-protocol", 0),
    ("airlock-sdk-process", 1),
    ("airlock-policy", 1),
    ("airlock-audit", 1),
    ("airlock-sandbox", 1),
    ("airlock-sanitise", 1),
    ("airlock-wire", 1),
    ("airlock-bootstrap", 1),
    ("airlock-phases", 1),
    ("airlock-model", 1),
    ("airlock-request", 1),
    ("airlock-script", 2),
    ("airlock-state", 2),
    ("airlock-yaml", 2),
    ("airlock-definitions", 3),
    ("airlock-merge", 2),
    ("airlock-plugin", 3),
    ("airlock-agent", 2),
    ("airlock-plugin-grpc", 4),
    ("airlock-plugin-mcp", 4),
    ("airlock-plugin-wasm", 4),
    ("airlock-wasm-worker", 5),
    ("airlock-kernel", 5),
    ("airlock-service", 6),
    ("airlock-mcp", 6),
    ("airlock-cli", 7),
];

const PURE: &[&str] = &[
    "airlock-core",
    "airlock-policy",
    "airlock-yaml",
    "airlock-definitions",
    "airlock-phases",
];

/// Crates that reach the machine, and so have no place in a pure crate.
const IMPURE: &[&str] = &["libc", "rusqlite", "rustix", "tempfile", "tokio"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.manifests().flat_map(check_one).collect()
}

fn check_one(file: &File) -> Vec<Finding> {
    let entries = entries(&file.text);
    let name = crate::manifest::value(&entries, "package", "name").unwrap_or_default();
    let dependencies = dependencies(&entries);
    if name == "xtask" {
        let ours = dependencies.iter().filter(|d| is_ours(&d.name));
        let fix = "keep it free of the crates it checks";
        return ours
            .map(|d| file.finding(d.line, format!("xtask uses `{}`", d.name), fix))
            .collect();
    }
    let Some(layer) = layer_of(name) else {
        let inside = file.path.starts_with("crates/");
        let fix = "give it one in xtask's `tidy/layers.rs`";
        return inside
            .then(|| file.finding(1, format!("`{name}` has no layer"), fix))
            .into_iter()
            .collect();
    };
    let mut findings: Vec<Finding> = dependencies
        .iter()
        .filter(|d| is_ours(&d.name) && layer_of(&d.name).is_none_or(|other| other >= layer))
        .map(|d| {
            let what = format!(
                "`{name}` must not depend on `{}`: it is not in a lower layer",
                d.name
            );
            file.finding(d.line, what, "move the shared part down")
        })
        .collect();
    if PURE.contains(&name) {
        findings.extend(impure(file, name, &dependencies));
    }
    findings
}

fn impure(file: &File, name: &str, dependencies: &[Dependency]) -> Vec<Finding> {
    dependencies
        .iter()
        .filter(|d| d.shipped && IMPURE.contains(&d.name.as_str()))
        .map(|d| {
            let what = format!("`{}` in the pure crate `{name}`", d.name);
            file.finding(d.line, what, "let the caller do the I/O")
        })
        .collect()
}

fn is_ours(name: &str) -> bool {
    name.starts_with("airlock-") || name == "xtask"
}

fn layer_of(name: &str) -> Option<u8> {
    LAYERS
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, layer)| *layer)
}

#[cfg(test)]
mod tests {
    use super::super::tree::testing::assert_finds;
    use super::*;

    fn manifest(name: &str, section: &str, dependency: &str) -> String {
        format!("[package]\nname = \"{name}\"\n[{section}]\n{dependency}.workspace = true\n")
    }

    #[test]
    fn edges_point_down() {
        for (name, dependency, allowed) in [
            ("airlock-policy", "airlock-core", true),
            ("airlock-cli", "airlock-kernel", true),
            ("airlock-core", "airlock-policy", false),
            ("airlock-policy", "airlock-audit", false),
            ("airlock-sandbox", "airlock-policy", false),
            ("airlock-kernel", "airlock-cli", false),
            ("airlock-kernel", "airlock-fuzz", false),
            ("airlock-kernel", "airlock-core", true),
            ("airlock-script", "airlock-policy", true),
            ("airlock-kernel", "airlock-script", true),
            ("airlock-script", "airlock-kernel", false),
        ] {
            for section in ["dependencies", "dev-dependencies"] {
                let text = manifest(name, section, dependency);
                let want = ["crates/x/Cargo.toml:4: "];
                let want: &[&str] = if allowed { &[] } else { &want };
                assert_finds(check, &[("crates/x/Cargo.toml", &text)], want);
            }
        }
    }

    #[test]
    fn tools_stand_apart() {
        let fuzz = manifest("airlock-fuzz", "dependencies", "airlock-audit");
        assert_finds(check, &[("fuzz/Cargo.toml", &fuzz)], &[]);
        let xtask = manifest("xtask", "dependencies", "airlock-core");
        assert_finds(
            check,
            &[("xtask/Cargo.toml", &xtask)],
            &["xtask/Cargo.toml:4: "],
        );
    }

    #[test]
    fn a_new_crate_needs_a_layer() {
        let text = manifest("airlock-new", "dependencies", "serde");
        let want = ["crates/new/Cargo.toml:1: `airlock-new` has no layer"];
        assert_finds(check, &[("crates/new/Cargo.toml", &text)], &want);
    }

    #[test]
    fn pure_crates_ship_nothing_that_reaches_the_machine() {
        let shipped = manifest("airlock-policy", "dependencies", "rusqlite");
        let path = "crates/policy/Cargo.toml";
        assert_finds(
            check,
            &[(path, &shipped)],
            &["crates/policy/Cargo.toml:4: `rusqlite`"],
        );
        let tested = manifest("airlock-policy", "dev-dependencies", "tempfile");
        assert_finds(check, &[(path, &tested)], &[]);
        let audit = manifest("airlock-audit", "dependencies", "rusqlite");
        assert_finds(check, &[("crates/audit/Cargo.toml", &audit)], &[]);
    }
}
