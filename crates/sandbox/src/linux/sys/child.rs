//! The child before it becomes init: carries out steps as they are handed over.
//!
//! Guarantee: after a failed step nothing else happens; the supervisor is told which and why. A
//! supervisor that is gone ends it, whether or not there were steps yet. It keeps nothing of the
//! supervisor's but the socket between them and memory that nobody inside can read, without its
//! arguments, which everybody could.
//! Invariant: nothing here allocates, locks, panics or returns.

use super::super::identity::MOST_MAPS;
use super::super::program::{Entry, INSIDE, Op, Owner, Reader, Rules, Ruleset, Source};
use super::super::wire::{BYTES, DESCRIPTORS, Notice, Order};
use super::calls::{self, kept};
use super::init;
use super::memory::{Mapped, forget_arguments};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, mkdirat, openat, openat2, symlinkat};
use rustix::io::Errno;
use rustix::mount::{
    FsPickFlags, MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags,
    fspick, mount, mount_change, move_mount, open_tree, unmount,
};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, bind, recvmsg,
    sendmsg, socket_with,
};
use rustix::process::{DumpableBehavior, chdir, fchdir, pivot_root, set_dumpable_behavior, umask};
use rustix::thread as own;
use std::ffi::CStr;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::ops::Range;

type Result<T> = std::result::Result<T, Errno>;

/// What the child starts with.
pub(crate) struct Start {
    /// The socket to the supervisor.
    pub(crate) control: RawFd,
    /// The null device, for the standard streams.
    pub(crate) null: RawFd,
    /// Where the arguments of whoever made it are in its memory, too.
    pub(crate) arguments: Range<usize>,
}

/// Descriptors that come with an order.
pub(super) type Descriptors = [Option<OwnedFd>; DESCRIPTORS];

impl Start {
    /// Raises the walls as it is told to, then runs what the supervisor orders until there is none.
    /// Gives the code to end with.
    pub(crate) fn run(&self) -> i32 {
        // Whatever runs inside may read those of any process it sees.
        forget_arguments(&self.arguments);
        calls::forget_signals();
        let control = kept(self.control);
        if self.close_others().is_err() {
            return 1;
        }
        let mut state = State::default();
        let mut done = 0;
        loop {
            let mut descriptors = Descriptors::default();
            let followed = match next_order(control, &mut descriptors) {
                Some(Order::Steps) => state.carry_out_all(descriptors, control, &mut done),
                Some(Order::Maps) => state.keep_maps(descriptors).map(|()| Then::Wait),
                Some(
                    Order::Go
                    | Order::Run { .. }
                    | Order::Signal(_)
                    | Order::Kill(_)
                    | Order::Beside(_)
                    | Order::Bear { .. },
                )
                | None => {
                    return 1;
                }
            };
            match followed {
                Ok(Then::Wait) => {}
                Ok(Then::Serve) => {
                    state.maps = [const { None }; MOST_MAPS];
                    return init::serve(control, state.leave());
                }
                Err(errno) => {
                    let (step, errno) = (done, errno.raw_os_error());
                    tell(control, Notice::Failed { step, errno });
                    return 1;
                }
            }
        }
    }

    pub(super) fn close_others(&self) -> Result<()> {
        for stream in 0..3 {
            calls::place(self.null, stream)?;
        }
        let control = self.control.cast_unsigned();
        if control > 3 {
            calls::close_range(3, control - 1)?;
        }
        calls::close_range(control + 1, u32::MAX)
    }
}

/// What follows on steps that were carried out.
enum Then {
    /// There will be more.
    Wait,
    /// These were the last.
    Serve,
}

/// Tells the supervisor something. If it is gone, there is nobody to tell.
pub(super) fn tell(control: BorrowedFd<'_>, notice: Notice) {
    tell_with(control, notice, &[]);
}

/// Tells the supervisor something and hands it descriptors.
pub(super) fn tell_with(control: BorrowedFd<'_>, notice: Notice, descriptors: &[BorrowedFd<'_>]) {
    let _told = try_tell_with(control, notice, descriptors);
}

