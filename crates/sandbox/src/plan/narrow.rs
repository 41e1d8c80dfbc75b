//! Narrowing: a child has no more than its parent.

use super::path::HostPath;
use super::{Plan, Workspace};
use std::collections::BTreeSet;

impl Plan {
    /// What both plans grant: the plan of a child that asks for `other`.
    ///
    /// Denials add up, the lower limit and the firmer class hold, and Airlock's own variables are
    /// the parent's. A child that does not have the parent's workspace as its own sees what it is
    /// granted of it as it really is, not the stage.
    #[must_use = "the plan it was made from is unchanged"]
    pub fn narrow(&self, other: &Self) -> Self {
        let workspace = match (&self.workspace, &other.workspace) {
            (Some(own), Some(theirs)) if own.path == theirs.path => Some(Workspace {
                path: own.path.clone(),
                view: own.view.min(theirs.view),
            }),
            (Some(_) | None, Some(_) | None) => None,
        };
        let mut narrowed = Self {
            template: other.template,
            reads: common(&self.readable(), &other.readable()),
            writes: common(&self.writes, &other.writes),
            denials: self.denials.union(&other.denials).cloned().collect(),
            network: self.network.narrow(&other.network),
            environment: self.environment.narrow(&other.environment),
            directory: other.directory.clone(),
            limits: self.limits.narrow(&other.limits),
            profile: self.profile.min(other.profile),
            classes: self.classes.narrow(&other.classes),
            workspace,
            socket: self.socket && other.socket,
        };
        narrowed.drop_denied();
        if !narrowed.shows(&narrowed.directory) {
            let workspace = narrowed.workspace.as_ref().map(|own| own.path.clone());
            narrowed.directory = workspace.unwrap_or_else(HostPath::top);
        }
        narrowed
    }

    /// Whether a process can stand in `path`: granted, or part of every base.
    pub(super) fn shows(&self, path: &HostPath) -> bool {
        let temporary = || HostPath::new("/tmp").is_ok_and(|base| base.holds(path));
        path.is_root() || self.can_read(path) || temporary()
    }

    fn readable(&self) -> BTreeSet<HostPath> {
        let workspace = self.workspace.iter().map(|workspace| &workspace.path);
        self.reads
            .iter()
            .chain(&self.writes)
            .chain(workspace)
            .cloned()
            .collect()
    }

    /// Removes the grants one plan has inside the other's denials, so that what is left is a plan
    /// that could have been built.
    fn drop_denied(&mut self) {
        let denials = &self.denials;
        let covered = |path: &HostPath, extent| {
            let mut found = denials.iter().filter(|denial| denial.extent >= extent);
            found.any(|denial| denial.target.covers(path))
        };
        self.reads
            .retain(|path| !covered(path, super::Extent::Everything));
        self.writes
            .retain(|path| !covered(path, super::Extent::Writing));
        self.workspace = self
            .workspace
            .take()
            .filter(|workspace| !covered(&workspace.path, super::Extent::Everything));
    }
}

/// The paths that lie in both sets' grants.
fn common(own: &BTreeSet<HostPath>, theirs: &BTreeSet<HostPath>) -> BTreeSet<HostPath> {
    let held = |inner: &BTreeSet<HostPath>, outer: &BTreeSet<HostPath>| {
        let inside = inner
            .iter()
            .filter(|path| outer.iter().any(|root| root.holds(path)));
        inside.cloned().collect::<BTreeSet<HostPath>>()
    };
    held(own, theirs)
        .union(&held(theirs, own))
        .cloned()
        .collect()
}
