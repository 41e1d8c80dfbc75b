//! Servers that show a certificate: whose is accepted, and what the others are told.

use crate::support::{HELLO, Server, ask, at, events};
use airlock_model::{CertificateFault, Clock, ModelError, OpenAi, OpenAiSettings, Secret};
use rcgen::{CertificateParams, Issuer, KeyPair, date_time_ymd};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

const KEY: &str = "sk-very-secret";

/// What a certificate says.
struct Says {
    name: &'static str,
    /// Years.
    from: i32,
    until: i32,
}

const GOOD: Says = Says {
    name: "localhost",
    from: 2000,
    until: 4000,
};

/// A server with a certificate, signed by an authority of its own.
struct Secured {
    port: u16,
    /// The authority's certificate.
    authority: String,
    /// What was asked, once it was decrypted.
    heard: Arc<Mutex<Vec<String>>>,
    connections: Arc<AtomicUsize>,
}

impl Secured {
    fn answering(says: &Says, answer: Vec<u8>) -> Self {
        let (config, authority) = certified(says);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let heard: Arc<Mutex<Vec<String>>> = Arc::default();
        let connections: Arc<AtomicUsize> = Arc::default();
        let (seen, counted) = (Arc::clone(&heard), Arc::clone(&connections));
        std::thread::spawn(move || {
            for socket in listener.incoming().map_while(Result::ok) {
                counted.fetch_add(1, Ordering::SeqCst);
                let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
                let mut stream = StreamOwned::new(connection, socket);
                let request = read(&mut stream);
                if request.is_empty() {
                    continue;
                }
                seen.lock().unwrap().push(request);
                let _ = stream.write_all(&answer);
                stream.conn.send_close_notify();
                let _ = stream.flush();
            }
        });
        Self {
            port,
            authority,
            heard,
            connections,
        }
    }

    fn saying(says: &Says) -> Self {
        Self::answering(says, events(HELLO))
    }

    /// How it is asked by somebody who trusts `authority`.
    fn settings(&self, authority: Option<&str>) -> OpenAiSettings {
        let mut settings = at(&format!("https://localhost:{}/v1", self.port));
        settings.key = Some(Secret::new(KEY.to_owned()));
        settings.ca_pem = authority.map(|pem| pem.as_bytes().to_vec());
        settings
    }

    fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }
}

fn certified(says: &Says) -> (Arc<ServerConfig>, String) {
    let authority = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let pem = params.self_signed(&authority).unwrap().pem();
    let issuer = Issuer::new(params, authority);
    let key = KeyPair::generate().unwrap();
    let mut own = CertificateParams::new(vec![says.name.to_owned()]).unwrap();
    own.not_before = date_time_ymd(says.from, 1, 1);
    own.not_after = date_time_ymd(says.until, 1, 1);
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
    (Arc::new(config), pem)
}

/// A request with its body; empty where nobody asks who trusts this server.
fn read(stream: &mut impl Read) -> String {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let whole = text.split_once("\r\n\r\n").is_some_and(|(head, body)| {
            let lower = head.to_lowercase();
            let length = lower.split("content-length: ").nth(1);
            let length = length.and_then(|rest| rest.lines().next());
            body.len() >= length.map_or(0, |length| length.trim().parse().unwrap())
        });
        if whole {
            return text;
        }
        match stream.read(&mut buffer) {
            Ok(length @ 1..) => bytes.extend_from_slice(&buffer[..length]),
            Ok(_) | Err(_) => return String::new(),
        }
    }
}

fn model(settings: OpenAiSettings) -> OpenAi {
    OpenAi::new("test", settings, Clock::system()).unwrap()
}

#[test]
fn a_server_is_accepted_whose_authority_is_named() {
    let server = Secured::saying(&GOOD);
    let other = Secured::saying(&GOOD);
    let both = format!("{}{}", other.authority, server.authority);
    for authority in [&server.authority, &both] {
        let reply = ask(&model(server.settings(Some(authority)))).0;
        assert_eq!(reply.unwrap().text, "hello");
    }
    let heard = server.heard();
    assert_eq!(heard.len(), 2);
    for asked in heard {
        let bearer = format!("authorization: Bearer {KEY}");
        assert!(
            asked.to_lowercase().contains(&bearer.to_lowercase()),
            "{asked}"
        );
    }
}

