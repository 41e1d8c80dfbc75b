//! Where the names lead that a plan denies, if there are links in them.
//!
//! A file is judged by its own path. What is denied under a name that is a link, or lies beyond one, has
//! another path: it is denied there as well, and so under every name. Links are those of the host and
//! those of the stage, which a name may be in either.
//!
//! Not guaranteed: where a link leads that changes while a command runs; where links lead whose names
//! only a wildcard says.

use super::resolve::changes_of;
use crate::launch::{Layers, LayersKind};
use crate::plan::{Access, Denial, Extent, HostPath, Plan, PlanError, Problem, Target};
use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

/// The most links a path may lead through, as for the system.
const LINKS: usize = 40;

/// What is denied besides, because what `plan` denies leads there in the host's trees or in `layers`: all
/// of what lies there, and changing the links on the way where that would last. Refused if it holds what is
/// granted.
pub fn also_denied(plan: &Plan, layers: Option<&Layers>) -> Result<BTreeSet<Denial>, PlanError> {
    led(plan, layers).map(|(also, _)| also)
}

/// The same, and what it goes by.
pub(super) fn led(
    plan: &Plan,
    layers: Option<&Layers>,
) -> Result<(BTreeSet<Denial>, Looked), PlanError> {
    let mut sights = vec![Sight::of_host(plan)];
    sights.extend(layers.and_then(|layers| Sight::of_stage(plan, layers)));
    let mut found = BTreeSet::new();
    let all = plan.denials().iter();
    for denial in all.filter(|denial| denial.extent == Extent::Everything) {
        let root = denial.target.root();
        for sight in &mut sights {
            let Some(led) = sight.follow(&root) else {
                continue;
            };
            for place in sight.names(&led.end) {
                for target in denial.target.moved(&root, &place) {
                    judge(plan, denial, &target, &place)?;
                    let extent = Extent::Everything;
                    found.insert(Denial { target, extent });
                }
            }
            for link in led.links.iter().flat_map(|link| sight.names(link)) {
                if can_be_changed_for_good(plan, &link) {
                    let (target, extent) = (Target::Path(link), Extent::Writing);
                    found.insert(Denial { target, extent });
                }
            }
        }
    }
    found.retain(|denial| !plan.denials().contains(denial));
    let seen = sights.into_iter().flat_map(|sight| sight.seen.into_inner());
    Ok((found, Looked(seen.collect())))
}

/// What was looked at, and what was there.
#[derive(Debug, Default)]
pub(super) struct Looked(HashMap<PathBuf, Seen>);

impl Looked {
    /// Whether looking now would find the same.
    pub(super) fn holds(&self) -> bool {
        self.0.iter().all(|(path, seen)| Seen::at(path) == *seen)
    }
}

/// What is at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Seen {
    Link(PathBuf),
    NoLink,
    Nothing,
}

impl Seen {
    fn at(path: &Path) -> Self {
        match fs::read_link(path) {
            Ok(target) => Self::Link(target),
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Self::NoLink,
            Err(_) => Self::Nothing,
        }
    }
}

/// Nothing could be run in what is denied, and a grant of it would be worth nothing.
fn judge(plan: &Plan, denial: &Denial, target: &Target, place: &HostPath) -> Result<(), PlanError> {
    let mounts = plan.mounts();
    let mut granted = mounts.keys().copied();
    let Some(path) = granted.find(|mount| target.covers(mount)) else {
        return Ok(());
    };
    let problem = Problem::GrantBeyondDenial {
        path: path.clone(),
        denial: denial.target.to_string(),
        place: place.clone(),
    };
    Err(problem.into())
}

/// Whether what a command does to `path` is seen by the next without anybody's review.
fn can_be_changed_for_good(plan: &Plan, path: &HostPath) -> bool {
    let mut mounts = plan.mounts().into_iter();
    mounts.any(|(mount, access)| access == Access::Write && mount.holds(path))
}

/// Where a path leads.
#[derive(Debug, Clone)]
struct Led {
    /// By the name that has no links in it.
    end: HostPath,
    /// The links it leads through.
    links: Vec<HostPath>,
}

/// Trees as they are seen.
struct Sight<'a> {
    plan: &'a Plan,
    /// The workspace without links, and what lies over it, the uppermost first.
    over: Option<(PathBuf, Vec<PathBuf>)>,
    /// What was looked at.
    seen: RefCell<HashMap<PathBuf, Seen>>,
    /// Where what was asked about leads: many patterns begin in the same place.
    led: HashMap<HostPath, Option<Led>>,
    /// What mounts show, and where it really is.
    sources: OnceCell<Vec<(HostPath, HostPath)>>,
}

impl<'a> Sight<'a> {
    fn of_host(plan: &'a Plan) -> Self {
        Self {
            plan,
            over: None,
            seen: RefCell::default(),
            led: HashMap::new(),
            sources: OnceCell::new(),
        }
    }

    /// None where nothing is staged.
    fn of_stage(plan: &'a Plan, layers: &Layers) -> Option<Self> {
        let mut sight = Self::of_host(plan);
        let mut mounts = plan.mounts().into_iter();
        let (workspace, _) = mounts.find(|(_, access)| *access == Access::Stage)?;
        let workspace = sight.walk(Path::new("/"), workspace.as_path())?.here;
        let mut over = vec![layers.upper.clone()];
        match layers.kind {
            LayersKind::Trial => over.extend(changes_of(layers)),
            LayersKind::Overlay | LayersKind::Copy => {}
        }
        sight.over = Some((workspace, over));
        Some(sight)
    }

    /// Where `path` leads, if any link is in it.
    fn follow(&mut self, path: &HostPath) -> Option<Led> {
        if let Some(known) = self.led.get(path) {
            return known.clone();
        }
        let led = self.look(path);
        self.led.insert(path.clone(), led.clone());
        led
    }

