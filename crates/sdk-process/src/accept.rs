//! Where the plugin listens, and who gets in.

use airlock_plugin_protocol::{Accepted, Door};
use rustls::ServerConfig;
use std::collections::hash_map::RandomState;
use std::fs::File;
use std::hash::{BuildHasher as _, Hasher as _};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::UnixListener as Listener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UnixListener;
use tokio_stream::wrappers::ReceiverStream;

/// Bytes of a socket's address, its end included.
const ADDRESS: usize = 108;
/// Names that are tried.
const ATTEMPTS: usize = 16;
/// A host has one connection.
const DOOR: Door = Door {
    connections: 8,
    handshake: Duration::from_secs(10),
};

/// Listens under a name nothing has yet, in the directory that is shared with the host.
pub(crate) fn listen(directory: &Path) -> io::Result<(Listener, PathBuf)> {
    let mut last = io::Error::from(io::ErrorKind::AddrInUse);
    for _ in 0..ATTEMPTS {
        let random = RandomState::new().build_hasher().finish();
        let path = directory.join(format!("plugin-{random:016x}"));
        match bind(&path) {
            Ok(listener) => return Ok((listener, path)),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => last = error,
            Err(error) => return Err(error),
        }
    }
    Err(last)
}

fn bind(path: &Path) -> io::Result<Listener> {
    short(path, |path| Listener::bind(path))
}

/// Does something with `path`, by a shorter name for it where an address cannot hold it.
pub(crate) fn short<T>(path: &Path, with: impl Fn(&Path) -> io::Result<T>) -> io::Result<T> {
    if path.as_os_str().as_bytes().len() < ADDRESS {
        return with(path);
    }
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let directory = File::open(directory)?;
    let by_descriptor = format!("/proc/self/fd/{}", directory.as_raw_fd());
    with(&Path::new(&by_descriptor).join(name))
}

/// Those who get in. Has to be called within a runtime.
pub(crate) fn incoming(
    listener: Listener,
    tls: Option<Arc<ServerConfig>>,
) -> io::Result<ReceiverStream<io::Result<Accepted>>> {
    listener.set_nonblocking(true)?;
    let listener = UnixListener::from_std(listener)?;
    Ok(airlock_plugin_protocol::incoming(listener, tls, DOOR))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream as Stream;

    #[test]
    fn sockets_have_names_of_their_own_however_long_the_directorys_is() {
        let top = tempfile::tempdir().unwrap();
        let deep = top.path().join("d".repeat(60)).join("e".repeat(60));
        std::fs::create_dir_all(&deep).unwrap();
        for directory in [top.path(), &deep] {
            let (_one, first) = listen(directory).unwrap();
            let (_two, second) = listen(directory).unwrap();
            assert!(first != second && first.exists() && second.exists());
            short(&first, |path| Stream::connect(path)).unwrap();
        }
        assert!(listen(&top.path().join("absent")).is_err());
    }
}
