//! Where this process stands among the cgroups, from `/proc/self/cgroup` and
//! `/proc/self/mountinfo`. Pure: it reads texts, not the machine.
//!
//! Names and mount points are bytes and data: the kernel escapes white space in the one file and
//! forbids newlines in the other, so a cgroup named to mislead stays a name.

use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

/// A controller that holds something here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Controller {
    Memory,
    Pids,
    Cpu,
    /// Only in version 1; version 2 freezes by itself.
    Freezer,
}

impl Controller {
    pub(super) const ALL: &'static [Self] = &[Self::Memory, Self::Pids, Self::Cpu, Self::Freezer];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Pids => "pids",
            Self::Cpu => "cpu",
            Self::Freezer => "freezer",
        }
    }

    fn named(name: &[u8]) -> Option<Self> {
        let mut all = Self::ALL.iter().copied();
        all.find(|controller| controller.name().as_bytes() == name)
    }
}

/// The two interfaces cgroups have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    One,
    Two,
}

/// Our own cgroup in one hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) version: Version,
    /// The mount point: nothing above it is a cgroup.
    pub(super) mount: PathBuf,
    /// Our own cgroup, as a directory.
    pub(super) directory: PathBuf,
    /// What this hierarchy controls; version 2 says that in its files.
    pub(super) controllers: Vec<Controller>,
}

/// Every place that could be of use, and why others are not.
pub(super) fn places(cgroup: &[u8], mountinfo: &[u8]) -> (Vec<Place>, Vec<String>) {
    let mut places: Vec<Place> = Vec::new();
    let mut why_not = Vec::new();
    let memberships: Vec<Membership<'_>> = lines(cgroup).filter_map(Membership::parse).collect();
    for mount in lines(mountinfo).filter_map(Mount::parse) {
        let Some(membership) = memberships.iter().find(|one| one.is_in(&mount)) else {
            continue;
        };
        // The same hierarchy may be mounted again; the first that shows our cgroup will do.
        let known = |place: &Place| {
            place.version == mount.version && place.controllers == mount.controllers
        };
        if places.iter().any(known) {
            continue;
        }
        match mount.directory_of(membership.path) {
            Some(directory) => places.push(Place {
                version: mount.version,
                mount: mount.point,
                directory,
                controllers: mount.controllers,
            }),
            None => why_not.push(format!(
                "our cgroup `{}` is not under what is mounted at `{}`",
                String::from_utf8_lossy(membership.path),
                mount.point.display()
            )),
        }
    }
    if places.is_empty() && why_not.is_empty() {
        why_not.push("no cgroup file system is mounted".to_owned());
    }
    (places, why_not)
}

fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
}

/// One line of `/proc/self/cgroup`: `ID:CONTROLLERS:PATH`.
struct Membership<'a> {
    version: Version,
    controllers: Vec<Controller>,
    path: &'a [u8],
}

impl<'a> Membership<'a> {
    fn parse(line: &'a [u8]) -> Option<Self> {
        // A path may have colons of its own.
        let mut parts = line.splitn(3, |byte| *byte == b':');
        let (number, names, path) = (parts.next()?, parts.next()?, parts.next()?);
        let version = match (number, names) {
            (b"0", b"") => Version::Two,
            _ => Version::One,
        };
        Some(Self {
            version,
            controllers: controllers(names),
            path,
        })
    }

    fn is_in(&self, mount: &Mount) -> bool {
        self.version == mount.version && self.controllers == mount.controllers
    }
}

fn controllers(names: &[u8]) -> Vec<Controller> {
    let names = names.split(|byte| *byte == b',');
    let mut found: Vec<Controller> = names.filter_map(Controller::named).collect();
    found.sort_unstable();
    found
}

/// A cgroup file system, from one line of `/proc/self/mountinfo`.
struct Mount {
    version: Version,
    controllers: Vec<Controller>,
    /// The cgroup that is seen at the mount point.
    root: PathBuf,
    point: PathBuf,
}

impl Mount {
    fn parse(line: &[u8]) -> Option<Self> {
        let fields: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        // Optional fields end with a lone dash; the mount point cannot be one, it starts with `/`.
        let dash = fields.iter().position(|field| *field == b"-")?;
        let version = match *fields.get(dash + 1)? {
            b"cgroup" => Version::One,
            b"cgroup2" => Version::Two,
            _ => return None,
        };
        let controllers = match version {
            Version::One => controllers(fields.get(dash + 3)?),
            Version::Two => Vec::new(),
        };
        // A hierarchy of none of ours, such as systemd's own, holds nothing.
        if version == Version::One && controllers.is_empty() {
            return None;
        }
        Some(Self {
            version,
            controllers,
            root: unescape(fields.get(3)?),
            point: unescape(fields.get(4)?),
        })
    }

    /// The directory of a cgroup, if it lies under what is mounted here.
    fn directory_of(&self, path: &[u8]) -> Option<PathBuf> {
        let path = Path::new(OsStr::from_bytes(path));
        let rest = path.strip_prefix(&self.root).ok()?;
        // A cgroup outside our namespace is shown with `..`.
        let plain = |part: Component<'_>| matches!(part, Component::Normal(_));
        rest.components().all(plain).then(|| {
            if rest.as_os_str().is_empty() {
                self.point.clone()
            } else {
                self.point.join(rest)
            }
        })
    }
}

/// Undoes the octal escapes of white space and backslashes.
fn unescape(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, tail)) = rest.split_first() {
        let code = tail.get(..3).filter(|_| *first == b'\\').and_then(octal);
        if let Some(byte) = code {
            bytes.push(byte);
            rest = tail.get(3..).unwrap_or_default();
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    std::ffi::OsString::from_vec(bytes).into()
}

fn octal(digits: &[u8]) -> Option<u8> {
    u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok()
}
