//! The box a plugin's process runs in: one way from a manifest to a running sandbox.
//!
//! [`Boxes`] knows the machine; [`Boxes::start`] takes what one plugin is started with and gives a
//! [`Running`]: its standard streams, what confines it, and its end.
//!
//! Guarantee: what runs is the very bytes whose digest was approved, in a sandbox of which every wall
//! stands, with no network, seeing the system, the plugin's own directory read-only, its data and its
//! reach directory, and what its manifest asks for outside of Airlock's own places. When a
//! [`Running`] is dropped, every process of it is gone. Memory, processes, file sizes and the disk
//! its data takes are limited.
//!
//! Non-guarantee: files beside the entry are read as they are at that moment; only the entry is
//! pinned. Of the limits on disk two are walls: scratch is memory of a fixed size, and no file
//! grows over its limit. What its data takes in all is watched, with files that have no name any
//! more: a plugin may go over that for a moment before it is ended. What it takes of places outside
//! of its data that it was granted to write is bounded for each file alone.

mod disk;
mod last_words;
mod outlet;
mod plan;
mod program;
mod running;

pub use outlet::Outlet;
pub use running::{End, Running};

use crate::grants::Grants;
use crate::host::{Start, StartError};
use crate::manifest::Manifest;
use airlock_core::{ByteSize, Digest};
use airlock_sandbox::launch::{Command, Launch};
use airlock_sandbox::{Launcher, Minimum, Outfit, Surroundings, start_with};
use program::Program;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

/// The disk a plugin's data may take where nobody says otherwise.
pub const DISK: ByteSize = ByteSize::from_bytes(512 << 20);

/// Bubblewrap gives up root before it looks at paths, and what it is to show is private to root.
const BWRAP_AS_ROOT: &str = "only Bubblewrap raises walls here, and started by root it cannot show \
     a plugin its own directories; run Airlock as an ordinary user";

/// The name of the kernel's socket in a plugin's reach directory.
pub const KERNEL_SOCKET: &str = "kernel.sock";

/// What boxes are made on: looked up once, by whoever opens the kernel.
#[derive(Debug, Clone)]
pub struct Ground {
    /// Airlock's own places, which no manifest can ask for, and the person's home.
    pub surroundings: Surroundings,
    /// What every sandbox sees of the system, and the toolchains.
    pub outfit: Outfit,
    /// What raises the walls.
    pub launcher: Launcher,
    /// A private directory of Airlock's own, on disk, in which running boxes are noted and their
    /// programs kept.
    pub place: PathBuf,
    /// The disk the data of one plugin may take.
    pub disk: ByteSize,
}

/// Makes boxes.
#[derive(Debug)]
pub struct Boxes {
    ground: Ground,
}

/// What one plugin's process is started with.
#[derive(Debug)]
pub struct BoxRequest<'a> {
    /// What it is and asks for.
    pub manifest: &'a Manifest,
    /// Where its files are: readable, at the same path.
    pub directory: &'a Path,
    /// The digest its entry was approved with.
    pub entry: Digest,
    /// Its own data, writable, at the same path: what `self/` means. It must be there.
    pub data: &'a Path,
    /// Where the paths are that its manifest asks for.
    pub grants: &'a Grants,
    /// What it shares with the kernel, writable, at the same path. It must be there.
    pub reach: &'a Path,
    /// Variables besides `PATH`, `HOME`, `TMPDIR` and `AIRLOCK_SOCKET`.
    pub environment: BTreeMap<String, String>,
    /// Variables of the host's own making, which stand above all others and above the rules for
    /// them. Nothing of a manifest or a configuration belongs here.
    pub host: BTreeMap<String, String>,
}

impl<'a> BoxRequest<'a> {
    /// What a host was asked to start, without variables of its own.
    pub fn of(start: &'a Start) -> Self {
        Self {
            manifest: &start.manifest,
            directory: &start.directory,
            entry: start.entry,
            data: &start.data,
            grants: &start.grants,
            reach: &start.reach.directory,
            environment: BTreeMap::new(),
            host: BTreeMap::new(),
        }
    }

    /// The same with another variable.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.environment.insert(name.to_owned(), value.into());
        self
    }
}

impl Boxes {
    /// Boxes on this ground. What killed kernels left is removed.
    pub fn new(ground: Ground) -> io::Result<Self> {
        let boxes = Self { ground };
        for directory in [boxes.registry(), boxes.programs()] {
            let mut builder = DirBuilder::new();
            builder.recursive(true).mode(0o700).create(directory)?;
        }
        program::sweep(&boxes.programs());
        Ok(boxes)
    }

    /// Starts the plugin's program. It runs when this returns; whether it is well is for its host to
    /// find out.
    pub fn start(&self, request: &BoxRequest<'_>) -> Result<Running, StartError> {
        if self.ground.launcher == Launcher::Bwrap && rustix::process::geteuid().is_root() {
            return Err(StartError::Confinement(BWRAP_AS_ROOT.to_owned()));
        }
        let program = Program::keep(request, &self.programs())?;
        let plan = plan::build(request, &program, &self.ground)?;
        // What a kernel that was killed left. If it cannot be removed now, the next start tries.
        let _collected = airlock_sandbox::collect(&self.registry());
        let command = command(request, &program, &plan);
        let launch = Launch {
            minimum: Minimum::of(&plan),
            plan,
            base: self.ground.outfit.base().clone(),
            home: self.ground.outfit.home().to_vec(),
            layers: None,
            registry: self.registry(),
        };
        let sandbox = start_with(self.ground.launcher, launch)
            .map_err(|error| StartError::Confinement(error.to_string()))?;
        let watched = disk::Watched::new([request.data, request.reach], self.ground.disk);
        Running::begin(sandbox, command, program, watched)
            .map_err(|error| StartError::Confinement(format!("cannot run it: {error}")))
    }

    /// What raises the walls of these boxes.
    pub const fn launcher(&self) -> Launcher {
        self.ground.launcher
    }

    /// Where boxes are noted whose ground has `place`.
    pub fn registry_in(place: &Path) -> PathBuf {
        place.join("boxes")
    }

    fn registry(&self) -> PathBuf {
        Self::registry_in(&self.ground.place)
    }

    fn programs(&self) -> PathBuf {
        self.ground.place.join("programs")
    }
}

fn command(request: &BoxRequest<'_>, program: &Program, plan: &airlock_sandbox::Plan) -> Command {
    let arguments = request.manifest.execution.arguments.iter();
    let arguments = arguments.map(OsString::from);
    let host = request.host.iter();
    let mut environment = plan.environment().resolve([]);
    environment.extend(host.map(|(name, value)| (name.into(), value.into())));
    Command {
        arguments: [program.path().into()]
            .into_iter()
            .chain(arguments)
            .collect(),
        environment,
        directory: None,
        lasting: true,
    }
}
