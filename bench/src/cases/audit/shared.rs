//! The least that sharing a sync takes: threads hand their bytes to one that writes what has come
//! together, syncs once and wakes them all. No chain, no database, no second process to keep off.

use crate::failure::Failure;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// How long whoever came first is made to wait for the others.
const LINGER: Duration = Duration::from_micros(300);

/// What has come together since the last sync.
#[derive(Default)]
struct Waiting {
    bytes: Vec<u8>,
    callers: usize,
    answer: Arc<OnceLock<bool>>,
    closed: bool,
}

struct Shared {
    waiting: Mutex<Waiting>,
    work: Condvar,
    threads: usize,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the disk has `bytes`.
    fn append(&self, bytes: &[u8]) -> bool {
        let mut waiting = self.lock();
        if waiting.closed {
            return false;
        }
        waiting.bytes.extend_from_slice(bytes);
        waiting.callers += 1;
        let answer = Arc::clone(&waiting.answer);
        let wake = waiting.callers == 1 || waiting.callers == self.threads;
        drop(waiting);
        if wake {
            self.work.notify_one();
        }
        *answer.wait()
    }

    /// Writes and syncs until this is closed.
    fn serve(&self, mut file: File) -> io::Result<()> {
        let mut companions = 0;
        loop {
            let begun = Instant::now();
            let mut waiting = self.lock();
            while waiting.callers == 0 || (waiting.callers < companions && begun.elapsed() < LINGER)
            {
                if waiting.closed && waiting.callers == 0 {
                    return Ok(());
                }
                let woken = self.work.wait_timeout(waiting, LINGER);
                waiting = woken.unwrap_or_else(PoisonError::into_inner).0;
            }
            let closed = waiting.closed;
            let taken = std::mem::take(&mut *waiting);
            waiting.closed = closed;
            drop(waiting);
            companions = taken.callers;
            let written = file.write_all(&taken.bytes).and_then(|()| file.sync_all());
            let _set = taken.answer.set(written.is_ok());
            if written.is_err() {
                let mut waiting = self.lock();
                waiting.closed = true;
                let _set = waiting.answer.set(false);
                return written;
            }
        }
    }
}

/// How long `threads` took that appended all of `stored` to a file in `directory`, an equal share
/// each and one record after another.
pub(super) fn append(
    directory: &Path,
    stored: &[Vec<u8>],
    threads: usize,
) -> Result<Duration, Failure> {
    let file = File::create(directory.join("shared"))?;
    let shared = Shared {
        waiting: Mutex::default(),
        work: Condvar::new(),
        threads,
    };
    let begun = Instant::now();
    let (served, written) = std::thread::scope(|scope| {
        let writer = scope.spawn(|| shared.serve(file));
        let append = |mine: &[Vec<u8>]| mine.iter().all(|bytes| shared.append(bytes));
        let callers: Vec<_> = stored
            .chunks(stored.len().div_ceil(threads).max(1))
            .map(|mine| scope.spawn(move || append(mine)))
            .collect();
        let written = callers
            .into_iter()
            .all(|caller| caller.join().unwrap_or(false));
        shared.lock().closed = true;
        shared.work.notify_one();
        (writer.join(), written)
    });
    let took = begun.elapsed();
    served.map_err(|_| Failure::new("the writer panicked"))??;
    if written {
        Ok(took)
    } else {
        Err(Failure::new("a record was not written"))
    }
}
