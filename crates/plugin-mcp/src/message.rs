//! The messages of the protocol: what is said to a server, and what its answers mean. Pure.

use serde_json::{Value, json};

/// The version of the protocol that is asked for.
const PROTOCOL: &str = "2025-06-18";
/// Longest text of an error that is told on. Whoever shows it cuts it shorter, once secrets are out: a
/// cut through one would leave half of it.
const ERROR_CHARACTERS: usize = 4_000;

/// The first request: who is there, with nothing on offer.
pub(crate) fn initialize(id: u64) -> String {
    let params = json!({
        "protocolVersion": PROTOCOL,
        "capabilities": {},
        "clientInfo": { "name": "airlock", "version": env!("CARGO_PKG_VERSION") },
    });
    request(id, "initialize", &params)
}

/// The same for a plugin that has settings: they are in it under a name that servers which know
/// nothing of it pass over. Nobody but the server reads its standard input.
#[cfg(target_os = "linux")]
pub(crate) fn initialize_with(id: u64, configuration: &Value) -> String {
    let params = json!({
        "protocolVersion": PROTOCOL,
        "capabilities": {},
        "clientInfo": { "name": "airlock", "version": env!("CARGO_PKG_VERSION") },
        "_meta": { "airlock/configuration": configuration },
    });
    request(id, "initialize", &params)
}

/// Said once the server has answered the first request.
pub(crate) fn initialized() -> String {
    line(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))
}

/// The call of a tool.
pub(crate) fn call(id: u64, tool: &str, arguments: &Value) -> String {
    let params = json!({ "name": tool, "arguments": arguments });
    request(id, "tools/call", &params)
}

/// The same for a server that may want to ask the kernel something as part of it: which action it
/// serves, under a name that servers which know nothing of it pass over.
#[cfg(target_os = "linux")]
pub(crate) fn call_within(id: u64, call: &airlock_plugin::ToolCall) -> String {
    let meta = json!({
        "airlock/action": call.action,
        "airlock/session": call.session,
        "airlock/mode": call.mode,
    });
    let params = json!({ "name": call.tool, "arguments": call.arguments, "_meta": meta });
    request(id, "tools/call", &params)
}

/// Any request.
pub(crate) fn request(id: u64, method: &str, params: &Value) -> String {
    line(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
}

/// Says that nobody wants the answer to `id` any more.
#[cfg(target_os = "linux")]
pub(crate) fn cancelled(id: u64, reason: &str) -> String {
    let params = json!({ "requestId": id, "reason": reason });
    let method = "notifications/cancelled";
    line(&json!({ "jsonrpc": "2.0", "method": method, "params": params }))
}

/// The answer to a question of the server's own: it is told that there is nothing to be had here.
/// None for a notification, which wants no answer.
pub(crate) fn reply(message: &Value) -> Option<String> {
    let id = message.get("id");
    let id = id.filter(|id| id.is_number() || id.is_string())?;
    if message.get("method").and_then(Value::as_str) == Some("ping") {
        return Some(line(&json!({ "jsonrpc": "2.0", "id": id, "result": {} })));
    }
    let error = json!({ "code": -32601, "message": "not available" });
    Some(line(&json!({ "jsonrpc": "2.0", "id": id, "error": error })))
}

/// One line; JSON has none in it.
fn line(message: &Value) -> String {
    format!("{message}\n")
}

/// What an answer that is none says of the reason.
pub(crate) fn error_text(answer: &Value) -> Option<String> {
    let error = answer.get("error")?;
    Some(told(error.get("message").unwrap_or(error)))
}

/// What the result of a tool means: a value, or the tool's own words on why there is none.
pub(crate) fn value(result: &Value) -> Result<Value, String> {
    let content = result.get("content").and_then(Value::as_array);
    let parts: Vec<&str> = content.into_iter().flatten().map(text_of).collect();
    let text = parts.join("\n");
    if result.get("isError") == Some(&Value::Bool(true)) {
        return Err(told(&Value::String(text)));
    }
    match result.get("structuredContent") {
        Some(value) => Ok(value.clone()),
        None => Ok(Value::String(text)),
    }
}

/// The text of a part of a result. What is no text is not passed over in silence.
fn text_of(part: &Value) -> &str {
    let text = part.get("text").and_then(Value::as_str);
    text.unwrap_or("[a part that is no text was left out]")
}

fn told(value: &Value) -> String {
    let text = value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned);
    text.chars().take(ERROR_CHARACTERS).collect()
}
