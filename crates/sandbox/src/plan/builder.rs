//! Building a plan: each value is checked as it comes, the whole at the end.

use super::denial::{Denial, Extent, Pattern, Target};
use super::environment::{Environment, OwnVariable};
use super::limits::{Class, Classes, Limit, Limits};
use super::network::{Destination, Host, Network};
use super::path::{HostPath, PathProblem};
use super::problem::{PlanError, Problem};
use super::protected::{Surroundings, is_excepted};
use super::{Plan, View, Workspace};
use crate::launch::KERNEL_SOCKET;
use crate::seccomp::Profile;
use crate::template::{Reach, Template};
use std::collections::{BTreeSet, HashSet};
use std::ffi::OsStr;
use std::num::NonZeroU16;

/// The directory of a workspace with its policy, which no sandbox writes.
const POLICY_DIRECTORY: &str = ".airlock";
/// The same, of any workspace.
const POLICIES: &str = "**/.airlock";

/// A plan in the making.
#[derive(Debug)]
#[must_use = "a plan grants nothing until it is built"]
pub struct PlanBuilder {
    template: &'static Template,
    surroundings: Surroundings,
    workspace: Option<Workspace>,
    reads: BTreeSet<HostPath>,
    writes: BTreeSet<HostPath>,
    denials: BTreeSet<Denial>,
    destinations: BTreeSet<Destination>,
    network: Reach,
    environment: Environment,
    directory: Option<HostPath>,
    limits: Limits,
    most: Limits,
    profile: Profile,
    classes: Classes,
    socket: bool,
    problems: Vec<Problem>,
}

impl PlanBuilder {
    pub(super) fn new(template: &'static Template, surroundings: &Surroundings) -> Self {
        Self {
            template,
            surroundings: surroundings.clone(),
            workspace: None,
            reads: BTreeSet::new(),
            writes: BTreeSet::new(),
            denials: BTreeSet::new(),
            destinations: BTreeSet::new(),
            network: template.network,
            environment: Environment::default(),
            directory: None,
            limits: template.limits,
            most: template.limits,
            profile: template.profile,
            classes: Classes::usual(),
            socket: false,
            problems: Vec::new(),
        }
    }

    /// The directory the sandbox works in.
    pub fn workspace(mut self, path: impl AsRef<OsStr>, view: View) -> Self {
        if let Some(path) = self.path("workspace", path.as_ref()) {
            self.workspace = Some(Workspace { path, view });
        }
        self
    }

    /// Lets a path be read.
    pub fn read(mut self, path: impl AsRef<OsStr>) -> Self {
        let path = self.path("read", path.as_ref());
        self.reads.extend(path);
        self
    }

    /// Lets a path be read and written, on the host itself.
    pub fn write(mut self, path: impl AsRef<OsStr>) -> Self {
        let path = self.path("write", path.as_ref());
        self.writes.extend(path);
        self
    }

    /// Denies a path and all beneath it.
    pub fn deny(self, path: impl AsRef<OsStr>) -> Self {
        self.deny_path(path.as_ref(), Extent::Everything)
    }

    /// Keeps a path and all beneath it read-only.
    pub fn deny_writing(self, path: impl AsRef<OsStr>) -> Self {
        self.deny_path(path.as_ref(), Extent::Writing)
    }

    /// Denies what matches a pattern such as `**/.env` or `~/.ssh/**`, and all beneath.
    pub fn deny_pattern(self, pattern: &str) -> Self {
        self.deny_matching(pattern, Extent::Everything)
    }

    /// Keeps the policy of every workspace in what is granted for writing read-only, the ones that are
    /// made there included.
    pub fn keep_policies(self) -> Self {
        self.deny_matching(POLICIES, Extent::Writing)
    }

    fn deny_matching(mut self, pattern: &str, extent: Extent) -> Self {
        match Pattern::new(pattern, self.surroundings.home.as_ref()) {
            Ok(pattern) => {
                let target = Target::Pattern(pattern);
                self.denials.insert(Denial { target, extent });
            }
            Err(problem) => self.problems.push(Problem::Pattern(problem)),
        }
        self
    }

