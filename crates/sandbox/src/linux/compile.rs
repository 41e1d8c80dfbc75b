//! From a plan to the steps of its child.
//!
//! Pure but for what [`Resolved`] has looked up: the same launch gives the same steps. They come in
//! parts, each of which can be carried out while the next is made: what every sandbox has
//! ([`Steps::beginning`]) and sees ([`Steps::system`]), what its plan gives it ([`Steps::view`]), and
//! what then holds it ([`Steps::ending`]).

use super::landlock::{self, Right};
use super::limits::Rlimit;
use super::program::{Entry, INSIDE, Op, Owner, RuleList, Source, Writer, attribute, filter_bytes};
use super::resolve::{Granted, Ground, Kind, Resolved, Seen};
use crate::generate::{Mask, SystemEntry};
use crate::launch::{KERNEL_SOCKET, Launch, LayersKind};
use crate::plan::{Access, HostPath};
use crate::presets::{Content, HomeEntry};
use crate::seccomp::Instruction;
use crate::stage::UPPER;
use std::collections::BTreeSet;
use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// What a sandbox sees.
pub(super) struct Ingredients<'a> {
    pub(super) launch: &'a Launch,
    pub(super) resolved: &'a Resolved,
    /// Host user and group to become, where the supervisor is root.
    pub(super) owner: Option<Owner>,
}

/// What holds a sandbox once it sees what it may.
pub(super) struct Walls<'a> {
    /// Lists of tasks of its cgroups, which it joins by itself.
    pub(super) groups: Vec<PathBuf>,
    pub(super) limits: &'a [Rlimit],
    pub(super) landlock: u32,
    pub(super) filter: Vec<Instruction>,
    /// The filter that asks the supervisor, with its flags, where a denial needs it.
    pub(super) asking: Option<(Vec<Instruction>, u32)>,
    /// Whether it is still the host's root.
    pub(super) as_root: bool,
}

const SEEN: u64 = attribute::READ_ONLY | attribute::NO_SETUID | attribute::NO_DEVICES;
const WRITABLE: u64 = attribute::NO_SETUID | attribute::NO_DEVICES;
const DEVICE: u64 = attribute::NO_SETUID | attribute::NO_EXEC;

const READ_ONLY: u32 = 1;
const NO_SETUID: u32 = 2;
const NO_DEVICES: u32 = 4;
const NO_EXEC: u32 = 8;

/// Devices that do no harm.
const DEVICES: &[&str] = &["null", "zero", "full", "random", "urandom", "tty"];
/// Links in `/dev`, and what they say.
const DEVICE_LINKS: &[(&str, &str)] = &[
    ("ptmx", "pts/ptmx"),
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
];
/// Writable places in memory: where, and which part of the scratch.
const SCRATCH: &[(&str, &CStr)] = &[("/tmp", c"/scratch/tmp"), ("/dev/shm", c"/scratch/shm")];
/// The part of memory they may take together. What fills them stays when a command ends: with all
/// of memory the next one, or init, would be killed for it.
const SCRATCH_PART: u64 = 2;
/// Memory for each inode they may have together: one costs the kernel about a kibibyte.
const SCRATCH_FILE: u64 = 8 << 10;
/// The most of them, however much memory there is.
const SCRATCH_FILES: u64 = 131_072;

/// Parts of `/proc` that show what nobody inside needs: hidden. All of `/proc` is read-only.
pub(super) const PROC_HIDDEN: &[&str] = &[
    "kcore",
    "kmsg",
    "kallsyms",
    "keys",
    "key-users",
    "sysrq-trigger",
    "timer_list",
];

/// Something a plan or a machine has that cannot be said to the kernel.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unfit {
    #[error("`{0}` contains a NUL byte")]
    Nul(String),
    #[error("the layers of the stage must lie side by side under plain names")]
    Layers,
}

/// The steps of one child.
#[derive(Debug, Default)]
pub(super) struct Steps {
    /// Those that were not handed over yet.
    writer: Writer,
    /// What each is for, in the words people are told when it fails.
    words: Vec<String>,
    made: BTreeSet<Vec<u8>>,
    rights: Vec<(CString, Right, Kind)>,
}

fn text(value: impl AsRef<[u8]>) -> Result<CString, Unfit> {
    let bytes = value.as_ref();
    CString::new(bytes).map_err(|_| Unfit::Nul(String::from_utf8_lossy(bytes).into_owned()))
}

