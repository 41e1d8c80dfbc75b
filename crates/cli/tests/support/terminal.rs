//! A person at a terminal: the command runs on a pseudo-terminal of its own.

use super::{Ran, World, program};
use std::io::{Read, Write};
use std::process::Stdio;
use std::sync::mpsc;
use std::time::Duration;

/// What the person does when asked.
#[derive(Clone, Copy)]
pub(crate) enum Typed<'a> {
    /// Types this and presses return.
    Line(&'a str),
    /// Closes the terminal's input.
    Nothing,
    /// Types this before the question is there, and then closes the terminal's input.
    Ahead(&'a str),
}

/// Runs `airlock WORDS` on a terminal; everything it shows there is `stdout`.
pub(crate) fn at_terminal(world: &World, words: &str, typed: Typed<'_>) -> Ran {
    // The pause is for what is typed ahead to be there in time.
    let pause = if matches!(typed, Typed::Ahead(_)) {
        "sleep 0.5; "
    } else {
        ""
    };
    let line = format!("{pause}{} {words}", super::binary());
    let mut command = program("script");
    world.prepare(&mut command);
    command
        .args(["--quiet", "--return", "--command", &line, "/dev/null"])
        .env("SHELL", "/bin/sh")
        .env("TERM", "dumb");
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    if let Typed::Ahead(text) = typed {
        writeln!(input, "{text}").unwrap();
    }
    let pieces = pieces(child.stdout.take().unwrap());
    let mut shown = Vec::new();
    let mut asked = false;
    while let Ok(piece) = pieces.recv_timeout(Duration::from_mins(1)) {
        shown.extend(piece);
        // Nobody answers before the question is there.
        let text = String::from_utf8_lossy(&shown);
        if !asked && (text.ends_with("[y/N] ") || text.ends_with("approve: ")) {
            asked = true;
            if let (true, Typed::Line(text)) = (asked, typed) {
                writeln!(input, "{text}").unwrap();
            } else if asked {
                // The terminal's end of input, as Ctrl-D types it.
                input.write_all(&[4]).unwrap();
            }
        }
    }
    drop(input);
    let status = child.wait().unwrap();
    Ran {
        code: status.code(),
        stdout: String::from_utf8_lossy(&shown).replace("\r\n", "\n"),
        stderr: String::new(),
    }
}

/// Whether an answer is waited for. What is shown of a change is cut anywhere on its way here, also behind
/// a colon.
fn is_question(shown: &str) -> bool {
    let line = shown.rsplit('\n').next().unwrap_or_default();
    let asks = !line.starts_with(['-', '+']) && line.ends_with(": ");
    asks || line.ends_with("[y/N] ")
}

/// Runs `airlock WORDS` on a terminal and types one of `lines` for each question, in turn.
pub(crate) fn answering(world: &World, words: &str, lines: &[&str]) -> Ran {
    let line = format!("{} {words}", super::binary());
    let mut command = program("script");
    world.prepare(&mut command);
    command
        .args(["--quiet", "--return", "--command", &line, "/dev/null"])
        .env("SHELL", "/bin/sh")
        .env("TERM", "dumb");
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let pieces = pieces(child.stdout.take().unwrap());
    let mut shown = String::new();
    let mut asked = 0;
    let mut lines = lines.iter();
    while let Ok(piece) = pieces.recv_timeout(Duration::from_mins(1)) {
        shown.push_str(&String::from_utf8_lossy(&piece));
        let question = is_question(&shown);
        if question && shown.len() > asked {
            asked = shown.len();
            match lines.next() {
                Some(line) => writeln!(input, "{line}").unwrap(),
                None => input.write_all(&[4]).unwrap(),
            }
        }
    }
    drop(input);
    let status = child.wait().unwrap();
    Ran {
        code: status.code(),
        stdout: shown.replace("\r\n", "\n"),
        stderr: String::new(),
    }
}

/// What `stream` yields, as it arrives.
fn pieces(mut stream: impl Read + Send + 'static) -> mpsc::Receiver<Vec<u8>> {
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(length @ 1..) = stream.read(&mut buffer) {
            if send.send(buffer[..length].to_vec()).is_err() {
                return;
            }
        }
    });
    receive
}
