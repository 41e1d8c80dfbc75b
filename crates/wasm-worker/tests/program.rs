//! The program as somebody meets it who starts it by hand. What it does for a host is tested with the
//! host, in `airlock-plugin-wasm`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Write;
use std::process::{Command, Output, Stdio};

#[expect(clippy::disallowed_methods, reason = "the program under test")]
fn run(words: &[&str], said: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_airlock-wasm"))
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // One that takes no words may be gone before it hears any.
    let _heard = child.stdin.take().unwrap().write_all(said.as_bytes());
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn it_says_what_it_is_and_takes_no_words() {
    let told = run(&["--version"], "");
    assert_eq!(told.status.code(), Some(0));
    let version = format!("airlock-wasm {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(text(&told.stdout), version);
    assert_eq!(run(&["--help"], "").status.code(), Some(0));
    for words in [&["plugin.wasm"][..], &["--serve", "x"]] {
        let refused = run(words, "");
        assert_eq!(refused.status.code(), Some(2), "{words:?}");
        assert!(refused.stdout.is_empty());
        assert!(text(&refused.stderr).contains("`airlock` starts it"));
    }
}

#[test]
fn who_is_no_host_is_told_why_it_cannot_go_on() {
    // A host that is gone at once wants nothing.
    assert_eq!(run(&[], "").status.code(), Some(0));
    let ended = run(&[], "hello, worker, how do you do?\n");
    assert_eq!(ended.status.code(), Some(1));
    assert!(ended.stdout.is_empty());
    let said = text(&ended.stderr);
    assert!(
        said.starts_with("error: the worker cannot go on\n  why: "),
        "{said}"
    );
}
