//! Takes away, at once and then now and then, what supervisors left that were killed.
//!
//! Whoever starts a sandbox does so first; a kernel that lasts and is asked nothing would leave it
//! for as long.
//!
//! Guarantee: it ends with whoever holds it, and what it could not remove is remembered until it
//! could. Nothing is looked at that was not there before: no registry is made.

use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// How often it looks: seldom enough to cost nothing, often enough that a cgroup or a process that
/// was left is gone before anybody wonders about it.
pub(crate) const EVERY: Duration = Duration::from_mins(1);

/// A thread that looks at registries of sandboxes.
pub(crate) struct Sweeper {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    registries: Vec<PathBuf>,
    every: Duration,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    over: bool,
    troubles: Vec<String>,
}

impl Sweeper {
    /// Begins. Where there is no thread to be had, whoever starts a sandbox looks, as ever.
    pub(crate) fn new(registries: Vec<PathBuf>, every: Duration) -> Self {
        let shared = Arc::new(Shared {
            registries,
            every,
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let own = Arc::clone(&shared);
        let thread = Builder::new().name("sweeper".to_owned());
        let thread = thread.spawn(move || own.serve()).ok();
        Self { shared, thread }
    }

    /// What the last look could not remove, and why.
    pub(crate) fn troubles(&self) -> Vec<String> {
        self.shared.locked().troubles.clone()
    }
}

impl Shared {
    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self) {
        let mut state = self.locked();
        while !state.over {
            // Nobody who wants to end it waits for more than one look.
            drop(state);
            let troubles = self.sweep();
            state = self.locked();
            state.troubles = troubles;
            let waited = self
                .changed
                .wait_timeout_while(state, self.every, |state| !state.over);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn sweep(&self) -> Vec<String> {
        let mut troubles = Vec::new();
        for registry in self.registries.iter().filter(|path| path.is_dir()) {
            match airlock_sandbox::collect(registry) {
                Ok(collected) => {
                    troubles.extend(collected.troubles.iter().map(ToString::to_string));
                }
                Err(error) => troubles.push(error.to_string()),
            }
        }
        troubles
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        self.shared.locked().over = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;
    use std::time::Instant;

    /// What a supervisor leaves that is killed as it begins to note a sandbox.
    fn leave(registry: &Path) -> PathBuf {
        let left = registry.join(".draft-1-1");
        fs::write(&left, "").unwrap();
        left
    }

    fn eventually(what: &str, holds: impl Fn() -> bool) {
        let begun = Instant::now();
        while !holds() {
            assert!(begun.elapsed() < Duration::from_secs(20), "{what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn what_was_left_goes_without_anybody_asking_and_again() {
        let place = tempfile::tempdir().unwrap();
        let registry = place.path().join("sandboxes");
        fs::create_dir(&registry).unwrap();
        let missing = place.path().join("missing");
        let registries = vec![missing.clone(), registry.clone()];
        let sweeper = Sweeper::new(registries, Duration::from_millis(20));
        for _ in 0..2 {
            let left = leave(&registry);
            eventually("it goes", || !left.exists());
        }
        assert_eq!(sweeper.troubles(), Vec::<String>::new());
        assert!(!missing.exists(), "nothing is made");
    }

    #[test]
    fn what_cannot_go_is_told_until_it_can() {
        let place = tempfile::tempdir().unwrap();
        let note = place.path().join("odd.sandbox");
        fs::create_dir(&note).unwrap();
        let sweeper = Sweeper::new(vec![place.path().to_owned()], Duration::from_millis(20));
        eventually("it is told", || !sweeper.troubles().is_empty());
        let told = sweeper.troubles();
        assert!(
            told.iter().all(|one| one.contains("odd.sandbox")),
            "{told:?}"
        );
        fs::remove_dir(&note).unwrap();
        eventually("it is told no more", || sweeper.troubles().is_empty());
    }

    #[test]
    fn it_ends_at_once_however_seldom_it_looks() {
        let begun = Instant::now();
        drop(Sweeper::new(Vec::new(), Duration::from_hours(1)));
        assert!(begun.elapsed() < Duration::from_secs(20));
    }
}
