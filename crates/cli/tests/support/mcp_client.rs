//! An MCP client on the streams of a server that it starts.

use super::World;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

/// A client of a server that it started itself.
pub(crate) struct Client {
    pub(crate) child: Child,
    pub(crate) write: Option<ChildStdin>,
    pub(crate) read: Option<BufReader<ChildStdout>>,
}

impl Client {
    pub(crate) fn start(world: &World, args: &[&str]) -> Self {
        let mut child = world
            .command(&[&["mcp", "serve"], args].concat())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let write = child.stdin.take();
        let read = child.stdout.take().map(BufReader::new);
        Self { child, write, read }
    }

    pub(crate) fn greeted(world: &World) -> Self {
        let mut client = Self::start(world, &[]);
        client.hello();
        client.welcomed();
        client
    }

    /// Says hello; the answer is not waited for.
    pub(crate) fn hello(&mut self) {
        self.send(&json!({
            "jsonrpc": "2.0", "id": 0, "method": "initialize",
            "params": {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": { "name": "test", "version": "1" },
            },
        }));
    }

    /// Hears the answer to hello.
    pub(crate) fn welcomed(&mut self) {
        assert_eq!(self.receive()["result"]["serverInfo"]["name"], "airlock");
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    }

    pub(crate) fn send(&mut self, message: &Value) {
        let write = self.write.as_mut().unwrap();
        writeln!(write, "{message}").unwrap();
    }

    pub(crate) fn begin(&mut self, id: i64, tool: &str, arguments: &Value) {
        self.send(&json!({
            "jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": { "name": tool, "arguments": arguments },
        }));
    }

    pub(crate) fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.read.as_mut().unwrap().read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("not a message: {line:?}"))
    }

    /// Waits for its end; everything that is left on stdout must be messages.
    pub(crate) fn ended(mut self) -> (Option<i32>, String) {
        drop(self.write.take());
        let mut rest = String::new();
        self.read
            .as_mut()
            .unwrap()
            .read_to_string(&mut rest)
            .unwrap();
        for line in rest.lines() {
            serde_json::from_str::<Value>(line)
                .unwrap_or_else(|_| panic!("not a message: {line:?}"));
        }
        let mut said = String::new();
        self.child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut said)
            .unwrap();
        (self.child.wait().unwrap().code(), said)
    }
}