/// A path as it is found from a root: without the leading slash.
fn relative(path: &[u8]) -> &[u8] {
    match path.strip_prefix(b"/").unwrap_or(path) {
        [] => b".",
        rest => rest,
    }
}

fn bytes(path: &HostPath) -> &[u8] {
    path.as_os_str().as_bytes()
}

impl Steps {
    fn add(&mut self, op: Op<'_>, words: impl Into<String>) {
        self.writer.add(op);
        self.words.push(words.into());
    }

    /// Hands over the steps that were added since this was last asked.
    pub(super) fn take(&mut self) -> io::Result<OwnedFd> {
        std::mem::take(&mut self.writer).seal()
    }

    /// What the step of this number was for.
    pub(super) fn words(&self, step: u32) -> &str {
        let step = usize::try_from(step).unwrap_or(usize::MAX);
        self.words.get(step).map_or("", String::as_str)
    }

    /// What every sandbox has: a root in the making, the kernel's own files and harmless devices.
    pub(super) fn beginning(&mut self, ground: &Ground) -> Result<(), Unfit> {
        self.add(Op::Hostname, "name the machine");
        self.add(Op::Private, "keep mounts private");
        let on = text(ground.base.as_os_str().as_bytes())?;
        self.add(Op::Base { on: &on }, "make a base to work from");
        let options = c"mode=0755,size=1m,nr_inodes=4096";
        self.add(Op::NewRoot { options }, "make a root");
        self.kernel_files(ground)
    }

    /// What its plan lets it see.
    pub(super) fn view(&mut self, ingredients: &Ingredients<'_>) -> Result<(), Unfit> {
        self.memory(ingredients)?;
        self.scratch(ingredients)?;
        if ingredients.launch.plan.has_socket() {
            self.kernel_socket(ingredients.owner)?;
        }
        for granted in &ingredients.resolved.granted {
            self.grant(granted, ingredients)?;
        }
        self.denials(ingredients)
    }

    fn memory(&mut self, ingredients: &Ingredients<'_>) -> Result<(), Unfit> {
        let memory = ingredients.launch.plan.limits().memory.as_bytes();
        let (size, files) = (memory / SCRATCH_PART, memory / SCRATCH_FILE);
        let files = files.min(SCRATCH_FILES);
        let options = text(format!("mode=0755,size={size},nr_inodes={files}"))?;
        let owner = ingredients.owner;
        let op = Op::Scratch {
            options: &options,
            owner,
        };
        self.add(op, "make memory for files");
        Ok(())
    }

    /// Makes the directories above `path`.
    fn parents(&mut self, path: &[u8]) -> Result<(), Unfit> {
        let path = relative(path);
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        let ends: Vec<usize> = ends.map(|(index, _)| index).collect();
        for end in ends {
            self.directory(path.get(..end).unwrap_or_default())?;
        }
        Ok(())
    }

    /// The directory a path lies in, and its name there.
    fn split(path: &[u8]) -> Result<(CString, CString), Unfit> {
        let path = relative(path);
        let (parent, name) = match path.iter().rposition(|byte| *byte == b'/') {
            Some(at) => (
                path.get(..at).unwrap_or_default(),
                path.get(at + 1..).unwrap_or_default(),
            ),
            None => (b".".as_slice(), path),
        };
        Ok((text(parent)?, text(name)?))
    }

    fn directory(&mut self, path: &[u8]) -> Result<(), Unfit> {
        if relative(path) != b"." && self.made.insert(relative(path).to_vec()) {
            let (parent, name) = Self::split(path)?;
            let entry = entry(&parent, &name, None);
            self.add(Op::Directory { entry }, made("directory", path));
        }
        Ok(())
    }

    fn mount_point(&mut self, path: &[u8], kind: Kind) -> Result<(), Unfit> {
        self.parents(path)?;
        match kind {
            Kind::Directory => self.directory(path),
            Kind::Other => {
                if self.made.insert(relative(path).to_vec()) {
                    let (parent, name) = Self::split(path)?;
                    let entry = entry(&parent, &name, None);
                    self.add(Op::File { entry, text: &[] }, made("file", path));
                }
                Ok(())
            }
        }
    }

    fn link(&mut self, path: &[u8], target: &OsStr) -> Result<(), Unfit> {
        self.parents(path)?;
        let (parent, name) = Self::split(path)?;
        let op = Op::Link {
            entry: entry(&parent, &name, None),
            target: &text(target.as_bytes())?,
        };
        self.add(op, made("link", path));
        Ok(())
    }

