//! One thing made ahead, so that whoever needs it does not wait for it.
//!
//! Guarantee: what is handed out was made within the age that was set, is handed out once, and what
//! is left is gone when the reserve is. Whoever comes while it is being made waits for that one.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// What is done once it is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    /// Nothing: it was wanted once.
    End,
    /// Another is made, and again whenever one has grown too old.
    Refill,
}

/// Holds one thing that was made ahead.
pub(super) struct Reserve<T: Send + 'static> {
    shared: Arc<Shared<T>>,
    thread: Option<JoinHandle<()>>,
}

type Make<T> = Box<dyn Fn() -> T + Send + Sync>;

struct Shared<T> {
    make: Make<T>,
    age: Duration,
    then: Then,
    state: Mutex<State<T>>,
    changed: Condvar,
}

struct State<T> {
    ready: Option<(T, Instant)>,
    making: bool,
    closed: bool,
}

impl<T: Send + 'static> Reserve<T> {
    /// Begins to make the first at once. Things older than `age` are not handed out.
    pub(super) fn new(
        make: impl Fn() -> T + Send + Sync + 'static,
        age: Duration,
        then: Then,
    ) -> Self {
        let shared = Arc::new(Shared {
            make: Box::new(make),
            age,
            then,
            state: Mutex::new(State {
                ready: None,
                making: true,
                closed: false,
            }),
            changed: Condvar::new(),
        });
        let own = Arc::clone(&shared);
        let thread = Builder::new().name("reserve".to_owned());
        let thread = thread.spawn(move || own.serve()).ok();
        if thread.is_none() {
            // Then each is made when it is needed.
            shared.locked().making = false;
        }
        Self { shared, thread }
    }

    /// Whether anything is made before it is asked for.
    pub(super) const fn is_ahead(&self) -> bool {
        self.thread.is_some()
    }

    /// The one made ahead, or one made now.
    pub(super) fn take(&self) -> T {
        let shared = &self.shared;
        let mut state = shared.locked();
        while state.making {
            state = shared.wait(state);
        }
        let ready = state.ready.take();
        drop(state);
        shared.changed.notify_all();
        let fresh = ready.filter(|(_, made)| made.elapsed() <= shared.age);
        fresh.map_or_else(|| (shared.make)(), |(thing, _)| thing)
    }
}

impl<T> Shared<T> {
    fn locked(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State<T>>) -> MutexGuard<'a, State<T>> {
        let waited = self.changed.wait(state);
        waited.unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self) {
        let mut state = self.locked();
        while !state.closed {
            if state.making {
                drop(state);
                let made = (self.make)();
                state = self.locked();
                state.making = false;
                state.ready = Some((made, Instant::now()));
                self.changed.notify_all();
                continue;
            }
            if self.then == Then::End {
                return;
            }
            let left = state.ready.as_ref();
            let left = left.map(|(_, made)| self.age.saturating_sub(made.elapsed()));
            let Some(left) = left.filter(|left| !left.is_zero()) else {
                state.making = true;
                let old = state.ready.take();
                drop(state);
                drop(old);
                state = self.locked();
                continue;
            };
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl<T: Send + 'static> Drop for Reserve<T> {
    fn drop(&mut self) {
        self.shared.locked().closed = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // What it made is dropped with what is shared.
            let _ended = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    const LONG: Duration = Duration::from_mins(10);

    /// Numbers in the order in which they were made, and how many are left.
    struct Numbered(usize, Arc<AtomicUsize>);

    impl Drop for Numbered {
        fn drop(&mut self) {
            self.1.fetch_sub(1, Ordering::SeqCst);
        }
    }

    struct Counts {
        made: Arc<AtomicUsize>,
        left: Arc<AtomicUsize>,
    }

    fn reserve(age: Duration, then: Then) -> (Reserve<Numbered>, Counts) {
        let (made, left) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let counts = Counts {
            made: Arc::clone(&made),
            left: Arc::clone(&left),
        };
        let numbered = move || {
            left.fetch_add(1, Ordering::SeqCst);
            let number = made.fetch_add(1, Ordering::SeqCst);
            Numbered(number, Arc::clone(&left))
        };
        (Reserve::new(numbered, age, then), counts)
    }

    fn eventually(holds: impl Fn() -> bool) {
        let begun = Instant::now();
        while !holds() {
            assert!(begun.elapsed() < Duration::from_secs(30), "it never held");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn the_one_made_ahead_is_handed_out_once() {
        let (reserve, counts) = reserve(LONG, Then::End);
        eventually(|| counts.made.load(Ordering::SeqCst) == 1);
        let (first, second) = (reserve.take(), reserve.take());
        assert_eq!((first.0, second.0), (0, 1));
        assert_eq!(
            counts.made.load(Ordering::SeqCst),
            2,
            "none is made for nobody"
        );
    }

    #[test]
    fn another_is_made_when_one_is_taken() {
        let (reserve, counts) = reserve(LONG, Then::Refill);
        for number in 0..5 {
            eventually(|| counts.made.load(Ordering::SeqCst) == number + 1);
            assert_eq!(reserve.take().0, number);
        }
    }

    #[test]
    fn what_has_grown_too_old_is_never_handed_out_and_is_made_anew() {
        let age = Duration::from_millis(30);
        let (reserve, counts) = reserve(age, Then::Refill);
        eventually(|| counts.made.load(Ordering::SeqCst) >= 3);
        assert!(counts.left.load(Ordering::SeqCst) <= 1, "old ones are gone");
        let taken = reserve.take();
        assert!(taken.0 >= 2);
    }

    #[test]
    fn many_at_once_each_get_their_own() {
        let (reserve, counts) = reserve(LONG, Then::Refill);
        let mut numbers: Vec<usize> = std::thread::scope(|scope| {
            let takers: Vec<_> = (0..20).map(|_| scope.spawn(|| reserve.take().0)).collect();
            takers
                .into_iter()
                .map(|taker| taker.join().unwrap())
                .collect()
        });
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 20);
        assert!(counts.left.load(Ordering::SeqCst) <= 1);
    }

    #[test]
    fn nothing_is_left_of_a_reserve_that_is_gone() {
        for then in [Then::End, Then::Refill] {
            let (reserve, counts) = reserve(LONG, then);
            drop(reserve);
            assert_eq!(counts.left.load(Ordering::SeqCst), 0, "{then:?}");
        }
    }
}
