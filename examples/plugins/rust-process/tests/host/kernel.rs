//! A kernel on the plugin's socket that allows some things, and notes what it is asked.

use serde_json::{Value, json};
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex};

/// The files of its workspace.
const FILES: &[(&str, &str)] = &[("a.txt", "one\nthe longest line\ntwo\nthirteen\n")];

/// What a plugin asked: the parameters of its calls.
pub(crate) type Asked = Arc<Mutex<Vec<Value>>>;

/// Serves at `path` until the test ends.
pub(crate) fn serve(path: &Path) -> Asked {
    let listener = UnixListener::bind(path).unwrap();
    // The plugin may be another user than the test.
    fs::set_permissions(path, fs::Permissions::from_mode(0o666)).unwrap();
    let asked = Asked::default();
    let noted = Arc::clone(&asked);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let noted = Arc::clone(&noted);
            std::thread::spawn(move || talk(stream, &noted));
        }
    });
    asked
}

fn talk(mut stream: UnixStream, noted: &Asked) -> Option<()> {
    loop {
        let request = read(&mut stream)?;
        let result = if request["method"] == "handshake" {
            assert_eq!(request["params"]["name"], "file-tools");
            json!({})
        } else {
            noted.lock().unwrap().push(request["params"].clone());
            json!({ "outcome": outcome(&request["params"]) })
        };
        let answer = json!({ "id": request["id"], "type": "response", "result": result });
        let text = answer.to_string();
        let length = u32::try_from(text.len()).ok()?.to_be_bytes();
        stream
            .write_all(&[length.as_slice(), text.as_bytes()].concat())
            .ok()?;
    }
}

fn read(stream: &mut UnixStream) -> Option<Value> {
    let mut header = [0; 4];
    stream.read_exact(&mut header).ok()?;
    let mut text = vec![0; u32::from_be_bytes(header) as usize];
    stream.read_exact(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

fn outcome(params: &Value) -> Value {
    let path = params["arguments"]["path"].as_str().unwrap_or_default();
    let done = |value: Value| json!({ "done": { "action": "x", "value": value } });
    let file = FILES.iter().find(|(name, _)| *name == path);
    match (params["name"].as_str(), file) {
        (Some("fs.read"), Some((_, text))) => done(json!({ "text": text })),
        (Some("fs.exists"), file) => done(json!({ "exists": file.is_some() })),
        (Some("fs.write"), _) if path.starts_with("copies/") => done(json!({})),
        _ => json!({ "denied": { "explanation": format!("`{path}` is not for plugins") } }),
    }
}
