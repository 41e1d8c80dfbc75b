//! Ping and pong over the kernel's socket: the whole of the wire protocol this program speaks.
//!
//! A frame is its length in four bytes, the highest first, and that many bytes of JSON. A
//! handshake comes first, then the ping. Each question has its own connection, so that a kernel
//! that takes none counts as one that does not answer.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Longest answer that is read.
const ANSWER_BYTES: u32 = 64 * 1024;

/// What a kernel said.
#[derive(Debug, PartialEq, Eq)]
enum Heard {
    Answer,
    /// That it has no place for another connection.
    Full,
}

/// Asks the kernel behind `socket` whether it lives; each step may take `patience`. One that is full
/// says so itself: it lives, and ending it would take it from everybody whose places those are.
pub(crate) fn ping(socket: &Path, patience: Duration) -> io::Result<()> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))?;
    let version = env!("CARGO_PKG_VERSION");
    let hello = format!(r#"{{"name":"bootstrap","version":"{version}","api":1}}"#);
    match ask(&mut stream, 1, "handshake", &hello)? {
        Heard::Answer => ask(&mut stream, 2, "ping", "{}").map(drop),
        Heard::Full => Ok(()),
    }
}

fn ask(stream: &mut (impl Read + Write), id: u32, method: &str, params: &str) -> io::Result<Heard> {
    let message =
        format!(r#"{{"id":{id},"type":"request","method":"{method}","params":{params}}}"#);
    let length = u32::try_from(message.len()).map_err(io::Error::other)?;
    let asked = stream.write_all(&length.to_be_bytes());
    let asked = asked.and_then(|()| stream.write_all(message.as_bytes()));
    // Whoever is turned away can read why, even if there was nobody left to ask.
    let text = read(stream).or_else(|error| asked.and(Err(error)))?;
    if is_answer(&text, id) {
        Ok(Heard::Answer)
    } else if is_full(&text) {
        Ok(Heard::Full)
    } else {
        Err(io::Error::other(format!("`{method}` was not answered with a result")))
    }
}

fn read(stream: &mut impl Read) -> io::Result<String> {
    let mut head = [0; 4];
    stream.read_exact(&mut head)?;
    let length = u32::from_be_bytes(head);
    if length > ANSWER_BYTES {
        return Err(io::Error::other("the answer is too long"));
    }
    let mut body = Vec::new();
    stream.take(u64::from(length)).read_to_end(&mut body)?;
    if body.len() as u64 != u64::from(length) {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    String::from_utf8(body).map_err(io::Error::other)
}

/// Whether `text` is a response to question `id`, and no error. Names are looked for wherever they
/// stand, which can only make it refuse more.
fn is_answer(text: &str, id: u32) -> bool {
    let dense = response(text, id).unwrap_or_default();
    !dense.is_empty() && (!dense.contains("\"error\":") || dense.contains("\"error\":null"))
}

/// Whether `text` says of the connection as a whole that there are too many.
fn is_full(text: &str) -> bool {
    response(text, 0).is_some_and(|dense| dense.contains("\"error\":{\"code\":\"overloaded\""))
}

/// `text` without blanks, if it is a response of that number.
fn response(text: &str, id: u32) -> Option<String> {
    let dense: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let numbered = [format!("\"id\":{id},"), format!("\"id\":{id}}}")];
    let is_one = dense.starts_with('{')
        && dense.contains("\"type\":\"response\"")
        && numbered.iter().any(|number| dense.contains(number));
    is_one.then_some(dense)
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
            assert_eq!(is_answer(text, 2), want, "{text}");
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
            assert_eq!(is_full(text), want, "{text}");
            assert!(!is_answer(text, 1), "{text}");
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
