//! A workspace with a stage to try things on, and bait outside it; gone when dropped.

use super::act::Bait;
use crate::base;
use crate::launch::{Launch, Layers, LayersKind};
use crate::linux::sandbox::stage_owner;
use crate::linux::sys;
use crate::plan::{HostPath, Limits, Plan, Surroundings, View};
use crate::report::Minimum;
use crate::template::Template;
use rustix::fd::AsFd;
use rustix::process::{
    Signal, WaitId, WaitIdOptions, pidfd_send_signal, set_parent_process_death_signal, waitid,
};
use std::fs;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// The template sandboxes are tried with.
const TEMPLATE: &str = "code-executor";
/// The home inside.
const HOME: &str = "/home/user";

/// Where a probe may work.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ground<'a> {
    /// A directory for workspaces and stages.
    pub(super) scratch: &'a Path,
    /// Where live sandboxes are noted, for the collector.
    pub(super) registry: &'a Path,
}

/// A directory of a probe's own.
#[derive(Debug)]
pub(super) struct Place {
    root: PathBuf,
    /// Where live sandboxes are noted, for the collector.
    registry: PathBuf,
    /// Whether it is to be removed: it is somebody else's otherwise.
    own: bool,
}

/// What the workspace says before anybody changes it.
pub(super) const REAL: &str = "real";

impl Place {
    /// A new one beneath `scratch`.
    pub(super) fn new(ground: Ground<'_>) -> io::Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let scratch = fs::canonicalize(ground.scratch)?;
        let root = scratch.join(format!("probe-{}-{count}", std::process::id()));
        // Must not exist: whoever made it could have laid a link in it.
        fs::DirBuilder::new().mode(0o700).create(&root)?;
        let place = Self {
            root,
            registry: ground.registry.to_owned(),
            own: true,
        };
        for name in ["tree", "stage", "stage/upper", "stage/work", "outside"] {
            fs::create_dir(place.path(name))?;
        }
        let owner = stage_owner();
        let upper = place.path("stage/upper");
        std::os::unix::fs::chown(upper, Some(owner.uid), Some(owner.gid))?;
        for (name, text) in [
            ("tree/file", REAL),
            ("tree/denied", "secret"),
            ("tree/.env", "secret"),
            ("outside/canary", "secret"),
        ] {
            fs::write(place.path(name), text)?;
        }
        Ok(place)
    }

    /// One that another process made and will remove.
    pub(super) fn of_another(root: &Path, registry: &Path) -> Self {
        Self {
            root: root.to_owned(),
            registry: registry.to_owned(),
            own: false,
        }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// A plan that grants the workspace and the program that is to run, and nothing else.
    pub(super) fn plan(
        &self,
        patterns: &[&str],
        program: &Path,
        change: impl FnOnce(&mut Limits),
    ) -> Result<Plan, String> {
        let template = Template::find(TEMPLATE).ok_or("there is no such template")?;
        let mut limits = template.limits;
        change(&mut limits);
        let tree = self.path("tree");
        let mut builder = Plan::builder(template, &Surroundings::default())
            .workspace(&tree, View::Staged)
            .directory(&tree)
            .limits(limits)
            .deny(self.path("tree/denied"));
        for pattern in patterns {
            builder = builder.deny_pattern(pattern);
        }
        // What is part of the system is seen anyway.
        if !["/usr", "/bin", "/opt", "/nix", "/gnu"]
            .iter()
            .any(|seen| program.starts_with(seen))
        {
            builder = builder.read(program);
        }
        builder.build().map_err(|error| error.to_string())
    }

    /// The launch of a sandbox on this workspace.
    pub(super) fn launch(
        &self,
        program: &Path,
        change: impl FnOnce(&mut Limits),
    ) -> Result<Launch, String> {
        let plan = self.plan(&["**/.env"], program, change)?;
        self.launched(plan, LayersKind::Overlay)
    }

    /// The launch of a sandbox on a copy of the workspace, for a launcher that can do no more.
    pub(super) fn launch_on_copy(&self, program: &Path) -> Result<Launch, String> {
        let plan = self.plan(&[], program, |_| {})?;
        self.launched(plan, LayersKind::Copy)
    }

    fn launched(&self, plan: Plan, kind: LayersKind) -> Result<Launch, String> {
        Ok(Launch {
            minimum: Minimum::of(&plan),
            plan,
            base: base::detect(Path::new("/"), &home()?),
            home: Vec::new(),
            layers: Some(Layers {
                kind,
                upper: self.path("stage/upper"),
                work: self.path("stage/work"),
                without: Vec::new(),
            }),
            registry: self.registry.clone(),
        })
    }

    /// Puts into the stage what the workspace holds.
    pub(super) fn copy_tree(&self) -> io::Result<()> {
        let owner = stage_owner();
        for name in ["file", "denied", ".env"] {
            let copy = self.path("stage/upper").join(name);
            fs::copy(self.path("tree").join(name), &copy)?;
            std::os::unix::fs::chown(copy, Some(owner.uid), Some(owner.gid))?;
        }
        Ok(())
    }
}

/// The home inside.
pub(super) fn home() -> Result<HostPath, String> {
    HostPath::new(HOME).map_err(|problem| problem.to_string())
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.own {
            return;
        }
        // An overlay leaves directories there that their owner may not even look into.
        for name in ["work", "work/incompat", "work/incompat/volatile"] {
            let open = fs::Permissions::from_mode(0o700);
            let _opened = fs::set_permissions(self.path("stage/work").join(name), open);
        }
        let _removed = fs::remove_dir_all(&self.root);
    }
}