/// The same, and says whether they could be handed over.
pub(super) fn try_tell_with(
    control: BorrowedFd<'_>,
    notice: Notice,
    descriptors: &[BorrowedFd<'_>],
) -> Result<()> {
    let bytes = notice.encode();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    let slices = [IoSlice::new(&bytes)];
    sendmsg(control, &slices, &mut ancillary, SendFlags::NOSIGNAL).map(drop)
}

/// The next order, with the descriptors that come with it. None when the supervisor is gone.
pub(super) fn next_order(control: BorrowedFd<'_>, descriptors: &mut Descriptors) -> Option<Order> {
    let mut bytes = [0; BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        let mut slices = [IoSliceMut::new(&mut bytes)];
        match recvmsg(
            control,
            &mut slices,
            &mut ancillary,
            RecvFlags::CMSG_CLOEXEC,
        ) {
            Ok(received) => break received.bytes,
            Err(Errno::INTR) => {}
            Err(_) => return None,
        }
    };
    let mut free = descriptors.iter_mut();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            for right in rights {
                if let Some(slot) = free.next() {
                    *slot = Some(right);
                }
            }
        }
    }
    (received == BYTES).then_some(())?;
    Order::decode(bytes)
}

fn wait_for_go(control: BorrowedFd<'_>) -> Result<()> {
    match next_order(control, &mut Descriptors::default()) {
        Some(Order::Go) => Ok(()),
        Some(
            Order::Steps
            | Order::Maps
            | Order::Run { .. }
            | Order::Signal(_)
            | Order::Kill(_)
            | Order::Beside(_)
            | Order::Bear { .. },
        )
        | None => Err(Errno::PIPE),
    }
}

/// What the steps leave for later ones.
struct State {
    old: Option<OwnedFd>,
    new: Option<OwnedFd>,
    listener: Option<OwnedFd>,
    /// What listens for whoever wants to ask the kernel.
    socket: Option<OwnedFd>,
    /// The list of this namespace's shared memory, for the supervisor.
    segments: Option<OwnedFd>,
    /// User namespaces that say as whom files appear.
    maps: [Option<OwnedFd>; MOST_MAPS],
}

impl Default for State {
    fn default() -> Self {
        Self {
            old: None,
            new: None,
            listener: None,
            socket: None,
            segments: None,
            maps: [const { None }; MOST_MAPS],
        }
    }
}

const TMPFS: &CStr = c"tmpfs";
const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
const ANYTHING: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

impl State {
    /// Carries out the steps in a file, and counts them.
    fn carry_out_all(
        &mut self,
        [file, ..]: Descriptors,
        control: BorrowedFd<'_>,
        done: &mut u32,
    ) -> Result<Then> {
        let file = file.ok_or(Errno::BADF)?;
        let memory = Mapped::file(file.as_fd())?;
        drop(file);
        let mut steps = Reader::new(memory.bytes());
        while !steps.is_empty() {
            let op = steps.next()?;
            if op == Op::Serve {
                return Ok(Then::Serve);
            }
            self.carry_out(op, control)?;
            *done = done.saturating_add(1);
        }
        Ok(Then::Wait)
    }

    /// What the supervisor is given once all walls stand.
    fn leave(&mut self) -> init::Left {
        init::Left {
            listener: self.listener.take(),
            socket: self.socket.take(),
            segments: self.segments.take(),
        }
    }

    fn keep_maps(&mut self, maps: Descriptors) -> Result<()> {
        let mut free = self.maps.iter_mut().filter(|slot| slot.is_none());
        for map in maps.into_iter().flatten() {
            *free.next().ok_or(Errno::MFILE)? = Some(map);
        }
        Ok(())
    }

