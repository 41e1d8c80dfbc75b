//! A sandbox in the making: what of it does not depend on its plan, done ahead of it.
//!
//! [`prepare`] makes a process in namespaces of its own that builds a root with nothing of the
//! person's in it, and waits. [`Prepared::start`] has it take in what a launch gives it and raises
//! the walls around it.
//!
//! Guarantee: a prepared sandbox runs nothing foreign, holds no descriptor of its maker's but the
//! socket between them, and ends when that closes. What it becomes has the same walls whether it was
//! made ahead or not: every step that confines comes after the plan.
//!
//! Not guaranteed: that a mount somebody made on the host after [`prepare`] is seen inside.

use super::broker::{Broker, Guarded, notify_filter};
use super::compile::{Ingredients, Steps, Walls};
use super::control::{Channel, Control};
use super::hold::{Hold, new_id};
use super::identity::{Identity, Maps};
use super::limits::{Group, own_arguments};
use super::nursery::{Nursery, null};
use super::resolve::{Ground, Resolved, Seen};
use super::sandbox::{Init, Sandbox, Standing, failed, filter_for, own_architecture, sockets};
use super::socket::KernelSocket;
use super::sys::{self, notify::WAIT_KILLABLE_RECV};
use super::underlay::{Anchors, Overlay};
use super::wire::{DESCRIPTORS, Notice, Order};
use crate::launch::{Base, Launch, Layers, LayersKind, StartError};
use crate::plan::Denial;
use crate::seccomp::{Instruction, Profile};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::io;
use std::time::Duration;

/// How long raising the walls may take before it is given up.
const PATIENCE: Duration = Duration::from_secs(30);

/// A process in namespaces of its own, with a root in the making. Dropped, it is gone.
#[derive(Debug)]
pub struct Prepared {
    control: Control,
    // Dropped after the socket, and waited for.
    init: Init,
    identity: Identity,
    steps: Steps,
    /// What it sees of the system already.
    seen: Option<Base>,
}

/// Makes what every sandbox begins with.
pub fn prepare() -> Result<Prepared, StartError> {
    prepared(None)
}

/// The same by `nursery`, if there is one.
pub(super) fn prepared(nursery: Option<&Nursery>) -> Result<Prepared, StartError> {
    let identity = Identity::own();
    let (channel, init) = give_birth(identity, nursery)?;
    let ground = Ground::find()?;
    let control = Control::new(channel).map_err(|source| failed("make a wake-up call", source))?;
    if matches!(identity, Identity::User { .. }) {
        map(identity, &init)?;
    }
    let mut steps = Steps::default();
    let begun = steps.beginning(&ground);
    begun.map_err(|unfit| failed("look at the machine", io::Error::other(unfit)))?;
    let mut prepared = Prepared {
        control,
        init,
        identity,
        steps,
        seen: None,
    };
    prepared.hand_over()?;
    Ok(prepared)
}

/// Finds out once for the process what every plan will ask for.
fn warm_up() {
    let _possible = Group::possible();
    // One that cannot be made is reported when it is needed.
    let _made = filter_for(Profile::Standard);
}

impl Prepared {
    /// Shows it what every sandbox on this machine sees, ahead of its plan too.
    pub fn show(&mut self, base: &Base) -> Result<(), StartError> {
        if self.seen.is_some() {
            return Ok(());
        }
        let made = self.steps.system(&Seen::of(base)?);
        made.map_err(|unfit| failed("look at the machine", io::Error::other(unfit)))?;
        self.hand_over()?;
        self.seen = Some(base.clone());
        // The child has something to do meanwhile.
        warm_up();
        Ok(())
    }

    /// Raises the walls `launch` asks for.
    pub fn start(mut self, launch: Launch) -> Result<Sandbox, StartError> {
        self.show(&launch.base)?;
        if self.seen.as_ref() != Some(&launch.base) {
            // It sees something else, and cannot unsee it.
            drop(self);
            return prepare()?.start(launch);
        }
        let id = new_id();
        let unfit = |unfit| failed("read the plan", io::Error::other(unfit));
        let mut maps = Maps::default();
        let mut resolved = Resolved::of(&launch, self.identity, &mut maps)?;
        let looked = std::mem::take(&mut resolved.looked);
        let anchors = Anchors::of(&resolved, looked);
        let ingredients = Ingredients {
            launch: &launch,
            resolved: &resolved,
            owner: self.identity.other(),
        };
        self.steps.view(&ingredients).map_err(unfit)?;
        forget_volatile(&launch);
        self.hand_over_maps(&maps)?;
        self.hand_over()?;
        // From here on the child mounts while we go on.
        let mut hold = Hold::new(&id, launch.plan.limits(), &launch.registry)?;
        let landlock = sys::landlock_version();
        let walls = Walls {
            groups: hold.own_lists(),
            limits: &hold.rlimits(launch.plan.limits()),
            landlock,
            filter: filter_for(launch.plan.profile())?,
            asking: asking(&resolved)?,
            as_root: self.identity.other().is_some(),
        };
        self.steps.ending(&walls).map_err(unfit)?;
        hold.take_in_rest(self.init.pid())?;
        self.hand_over()?;
        let (descriptors, overlays) = self.wait()?;
        // A copy is of the tree as it was when it was made, whatever is forgotten.
        if !is_copy(&launch) {
            self.control.overlays().hold(overlays);
        }
        let mut descriptors = descriptors.into_iter();
        let lost = || failed("receive the root", io::ErrorKind::InvalidData.into());
        let mut next = || descriptors.next().ok_or_else(lost);
        let root = next()?;
        let has_listener = !resolved.brokered.is_empty();
        let listener = has_listener.then(&mut next).transpose()?;
        let socket = launch.plan.has_socket().then(next).transpose()?;
        hold.count_segments(descriptors.next());
        let broker = listener
            .map(|listener| guard(listener, &root, resolved.brokered, self.identity))
            .transpose()?;
        let standing = Standing {
            id,
            control: self.control,
            init: self.init,
            root,
            broker,
            hold,
            socket: socket.map(KernelSocket::inside),
            anchors,
        };
        Sandbox::standing(launch, standing, landlock)
    }

