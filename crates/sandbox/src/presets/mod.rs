//! Toolchains found on this machine, and what of them a sandbox must see to use them.
//!
//! A [`Preset`] names the directories to be read, the variables to be set and the small files to be
//! put into the empty home so that `cargo test`, `npm test`, `pytest`, `go test` and `mvn test` run
//! inside on a project that builds outside. [`detect`] looks at the machine and changes nothing.
//!
//! Guarantee: no preset reads `/`, a home directory or a directory above one, a protected place,
//! the workspace, or a place of [`CREDENTIALS`]; nothing the workspace holds (a `pyvenv.cfg`, a
//! `.tool-versions`) can make it read more than toolchains already found elsewhere.
//!
//! Not guaranteed: that a tool finds everything. What was left out, and why, is in
//! [`Preset::notes`].
//!
//! Invariant: every grant passes the one gate, which judges its name and where it leads.

mod credentials;
mod gate;
mod go;
mod java;
mod managers;
mod nix;
mod node;
mod python;
mod rust;

pub use credentials::{CREDENTIALS, Credential};

use crate::plan::{HostPath, OwnVariable, PlanBuilder, Surroundings};
use crate::template::Reach;
use gate::Gate;
use serde::Serialize;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// What is known of the machine and the person. The library reads no environment of its own.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// The person's home, and what no plan may grant.
    pub surroundings: &'a Surroundings,
    /// The person's environment: where the tools are, never passed on.
    pub environment: &'a BTreeMap<OsString, OsString>,
    /// The workspace. What it says is not trusted.
    pub workspace: &'a HostPath,
    /// Whether there is anything to download from.
    pub network: Reach,
}

/// Something a preset found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Found {
    /// What it is: `cargo`, `module cache`.
    pub what: &'static str,
    /// Where it is.
    pub path: HostPath,
    /// How it was found: `CARGO_HOME`, `PATH`.
    pub how: &'static str,
}

/// What lies at a place in the home inside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Content {
    /// A symlink to something the preset reads.
    Link(HostPath),
    /// A text file.
    File(String),
}

/// Something to be put into the home inside before anything runs there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HomeEntry {
    /// Where, relative to the home inside; never with `..`.
    pub at: PathBuf,
    /// What.
    pub content: Content,
}

/// A toolchain, and what makes it work inside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preset {
    /// `rust`, `node`, `python`, `go`, `java`, `nix`.
    pub name: &'static str,
    /// What there is.
    pub found: Vec<Found>,
    /// What is read beyond the system directories.
    pub reads: Vec<HostPath>,
    /// Directories of programs, to be looked in before the system's.
    pub search: Vec<HostPath>,
    /// Variables to be set.
    pub environment: Vec<(OsString, OsString)>,
    /// What the home inside begins with.
    pub home: Vec<HomeEntry>,
    /// What was ignored or left out, and why.
    pub notes: Vec<String>,
}

/// The system's own directories of programs. One that is missing does no harm.
const PROGRAMS: [&str; 7] = [
    "/usr/local/sbin",
    "/usr/local/bin",
    "/usr/sbin",
    "/usr/bin",
    "/sbin",
    "/bin",
    "/run/current-system/sw/bin",
];

type Detector = fn(&mut Gate<'_>);

const DETECTORS: [(&str, Detector); 6] = [
    ("rust", rust::detect),
    ("node", node::detect),
    ("python", python::detect),
    ("go", go::detect),
    ("java", java::detect),
    ("nix", nix::detect),
];

/// Every toolchain on this machine.
pub fn detect(facts: &Facts<'_>) -> Vec<Preset> {
    gate::remembering(|| each(facts))
}

fn each(facts: &Facts<'_>) -> Vec<Preset> {
    let mut presets = Vec::new();
    for (name, detector) in DETECTORS {
        let mut gate = Gate::new(*facts);
        detector(&mut gate);
        let preset = gate.finish(name);
        if !preset.found.is_empty() || !preset.notes.is_empty() {
            presets.push(preset);
        }
    }
    presets
}

/// Adds what `presets` need to a plan: reads, variables and `PATH`. [`home_entries`] is for the
/// launcher.
pub fn apply(mut builder: PlanBuilder, presets: &[Preset]) -> PlanBuilder {
    for preset in presets {
        for path in &preset.reads {
            builder = builder.read(path.as_os_str());
        }
        for (name, value) in &preset.environment {
            builder = builder.set(name, value);
        }
    }
    builder.own(OwnVariable::Path, search_path(presets))
}

/// `PATH` inside: the presets' programs, then the system's.
pub fn search_path(presets: &[Preset]) -> OsString {
    let own = presets.iter().flat_map(|preset| &preset.search);
    let mut entries: Vec<&OsStr> = Vec::new();
    for entry in own.map(HostPath::as_os_str).chain(PROGRAMS.map(OsStr::new)) {
        if !entries.contains(&entry) {
            entries.push(entry);
        }
    }
    entries.join(OsStr::new(":"))
}

/// What the home `inside` begins with, each place once; the first preset to name one has it.
pub fn home_entries(presets: &[Preset], inside: &HostPath) -> Vec<HomeEntry> {
    let mut entries: Vec<HomeEntry> = Vec::new();
    for entry in presets.iter().flat_map(|preset| &preset.home) {
        // Where the home inside has the name of the person's, the grant is already there.
        let itself = match &entry.content {
            Content::Link(target) => target.as_path() == inside.as_path().join(&entry.at),
            Content::File(_) => false,
        };
        if !itself && !entries.iter().any(|known| known.at == entry.at) {
            entries.push(entry.clone());
        }
    }
    entries
}
