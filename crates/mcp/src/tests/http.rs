//! Clients over HTTP: who is let in, what each may take, and what one can do to another.

use super::hostile::without_a_session;
use super::talk::{Scripted, eventually};
use crate::calls::{AT_ONCE, SHARE};
use crate::http::{BindError, Bound, Limits};
use crate::road::Road;
use crate::stop::Stop;
use crate::token::Token;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const LIMITS: Limits = Limits {
    connections: 8,
    strangers: 8,
    sessions: 3,
    head: Duration::from_secs(5),
    body: Duration::from_secs(5),
};

struct Server {
    address: SocketAddr,
    token: String,
    stop: Stop,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.stop();
    }
}

struct Reply {
    status: u16,
    head: String,
    body: String,
}

impl Reply {
    fn session(&self) -> String {
        let field = self
            .head
            .lines()
            .find_map(|line| line.strip_prefix("mcp-session-id: "));
        field
            .unwrap_or_else(|| panic!("no session: {}", self.head))
            .trim()
            .to_owned()
    }

    /// The messages in the body, from a stream of events or as they are.
    fn messages(&self) -> Vec<Value> {
        let lines = self
            .body
            .lines()
            .map(|line| line.strip_prefix("data: ").unwrap_or(line));
        lines
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
            .filter(Value::is_object)
            .collect()
    }
}

impl Server {
    fn start(road: Arc<dyn Road>, limits: Limits) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("token");
        let token = Token::load_or_make(&file).unwrap();
        let word = std::fs::read_to_string(&file).unwrap().trim().to_owned();
        let bound = Bound::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let (address, stop) = (bound.address(), Stop::new());
        let own = stop.clone();
        tokio::spawn(async move { bound.run(road, token, limits, &own).await });
        Self {
            address,
            token: word,
            stop,
        }
    }

    /// Sends a request of exactly these fields and reads what comes until the connection ends.
    async fn raw(&self, line: &str, fields: &[(&str, &str)], body: &str) -> Reply {
        let mut text = format!("{line} HTTP/1.1\r\n");
        for (name, value) in fields {
            let _ = write!(text, "{name}: {value}\r\n");
        }
        let size = body.len();
        let _ = write!(
            text,
            "connection: close\r\ncontent-length: {size}\r\n\r\n{body}"
        );
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        // A server that refuses early may not read all of it.
        let _ = stream.write_all(text.as_bytes()).await;
        let mut answer = Vec::new();
        let reading =
            tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut answer));
        let _ = reading.await.expect("the connection stays open");
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
        Reply {
            status: status.unwrap_or(0),
            head: head.to_owned(),
            body: body.to_owned(),
        }
    }

    /// Posts `body` as a client of this server does.
    async fn post(&self, session: Option<&str>, body: &str) -> Reply {
        let (host, bearer) = (self.address.to_string(), format!("Bearer {}", self.token));
        let mut fields = vec![
            ("host", host.as_str()),
            ("authorization", &bearer),
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
        ];
        if let Some(session) = session {
            fields.push(("mcp-session-id", session));
            fields.push(("mcp-protocol-version", "2025-11-25"));
        }
        self.raw("POST /mcp", &fields, body).await
    }

    /// A new session, greeted.
    async fn begin(&self) -> String {
        let reply = self.post(None, &hello()).await;
        assert_eq!(reply.status, 200, "{} {}", reply.head, reply.body);
        let session = reply.session();
        let note = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        assert_eq!(
            self.post(Some(&session), &note.to_string()).await.status,
            202
        );
        session
    }

    async fn end(&self, session: &str) -> u16 {
        let (host, bearer) = (self.address.to_string(), format!("Bearer {}", self.token));
        let fields = [
            ("host", host.as_str()),
            ("authorization", &bearer),
            ("mcp-session-id", session),
        ];
        self.raw("DELETE /mcp", &fields, "").await.status
    }

    async fn call(&self, session: &str, id: i64, tool: &str, arguments: Value) -> Reply {
        let request = json!({
            "jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": { "name": tool, "arguments": arguments },
        });
        self.post(Some(session), &request.to_string()).await
    }
}