    fn hand_over(&mut self) -> Result<(), StartError> {
        let steps = self.steps.take();
        let steps = steps.map_err(|source| failed("write down the steps", source))?;
        self.send(Order::Steps, &[steps.as_fd()])
    }

    fn hand_over_maps(&self, maps: &Maps) -> Result<(), StartError> {
        for some in maps.namespaces().chunks(DESCRIPTORS) {
            let some: Vec<BorrowedFd<'_>> = some.iter().map(AsFd::as_fd).collect();
            self.send(Order::Maps, &some)?;
        }
        Ok(())
    }

    /// Gives the child an order. One that failed has said why.
    fn send(&self, order: Order, descriptors: &[BorrowedFd<'_>]) -> Result<(), StartError> {
        let sent = self.control.channel().send(order, descriptors);
        sent.or_else(|source| {
            self.wait()?;
            Err(failed("reach the child", source))
        })
    }

    /// Waits until the walls stand. Gives the descriptors the child hands over at the end, and the
    /// overlays it mounted.
    fn wait(&self) -> Result<(Vec<OwnedFd>, Vec<Overlay>), StartError> {
        let channel = self.control.channel();
        let mut overlays = Vec::new();
        loop {
            let waited = channel.wait(PATIENCE);
            if !waited.map_err(|source| failed("wait for the child", source))? {
                return Err(failed("raise the walls", io::ErrorKind::TimedOut.into()));
            }
            let notice = channel.receive();
            match notice.map_err(|source| failed("hear from the child", source))? {
                Some((Notice::Unmapped, _)) => {
                    map(self.identity, &self.init)?;
                    let sent = channel.send(Order::Go, &[]);
                    sent.map_err(|source| failed("reach the child", source))?;
                }
                Some((Notice::Picked { read_only }, picked)) => {
                    let picked = picked.into_iter();
                    overlays.extend(picked.map(|picked| Overlay { picked, read_only }));
                }
                Some((Notice::Ready, descriptors)) => return Ok((descriptors, overlays)),
                Some((Notice::Failed { step, errno }, _)) => {
                    let what = self.steps.words(step);
                    return Err(failed(what, limited(io::Error::from_raw_os_error(errno))));
                }
                Some((
                    Notice::NotStarted { .. }
                    | Notice::Ended { .. }
                    | Notice::Killed { .. }
                    | Notice::BesideEnded { .. }
                    | Notice::Born { .. }
                    | Notice::Unborn { .. },
                    _,
                ))
                | None => {
                    return Err(failed("raise the walls", io::ErrorKind::BrokenPipe.into()));
                }
            }
        }
    }
}

fn is_copy(launch: &Launch) -> bool {
    let layers = launch.layers.as_ref();
    layers.is_some_and(|layers| layers.kind == LayersKind::Copy)
}

/// Gives the child its user.
fn map(identity: Identity, init: &Init) -> Result<(), StartError> {
    let mapped = identity.map(init.pid());
    mapped.map_err(|source| failed("map the user", source))
}

/// Makes the process that becomes init.
fn give_birth(
    identity: Identity,
    nursery: Option<&Nursery>,
) -> Result<(Channel, Init), StartError> {
    let namespaces = namespaces(identity);
    if let Some(nursery) = nursery {
        let (ours, theirs) = sockets()?;
        if let Ok(child) = nursery.bear(namespaces, &theirs) {
            return Ok((Channel::new(ours), Init(child)));
        }
        // What a nursery cannot, this process may; and it can say why not. A child that the nursery made all
        // the same has the other end of these sockets, and ends with them.
    }
    let (ours, theirs) = sockets()?;
    let null = null()?;
    let arguments = own_arguments().map_err(|source| failed("find its own arguments", source))?;
    let start = sys::Start {
        control: theirs.as_raw_fd(),
        null: null.as_raw_fd(),
        arguments,
    };
    let child = sys::clone_process(namespaces, || start.run())
        .map_err(|source| failed("make namespaces", limited(source)))?;
    Ok((Channel::new(ours), Init(child)))
}

/// Why namespaces or mounts could not be made. The system says of too many what it says of a disk that is
/// full.
pub(super) fn limited(error: io::Error) -> io::Error {
    match Errno::from_io_error(&error) {
        Some(Errno::NOSPC) => io::Error::other(
            "no room on the disk of the stage, or a limit of this machine is reached, such as \
             `user.max_user_namespaces`, `user.max_mnt_namespaces` or `fs.mount-max`",
        ),
        Some(_) | None => error,
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_on_namespaces_is_not_told_as_a_full_disk() {
        let told = limited(Errno::NOSPC.into());
        assert_eq!(told.raw_os_error(), None);
        assert!(told.to_string().contains("max_user_namespaces"), "{told}");
        let told = limited(Errno::PERM.into());
        assert_eq!(Errno::from_io_error(&told), Some(Errno::PERM));
    }
}
