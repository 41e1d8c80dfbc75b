//! Adapters that ask a host: a real server with TLS on loopback, a real worker without a network.

use crate::support::{Place, denied, done, failed};
use rcgen::{CertificateParams, Issuer, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::json;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

const POLICY: &str = "
version: 1
rules:
  - name: connect
    match: { syscall: net.connect, host: [localhost, 127.0.0.1] }
    action: allow
  - name: not-that-one
    match: { tool: web.forbidden }
    action: deny
    reason: not here
";

type Stream = StreamOwned<ServerConnection, TcpStream>;

/// A server whose certificate is for `name`, and what to do with the n-th connection's request.
struct Server {
    port: u16,
    authority: String,
    requests: Receiver<String>,
}

impl Server {
    fn start(name: &str, answer: impl Fn(usize, &mut Stream) + Send + 'static) -> Self {
        let authority = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let pem = params.self_signed(&authority).unwrap().pem();
        let issuer = Issuer::new(params, authority);
        let key = KeyPair::generate().unwrap();
        let own = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let own = own.signed_by(&key, &issuer).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![own.der().clone()],
                PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
            )
            .unwrap();
        let config = Arc::new(config);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (tell, requests) = channel();
        // It ends with the test's process; nothing waits for it.
        std::thread::spawn(move || {
            for (index, socket) in listener.incoming().enumerate() {
                let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
                let mut stream = StreamOwned::new(connection, socket.unwrap());
                let request = heard(&mut stream);
                let _ = tell.send(request);
                answer(index, &mut stream);
                stream.conn.send_close_notify();
                let _ = stream.flush();
            }
        });
        Self {
            port,
            authority: pem,
            requests,
        }
    }

    fn answering(text: &'static str) -> Self {
        Self::start("localhost", move |_, stream| {
            let _ = stream.write_all(text.as_bytes());
        })
    }

    fn place(&self, host: &str, more: &str) -> Place {
        let text = adapter("one", "web.items", host, self.port, more);
        let forbidden = adapter("two", "web.forbidden", host, self.port, more);
        Place::new(POLICY, &[]).defining(
            &[("one.yaml", &text), ("two.yaml", &forbidden)],
            self.authority.clone(),
        )
    }
}

/// Head and, where there is one, body of a request; empty if nobody who trusts us is there.
fn heard(stream: &mut Stream) -> String {
    let mut bytes = Vec::new();
    let mut buffer = [0; 1024];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let whole = text.split_once("\r\n\r\n").is_some_and(|(head, body)| {
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("Content-Length: "));
            body.len() >= length.map_or(0, |length| length.parse().unwrap())
        });
        if whole {
            return text;
        }
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return text,
            Ok(read) => bytes.extend_from_slice(&buffer[..read]),
        }
    }
}

fn adapter(id: &str, tool: &str, host: &str, port: u16, more: &str) -> String {
    format!(
        "adapter: 1\nid: {id}\nname: items\ntool: {tool}\ntype: api\n---\nsummary: Items\nversion: 1.0.0\nstatus: active\n---\n\
interface:\n  idempotent: true\n  input: {{ type: object, required: [id], properties: {{ id: {{ type: string }} }} }}\n\
api: {{ method: POST, url: 'https://{host}:{port}/items/{{id}}', body: json }}\n{more}"
    )
}

