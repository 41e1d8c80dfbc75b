//! A live sandbox, as its supervisor sees it.
//!
//! Guarantee: a [`Sandbox`] exists only if every wall stands, and when it is gone every process of
//! it is. Non-guarantee: a supervisor that is killed cleans nothing up; what it leaves - a note, a
//! cgroup - is for the collector. Processes end by themselves, since init ends with the socket.

use super::broker::Broker;
use super::bwrap::{Attendant, Tried};
use super::control::{Channel, Control, is_ready};
use super::hold::{Hold, new_id};
use super::identity::Identity;
use super::prepared::prepare;
use super::socket::KernelSocket;
use super::sys;
use super::underlay::Anchors;
use crate::launch::{Launch, StartError};
use crate::lifecycle::{Event, State};
use crate::plan::{Class, Plan};
use crate::report::{Enforced, Launcher, Raised, Report, Wall};
use crate::seccomp::{Architecture, Instruction, Profile, compile};
use crate::stage::Owner;
use rustix::fd::{AsFd, OwnedFd};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{Signal, WaitId, WaitIdOptions, pidfd_send_signal, waitid};
use std::collections::BTreeMap;
use std::io;
use std::mem::ManuallyDrop;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// A sandbox of which every wall stands.
#[derive(Debug)]
pub struct Sandbox {
    id: String,
    enforced: Enforced,
    control: Control,
    // Dropped in this order: whoever waits for the broker must be gone before it, and a cgroup can
    // be removed once nothing is in it.
    keeper: Keeper,
    broker: Option<Broker>,
    hold: Hold,
    socket: Option<KernelSocket>,
    anchors: Anchors,
}

/// What runs the commands of a sandbox.
#[derive(Debug)]
enum Keeper {
    Native { init: Init, root: OwnedFd },
    Bwrap(Attendant),
}

/// Has `launcher` raise the walls `launch` asks for.
pub fn start_with(launcher: Launcher, launch: Launch) -> Result<Sandbox, StartError> {
    match launcher {
        Launcher::Native => start(launch),
        Launcher::Bwrap => start_bwrap(launch),
        Launcher::Seatbelt => Err(StartError::Unsupported),
    }
}

fn start_bwrap(launch: Launch) -> Result<Sandbox, StartError> {
    let id = new_id();
    let hold = Hold::new(&id, launch.plan.limits(), &launch.registry)?;
    let socket = launch
        .plan
        .has_socket()
        .then(KernelSocket::beside)
        .transpose()
        .map_err(|source| failed("make a socket to the kernel", source))?;
    let at = socket.as_ref().and_then(KernelSocket::path);
    let tried = Tried::new(&launch, &hold, at)?;
    let raised = hold.report(tried.raised());
    let enforced = raised.finish(launch.plan, &launch.minimum)?;
    let (ours, theirs) = sockets()?;
    let control =
        Control::new(Channel::new(ours)).map_err(|source| failed("make a wake-up call", source))?;
    let attendant = tried
        .attend(theirs)
        .map_err(|source| failed("make a thread for bubblewrap", source))?;
    // A sandbox in the making can always become one that stands.
    let _running = control.event(Event::Enforced);
    Ok(Sandbox {
        id,
        enforced,
        control,
        keeper: Keeper::Bwrap(attendant),
        broker: None,
        hold,
        socket,
        anchors: Anchors::default(),
    })
}

/// Raises the walls `launch` asks for.
pub fn start(launch: Launch) -> Result<Sandbox, StartError> {
    prepare()?.start(launch)
}

impl Sandbox {
    /// A sandbox of which every wall stands.
    pub(super) fn standing(
        launch: Launch,
        standing: Standing,
        landlock: u32,
    ) -> Result<Self, StartError> {
        let Standing {
            id,
            control,
            init,
            root,
            broker,
            hold,
            socket,
            anchors,
        } = standing;
        let raised = hold.report(raised(&launch.plan, landlock));
        let enforced = raised.finish(launch.plan, &launch.minimum)?;
        // A sandbox in the making can always become one that stands.
        let _running = control.event(Event::Enforced);
        Ok(Self {
            id,
            enforced,
            control,
            keeper: Keeper::Native { init, root },
            broker,
            hold,
            socket,
            anchors,
        })
    }
}

/// What is left when the native launcher has raised its walls.
pub(super) struct Standing {
    pub(super) id: String,
    pub(super) control: Control,
    pub(super) init: Init,
    pub(super) root: OwnedFd,
    pub(super) broker: Option<Broker>,
    pub(super) hold: Hold,
    pub(super) socket: Option<KernelSocket>,
    pub(super) anchors: Anchors,
}

