//! From a call's number and arguments to what is done for it.

use super::attribute::{Clock, change_mode, change_times};
use super::change::Name;
use super::filter::{AttributeCall, Call, FileCall, NameCall};
use super::open::Opening;
use super::target::Request;
use super::threads::Answer;
use rustix::fs::{AtFlags, OFlags};
use rustix::io::Errno;

/// `AT_FDCWD`: calls without a descriptor start at the working directory.
const HERE: i32 = -100;
const REMOVE_DIRECTORY: u32 = AtFlags::REMOVEDIR.bits();
const NO_FOLLOW: u32 = AtFlags::SYMLINK_NOFOLLOW.bits();
const EMPTY_PATH: u32 = AtFlags::EMPTY_PATH.bits();

impl Request<'_> {
    /// Does what the process asked for.
    pub(super) fn perform(&self, call: Call) -> Result<Answer, Errno> {
        match call {
            Call::Open => self.plain_open(HERE, 0),
            Call::OpenAt => self.plain_open(self.descriptor(0), 1),
            Call::OpenAt2 => {
                let opening = self.opening(self.wide(2), self.wide(3))?;
                self.open(self.descriptor(0), &self.path(self.wide(1))?, &opening)
            }
            Call::Create => {
                let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::TRUNC;
                let opening = Opening::lenient(flags.bits(), self.narrow(1));
                self.open(HERE, &self.path(self.wide(0))?, &opening)
            }
            Call::Name(call) => self.change_names(call).map(|()| Answer::Done),
            Call::File(call) => self.change_file(call).map(|()| Answer::Done),
            Call::Attribute(call) => self.change_attribute(call).map(|()| Answer::Done),
            Call::Unknown => Err(Errno::NOSYS),
        }
    }

    fn plain_open(&self, descriptor: i32, path: usize) -> Result<Answer, Errno> {
        let opening = Opening::lenient(self.narrow(path + 1), self.narrow(path + 2));
        self.open(descriptor, &self.path(self.wide(path))?, &opening)
    }

    fn change_names(&self, call: NameCall) -> Result<(), Errno> {
        match call {
            NameCall::Rename => self.rename(&self.here(0)?, &self.here(1)?, 0),
            NameCall::RenameAt => self.rename(&self.at(0)?, &self.at(2)?, 0),
            NameCall::RenameAt2 => self.rename(&self.at(0)?, &self.at(2)?, self.narrow(4)),
            NameCall::Link => self.link(&self.here(0)?, &self.here(1)?, 0),
            NameCall::LinkAt => self.link(&self.at_or_empty(0)?, &self.at(2)?, self.narrow(4)),
            NameCall::Unlink => self.unlink(&self.here(0)?, 0),
            NameCall::UnlinkAt => self.unlink(&self.at(0)?, self.narrow(2)),
            NameCall::RemoveDirectory => self.unlink(&self.here(0)?, REMOVE_DIRECTORY),
            NameCall::MakeDirectory => self.make_directory(&self.here(0)?, self.narrow(1)),
            NameCall::MakeDirectoryAt => self.make_directory(&self.at(0)?, self.narrow(2)),
            NameCall::MakeNode => self.make_node(&self.here(0)?, self.narrow(1)),
            NameCall::MakeNodeAt => self.make_node(&self.at(0)?, self.narrow(2)),
            NameCall::Symlink => self.make_link(&self.path(self.wide(0))?, &self.here(1)?),
            NameCall::SymlinkAt => self.make_link(&self.path(self.wide(0))?, &self.at(1)?),
        }
    }

    fn change_file(&self, call: FileCall) -> Result<(), Errno> {
        match call {
            FileCall::Truncate => self.truncate(&self.here(0)?, self.wide(1)),
            FileCall::ChangeMode => change_mode(&self.object(&self.here(0)?, 0)?, self.narrow(1)),
            FileCall::ChangeModeOf => {
                change_mode(&self.object_of(self.descriptor(0))?, self.narrow(1))
            }
            FileCall::ChangeModeAt => change_mode(&self.object(&self.at(0)?, 0)?, self.narrow(2)),
            FileCall::ChangeModeAt2 => {
                let found = self.object(&self.at_or_empty(0)?, self.narrow(3))?;
                change_mode(&found, self.narrow(2))
            }
            FileCall::ChangeOwner => self.owner(&self.here(0)?, 0, 1),
            FileCall::ChangeLinkOwner => self.owner(&self.here(0)?, NO_FOLLOW, 1),
            FileCall::ChangeOwnerOf => {
                let found = self.object_of(self.descriptor(0))?;
                self.change_owner(&found, self.narrow(1), self.narrow(2))
            }
            FileCall::ChangeOwnerAt => self.owner(&self.at_or_empty(0)?, self.narrow(4), 2),
            FileCall::Time => self.touch(&self.here(0)?, 0, 1, Clock::Seconds),
            FileCall::Times => self.touch(&self.here(0)?, 0, 1, Clock::Microseconds),
            FileCall::TimesAt => match self.wide(1) {
                0 => self.touch_descriptor(Clock::Microseconds),
                _ => self.touch(&self.at(0)?, 0, 2, Clock::Microseconds),
            },
            FileCall::TimesAtNanoseconds => match (self.wide(1), self.narrow(3)) {
                (0, 0) => self.touch_descriptor(Clock::Nanoseconds),
                (0, _) => Err(Errno::INVAL),
                (_, flags) => self.touch(&self.at_or_empty(0)?, flags, 2, Clock::Nanoseconds),
            },
        }
    }

    fn change_attribute(&self, call: AttributeCall) -> Result<(), Errno> {
        match call {
            AttributeCall::SetAttribute => self.set_attribute(&self.object(&self.here(0)?, 0)?, 1),
            AttributeCall::SetLinkAttribute => {
                self.set_attribute(&self.object(&self.here(0)?, NO_FOLLOW)?, 1)
            }
            AttributeCall::SetAttributeOf => {
                self.set_attribute(&self.object_of(self.descriptor(0))?, 1)
            }
            AttributeCall::RemoveAttribute => {
                self.remove_attribute(&self.object(&self.here(0)?, 0)?, self.wide(1))
            }
            AttributeCall::RemoveLinkAttribute => {
                self.remove_attribute(&self.object(&self.here(0)?, NO_FOLLOW)?, self.wide(1))
            }
            AttributeCall::RemoveAttributeOf => {
                self.remove_attribute(&self.object_of(self.descriptor(0))?, self.wide(1))
            }
        }
    }

    /// A path that starts at the working directory.
    fn here(&self, place: usize) -> Result<Name, Errno> {
        Ok(Name {
            descriptor: HERE,
            path: self.path(self.wide(place))?,
        })
    }

    /// A path after the descriptor it starts from.
    fn at(&self, place: usize) -> Result<Name, Errno> {
        let name = self.at_or_empty(place)?;
        if name.path.is_empty() {
            return Err(Errno::NOENT);
        }
        Ok(name)
    }

    fn at_or_empty(&self, place: usize) -> Result<Name, Errno> {
        Ok(Name {
            descriptor: self.descriptor(place),
            path: self.path_or_empty(self.wide(place + 1))?,
        })
    }

    fn owner(&self, name: &Name, flags: u32, numbers: usize) -> Result<(), Errno> {
        let found = self.object(name, flags)?;
        self.change_owner(&found, self.narrow(numbers), self.narrow(numbers + 1))
    }

    fn touch(&self, name: &Name, flags: u32, times: usize, clock: Clock) -> Result<(), Errno> {
        let times = self.times(self.wide(times), clock)?;
        change_times(&self.object(name, flags)?, &times)
    }

    /// The file of the first argument itself, which may also be the working directory's number.
    fn touch_descriptor(&self, clock: Clock) -> Result<(), Errno> {
        let name = Name {
            descriptor: self.descriptor(0),
            path: Vec::new(),
        };
        if name.descriptor == HERE {
            return Err(Errno::FAULT);
        }
        self.touch(&name, EMPTY_PATH, 2, clock)
    }
}
