//! From a plan to the steps of its child.
//!
//! Pure but for what [`Resolved`] has looked up: the same launch gives the same steps.

use super::landlock::{self, Right};
use super::limits::Rlimit;
use super::program::{Entry, INSIDE, Op, Source, Step, attribute};
use super::resolve::{Granted, Kind, Resolved};
use crate::generate::{Mask, SystemEntry};
use crate::launch::{Launch, LayersKind};
use crate::plan::{Access, HostPath};
use crate::presets::{Content, HomeEntry};
use crate::seccomp::Instruction;
use std::collections::BTreeSet;
use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt;

/// Everything the steps are made from.
pub(super) struct Ingredients<'a> {
    pub(super) launch: &'a Launch,
    pub(super) resolved: &'a Resolved,
    /// Host user and group to become, where the supervisor is root.
    pub(super) owner: Option<(u32, u32)>,
    pub(super) limits: &'a [Rlimit],
    pub(super) landlock: u32,
    pub(super) filter: Vec<Instruction>,
    /// The filter that asks the supervisor, with its flags, where a denial needs it.
    pub(super) asking: Option<(Vec<Instruction>, u32)>,
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

/// The steps, in order.
pub(super) fn steps(ingredients: Ingredients<'_>) -> Result<Vec<Step>, Unfit> {
    let mut steps = Steps::default();
    steps.beginning(&ingredients)?;
    steps.system(&ingredients)?;
    steps.kernel_files(&ingredients)?;
    steps.scratch(&ingredients)?;
    for granted in &ingredients.resolved.granted {
        steps.grant(granted, &ingredients)?;
    }
    steps.denials(&ingredients)?;
    steps.ending(ingredients);
    Ok(steps.all)
}

/// Something a plan or a machine has that cannot be said to the kernel.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unfit {
    #[error("`{0}` contains a NUL byte")]
    Nul(String),
    #[error("the layers of the stage must lie side by side under plain names")]
    Layers,
}

#[derive(Default)]
struct Steps {
    all: Vec<Step>,
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
    fn add(&mut self, op: Op, what: impl Into<String>) {
        let what = what.into();
        self.all.push(Step { op, what });
    }