pub(super) fn failed(step: impl Into<String>, source: io::Error) -> StartError {
    StartError::Step {
        step: step.into(),
        source,
    }
}

/// The supervisor's end and init's of what they talk over.
pub(super) fn sockets() -> Result<(OwnedFd, OwnedFd), StartError> {
    let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
    socketpair(AddressFamily::UNIX, kind, flags, None)
        .map_err(|errno| failed("make a socket", errno.into()))
}

/// The init of a sandbox. When it ends, so does everything in the sandbox.
#[derive(Debug)]
pub(super) struct Init(pub(super) sys::ClonedChild);

impl Init {
    pub(super) const fn pid(&self) -> i32 {
        self.0.pid
    }

    fn kill(&self) {
        // It may have ended already.
        let _killed = pidfd_send_signal(&self.0.pidfd, Signal::KILL);
    }

    /// Waits until it is gone, and all with it, but not for longer than `patience`.
    pub(super) fn wait(&self, patience: Duration) {
        // What cannot be waited for here is waited for when it is reaped.
        let _gone = is_ready(self.0.pidfd.as_fd(), patience);
    }

    fn reap(&self) {
        let _reaped = waitid(WaitId::PidFd(self.0.pidfd.as_fd()), WaitIdOptions::EXITED);
    }
}

impl Drop for Init {
    fn drop(&mut self) {
        self.kill();
        self.reap();
    }
}

impl Sandbox {
    /// Its name, which no other sandbox of this machine has.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// What was enforced, and how.
    pub const fn report(&self) -> &Report {
        self.enforced.report()
    }

    /// What it is granted.
    pub const fn plan(&self) -> &Plan {
        self.enforced.plan()
    }

    /// Where it stands.
    pub fn state(&self) -> State {
        self.control.state()
    }

    /// Steers it from other threads.
    pub fn control(&self) -> Control {
        self.control.clone()
    }

    pub(super) const fn steering(&self) -> &Control {
        &self.control
    }

    /// The number of its init, 0 while there is none.
    pub(super) fn init_pid(&self) -> i32 {
        match &self.keeper {
            Keeper::Native { init, .. } => init.pid(),
            Keeper::Bwrap(attendant) => attendant.pid(),
        }
    }

    /// Ends what runs in it.
    pub(super) fn kill(&self) {
        match &self.keeper {
            Keeper::Native { init, .. } => init.kill(),
            Keeper::Bwrap(attendant) => attendant.kill(),
        }
    }

    /// Waits until nothing that was killed is left, but not for longer than `patience`.
    pub(super) fn wait_until_gone(&self, patience: Duration) {
        match &self.keeper {
            Keeper::Native { init, .. } => init.wait(patience),
            // Its attendant says that a command ended only when nothing of it is left.
            Keeper::Bwrap(_) => {}
        }
    }

    pub(super) const fn broker(&self) -> Option<&Broker> {
        self.broker.as_ref()
    }

    /// Where whatever runs in it asks the kernel, if it may.
    pub(super) const fn socket(&self) -> Option<&KernelSocket> {
        self.socket.as_ref()
    }

    pub(super) const fn hold(&self) -> &Hold {
        &self.hold
    }

    /// Its root, where that is the same for every command.
    pub(super) const fn root(&self) -> Option<&OwnedFd> {
        match &self.keeper {
            Keeper::Native { root, .. } => Some(root),
            Keeper::Bwrap(_) => None,
        }
    }

    /// Has its next command see what it is granted as that is now, whatever an earlier one looked up.
    /// Says whether it does; one that does not, such as any of a copy, shows files that are gone.
    /// Only between two commands.
    #[must_use = "one that shows what is gone must not be used"]
    pub fn shows_now(&self) -> bool {
        self.control.overlays().forget() && self.anchors.stand()
    }

    /// Ends everything in it.
    pub fn stop(self) {
        drop(self);
    }

    /// Ends everything in it without waiting until it is gone, where nothing but processes would be
    /// left, and they end by themselves; else as [`Sandbox::stop`]. For a supervisor that is about to
    /// end: what it held of the sandbox is held until then.
    pub fn abandon(self) {
        let _stopping = self.control.event(Event::Stop);
        self.control.overlays().let_go();
        self.kill();
        let leaves_nothing = match &self.keeper {
            Keeper::Native { .. } => !self.hold.leaves_something(),
            Keeper::Bwrap(_) => false,
        };
        if leaves_nothing {
            let _left_to_the_end = ManuallyDrop::new(self);
        }
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        // From any state: what is left to do is the same.
        let _stopping = self.control.event(Event::Stop);
        // Whoever still steers it keeps no layer of the stage in use.
        self.control.overlays().let_go();
        self.kill();
        let _stopped = self.control.event(Event::Stopped);
        let _cleaned = self.control.event(Event::Cleaned);
    }
}

