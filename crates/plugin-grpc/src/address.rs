//! Which socket is connected to when a plugin names one.
//!
//! Guarantee: only a socket that lies in the directory shared with that plugin, under its own name
//! there, and never the kernel's. A plugin can put links there and exchange files at any moment: the
//! file is opened once without following a link, looked at, and connected to by its descriptor, so
//! what was looked at is what is connected to.

use crate::output::shown;
use airlock_plugin::boxed::KERNEL_SOCKET;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, open, openat, unlinkat};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use tokio::net::{UnixListener, UnixStream};

/// Why a socket is not connected to.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AddressError {
    #[error("`{}` is not directly in the directory that the plugin shares with Airlock", shown(.0))]
    Outside(String),
    #[error("`{}` is the kernel's own socket", shown(.0))]
    Kernel(String),
    #[error("`{}` is no socket", shown(.0))]
    NotASocket(String),
    #[error("`{}`: {source}", shown(.name))]
    System {
        name: String,
        #[source]
        source: io::Error,
    },
}

/// The directory a plugin shares with Airlock, held open.
#[derive(Debug)]
pub(crate) struct Sockets {
    path: PathBuf,
    directory: OwnedFd,
    /// What is ours in it.
    made: Mutex<Vec<String>>,
}

/// Names that are tried. A plugin that takes them all keeps itself from starting.
const ATTEMPTS: usize = 64;

fn is_taken(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::AddrInUse | io::ErrorKind::AlreadyExists
    )
}

impl Drop for Sockets {
    fn drop(&mut self) {
        let names = self.made.get_mut().unwrap_or_else(PoisonError::into_inner);
        for name in names {
            // Gone already if the plugin removed it.
            let _removed = unlinkat(&self.directory, name.as_str(), AtFlags::empty());
        }
    }
}

impl Sockets {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(Self {
            path: path.to_owned(),
            directory: open(path, flags, Mode::empty())?,
            made: Mutex::default(),
        })
    }

    /// Connects to the socket that a plugin names by `address`.
    pub(crate) async fn connect(&self, address: &str) -> Result<UnixStream, AddressError> {
        let socket = self.find(address)?;
        let path = format!("/proc/self/fd/{}", socket.as_raw_fd());
        UnixStream::connect(path)
            .await
            .map_err(|source| system(address, source))
    }

    /// Listens on a socket of our own there, under a name nothing has yet.
    pub(crate) fn listen(&self) -> io::Result<(UnixListener, PathBuf)> {
        let (name, listener) = self.make("sock", |name| {
            // Through the descriptor: the path itself may be longer than an address takes.
            UnixListener::bind(format!(
                "/proc/self/fd/{}/{name}",
                self.directory.as_raw_fd()
            ))
        })?;
        // The plugin may be another user than we are. Nobody else gets into the directory. By the
        // descriptor, because the plugin may have put a link in its place by now.
        let socket = self.look(&name)?;
        if FileType::from_raw_mode(fstat(&socket)?.st_mode) != FileType::Socket {
            return Err(io::Error::other("our own socket was exchanged"));
        }
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o666);
        std::fs::set_permissions(format!("/proc/self/fd/{}", socket.as_raw_fd()), open)?;
        Ok((listener, self.path.join(name)))
    }

    /// Leaves a file there for the plugin to read.
    pub(crate) fn leave(&self, kind: &str, bytes: &[u8]) -> io::Result<PathBuf> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let (name, file) = self.make(kind, |name| {
            let mode = Mode::from_raw_mode(0o644);
            Ok(openat(&self.directory, name, flags, mode)?)
        })?;
        File::from(file).write_all(bytes)?;
        Ok(self.path.join(name))
    }

    /// Makes something under a new name. It is removed when this is dropped.
    fn make<T>(
        &self,
        kind: &str,
        attempt: impl Fn(&str) -> io::Result<T>,
    ) -> io::Result<(String, T)> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        for _ in 0..ATTEMPTS {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let name = format!("host-{}-{number}.{kind}", std::process::id());
            match attempt(&name) {
                Ok(made) => {
                    let mut names = self.made.lock().unwrap_or_else(PoisonError::into_inner);
                    names.push(name.clone());
                    return Ok((name, made));
                }
                Err(error) if is_taken(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::other("too many names are taken"))
    }

    fn find(&self, address: &str) -> Result<OwnedFd, AddressError> {
        let name = self.name(address)?;
        if name == KERNEL_SOCKET {
            return Err(AddressError::Kernel(address.to_owned()));
        }
        let about = |file: &OwnedFd| fstat(file).map_err(|error| system(address, error.into()));
        let socket = self
            .look(name)
            .map_err(|error| system(address, error.into()))?;
        let found = about(&socket)?;
        if FileType::from_raw_mode(found.st_mode) != FileType::Socket {
            return Err(AddressError::NotASocket(address.to_owned()));
        }
        // By a second name for it, too.
        if let Ok(kernel) = self.look(KERNEL_SOCKET) {
            let kernel = about(&kernel)?;
            if (kernel.st_dev, kernel.st_ino) == (found.st_dev, found.st_ino) {
                return Err(AddressError::Kernel(address.to_owned()));
            }
        }
        Ok(socket)
    }

    /// Opens what has this name, itself and not what it may lead to, for looking at only.
    fn look(&self, name: &str) -> rustix::io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        openat(&self.directory, name, flags, Mode::empty())
    }

    /// The name of a file directly in the directory.
    fn name<'a>(&self, address: &'a str) -> Result<&'a str, AddressError> {
        let outside = || AddressError::Outside(address.to_owned());
        let rest = Path::new(address)
            .strip_prefix(&self.path)
            .map_err(|_| outside())?;
        let mut components = rest.components();
        match (components.next(), components.next()) {
            (Some(Component::Normal(name)), None) => name.to_str().ok_or_else(outside),
            _ => Err(outside()),
        }
    }
}

