//! HTTP/1.1, as much of it as one request and its bounded answer need.

use crate::exchange::{Order, Problem};
use std::fmt::Write as _;
use std::io::{BufRead, Read};

/// Most bytes of the answer's head.
const HEAD: usize = 64 * 1024;
/// Most headers.
const HEADERS: usize = 100;
/// Longest line that says how long a chunk is.
const CHUNK_LINE: u64 = 256;

/// The request as it is sent. The connection ends with the answer.
pub(crate) fn request(order: &Order) -> Vec<u8> {
    let authority = match (order.host.contains(':'), order.port) {
        (true, 443) => format!("[{}]", order.host),
        (true, port) => format!("[{}]:{port}", order.host),
        (false, 443) => order.host.clone(),
        (false, port) => format!("{}:{port}", order.host),
    };
    let mut text = format!(
        "{} {} HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: airlock/{}\r\nAccept: */*\r\n\
         Accept-Encoding: identity\r\nConnection: close\r\n",
        order.method,
        order.target,
        env!("CARGO_PKG_VERSION"),
    );
    if let Some(body) = &order.body {
        text.push_str("Content-Type: application/json\r\n");
        // Writing to a `String` cannot fail.
        let _ = write!(text, "Content-Length: {}\r\n\r\n{body}", body.len());
    } else {
        text.push_str("\r\n");
    }
    text.into_bytes()
}

/// What the head of an answer says.
#[derive(Debug, PartialEq, Eq)]
struct Head {
    status: u16,
    content_type: Option<String>,
    length: Length,
}

/// How the end of a body is told.
#[derive(Debug, PartialEq, Eq)]
enum Length {
    Known(u64),
    Chunked,
    UntilClosed,
}

/// Reads the answer: status, content type, body of at most `most` bytes.
pub(crate) fn answer(
    input: &mut impl BufRead,
    method: &str,
    most: usize,
) -> Result<(u16, Option<String>, Vec<u8>), Problem> {
    let mut head = read_head(input)?;
    // Those before the last say only that it takes a while.
    while (100..200).contains(&head.status) {
        head = read_head(input)?;
    }
    let empty = method == "HEAD" || head.status == 204 || head.status == 304;
    let body = match head.length {
        _ if empty => Vec::new(),
        Length::Known(length) => {
            if length > most as u64 {
                return Err(Problem::TooMuch(most));
            }
            let body = up_to(input, length)?;
            if (body.len() as u64) < length {
                return Err(Problem::Closed);
            }
            body
        }
        Length::Chunked => chunks(input, most)?,
        Length::UntilClosed => {
            let body = up_to(input, most as u64 + 1)?;
            if body.len() > most {
                return Err(Problem::TooMuch(most));
            }
            body
        }
    };
    Ok((head.status, head.content_type, body))
}

fn read_head(input: &mut impl BufRead) -> Result<Head, Problem> {
    let mut bytes = Vec::new();
    loop {
        let before = bytes.len();
        let room = (HEAD - before) as u64;
        input
            .take(room)
            .read_until(b'\n', &mut bytes)
            .map_err(|error| Problem::reading(&error))?;
        if bytes.len() == before {
            return Err(if before == HEAD {
                Problem::Http("its headers are too long".to_owned())
            } else {
                Problem::Closed
            });
        }
        if bytes.ends_with(b"\r\n\r\n") || bytes.ends_with(b"\n\n") {
            break;
        }
    }
    let mut headers = [httparse::EMPTY_HEADER; HEADERS];
    let mut response = httparse::Response::new(&mut headers);
    let parsed = response.parse(&bytes);
    match parsed {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) => {
            return Err(Problem::Http("its headers do not end".to_owned()));
        }
        Err(error) => return Err(Problem::Http(error.to_string())),
    }
    let Some(status) = response.code else {
        return Err(Problem::Http("it has no status".to_owned()));
    };
    let text = |name: &str| -> Result<Option<&str>, Problem> {
        let mut found = response
            .headers
            .iter()
            .filter(|header| header.name.eq_ignore_ascii_case(name));
        let first = found.next();
        // Two lengths, or two codings, are two opinions on where the answer ends.
        if found.next().is_some() && name != "content-type" {
            return Err(Problem::Http(format!("`{name}` is there twice")));
        }
        first.map_or(Ok(None), |header| {
            let value = std::str::from_utf8(header.value);
            value
                .map(|value| Some(value.trim()))
                .map_err(|_| Problem::Http(format!("`{name}` is no text")))
        })
    };
    let coding = text("transfer-encoding")?;
    let length = match (coding, text("content-length")?) {
        (Some(coding), None) if coding.eq_ignore_ascii_case("chunked") => Length::Chunked,
        (Some(_), None) => return Err(Problem::Http("its transfer coding is unknown".to_owned())),
        (Some(_), Some(_)) => return Err(Problem::Http("it has two lengths".to_owned())),
        (None, Some(length)) => match length.parse() {
            Ok(length) if length_is_plain(text("content-length")?) => Length::Known(length),
            _ => return Err(Problem::Http("its length is no number".to_owned())),
        },
        (None, None) => Length::UntilClosed,
    };
    let content_type = text("content-type")?.map(|value| value.chars().take(200).collect());
    Ok(Head {
        status,
        content_type,
        length,
    })
}

