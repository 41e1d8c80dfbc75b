//! A live sandbox, as its supervisor sees it.
//!
//! Guarantee: a [`Sandbox`] exists only if every wall stands, and when it is gone every process of
//! it is. Non-guarantee: a supervisor that is killed cleans nothing up; what it leaves - a note, a
//! cgroup - is for the collector. Processes end by themselves, since init ends with the socket.

use super::broker::{Broker, Guarded, notify_filter};
use super::bwrap::{Attendant, Tried};
use super::compile::{Ingredients, steps};
use super::control::{Channel, Control};
use super::hold::{Hold, new_id};
use super::identity::{Identity, Maps};
use super::landlock;
use super::program::Step;
use super::resolve::Resolved;
use super::sys::{self, notify::WAIT_KILLABLE_RECV};
use super::wire::{Notice, Order};
use crate::launch::{Launch, Layers, LayersKind, StartError};
use crate::lifecycle::{Event, State};
use crate::plan::{Class, Denial, Plan};
use crate::report::{Enforced, Launcher, Raised, Report, Wall};
use crate::seccomp::{Architecture, Instruction, Profile, compile};
use crate::stage::Owner;
use rustix::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use rustix::fs::{Mode, OFlags};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{Signal, WaitId, WaitIdOptions, pidfd_send_signal, waitid};
use std::io;
use std::time::Duration;

/// How long raising the walls may take before it is given up.
const PATIENCE: Duration = Duration::from_secs(30);

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
    let tried = Tried::new(&launch, &hold)?;
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
    })
}

/// Raises the walls `launch` asks for.
pub fn start(launch: Launch) -> Result<Sandbox, StartError> {
    let id = new_id();
    let identity = Identity::own();
    let mut maps = Maps::default();
    let resolved = Resolved::of(&launch, identity, &mut maps)?;
    let hold = Hold::new(&id, launch.plan.limits(), &launch.registry)?;
    let version = sys::landlock_version();
    let ingredients = Ingredients {
        launch: &launch,
        resolved: &resolved,
        owner: identity.other(),
        limits: &hold.rlimits(launch.plan.limits()),
        landlock: version,
        filter: filter_for(launch.plan.profile())?,
        asking: asking(&resolved)?,
    };
    let steps =
        steps(ingredients).map_err(|unfit| failed("read the plan", io::Error::other(unfit)))?;
    forget_volatile(&launch);
    let (ours, init) = give_birth(steps, identity, &maps, landlock::ruleset_bytes(version))?;
    let control = Control::new(ours).map_err(|source| failed("make a wake-up call", source))?;
    let mut descriptors = init.raise(control.channel(), identity, &hold)?.into_iter();
    let lost = || failed("receive the root", io::ErrorKind::InvalidData.into());
    let root = descriptors.next().ok_or_else(lost)?;
    let broker = descriptors
        .next()
        .map(|listener| guard(listener, &root, resolved.brokered, identity))
        .transpose()?;
    let raised = hold.report(raised(&launch.plan, version));
    let enforced = raised.finish(launch.plan, &launch.minimum)?;
    // A sandbox in the making can always become one that stands.
    let _running = control.event(Event::Enforced);
    Ok(Sandbox {
        id,
        enforced,
        control,
        keeper: Keeper::Native {
            init: init.process,
            root,
        },
        broker,
        hold,
    })
}

/// The filter that asks the broker, where there is something only it can deny.
fn asking(resolved: &Resolved) -> Result<Option<(Vec<Instruction>, u32)>, StartError> {
    if resolved.brokered.is_empty() {
        return Ok(None);
    }
    let architecture = own_architecture().map_err(|source| failed("find a filter", source))?;
    let flags = u32::try_from(WAIT_KILLABLE_RECV).unwrap_or_default();
    Ok(Some((notify_filter(architecture), flags)))
}

fn guard(
    listener: OwnedFd,
    root: &OwnedFd,
    denials: Vec<Denial>,
    identity: Identity,
) -> Result<Broker, StartError> {
    let started = root.try_clone().and_then(|root| {
        Broker::start(Guarded {
            listener,
            root,
            denials,
            identity: identity.other(),
        })
    });
    started.map_err(|source| failed("start the broker of denials", source))
}

fn failed(step: impl Into<String>, source: io::Error) -> StartError {
    StartError::Step {
        step: step.into(),
        source,
    }
}

/// A child that has not yet raised its walls.
struct Newborn {
    process: Init,
    steps: Vec<Step>,
}

/// The supervisor's end and init's of what they talk over.
fn sockets() -> Result<(OwnedFd, OwnedFd), StartError> {
    let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
    socketpair(AddressFamily::UNIX, kind, flags, None)
        .map_err(|errno| failed("make a socket", errno.into()))
}

