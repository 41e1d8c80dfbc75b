//! Container engines, by asking their sockets whether they are there.

use super::machine::Engine;
use super::trial::system_program;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long an engine may take to say a word.
const PATIENCE: Duration = Duration::from_secs(1);

/// The engines there are signs of. `home` and `runtime` are the person's own directories.
pub(super) fn engines(home: Option<&Path>, runtime: Option<&Path>) -> Vec<Engine> {
    let own = |directory: Option<&Path>, rest: &str| directory.map(|at| at.join(rest));
    let docker = [
        Some(PathBuf::from("/run/docker.sock")),
        Some(PathBuf::from("/var/run/docker.sock")),
        own(runtime, "docker.sock"),
        own(home, ".docker/run/docker.sock"),
    ];
    let podman = [
        own(runtime, "podman/podman.sock"),
        Some(PathBuf::from("/run/podman/podman.sock")),
    ];
    [("docker", docker.to_vec()), ("podman", podman.to_vec())]
        .into_iter()
        .filter_map(|(name, sockets)| engine(name, sockets.into_iter().flatten()))
        .collect()
}

fn engine(name: &'static str, sockets: impl Iterator<Item = PathBuf>) -> Option<Engine> {
    let client = system_program(name).map(|path| path.display().to_string());
    let mut why_not = None;
    for socket in sockets.filter(|socket| socket.exists()) {
        match ping(&socket) {
            Ok(()) => {
                return Some(Engine {
                    name,
                    client,
                    answers: Ok(socket.display().to_string()),
                });
            }
            Err(error) => why_not = Some(format!("{}: {error}", socket.display())),
        }
    }
    let signs = client.is_some() || why_not.is_some();
    signs.then(|| Engine {
        name,
        client,
        answers: Err(why_not.unwrap_or_else(|| "it has no socket here".to_owned())),
    })
}

fn ping(socket: &Path) -> std::io::Result<()> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(b"GET /_ping HTTP/1.0\r\nHost: engine\r\n\r\n")?;
    let mut start = [0; 12];
    stream.read_exact(&mut start)?;
    let fine = start.starts_with(b"HTTP/1.") && start.ends_with(b" 200");
    if fine {
        Ok(())
    } else {
        Err(std::io::Error::other("it answers, but not as an engine"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn only_what_answers_as_an_engine_is_one() {
        for (answer, want) in [
            ("HTTP/1.0 200 OK\r\n\r\nOK", true),
            ("HTTP/1.1 503 Busy\r\n\r\n", false),
            ("SSH-2.0-OpenSSH", false),
            ("", false),
        ] {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("socket");
            let listener = UnixListener::bind(&path).unwrap();
            let served = std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let mut asked = [0; 64];
                let _ = stream.read(&mut asked);
                let _ = stream.write_all(answer.as_bytes());
            });
            assert_eq!(ping(&path).is_ok(), want, "{answer}");
            served.join().unwrap();
        }
    }
}