/// Digits alone: `+5` is read as a number too, and by other readers not.
fn length_is_plain(text: Option<&str>) -> bool {
    text.is_some_and(|text| text.bytes().all(|byte| byte.is_ascii_digit()))
}

fn up_to(input: &mut impl BufRead, most: u64) -> Result<Vec<u8>, Problem> {
    let mut bytes = Vec::new();
    input
        .take(most)
        .read_to_end(&mut bytes)
        .map_err(|error| Problem::reading(&error))?;
    Ok(bytes)
}

fn chunks(input: &mut impl BufRead, most: usize) -> Result<Vec<u8>, Problem> {
    let mut body = Vec::new();
    let wrong = || Problem::Http("its chunks are not well formed".to_owned());
    loop {
        let mut line = Vec::new();
        input
            .take(CHUNK_LINE)
            .read_until(b'\n', &mut line)
            .map_err(|error| Problem::reading(&error))?;
        if line.last() != Some(&b'\n') {
            return Err(if line.len() as u64 == CHUNK_LINE {
                wrong()
            } else {
                Problem::Closed
            });
        }
        let text = std::str::from_utf8(&line).map_err(|_| wrong())?;
        let size = text.split(';').next().unwrap_or_default().trim();
        if size.is_empty() || !size.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        let size = usize::from_str_radix(size, 16).map_err(|_| wrong())?;
        if size == 0 {
            // Trailers say nothing that is used here, and the connection ends with them.
            return Ok(body);
        }
        if size > most.saturating_sub(body.len()) {
            return Err(Problem::TooMuch(most));
        }
        let chunk = up_to(input, size as u64)?;
        if chunk.len() < size {
            return Err(Problem::Closed);
        }
        body.extend(chunk);
        let mut end = [0; 2];
        input
            .read_exact(&mut end)
            .map_err(|error| Problem::reading(&error))?;
        if end != *b"\r\n" {
            return Err(wrong());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8]) -> Result<(u16, Option<String>, Vec<u8>), String> {
        answer(&mut &*text, "GET", 20).map_err(|problem| problem.to_string())
    }

    #[test]
    fn answers_end_where_they_say_and_nowhere_else() {
        let ok = |body: &str| Ok((200, None, body.as_bytes().to_vec()));
        for (text, want) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi!", ok("hi")),
            ("HTTP/1.1 200 OK\r\n\r\nhi", ok("hi")),
            (
                "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\nhi",
                ok("hi"),
            ),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n3;x=y\r\n yo\r\n0\r\n\r\n",
                ok("hi yo"),
            ),
            (
                "HTTP/1.1 204 No Content\r\nContent-Length: 9\r\n\r\n",
                Ok((204, None, Vec::new())),
            ),
        ] {
            assert_eq!(read(text.as_bytes()), want, "{text}");
        }
        let (status, kind, _) = read(b"HTTP/1.1 404 No\r\nContent-Type: text/x\r\n\r\n").unwrap();
        assert_eq!((status, kind.as_deref()), (404, Some("text/x")));
    }

    #[test]
    fn what_is_cut_short_too_long_or_ambiguous_is_no_answer() {
        let long = "x".repeat(21);
        for text in [
            "",
            "HTTP/1.1 200 OK\r\nContent-Le",
            "garbage\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhi",
            "HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nhi",
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nhi",
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\nhi",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nhi",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\nhi\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffffff\r\nhi\r\n",
            &format!("HTTP/1.1 200 OK\r\n\r\n{long}"),
            &format!("HTTP/1.1 200 OK\r\nContent-Length: 21\r\n\r\n{long}"),
            &format!(
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n15\r\n{long}\r\n0\r\n\r\n"
            ),
            &format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "y".repeat(HEAD)),
        ] {
            assert!(read(text.as_bytes()).is_err(), "{text:.80}");
        }
    }

    #[test]
    fn a_request_says_whom_it_means_and_that_it_is_the_only_one() {
        let order = Order {
            method: "POST".to_owned(),
            host: "::1".to_owned(),
            port: 8443,
            target: "/a?b=c".to_owned(),
            body: Some("{}".to_owned()),
            certificates: String::new(),
            most: 1,
        };
        let text = String::from_utf8(request(&order)).unwrap();
        assert!(
            text.starts_with("POST /a?b=c HTTP/1.1\r\nHost: [::1]:8443\r\n"),
            "{text}"
        );
        assert!(
            text.contains("Connection: close\r\n") && text.ends_with("Content-Length: 2\r\n\r\n{}")
        );
    }
}