    fn bind(&mut self, source: Source<'_>, path: &[u8], attributes: u64) -> Result<(), Unfit> {
        let op = Op::Bind {
            source,
            place: &text(relative(path))?,
            attributes,
            map: None,
        };
        self.add(op, made("mount at", path));
        Ok(())
    }

    fn right(&mut self, path: &[u8], right: Right, kind: Kind) -> Result<(), Unfit> {
        self.rights.push((text(path)?, right, kind));
        Ok(())
    }

    /// What every sandbox sees of the system.
    pub(super) fn system(&mut self, seen: &Seen) -> Result<(), Unfit> {
        for (entry, kind) in &seen.system {
            match entry {
                SystemEntry::Existing(path) => {
                    let path = bytes(path);
                    self.mount_point(path, *kind)?;
                    let source = text(relative(path))?;
                    self.bind(Source::Host(&source), path, SEEN)?;
                    self.right(path, Right::Read, *kind)?;
                }
                SystemEntry::Link { path, target } => self.link(bytes(path), target)?,
            }
        }
        for (mask, empty) in &seen.masks {
            self.hide(mask, *empty)?;
        }
        for (name, place, content) in &seen.texts {
            let op = Op::Text {
                name,
                text: content,
            };
            self.add(op, made("file", place.as_bytes()));
            self.bind(Source::Base(name), place.as_bytes(), SEEN)?;
        }
        Ok(())
    }

    fn hide(&mut self, mask: &Mask, empty: bool) -> Result<(), Unfit> {
        let (source, path) = match mask {
            Mask::Directory(path) => (c"/denied", path),
            Mask::File(path) if empty => (c"/null", path),
            Mask::File(path) => (c"/nothing", path),
        };
        self.bind(Source::Base(source), bytes(path), SEEN)
    }

    fn kernel_files(&mut self, ground: &Ground) -> Result<(), Unfit> {
        self.directory(b"/proc")?;
        let flags = READ_ONLY | NO_SETUID | NO_DEVICES | NO_EXEC;
        self.mount(c"proc", b"/proc", flags, None)?;
        for name in &ground.proc_hidden {
            let path = [b"/proc/", name.as_bytes()].concat();
            self.bind(Source::Base(c"/nothing"), &path, SEEN)?;
        }
        self.right(b"/proc", Right::Read, Kind::Directory)?;
        self.directory(b"/dev")?;
        for name in DEVICES {
            let path = [b"/dev/", name.as_bytes()].concat();
            self.mount_point(&path, Kind::Other)?;
            let source = text(relative(&path))?;
            self.bind(Source::Host(&source), &path, DEVICE)?;
        }
        for (name, target) in DEVICE_LINKS {
            self.link(&[b"/dev/", name.as_bytes()].concat(), OsStr::new(target))?;
        }
        self.directory(b"/dev/pts")?;
        let options = Some("newinstance,ptmxmode=0666,mode=0620");
        self.mount(c"devpts", b"/dev/pts", NO_SETUID | NO_EXEC, options)?;
        self.right(b"/dev", Right::Devices, Kind::Directory)
    }

    fn mount(
        &mut self,
        kind: &CStr,
        path: &[u8],
        flags: u32,
        options: Option<&str>,
    ) -> Result<(), Unfit> {
        let options = options.map(text).transpose()?;
        let op = Op::Mount {
            kind,
            place: &text(relative(path))?,
            flags,
            options: options.as_deref(),
        };
        let what = format!("mount {} at", kind.to_string_lossy());
        self.add(op, made(&what, path));
        Ok(())
    }

    fn scratch(&mut self, ingredients: &Ingredients<'_>) -> Result<(), Unfit> {
        self.link(b"/var/tmp", OsStr::new("/tmp"))?;
        self.directory(b"/run")?;
        let home = bytes(&ingredients.launch.base.home);
        let places = SCRATCH
            .iter()
            .map(|(path, source)| (path.as_bytes(), *source));
        for (path, source) in places.chain([(home, c"/scratch/home")]) {
            self.mount_point(path, Kind::Directory)?;
            self.bind(Source::Base(source), path, WRITABLE)?;
            self.right(path, Right::Write, Kind::Directory)?;
        }
        for one in &ingredients.launch.home {
            self.at_home(one, home, ingredients.owner)?;
        }
        Ok(())
    }

