//! Who a sandbox is started by: an ordinary user and root raise the walls in different ways.
//!
//! Every measurement of sandboxes happens in a worker, a fresh process of this program that belongs
//! to the person: making a process costs more the more memory its parent has.

use crate::failure::Failure;
use crate::programs;
use crate::table::Row;
use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// An ordinary user, where root runs the bench and nobody says who called `sudo`.
const SOMEBODY: u32 = 1_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Person {
    Ordinary,
    Root,
}

impl fmt::Display for Person {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ordinary => "an ordinary user",
            Self::Root => "root",
        })
    }
}

impl Person {
    pub(crate) const ALL: [Self; 2] = [Self::Ordinary, Self::Root];

    /// Who runs this process.
    pub(crate) fn own() -> Self {
        if rustix::process::geteuid().is_root() {
            Self::Root
        } else {
            Self::Ordinary
        }
    }

    /// Whether this process can start one that belongs to this person.
    pub(crate) fn possible(self) -> bool {
        self == Self::Ordinary || Self::own() == Self::Root
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Ordinary => "ordinary",
            Self::Root => "root",
        }
    }

    /// The user to become, if it is another one.
    fn other(self) -> Option<u32> {
        (self == Self::Ordinary && Self::own() == Self::Root).then(caller_of_sudo)
    }

    /// A directory of this person's own.
    pub(crate) fn directory(self, parent: &Path) -> Result<PathBuf, Failure> {
        let path = parent.join(self.word());
        fs::create_dir_all(&path)?;
        if let Some(user) = self.other() {
            chown(&path, Some(user), Some(user))?;
        }
        Ok(path)
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "whoever called sudo is an ordinary user that exists"
)]
fn caller_of_sudo() -> u32 {
    let user = std::env::var("SUDO_UID").ok();
    let user = user.and_then(|text| text.parse().ok());
    user.filter(|user| *user != 0).unwrap_or(SOMEBODY)
}

/// Where this program lies below a hall.
fn worker_below(hall: &Path) -> PathBuf {
    hall.join("bench/airlock-bench")
}

/// A temporary directory every person can enter, with copies of the programs they start: the
/// repository may lie where only its owner can look.
pub(crate) struct Hall {
    directory: tempfile::TempDir,
}

impl Hall {
    pub(crate) fn new() -> Result<Self, Failure> {
        let directory = tempfile::Builder::new()
            .prefix("airlock-bench-")
            .tempdir()?;
        let open = |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o755));
        open(directory.path())?;
        let below = programs::below(directory.path());
        let mut copies = vec![(std::env::current_exe()?, worker_below(directory.path()))];
        for name in programs::AIRLOCK {
            copies.push((programs::handed_out(name)?, below.join(name)));
        }
        for (built, copy) in copies {
            if let (true, Some(place)) = (built.is_file(), copy.parent()) {
                fs::create_dir_all(place)?;
                open(place)?;
                fs::copy(&built, &copy)?;
            }
        }
        Ok(Self { directory })
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// A worker for `task`, with nothing in its environment but what programs need to be found.
    pub(crate) fn worker(
        &self,
        person: Person,
        task: &str,
        arguments: &[&OsStr],
    ) -> Result<Command, Failure> {
        let home = person.directory(self.path())?;
        let mut worker = plain_command(worker_below(self.path()), &home);
        worker.arg("--worker").arg(task).arg(&home);
        worker.args(arguments);
        if let Some(user) = person.other() {
            worker.uid(user).gid(user);
        }
        Ok(worker)
    }

    /// The rows a worker measured.
    pub(crate) fn rows(
        &self,
        person: Person,
        task: &str,
        arguments: &[&OsStr],
    ) -> Result<Vec<Row>, Failure> {
        let mut worker = self.worker(person, task, arguments)?;
        let mut worker = worker.stdout(Stdio::piped()).spawn()?;
        let lines = worker.stdout.take().map(BufReader::new);
        let lines = lines.ok_or_else(|| Failure::new("a worker without output"))?;
        let rows: Vec<Row> = lines
            .lines()
            .map(|line| Row::from_json(&line?))
            .collect::<Result<_, Failure>>()?;
        if worker.wait()?.success() {
            Ok(rows)
        } else {
            Err(Failure::new(format!("`{task}` as {person} failed")))
        }
    }
}

impl Drop for Hall {
    fn drop(&mut self) {
        // Overlays leave directories that even their owner may not enter.
        let _opened = plain_command("chmod", self.path())
            .args(["-R", "u+rwx"])
            .arg(self.path())
            .status();
    }
}

/// A program that finds others and its own home, and nothing else.
#[expect(
    clippy::disallowed_methods,
    reason = "peers and workers are programs, and whole commands are what is measured"
)]
pub(crate) fn plain_command(program: impl AsRef<OsStr>, home: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")
        .env("HOME", home)
        .stdin(Stdio::null());
    command
}
