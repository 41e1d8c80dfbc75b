//! A kernel that answers each request from a list, on a socket.

use super::*;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

struct Served {
    directory: tempfile::TempDir,
    seen: Arc<Mutex<Vec<(String, Value)>>>,
    ended: Arc<AtomicBool>,
    _thread: JoinHandle<()>,
}

/// What becomes of a request.
enum Reply {
    Say(Value),
    /// The connection ends.
    End,
    /// Nothing, until the connection ends.
    Silence,
}

fn read(stream: &mut UnixStream) -> Option<Value> {
    let mut header = [0; 4];
    stream.read_exact(&mut header).ok()?;
    let mut text = vec![0; u32::from_be_bytes(header) as usize];
    stream.read_exact(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

fn write(stream: &mut UnixStream, value: &Value) {
    let text = value.to_string();
    let length = u32::try_from(text.len()).unwrap();
    stream.write_all(&length.to_be_bytes()).unwrap();
    // In two pieces, as it may come.
    let (one, two) = text.as_bytes().split_at(text.len() / 2);
    stream.write_all(one).unwrap();
    stream.flush().unwrap();
    stream.write_all(two).unwrap();
}

impl Served {
    fn new(replies: Vec<Reply>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(directory.path().join("kernel.sock")).unwrap();
        let seen = Arc::<Mutex<Vec<(String, Value)>>>::default();
        let ended = Arc::<AtomicBool>::default();
        let (noted, gone) = (Arc::clone(&seen), Arc::clone(&ended));
        let thread = std::thread::spawn(move || {
            let mut replies = replies.into_iter();
            while let Ok((mut stream, _)) = listener.accept() {
                while let Some(request) = read(&mut stream) {
                    let method = request["method"].as_str().unwrap().to_owned();
                    noted
                        .lock()
                        .unwrap()
                        .push((method.clone(), request["params"].clone()));
                    let reply = if method == "handshake" {
                        Some(Reply::Say(json!({ "result": {} })))
                    } else {
                        replies.next()
                    };
                    match reply {
                        Some(Reply::Say(mut reply)) => {
                            write(
                                &mut stream,
                                &json!({ "id": 9, "type": "event", "method": "x", "params": {} }),
                            );
                            reply["id"] = request["id"].clone();
                            reply["type"] = json!("response");
                            write(&mut stream, &reply);
                        }
                        Some(Reply::Silence) => {
                            assert!(read(&mut stream).is_none());
                            gone.store(true, Ordering::SeqCst);
                            break;
                        }
                        Some(Reply::End) | None => break,
                    }
                }
            }
        });
        Self {
            directory,
            seen,
            ended,
            _thread: thread,
        }
    }

    fn line(&self) -> Line {
        Line::new(self.directory.path().join("kernel.sock"), "tried".into())
    }
}

fn came(outcome: &Value) -> Reply {
    Reply::Say(json!({ "result": { "outcome": outcome } }))
}

#[test]
fn each_outcome_is_a_value_or_a_failure_of_its_own() {
    let error = json!({ "code": "busy", "message": "later", "retryable": true });
    let served = Served::new(vec![
        came(&json!({ "done": { "action": "a", "value": { "text": "x" } } })),
        came(&json!({ "denied": { "explanation": "rule 7" } })),
        came(&json!({ "denied": { "explanation": null } })),
        came(&json!({ "needs_review": { "approval": "b" } })),
        came(&json!({ "failed": { "code": "io", "what": "gone", "retryable": true } })),
        came(&json!({ "other": {} })),
        Reply::Say(json!({ "error": error })),
        Reply::End,
    ]);
    let line = served.line();
    let call = |within: &str| line.call("fs.read", &json!({ "path": "p" }), within, &|| true);
    assert_eq!(call("w"), Ok(json!({ "text": "x" })));
    for (code, message, retryable) in [
        ("denied", "rule 7", false),
        ("denied", "policy does not allow it", false),
        ("review", "a person must say yes first (b)", false),
        ("io", "gone", true),
        ("internal", "the kernel's answer has no outcome", false),
        ("busy", "later", true),
    ] {
        let failure = call("").unwrap_err();
        let got = (failure.code.as_str(), failure.message.as_str());
        assert_eq!((got, failure.retryable), ((code, message), retryable));
    }
    assert_eq!(call("").unwrap_err().code, "unreachable");
    let seen = served.seen.lock().unwrap();
    // An error of the protocol ends a connection, so there were two of them.
    let greetings: Vec<&Value> = seen
        .iter()
        .filter(|(method, _)| method == "handshake")
        .map(|(_, parameters)| &parameters["name"])
        .collect();
    assert_eq!(greetings, ["tried", "tried"]);
    assert_eq!(
        seen[1].1,
        json!({ "name": "fs.read", "arguments": { "path": "p" }, "within": "w" })
    );
    assert_eq!(
        seen[2].1,
        json!({ "name": "fs.read", "arguments": { "path": "p" } })
    );
}

#[test]
fn a_call_that_nobody_wants_any_more_is_taken_back() {
    let served = Served::new(vec![Reply::Silence]);
    let begun = Instant::now();
    let wanted = || begun.elapsed() < Duration::from_millis(100);
    let cancelled = served.line().call("exec.run", &json!({}), "", &wanted);
    assert_eq!(cancelled.unwrap_err().code, "cancelled");
    while !served.ended.load(Ordering::SeqCst) {
        assert!(begun.elapsed() < Duration::from_mins(1));
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn no_kernel_and_a_frame_without_end_are_failures() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("kernel.sock");
    let line = Line::new(path.clone(), "tried".into());
    let failed = line.call("fs.read", &json!({}), "", &|| true);
    assert_eq!(failed.unwrap_err().code, "unreachable");
    let listener = UnixListener::bind(&path).unwrap();
    let endless = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(&u32::MAX.to_be_bytes()).unwrap();
        read(&mut stream)
    });
    let failed = line.call("fs.read", &json!({}), "", &|| true);
    assert_eq!(failed.unwrap_err().code, "frame_too_long");
    endless.join().unwrap();
}
