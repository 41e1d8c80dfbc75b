//! A kernel that runs, and messages of a client who may be anybody: the first line is the name the
//! client gives itself, each other line a frame.
//!
//! Whatever comes, the kernel says something to it that is a message, ends the connection, or both;
//! no error says a control character or goes on without end; and it answers the next client. What the
//! built-in rules let a person do may happen, but for ending the kernel.

#![expect(clippy::panic, reason = "a target says by it that something broke")]

use super::Target;
use airlock_core::Digest;
use airlock_kernel::{Clock, DEFAULT_OUTPUT_BYTES, Kernel, KernelConfig, Lifetime};
use airlock_service::{Lock, Options, Post, Program, Settings, Stopper, start};
use airlock_wire::{Client, Decoder, Hello, Message, encode, parse};
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;
use tempfile::TempDir;

/// Nobody is kept waiting for longer; a slow machine is not a fault.
const PATIENCE: Duration = Duration::from_secs(30);
/// Frames sent at once: more only take longer.
const MOST_FRAMES: usize = 8;
/// The most an error may say, with what it says again of what was sent.
const MOST_TOLD: usize = 2_000;

pub(super) const TARGET: Target = Target {
    name: "kernel_messages",
    run,
    seeds: &[
        b"cli\n{\"id\":1,\"type\":\"request\",\"method\":\"ping\"}",
        b"cli\n{\"id\":2,\"type\":\"request\",\"method\":\"status\"}\n{\"id\":3,\"type\":\"request\",\"method\":\"tools.list\",\"params\":{\"full\":true}}",
        b"agent\n{\"id\":2,\"type\":\"request\",\"method\":\"call\",\"params\":{\"name\":\"fs.read\",\"arguments\":{\"path\":\"../a\"}}}",
        b"mcp\n{\"id\":2,\"type\":\"request\",\"method\":\"approvals.elicited\",\"params\":{\"approval\":\"a\",\"shown\":\"00\",\"approved\":true}}",
        b"cli\n{\"id\":2,\"type\":\"request\",\"method\":\"exec\",\"params\":{\"arguments\":{\"command\":[\"true\"]},\"stdin\":false,\"run\":1},\"descriptors\":2}",
        b"cli\n{\"id\":2,\"type\":\"request\",\"method\":\"workflows.run\",\"params\":{\"name\":\"a\",\"inputs\":{}}}",
        b"cli\n{\"id\":2,\"type\":\"request\",\"method\":\"events.subscribe\",\"params\":{\"after\":0}}\n{\"id\":3,\"type\":\"request\",\"method\":\"cancel\",\"params\":{\"id\":2}}",
        b"bootstrap\n{\"id\":2,\"type\":\"request\",\"method\":\"kernel.stop\"}\n{\"id\":2,\"type\":\"request\",\"method\":\"kernel.renew\"}",
        b"server\n{\"id\":1,\"type\":\"request\",\"method\":\"handshake\",\"params\":{}}",
        b"\x1b[2J\nnull",
    ],
    dictionary: &[
        "{\"id\":2,\"type\":\"request\",\"method\":\"", "\"}", "call", "exec", "exec.steer", "tools.show",
        "approvals.opened", "workflows.resume", "workflows.cancel", "log.flush", "kernel.renew", "handshake",
        "\"params\":{", "\"name\":", "\"arguments\":{}", "\"session\":\"s-1\"", "\"person\":{\"home\":\"/\",\"environment\":{}}",
        "\"within\":\"x\"", "\"token\":\"x\"", "\"unattended\":true", "\"path\":\"a\"", "\"descriptors\":1",
        "session.create", "fs.read", "search.grep", "policy.update", "trust.approve", "merge.apply", "\n", "[", "]",
        "null", "1e999", "-1", "18446744073709551615", "\\u001b", "\u{202e}", "\\ud800", "cli\n", "agent\n",
    ],
    iterations: 1_500,
};

thread_local! {
    /// One kernel for all runs of a thread; it ends with that.
    static SERVED: Served = Served::begin().unwrap_or_else(|why| panic!("no kernel: {why}"));
}