    /// Takes the network away.
    pub fn without_network(mut self) -> Self {
        self.network = Reach::None;
        self
    }

    /// Lets the proxy be asked for a host's port.
    pub fn reach(mut self, host: &str, port: u16) -> Self {
        match (Host::new(host), NonZeroU16::new(port)) {
            (Ok(host), Some(port)) => {
                self.destinations.insert(Destination { host, port });
            }
            (Ok(host), None) => self.problems.push(Problem::Port(host.to_string())),
            (Err(problem), _) => self.problems.push(Problem::Host(problem)),
        }
        self
    }

    /// Passes a variable on from the caller's environment.
    pub fn inherit(mut self, name: impl AsRef<OsStr>) -> Self {
        let result = self.environment.inherit(name.as_ref());
        self.problems.extend(result.err().map(Problem::Variable));
        self
    }

    /// Sets a variable.
    pub fn set(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        let result = self.environment.set(name.as_ref(), value.as_ref());
        self.problems.extend(result.err().map(Problem::Variable));
        self
    }

    /// Sets one of Airlock's own variables.
    pub fn own(mut self, name: OwnVariable, value: impl AsRef<OsStr>) -> Self {
        let result = self.environment.own(name, value.as_ref());
        self.problems.extend(result.err().map(Problem::Variable));
        self
    }

    /// The working directory; without one the workspace, or `/`.
    pub fn directory(mut self, path: impl AsRef<OsStr>) -> Self {
        self.directory = self.path("directory", path.as_ref());
        self
    }

    /// Bounds the limits by the execution contract, in place of the template.
    pub const fn contract(mut self) -> Self {
        self.most = Limits::CONTRACT;
        self
    }

    /// The limits, none above the template's or the contract's.
    pub const fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// The seccomp profile, not above the template's.
    pub const fn profile(mut self, profile: Profile) -> Self {
        self.profile = profile;
        self
    }

    /// Asks that a limit hold at least so firmly.
    pub fn require(mut self, limit: Limit, class: Class) -> Self {
        self.classes = self.classes.with(limit, class);
        self
    }

    /// Lets the kernel be asked from inside: a socket of the sandbox's own, which `AIRLOCK_SOCKET`
    /// names.
    pub fn kernel_socket(mut self) -> Self {
        self.socket = true;
        self.own(OwnVariable::KernelSocket, KERNEL_SOCKET)
    }

    /// The plan, or every problem it has.
    pub fn build(mut self) -> Result<Plan, PlanError> {
        let mut problems = std::mem::take(&mut self.problems);
        problems.extend(self.grant_problems());
        problems.extend(self.template_problems());
        let directory = self.start();
        self.protect();
        let network = match self.network {
            Reach::None => Network::None,
            Reach::Restricted => Network::Restricted(self.destinations),
        };
        let plan = Plan {
            template: self.template,
            workspace: self.workspace,
            reads: self.reads,
            writes: self.writes,
            denials: self.denials,
            network,
            environment: self.environment,
            directory,
            limits: self.limits,
            profile: self.profile,
            classes: self.classes,
            socket: self.socket,
        };
        if !plan.shows(&plan.directory) {
            problems.push(Problem::DirectoryNotVisible(plan.directory.clone()));
        }
        if problems.is_empty() {
            Ok(plan)
        } else {
            Err(PlanError(problems))
        }
    }

    fn path(&mut self, field: &'static str, path: &OsStr) -> Option<HostPath> {
        let keep = |problem: PathProblem| Problem::Path { field, problem };
        HostPath::new(path)
            .map_err(|problem| self.problems.push(keep(problem)))
            .ok()
    }

    fn deny_path(mut self, path: &OsStr, extent: Extent) -> Self {
        let path = self.path("denial", path);
        self.denials.extend(path.map(|path| Denial {
            target: Target::Path(path),
            extent,
        }));
        self
    }