#[test]
fn a_request_reaches_the_host_that_was_decided_on_and_its_answer_comes_back_clean() {
    let server = Server::answering(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 78\r\n\r\n\
         {\"name\": \"\\u001b[31mred\", \"key\": \"ghp_16C7e42F292c6912E7710c838347Ae178B4a\"}   ",
    );
    let place = server.place("localhost", "output: { parse: json }\n");
    let answer = done(place.call("web.items", json!({ "id": "a b/../c" })));
    assert_eq!(answer.value["status"], 200);
    assert_eq!(answer.value["adapter"], "one");
    // Whoever reads it is told whose word it is.
    assert_eq!(answer.origin.to_string(), "web:localhost");
    let shown = answer.value.to_string();
    assert!(
        !shown.contains("ghp_16C7") && !shown.contains('\u{1b}'),
        "{shown}"
    );
    assert!(
        answer.value["value"]["name"]
            .as_str()
            .unwrap()
            .contains("red")
    );
    let request = server.requests.recv().unwrap();
    assert!(
        request.starts_with("POST /items/a%20b%2F..%2Fc HTTP/1.1\r\n"),
        "{request}"
    );
    assert!(request.ends_with("{\"id\":\"a b/../c\"}"), "{request}");
}

#[test]
fn a_denied_request_opens_no_connection() {
    let server = Server::answering("HTTP/1.1 200 OK\r\n\r\n");
    let place = server.place("localhost", "");
    denied(place.call("web.forbidden", json!({ "id": "7" })));
    let elsewhere = server.place("127.0.0.2", "");
    denied(elsewhere.call("web.items", json!({ "id": "7" })));
    assert!(server.requests.try_recv().is_err());
}

#[test]
fn a_server_that_cannot_prove_who_it_is_gets_no_request() {
    let other = Server::start("other.example", |_, _| {});
    let place = other.place("localhost", "");
    let failure = failed(place.call("web.items", json!({ "id": "7" })));
    assert_eq!(failure.code, "connection_not_trusted", "{failure:?}");
    let mut unknown = Server::answering("HTTP/1.1 200 OK\r\n\r\n");
    unknown.authority = other.authority;
    let failure = failed(
        unknown
            .place("localhost", "")
            .call("web.items", json!({ "id": "7" })),
    );
    assert_eq!(failure.code, "connection_not_trusted", "{failure:?}");
    for server in [other.requests, unknown.requests] {
        assert_eq!(server.recv().unwrap(), "", "a request was sent");
    }
}

#[test]
fn what_a_server_answers_has_a_word() {
    let errors = "errors: [{ status: 404, code: no_such_item, summary: There is none }, { status: 410, code: gone, summary: Gone, ok: true }]\n";
    for (text, code) in [
        (
            "HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n",
            "no_such_item",
        ),
        ("HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n", "http_500"),
        // Nobody decided on where it leads.
        (
            "HTTP/1.1 302 Found\r\nLocation: https://localhost/\r\nContent-Length: 0\r\n\r\n",
            "http_302",
        ),
        ("no such protocol\r\n\r\n", "output_invalid"),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
            "no_answer",
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 999999999\r\n\r\n",
            "too_much_output",
        ),
    ] {
        let place = Server::answering(text).place("localhost", errors);
        let failure = failed(place.call("web.items", json!({ "id": "7" })));
        assert_eq!(failure.code, code, "{text:?}: {failure:?}");
    }
    let place = Server::answering("HTTP/1.1 410 Gone\r\nContent-Length: 4\r\n\r\nonce")
        .place("localhost", errors);
    let answer = done(place.call("web.items", json!({ "id": "7" })));
    assert_eq!(answer.value["value"], "once");
}

#[test]
fn floods_and_silence_end() {
    let flood = Server::start("localhost", |_, stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
        while stream.write_all(&[b'x'; 16 * 1024]).is_ok() {}
    });
    let failure = failed(
        flood
            .place("localhost", "")
            .call("web.items", json!({ "id": "7" })),
    );
    assert_eq!(failure.code, "too_much_output", "{failure:?}");
    let silence = Server::start("localhost", |_, _| {
        std::thread::sleep(Duration::from_mins(10));
    });
    let place = silence.place("localhost", "sandbox: { timeout: 1s }\n");
    let failure = failed(place.call("web.items", json!({ "id": "7" })));
    assert_eq!(failure.code, "timed_out", "{failure:?}");
    let nobody = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    let server = Server {
        port: nobody,
        authority: String::new(),
        requests: channel().1,
    };
    let failure = failed(
        server
            .place("localhost", "")
            .call("web.items", json!({ "id": "7" })),
    );
    assert_eq!(failure.code, "unreachable", "{failure:?}");
}

#[test]
fn what_may_be_asked_twice_is_asked_again() {
    let server = Server::start("localhost", |index, stream| {
        let text = if index == 0 {
            "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"
        } else {
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
        };
        let _ = stream.write_all(text.as_bytes());
    });
    let place = server.place("localhost", "retry: { on: [http_503], backoff: 10ms }\n");
    let answer = done(place.call("web.items", json!({ "id": "7" })));
    assert_eq!(answer.value["value"], "hi");
    assert_eq!(server.requests.iter().take(2).count(), 2);
}
