//! `airlock run` against a server of OpenAI's chat completions that somebody else wrote.
//!
//! It is `aimock` (npm, `@copilotkit/aimock`, MIT): it needs no model, no key and no network.

use crate::support::{World, finished, stock};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Two calls in one answer, then an answer that goes by what they gave.
const FIXTURES: &str = r##"{"fixtures": [
  {"match": {"userMessage": "read it", "hasToolResult": false},
   "response": {"content": "I look at it.", "toolCalls": [
     {"name": "fs_read", "arguments": "{\"path\": \"README.md\"}"},
     {"name": "fs_list", "arguments": "{\"path\": \"src\"}"}]}},
  {"match": {"userMessage": "read it", "toolResultContains": "# Sample"},
   "response": {"content": "It is a sample: \u00e4\u2713 \ud83d\udc4d."}},
  {"match": {"userMessage": "read it", "toolResultContains": "main.rs"},
   "response": {"content": "It is a sample: \u00e4\u2713 \ud83d\udc4d."}}
]}"##;

/// The server, in the form that Node.js 18 takes as well.
const PROGRAM: &str = "node_modules/@copilotkit/aimock/dist/cli.cjs";

/// The server, for as long as this is kept.
struct Server {
    child: Child,
    port: u16,
}

impl Server {
    #[expect(clippy::disallowed_methods, reason = "the server is a program")]
    fn start(place: &Path) -> Self {
        std::fs::create_dir_all(place).unwrap();
        std::fs::write(place.join("conversation.json"), FIXTURES).unwrap();
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let child = Command::new("node")
            .arg(stock("openai-stock").join(PROGRAM))
            .args(["--strict", "--validate-on-load", "--chunk-size", "3"])
            .args(["--log-level", "silent", "--port", &port.to_string()])
            .arg("--fixtures")
            .arg(place)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("run `cargo xtask setup`: `node`: {error}"));
        let mut server = Self { child, port };
        let begun = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            assert!(server.child.try_wait().unwrap().is_none(), "it ended");
            assert!(begun.elapsed() < Duration::from_secs(30));
            std::thread::sleep(Duration::from_millis(20));
        }
        server
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_task_is_done_with_a_server_that_somebody_else_wrote() {
    let world = World::governed();
    let server = Server::start(&world.path("fixtures"));
    let config = format!(
        "models:\n  - {{ name: local, provider: openai, base_url: 'http://127.0.0.1:{}/v1', model: m }}\n",
        server.port
    );
    std::fs::create_dir_all(world.path("config/airlock")).unwrap();
    std::fs::write(world.path("config/airlock/config.yaml"), config).unwrap();
    let ran = finished(&mut world.command(&["run", "--json", "read it"]));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let events: Vec<serde_json::Value> = ran
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}")))
        .collect();
    let told = |what: &str| events.iter().filter(|event| event["event"] == what).count();
    assert_eq!(told("tool_result"), 2, "{ran:?}");
    let last = events.last().unwrap();
    assert_eq!(last["ended"]["reason"], "done", "{last}");
    // It answers so only to the results of both calls, and in pieces of three characters.
    let plain = finished(&mut world.command(&["run", "read it"]));
    assert!(plain.stdout.contains("It is a sample: ä✓ 👍."), "{plain:?}");
    let log = world.quiet(&["audit", "log", "--json"]).stdout;
    assert!(
        log.contains("model.chat") && log.contains("fs.read"),
        "{log}"
    );
}