    fn map(&self, number: Option<u32>) -> Result<Option<BorrowedFd<'_>>> {
        let Some(number) = number else {
            return Ok(None);
        };
        let number = usize::try_from(number).map_err(|_| Errno::BADF)?;
        let found = self.maps.get(number).and_then(Option::as_ref);
        found.map(|map| Some(map.as_fd())).ok_or(Errno::BADF)
    }

    fn carry_out(&mut self, op: Op<'_>, control: BorrowedFd<'_>) -> Result<()> {
        match op {
            Op::Hostname => rustix::system::sethostname(b"airlock"),
            Op::Private => mount_change(
                c"/",
                MountPropagationFlags::PRIVATE | MountPropagationFlags::REC,
            ),
            Op::Base { on } => self.base(on),
            Op::NewRoot { options } => self.new_root(options),
            Op::Scratch { options, owner } => scratch(options, owner),
            Op::Directory { entry } => self.make(&entry, |parent, name| {
                mkdirat(parent, name, Mode::from_raw_mode(0o755))
            }),
            Op::File { entry, text } => {
                self.make(&entry, |parent, name| write_new(parent, name, text))
            }
            Op::Link { entry, target } => {
                self.make(&entry, |parent, name| symlinkat(target, parent, name))
            }
            Op::Listen { entry } => self.listen(&entry),
            Op::Text { name, text } => write_new(CWD, name, text),
            Op::Ghost { name, owner } => ghost(name, owner),
            Op::Bind {
                source,
                place,
                attributes,
                map,
            } => {
                let from = self.open_source(source)?;
                let to = self.place(place, ANYTHING)?;
                let tree = cloned(from.as_fd(), attributes, self.map(map)?)?;
                attach(&tree, to.as_fd())
            }
            Op::Keep {
                source,
                at,
                attributes,
                map,
            } => {
                let from = self.open_host(source)?;
                mkdirat(CWD, at, Mode::from_raw_mode(0o755))?;
                let to = openat(CWD, at, DIRECTORY, Mode::empty())?;
                let tree = cloned(from.as_fd(), attributes, self.map(map)?)?;
                attach(&tree, to.as_fd())
            }
            Op::Mount {
                kind,
                place,
                flags,
                options,
            } => self.mount(kind, place, flags, options),
            Op::Pick { place, read_only } => {
                let picked = self.pick(place)?;
                tell_with(control, Notice::Picked { read_only }, &[picked.as_fd()]);
                Ok(())
            }
            Op::Join { tasks } => self.join(tasks),
            Op::Enter => self.enter(),
            Op::Become => become_user(control),
            Op::Limit {
                resource,
                soft,
                hard,
            } => calls::set_limit(resource, soft, hard),
            Op::Powerless => powerless(),
            Op::Landlock {
                ruleset,
                known,
                rules,
            } => landlock(&ruleset, known, rules),
            Op::Filter { program } => calls::install_filter(program),
            Op::Ask { program, flags } => {
                self.listener = Some(calls::install_listener_bytes(program, flags)?);
                Ok(())
            }
            Op::Serve => Err(Errno::INVAL),
        }
    }

    /// A small file system of our own as root, with the host's beneath it.
    fn base(&mut self, on: &CStr) -> Result<()> {
        umask(Mode::empty());
        // The list is of the namespace of whoever opens it, whoever reads it. Where it is not to be
        // had, the supervisor does without.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        self.segments = openat(CWD, c"/proc/sysvipc/shm", flags, Mode::empty()).ok();
        mount(
            TMPFS,
            on,
            TMPFS,
            MountFlags::NOSUID | MountFlags::NODEV,
            c"mode=0755,size=1m,nr_inodes=4096",
        )?;
        chdir(on)?;
        for name in [c"old", c"new", c"empty", c"scratch"] {
            mkdirat(CWD, name, Mode::from_raw_mode(0o755))?;
        }
        mkdirat(CWD, c"denied", Mode::empty())?;
        for (name, mode) in [(c"null", 0o444), (c"nothing", 0o000)] {
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
            openat(CWD, name, flags, Mode::from_raw_mode(mode))?;
        }
        pivot_root(c".", c"old")?;
        chdir(c"/")?;
        self.old = Some(openat(CWD, c"/old", DIRECTORY, Mode::empty())?);
        Ok(())
    }

    fn new_root(&mut self, options: &CStr) -> Result<()> {
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        mount(TMPFS, c"/new", TMPFS, flags, options)?;
        self.new = Some(openat(CWD, c"/new", DIRECTORY, Mode::empty())?);
        Ok(())
    }

    /// Something beneath the new root, whatever links lead there.
    fn place(&self, path: &CStr, flags: OFlags) -> Result<OwnedFd> {
        let root = self.new.as_ref().ok_or(Errno::BADF)?;
        beneath(root.as_fd(), path, flags, ResolveFlags::IN_ROOT)
    }

    /// Makes something in the new root. What is there already stays.
    fn make(
        &self,
        entry: &Entry<'_>,
        make: impl FnOnce(BorrowedFd<'_>, &CStr) -> Result<()>,
    ) -> Result<()> {
        let parent = self.place(entry.parent, DIRECTORY)?;
        match make(parent.as_fd(), entry.name) {
            Ok(()) => entry
                .owner
                .map_or(Ok(()), |owner| give(parent.as_fd(), entry.name, owner)),
            Err(Errno::EXIST) => Ok(()),
            // The parent is seen read-only: what is wanted must be there.
            Err(Errno::ROFS | Errno::ACCESS) => {
                let flags = ANYTHING.union(OFlags::NOFOLLOW);
                beneath(parent.as_fd(), entry.name, flags, ResolveFlags::IN_ROOT).map(drop)
            }
            Err(errno) => Err(errno),
        }
    }

    /// Makes a socket in the new root. Init listens on it, and the supervisor accepts.
    fn listen(&mut self, entry: &Entry<'_>) -> Result<()> {
        let socket = socket_with(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
            None,
        )?;
        let parent = self.place(entry.parent, DIRECTORY)?;
        // An address is a path: the working directory is a place no link can lead away from.
        fchdir(&parent)?;
        let bound = SocketAddrUnix::new(entry.name).and_then(|address| bind(&socket, &address));
        chdir(c"/")?;
        bound?;
        if let Some(owner) = entry.owner {
            give(parent.as_fd(), entry.name, owner)?;
        }
        self.socket = Some(socket);
        Ok(())
    }

    fn open_host(&self, path: &CStr) -> Result<OwnedFd> {
        let old = self.old.as_ref().ok_or(Errno::BADF)?;
        // The supervisor resolved every link; one that is met now was put there since.
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS;
        beneath(old.as_fd(), path, ANYTHING, resolve)
    }

    /// Joins a cgroup by itself. A task that moves itself alone waits for nobody, whereas moving
    /// another waits until every processor has taken notice.
    fn join(&self, tasks: &CStr) -> Result<()> {
        let old = self.old.as_ref().ok_or(Errno::BADF)?;
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS;
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        let list = beneath(old.as_fd(), tasks, flags, resolve)?;
        rustix::io::write(&list, b"0").map(drop)
    }

    fn open_source(&self, source: Source<'_>) -> Result<OwnedFd> {
        match source {
            Source::Host(path) => self.open_host(path),
            Source::Base(path) => openat(CWD, path, ANYTHING, Mode::empty()),
            Source::New(path) => self.place(path, ANYTHING),
        }
    }

    fn mount(&self, kind: &CStr, place: &CStr, flags: u32, options: Option<&CStr>) -> Result<()> {
        let place = self.place(place, DIRECTORY)?;
        // The working directory is a place no link can lead away from.
        fchdir(&place)?;
        let mounted = mount(
            kind,
            c".",
            kind,
            MountFlags::from_bits_retain(flags),
            options,
        );
        chdir(c"/")?;
        mounted
    }

    /// The file system that is mounted at a place. Only who may mount can pick it; whoever owns its
    /// user namespace can then tell it something, from outside too.
    fn pick(&self, place: &CStr) -> Result<OwnedFd> {
        let place = self.place(place, DIRECTORY)?;
        let flags = FsPickFlags::FSPICK_CLOEXEC | FsPickFlags::FSPICK_EMPTY_PATH;
        fspick(&place, c"", flags)
    }

    /// Stands in the new root, and lets go of everything else.
    fn enter(&mut self) -> Result<()> {
        let new = self.new.take().ok_or(Errno::BADF)?;
        self.old = None;
        fchdir(&new)?;
        pivot_root(c".", c".")?;
        unmount(c".", UnmountFlags::DETACH)?;
        chdir(c"/")?;
        let root = openat(CWD, c"/", DIRECTORY, Mode::empty())?;
        calls::set_mount_attributes(root.as_fd(), 1, None, false)
    }
}

