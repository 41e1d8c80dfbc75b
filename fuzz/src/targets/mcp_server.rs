//! An MCP server: whatever it says, and in whatever pieces, means the same; what it is answered is one
//! line of JSON each; a tool that it describes can be called by its name.

use super::Target;
use airlock_plugin::is_tool_name;
use airlock_plugin_mcp::{Asked, Conversation, meaning, probe};
use serde_json::Value;

pub(super) const TARGET: Target = Target {
    name: "mcp_server",
    run,
    seeds: &[
        b"",
        b"\x01{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{}}}\n{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"a\"}]}}\n",
        b"\x03{\"id\":1,\"result\":{}}\n{\"id\":2,\"result\":{\"structuredContent\":{\"a\":1},\"isError\":true}}\n",
        b"\x02{\"id\":7,\"method\":\"sampling/createMessage\",\"params\":{}}\n{\"id\":\"x\",\"method\":\"ping\"}\n",
        b"\x05{\"id\":1,\"error\":{\"code\":-1,\"message\":\"\x1b[2J\"}}\n",
        b"\x01{\"tools\":[{\"name\":\"read\",\"description\":\"Read\",\"inputSchema\":{\"type\":\"object\"}}],\"nextCursor\":\"2\"}\n{\"tools\":[]}\n",
        b"\x01{\"tools\":[{\"name\":\"a.b\",\"inputSchema\":{}},{\"name\":\"read\",\"inputSchema\":7}]}\n",
        b"\x01no end",
    ],
    dictionary: &[
        "{", "}", "[", "]", "\n", "\"id\":1,", "\"id\":2,", "\"result\":", "\"error\":", "\"method\":", "\"tools\":[",
        "\"name\":", "\"inputSchema\":{}", "\"nextCursor\":", "\"annotations\":{\"readOnlyHint\":true}", "null",
        "\"content\":[{\"text\":\"", "\u{202e}", "\\u0000", "1e999", "[[[[[[[[[[[[[[[[",
    ],
    iterations: 3_000,
};

fn run(input: &[u8]) {
    let Some((cut, bytes)) = input.split_first() else {
        return;
    };
    let whole = heard([bytes]);
    let pieces = heard(bytes.chunks(usize::from(*cut).max(1)));
    assert_eq!(whole, pieces, "the pieces matter");
    let (said, answer) = whole;
    for line in said {
        assert_eq!(line.find('\n'), Some(line.len() - 1), "{line:?}");
        assert!(serde_json::from_str::<Value>(&line).is_ok(), "{line:?}");
    }
    if let Some(answer) = answer {
        let _meant = meaning(&answer, &Value::Null);
    }
    described(bytes);
}

/// What is said to a server that says these pieces, and what comes of it.
fn heard<'p>(pieces: impl IntoIterator<Item = &'p [u8]>) -> (Vec<String>, Option<Value>) {
    let mut conversation = Conversation::new(Asked {
        tool: "read".to_owned(),
        arguments: Value::Null,
    });
    let mut said = vec![conversation.hello()];
    for piece in pieces {
        said.extend(conversation.hear(piece));
    }
    (said, conversation.answer())
}

/// Takes each line for a page of a list of tools.
fn described(bytes: &[u8]) {
    let lines = bytes.split(|byte| *byte == b'\n');
    let pages: Vec<Value> = lines
        .filter_map(|line| serde_json::from_slice(line).ok())
        .collect();
    for tool in probe::tools(&pages).unwrap_or_default() {
        assert!(is_tool_name(&tool.name), "{:?}", tool.name);
        assert!(tool.schema.is_object(), "{:?}", tool.name);
    }
}
