//! What results look like, where that is known for every result of a tool.
//!
//! Each says only what always holds, of a result or of what is said in its place: clients check
//! both. A tool that is not here promises nothing.

use serde_json::{Value, json};

/// The schema of what the tool `name` returns.
pub(crate) fn output(name: &str) -> Option<Value> {
    let (properties, required): (Value, &[&str]) = match name {
        "fs.exists" => (
            json!({
                "path": text("The path as asked"),
                "exists": flag("Whether there is anything"),
                "kind": text("file, directory, symlink or other"),
            }),
            &["path", "exists"],
        ),
        "fs.read" => (
            json!({
                "path": text("The path as asked"),
                "text": text("The content; absent where it is not text"),
                "first_line": number("Number of the first line shown, from 1"),
                "lines": number("How many lines are shown"),
                "total_bytes": number("Size of the file"),
                "truncated": flag("Whether there is more"),
                "binary": flag("Whether it is something other than text"),
                "digest": text("Digest of what is not text"),
            }),
            &["path", "total_bytes"],
        ),
        "fs.list" => (
            json!({
                "path": text("The directory"),
                "entries": list("What is in it: path, kind, size"),
                "truncated": flag("Whether there is more"),
            }),
            &["path", "entries", "truncated"],
        ),
        "search.glob" => (
            json!({
                "paths": list("The paths that match"),
                "truncated": flag("Whether there are more"),
            }),
            &["paths", "truncated"],
        ),
        "search.grep" => (
            json!({
                "files": list("The files with their matching lines"),
                "truncated": flag("Whether there are more"),
            }),
            &["files", "truncated"],
        ),
        "exec.run" => (
            json!({
                "outcome": text("How it ended: exited, signalled, timed_out, cancelled, ..."),
                "exit": number("Its exit code, as a shell would say it"),
                "stdout": text("What it wrote"),
                "stderr": text("What it complained of"),
                "truncated": flag("Whether some of it was cut"),
            }),
            &["outcome", "exit"],
        ),
        "session.policy" => (
            json!({
                "origin": text("Where the policy comes from"),
                "generation": text("Its digest"),
                "text": text("The policy itself"),
            }),
            &["origin", "generation", "text"],
        ),
        "session.log" => (
            json!({
                "session": text("The session; absent outside any"),
                "records": list("Its newest records, oldest first"),
            }),
            &["records"],
        ),
        _ => return None,
    };
    let mut schema = json!({
        "type": "object",
        "properties": properties,
        "anyOf": [{ "required": required }, { "required": ["status"] }],
    });
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        let status = "Instead of a result: denied, needs_review or failed";
        properties.insert("status".to_owned(), text(status));
    }
    Some(schema)
}

fn text(about: &str) -> Value {
    json!({ "type": "string", "description": about })
}

fn flag(about: &str) -> Value {
    json!({ "type": "boolean", "description": about })
}

fn number(about: &str) -> Value {
    json!({ "type": "integer", "description": about })
}

fn list(about: &str) -> Value {
    json!({ "type": "array", "description": about })
}
