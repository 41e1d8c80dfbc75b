//! The child before it becomes init: carries out the program, step by step.
//!
//! Guarantee: after a failed step nothing else happens; the supervisor is told which and why.
//! Invariant: nothing here allocates, locks, panics or returns.

use super::super::program::{Entry, INSIDE, Op, Ruleset, Source, Step};
use super::super::wire::{BYTES, Notice, Order};
use super::calls::{self, kept};
use super::init;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, mkdirat, openat, openat2, symlinkat};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount,
    mount_change, move_mount, open_tree, unmount,
};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use rustix::process::{DumpableBehavior, chdir, fchdir, pivot_root, set_dumpable_behavior, umask};
use rustix::thread as own;
use std::ffi::CStr;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;

type Result<T> = std::result::Result<T, Errno>;

/// What the child starts with.
pub(crate) struct Start {
    /// The steps.
    pub(crate) steps: Vec<Step>,
    /// The socket to the supervisor.
    pub(crate) control: RawFd,
    /// The null device, for the standard streams.
    pub(crate) null: RawFd,
    /// Every descriptor to keep, in order.
    pub(crate) keep: Vec<RawFd>,
    /// How much of a Landlock ruleset this kernel knows, in bytes.
    pub(crate) ruleset_bytes: usize,
}

impl Start {
    /// Raises the walls, then runs what the supervisor orders until there is none. Gives the code
    /// to end with.
    pub(crate) fn run(&self) -> i32 {
        calls::forget_signals();
        let control = kept(self.control);
        let prepared = self.close_others().and_then(|()| wait_for_go(control));
        if prepared.is_err() {
            return 1;
        }
        let mut state = State::default();
        for (index, step) in self.steps.iter().enumerate() {
            if let Err(errno) = state.carry_out(&step.op, self) {
                let step = u32::try_from(index).unwrap_or(u32::MAX);
                let errno = errno.raw_os_error();
                tell(control, Notice::Failed { step, errno });
                return 1;
            }
        }
        init::serve(control, state.listener.as_ref().map(OwnedFd::as_fd))
    }

    fn close_others(&self) -> Result<()> {
        for stream in 0..3 {
            calls::place(self.null, stream)?;
        }
        let mut next: u32 = 3;
        for number in &self.keep {
            let number = number.cast_unsigned();
            if number > next {
                calls::close_range(next, number - 1)?;
            }
            next = number + 1;
        }
        calls::close_range(next, u32::MAX)
    }
}

/// Tells the supervisor something. If it is gone, there is nobody to tell.
pub(super) fn tell(control: BorrowedFd<'_>, notice: Notice) {
    tell_with(control, notice, &[]);
}

/// Tells the supervisor something and hands it descriptors.
pub(super) fn tell_with(control: BorrowedFd<'_>, notice: Notice, descriptors: &[BorrowedFd<'_>]) {
    let bytes = notice.encode();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    let _sent = sendmsg(
        control,
        &[IoSlice::new(&bytes)],
        &mut ancillary,
        SendFlags::NOSIGNAL,
    );
}

/// The next order, with at most four descriptors. None when the supervisor is gone.
pub(super) fn next_order(
    control: BorrowedFd<'_>,
    descriptors: &mut [Option<OwnedFd>; 4],
) -> Option<Order> {
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
    match next_order(control, &mut [const { None }; 4]) {
        Some(Order::Go) => Ok(()),
        Some(Order::Run { .. } | Order::Signal(_)) | None => Err(Errno::PIPE),
    }
}

/// What the steps leave for later ones.
#[derive(Default)]
struct State {
    old: Option<OwnedFd>,
    new: Option<OwnedFd>,
    listener: Option<OwnedFd>,
}

const TMPFS: &CStr = c"tmpfs";
const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
const ANYTHING: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