    /// The way to the kernel. It is made here, and whoever may accept is outside: nothing of the
    /// host's is shown for it, and the root it lies in is read-only in the end.
    fn kernel_socket(&mut self, owner: Option<Owner>) -> Result<(), Unfit> {
        let path = KERNEL_SOCKET.as_bytes();
        self.parents(path)?;
        let (parent, name) = Self::split(path)?;
        let entry = entry(&parent, &name, owner);
        self.add(Op::Listen { entry }, made("socket", path));
        Ok(())
    }

    /// Puts something into the home, with the directories above it, as the sandbox's own.
    fn at_home(
        &mut self,
        wanted: &HomeEntry,
        home: &[u8],
        owner: Option<Owner>,
    ) -> Result<(), Unfit> {
        let mut at = home.to_vec();
        let names: Vec<&OsStr> = wanted.at.iter().collect();
        for (index, name) in names.iter().enumerate() {
            at.push(b'/');
            at.extend(name.as_bytes());
            let (parent, name) = Self::split(&at)?;
            let own = entry(&parent, &name, owner);
            if index + 1 < names.len() {
                if self.made.insert(relative(&at).to_vec()) {
                    self.add(Op::Directory { entry: own }, made("directory", &at));
                }
                continue;
            }
            let words = made("entry", &at);
            match &wanted.content {
                Content::Link(target) => {
                    let target = &text(bytes(target))?;
                    self.add(Op::Link { entry: own, target }, words);
                }
                Content::File(content) => {
                    let text = content.as_bytes();
                    self.add(Op::File { entry: own, text }, words);
                }
            }
        }
        Ok(())
    }

    fn grant(&mut self, granted: &Granted, ingredients: &Ingredients<'_>) -> Result<(), Unfit> {
        let path = bytes(&granted.place);
        self.mount_point(path, granted.kind)?;
        let source = text(relative(granted.source.as_os_str().as_bytes()))?;
        let (attributes, right) = match granted.access {
            Access::Read if granted.kind == Kind::Directory => {
                self.right(path, Right::Read, Kind::Directory)?;
                return self.seen(path, &source, granted, ingredients);
            }
            Access::Read => (SEEN, Right::Read),
            Access::Write => (WRITABLE, Right::Write),
            Access::Stage => {
                self.right(path, Right::Write, Kind::Directory)?;
                return self.stage(path, &source, granted, ingredients);
            }
        };
        let op = Op::Bind {
            source: Source::Host(&source),
            place: &text(relative(path))?,
            attributes,
            map: granted.map,
        };
        self.add(op, made("mount at", path));
        self.right(path, right, granted.kind)
    }

    /// A directory of the host that is only read. Being seen through an overlay takes the life out of
    /// the sockets in it: a read-only mount would let them be connected to.
    fn seen(
        &mut self,
        path: &[u8],
        source: &CStr,
        granted: &Granted,
        ingredients: &Ingredients<'_>,
    ) -> Result<(), Unfit> {
        let number = self.words.len();
        let keep = Op::Keep {
            source,
            at: &text(format!("/seen{number}"))?,
            attributes: SEEN,
            map: granted.map,
        };
        self.add(keep, made("find what is seen at", path));
        let own = if ingredients.owner.is_some() {
            "redirect_dir=nofollow,metacopy=off"
        } else {
            "userxattr"
        };
        let options = format!("lowerdir=/empty:/seen{number},{own}");
        let flags = READ_ONLY | NO_SETUID | NO_DEVICES;
        self.overlay(path, flags, &options)
    }

