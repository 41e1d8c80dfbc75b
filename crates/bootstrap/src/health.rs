//! Ping and pong over the kernel's socket: the whole of the wire protocol this program speaks.
//!
//! A frame is its length in four bytes, the highest first, and that many bytes of JSON. A handshake
//! comes before each ping, on a new connection: a kernel that takes none does not answer.

use std::io::{self, Read, Write};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::path::Path;

const ADDRESS_BYTES: usize = 108; // What an address holds of a path, its end included.

/// What a kernel said.
#[derive(Debug, PartialEq, Eq)]
enum Heard {
    Answer,
    Full, // It has no place for another connection.
}

/// Asks the kernel behind `socket` whether it lives; each step may take `patience`. One that is full
/// says so itself: it lives, and ending it would take it from everybody whose places those are.
pub(crate) fn ping(socket: Option<&Path>, patience: std::time::Duration) -> io::Result<()> {
    let unnamed = || io::Error::other("it did not name its socket");
    let mut stream = connect(socket.ok_or_else(unnamed)?)?;
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))?;
    let version = env!("CARGO_PKG_VERSION");
    let hello = format!(r#"{{"name":"bootstrap","version":"{version}","api":1}}"#);
    match ask(&mut stream, 1, "handshake", &hello)? {
        Heard::Answer => ask(&mut stream, 2, "ping", "{}").map(drop),
        Heard::Full => Ok(()),
    }
}

/// Connects to `socket`, by a shorter name where an address cannot hold its path.
fn connect(socket: &Path) -> io::Result<UnixStream> {
    if socket.as_os_str().len() < ADDRESS_BYTES {
        return UnixStream::connect(socket);
    }
    let directory = std::fs::File::open(socket.parent().unwrap_or(socket))?;
    let short = format!("/proc/self/fd/{}", directory.as_raw_fd());
    UnixStream::connect(Path::new(&short).join(socket.file_name().unwrap_or_default()))
}

fn ask(stream: &mut (impl Read + Write), id: u32, method: &str, params: &str) -> io::Result<Heard> {
    let text = format!(r#"{{"id":{id},"type":"request","method":"{method}","params":{params}}}"#);
    let length = u32::try_from(text.len()).map_err(io::Error::other)?;
    let asked = stream.write_all(&[&length.to_be_bytes()[..], text.as_bytes()].concat());
    // Whoever is turned away can read why, even if there was nobody left to ask.
    let text = read(stream).or_else(|error| asked.and(Err(error)))?;
    heard(&text, id).ok_or_else(|| io::Error::other(format!("`{method}` brought no result")))
}

fn read(stream: &mut impl Read) -> io::Result<String> {
    let mut head = [0; 4];
    stream.read_exact(&mut head)?;
    let length = u32::from_be_bytes(head);
    if length > 64 * 1024 {
        return Err(io::Error::other("the answer is over 64 KiB"));
    }
    let mut body = vec![0; usize::try_from(length).map_err(io::Error::other)?];
    stream.read_exact(&mut body)?;
    String::from_utf8(body).map_err(io::Error::other)
}

/// What `text` says to question `id`, or to the connection as a whole, which is number 0. Names are
/// looked for wherever they stand, which can only make it refuse more.
fn heard(text: &str, id: u32) -> Option<Heard> {
    let dense: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let has = |part: &str| dense.contains(part);
    let is_to = |id: u32| has(&format!("\"id\":{id},")) || has(&format!("\"id\":{id}}}"));
    if !dense.starts_with('{') || !has("\"type\":\"response\"") {
        None
    } else if is_to(id) && (!has("\"error\":") || has("\"error\":null")) {
        Some(Heard::Answer)
    } else {
        (is_to(0) && has("\"error\":{\"code\":\"overloaded\"")).then_some(Heard::Full)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_result_for_the_question_is_an_answer() {
        for (text, want) in [
            (r#"{"id":2,"type":"response","result":"pong"}"#, true),
            (r#"{ "type" : "response", "result" : {}, "id" : 2 }"#, true),
            (r#"{"id":2,"type":"response","result":{},"error":null}"#, true),
            (r#"{"id":20,"type":"response","result":"pong"}"#, false),
            (r#"{"id":2,"type":"event","result":"pong"}"#, false),
            (r#"{"id":2,"type":"response","error":{"code":"busy"}}"#, false),
            ("", false),
            ("[]", false),
        ] {
            assert_eq!(heard(text, 2) == Some(Heard::Answer), want, "{text}");
        }
    }

    #[test]
    fn only_a_connection_too_many_is_a_kernel_that_is_full() {
        for (text, want) in [
            (r#"{"id":0,"type":"response","error":{"code":"overloaded","message":"x"}}"#, true),
            (r#"{"id":1,"type":"response","error":{"code":"overloaded"}}"#, false),
            (r#"{"id":0,"type":"event","error":{"code":"overloaded"}}"#, false),
            (r#"{"id":0,"type":"response","error":{"code":"refused"}}"#, false),
            (r#"{"id":0,"type":"response","result":{"code":"overloaded"}}"#, false),
            ("overloaded", false),
        ] {
            assert_eq!(heard(text, 1), want.then_some(Heard::Full), "{text}");
        }
    }

    /// What was written, and what there is to read.
    struct Wire(Vec<u8>, io::Cursor<Vec<u8>>);

    impl Read for Wire {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.1.read(buffer)
        }
    }

    impl Write for Wire {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn frames_are_counted_and_bounded() {
        let answer = br#"{"id":2,"type":"response","result":1}"#;
        let framed = |length: u32| [&length.to_be_bytes()[..], answer].concat();
        let good = u32::try_from(answer.len()).unwrap();
        for (bytes, want) in [
            (framed(good), true),
            (framed(u32::MAX), false),
            (framed(good + 1), false),
            (framed(5), false),
            (vec![0, 0], false),
            (Vec::new(), false),
        ] {
            let mut wire = Wire(Vec::new(), io::Cursor::new(bytes.clone()));
            assert_eq!(ask(&mut wire, 2, "ping", "{}").is_ok(), want, "{bytes:?}");
            let length = u32::from_be_bytes(wire.0[..4].try_into().unwrap());
            assert_eq!(wire.0.len(), 4 + length as usize);
        }
    }
}