/// A kernel that serves an empty workspace under the built-in rules.
struct Served {
    socket: PathBuf,
    stopper: Stopper,
    serving: Option<JoinHandle<()>>,
    _outer: TempDir,
}

impl Served {
    fn begin() -> Result<Self, String> {
        let outer = tempfile::tempdir().map_err(|error| error.to_string())?;
        let workspace = outer.path().join("w");
        std::fs::create_dir(&workspace).map_err(|error| error.to_string())?;
        let kernel = Kernel::open(KernelConfig {
            workspace,
            state_home: outer.path().join("state"),
            clock: Clock::system(),
            lifetime: Lifetime::Long,
            output_bytes: DEFAULT_OUTPUT_BYTES,
            search_threads: 1,
            worker: None,
        })
        .map_err(|error| error.to_string())?;
        let state = kernel.workspace().state().path().to_owned();
        let lock = Lock::take(&state).map_err(|error| error.to_string())?;
        let nothing = Digest::of(b"");
        let settings = Settings {
            output_bytes: DEFAULT_OUTPUT_BYTES,
            search_threads: 1,
            definitions: nothing,
            program: Program::own().map_err(|error| error.to_string())?,
            models: nothing,
            serving: nothing,
        };
        let post = Post::take(lock, &state.join("run")).map_err(|error| error.to_string())?;
        let options = Options::new(Vec::new(), settings);
        let running = start(kernel, post, options).map_err(|error| error.to_string())?;
        Ok(Self {
            socket: running.socket().to_owned(),
            stopper: running.stopper(),
            serving: Some(std::thread::spawn(move || drop(running.wait()))),
            _outer: outer,
        })
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stopper.stop();
        if let Some(serving) = self.serving.take() {
            let _ended = serving.join();
        }
    }
}

fn run(input: &[u8]) {
    let text = super::text(input);
    let mut lines = text.split('\n');
    let name = lines.next().unwrap_or_default();
    let is_person = name == "cli";
    let kept = |line: &&str| !(is_person && ends(line));
    let frames: Vec<&str> = lines.take(MOST_FRAMES).filter(kept).collect();
    let socket = SERVED.with(|served| served.socket.clone());
    for message in said(&socket, name, &frames) {
        let message = parse(&message).unwrap_or_else(|error| panic!("{message:?}: {error}"));
        if let Message::Response(reply) = message
            && let Err(error) = reply.answer
        {
            assert!(error.message.chars().count() <= MOST_TOLD, "{error:?}");
            assert!(!error.message.chars().any(char::is_control), "{error:?}");
        }
    }
    let next = Client::connect(&socket, &Hello::new("cli", "0"), PATIENCE);
    let answer = next.map(|mut client| client.call("ping", Value::Null));
    assert!(
        matches!(answer, Ok(Ok(_))),
        "it does not answer: {answer:?}"
    );
}

/// Whether `line` asks the kernel to end, which a person may.
fn ends(line: &str) -> bool {
    let asked = parse(line);
    matches!(asked, Ok(Message::Request(request)) if request.method == "kernel.stop")
}

/// What the kernel says to a client of that name who sends `frames`, to the end of the connection.
fn said(socket: &Path, name: &str, frames: &[&str]) -> Vec<String> {
    let hello = json!({ "id": 1, "type": "request", "method": "handshake",
        "params": Hello::new(name, "0") });
    let mut bytes = encode(&hello.to_string(), usize::MAX).unwrap_or_default();
    for frame in frames {
        bytes.extend(encode(frame, usize::MAX).unwrap_or_default());
    }
    let mut stream = UnixStream::connect(socket).unwrap_or_else(|error| panic!("{error}"));
    let timed = stream.set_read_timeout(Some(PATIENCE));
    // What it has hung up on cannot be sent; what it said before is there to be read.
    let _sent = timed.and_then(|()| stream.write_all(&bytes));
    let _ended = stream.shutdown(Shutdown::Write);
    let mut heard = Vec::new();
    if let Err(error) = stream.read_to_end(&mut heard) {
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}");
    }
    let mut decoder = Decoder::new(usize::MAX);
    decoder.push(&heard);
    std::iter::from_fn(|| decoder.next_frame().ok().flatten()).collect()
}
