//! What a program reads and writes: attached to whoever waits for it, or kept within bounds.

use airlock_sandbox::launch::{Stdin, TerminalSize};
use airlock_sanitise::{LONGEST_SECRET, Sanitiser};
use std::collections::VecDeque;
use std::io::{self, Write};
use std::ops::Range;
use std::sync::Arc;
#[cfg(target_os = "linux")]
use {
    airlock_sandbox::{Control, Sandbox},
    std::sync::{Mutex, MutexGuard, PoisonError},
};

/// Steers a command while it runs, from another thread.
pub trait Steering: Send + Sync {
    /// Ends it, and everything it started.
    fn cancel(&self);
    /// Passes a signal on to it.
    fn signal(&self, number: u8);
    /// Tells its terminal another size.
    fn resize(&self, size: TerminalSize);
}

/// Steers one run in a sandbox. Whoever keeps it for longer steers nothing: the sandbox may run
/// somebody else's command by then.
#[cfg(target_os = "linux")]
#[derive(Debug)]
pub(super) struct Reins(Mutex<Option<Control>>);

#[cfg(target_os = "linux")]
impl Reins {
    pub(super) fn of(sandbox: &Sandbox) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Some(sandbox.control()))))
    }

    /// The run is over. What came too late to end it ends nothing else.
    fn drop_all(&self) {
        if let Some(control) = self.held().take() {
            control.pardon();
        }
    }

    fn held(&self) -> MutexGuard<'_, Option<Control>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(target_os = "linux")]
impl Steering for Reins {
    fn cancel(&self) {
        self.held().as_ref().inspect(|control| control.cancel());
    }

    fn signal(&self, number: u8) {
        self.held()
            .as_ref()
            .inspect(|control| control.signal(number));
    }

    fn resize(&self, size: TerminalSize) {
        self.held().as_ref().inspect(|control| control.resize(size));
    }
}

/// A run, until this is dropped.
#[cfg(target_os = "linux")]
pub(super) struct Run(pub(super) Arc<Reins>);

#[cfg(target_os = "linux")]
impl Drop for Run {
    fn drop(&mut self) {
        self.0.drop_all();
    }
}

/// The streams of a person who waits for a command they typed: bytes pass unchanged.
pub struct Attached<'a> {
    /// What the command reads.
    pub stdin: Stdin,
    /// Takes its standard output, and everything it writes to its terminal.
    pub stdout: &'a mut (dyn Write + Send),
    /// Takes its standard error.
    pub stderr: &'a mut (dyn Write + Send),
    /// Gives it a terminal of its own.
    pub terminal: Option<TerminalSize>,
    /// Is handed what steers the command, once it can be steered.
    pub started: &'a (dyn Fn(Arc<dyn Steering>) + Sync),
}

/// Keeps the beginning and the end of what is written to it; what lies between is counted. Some more
/// of each is kept to know what stands where they were cut.
#[derive(Debug)]
pub(super) struct Kept {
    half: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    /// Bytes between the two that are gone.
    gone: usize,
}

impl Kept {
    /// Keeps `most` bytes at most.
    pub(super) fn new(most: usize) -> Self {
        Self {
            half: most / 2,
            head: Vec::new(),
            tail: VecDeque::new(),
            gone: 0,
        }
    }

    /// What was kept, with a mark where something is missing and no part of a secret beside it.
    pub(super) fn text(self, secrets: &Sanitiser) -> (String, bool) {
        let mut tail = Vec::from(self.tail);
        let mut head = self.head;
        if self.gone == 0 {
            head.append(&mut tail);
            if head.len() <= 2 * self.half {
                return (String::from_utf8_lossy(&head).into_owned(), false);
            }
            tail.clone_from(&head);
        }
        let begin = tail.len() - self.half;
        let cut = if self.gone == 0 {
            begin - self.half
        } else {
            self.gone + (head.len() - self.half) + begin
        };
        let part = |bytes: &[u8], range: Range<usize>| {
            let part = secrets
                .part(bytes, &secrets.find(bytes), range)
                .into_owned();
            String::from_utf8_lossy(&part).into_owned()
        };
        let (head, tail) = (part(&head, 0..self.half), part(&tail, begin..tail.len()));
        (format!("{head}\n[… {cut} bytes cut …]\n{tail}"), true)
    }
}

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let each = self.half + LONGEST_SECRET;
        let room = each.saturating_sub(self.head.len()).min(bytes.len());
        let (front, rest) = bytes.split_at_checked(room).unwrap_or((bytes, &[]));
        self.head.extend_from_slice(front);
        self.tail.extend(rest);
        let over = self.tail.len().saturating_sub(each);
        self.tail.drain(..over);
        self.gone += over;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(most: usize, pieces: &[&[u8]]) -> (String, bool) {
        let mut kept = Kept::new(most);
        for piece in pieces {
            kept.write_all(piece).unwrap();
        }
        kept.text(&Sanitiser::new())
    }

    #[test]
    fn the_beginning_and_the_end_are_kept_however_much_is_written() {
        let pieces = [&b"ab"[..], b"cdef", b"ghijklm", b"n"];
        let want = "abcd\n[… 6 bytes cut …]\nklmn";
        assert_eq!(kept(8, &pieces), (want.to_owned(), true));
        assert_eq!(kept(8, &[b"abcdefgh"]), ("abcdefgh".to_owned(), false));
        let much = vec![b'x'; 3 * LONGEST_SECRET];
        let pieces = [&b"abcd"[..], &much, b"klmn"];
        let want = format!("abcd\n[… {} bytes cut …]\nklmn", much.len());
        assert_eq!(kept(8, &pieces), (want, true));
        let half = vec![b'x'; LONGEST_SECRET];
        let pieces = [&b"abcd"[..], &half, b"klmn"];
        let want = format!("abcd\n[… {} bytes cut …]\nklmn", half.len());
        assert_eq!(kept(8, &pieces), (want, true));
    }

    #[test]
    fn no_part_of_a_secret_is_kept_where_it_is_cut() {
        let token = format!("ghp_{}", "a1B2".repeat(9));
        for much in [200, LONGEST_SECRET + 50, 3 * LONGEST_SECRET] {
            let much = "- ".repeat(much);
            for cut in 1..token.len() {
                // The token's end stands at the beginning of the tail, its beginning before the cut.
                let head = format!("{}{token}", ".".repeat(50 - cut));
                let tail = format!("{token}{}", ".".repeat(50 - (token.len() - cut)));
                let (text, is_cut) =
                    kept(100, &[head.as_bytes(), much.as_bytes(), tail.as_bytes()]);
                assert!(is_cut && !text.contains("a1"), "{cut}: {text}");
            }
        }
    }
}
