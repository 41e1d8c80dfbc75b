//! A server of chat completions that answers everything alike.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

/// A server, and what was asked of it.
pub(crate) struct Provider {
    pub(crate) port: u16,
    pub(crate) asked: Arc<Mutex<Vec<String>>>,
}

impl Provider {
    pub(crate) fn saying(text: &str) -> Self {
        Self::streaming(&chunk(text, Some("stop")))
    }

    /// Says `piece` over and over, without a space, for so many bytes.
    pub(crate) fn flooding(piece: &str, bytes: usize) -> Self {
        let once = piece.repeat(64 * 1024 / piece.len());
        let mut events = chunk(&once, None).repeat(bytes.div_ceil(once.len()));
        events.push_str(&chunk(" THE END", Some("stop")));
        Self::streaming(&events)
    }

    fn streaming(events: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let seen = Arc::clone(&asked);
        let answer = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n{events}data: [DONE]\n\n"
        );
        std::thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let mut request = String::new();
                let mut length = 0;
                loop {
                    let mut line = String::new();
                    reader.read_line(&mut line).unwrap();
                    let lower = line.to_lowercase();
                    if let Some(value) = lower.strip_prefix("content-length:") {
                        length = value.trim().parse().unwrap();
                    }
                    if line.trim().is_empty() {
                        break;
                    }
                    request.push_str(&line);
                }
                let mut body = vec![0; length];
                reader.read_exact(&mut body).unwrap();
                request.push_str(&String::from_utf8_lossy(&body));
                seen.lock().unwrap().push(request);
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        Self { port, asked }
    }
}

/// One event with a piece of an answer.
fn chunk(text: &str, finish: Option<&str>) -> String {
    let chunk = serde_json::json!({
        "choices": [{ "index": 0, "delta": { "content": text }, "finish_reason": finish }],
        "usage": finish.map(|_| serde_json::json!({ "prompt_tokens": 100, "completion_tokens": 10 })),
    });
    format!("data: {chunk}\n\n")
}