    /// Every grant, with the word for it and the denials that take it away altogether.
    fn grants(&self) -> Vec<(&'static str, &HostPath, &'static [Extent])> {
        const READING: &[Extent] = &[Extent::Everything];
        const WRITING: &[Extent] = &[Extent::Everything, Extent::Writing];
        let workspace = self
            .workspace
            .iter()
            .map(|w| ("workspace", &w.path, READING));
        let reads = self.reads.iter().map(|path| ("read", path, READING));
        let writes = self.writes.iter().map(|path| ("write", path, WRITING));
        workspace.chain(reads).chain(writes).collect()
    }

    fn grant_problems(&self) -> Vec<Problem> {
        let places = self.surroundings.places();
        let grants = self.grants();
        // Few of them can cover any grant: those are held against each.
        let names: HashSet<&[u8]> = grants
            .iter()
            .flat_map(|(_, path, _)| path.name_bytes())
            .collect();
        let possible: Vec<&Denial> = self
            .denials
            .iter()
            .filter(|denial| denial.target.may_cover(&names))
            .collect();
        let mut problems = Vec::new();
        for (field, path, extents) in grants {
            if path.is_root() {
                problems.push(Problem::GrantsEverything { field });
            }
            let held = |(place, _): &&(HostPath, &str)| place.holds(path) && !is_excepted(path);
            let place = places.iter().find(held);
            problems.extend(place.map(|(place, reason)| Problem::Protected {
                field,
                path: path.clone(),
                place: place.clone(),
                reason,
            }));
            let mut denials = possible
                .iter()
                .filter(|denial| extents.contains(&denial.extent));
            let denial = denials.find(|denial| denial.target.covers(path));
            problems.extend(denial.map(|denial| Problem::GrantInsideDenial {
                field,
                path: path.clone(),
                denial: denial.target.to_string(),
            }));
        }
        problems.extend(self.meetings());
        problems
    }

    /// Write grants that hold the workspace or lie in it.
    fn meetings(&self) -> impl Iterator<Item = Problem> {
        let workspace = self.workspace.as_ref().map(|workspace| &workspace.path);
        workspace.into_iter().flat_map(|workspace| {
            let meets = |path: &&HostPath| path.holds(workspace) || workspace.holds(path);
            self.writes
                .iter()
                .filter(meets)
                .map(|path| Problem::WriteMeetsWorkspace {
                    path: path.clone(),
                    workspace: workspace.clone(),
                })
        })
    }

    fn template_problems(&self) -> Vec<Problem> {
        let template = self.template.name;
        let mut problems: Vec<Problem> = self
            .limits
            .problems()
            .into_iter()
            .map(Problem::Limit)
            .collect();
        let above = self.limits.above(&self.most);
        problems.extend(
            above
                .into_iter()
                .map(|limit| Problem::AboveTemplate { limit, template }),
        );
        if self.profile > self.template.profile {
            let profile = self.profile.name();
            problems.push(Problem::Profile { profile, template });
        }
        if !self.destinations.is_empty() && self.network == Reach::None {
            problems.push(Problem::NoNetwork { template });
        }
        if self.socket && self.template.profile == Profile::Strict {
            problems.push(Problem::NoSocket { template });
        }
        problems
    }

    fn start(&mut self) -> HostPath {
        let workspace = self
            .workspace
            .as_ref()
            .map(|workspace| workspace.path.clone());
        self.directory
            .take()
            .or(workspace)
            .unwrap_or_else(HostPath::top)
    }

    /// Denies the protected places that lie inside a grant, and writing a workspace's policy.
    fn protect(&mut self) {
        let places = self.surroundings.places();
        let grants = self.grants();
        let inside = places
            .into_iter()
            .map(|(place, _)| place)
            .filter(|place| grants.iter().any(|(_, grant, _)| grant.holds(place)));
        let policy = self
            .workspace
            .iter()
            .map(|w| w.path.join(OsStr::new(POLICY_DIRECTORY)));
        let denial = |path, extent| Denial {
            target: Target::Path(path),
            extent,
        };
        let added: Vec<Denial> = inside
            .map(|path| denial(path, Extent::Everything))
            .chain(policy.map(|path| denial(path, Extent::Writing)))
            .collect();
        self.denials.extend(added);
    }
}
