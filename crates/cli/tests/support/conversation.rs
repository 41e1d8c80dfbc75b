//! A person who talks with a session on a terminal of their own, of a size they chose.

use super::{Ran, World, program};
use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_mins(2);

/// A session on a terminal.
pub(crate) struct Conversation {
    child: Child,
    input: ChildStdin,
    pieces: mpsc::Receiver<Vec<u8>>,
    shown: String,
    /// How much of what was shown has been waited for.
    seen: usize,
}

impl Conversation {
    /// `airlock WORDS` on a terminal of `columns`, called `term`.
    pub(crate) fn begin(world: &World, columns: u16, term: &str, words: &str) -> Self {
        let line = format!(
            "stty cols {columns} rows 24; exec {} {words}",
            super::binary()
        );
        let mut command = program("script");
        world.prepare(&mut command);
        command
            .args(["--quiet", "--return", "--command", &line, "/dev/null"])
            .env("SHELL", "/bin/sh")
            .env("TERM", term);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let mut stream = child.stdout.take().unwrap();
        let (send, pieces) = mpsc::channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = stream.read(&mut buffer) {
                if send.send(buffer[..length].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self {
            child,
            input,
            pieces,
            shown: String::new(),
            seen: 0,
        }
    }

    /// Waits until `text` is shown after what was waited for before.
    pub(crate) fn until(&mut self, text: &str) {
        let begun = Instant::now();
        loop {
            let new = self.shown.get(self.seen..).unwrap_or_default();
            if let Some(at) = new.find(text) {
                self.seen += at + text.len();
                return;
            }
            let left = PATIENCE.saturating_sub(begun.elapsed());
            match self.pieces.recv_timeout(left) {
                Ok(piece) => self.shown.push_str(&String::from_utf8_lossy(&piece)),
                Err(error) => panic!("`{text}` never came, {error}: {}", self.shown),
            }
        }
    }

    /// Types `text` and a line end.
    pub(crate) fn say(&mut self, text: &str) {
        self.key(format!("{text}\n").as_bytes());
    }

    /// Types these bytes.
    pub(crate) fn key(&mut self, bytes: &[u8]) {
        self.input.write_all(bytes).unwrap();
        self.input.flush().unwrap();
    }

    /// Waits for its end.
    pub(crate) fn finish(mut self) -> Ran {
        while let Ok(piece) = self.pieces.recv_timeout(PATIENCE) {
            self.shown.push_str(&String::from_utf8_lossy(&piece));
        }
        drop(self.input);
        let status = self.child.wait().unwrap();
        Ran {
            code: status.code(),
            stdout: self.shown.replace("\r\n", "\n"),
            stderr: String::new(),
        }
    }
}
