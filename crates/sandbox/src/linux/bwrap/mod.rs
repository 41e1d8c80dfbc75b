//! The launcher that lets bubblewrap raise the walls, where only that may.
//!
//! [`recipe`] is what every bubblewrap of a sandbox is told, [`attendant`] runs a command in each,
//! [`running`] is one of them, [`message`] reads what it says when it cannot. A start tries the
//! whole of it with a program that does not exist: only if bubblewrap gets as far as not finding it
//! do all walls stand.
//!
//! Guarantee: a command has the walls of the native launcher but for Landlock; whoever ends the
//! supervisor, or bubblewrap, ends every process inside. Started by root, bubblewrap and all it runs
//! have a host user of their own, which sees of the host's files what anybody may.
//!
//! Not guaranteed: `/tmp` and the home are new for each command. An exit code over 128 is read as
//! the signal it stands for in shells. A program is looked for in `PATH` as the C library does it: a
//! script without an interpreter is given to `/bin/sh`. Bubblewrap adds `PWD` to the environment.
//! With a terminal, an interrupt typed at a command that has not taken the foreground for itself
//! also ends bubblewrap, and so the command. A socket that lies in a granted directory can be
//! connected to, also where that is only read. How many processes a command left behind is not
//! known, so that without a cgroup a limit on them is only noticed while it is watched. Bubblewrap
//! itself follows links in granted paths: each is looked at before every command, and one that
//! appears between the look and the mount is not noticed.

mod asked;
mod attendant;
mod denials;
mod line;
mod message;
mod recipe;
mod running;

pub(super) use attendant::Attendant;
pub(super) use message::{Screen, exit_code, reason};

use super::compile::PROC_HIDDEN;
use super::hold::Hold;
use super::identity::Identity;
use super::led::also_denied;
use super::program::filter_bytes;
use super::resolve;
use super::sandbox::filter_for;
use crate::base::identity_files;
use crate::generate::SystemEntry;
use crate::launch::{Launch, LayersKind, NotStarted, StartError};
use crate::plan::{Access, Class, Denial, Extent, HostPath, Plan};
use crate::report::{Launcher, Raised, Wall};
use crate::stage::Placeholders;
use asked::Asked;
use recipe::{Carried, Recipe};
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use rustix::pipe::{PipeFlags, pipe_with};
use std::ffi::{CString, OsStr};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Where systems keep bubblewrap. `PATH` is not asked: it is whoever's.
const PLACES: &[&str] = &[
    "/usr/bin/bwrap",
    "/usr/local/bin/bwrap",
    "/bin/bwrap",
    "/run/current-system/sw/bin/bwrap",
];

/// A bubblewrap that has shown it can raise the walls.
pub(super) struct Tried {
    recipe: Recipe,
    uncovered: Vec<Denial>,
    placeholders: Option<Placeholders>,
}

fn failed(step: impl Into<String>, source: io::Error) -> StartError {
    StartError::Step {
        step: step.into(),
        source,
    }
}

impl Tried {
    /// Looks everything up and has bubblewrap raise the walls once.
    /// What asks the kernel finds it at `socket` of the host.
    pub(super) fn new(
        launch: &Launch,
        hold: &Hold,
        socket: Option<&Path>,
    ) -> Result<Self, StartError> {
        let owner = Identity::own().other();
        let stage = stage_of(launch, owner)?;
        judge_grants(launch)?;
        let program = program()?;
        let filter = filter_for(launch.plan.profile())?;
        let found = denials::find(&launch.plan, launch.layers.as_ref(), owner)
            .map_err(|source| failed("make room for denials in the stage", source))?;
        let there = |name: &&&str| Path::new("/proc").join(name).exists();
        let recipe = Recipe {
            program,
            plan: launch.plan.clone(),
            base: launch.base.clone(),
            at_home: launch.home.clone(),
            stage: stage.as_ref().map(|stage| stage.seen.clone()),
            carried: stage.and_then(|stage| stage.carried),
            socket: socket.map(HostPath::new).transpose().map_err(|problem| {
                failed("find the socket to the kernel", io::Error::other(problem))
            })?,
            masks: found.masks,
            kernel_files: PROC_HIDDEN.iter().filter(there).copied().collect(),
            texts: texts(launch),
            filter: filter_bytes(&filter),
            limits: hold.rlimits(launch.plan.limits()),
            owner,
        };
        let mut uncovered = recipe
            .uncovered()
            .map_err(|source| failed("read the plan", source))?;
        uncovered.extend(also_denied(&launch.plan, launch.layers.as_ref())?);
        uncovered.retain(|denial| takes_away(denial, launch) && !left_out(denial, launch));
        // A sandbox that will not be allowed to start need not be tried.
        if uncovered.is_empty() {
            attempt(&recipe)?;
        }
        Ok(Self {
            recipe,
            uncovered,
            placeholders: found.placeholders,
        })
    }