fn hello() -> String {
    json!({
        "jsonrpc": "2.0", "id": 0, "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": { "name": "test", "version": "1" },
        },
    })
    .to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn only_this_machine_s_own_addresses_are_listened_on() {
    for address in ["0.0.0.0:0", "192.168.0.1:0", "[::]:0", "8.8.8.8:0"] {
        let refused = Bound::bind(address.parse().unwrap());
        assert!(
            matches!(refused, Err(BindError::NotLoopback(_))),
            "{address}"
        );
    }
    let first = Bound::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let second = Bound::bind(first.address());
    assert!(matches!(second, Err(BindError::Listen { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_would_be_a_session_of_its_own_is_refused() {
    let road = Arc::new(Scripted::new());
    let server = Server::start(road.clone(), LIMITS);
    let (host, bearer) = (
        server.address.to_string(),
        format!("Bearer {}", server.token),
    );
    let session = server.begin().await;
    for (version, code) in [("2025-11-25", -32600), ("2026-07-28", -32022)] {
        let mut fields = vec![
            ("host", host.as_str()),
            ("authorization", &bearer),
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
            ("mcp-protocol-version", version),
            ("mcp-method", "tools/call"),
            ("mcp-name", "test_echo"),
        ];
        for known in [None, Some(("mcp-session-id", session.as_str()))] {
            fields.extend(known);
            let request = json!({
                "jsonrpc": "2.0", "id": 7, "method": "tools/call",
                "params": {
                    "name": "test_echo", "arguments": {}, "_meta": without_a_session(version),
                },
            });
            let reply = server.raw("POST /mcp", &fields, &request.to_string()).await;
            let answer = reply.messages().pop().unwrap();
            assert_eq!((reply.status, &answer["id"]), (400, &json!(7)), "{answer}");
            assert_eq!(answer["error"]["code"], code, "{answer}");
        }
    }
    assert!(road.calls.lock().unwrap().is_empty());
    // The id that was refused is free.
    let reply = server.call(&session, 7, "test_echo", json!({})).await;
    assert_eq!(reply.messages().pop().unwrap()["result"]["isError"], false);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_does_not_belong_here_reaches_nothing() {
    let road = Arc::new(Scripted::new());
    let server = Server::start(road.clone(), LIMITS);
    let (host, bearer) = (
        server.address.to_string(),
        format!("Bearer {}", server.token),
    );
    let port = server.address.port();
    let rebound = format!("evil.example:{port}");
    let evil = format!("http://evil.example:{port}");
    let own = ("host", host.as_str());
    let may = ("authorization", bearer.as_str());
    let kind = ("content-type", "application/json");
    let takes = ("accept", "application/json, text/event-stream");
    for (line, fields, want) in [
        ("POST /mcp", vec![own, kind, takes], 401),
        (
            "POST /mcp",
            vec![own, ("authorization", "Bearer x"), kind, takes],
            401,
        ),
        ("GET /mcp", vec![own], 401),
        ("DELETE /mcp", vec![own], 401),
        ("POST /mcp", vec![("host", &rebound), may, kind, takes], 403),
        (
            "POST /mcp",
            vec![("host", "evil.example"), may, kind, takes],
            403,
        ),
        (
            "POST /mcp",
            vec![own, may, ("origin", &evil), kind, takes],
            403,
        ),
        (
            "POST /mcp",
            vec![own, may, ("origin", "null"), kind, takes],
            403,
        ),
        ("OPTIONS /mcp", vec![own, ("origin", &evil)], 403),
        ("OPTIONS /mcp", vec![own, may], 405),
        ("PUT /mcp", vec![own, may], 405),
        ("POST /", vec![own, may, kind, takes], 404),
        ("POST /mcp/", vec![own, may, kind, takes], 404),
        ("POST /mcp/../mcp", vec![own, may, kind, takes], 404),
        ("POST /mcp?token=x", vec![own, may, kind, takes], 404),
        ("POST /mcp", vec![own, may, takes], 415),
        ("POST /mcp", vec![own, may, kind], 406),
    ] {
        let reply = server.raw(line, &fields, &hello()).await;
        assert_eq!(reply.status, want, "{line} {fields:?}: {}", reply.body);
        assert!(
            !reply.head.to_lowercase().contains("access-control"),
            "{}",
            reply.head
        );
        assert!(!reply.body.contains(&server.token));
    }
    assert!(road.calls.lock().unwrap().is_empty());
    server.begin().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_one_client_s_and_ends_when_it_says_so() {
    let server = Server::start(Arc::new(Scripted::new()), LIMITS);
    let (one, two) = (server.begin().await, server.begin().await);
    assert_ne!(one, two);
    assert!(one.len() >= 32, "{one}");
    let reply = server.call(&one, 1, "test_echo", json!({ "a": 1 })).await;
    let answer = reply.messages().into_iter().find(|m| m["id"] == 1).unwrap();
    assert_eq!(answer["result"]["structuredContent"], json!({ "a": 1 }));
    assert!((200..300).contains(&server.end(&one).await));
    for session in [one.as_str(), "made-up", ""] {
        let status = server.call(session, 2, "test_echo", json!({})).await.status;
        assert_eq!(status, 404, "{session:?}");
    }
    // Without a session there is nothing to call.
    let request = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
    assert!((400..500).contains(&server.post(None, &request.to_string()).await.status));
    assert_eq!(
        server.call(&two, 3, "test_echo", json!({})).await.status,
        200
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_are_bounded_and_room_comes_back() {
    let server = Server::start(Arc::new(Scripted::new()), LIMITS);
    let mut sessions = Vec::new();
    for _ in 0..LIMITS.sessions {
        sessions.push(server.begin().await);
    }
    assert_eq!(server.post(None, &hello()).await.status, 503);
    // Those who are in are served.
    assert_eq!(
        server
            .call(&sessions[0], 1, "test_echo", json!({}))
            .await
            .status,
        200
    );
    server.end(&sessions[0]).await;
    server.begin().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_message_or_too_large_is_refused() {
    let server = Server::start(Arc::new(Scripted::new()), LIMITS);
    let session = server.begin().await;
    let wide = format!("[{}0]", "[],".repeat(60_000));
    for (body, status, code) in [
        ("{", 400, Some(-32700)),
        ("[]", 400, Some(-32600)),
        (
            r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#,
            400,
            Some(-32600),
        ),
        (
            r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#,
            400,
            Some(-32600),
        ),
        (wide.as_str(), 400, Some(-32600)),
        (&"x".repeat(crate::admit::MOST_BYTES + 1), 413, None),
    ] {
        let reply = server.post(Some(&session), body).await;
        assert_eq!(reply.status, status, "{}", reply.body);
        if let Some(code) = code {
            assert_eq!(reply.messages()[0]["error"]["code"], code);
        }
    }
    assert_eq!(
        server
            .call(&session, 9, "test_echo", json!({}))
            .await
            .status,
        200
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_in_use_is_refused_and_the_first_one_is_answered() {
    let road = Arc::new(Scripted::new());
    let server = Server::start(road.clone(), LIMITS);
    let session = server.begin().await;
    let first = server.call(&session, 5, "test_wait", json!({ "ms": 800 }));
    let second = async {
        eventually("it runs", || road.running.load(Ordering::SeqCst) == 1).await;
        server.call(&session, 5, "test_echo", json!({})).await
    };
    let (first, second) = tokio::join!(first, second);
    assert_eq!(second.status, 400);
    assert!(
        first
            .messages()
            .iter()
            .any(|m| m["id"] == 5 && m.get("result").is_some())
    );
    assert_eq!(
        server
            .call(&session, 5, "test_echo", json!({}))
            .await
            .status,
        200
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_the_protocol_refuses_do_not_use_up_a_client_s_room() {
    let server = Server::start(Arc::new(Scripted::new()), LIMITS);
    let session = server.begin().await;
    let (host, bearer) = (
        server.address.to_string(),
        format!("Bearer {}", server.token),
    );
    for id in 0..(2 * crate::in_flight::MOST) {
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": "ping" }).to_string();
        let fields = [
            ("host", host.as_str()),
            ("authorization", &bearer),
            ("content-type", "application/json"),
            ("mcp-session-id", &session),
        ];
        assert_eq!(server.raw("POST /mcp", &fields, &request).await.status, 406);
    }
    assert_eq!(
        server
            .call(&session, 1, "test_echo", json!({}))
            .await
            .status,
        200
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_taken_back_by_its_own_session_only() {
    let road = Arc::new(Scripted::new());
    let server = Server::start(road.clone(), LIMITS);
    let (mine, other) = (server.begin().await, server.begin().await);
    let cancel = json!({
        "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 7 },
    })
    .to_string();
    let waiting = server.call(&mine, 7, "test_wait", json!({ "ms": 60_000 }));
    let cancelling = async {
        eventually("it runs", || road.running.load(Ordering::SeqCst) == 1).await;
        assert_eq!(server.post(Some(&other), &cancel).await.status, 202);
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(road.running.load(Ordering::SeqCst), 1);
        assert_eq!(server.post(Some(&mine), &cancel).await.status, 202);
        eventually("it ends", || road.running.load(Ordering::SeqCst) == 0).await;
    };
    let (reply, ()) = tokio::join!(waiting, cancelling);
    assert!(reply.messages().is_empty(), "answered: {}", reply.body);
    assert_eq!(road.cancelled.load(Ordering::SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_say_nothing_or_too_slowly_lose_their_place() {
    let limits = Limits {
        head: Duration::from_millis(400),
        body: Duration::from_millis(400),
        ..LIMITS
    };
    let server = Server::start(Arc::new(Scripted::new()), limits);
    let mut idle = Vec::new();
    for at in 0..limits.strangers {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        let part = match at % 3 {
            0 => String::new(),
            1 => "POST /mcp HTTP/1.1\r\nhost: ".to_owned(),
            _ => format!(
                "POST /mcp HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\ncontent-length: 99\r\n\r\n{{",
                server.address, server.token
            ),
        };
        stream.write_all(part.as_bytes()).await.unwrap();
        idle.push(stream);
    }
    server.begin().await;
    for mut stream in idle {
        let mut rest = Vec::new();
        let ended = tokio::time::timeout(Duration::from_secs(5), stream.read_to_end(&mut rest));
        let _ = ended.await.expect("a silent connection stays open");
    }
}

/// Reads until `want` was said.
async fn hears(stream: &mut TcpStream, want: &str) {
    let hearing = async {
        let mut said = Vec::new();
        while !String::from_utf8_lossy(&said).contains(want) {
            let read = stream.read_buf(&mut said).await;
            assert!(read.is_ok_and(|bytes| bytes > 0), "it ends without {want}");
        }
    };
    let heard = tokio::time::timeout(Duration::from_secs(10), hearing).await;
    heard.unwrap_or_else(|_| panic!("never: {want}"));
}

/// Reads until the connection ends.
async fn ends(stream: &mut TcpStream) {
    let mut rest = Vec::new();
    let reading = tokio::time::timeout(Duration::from_secs(10), stream.read_to_end(&mut rest));
    let _ = reading.await.expect("the connection stays open");
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_has_no_token_keeps_nobody_out_who_has_it() {
    // Nobody leaves by themselves while this runs.
    let limits = Limits {
        head: Duration::from_mins(2),
        ..LIMITS
    };
    let server = Server::start(Arc::new(Scripted::new()), limits);
    let bearer = format!("authorization: Bearer {}\r\n", server.token);
    let request = |token: &str| {
        let host = server.address;
        format!("POST /mcp HTTP/1.1\r\nhost: {host}\r\n{token}content-length: 0\r\n\r\n")
    };
    // It has the token, and is asked for more than that.
    let mut client = TcpStream::connect(server.address).await.unwrap();
    client.write_all(request(&bearer).as_bytes()).await.unwrap();
    hears(&mut client, "HTTP/1.1 4").await;
    let mut strangers = Vec::new();
    for _ in 0..(2 * (limits.strangers + limits.connections)) {
        strangers.push(TcpStream::connect(server.address).await.unwrap());
    }
    server.begin().await;
    // The oldest went for those who came.
    for stranger in strangers.iter_mut().take(limits.strangers) {
        ends(stranger).await;
    }
    // Who was in still is, until it asks for what nobody gets without the token.
    client.write_all(request(&bearer).as_bytes()).await.unwrap();
    hears(&mut client, "HTTP/1.1 4").await;
    client.write_all(request("").as_bytes()).await.unwrap();
    hears(&mut client, "HTTP/1.1 401").await;
    ends(&mut client).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_without_end_is_cut_off() {
    let server = Server::start(Arc::new(Scripted::new()), LIMITS);
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let flood = async {
        stream.write_all(b"GET /mcp HTTP/1.1\r\n").await?;
        for at in 0..100_000u32 {
            stream
                .write_all(format!("x-{at}: {}\r\n", "y".repeat(100)).as_bytes())
                .await?;
        }
        Ok::<_, std::io::Error>(())
    };
    let flooded = tokio::time::timeout(Duration::from_secs(10), flood).await;
    assert!(flooded.expect("it reads for ever").is_err());
    server.begin().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_the_server_ends_what_runs() {
    let road = Arc::new(Scripted::new());
    let server = Server::start(road.clone(), LIMITS);
    let session = server.begin().await;
    let waiting = server.call(&session, 7, "test_wait", json!({ "ms": 60_000 }));
    let ending = async {
        eventually("it runs", || road.running.load(Ordering::SeqCst) == 1).await;
        server.stop.stop();
        eventually("it ends", || road.running.load(Ordering::SeqCst) == 0).await;
    };
    tokio::join!(waiting, ending);
    assert_eq!(road.cancelled.load(Ordering::SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_client_cannot_take_the_places_of_all_others() {
    let road = Arc::new(Scripted::new());
    let limits = Limits {
        connections: 64,
        ..LIMITS
    };
    let server = Arc::new(Server::start(road.clone(), limits));
    let (greedy, other) = (server.begin().await, server.begin().await);
    let calls: Vec<_> = (1..=AT_ONCE + 4)
        .map(|id| {
            let (server, session) = (Arc::clone(&server), greedy.clone());
            let id = i64::try_from(id).unwrap();
            tokio::spawn(async move {
                let long = json!({ "ms": 120_000 });
                server.call(&session, id, "test_wait", long).await
            })
        })
        .collect();
    let running = || road.running.load(Ordering::SeqCst);
    eventually("it has its share", || running() == SHARE).await;
    let reply = server.call(&other, 1, "test_echo", json!({})).await;
    let answered = reply.messages();
    assert!(
        answered.iter().any(|one| one["result"]["isError"] == false),
        "{answered:?}"
    );
    assert!(road.most.load(Ordering::SeqCst) <= SHARE + 1);
    server.stop.stop();
    for call in calls {
        call.abort();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_is_deleted_is_put_away_and_so_are_those_of_a_server_that_stops() {
    let road = Arc::new(Scripted::new());
    let server = Server::start(road.clone(), LIMITS);
    let ended = || road.ended.lock().unwrap().len();
    for number in 1..=5 {
        let session = server.begin().await;
        server.call(&session, 1, "test_echo", json!({})).await;
        assert_eq!(ended(), number - 1);
        assert!(server.end(&session).await < 300);
        eventually("it is put away", || ended() == number).await;
    }
    let session = server.begin().await;
    server.call(&session, 1, "test_echo", json!({})).await;
    server.stop.stop();
    eventually("the last is put away", || ended() == 6).await;
}