    fn beginning(&mut self, ingredients: &Ingredients<'_>) -> Result<(), Unfit> {
        self.add(Op::Hostname, "name the machine");
        self.add(Op::Private, "keep mounts private");
        let on = text(ingredients.resolved.base.as_os_str().as_bytes())?;
        self.add(Op::Base { on }, "make a base to work from");
        let options = text("mode=0755,size=1m,nr_inodes=4096")?;
        self.add(Op::NewRoot { options }, "make a root");
        let memory = ingredients.launch.plan.limits().memory.as_bytes();
        let (size, files) = (memory / SCRATCH_PART, memory / SCRATCH_FILE);
        let files = files.min(SCRATCH_FILES);
        let options = text(format!("mode=0755,size={size},nr_inodes={files}"))?;
        let owner = ingredients.owner;
        self.add(Op::Scratch { options, owner }, "make memory for files");
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

    fn entry(path: &[u8]) -> Result<Entry, Unfit> {
        let path = relative(path);
        let (parent, name) = match path.iter().rposition(|byte| *byte == b'/') {
            Some(at) => (
                path.get(..at).unwrap_or_default(),
                path.get(at + 1..).unwrap_or_default(),
            ),
            None => (b".".as_slice(), path),
        };
        Ok(Entry {
            parent: text(parent)?,
            name: text(name)?,
            owner: None,
        })
    }

    fn directory(&mut self, path: &[u8]) -> Result<(), Unfit> {
        if relative(path) != b"." && self.made.insert(relative(path).to_vec()) {
            let entry = Self::entry(path)?;
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
                    let entry = Self::entry(path)?;
                    let text = Vec::new();
                    self.add(Op::File { entry, text }, made("file", path));
                }
                Ok(())
            }
        }
    }

    fn link(&mut self, path: &[u8], target: &OsStr) -> Result<(), Unfit> {
        self.parents(path)?;
        let entry = Self::entry(path)?;
        let target = text(target.as_bytes())?;
        self.add(Op::Link { entry, target }, made("link", path));
        Ok(())
    }

    fn bind(&mut self, source: Source, path: &[u8], attributes: u64) -> Result<(), Unfit> {
        let place = text(relative(path))?;
        let op = Op::Bind {
            source,
            place,
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

    fn system(&mut self, ingredients: &Ingredients<'_>) -> Result<(), Unfit> {
        for (entry, kind) in &ingredients.resolved.system {
            match entry {
                SystemEntry::Existing(path) => {
                    let path = bytes(path);
                    self.mount_point(path, *kind)?;
                    let source = Source::Host(text(relative(path))?);
                    self.bind(source, path, SEEN)?;
                    self.right(path, Right::Read, *kind)?;
                }
                SystemEntry::Link { path, target } => self.link(bytes(path), target)?,
            }
        }
        for (mask, empty) in &ingredients.resolved.masks {
            self.hide(mask, *empty)?;
        }
        for (name, place, content) in &ingredients.resolved.texts {
            let text = content.clone();
            self.add(Op::Text { name, text }, made("file", place.as_bytes()));
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

    fn kernel_files(&mut self, ingredients: &Ingredients<'_>) -> Result<(), Unfit> {
        self.directory(b"/proc")?;
        let flags = READ_ONLY | NO_SETUID | NO_DEVICES | NO_EXEC;
        self.mount(c"proc", b"/proc", flags, None)?;
        for name in &ingredients.resolved.proc_hidden {
            let path = [b"/proc/", name.as_bytes()].concat();
            self.bind(Source::Base(c"/nothing"), &path, SEEN)?;
        }
        self.right(b"/proc", Right::Read, Kind::Directory)?;
        self.directory(b"/dev")?;
        for name in DEVICES {
            let path = [b"/dev/", name.as_bytes()].concat();
            self.mount_point(&path, Kind::Other)?;
            let source = Source::Host(text(relative(&path))?);
            self.bind(source, &path, DEVICE)?;
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
        kind: &'static CStr,
        path: &[u8],
        flags: u32,
        options: Option<&str>,
    ) -> Result<(), Unfit> {
        let place = text(relative(path))?;
        let options = options.map(text).transpose()?;
        let op = Op::Mount {
            kind,
            place,
            flags,
            options,
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
        for entry in &ingredients.launch.home {
            self.at_home(entry, home, ingredients.owner)?;
        }
        Ok(())
    }

    /// Puts something into the home, with the directories above it, as the sandbox's own.
    fn at_home(
        &mut self,
        entry: &HomeEntry,
        home: &[u8],
        owner: Option<(u32, u32)>,
    ) -> Result<(), Unfit> {
        let mut at = home.to_vec();
        let names: Vec<&OsStr> = entry.at.iter().collect();
        for (index, name) in names.iter().enumerate() {
            at.push(b'/');
            at.extend(name.as_bytes());
            let mut own = Self::entry(&at)?;
            own.owner = owner;
            if index + 1 < names.len() {
                if self.made.insert(relative(&at).to_vec()) {
                    self.add(Op::Directory { entry: own }, made("directory", &at));
                }
                continue;
            }
            let op = match &entry.content {
                Content::Link(target) => Op::Link {
                    entry: own,
                    target: text(bytes(target))?,
                },
                Content::File(content) => Op::File {
                    entry: own,
                    text: content.clone().into_bytes(),
                },
            };
            self.add(op, made("entry", &at));
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
                return self.seen(path, source, granted, ingredients);
            }
            Access::Read => (SEEN, Right::Read),
            Access::Write => (WRITABLE, Right::Write),
            Access::Stage => {
                self.right(path, Right::Write, Kind::Directory)?;
                return self.stage(path, source, granted, ingredients);
            }
        };
        let op = Op::Bind {
            source: Source::Host(source),
            place: text(relative(path))?,
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
        source: CString,
        granted: &Granted,
        ingredients: &Ingredients<'_>,
    ) -> Result<(), Unfit> {
        let number = self.all.len();
        let keep = Op::Keep {
            source,
            at: text(format!("/seen{number}"))?,
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
        self.mount(c"overlay", path, flags, Some(&options))
    }

    /// The real tree below, the stage above, seen as one.
    fn stage(
        &mut self,
        path: &[u8],
        source: CString,
        granted: &Granted,
        ingredients: &Ingredients<'_>,
    ) -> Result<(), Unfit> {
        let layers = ingredients.launch.layers.as_ref().ok_or(Unfit::Layers)?;
        let (upper, work) = (&layers.upper, &layers.work);
        if layers.kind == LayersKind::Copy {
            let source = Source::Host(text(relative(upper.as_os_str().as_bytes()))?);
            return self.bind(source, path, WRITABLE);
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
            at: c"/lower".to_owned(),
            attributes: SEEN,
            map: granted.map,
        };
        self.add(lower, made("find the workspace for", path));
        let layer = Op::Keep {
            source: text(relative(parent.as_os_str().as_bytes()))?,
            at: c"/layer".to_owned(),
            attributes: WRITABLE,
            map: None,
        };
        self.add(layer, "find the stage");
        // Renaming a directory of the lower layer is refused alike with and without root.
        let own = if ingredients.owner.is_some() {
            "redirect_dir=nofollow,metacopy=off,index=off,xino=off"
        } else {
            "userxattr"
        };
        let mut lower = "/lower";
        for name in &ingredients.resolved.ghosts {
            lower = "/ghost:/lower";
            let name = text(name.as_bytes())?;
            let owner = ingredients.owner;
            self.add(Op::Ghost { name, owner }, "hold a denied place");
        }
        let options = format!(
            "lowerdir={lower},upperdir=/layer/{upper},workdir=/layer/{work},volatile,{own}"
        );
        self.mount(c"overlay", path, NO_SETUID | NO_DEVICES, Some(&options))
    }

    fn denials(&mut self, ingredients: &Ingredients<'_>) -> Result<(), Unfit> {
        for mask in &ingredients.resolved.hidden {
            self.hide(mask, false)?;
        }
        for path in &ingredients.resolved.frozen {
            let path = bytes(path);
            let source = Source::New(text(relative(path))?);
            self.bind(source, path, SEEN)?;
        }
        Ok(())
    }

    fn ending(&mut self, ingredients: Ingredients<'_>) {
        self.add(Op::Enter, "enter the new root");
        self.rights
            .push((c"/".to_owned(), Right::List, Kind::Directory));
        if ingredients.owner.is_some() {
            let what = format!("become user {INSIDE} of a user namespace");
            self.add(Op::Become, what);
        }
        for limit in ingredients.limits {
            let (resource, soft, hard) = (limit.number(), limit.soft, limit.hard);
            let what = format!("set resource limit {resource} to {soft}");
            self.add(
                Op::Limit {
                    resource,
                    soft,
                    hard,
                },
                what,
            );
        }
        self.add(Op::Powerless, "give up capabilities");
        if ingredients.landlock > 0 {
            let ruleset = landlock::ruleset(ingredients.landlock);
            let rights = std::mem::take(&mut self.rights);
            let rules = rights
                .into_iter()
                .map(|(path, right, kind)| {
                    (path, landlock::access(right, kind, ingredients.landlock))
                })
                .collect();
            self.add(Op::Landlock { ruleset, rules }, "raise Landlock rules");
        }
        // The first filter lets no further ones be installed, so it comes last.
        if let Some((program, flags)) = ingredients.asking {
            self.add(Op::Ask { program, flags }, "install the filter for denials");
        }
        let program = ingredients.filter;
        self.add(Op::Filter { program }, "install the seccomp filter");
    }
}

fn made(what: &str, path: &[u8]) -> String {
    let path = String::from_utf8_lossy(path);
    format!("make {what} `{path}`")
}
