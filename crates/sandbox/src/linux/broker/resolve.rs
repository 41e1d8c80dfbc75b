//! From a path a process names to the file it means, inside the sandbox's root.
//!
//! The kernel resolves in one call what has no surprises. Everything else - links that leave the
//! directory it started in, `/proc`, names that are missing - is walked name by name, with each
//! directory held open, so that nothing can be exchanged behind it. Neither way leaves the root:
//! `..` stops there, and absolute links start there.
//!
//! What is found is a bare descriptor (`O_PATH`): nothing has been opened, and nothing is judged.

use super::procfs;
use super::target::Request;
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, Stat, fstat, openat, openat2, readlinkat};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The kernel's own limit.
const LINKS: usize = 40;
const BARE: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// Whether a link at the end of a path is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Last {
    Follow,
    Keep,
}

/// A file that is there.
pub(super) struct Found {
    pub(super) file: OwnedFd,
    pub(super) stat: Stat,
}

impl Found {
    pub(super) fn new(file: OwnedFd) -> Result<Self, Errno> {
        let stat = fstat(&file)?;
        Ok(Self { file, stat })
    }

    pub(super) fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.stat.st_mode)
    }
}

/// A name in a directory.
pub(super) struct Entry {
    pub(super) directory: OwnedFd,
    /// With a slash at the end if the path had one: the kernel then wants a directory.
    pub(super) name: Vec<u8>,
}

/// Where a path leads.
pub(super) enum End {
    Found(Found),
    /// To a name that is not there, in a directory that is.
    Missing(Entry),
}

/// Where a path is resolved, and how.
pub(super) struct Route<'a> {
    /// Where a relative path begins.
    pub(super) descriptor: i32,
    pub(super) path: &'a [u8],
    pub(super) last: Last,
    /// What the process itself forbids on the way.
    pub(super) limits: ResolveFlags,
}

impl<'a> Route<'a> {
    pub(super) fn new(descriptor: i32, path: &'a [u8], last: Last) -> Self {
        Self {
            descriptor,
            path,
            last,
            limits: ResolveFlags::empty(),
        }
    }
}

const SCOPED: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::IN_ROOT);