fn system(name: &str, source: io::Error) -> AddressError {
    AddressError::System {
        name: name.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener as Listener;

    struct Place {
        directory: tempfile::TempDir,
        sockets: Sockets,
    }

    impl Place {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            std::fs::create_dir(directory.path().join("reach")).unwrap();
            let sockets = Sockets::open(&directory.path().join("reach")).unwrap();
            Self { directory, sockets }
        }

        fn path(&self, name: &str) -> String {
            let path = self.directory.path().join(name);
            path.to_str().unwrap().to_owned()
        }

        fn why_not(&self, address: &str) -> AddressError {
            self.sockets.find(address).map(|_| ()).unwrap_err()
        }
    }

    #[tokio::test]
    async fn a_socket_in_the_directory_is_connected_to() {
        let place = Place::new();
        let _listener = Listener::bind(place.path("reach/plugin1")).unwrap();
        place
            .sockets
            .connect(&place.path("reach/plugin1"))
            .await
            .unwrap();
        let (_ours, path) = place.sockets.listen().unwrap();
        place.sockets.connect(path.to_str().unwrap()).await.unwrap();
    }

    #[tokio::test]
    async fn what_is_ours_has_new_names_and_is_removed() {
        let place = Place::new();
        let again = Sockets::open(&place.directory.path().join("reach")).unwrap();
        let (_one, first) = place.sockets.listen().unwrap();
        let (_two, second) = again.listen().unwrap();
        let file = again.leave("pem", b"text").unwrap();
        assert!(first != second && second != file);
        assert_eq!(std::fs::read(&file).unwrap(), b"text");
        drop(again);
        assert!(first.exists() && !second.exists() && !file.exists());
    }

    #[test]
    fn nothing_outside_the_directory_is_connected_to() {
        let place = Place::new();
        let _other = Listener::bind(place.path("other.sock")).unwrap();
        std::fs::create_dir(place.path("reach/below")).unwrap();
        let _below = Listener::bind(place.path("reach/below/sock")).unwrap();
        for address in [
            place.path("other.sock"),
            place.path("reach/../other.sock"),
            place.path("reach/below/sock"),
            place.path("reach/below/../../other.sock"),
            place.path("reach"),
            place.path("reach/.."),
            place.path("reach2/sock"),
            "plugin1".to_owned(),
            "@plugin1".to_owned(),
            String::new(),
            "/run/docker.sock".to_owned(),
        ] {
            let error = place.why_not(&address);
            assert!(
                matches!(error, AddressError::Outside(_)),
                "{address}: {error}"
            );
        }
    }

    #[test]
    fn links_files_and_the_kernels_socket_are_not_connected_to() {
        let place = Place::new();
        let _other = Listener::bind(place.path("other.sock")).unwrap();
        let _kernel = Listener::bind(place.path("reach/kernel.sock")).unwrap();
        symlink(place.path("other.sock"), place.path("reach/link")).unwrap();
        symlink("kernel.sock", place.path("reach/alias")).unwrap();
        std::fs::hard_link(place.path("reach/kernel.sock"), place.path("reach/twin")).unwrap();
        std::fs::write(place.path("reach/file"), "").unwrap();
        for (name, wanted) in [
            ("link", "is no socket"),
            ("alias", "is no socket"),
            ("file", "is no socket"),
            ("kernel.sock", "is the kernel's own socket"),
            ("twin", "is the kernel's own socket"),
            ("absent", "No such file or directory"),
        ] {
            let error = place
                .why_not(&place.path(&format!("reach/{name}")))
                .to_string();
            assert!(error.contains(wanted), "{name}: {error}");
        }
    }
}