    fn look(&self, path: &HostPath) -> Option<Led> {
        let walk = self.walk(Path::new("/"), path.as_path())?;
        let end = HostPath::new(walk.here).ok()?;
        if end == *path {
            return None;
        }
        let links = walk.links.iter();
        let links = links.filter_map(|link| HostPath::new(link).ok()).collect();
        Some(Led { end, links })
    }

    /// `real`, in which no link is, and the names that mounts give it.
    fn names(&self, real: &HostPath) -> BTreeSet<HostPath> {
        let sources = self.sources.get_or_init(|| {
            let mounts = self.plan.mounts();
            let source = |place: &HostPath| {
                let walk = self.walk(Path::new("/"), place.as_path())?;
                Some((place.clone(), HostPath::new(walk.here).ok()?))
            };
            mounts.into_keys().filter_map(source).collect()
        });
        let shown = sources
            .iter()
            .filter_map(|(place, source)| real.moved(source, place));
        shown.chain([real.clone()]).collect()
    }

    /// The same path without links, from `here` on, in which there is none, whether or not anything is
    /// there. None if it leads through too many.
    fn walk(&self, here: &Path, path: &Path) -> Option<Walk> {
        let mut walk = Walk {
            here: here.to_owned(),
            links: Vec::new(),
        };
        self.go(&mut walk, path)?;
        Some(walk)
    }

    fn go(&self, walk: &mut Walk, path: &Path) -> Option<()> {
        for name in path.components() {
            match name {
                Component::RootDir => walk.here = PathBuf::from("/"),
                Component::ParentDir => {
                    walk.here.pop();
                }
                Component::Normal(name) => {
                    walk.here.push(name);
                    if let Some(target) = self.link_at(&walk.here) {
                        if walk.links.len() == LINKS {
                            return None;
                        }
                        walk.links.push(walk.here.clone());
                        walk.here.pop();
                        self.go(walk, &target)?;
                    }
                }
                Component::CurDir | Component::Prefix(_) => {}
            }
        }
        Some(())
    }

    /// What the link at `path` says, if there is one.
    fn link_at(&self, path: &Path) -> Option<PathBuf> {
        let staged = self.over.iter().filter_map(|(workspace, over)| {
            let below = path.strip_prefix(workspace).ok()?;
            Some(over.iter().map(move |layer| layer.join(below)))
        });
        for place in staged.flatten() {
            match self.see(place) {
                Seen::Link(target) => return Some(target),
                // What is removed in the stage is a node there, too.
                Seen::NoLink => return None,
                Seen::Nothing => {}
            }
        }
        match self.see(path.to_owned()) {
            Seen::Link(target) => Some(target),
            Seen::NoLink | Seen::Nothing => None,
        }
    }

    /// What is at a place, looked at once.
    fn see(&self, place: PathBuf) -> Seen {
        let mut seen = self.seen.borrow_mut();
        let found = seen
            .entry(place)
            .or_insert_with_key(|place| Seen::at(place));
        found.clone()
    }
}

/// How far a path was followed.
#[derive(Debug, Clone)]
struct Walk {
    here: PathBuf,
    links: Vec<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Surroundings, View};
    use crate::template::Template;
    use std::os::unix::fs::symlink;

    fn plan(workspace: &Path) -> Plan {
        let template = Template::find("code-executor").unwrap();
        let around = Surroundings::default();
        let builder = Plan::builder(template, &around).workspace(workspace, View::Staged);
        builder.build().unwrap()
    }

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
        let plan = plan(&place);
        let sight = Sight::of_host(&plan);
        for (path, want, links) in [
            ("deep/er", Some(at("deep/er")), &[][..]),
            ("link/er", Some(at("deep/er")), &["link"]),
            ("second/x", Some(at("deep/er/x")), &["second", "link"]),
            ("link/out/y", Some(at("later/y")), &["link", "deep/out"]),
            ("no/such/../link", Some(at("no/link")), &[]),
            ("top/etc", Some("/etc".into()), &["top"]),
            ("trip/x", None, &[]),
        ] {
            let found = sight.walk(Path::new("/"), &at(path));
            assert_eq!(
                found.as_ref().map(|walk| &walk.here),
                want.as_ref(),
                "{path}"
            );
            let through = found.map(|walk| walk.links).unwrap_or_default();
            let links: Vec<PathBuf> = links.iter().map(|link| at(link)).collect();
            assert_eq!(through, links, "{path}");
        }
    }

    #[test]
    fn what_lies_over_the_workspace_is_seen_first() {
        let place = tempfile::tempdir().unwrap();
        let place = place.path().canonicalize().unwrap();
        let at = |name: &str| place.join(name);
        for name in ["tree", "stage/upper", "stage/trial"] {
            fs::create_dir_all(at(name)).unwrap();
        }
        for (target, name) in [
            ("host", "tree/link"),
            ("host", "tree/gone"),
            ("staged", "stage/upper/link"),
            ("tried", "stage/trial/new"),
        ] {
            symlink(target, at(name)).unwrap();
        }
        fs::write(at("stage/upper/gone"), "").unwrap();
        let layers = Layers {
            kind: LayersKind::Trial,
            upper: at("stage/trial"),
            work: at("stage/work"),
            without: Vec::new(),
        };
        let plan = plan(&at("tree"));
        let sight = Sight::of_stage(&plan, &layers).unwrap();
        for (name, want) in [
            ("link", "staged"),
            ("gone", "gone"),
            ("new", "tried"),
            ("other", "other"),
        ] {
            let found = sight.walk(&at("tree"), Path::new(name)).unwrap();
            assert_eq!(found.here, at("tree").join(want), "{name}");
        }
    }
}