impl Request<'_> {
    /// Where a path leads.
    pub(super) fn resolve(&self, route: &Route<'_>) -> Result<End, Errno> {
        if route.limits.intersects(SCOPED) {
            return self.resolve_scoped(route);
        }
        let base = if is_absolute(route.path) {
            None
        } else {
            Some(self.base(route.descriptor)?)
        };
        if route.limits.is_empty()
            && let Ok(file) = self.at_once(base.as_ref(), route)
        {
            let found = Found::new(file)?;
            if Some(found.stat.st_dev) != self.shared.process_device {
                return Ok(End::Found(found));
            }
        }
        self.walk(base, route)
    }

    /// Where a path leads that must be there.
    pub(super) fn find(&self, route: &Route<'_>) -> Result<Found, Errno> {
        match self.resolve(route)? {
            End::Found(found) => Ok(found),
            End::Missing(_) => Err(Errno::NOENT),
        }
    }

    /// The directory a path's last name is in, whether or not the name is there.
    pub(super) fn entry(&self, descriptor: i32, path: &[u8]) -> Result<Entry, Errno> {
        let (above, name) = split(path);
        let found = self.find(&Route::new(descriptor, above, Last::Follow))?;
        if found.kind() != FileType::Directory {
            return Err(Errno::NOTDIR);
        }
        Ok(Entry {
            directory: found.file,
            name,
        })
    }

    fn at_once(&self, base: Option<&OwnedFd>, route: &Route<'_>) -> Result<OwnedFd, Errno> {
        let flags = match route.last {
            Last::Follow => BARE,
            Last::Keep => BARE | OFlags::NOFOLLOW,
        };
        let (start, limits) = match base {
            None => (&self.shared.root, ResolveFlags::IN_ROOT),
            Some(base) => (base, ResolveFlags::BENEATH),
        };
        openat2(start, route.path, flags, Mode::empty(), limits)
    }

    /// Inside the directory the process names, by the kernel alone: it notices directories moved
    /// out meanwhile, which no walk can.
    fn resolve_scoped(&self, route: &Route<'_>) -> Result<End, Errno> {
        let base = self.base(route.descriptor)?;
        let flags = match route.last {
            Last::Follow => BARE,
            Last::Keep => BARE | OFlags::NOFOLLOW,
        };
        let resolve = |path: &[u8], flags| {
            let found = Found::new(openat2(&base, path, flags, Mode::empty(), route.limits)?)?;
            if Some(found.stat.st_dev) == self.shared.process_device {
                return Err(Errno::XDEV);
            }
            Ok(found)
        };
        match resolve(route.path, flags) {
            Ok(found) => Ok(End::Found(found)),
            Err(Errno::NOENT) => {
                let (above, name) = split(route.path);
                let directory = resolve(above, BARE | OFlags::DIRECTORY)?.file;
                match openat(&directory, &*name, BARE | OFlags::NOFOLLOW, Mode::empty()) {
                    // A link to nowhere, which only a walk could follow.
                    Ok(_) => Err(Errno::LOOP),
                    Err(Errno::NOENT) => Ok(End::Missing(Entry { directory, name })),
                    Err(error) => Err(error),
                }
            }
            Err(error) => Err(error),
        }
    }

    fn walk(&self, base: Option<OwnedFd>, route: &Route<'_>) -> Result<End, Errno> {
        let mut walk = Walk {
            request: self,
            here: match base {
                None => self.top()?,
                Some(base) => Found::new(base)?,
            },
            rest: Vec::new(),
            links: 0,
            directory: false,
            limits: route.limits,
        };
        if walk.here.kind() != FileType::Directory {
            return Err(Errno::NOTDIR);
        }
        walk.push(route.path);
        walk.run(route.last)
    }

    fn top(&self) -> Result<Found, Errno> {
        Found::new(self.shared.root.try_clone().map_err(|_| Errno::MFILE)?)
    }
}

/// A path being walked.
struct Walk<'a> {
    request: &'a Request<'a>,
    here: Found,
    /// The names to go, the next at the end.
    rest: Vec<Vec<u8>>,
    links: usize,
    /// Whether the end must be a directory.
    directory: bool,
    limits: ResolveFlags,
}