/// Makes the process that becomes init.
fn give_birth(
    steps: Vec<Step>,
    identity: Identity,
    maps: &Maps,
    ruleset_bytes: usize,
) -> Result<(Channel, Newborn), StartError> {
    let (ours, theirs) = sockets()?;
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let null = rustix::fs::open(c"/dev/null", flags, Mode::empty())
        .map_err(|errno| failed("open /dev/null", errno.into()))?;
    let mut keep: Vec<RawFd> = maps.descriptors().chain([theirs.as_raw_fd()]).collect();
    keep.sort_unstable();
    let program = sys::Start {
        steps,
        control: theirs.as_raw_fd(),
        null: null.as_raw_fd(),
        keep,
        ruleset_bytes,
    };
    let child = sys::clone_process(namespaces(identity), || program.run())
        .map_err(|source| failed("make namespaces", source))?;
    let newborn = Newborn {
        process: Init(child),
        steps: program.steps,
    };
    Ok((Channel::new(ours), newborn))
}

/// Root enters a user namespace last: until then it mounts as the host's root, and what it mounted
/// is then out of its own reach.
const fn namespaces(identity: Identity) -> i32 {
    let all = libc::CLONE_NEWNS
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWNET
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUTS
        | libc::CLONE_NEWCGROUP;
    match identity {
        Identity::User { .. } => all | libc::CLONE_NEWUSER,
        Identity::Root { .. } => all,
    }
}

impl Newborn {
    /// Leads the child through its program. Gives the descriptors it hands over at the end.
    fn raise(
        &self,
        channel: &Channel,
        identity: Identity,
        hold: &Hold,
    ) -> Result<Vec<OwnedFd>, StartError> {
        let go = || channel.send(Order::Go, &[]);
        let map = || {
            identity
                .map(self.process.pid())
                .map_err(|source| failed("map the user", source))
        };
        if matches!(identity, Identity::User { .. }) {
            map()?;
        }
        go().map_err(|source| failed("reach the child", source))?;
        // While it mounts: the kernel can take its time over this.
        hold.take_in(self.process.pid())?;
        loop {
            let waited = channel.wait(PATIENCE);
            if !waited.map_err(|source| failed("wait for the child", source))? {
                return Err(failed("raise the walls", io::ErrorKind::TimedOut.into()));
            }
            let notice = channel.receive();
            match notice.map_err(|source| failed("hear from the child", source))? {
                Some((Notice::Unmapped, _)) => {
                    map()?;
                    go().map_err(|source| failed("reach the child", source))?;
                }
                Some((Notice::Ready, descriptors)) => return Ok(descriptors),
                Some((Notice::Failed { step, errno }, _)) => {
                    let step = usize::try_from(step).unwrap_or(usize::MAX);
                    let what = self.steps.get(step).map_or("", |step| &step.what);
                    return Err(failed(what, io::Error::from_raw_os_error(errno)));
                }
                Some((Notice::NotStarted { .. } | Notice::Ended { .. }, _)) | None => {
                    return Err(failed("raise the walls", io::ErrorKind::BrokenPipe.into()));
                }
            }
        }
    }
}

/// The init of a sandbox. When it ends, so does everything in the sandbox.
#[derive(Debug)]
pub(super) struct Init(sys::ClonedChild);

impl Init {
    const fn pid(&self) -> i32 {
        self.0.pid
    }

    fn kill(&self) {
        // It may have ended already.
        let _killed = pidfd_send_signal(&self.0.pidfd, Signal::KILL);
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

    pub(super) const fn broker(&self) -> Option<&Broker> {
        self.broker.as_ref()
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

    /// Ends everything in it.
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        // From any state: what is left to do is the same.
        let _stopping = self.control.event(Event::Stop);
        self.kill();
        let _stopped = self.control.event(Event::Stopped);
        let _cleaned = self.control.event(Event::Cleaned);
    }
}

/// An overlay mounted without syncing marks its work directory, so that one left by a crash of the
/// machine is noticed. Whether it crashed is for the stage to know; here the mark is in the way.
/// What cannot be removed makes the mount fail, and is reported there.
fn forget_volatile(launch: &Launch) {
    let overlay = |layers: &&Layers| layers.kind == LayersKind::Overlay;
    let Some(layers) = launch.layers.as_ref().filter(overlay) else {
        return;
    };
    let marks = ["work", "work/incompat", "work/incompat/volatile"];
    let marks = marks.map(|mark| layers.work.join(mark));
    for mark in &marks {
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        let _opened = std::fs::set_permissions(mark, open);
    }
    let [_, _, volatile] = marks;
    let _removed = std::fs::remove_file(volatile.join("dirty"));
    let _removed = std::fs::remove_dir(volatile);
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

/// The filter of a profile for this processor.
fn own_filter(profile: Profile) -> io::Result<Vec<Instruction>> {
    compile(profile, own_architecture()?).map_err(io::Error::other)
}

fn own_architecture() -> io::Result<Architecture> {
    let found = Architecture::find(std::env::consts::ARCH);
    found.ok_or_else(|| io::ErrorKind::Unsupported.into())
}

/// Confines this process, every thread of it, to `profile` for good. For workers of our own, which
/// do so once they are loaded and before they touch anything foreign.
pub fn confine(profile: Profile) -> io::Result<()> {
    sys::confine_process(&own_filter(profile)?)
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