    /// The walls that stand.
    pub(super) fn raised(&self) -> Raised {
        let raised = raised(&self.recipe.plan);
        if self.uncovered.is_empty() {
            return raised;
        }
        let denied: Vec<String> = self
            .uncovered
            .iter()
            .map(|denial| format!("`{}`", denial.target))
            .collect();
        let why = format!(
            "bubblewrap cannot deny patterns, links and what does not exist yet: {}",
            denied.join(", ")
        );
        raised.absent(Wall::Denials, why)
    }

    /// Begins to take orders from `socket`.
    pub(super) fn attend(self, socket: OwnedFd) -> io::Result<Attendant> {
        Attendant::new(self.recipe, self.placeholders, socket)
    }
}

/// The copy that takes the place of a staged workspace.
struct Copied {
    /// Where bubblewrap finds it.
    seen: HostPath,
    /// Where it has to be carried from and to, so that another user finds it.
    carried: Option<Carried>,
}

/// Directories that a copy can be carried to: everybody finds them, and few use them.
const CARRIED_TO: &[&str] = &["/mnt", "/media", "/srv", "/home", "/run", "/tmp"];

fn stage_of(launch: &Launch, owner: Option<(u32, u32)>) -> Result<Option<Copied>, StartError> {
    let staged = |access| access == Access::Stage;
    if !launch.plan.mounts().into_values().any(staged) {
        return Ok(None);
    }
    let refused = |what: &str| {
        let step = "stage the workspace with bubblewrap";
        failed(step, io::Error::new(io::ErrorKind::Unsupported, what))
    };
    let layers = launch.layers.as_ref();
    let layers = layers.ok_or_else(|| refused("there is no stage"))?;
    if layers.kind != LayersKind::Copy {
        return Err(refused("it needs a copy stage, and this is an overlay"));
    }
    let upper = fs::canonicalize(&layers.upper)
        .map_err(|source| failed("find the copy of the workspace", source))?;
    if owner.is_none() {
        let seen = HostPath::new(upper).map_err(|problem| refused(&problem.to_string()))?;
        return Ok(Some(Copied {
            seen,
            carried: None,
        }));
    }
    // It lies in a directory of root's that nobody else can enter.
    let mounts = launch.plan.mounts();
    let unused = |place: &HostPath| {
        let met = |mount: &&HostPath| mount.holds(place) || place.holds(mount);
        place.as_path().is_dir() && !mounts.keys().any(met)
    };
    let places = CARRIED_TO
        .iter()
        .filter_map(|place| HostPath::new(place).ok());
    let seen = places.into_iter().find(unused);
    let seen = seen.ok_or_else(|| refused("there is no directory to show the copy at"))?;
    let text = |path: &OsStr| CString::new(path.as_bytes());
    let carried = text(upper.as_os_str()).and_then(|from| Ok((from, text(seen.as_os_str())?)));
    let carried = carried.map_err(|_| refused("a path contains a NUL byte"))?;
    Ok(Some(Copied {
        seen,
        carried: Some(carried),
    }))
}

/// Whether a denial speaks of nothing but a copy that was made without what it denies: of that
/// nothing is inside, whatever a command makes under the same names.
fn left_out(denial: &Denial, launch: &Launch) -> bool {
    let elsewhere =
        |(mount, access): (&HostPath, Access)| access != Access::Stage && speaks_of(denial, mount);
    let mounts = launch.plan.mounts();
    let words = denial.target.words();
    denial.extent == Extent::Everything
        && !mounts.into_iter().any(elsewhere)
        && launch
            .layers
            .as_ref()
            .is_some_and(|layers| layers.without.contains(&words))
}

/// Whether there is anything inside that the denial could take away.
fn takes_away(denial: &Denial, launch: &Launch) -> bool {
    let mut system = launch.base.system.iter();
    let of_system = |entry: &SystemEntry| matches!(entry, SystemEntry::Existing(path) if speaks_of(denial, path));
    let mut mounts = launch.plan.mounts().into_keys();
    mounts.any(|mount| speaks_of(denial, mount)) || system.any(of_system)
}

/// Whether the denial may speak of `place`, or of something in it: there is nothing in a file.
fn speaks_of(denial: &Denial, place: &HostPath) -> bool {
    let root = denial.target.root();
    let is_file = || fs::metadata(place.as_path()).is_ok_and(|found| !found.is_dir());
    (place.holds(&root) || root.holds(place)) && (denial.target.covers(place) || !is_file())
}

