//! What every package's manifest says: lints, licence, dependencies by way of the workspace; and
//! what the lock file of all of them keeps out.

use super::tree::{File, Finding, Tree};
use crate::manifest::{dependencies, entries, value};

/// A package that comes with twenty others, which take half a minute to build and are used for
/// nothing that matters here; and how to be without it.
const KEPT_OUT: (&str, &str) = (
    "icu_provider",
    "keep older releases: `cargo update -p idna_adapter --precise 1.1.0` and \
     `cargo update -p textwrap --precise 0.16.2`",
);

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    // Examples are packages as a reader's own would be: of no workspace of ours.
    let ours = tree
        .manifests()
        .filter(|file| !file.path.starts_with("examples/"));
    let lock = tree.files.iter().filter(|file| file.path == "Cargo.lock");
    ours.flat_map(check_one)
        .chain(lock.filter_map(check_lock))
        .collect()
}

fn check_lock(file: &File) -> Option<Finding> {
    let (name, fix) = KEPT_OUT;
    let wanted = format!("name = \"{name}\"");
    let line = file.text.lines().position(|line| line == wanted)?;
    Some(file.finding(line + 1, format!("`{name}` is back"), fix))
}

fn check_one(file: &File) -> Vec<Finding> {
    let entries = entries(&file.text);
    let mut findings = Vec::new();
    if value(&entries, "lints", "workspace") != Some("true") {
        let fix = "add `[lints]` with `workspace = true`";
        findings.push(file.finding(1, "does not inherit the workspace's lints", fix));
    }
    let licensed = ["license", "license.workspace"]
        .iter()
        .any(|key| value(&entries, "package", key).is_some());
    if !licensed {
        findings.push(file.finding(1, "no licence", "add `license.workspace = true`"));
    }
    for dependency in dependencies(&entries)
        .iter()
        .filter(|found| !found.inherited)
    {
        let what = format!("`{}` is not taken from the workspace", dependency.name);
        let fix = "list it in `[workspace.dependencies]` and write `workspace = true` here";
        findings.push(file.finding(dependency.line, what, fix));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::tree::testing::assert_finds;
    use super::*;

    #[test]
    fn a_manifest_inherits_lints_licence_and_versions_and_the_lock_stays_lean() {
        let good = "[package]\nlicense.workspace = true\n[lints]\nworkspace = true\n\
                    [dependencies]\nserde = { workspace = true, optional = true }\n";
        assert_finds(check, &[("crates/x/Cargo.toml", good)], &[]);
        let bad = "[package]\nname = \"x\"\n[dependencies]\nserde = \"1\"\n";
        assert_finds(
            check,
            &[("crates/x/Cargo.toml", bad)],
            &[
                "crates/x/Cargo.toml:1: does not inherit",
                "crates/x/Cargo.toml:1: no licence",
                "crates/x/Cargo.toml:4: `serde`",
            ],
        );
        let lock = "[[package]]\nname = \"icu_provider\"\nversion = \"2.4.0\"\n";
        assert_finds(
            check,
            &[("Cargo.lock", lock)],
            &["Cargo.lock:2: `icu_provider` is back"],
        );
        assert_finds(
            check,
            &[("Cargo.toml", "[workspace.dependencies]\nserde = \"1\"\n")],
            &[],
        );
    }
}
