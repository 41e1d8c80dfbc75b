//! The socket of a plugin whose kernel takes no calls of plugins: it says so.
//!
//! A plugin that finds no socket at all could only guess. Whoever connects to this one is answered
//! once, with what, why and how to go on, and nothing it says is looked at but the number of its
//! request.

use super::line::UNREACHABLE;
use serde_json::{Value, json};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

/// How long is waited for a request.
const PATIENCE: Duration = Duration::from_secs(2);
/// The longest request whose number is looked for.
const BYTES: u32 = 64 << 10;

/// A socket that refuses. Dropped, it is closed.
pub(super) struct Refusing(UnixListener);

impl Refusing {
    /// Listens at `path`, in a directory that only the plugin's sandbox shares.
    pub(super) fn at(path: &Path) -> io::Result<Self> {
        let listener = UnixListener::bind(path)?;
        // The sandbox may be another user than we are; nobody else gets to the directory.
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666))?;
        let accepting = listener.try_clone()?;
        std::thread::Builder::new()
            .name("plugin refusals".to_owned())
            .spawn(move || {
                while let Ok((stream, _)) = accepting.accept() {
                    // One after the other: nobody waits for anything but this.
                    let _answered = answer(stream);
                }
            })?;
        Ok(Self(listener))
    }
}

impl Drop for Refusing {
    fn drop(&mut self) {
        // Frees whoever accepts.
        let _closed = rustix::net::shutdown(&self.0, rustix::net::Shutdown::Both);
    }
}

fn answer(mut stream: UnixStream) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = u32::from_be_bytes(length);
    if length > BYTES {
        return Ok(());
    }
    let mut request = Vec::new();
    let mut limited = (&stream).take(u64::from(length));
    limited.read_to_end(&mut request)?;
    let request: Value = serde_json::from_slice(&request).unwrap_or_default();
    let id = request
        .get("id")
        .and_then(Value::as_u64)
        .unwrap_or_default();
    let error = json!({ "code": "unavailable", "message": UNREACHABLE, "retryable": false });
    let text = json!({ "id": id, "type": "response", "error": error }).to_string();
    let length = u32::try_from(text.len()).unwrap_or_default();
    stream.write_all(&length.to_be_bytes())?;
    stream.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_asks_is_told_why_not_and_whoever_babbles_does_no_harm() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("kernel.sock");
        let refusing = Refusing::at(&path).unwrap();
        for babble in [
            &b""[..],
            b"\xff\xff\xff\xff",
            b"\0\0\0\x02{}x",
            b"\0\0\0\x01{",
        ] {
            let mut stream = UnixStream::connect(&path).unwrap();
            stream.write_all(babble).unwrap();
        }
        let mut stream = UnixStream::connect(&path).unwrap();
        let request = br#"{"id":7,"type":"request","method":"handshake"}"#;
        let length = u32::try_from(request.len()).unwrap().to_be_bytes();
        stream.write_all(&length).unwrap();
        stream.write_all(request).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let answer: Value = serde_json::from_slice(&answer[4..]).unwrap();
        assert_eq!(answer["id"], 7);
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.contains("airlock kernel"), "{message}");
        drop(refusing);
        assert!(UnixStream::connect(&path).is_err());
    }
}