impl State {
    fn carry_out(&mut self, op: &Op, start: &Start) -> Result<()> {
        match op {
            Op::Hostname => rustix::system::sethostname(b"airlock"),
            Op::Private => mount_change(
                c"/",
                MountPropagationFlags::PRIVATE | MountPropagationFlags::REC,
            ),
            Op::Base { on } => self.base(on),
            Op::NewRoot { options } => self.new_root(options),
            Op::Scratch { options, owner } => scratch(options, *owner),
            Op::Directory { entry } => self.make(entry, |parent, name| {
                mkdirat(parent, name, Mode::from_raw_mode(0o755))
            }),
            Op::File { entry, text } => {
                self.make(entry, |parent, name| write_new(parent, name, text))
            }
            Op::Link { entry, target } => self.make(entry, |parent, name| {
                symlinkat(target.as_c_str(), parent, name)
            }),
            Op::Text { name, text } => write_new(CWD, name, text),
            Op::Ghost { name, owner } => ghost(name, *owner),
            Op::Bind {
                source,
                place,
                attributes,
                map,
            } => {
                let from = self.open_source(source)?;
                let to = self.place(place, ANYTHING)?;
                let tree = cloned(from.as_fd(), *attributes, *map)?;
                attach(&tree, to.as_fd())
            }
            Op::Keep {
                source,
                at,
                attributes,
                map,
            } => {
                let from = self.open_host(source)?;
                mkdirat(CWD, at.as_c_str(), Mode::from_raw_mode(0o755))?;
                let to = openat(CWD, at.as_c_str(), DIRECTORY, Mode::empty())?;
                let tree = cloned(from.as_fd(), *attributes, *map)?;
                attach(&tree, to.as_fd())
            }
            Op::Mount {
                kind,
                place,
                flags,
                options,
            } => self.mount(kind, place, *flags, options.as_deref()),
            Op::Enter => self.enter(),
            Op::Become => become_user(kept(start.control)),
            Op::Limit {
                resource,
                soft,
                hard,
            } => calls::set_limit(*resource, *soft, *hard),
            Op::Powerless => powerless(),
            Op::Landlock { ruleset, rules } => landlock(ruleset, start.ruleset_bytes, rules),
            Op::Filter { program } => calls::install_filter(program),
            Op::Ask { program, flags } => {
                self.listener = Some(calls::install_listener(program, *flags)?);
                Ok(())
            }
        }
    }

    /// A small file system of our own as root, with the host's beneath it.
    fn base(&mut self, on: &CStr) -> Result<()> {
        umask(Mode::empty());
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
        entry: &Entry,
        make: impl FnOnce(BorrowedFd<'_>, &CStr) -> Result<()>,
    ) -> Result<()> {
        let parent = self.place(&entry.parent, DIRECTORY)?;
        match make(parent.as_fd(), &entry.name) {
            Ok(()) => entry
                .owner
                .map_or(Ok(()), |owner| give(parent.as_fd(), &entry.name, owner)),
            Err(Errno::EXIST) => Ok(()),
            // The parent is seen read-only: what is wanted must be there.
            Err(Errno::ROFS | Errno::ACCESS) => {
                let flags = ANYTHING.union(OFlags::NOFOLLOW);
                beneath(parent.as_fd(), &entry.name, flags, ResolveFlags::IN_ROOT).map(drop)
            }
            Err(errno) => Err(errno),
        }
    }

    fn open_host(&self, path: &CStr) -> Result<OwnedFd> {
        let old = self.old.as_ref().ok_or(Errno::BADF)?;
        // The supervisor resolved every link; one that is met now was put there since.
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS;
        beneath(old.as_fd(), path, ANYTHING, resolve)
    }

    fn open_source(&self, source: &Source) -> Result<OwnedFd> {
        match source {
            Source::Host(path) => self.open_host(path),
            Source::Base(path) => openat(CWD, *path, ANYTHING, Mode::empty()),
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
fn cloned(from: BorrowedFd<'_>, attributes: u64, map: Option<RawFd>) -> Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_RECURSIVE;
    let tree = open_tree(from, c"", flags)?;
    calls::set_mount_attributes(tree.as_fd(), attributes, map.map(kept), true)?;
    Ok(tree)
}

fn attach(tree: &OwnedFd, to: BorrowedFd<'_>) -> Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(tree, c"", to, c"", flags)
}

/// The memory that the writable places share.
fn scratch(options: &CStr, owner: Option<(u32, u32)>) -> Result<()> {
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
fn ghost(name: &CStr, owner: Option<(u32, u32)>) -> Result<()> {
    match mkdirat(CWD, c"/ghost", Mode::from_raw_mode(0o755)) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(errno),
    }
    let layer = openat(CWD, c"/ghost", DIRECTORY, Mode::empty())?;
    mkdirat(&layer, name, Mode::from_raw_mode(0o755))?;
    owner.map_or(Ok(()), |owner| give(layer.as_fd(), name, owner))
}

fn give(parent: BorrowedFd<'_>, name: &CStr, (user, group): (u32, u32)) -> Result<()> {
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

fn landlock(ruleset: &Ruleset, bytes: usize, rules: &[(std::ffi::CString, u64)]) -> Result<()> {
    let held = calls::landlock_ruleset(ruleset, bytes)?;
    for (path, access) in rules {
        let path = openat(CWD, path.as_c_str(), ANYTHING, Mode::empty())?;
        calls::landlock_allow(held.as_fd(), path.as_fd(), *access)?;
    }
    calls::landlock_restrict(held.as_fd())
}
