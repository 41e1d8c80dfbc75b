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
    /// Bytes of a character that has not come whole.
    partial: Vec<u8>,
    window: std::path::PathBuf,
}

impl Conversation {
    /// `airlock WORDS` on a terminal of `columns`, called `term`.
    pub(crate) fn begin(world: &World, columns: u16, term: &str, words: &str) -> Self {
        Self::begin_with(world, columns, term, "", words)
    }

    /// The same with `variables` as well, as a shell reads them.
    pub(crate) fn begin_with(
        world: &World,
        columns: u16,
        term: &str,
        variables: &str,
        words: &str,
    ) -> Self {
        // Whoever sits there may make the window another one at any time.
        let window = world.path("window");
        let window = window.display();
        let resizing = format!(
            "(while kill -0 $$ 2>/dev/null; do if [ -s '{window}' ]; then stty cols \"$(cat '{window}')\" </dev/tty; rm '{window}'; fi; sleep 0.05; done) &"
        );
        let line = format!(
            "stty cols {columns} rows 24; {resizing} exec env {variables} {} {words}",
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
            partial: Vec::new(),
            window: world.path("window"),
        }
    }

    /// Makes the window `columns` wide, and waits until it is.
    pub(crate) fn resize(&self, columns: u16) {
        let begun = Instant::now();
        let beside = self.window.with_extension("new");
        std::fs::write(&beside, columns.to_string()).unwrap();
        std::fs::rename(&beside, &self.window).unwrap();
        while self.window.exists() {
            assert!(begun.elapsed() < PATIENCE, "the window stays as it is");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// What the terminal shows in the row of the cursor, and the cursor's column, once `text` is
    /// the end of it.
    pub(crate) fn row(&mut self, columns: usize, text: &str) -> (String, usize) {
        let begun = Instant::now();
        loop {
            let (row, column, drawn) = super::row::last(&self.shown);
            if row.ends_with(text) {
                // What is drawn may come in pieces: it is whole once nothing follows.
                if let Ok(piece) = self.pieces.recv_timeout(Duration::from_millis(200)) {
                    self.bytes(&piece);
                    continue;
                }
                // A terminal would go on in the next row.
                assert!(drawn < columns, "{drawn} of {columns} columns: {row}");
                return (row, column);
            }
            let left = PATIENCE.saturating_sub(begun.elapsed());
            match self.pieces.recv_timeout(left) {
                Ok(piece) => self.bytes(&piece),
                Err(error) => panic!(
                    "`{text}` is not shown, {error}: `{row}` in {:?}",
                    self.shown
                ),
            }
        }
    }

    fn bytes(&mut self, piece: &[u8]) {
        // A character may come in pieces.
        self.partial.extend_from_slice(piece);
        let whole = match std::str::from_utf8(&self.partial) {
            Ok(text) => text.len(),
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            Err(_) => self.partial.len(),
        };
        let rest = self.partial.split_off(whole);
        self.shown.push_str(&String::from_utf8_lossy(&self.partial));
        self.partial = rest;
    }

    /// Waits until `text` is shown after what was waited for before.
    pub(crate) fn until(&mut self, text: &str) {
        let begun = Instant::now();
        let mut from = self.seen;
        loop {
            let new = self.shown.get(from..).unwrap_or_default();
            if let Some(at) = new.find(text) {
                self.seen = from + at + text.len();
                return;
            }
            // What was looked through once is not looked through again.
            from = self.shown.len().saturating_sub(text.len()).max(from);
            while !self.shown.is_char_boundary(from) {
                from -= 1;
            }
            let left = PATIENCE.saturating_sub(begun.elapsed());
            match self.pieces.recv_timeout(left) {
                Ok(piece) => self.bytes(&piece),
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

    /// Whether it has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// The process of the session itself.
    pub(crate) fn process(&self) -> rustix::process::Pid {
        let mut parents = vec![self.child.id().to_string()];
        while let Some(parent) = parents.pop() {
            let path = format!("/proc/{parent}/task/{parent}/children");
            let children = std::fs::read_to_string(path).unwrap_or_default();
            for child in children.split_whitespace() {
                let program = std::fs::read_link(format!("/proc/{child}/exe"));
                if program.is_ok_and(|program| program == std::path::Path::new(super::whole())) {
                    return rustix::process::Pid::from_raw(child.parse().unwrap()).unwrap();
                }
                parents.push(child.to_owned());
            }
        }
        panic!("no session runs: {}", self.shown);
    }

    /// The terminal is gone, without a word: its window was closed.
    pub(crate) fn hang_up(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for its end.
    pub(crate) fn finish(mut self) -> Ran {
        while let Ok(piece) = self.pieces.recv_timeout(PATIENCE) {
            self.bytes(&piece);
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
