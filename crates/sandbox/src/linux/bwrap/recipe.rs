//! How a command of one sandbox is started: what every bubblewrap of it is told.

use super::super::limits::Rlimit;
use super::super::resolve;
use super::super::sys;
use super::asked::Asked;
use super::running::Running;
use crate::generate::{AtHome, BwrapFacts, Handed, Mask, bwrap};
use crate::launch::Base;
use crate::plan::{Denial, HostPath, Plan};
use crate::presets::{Content, HomeEntry};
use rustix::fd::{AsRawFd, OwnedFd, RawFd};
use rustix::fs::{MemfdFlags, SeekFrom, memfd_create, seek};
use rustix::pipe::{PipeFlags, pipe_with};
use std::ffi::{CString, OsString};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A directory that is shown at another, in a mount namespace of its own: from where, and where.
pub(super) type Carried = (CString, CString);

/// What every bubblewrap of a sandbox is told.
#[derive(Debug)]
pub(super) struct Recipe {
    pub(super) program: PathBuf,
    pub(super) plan: Plan,
    pub(super) base: Base,
    pub(super) at_home: Vec<HomeEntry>,
    /// The copy of the workspace, if the plan stages it.
    pub(super) stage: Option<HostPath>,
    /// Where it has to be carried first.
    pub(super) carried: Option<Carried>,
    /// The socket to the kernel, on the host.
    pub(super) socket: Option<HostPath>,
    pub(super) masks: Vec<Mask>,
    pub(super) kernel_files: Vec<&'static str>,
    pub(super) texts: Vec<(HostPath, Vec<u8>)>,
    pub(super) filter: Vec<u8>,
    pub(super) limits: Vec<Rlimit>,
    /// The host user and group to become, where the supervisor is root.
    pub(super) owner: Option<(u32, u32)>,
}

/// Descriptors bubblewrap is started with, and the numbers it knows them by.
#[derive(Default)]
struct Kept(Vec<OwnedFd>);

impl Kept {
    fn keep(&mut self, descriptor: OwnedFd) -> io::Result<u32> {
        let number = descriptor.as_raw_fd();
        self.0.push(descriptor);
        u32::try_from(number).map_err(io::Error::other)
    }

    /// A file in memory that says `bytes`.
    fn file(&mut self, bytes: &[u8]) -> io::Result<u32> {
        let file = memfd_create(c"airlock", MemfdFlags::CLOEXEC)?;
        let mut left = bytes;
        while !left.is_empty() {
            let written = rustix::io::write(&file, left)?;
            left = left.get(written..).unwrap_or_default();
        }
        let _start = seek(&file, SeekFrom::Start(0))?;
        self.keep(file)
    }

    fn numbers(&self) -> Vec<RawFd> {
        self.0.iter().map(AsRawFd::as_raw_fd).collect()
    }
}

impl Recipe {
    /// Waits until the walls stand. Gives the writable places in memory.
    pub(super) fn stand(&self, running: &mut Running) -> io::Result<Vec<OwnedFd>> {
        running.stand(&self.base.home, &self.limits, self.owner)
    }

    /// The denials no mount expresses.
    pub(super) fn uncovered(&self) -> io::Result<Vec<Denial>> {
        let command = [OsString::from("/")];
        let facts = self.facts(self.plan.directory(), [0; 3], false, &[], &[]);
        let made = bwrap(&self.plan, &facts, &command).map_err(io::Error::other)?;
        Ok(made.uncovered)
    }

    fn facts<'a>(
        &'a self,
        directory: &'a HostPath,
        [filter_descriptor, status_descriptor, block_descriptor]: [u32; 3],
        in_session: bool,
        texts: &'a [Handed],
        at_home: &'a [AtHome],
    ) -> BwrapFacts<'a> {
        BwrapFacts {
            system: &self.base.system,
            system_masks: &self.base.masks,
            texts,
            kernel_files: &self.kernel_files,
            masks: &self.masks,
            home: &self.base.home,
            at_home,
            scratch: self.plan.limits().memory.as_bytes(),
            stage: self.stage.as_ref(),
            socket: self.socket.as_ref(),
            directory,
            in_session,
            filter_descriptor,
            status_descriptor,
            block_descriptor,
        }
    }

    /// Starts a bubblewrap that waits to be told to run the command.
    pub(super) fn spawn(
        &self,
        asked: &Asked,
        [input, output, errors]: [OwnedFd; 3],
        terminal: bool,
    ) -> io::Result<Running> {
        for (place, access) in self.plan.mounts() {
            let _found = resolve::source((&self.plan, &self.base), place, access)?;
        }
        let mut kept = Kept::default();
        let (news, status) = pipe_with(PipeFlags::CLOEXEC)?;
        let (waiting, block) = pipe_with(PipeFlags::CLOEXEC)?;
        let numbers = [
            kept.file(&self.filter)?,
            kept.keep(status)?,
            kept.keep(waiting)?,
        ];
        let texts = self
            .texts
            .iter()
            .map(|(path, text)| handed(&mut kept, path.clone(), text))
            .collect::<io::Result<Vec<_>>>()?;
        let at_home = self
            .at_home
            .iter()
            .map(|entry| self.entry(&mut kept, entry))
            .collect::<io::Result<Vec<_>>>()?;
        let directory = HostPath::new(&asked.directory).map_err(io::Error::other)?;
        let facts = self.facts(&directory, numbers, terminal, &texts, &at_home);
        let made = bwrap(&self.plan, &facts, &asked.arguments).map_err(io::Error::other)?;
        #[expect(
            clippy::disallowed_methods,
            reason = "bubblewrap itself, which confines what it runs"
        )]
        let mut command = Command::new(&self.program);
        command
            .arg0("bwrap")
            .args(made.arguments)
            .env_clear()
            .envs(asked.environment.iter().map(|(name, value)| (name, value)))
            .current_dir("/")
            .stdin(Stdio::from(input))
            .stdout(Stdio::from(output))
            .stderr(Stdio::from(errors));
        let alone = sys::Alone {
            keep: kept.numbers(),
            terminal,
            owner: self.owner,
            carried: self.carried.clone(),
        };
        alone.applied(&mut command);
        Running::new(command.spawn()?, news, block)
    }

    fn entry(&self, kept: &mut Kept, entry: &HomeEntry) -> io::Result<AtHome> {
        let path = HostPath::new(self.base.home.as_path().join(&entry.at));
        let path = path.map_err(io::Error::other)?;
        Ok(match &entry.content {
            Content::Link(target) => AtHome::Link {
                path,
                target: target.clone(),
            },
            Content::File(text) => AtHome::File(handed(kept, path, text.as_bytes())?),
        })
    }
}

fn handed(kept: &mut Kept, path: HostPath, text: &[u8]) -> io::Result<Handed> {
    let descriptor = kept.file(text)?;
    Ok(Handed { path, descriptor })
}