    /// The real tree below, the stage above, seen as one.
    fn stage(
        &mut self,
        path: &[u8],
        source: &CStr,
        granted: &Granted,
        ingredients: &Ingredients<'_>,
    ) -> Result<(), Unfit> {
        let layers = ingredients.launch.layers.as_ref().ok_or(Unfit::Layers)?;
        let (upper, work) = (&layers.upper, &layers.work);
        if layers.kind == LayersKind::Copy {
            let source = text(relative(upper.as_os_str().as_bytes()))?;
            return self.bind(Source::Host(&source), path, WRITABLE);
        }
        let beside = upper
            .parent()
            .filter(|parent| work.parent() == Some(parent));
        let plain = |name: Option<&OsStr>| {
            let name = name.and_then(OsStr::to_str)?;
            let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric());
            plain.then(|| name.to_owned())
        };
        let (Some(parent), Some(upper), Some(work)) =
            (beside, plain(upper.file_name()), plain(work.file_name()))
        else {
            return Err(Unfit::Layers);
        };
        let lower = Op::Keep {
            source,
            at: c"/lower",
            attributes: SEEN,
            map: granted.map,
        };
        self.add(lower, made("find the workspace for", path));
        let layer = Op::Keep {
            source: &text(relative(parent.as_os_str().as_bytes()))?,
            at: c"/layer",
            attributes: WRITABLE,
            map: None,
        };
        self.add(layer, "find the stage");
        // Renaming a directory of the lower layer is refused alike with and without root.
        let own = if ingredients.owner.is_some() {
            "redirect_dir=nofollow,metacopy=off,index=off,xino=off"
        } else {
            "userxattr,index=off"
        };
        let mut lower = match layers.kind {
            LayersKind::Trial => format!("/layer/{UPPER}:/lower"),
            LayersKind::Overlay | LayersKind::Copy => "/lower".to_owned(),
        };
        for (number, name) in ingredients.resolved.ghosts.iter().enumerate() {
            if number == 0 {
                lower.insert_str(0, "/ghost:");
            }
            let op = Op::Ghost {
                name: &text(name.as_bytes())?,
                owner: ingredients.owner,
            };
            self.add(op, "hold a denied place");
        }
        let options = format!(
            "lowerdir={lower},upperdir=/layer/{upper},workdir=/layer/{work},volatile,{own}"
        );
        self.overlay(path, NO_SETUID | NO_DEVICES, &options)
    }

    fn overlay(&mut self, path: &[u8], flags: u32, options: &str) -> Result<(), Unfit> {
        self.mount(c"overlay", path, flags, Some(options))?;
        let op = Op::Pick {
            place: &text(relative(path))?,
            read_only: flags & READ_ONLY != 0,
        };
        self.add(op, made("it possible to look again at", path));
        Ok(())
    }

    fn denials(&mut self, ingredients: &Ingredients<'_>) -> Result<(), Unfit> {
        for mask in &ingredients.resolved.hidden {
            self.hide(mask, false)?;
        }
        for path in &ingredients.resolved.frozen {
            let path = bytes(path);
            let source = text(relative(path))?;
            self.bind(Source::New(&source), path, SEEN)?;
        }
        Ok(())
    }

    /// What then holds it, to the last wall.
    pub(super) fn ending(&mut self, walls: &Walls<'_>) -> Result<(), Unfit> {
        for tasks in &walls.groups {
            let tasks = text(relative(tasks.as_os_str().as_bytes()))?;
            self.add(Op::Join { tasks: &tasks }, "join the sandbox's cgroup");
        }
        self.add(Op::Enter, "enter the new root");
        if walls.as_root {
            let words = format!("become user {INSIDE} of a user namespace");
            self.add(Op::Become, words);
        }
        for limit in walls.limits {
            let (resource, soft, hard) = (limit.number(), limit.soft, limit.hard);
            let words = format!("set resource limit {resource} to {soft}");
            let op = Op::Limit {
                resource,
                soft,
                hard,
            };
            self.add(op, words);
        }
        self.add(Op::Powerless, "give up capabilities");
        self.landlock(walls.landlock);
        // The first filter lets no further ones be installed, so it comes last.
        if let Some((program, flags)) = &walls.asking {
            let op = Op::Ask {
                program: &filter_bytes(program),
                flags: *flags,
            };
            self.add(op, "install the filter for denials");
        }
        let program = &filter_bytes(&walls.filter);
        self.add(Op::Filter { program }, "install the seccomp filter");
        self.add(Op::Serve, "begin to take commands");
        Ok(())
    }

    fn landlock(&mut self, version: u32) {
        if version == 0 {
            return;
        }
        let mut list = RuleList::default();
        for (path, right, kind) in std::mem::take(&mut self.rights) {
            list.allow(&path, landlock::access(right, kind, version));
        }
        list.allow(
            c"/",
            landlock::access(Right::List, Kind::Directory, version),
        );
        let op = Op::Landlock {
            ruleset: landlock::ruleset(version),
            known: landlock::ruleset_bytes(version),
            rules: list.rules(),
        };
        self.add(op, "raise Landlock rules");
    }
}

const fn entry<'a>(parent: &'a CStr, name: &'a CStr, owner: Option<Owner>) -> Entry<'a> {
    Entry {
        parent,
        name,
        owner,
    }
}

fn made(what: &str, path: &[u8]) -> String {
    let path = String::from_utf8_lossy(path);
    format!("make {what} `{path}`")
}
