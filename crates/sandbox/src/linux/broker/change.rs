//! Calls that change what names there are: each made in a directory held open and judged.
//!
//! None of them follows a link in its last name, so what is judged - the directory's own path and
//! the name - is what is changed.

use super::judge::{Access, among_descriptors, name_of};
use super::resolve::{Entry, Last, Route};
use super::target::Request;
use rustix::fs::{
    AtFlags, FileType, Mode, RenameFlags, linkat, mkdirat, mknodat, renameat_with, statat,
    symlinkat, unlinkat,
};
use rustix::io::Errno;
use std::os::fd::AsFd;
use std::sync::PoisonError;

const LINK_FLAGS: AtFlags = AtFlags::SYMLINK_FOLLOW.union(AtFlags::EMPTY_PATH);

/// A path, and the descriptor it starts from if it is relative.
pub(super) struct Name {
    pub(super) descriptor: i32,
    pub(super) path: Vec<u8>,
}

impl Request<'_> {
    /// The entry a path names, if nothing forbids changing it.
    fn changeable(&self, name: &Name) -> Result<Entry, Errno> {
        let entry = self.entry(name.descriptor, &name.path)?;
        let rules = &self.shared.rules;
        let path = rules.entry(entry.directory.as_fd(), &entry.name)?;
        rules.judge(&path, Access::Write)?;
        Ok(entry)
    }

    pub(super) fn make_directory(&self, name: &Name, mode: u32) -> Result<(), Errno> {
        let entry = self.changeable(name)?;
        self.take_umask()?;
        let shape = &self.shared.shape;
        let _shape = shape.lock().unwrap_or_else(PoisonError::into_inner);
        mkdirat(
            &entry.directory,
            &*entry.name,
            Mode::from_raw_mode(mode & 0o7777),
        )
    }

    pub(super) fn make_node(&self, name: &Name, mode: u32) -> Result<(), Errno> {
        let kind = match mode & libc::S_IFMT {
            libc::S_IFIFO => FileType::Fifo,
            libc::S_IFREG | 0 => FileType::RegularFile,
            _ => return Err(Errno::PERM),
        };
        let entry = self.changeable(name)?;
        self.take_umask()?;
        let mode = Mode::from_raw_mode(mode & 0o7777);
        mknodat(&entry.directory, &*entry.name, kind, mode, 0)
    }

    pub(super) fn make_link(&self, content: &[u8], name: &Name) -> Result<(), Errno> {
        let entry = self.changeable(name)?;
        symlinkat(content, &entry.directory, &*entry.name)
    }

    pub(super) fn unlink(&self, name: &Name, flags: u32) -> Result<(), Errno> {
        let flags = AtFlags::from_bits_retain(flags);
        if !AtFlags::REMOVEDIR.contains(flags) {
            return Err(Errno::INVAL);
        }
        let entry = self.changeable(name)?;
        unlinkat(&entry.directory, &*entry.name, flags)
    }

    /// A second name for a file. The file is judged for writing: under its new name it could be
    /// written.
    pub(super) fn link(&self, from: &Name, to: &Name, flags: u32) -> Result<(), Errno> {
        let flags = AtFlags::from_bits_retain(flags);
        if !LINK_FLAGS.contains(flags) {
            return Err(Errno::INVAL);
        }
        let rules = &self.shared.rules;
        let found = if from.path.is_empty() {
            if !flags.contains(AtFlags::EMPTY_PATH) {
                return Err(Errno::NOENT);
            }
            self.base(from.descriptor)?
        } else if flags.contains(AtFlags::SYMLINK_FOLLOW) {
            self.find(&Route::new(from.descriptor, &from.path, Last::Follow))?
                .file
        } else {
            let from = self.changeable(from)?;
            let to = self.changeable(to)?;
            return linkat(
                &from.directory,
                &*from.name,
                &to.directory,
                &*to.name,
                AtFlags::empty(),
            );
        };
        rules.judge_file(found.as_fd(), Access::Write)?;
        let to = self.changeable(to)?;
        let name = name_of(found.as_fd());
        let follow = AtFlags::SYMLINK_FOLLOW;
        among_descriptors(|directory| linkat(directory, name, &to.directory, &*to.name, follow))
    }

    pub(super) fn rename(&self, from: &Name, to: &Name, flags: u32) -> Result<(), Errno> {
        let flags = RenameFlags::from_bits_retain(flags);
        if !(RenameFlags::NOREPLACE | RenameFlags::EXCHANGE).contains(flags) {
            return Err(Errno::INVAL);
        }
        let (from, to) = (self.changeable(from)?, self.changeable(to)?);
        // INVARIANT: a name becomes a directory only under this lock, so that what is looked at
        // here is what is moved.
        let shape = &self.shared.shape;
        let _shape = shape.lock().unwrap_or_else(PoisonError::into_inner);
        let directory =
            is_directory(&from)? || (flags.contains(RenameFlags::EXCHANGE) && is_directory(&to)?);
        if directory {
            self.check_move(&from, &to)?;
        }
        renameat_with(
            &from.directory,
            &*from.name,
            &to.directory,
            &*to.name,
            flags,
        )
    }

    /// Refuses to move a directory as across file systems, if a denial beneath it would be left
    /// behind or gained: programs then copy, and each file is judged.
    fn check_move(&self, from: &Entry, to: &Entry) -> Result<(), Errno> {
        let rules = &self.shared.rules;
        let path = |entry: &Entry| rules.entry(entry.directory.as_fd(), &entry.name);
        if rules.movable(&path(from)?, &path(to)?) {
            Ok(())
        } else {
            Err(Errno::XDEV)
        }
    }
}

fn is_directory(entry: &Entry) -> Result<bool, Errno> {
    let name = entry.name.strip_suffix(b"/").unwrap_or(&entry.name);
    match statat(&entry.directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(FileType::from_raw_mode(stat.st_mode) == FileType::Directory),
        Err(error) => Err(error),
    }
}