#[test]
fn a_certificate_that_does_not_hold_is_refused_once_and_told_nothing() {
    use CertificateFault::{Expired, NotYetValid, UnknownIssuer, WrongName};
    let elsewhere = Says {
        name: "models.example",
        ..GOOD
    };
    let old = Says {
        until: 2001,
        ..GOOD
    };
    let young = Says { from: 3000, ..GOOD };
    for (case, says, trusted, want, fix) in [
        ("no authority", &GOOD, "none", UnknownIssuer, "`ca_file`"),
        (
            "another's authority",
            &GOOD,
            "another",
            UnknownIssuer,
            "`ca_file`",
        ),
        (
            "another name",
            &elsewhere,
            "its own",
            WrongName,
            "`base_url`",
        ),
        ("expired", &old, "its own", Expired, "renewed"),
        ("not yet valid", &young, "its own", NotYetValid, "clock"),
    ] {
        let server = Secured::saying(says);
        let another = certified(&GOOD).1;
        let authority = match trusted {
            "its own" => Some(server.authority.as_str()),
            "another" => Some(another.as_str()),
            _ => None,
        };
        let (reply, heard) = ask(&model(server.settings(authority)));
        let error = reply.unwrap_err();
        let ModelError::Certificate { host, fault } = &error else {
            panic!("{case}: {error:?}");
        };
        assert_eq!(
            (host, fault),
            (&format!("localhost:{}", server.port), &want),
            "{case}"
        );
        let hint = error.hint().unwrap();
        assert!(hint.contains(fix), "{case}: {hint}");
        assert!(
            heard.is_empty(),
            "{case}: nothing is tried again: {heard:?}"
        );
        assert_eq!(server.connections.load(Ordering::SeqCst), 1, "{case}");
        assert!(server.heard().is_empty(), "{case}: it was told something");
        assert!(!format!("{error} {error:?}").contains(KEY), "{case}");
    }
}

#[test]
fn a_server_that_speaks_plainly_where_it_should_not_gets_nothing() {
    let plain = Server::answering(vec![events(HELLO)]);
    let mut settings = at(&format!("https://localhost:{}/v1", plain.address.port()));
    settings.key = Some(Secret::new(KEY.to_owned()));
    let error = ask(&model(settings)).0.unwrap_err();
    assert!(matches!(error, ModelError::Unreachable { .. }), "{error:?}");
    assert_eq!(plain.count(), 0);
    assert!(!format!("{error} {error:?}").contains(KEY), "{error:?}");
}

#[test]
fn a_secured_server_cannot_send_the_key_elsewhere() {
    let plain = Server::answering(vec![events(HELLO)]);
    let other = Secured::saying(&GOOD);
    for to in [
        format!("http://{}/v1/chat/completions", plain.address),
        format!("https://localhost:{}/v1/chat/completions", other.port),
    ] {
        for status in ["301 Moved", "302 Found", "307 Temporary", "308 Permanent"] {
            let answer = format!(
                "HTTP/1.1 {status}\r\nlocation: {to}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
            );
            let server = Secured::answering(&GOOD, answer.into_bytes());
            let both = format!("{}{}", other.authority, server.authority);
            let error = ask(&model(server.settings(Some(&both)))).0.unwrap_err();
            assert!(
                matches!(&error, ModelError::Redirected { to: told, .. } if *told == to),
                "{status}: {error:?}"
            );
        }
    }
    assert_eq!((plain.count(), other.heard().len()), (0, 0));
}

/// A proxy, and all that its clients sent it.
fn proxy() -> (u16, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let passed: Arc<Mutex<Vec<u8>>> = Arc::default();
    let seen = Arc::clone(&passed);
    std::thread::spawn(move || {
        for mut client in listener.incoming().map_while(Result::ok) {
            let head = read(&mut client);
            seen.lock().unwrap().extend_from_slice(head.as_bytes());
            let target = head.split_whitespace().nth(1).unwrap_or_default();
            let Ok(mut server) = TcpStream::connect(target) else {
                continue;
            };
            let _ = client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n");
            let (mut back, mut from) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut from, &mut back));
            let seen = Arc::clone(&seen);
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = client.read(&mut buffer) {
                seen.lock().unwrap().extend_from_slice(&buffer[..length]);
                if server.write_all(&buffer[..length]).is_err() {
                    break;
                }
            }
            let _ = server.shutdown(std::net::Shutdown::Write);
        }
    });
    (port, passed)
}

#[test]
fn a_proxy_carries_the_question_and_never_sees_the_key() {
    let server = Secured::saying(&GOOD);
    let (port, passed) = proxy();
    let mut settings = server.settings(Some(&server.authority));
    settings.proxy = Some(format!("http://127.0.0.1:{port}"));
    assert_eq!(ask(&model(settings)).0.unwrap().text, "hello");
    assert!(server.heard()[0].contains(KEY), "the server got it");
    let passed = passed.lock().unwrap().clone();
    let text = String::from_utf8_lossy(&passed).to_lowercase();
    let connect = format!("connect localhost:{} http/1.1", server.port);
    assert!(text.starts_with(&connect), "{text}");
    assert!(passed.len() > 500, "all of it went through the proxy");
    for hidden in [KEY, "bearer", "chat/completions", "test-model"] {
        assert!(!text.contains(hidden), "{hidden}");
    }
    // The proxy itself cannot pass for the server.
    let mut settings = server.settings(None);
    settings.proxy = Some(format!("http://127.0.0.1:{port}"));
    let error = ask(&model(settings)).0.unwrap_err();
    assert!(matches!(error, ModelError::Certificate { .. }), "{error:?}");
    assert_eq!(server.heard().len(), 1);
}