pub(super) fn filter_for(profile: Profile) -> Result<Vec<Instruction>, StartError> {
    // A strict worker confines itself once it is loaded: it could not even be started under it.
    let mut filter = own_filter(profile.max(Profile::Standard))
        .map_err(|source| failed("compile the seccomp filter", source))?;
    if profile == Profile::Strict {
        filter.splice(AFTER_ARCHITECTURE..AFTER_ARCHITECTURE, narrowing());
    }
    Ok(filter)
}

/// Instructions of a filter that see to the architecture, after which the number means something.
const AFTER_ARCHITECTURE: usize = 3;

/// Lets a worker narrow itself: `seccomp` with a filter for all its threads, and no other form of
/// the call, listeners least of all.
fn narrowing() -> [Instruction; 7] {
    const LOAD: u16 = 0x20;
    const EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    const ALLOW: u32 = 0x7fff_0000;
    let step = |code, operand, jump_false| Instruction {
        code,
        jump_true: 0,
        jump_false,
        operand,
    };
    let number = u32::try_from(libc::SYS_seccomp).unwrap_or(u32::MAX);
    [
        step(LOAD, 0, 0),
        step(EQUAL, number, 5),
        step(LOAD, 16, 0),
        step(EQUAL, libc::SECCOMP_SET_MODE_FILTER, 3),
        step(LOAD, 24, 0),
        step(EQUAL, 1, 1),
        step(RETURN, ALLOW, 0),
    ]
}

/// The filter of a profile for this processor, which is compiled once.
fn own_filter(profile: Profile) -> io::Result<Vec<Instruction>> {
    static MADE: Mutex<BTreeMap<Profile, Vec<Instruction>>> = Mutex::new(BTreeMap::new());
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(filter) = made.get(&profile) {
        return Ok(filter.clone());
    }
    let filter = compile(profile, own_architecture()?).map_err(io::Error::other)?;
    made.insert(profile, filter.clone());
    Ok(filter)
}

pub(super) fn own_architecture() -> io::Result<Architecture> {
    let found = Architecture::find(std::env::consts::ARCH);
    found.ok_or_else(|| io::ErrorKind::Unsupported.into())
}

/// Confines this process, every thread of it, to `profile` for good. For workers of our own, which
/// do so once they are loaded and before they touch anything foreign.
pub fn confine(profile: Profile) -> io::Result<()> {
    sys::confine_process(&own_filter(profile)?)
}

/// Has every program that this process starts itself from now on inherit its three streams alone, whatever
/// this process was handed and opened so far.
pub fn hand_on_streams_alone() -> io::Result<()> {
    sys::close_at_exec(3)
}

/// Whom the files of a stage must belong to, so that sandboxes this process starts can write them.
pub fn stage_owner() -> Owner {
    let (uid, gid) = match Identity::own() {
        Identity::User { user, group } | Identity::Root { user, group } => (user, group),
    };
    Owner { uid, gid }
}

fn raised(plan: &Plan, landlock: u32) -> Raised {
    let mut raised = Raised::by(Launcher::Native);
    for (wall, how) in [
        (Wall::UserNamespace, "uid 1000 inside"),
        (Wall::MountNamespace, "own mounts"),
        (Wall::PidNamespace, "own init"),
        (Wall::NetworkNamespace, "empty"),
        (Wall::IpcNamespace, "empty"),
        (Wall::UtsNamespace, "named airlock"),
        (Wall::CgroupNamespace, "own root"),
        (Wall::Root, "built from nothing, read-only"),
        (Wall::Denials, "mounts and broker"),
        (Wall::Capabilities, "none, and none to be had"),
        (Wall::NoNewPrivileges, "set"),
        (Wall::HostUser, "not root"),
        (Wall::Environment, "given whole"),
        (Wall::Descriptors, "three streams"),
        (Wall::Session, "own session"),
        (Wall::Lifetime, "ends with its supervisor"),
    ] {
        raised = raised.wall(wall, Class::Enforced, how);
    }
    raised = raised.wall(Wall::Seccomp, Class::Enforced, plan.profile().name());
    raised = if landlock > 0 {
        raised.wall(
            Wall::Landlock,
            Class::Enforced,
            format!("version {landlock}"),
        )
    } else {
        raised.absent(Wall::Landlock, "this kernel has none")
    };
    raised
}
