//! A server of chat completions that can be told to misbehave, and what was asked of it.

use airlock_model::Model as _;
use airlock_model::{
    Backoff, Cancel, Clock, Event, Message, ModelError, OpenAi, OpenAiSettings, Reply, Request,
    Timeouts, ToolDefinition,
};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// One request, as it came.
#[derive(Debug, Clone, Default)]
pub(crate) struct Asked {
    pub(crate) line: String,
    pub(crate) headers: Vec<String>,
    pub(crate) body: String,
}

impl Asked {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let of = |line: &'_ str| {
            line.split_once(": ")
                .map(|(key, value)| (key.to_lowercase(), value.len()))
        };
        self.headers.iter().find_map(|line| {
            let (key, length) = of(line)?;
            (key == name).then(|| &line[line.len() - length..])
        })
    }
}

type Handler = dyn Fn(usize, &mut TcpStream) + Send + Sync;

/// A server on a port of its own, for as long as the test runs.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) asked: Arc<Mutex<Vec<Asked>>>,
}

impl Server {
    /// Answers the connection with this number, counted from 0, with `handler`.
    pub(crate) fn start(handler: impl Fn(usize, &mut TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let handler: Arc<Handler> = Arc::new(handler);
        let seen = Arc::clone(&asked);
        std::thread::spawn(move || {
            for (number, stream) in listener.incoming().enumerate() {
                let (Ok(mut stream), handler, seen) =
                    (stream, Arc::clone(&handler), Arc::clone(&seen))
                else {
                    return;
                };
                std::thread::spawn(move || {
                    if let Some(request) = read_request(&mut stream) {
                        seen.lock().unwrap().push(request);
                        handler(number, &mut stream);
                    }
                });
            }
        });
        Self { address, asked }
    }

    /// Answers connections with these bytes in turn, the last one for all further.
    pub(crate) fn answering(answers: Vec<Vec<u8>>) -> Self {
        Self::start(move |number, stream| {
            let answer = answers.get(number).or(answers.last()).unwrap();
            let _ = stream.write_all(answer);
        })
    }

    pub(crate) fn count(&self) -> usize {
        self.asked.lock().unwrap().len()
    }

    pub(crate) fn settings(&self) -> OpenAiSettings {
        at(&format!("http://{}/v1", self.address))
    }

    pub(crate) fn model(&self) -> OpenAi {
        OpenAi::new("test", self.settings(), Clock::system()).unwrap()
    }
}

/// A model at `base_url` that is waited for, and asked again at once.
pub(crate) fn at(base_url: &str) -> OpenAiSettings {
    let mut settings = OpenAiSettings::new(base_url, "test-model");
    settings.backoff = Backoff {
        retries: 2,
        first: Duration::from_millis(1),
        most: Duration::from_secs(5),
    };
    settings.timeouts = Timeouts {
        connect: Duration::from_secs(20),
        first_byte: Duration::from_secs(20),
        between_chunks: Duration::from_secs(20),
        total: Duration::from_mins(1),
    };
    settings
}

fn read_request(stream: &mut TcpStream) -> Option<Asked> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut asked = Asked::default();
    reader.read_line(&mut asked.line).ok()?;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim_end().to_owned();
        if line.is_empty() {
            break;
        }
        asked.headers.push(line);
    }
    let length: usize = asked
        .header("content-length")
        .map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    asked.body = String::from_utf8(body).ok()?;
    Some(asked)
}

/// The head of an answer that comes as events and ends with the connection.
pub(crate) const HEAD: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";

/// An answer of events with `body`.
pub(crate) fn events(body: &str) -> Vec<u8> {
    format!("{HEAD}{body}").into_bytes()
}

/// An answer that comes at once; mostly with a status other than success.
pub(crate) fn refusal(status: &str, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n{headers}connection: close\r\n\r\n{body}")
        .into_bytes()
}

/// A short answer in two pieces, with usage.
pub(crate) const HELLO: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"hel\"}}]}\n\n\
data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"lo\"}}]}\n\n\
data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n\
data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":2}}\n\n\
data: [DONE]\n\n";

pub(crate) fn request() -> Request {
    let tool = |name: &str| ToolDefinition {
        name: name.to_owned(),
        description: "a tool".to_owned(),
        schema: serde_json::json!({ "type": "object" }),
    };
    Request {
        system: "be brief".to_owned(),
        messages: vec![Message::User {
            text: "hello".to_owned(),
        }],
        tools: vec![tool("fs.read"), tool("fs.list")],
        max_output: 100,
    }
}

/// Asks, and keeps what was streamed.
pub(crate) fn ask(model: &OpenAi) -> (Result<Reply, ModelError>, Vec<Event>) {
    let mut events = Vec::new();
    let reply = model.chat(&request(), &mut |event| events.push(event), &Cancel::new());
    (reply, events)
}

/// The text that was streamed since the last attempt began.
pub(crate) fn streamed(events: &[Event]) -> String {
    let last = events
        .iter()
        .rposition(|event| matches!(event, Event::Error { retrying: true, .. }));
    let from = last.map_or(0, |at| at + 1);
    let text = |event: &Event| {
        if let Event::TextDelta { text } = event {
            Some(text.clone())
        } else {
            None
        }
    };
    events[from..].iter().filter_map(text).collect()
}
