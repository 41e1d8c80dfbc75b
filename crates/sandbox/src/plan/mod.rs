//! What a sandbox is granted, as a value. Pure: nothing is looked up, started or changed.
//!
//! A [`Plan`] starts from a template and lists what the sandbox sees beyond the base every launcher
//! gives: system directories read-only, a private `/tmp`, harmless devices, its own `/proc`, an
//! empty home. [`PlanBuilder::build`] refuses a plan with any problem, and names all of them. A
//! plan never changes afterwards; [`Plan::narrow`] makes another one that has no more than either.
//!
//! Not guaranteed: paths are compared as written. That a granted directory is not a symlink to
//! elsewhere, and that a denied file is not reached by another name, is for the launcher.
//!
//! Invariant: no plan grants `/`, a protected place ([`Surroundings`]) or anything in one, and one
//! that lies inside a grant is denied. No write grant meets the workspace: the real tree changes
//! only by merge.

mod builder;
mod denial;
mod environment;
mod hijack;
mod limits;
mod narrow;
mod network;
mod path;
mod problem;
mod protected;

pub use builder::PlanBuilder;
pub use denial::{Denial, Extent, Pattern, PatternProblem, Target};
pub(crate) use denial::{Part, Piece};
pub use environment::{Environment, OwnVariable, VariableProblem};
pub use hijack::{HIJACKS, Names};
pub use limits::{Class, Classes, Limit, Limits, OutOfRange};
pub use network::{Destination, Host, HostProblem, Network};
pub use path::{HostPath, PathProblem};
pub use problem::{PlanError, Problem};
pub use protected::Surroundings;

use crate::seccomp::Profile;
use crate::template::Template;
use std::collections::{BTreeMap, BTreeSet};

/// How a sandbox sees its workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum View {
    /// The real tree, read-only.
    ReadOnly,
    /// A stage over the real tree: writable, and the real tree stays as it is.
    Staged,
}

/// The directory a sandbox works in.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Workspace {
    /// Where it lies on the host, and in the sandbox.
    pub path: HostPath,
    /// How it is seen.
    pub view: View,
}

/// What a mount of the sandbox lets happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Access {
    /// Reading.
    Read,
    /// Reading, and writing into the stage.
    Stage,
    /// Reading and writing.
    Write,
}

/// What one sandbox is granted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Plan {
    template: &'static Template,
    workspace: Option<Workspace>,
    reads: BTreeSet<HostPath>,
    writes: BTreeSet<HostPath>,
    denials: BTreeSet<Denial>,
    network: Network,
    environment: Environment,
    directory: HostPath,
    limits: Limits,
    profile: Profile,
    classes: Classes,
    socket: bool,
}

impl Plan {
    /// Begins a plan that grants nothing beyond the base.
    pub fn builder(template: &'static Template, surroundings: &Surroundings) -> PlanBuilder {
        PlanBuilder::new(template, surroundings)
    }

    /// The template it started from.
    pub const fn template(&self) -> &'static Template {
        self.template
    }

    /// The workspace.
    pub const fn workspace(&self) -> Option<&Workspace> {
        self.workspace.as_ref()
    }

    /// Paths that can be read, but for the denied ones in them.
    pub const fn reads(&self) -> &BTreeSet<HostPath> {
        &self.reads
    }

    /// Paths that can be read and written, but for the denied ones in them.
    pub const fn writes(&self) -> &BTreeSet<HostPath> {
        &self.writes
    }

    /// What is denied although a grant holds it.
    pub const fn denials(&self) -> &BTreeSet<Denial> {
        &self.denials
    }

    /// What can be reached.
    pub const fn network(&self) -> &Network {
        &self.network
    }

    /// What the process finds in its environment.
    pub const fn environment(&self) -> &Environment {
        &self.environment
    }

    /// The working directory.
    pub const fn directory(&self) -> &HostPath {
        &self.directory
    }

    /// How much it may use.
    pub const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Which system calls it may make.
    pub const fn profile(&self) -> Profile {
        self.profile
    }

    /// How firmly each limit must hold.
    pub const fn classes(&self) -> &Classes {
        &self.classes
    }

    /// Whether the kernel can be asked from inside, by a socket of the sandbox's own.
    pub const fn has_socket(&self) -> bool {
        self.socket
    }

    /// Every granted path with its access, a directory before what lies in it. Grants only add: a
    /// path granted twice has the wider access, and reading inside what is writable adds nothing.
    pub fn mounts(&self) -> BTreeMap<&HostPath, Access> {
        let reads = self.reads.iter().map(|path| (path, Access::Read));
        let writes = self.writes.iter().map(|path| (path, Access::Write));
        let workspace = self.workspace.iter().map(|workspace| {
            let access = match workspace.view {
                View::ReadOnly => Access::Read,
                View::Staged => Access::Stage,
            };
            (&workspace.path, access)
        });
        let mut mounts = BTreeMap::new();
        for (path, access) in reads.chain(workspace).chain(writes) {
            let entry = mounts.entry(path).or_insert(access);
            *entry = access.max(*entry);
        }
        let writable: Vec<&HostPath> = mounts
            .iter()
            .filter_map(|(path, access)| (*access > Access::Read).then_some(*path))
            .collect();
        mounts.retain(|path, access| {
            *access > Access::Read || !writable.iter().any(|root| root.holds(path))
        });
        mounts
    }

    /// Whether the plan lets `path` be read. The base is not looked at.
    pub fn can_read(&self, path: &HostPath) -> bool {
        self.mounts().keys().any(|root| root.holds(path))
            && !self.denied(path, &[Extent::Everything])
    }

    /// Whether the plan lets `path` be written, to the host or into the stage.
    pub fn can_write(&self, path: &HostPath) -> bool {
        let granted =
            |(root, access): (&&HostPath, &Access)| *access > Access::Read && root.holds(path);
        self.mounts().iter().any(granted)
            && !self.denied(path, &[Extent::Writing, Extent::Everything])
    }

    fn denied(&self, path: &HostPath, extents: &[Extent]) -> bool {
        let mut denials = self
            .denials
            .iter()
            .filter(|denial| extents.contains(&denial.extent));
        denials.any(|denial| denial.target.covers(path))
    }
}
