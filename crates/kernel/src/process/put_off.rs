//! Work on a stage that can wait for a moment, and that nobody who wants the stage goes ahead of.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// How long it waits: about as long as a program takes to end.
const AFTER: Duration = Duration::from_millis(1);

/// What is put off, or under way, and on which stage.
pub(super) struct PutOff {
    threads: Mutex<Vec<(String, JoinHandle<()>)>>,
    after: Duration,
}

impl Default for PutOff {
    fn default() -> Self {
        Self {
            threads: Mutex::default(),
            after: AFTER,
        }
    }
}

impl PutOff {
    /// Has `work` done on a stage soon, or when it is [waited for](Self::wait). Without a thread for it,
    /// never.
    pub(super) fn put_off(&self, stage: &str, work: impl FnOnce() + Send + 'static) {
        let after = self.after;
        let thread = Builder::new().name("put off".to_owned());
        let thread = thread.spawn(move || {
            std::thread::park_timeout(after);
            work();
        });
        if let Ok(thread) = thread {
            self.threads().push((stage.to_owned(), thread));
        }
    }

    /// Has what is to be done on stages that `are_meant` done now, and waits for it.
    pub(super) fn wait(&self, are_meant: impl Fn(&str) -> bool) {
        let mut threads = self.threads();
        let meant: Vec<_> = threads
            .extract_if(.., |(stage, thread)| {
                are_meant(stage) || thread.is_finished()
            })
            .collect();
        // Waited for outside the lock.
        drop(threads);
        for (_, thread) in &meant {
            thread.thread().unpark();
        }
        for (_, thread) in meant {
            let _ended = thread.join();
        }
    }

    fn threads(&self) -> MutexGuard<'_, Vec<(String, JoinHandle<()>)>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, TryRecvError, channel};

    fn begun(after: Duration) -> PutOff {
        PutOff {
            after,
            ..PutOff::default()
        }
    }

    /// Longer than any test waits.
    fn long() -> PutOff {
        begun(Duration::from_hours(1))
    }

    /// Puts something off that says when it is done.
    fn told(put_off: &PutOff, stage: &str) -> Receiver<()> {
        let (done, told) = channel();
        put_off.put_off(stage, move || done.send(()).unwrap());
        told
    }

    #[test]
    fn whoever_wants_a_stage_has_what_was_put_off_on_it_behind_them_at_once() {
        let put_off = long();
        let (one, two) = (told(&put_off, "one"), told(&put_off, "two"));
        put_off.wait(|stage| stage == "one");
        assert_eq!(one.try_recv(), Ok(()));
        assert_eq!(two.try_recv(), Err(TryRecvError::Empty));
        put_off.wait(|_| true);
        assert_eq!(two.try_recv(), Ok(()));
    }

    #[test]
    fn it_is_done_though_nobody_asks_for_it() {
        assert_eq!(told(&begun(Duration::from_millis(1)), "one").recv(), Ok(()));
    }

    #[test]
    fn what_fails_keeps_nobody_from_the_stage() {
        let put_off = long();
        put_off.put_off("one", || panic!("as asked"));
        put_off.wait(|stage| stage == "one");
        assert_eq!(put_off.threads().len(), 0);
    }
}