impl Walk<'_> {
    fn push(&mut self, path: &[u8]) {
        if self.rest.is_empty() {
            let last = path.rsplit(|byte| *byte == b'/').next();
            self.directory |= matches!(last, Some(b"" | b"." | b".."));
        }
        let names = path
            .split(|byte| *byte == b'/')
            .filter(|name| !matches!(*name, b"" | b"."));
        self.rest.extend(names.rev().map(<[u8]>::to_vec));
    }

    fn run(mut self, last: Last) -> Result<End, Errno> {
        while let Some(name) = self.rest.pop() {
            if name == b".." {
                self.climb()?;
                continue;
            }
            let ends = self.rest.is_empty();
            let follow = !ends || last == Last::Follow || self.directory;
            if follow && self.stands_for_itself(&name)? {
                continue;
            }
            let flags = BARE | OFlags::NOFOLLOW;
            let next = match openat(&self.here.file, &*name, flags, Mode::empty()) {
                Ok(next) => Found::new(next)?,
                Err(Errno::NOENT) if ends && !self.directory => {
                    return Ok(End::Missing(Entry {
                        directory: self.here.file,
                        name,
                    }));
                }
                Err(error) => return Err(error),
            };
            if next.kind() == FileType::Symlink && follow {
                self.follow(&name, &next)?;
                continue;
            }
            if (!ends || self.directory) && next.kind() != FileType::Directory {
                return Err(Errno::NOTDIR);
            }
            self.step(next)?;
        }
        if self.directory && self.here.kind() != FileType::Directory {
            return Err(Errno::NOTDIR);
        }
        Ok(End::Found(self.here))
    }

    fn step(&mut self, next: Found) -> Result<(), Errno> {
        let crossed = next.stat.st_dev != self.here.stat.st_dev;
        if crossed && self.limits.contains(ResolveFlags::NO_XDEV) {
            return Err(Errno::XDEV);
        }
        self.here = next;
        Ok(())
    }

    fn climb(&mut self) -> Result<(), Errno> {
        if same(&self.here.stat, &self.request.shared.root_stat) {
            return Ok(());
        }
        let flags = BARE | OFlags::DIRECTORY;
        let above = openat(&self.here.file, "..", flags, Mode::empty())?;
        self.step(Found::new(above)?)
    }

    fn in_processes(&self) -> bool {
        Some(self.here.stat.st_dev) == self.request.shared.process_device
    }

    /// `self` and `thread-self` of `/proc` mean the asking process, and not the broker.
    fn stands_for_itself(&mut self, name: &[u8]) -> Result<bool, Errno> {
        if !self.in_processes() || self.here.stat.st_ino != procfs::TOP {
            return Ok(false);
        }
        let status = self.request.status()?;
        let path = match name {
            b"self" => status.process.to_string(),
            b"thread-self" => format!("{}/task/{}", status.process, status.thread),
            _ => return Ok(false),
        };
        self.count_link()?;
        self.push(path.as_bytes());
        Ok(true)
    }

    fn count_link(&mut self) -> Result<(), Errno> {
        self.links += 1;
        if self.links > LINKS || self.limits.contains(ResolveFlags::NO_SYMLINKS) {
            return Err(Errno::LOOP);
        }
        Ok(())
    }

    fn follow(&mut self, name: &[u8], link: &Found) -> Result<(), Errno> {
        self.count_link()?;
        if Some(link.stat.st_dev) == self.request.shared.process_device {
            let here: BorrowedFd<'_> = self.here.file.as_fd();
            let target = self
                .request
                .follow_process_link(here, name, link.file.as_fd())?;
            if let Some(target) = target {
                if self.limits.contains(ResolveFlags::NO_MAGICLINKS) {
                    return Err(Errno::LOOP);
                }
                let target = Found::new(target)?;
                if !self.rest.is_empty() && target.kind() != FileType::Directory {
                    return Err(Errno::NOTDIR);
                }
                return self.step(target);
            }
        }
        let target = readlinkat(&link.file, "", Vec::with_capacity(256))?.into_bytes();
        if target.is_empty() {
            return Err(Errno::NOENT);
        }
        if is_absolute(&target) {
            let top = self.request.top()?;
            self.step(top)?;
        }
        self.push(&target);
        Ok(())
    }
}

fn is_absolute(path: &[u8]) -> bool {
    path.first() == Some(&b'/')
}

fn same(one: &Stat, other: &Stat) -> bool {
    (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
}

/// A path's last name, and what comes before it.
fn split(path: &[u8]) -> (&[u8], Vec<u8>) {
    let end = path
        .iter()
        .rposition(|byte| *byte != b'/')
        .map_or(0, |last| last + 1);
    let (trimmed, slashes) = path.split_at_checked(end).unwrap_or((path, b""));
    let start = trimmed
        .iter()
        .rposition(|byte| *byte == b'/')
        .map_or(0, |slash| slash + 1);
    let (above, name) = trimmed.split_at_checked(start).unwrap_or((trimmed, b""));
    if name.is_empty() {
        return (b"/", b".".to_vec());
    }
    let mut name = name.to_vec();
    if !slashes.is_empty() {
        name.push(b'/');
    }
    (if above.is_empty() { b"." } else { above }, name)
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn the_last_name_is_parted_from_its_directory() {
        for (path, above, name) in [
            ("a", ".", "a"),
            ("a/", ".", "a/"),
            ("/a", "/", "a"),
            ("/a/b", "/a/", "b"),
            ("a//b//", "a//", "b/"),
            ("/", "/", "."),
            ("//", "/", "."),
            ("a/..", "a/", ".."),
        ] {
            let (got, last) = split(path.as_bytes());
            assert_eq!((got, &*last), (above.as_bytes(), name.as_bytes()), "{path}");
        }
    }
}
