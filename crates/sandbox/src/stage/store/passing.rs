//! Stages that are there for some runs only.
//!
//! Nobody can choose their names, and they are not listed. Whoever makes one holds it as long as it
//! is needed, by a lock on its directory: a process that is killed holds nothing any more.
//!
//! Guarantee: one that nobody holds is removed by whoever opens the stages next. One that is held, or
//! in which a sandbox still runs, is left alone.

use super::{Owner, Setup, Stages};
use crate::stage::error::{StageError, failed};
use crate::stage::name::StageName;
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::Path;

/// A stage for some runs.
#[derive(Debug)]
#[must_use = "it is there only as long as this is kept"]
pub struct Passing {
    name: StageName,
    _held: OwnedFd,
}

impl Passing {
    /// Its name.
    pub const fn name(&self) -> &StageName {
        &self.name
    }
}

impl Stages {
    /// Makes a stage of `workspace` for some runs, as an overlay that holds nothing. `label` is a part
    /// of its name.
    pub fn make_passing(
        &self,
        label: &str,
        workspace: &Path,
        owner: Owner,
    ) -> Result<Passing, StageError> {
        let name = StageName::passing(&format!("{label}-{}", super::unique()))?;
        let workspace = self.beside(workspace)?;
        // Nobody gives it up before it is held.
        let _making = self.making(FlockOperation::LockShared)?;
        self.create(&name, &workspace, owner, (Setup::OVERLAY, &[]))?;
        match self.hold(&name)? {
            Some(held) => Ok(Passing { name, _held: held }),
            None => Err(StageError::InUse { name, pid: None }),
        }
    }

    /// Removes a stage that was for some runs.
    pub fn drop_passing(&self, passing: &Passing) -> Result<(), StageError> {
        let claim = self.taken(&passing.name)?;
        self.bury(&passing.name, claim)
    }

    /// Takes their names from those of `names` that were for some runs and that nobody holds. Whether
    /// there were any.
    pub(super) fn give_up(&self, names: &[OsString]) -> Result<bool, StageError> {
        let names = names.iter().filter_map(|name| name.to_str());
        let passing = names.filter(|name| StageName::is_passing(name));
        let mut passing = passing
            .filter_map(|name| StageName::known(name).ok())
            .peekable();
        if passing.peek().is_none() {
            return Ok(false);
        }
        let Some(_alone) = self.alone()? else {
            return Ok(false);
        };
        let mut any = false;
        for name in passing {
            // One that cannot be given up now is in nobody's way.
            any |= self.given_up(&name).unwrap_or(false);
        }
        Ok(any)
    }

    fn given_up(&self, name: &StageName) -> Result<bool, StageError> {
        let Some(_held) = self.hold(name)? else {
            return Ok(false);
        };
        let _claim = self.taken(name)?;
        self.unname(name)?;
        Ok(true)
    }

    /// The directory of the stage `name`, locked; none if somebody else holds it.
    fn hold(&self, name: &StageName) -> Result<Option<OwnedFd>, StageError> {
        let fail = |errno| failed("hold", self.place.join(name.as_str()))(errno);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = rustix::fs::openat(&self.directory, name.as_str(), flags, Mode::empty());
        let directory = directory.map_err(fail)?;
        match rustix::fs::flock(&directory, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(directory)),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(errno) => Err(fail(errno)),
        }
    }
}
