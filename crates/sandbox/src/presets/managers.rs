//! Version managers for many languages: asdf and mise keep `installs/TOOL/VERSION`.
//!
//! A project's `.tool-versions` chooses among what is installed. It can name nothing else: a
//! version is one plain name.

use super::gate::{Gate, names_in, text};
use crate::plan::HostPath;
use std::ffi::{OsStr, OsString};

const MANAGERS: [(&str, &str); 2] = [
    ("ASDF_DATA_DIR", ".asdf"),
    ("MISE_DATA_DIR", ".local/share/mise"),
];

/// The installation of the first of `tools` that a manager has: the version the project or the
/// person chose, or the last.
pub(super) fn chosen(gate: &mut Gate<'_>, tools: &[&str]) -> Option<HostPath> {
    let wanted = wanted(gate, tools);
    for (variable, usual) in MANAGERS {
        let Some((root, _)) = gate.directory(variable, &[usual]) else {
            continue;
        };
        for tool in tools {
            let installs = root.join(OsStr::new("installs")).join(OsStr::new(tool));
            let versions = names_in(&installs);
            let version = wanted
                .iter()
                .find(|version| versions.contains(version))
                .or_else(|| versions.iter().max_by_key(|version| numbers(version)));
            if let Some(version) = version {
                return Some(installs.join(version));
            }
        }
    }
    None
}

/// The versions asked for, the project's before the person's.
fn wanted(gate: &Gate<'_>, tools: &[&str]) -> Vec<OsString> {
    let project = gate.workspace().join(OsStr::new(".tool-versions"));
    let files = [Some(project), gate.at_home(".tool-versions")];
    let mut versions = Vec::new();
    for file in files.into_iter().flatten() {
        let Some(text) = text(file.as_path()) else {
            continue;
        };
        for line in text.lines() {
            let mut words = line.split_whitespace();
            if words.next().is_some_and(|tool| tools.contains(&tool)) {
                versions.extend(words.filter(|word| is_plain(word)).map(OsString::from));
            }
        }
    }
    versions
}

/// Whether a word can be the name of a version and nothing more.
pub(super) fn is_plain(word: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-+".contains(c);
    word.starts_with(|c: char| c.is_ascii_alphanumeric()) && word.chars().all(plain)
}

/// A version as numbers, so that 20 comes after 9.
pub(super) fn numbers(version: &OsStr) -> Vec<u64> {
    version
        .to_string_lossy()
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|part| part.parse().ok())
        .collect()
}