fn beneath(
    root: BorrowedFd<'_>,
    path: &CStr,
    flags: OFlags,
    resolve: ResolveFlags,
) -> Result<OwnedFd> {
    let resolve = resolve | ResolveFlags::NO_MAGICLINKS;
    loop {
        match openat2(root, path, flags, Mode::empty(), resolve) {
            // A rename or a mount somewhere got in between.
            Err(Errno::AGAIN | Errno::INTR) => {}
            opened => return opened,
        }
    }
}

/// A detached copy of a tree of mounts.
fn cloned(from: BorrowedFd<'_>, attributes: u64, map: Option<BorrowedFd<'_>>) -> Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_RECURSIVE;
    let tree = open_tree(from, c"", flags)?;
    calls::set_mount_attributes(tree.as_fd(), attributes, map, true)?;
    Ok(tree)
}

fn attach(tree: &OwnedFd, to: BorrowedFd<'_>) -> Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(tree, c"", to, c"", flags)
}

/// The memory that the writable places share.
fn scratch(options: &CStr, owner: Option<Owner>) -> Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount(TMPFS, c"/scratch", TMPFS, flags, options)?;
    for (name, mode) in [
        (c"/scratch/home", 0o700),
        (c"/scratch/tmp", 0o1777),
        (c"/scratch/shm", 0o1777),
    ] {
        mkdirat(CWD, name, Mode::from_raw_mode(mode))?;
        if let Some(owner) = owner {
            give(CWD, name, owner)?;
        }
    }
    Ok(())
}

