//! The socket's file: private, ours, and at a path of any length.

use rustix::fs::{Mode, OFlags, open};
use std::fs::{DirBuilder, Permissions};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::{
    DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, PermissionsExt as _,
};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Longest path an address takes, its end included: `sun_path` has 108 bytes.
const ADDRESS_BYTES: usize = 100;

/// Why there is no socket.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Something fails on the way.
    #[error("cannot use `{path}`")]
    Io {
        /// The path.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The directory is somebody else's, or open to them.
    #[error("`{path}` is not a directory of this user's alone")]
    NotPrivate {
        /// The directory.
        path: PathBuf,
    },
    /// Something that is no socket stands where it should be.
    #[error("`{path}` is in the way and no socket")]
    InTheWay {
        /// The path.
        path: PathBuf,
    },
}

impl SocketError {
    /// How to mend it.
    pub fn hint(&self) -> String {
        match self {
            Self::Io { path, .. } => format!("make `{}` usable for this user", path.display()),
            Self::NotPrivate { path } => {
                format!("chown it to this user and: chmod 700 {}", path.display())
            }
            Self::InTheWay { path } => format!("move `{}` away", path.display()),
        }
    }
}

/// A listening socket, whose file goes with it. Whoever connects while nobody accepts waits for the
/// next who does.
#[derive(Debug)]
pub struct Socket {
    path: PathBuf,
    identity: (u64, u64),
    listener: UnixListener,
}

impl Socket {
    /// Listens at `name` in `directory`, which is made for it or found private. A socket file that is
    /// there already is replaced: whoever calls this holds the lock that says nobody listens there.
    pub fn bind(directory: &Path, name: &str) -> Result<Self, SocketError> {
        private(directory)?;
        let path = directory.join(name);
        let failed = |source| SocketError::Io {
            path: path.clone(),
            source,
        };
        match std::fs::symlink_metadata(&path) {
            Ok(found) if found.file_type().is_socket() => {
                std::fs::remove_file(&path).map_err(failed)?;
            }
            Ok(_) => return Err(SocketError::InTheWay { path }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
        }
        let (_held, address) = address(&path).map_err(failed)?;
        let listener = UnixListener::bind(address).map_err(failed)?;
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).map_err(failed)?;
        let made = std::fs::symlink_metadata(&path).map_err(failed)?;
        Ok(Self {
            identity: (made.dev(), made.ino()),
            path,
            listener,
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What accepts from it, as long as this value lives.
    pub(crate) fn listener(&self) -> io::Result<UnixListener> {
        self.listener.try_clone()
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // Only our own: a successor may have put its socket there already.
        let ours = std::fs::symlink_metadata(&self.path)
            .is_ok_and(|found| (found.dev(), found.ino()) == self.identity);
        if ours {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Connects to the socket at `path`.
pub fn connect(path: &Path) -> io::Result<UnixStream> {
    let (_held, address) = address(path)?;
    UnixStream::connect(address)
}

/// A name for `path` that fits an address, and what keeps it meaning that.
fn address(path: &Path) -> io::Result<(Option<OwnedFd>, PathBuf)> {
    if path.as_os_str().len() < ADDRESS_BYTES {
        return Ok((None, path.to_owned()));
    }
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let held = open(directory, flags, Mode::empty())?;
    let short = format!("/proc/self/fd/{}", held.as_raw_fd());
    Ok((Some(held), Path::new(&short).join(name)))
}

/// Makes `directory`, open to this user alone, or checks that it is.
fn private(directory: &Path) -> Result<(), SocketError> {
    let failed = |source| SocketError::Io {
        path: directory.to_owned(),
        source,
    };
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .map_err(failed)?;
    let found = std::fs::symlink_metadata(directory).map_err(failed)?;
    let ours = found.uid() == rustix::process::geteuid().as_raw();
    // Whom the person lets pass by an access list shows as the group's leave to pass. The socket in it
    // is made anew, and theirs to open.
    let open = Mode::RGRP | Mode::WGRP | Mode::RWXO;
    let others = Mode::from_raw_mode(found.mode()) & open;
    if found.is_dir() && ours && others.is_empty() {
        return Ok(());
    }
    let path = directory.to_owned();
    Err(SocketError::NotPrivate { path })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};

    fn place() -> (tempfile::TempDir, PathBuf) {
        let outer = tempfile::tempdir().unwrap();
        let directory = outer.path().join("run");
        (outer, directory)
    }

    #[test]
    fn file_and_directory_are_the_users_alone_and_go_with_it() {
        let (_outer, directory) = place();
        let socket = Socket::bind(&directory, "s").unwrap();
        let mode = |path: &Path| std::fs::symlink_metadata(path).unwrap().mode() & 0o777;
        assert_eq!((mode(&directory), mode(socket.path())), (0o700, 0o600));
        let path = socket.path().to_owned();
        drop(socket);
        assert!(!path.exists());
    }

    #[test]
    fn a_stale_socket_is_replaced_and_nothing_else_is() {
        let (_outer, directory) = place();
        let first = Socket::bind(&directory, "s").unwrap();
        let second = Socket::bind(&directory, "s").unwrap();
        // The first must not take the second's file with it.
        drop(first);
        assert!(connect(second.path()).is_ok());
        std::fs::write(directory.join("file"), "x").unwrap();
        std::os::unix::fs::symlink("s", directory.join("link")).unwrap();
        for name in ["file", "link"] {
            assert!(matches!(
                Socket::bind(&directory, name),
                Err(SocketError::InTheWay { .. })
            ));
        }
    }

    #[test]
    fn a_directory_that_is_only_passed_through_still_has_a_private_socket() {
        let (_outer, directory) = place();
        std::fs::create_dir(&directory).unwrap();
        std::fs::set_permissions(&directory, Permissions::from_mode(0o710)).unwrap();
        let socket = Socket::bind(&directory, "s").unwrap();
        let mode = std::fs::symlink_metadata(socket.path()).unwrap().mode();
        assert_eq!(mode & 0o777, 0o600);
        for mode in [0o720, 0o740, 0o701, 0o711, 0o750] {
            std::fs::set_permissions(&directory, Permissions::from_mode(mode)).unwrap();
            assert!(Socket::bind(&directory, "t").is_err(), "{mode:o}");
        }
    }

    #[test]
    fn a_directory_others_can_enter_is_refused() {
        let (outer, directory) = place();
        std::fs::create_dir(&directory).unwrap();
        std::fs::set_permissions(&directory, Permissions::from_mode(0o755)).unwrap();
        let link = outer.path().join("link");
        std::os::unix::fs::symlink(&directory, &link).unwrap();
        for odd in [&directory, &link] {
            assert!(matches!(
                Socket::bind(odd, "s"),
                Err(SocketError::NotPrivate { .. })
            ));
        }
    }

    #[test]
    fn a_path_longer_than_an_address_works() {
        let (outer, _) = place();
        let directory = outer.path().join("x".repeat(200));
        let socket = Socket::bind(&directory, "kernel.sock").unwrap();
        let mut client = connect(socket.path()).unwrap();
        client.write_all(b"a").unwrap();
        let (mut served, _) = socket.listener().unwrap().accept().unwrap();
        let mut byte = [0];
        served.read_exact(&mut byte).unwrap();
        assert_eq!(&byte, b"a");
    }
}
