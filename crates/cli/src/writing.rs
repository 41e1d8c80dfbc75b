//! Files that a command line names, or a person keeps by hand: written whole, or not at all.
//!
//! Guarantee: what is written lies beside its target until it is on disk, and then takes its place. Only a
//! regular file is replaced; of a link, the one it leads to. Moved over a pipe or a device, a file would
//! be there in its stead.

use crate::reading::{ReadError, is_handed, regular};
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// Why a file is not written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WriteError {
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Something is there that is not to be replaced.
    #[error(transparent)]
    Taken(ReadError),
    #[error("it is a link that leads nowhere")]
    Dangling,
}

impl From<WriteError> for io::Error {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Io(error) => error,
            WriteError::Taken(_) | WriteError::Dangling => Self::other(error),
        }
    }
}

/// A file in the making.
#[derive(Debug)]
pub(crate) struct Making {
    file: NamedTempFile,
    target: PathBuf,
}

impl Making {
    /// Begins the file that `path` names. It is its owner's alone.
    pub(crate) fn begin(path: &Path) -> Result<Self, WriteError> {
        let target = target(path)?;
        let directory = target.parent().unwrap_or(&target);
        let directory = if directory.as_os_str().is_empty() {
            Path::new(".")
        } else {
            directory
        };
        let file = NamedTempFile::new_in(directory)?;
        Ok(Self { file, target })
    }

    /// The file that `path` names, with these bytes in it.
    pub(crate) fn of(path: &Path, bytes: &[u8]) -> Result<(), WriteError> {
        let mut making = Self::begin(path)?;
        making.file().write_all(bytes)?;
        making.finish()
    }

    /// The directory it will be in, by its real name.
    pub(crate) fn place(&self) -> io::Result<PathBuf> {
        let place = self.file.path().parent();
        place.unwrap_or(Path::new(".")).canonicalize()
    }

    pub(crate) fn file(&mut self) -> &mut File {
        self.file.as_file_mut()
    }

    /// Puts it in its place.
    pub(crate) fn finish(self) -> Result<(), WriteError> {
        self.file.as_file().sync_all()?;
        self.file
            .persist(&self.target)
            .map_err(|error| error.error)?;
        Ok(())
    }
}

/// Where `path` leads: a regular file, or nothing yet.
fn target(path: &Path) -> Result<PathBuf, WriteError> {
    // Whoever handed it over holds it open, and would not see what took its place.
    let streams = ["/dev/stdout", "/dev/stderr"].map(Path::new);
    if is_handed(path) || streams.contains(&path) {
        return Err(WriteError::Taken(ReadError::Special));
    }
    let is_link = match path.symlink_metadata() {
        Ok(found) => found.is_symlink(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(path.to_owned()),
        Err(error) => return Err(error.into()),
    };
    let found = match path.metadata() {
        Err(error) if is_link && error.kind() == io::ErrorKind::NotFound => {
            return Err(WriteError::Dangling);
        }
        found => found?,
    };
    regular(&found).map_err(WriteError::Taken)?;
    Ok(if is_link {
        path.canonicalize()?
    } else {
        path.to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    fn write(path: &Path) -> Result<(), WriteError> {
        Making::of(path, b"new")
    }

    #[test]
    fn only_regular_files_are_replaced_and_links_stay() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        std::fs::create_dir(at("elsewhere")).unwrap();
        for old in ["file", "elsewhere/kept"] {
            std::fs::write(at(old), "old").unwrap();
        }
        symlink("elsewhere/kept", at("link")).unwrap();
        for (name, lands_in) in [("file", "file"), ("new", "new"), ("link", "elsewhere/kept")] {
            write(&at(name)).unwrap();
            assert_eq!(std::fs::read(at(lands_in)).unwrap(), b"new", "{name}");
        }
        assert!(at("link").is_symlink());
        let _listener = UnixListener::bind(at("socket")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe"), 0o600.into()).unwrap();
        symlink("/dev/null", at("null")).unwrap();
        symlink("gone", at("dangling")).unwrap();
        for (name, want) in [
            ("socket", "it is no regular file"),
            ("pipe", "it is no regular file"),
            ("null", "it is no regular file"),
            ("dangling", "it is a link that leads nowhere"),
            ("elsewhere", "it is a directory"),
            ("gone/file", "No such file"),
        ] {
            let before = at(name).symlink_metadata().map(|found| found.file_type());
            let error = write(&at(name)).unwrap_err().to_string();
            assert!(error.starts_with(want), "{name}: {error}");
            let after = at(name).symlink_metadata().map(|found| found.file_type());
            assert_eq!(before.ok(), after.ok(), "{name}");
        }
        for handed in ["/dev/stdout", "/dev/stderr", "/dev/fd/1", "/proc/self/fd/1"] {
            let error = write(Path::new(handed)).unwrap_err();
            assert!(matches!(error, WriteError::Taken(_)), "{handed}: {error}");
        }
    }
}