/// What is laid out to be reached, and can be reached from outside.
#[derive(Debug)]
pub(super) struct Laid {
    pub(super) bait: Bait,
    process: sys::ClonedChild,
    _listeners: (TcpListener, UnixListener, UnixListener),
}

impl Laid {
    /// Lays out bait in `place` and takes some of it, to see that it can be taken.
    pub(super) fn out(place: &Place) -> io::Result<Self> {
        let canary = place.path("outside/canary");
        fs::read(&canary)?;
        let port = TcpListener::bind(("127.0.0.1", 0))?;
        TcpStream::connect(port.local_addr()?)?;
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let name = format!("airlock-probe-{}-{}", std::process::id(), now.tv_nsec);
        let address = SocketAddr::from_abstract_name(&name)?;
        let hidden = UnixListener::bind_addr(&address)?;
        UnixStream::connect_addr(&address)?;
        // By way of the directory's descriptor: a path may be longer than an address.
        let outside = fs::File::open(place.path("outside"))?;
        let short = format!("/proc/self/fd/{}/socket", outside.as_raw_fd());
        let named = UnixListener::bind(&short)?;
        UnixStream::connect(&short)?;
        let process = waiting_process()?;
        Ok(Self {
            bait: Bait {
                canary: canary.as_os_str().as_bytes().to_vec(),
                socket: place.path("outside/socket").as_os_str().as_bytes().to_vec(),
                name,
                port: port.local_addr()?.port(),
                process: process.pid,
            },
            process,
            _listeners: (port, hidden, named),
        })
    }

    /// Whether the process outside still waits.
    pub(super) fn alive(&self) -> bool {
        let flags = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        waitid(WaitId::PidFd(self.process.pidfd.as_fd()), flags).is_ok_and(|ended| ended.is_none())
    }

    /// Ends the process, as one outside can: false if it did not end.
    pub(super) fn end(&self) -> bool {
        let killed = pidfd_send_signal(&self.process.pidfd, Signal::KILL).is_ok();
        let pidfd = WaitId::PidFd(self.process.pidfd.as_fd());
        killed && waitid(pidfd, WaitIdOptions::EXITED).is_ok()
    }
}

impl Drop for Laid {
    fn drop(&mut self) {
        // It may have been ended before.
        let _ended = self.end();
    }
}

/// Small numbers mean other processes inside: one above them means this one or none.
const SMALL: i32 = 64;

fn waiting_process() -> io::Result<sys::ClonedChild> {
    let mut small = Vec::new();
    let found = loop {
        let made = sys::clone_process(0, || {
            let _set = set_parent_process_death_signal(Some(Signal::KILL));
            loop {
                rustix::event::pause();
            }
        })?;
        if made.pid > SMALL {
            break made;
        }
        small.push(made);
    };
    for process in small {
        let _killed = pidfd_send_signal(&process.pidfd, Signal::KILL);
        let _reaped = waitid(WaitId::PidFd(process.pidfd.as_fd()), WaitIdOptions::EXITED);
    }
    Ok(found)
}
