//! A model behind a certificate of the person's own authority: named in their configuration, or told
//! what to do about it. Its key is nowhere but in the question.

use crate::support::{Ran, World, finished};
use rcgen::{CertificateParams, Issuer, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

const KEY: &str = "sk-very-secret";

/// A server on this port, the certificate of its authority, and what was asked of it.
fn serve(name: &str) -> (u16, String, Arc<Mutex<Vec<String>>>) {
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
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = Arc::clone(&asked);
    std::thread::spawn(move || {
        for socket in listener.incoming().map_while(Result::ok) {
            let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = StreamOwned::new(connection, socket);
            let mut buffer = vec![0; 256 * 1024];
            let Ok(length @ 1..) = stream.read(&mut buffer) else {
                continue;
            };
            let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
            // One that asks for it by name is refused with its own key.
            let answer = if text.contains("/refusing/") {
                let body = format!("{{\"error\":{{\"message\":\"bad key {KEY}\"}}}}");
                format!(
                    "HTTP/1.1 401 Unauthorized\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                    body.len()
                )
            } else {
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\ndata: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hello\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n".to_owned()
            };
            seen.lock().unwrap().push(text);
            let _ = stream.write_all(answer.as_bytes());
            stream.conn.send_close_notify();
            let _ = stream.flush();
        }
    });
    (port, pem, asked)
}

fn ask(world: &World, port: u16, path: &str, more: &str, words: &[&str]) -> Ran {
    let list = format!(
        "models:\n  - name: own\n    provider: openai\n    base_url: https://localhost:{port}/{path}\n    model: m\n    key: {{ env: MY_KEY }}\n{more}"
    );
    std::fs::create_dir_all(world.path("config/airlock")).unwrap();
    std::fs::write(world.path("config/airlock/config.yaml"), list).unwrap();
    let mut command = world.command(&[&["run", "greet me"][..], words].concat());
    command.env("MY_KEY", KEY);
    finished(&mut command)
}

#[test]
fn an_own_authority_is_named_or_the_error_says_how() {
    let world = World::governed();
    let (port, pem, asked) = serve("localhost");
    let file = world.path("authority.pem");
    std::fs::write(&file, pem).unwrap();
    let named = format!("    ca_file: {}\n", file.display());

    let ran = ask(&world, port, "v1", "", &[]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    for said in [
        format!("error: the certificate of `localhost:{port}` is not accepted\n").as_str(),
        "  why: no authority that this machine or `ca_file` knows has signed it\n",
        "  why: nothing was sent",
        "  fix: if you trust this server, name a file with its authority's certificate as `ca_file`",
    ] {
        assert!(ran.stderr.contains(said), "{said}: {ran:?}");
    }
    let ran = ask(&world, port, "v1", "", &["--json"]);
    let last = ran.stdout.lines().last().unwrap();
    let last: serde_json::Value = serde_json::from_str(last).unwrap();
    assert_eq!(last["error"]["kind"], "failed", "{ran:?}");
    assert!(
        last["error"]["fix"][0]
            .as_str()
            .unwrap()
            .contains("`ca_file`"),
        "{ran:?}"
    );
    assert!(asked.lock().unwrap().is_empty(), "nothing was sent");

    let ran = ask(&world, port, "v1", &named, &[]);
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (Some(0), "hello\n"),
        "{ran:?}"
    );
    assert!(asked.lock().unwrap()[0].contains(KEY));

    let (elsewhere, pem, _) = serve("models.example");
    std::fs::write(&file, pem).unwrap();
    let ran = ask(&world, elsewhere, "v1", &named, &[]);
    assert!(
        ran.stderr.contains("why: it is made out to another name"),
        "{ran:?}"
    );
    for (text, why) in [
        ("no certificate\n", "`ca_file` holds no certificates in PEM"),
        ("", "`ca_file` holds no certificates in PEM"),
    ] {
        std::fs::write(&file, text).unwrap();
        let ran = ask(&world, port, "v1", &named, &[]);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.stderr.contains(why), "{ran:?}");
    }
}

#[test]
fn a_key_is_in_no_error_no_event_and_no_record() {
    let world = World::governed();
    let (port, pem, asked) = serve("localhost");
    let file = world.path("authority.pem");
    std::fs::write(&file, pem).unwrap();
    let named = format!("    ca_file: {}\n", file.display());
    let proxied = format!("{named}    proxy: http://127.0.0.1:1\n");
    for (path, more) in [
        ("v1", ""),
        ("v1", named.as_str()),
        ("refusing/v1", named.as_str()),
        ("v1", proxied.as_str()),
    ] {
        for words in [&[][..], &["--json"][..]] {
            let ran = ask(&world, port, path, more, words);
            assert!(!format!("{ran:?}").contains(KEY), "{path}: {ran:?}");
        }
    }
    assert!(asked.lock().unwrap().iter().all(|one| one.contains(KEY)));
    for words in [
        &["audit", "log", "--json"][..],
        &["audit", "export", "--format", "jsonl"],
        &["session", "list", "--json"],
        &["config", "show"],
    ] {
        let ran = world.quiet(words);
        assert!(!format!("{ran:?}").contains(KEY), "{words:?}: {ran:?}");
    }
    // Nor in any file that is kept.
    for place in ["state", "home"] {
        let mut directories = vec![world.path(place)];
        while let Some(directory) = directories.pop() {
            for entry in std::fs::read_dir(directory).unwrap().flatten() {
                let kind = entry.file_type().unwrap();
                if kind.is_dir() {
                    directories.push(entry.path());
                } else if kind.is_file() {
                    let bytes = std::fs::read(entry.path()).unwrap();
                    let found = bytes
                        .windows(KEY.len())
                        .any(|window| window == KEY.as_bytes());
                    assert!(!found, "{}", entry.path().display());
                }
            }
        }
    }
}