/// An empty directory in a layer of its own.
fn ghost(name: &CStr, owner: Option<Owner>) -> Result<()> {
    match mkdirat(CWD, c"/ghost", Mode::from_raw_mode(0o755)) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(errno),
    }
    let layer = openat(CWD, c"/ghost", DIRECTORY, Mode::empty())?;
    mkdirat(&layer, name, Mode::from_raw_mode(0o755))?;
    owner.map_or(Ok(()), |owner| give(layer.as_fd(), name, owner))
}

fn give(parent: BorrowedFd<'_>, name: &CStr, (user, group): Owner) -> Result<()> {
    let (user, group) = (own::Uid::from_raw(user), own::Gid::from_raw(group));
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    rustix::fs::chownat(parent, name, Some(user), Some(group), flags)
}

fn write_new(parent: BorrowedFd<'_>, name: &CStr, text: &[u8]) -> Result<()> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    let file = openat(parent, name, flags, Mode::from_raw_mode(0o644))?;
    let mut left = text;
    while !left.is_empty() {
        let written = rustix::io::write(&file, left)?;
        left = left.get(written..).ok_or(Errno::IO)?;
    }
    Ok(())
}

/// Enters a user namespace, waits to be given a user there, and becomes it.
fn become_user(control: BorrowedFd<'_>) -> Result<()> {
    calls::unshare_user()?;
    tell(control, Notice::Unmapped);
    wait_for_go(control)?;
    own::set_thread_groups(&[])?;
    let group = own::Gid::from_raw(INSIDE);
    own::set_thread_res_gid(group, group, group)?;
    let user = own::Uid::from_raw(INSIDE);
    own::set_thread_res_uid(user, user, user)
}

fn powerless() -> Result<()> {
    // What programs make is not everybody's to change; nothing of ours is made after this.
    umask(Mode::from_raw_mode(0o022));
    own::set_no_new_privs(true)?;
    own::clear_ambient_capability_set()?;
    for capability in 0..64 {
        // The kernel refuses the numbers it does not know.
        match calls::drop_bounding(capability) {
            Ok(()) => {}
            Err(Errno::INVAL) => break,
            Err(errno) => return Err(errno),
        }
    }
    let none = own::CapabilitySets {
        effective: own::CapabilitySet::empty(),
        permitted: own::CapabilitySet::empty(),
        inheritable: own::CapabilitySet::empty(),
    };
    own::set_capabilities(None, none)?;
    // Its memory is a copy of the supervisor's: nobody inside may look.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)
}

fn landlock(ruleset: &Ruleset, known: u32, mut rules: Rules<'_>) -> Result<()> {
    let held = calls::landlock_ruleset(ruleset, known)?;
    while !rules.is_empty() {
        let (path, access) = rules.next()?;
        let path = openat(CWD, path, ANYTHING, Mode::empty())?;
        calls::landlock_allow(held.as_fd(), path.as_fd(), access)?;
    }
    calls::landlock_restrict(held.as_fd())
}