/// Refuses what may not be granted as it is found: a socket, which could be connected to - whoever
/// listens on it is outside - and a link to elsewhere.
fn judge_grants(launch: &Launch) -> Result<(), StartError> {
    for (path, access) in launch.plan.mounts() {
        let step = || format!("find the granted `{}`", path.as_path().display());
        let found = resolve::source((&launch.plan, &launch.base), path, access);
        let found = found.map_err(|source| failed(step(), source))?;
        if fs::metadata(found).is_ok_and(|found| found.file_type().is_socket()) {
            let why = io::Error::new(io::ErrorKind::InvalidInput, "it is a socket");
            return Err(failed(step(), why));
        }
    }
    Ok(())
}

/// Finds bubblewrap. One that somebody but root can change is none.
fn program() -> Result<PathBuf, StartError> {
    let trusted = |path: &Path| {
        fs::metadata(path)
            .is_ok_and(|found| found.is_file() && found.uid() == 0 && found.mode() & 0o022 == 0)
    };
    let found = PLACES.iter().map(Path::new).find(|path| trusted(path));
    found.map(Path::to_owned).ok_or_else(|| {
        let why = "`bwrap` is not installed";
        failed(
            "find bubblewrap",
            io::Error::new(io::ErrorKind::NotFound, why),
        )
    })
}

/// Who the sandbox's user is, for programs that ask.
fn texts(launch: &Launch) -> Vec<(HostPath, Vec<u8>)> {
    let files = identity_files(&launch.base.home);
    let all = [
        ("/etc/passwd", files.passwd),
        ("/etc/group", files.group),
        ("/etc/nsswitch.conf", files.nsswitch),
    ];
    all.into_iter()
        .filter(|(place, _)| Path::new(place).is_file())
        .filter_map(|(place, text)| Some((HostPath::new(place).ok()?, text.into_bytes())))
        .collect()
}

/// Has bubblewrap raise the walls and look for a program that cannot be there.
fn attempt(recipe: &Recipe) -> Result<(), StartError> {
    let step = match recipe.owner {
        Some((user, _)) => format!("raise the walls with bubblewrap, as user {user}"),
        None => "raise the walls with bubblewrap".to_owned(),
    };
    let said = try_out(recipe).map_err(|source| failed(step.clone(), source))?;
    if reason(&said) == Some(NotStarted::NotFound) {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&said).trim().to_owned();
    Err(failed(step, io::Error::other(said)))
}

/// What bubblewrap says of it.
fn try_out(recipe: &Recipe) -> io::Result<Vec<u8>> {
    let asked = Asked {
        directory: recipe.plan.directory().as_os_str().to_owned(),
        // The root inside is read-only and has no such name.
        arguments: vec!["/.airlock-nothing".into()],
        environment: Vec::new(),
    };
    let null = || {
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        rustix::fs::open(c"/dev/null", flags, Mode::empty())
    };
    let (said, errors) = pipe_with(PipeFlags::CLOEXEC)?;
    let mut running = recipe.spawn(&asked, [null()?, null()?, errors], false)?;
    match recipe.stand(&mut running) {
        Ok(_scratch) => running.release(),
        // It has ended, and said why.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        Err(error) => return Err(error),
    }
    let end = running.end()?;
    let mut text = Vec::new();
    let _length = File::from(said).take(8 * 1024).read_to_end(&mut text)?;
    if end.started {
        return Err(io::Error::other("a program ran that is not there"));
    }
    Ok(text)
}

fn raised(plan: &Plan) -> Raised {
    let mut raised = Raised::by(Launcher::Bwrap);
    for (wall, how) in [
        (Wall::UserNamespace, "uid 1000 inside"),
        (Wall::MountNamespace, "own mounts"),
        (Wall::PidNamespace, "own init"),
        (Wall::NetworkNamespace, "empty"),
        (Wall::IpcNamespace, "empty"),
        (Wall::UtsNamespace, "named airlock"),
        (Wall::CgroupNamespace, "own root"),
        (Wall::Root, "built from nothing, read-only"),
        (Wall::Denials, "mounts, and left out of copies"),
        (Wall::Capabilities, "none, and none to be had"),
        (Wall::NoNewPrivileges, "set"),
        (Wall::HostUser, "not root"),
        (Wall::Environment, "given whole, and `PWD`"),
        (Wall::Descriptors, "three streams"),
        (Wall::Session, "own session"),
        (Wall::Lifetime, "ends with its supervisor"),
        (Wall::Seccomp, plan.profile().name()),
    ] {
        raised = raised.wall(wall, Class::Enforced, how);
    }
    raised.absent(Wall::Landlock, "bubblewrap cannot raise it")
}
