//! Takes a call back while it runs.
//!
//! A call stays on one thread from its start to its end, so what takes it back is handed over
//! beside the call, by [`Cancel::cover`], and found again by whatever on that thread can be
//! stopped: a search looks at a flag, a program is ended with everything it started.
//!
//! Guarantee: a program that starts after its call was taken back ends at once. Non-guarantee: what
//! was done before stays done, and the call still has its outcome and its record.

use crate::process::Steering;
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often somebody who waits looks whether the call is still wanted.
pub(crate) const LOOK: Duration = Duration::from_millis(20);

thread_local! {
    /// What covers the call this thread is on.
    static COVERING: RefCell<Option<Cancel>> = const { RefCell::new(None) };
}

/// Where a call leaves its place to others while it only waits.
pub trait Aside: Send + Sync {
    /// It waits from now on. False: too many do, and it must not.
    fn leave(&self) -> bool;

    /// It goes on. May block until there is a place.
    fn come_back(&self);
}

/// Takes one call back, from any thread.
#[derive(Clone, Default)]
pub struct Cancel {
    taken_back: Arc<AtomicBool>,
    /// Where it steps aside while it waits.
    aside: Option<Arc<dyn Aside>>,
    /// What steers the program of the call, once there is one.
    program: Arc<Mutex<Option<Arc<dyn Steering>>>>,
}

/// Whether the call this thread is on was taken back.
pub(crate) fn is_set() -> bool {
    COVERING.with_borrow(|covering| covering.as_ref().is_some_and(Cancel::is_cancelled))
}

/// What takes back the call this thread is on; where nothing does yet, something new that can.
pub(crate) fn covering() -> Cancel {
    COVERING.with_borrow(|covering| covering.clone().unwrap_or_default())
}

/// A call that leaves its place to others, until this is dropped.
#[must_use = "it comes back when this is dropped"]
pub(crate) struct SteppedAside(Option<Arc<dyn Aside>>);

impl Drop for SteppedAside {
    fn drop(&mut self) {
        if let Some(aside) = &self.0 {
            aside.come_back();
        }
    }
}

/// The call this thread is on only waits; none if there is no room for one more that does.
pub(crate) fn step_aside() -> Option<SteppedAside> {
    let aside = COVERING.with_borrow(|covering| covering.as_ref()?.aside.clone());
    match aside {
        Some(aside) => aside.leave().then(|| SteppedAside(Some(aside))),
        None => Some(SteppedAside(None)),
    }
}

/// Sleeps for `time`, beside others that run; false as soon as the call this thread is on is taken
/// back.
pub(crate) fn sleep(time: Duration) -> bool {
    // Where there is no room for one more that waits it keeps its place: it is bounded by `time`.
    let _aside = step_aside();
    let until = Instant::now() + time;
    loop {
        if is_set() {
            return false;
        }
        match until.saturating_duration_since(Instant::now()) {
            Duration::ZERO => return true,
            left => std::thread::sleep(left.min(LOOK)),
        }
    }
}

impl Cancel {
    /// For a call that is wanted, as yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// For a call that is part of another: it can be taken back by itself, and steps aside where that
    /// one does.
    pub(crate) fn part_of(outer: &Self) -> Self {
        Self {
            aside: outer.aside.clone(),
            ..Self::default()
        }
    }

    /// Takes the call back.
    pub fn cancel(&self) {
        self.taken_back.store(true, Ordering::SeqCst);
        let program = self.program().clone();
        if let Some(program) = program {
            program.cancel();
        }
    }

    /// Whether the call was taken back.
    pub fn is_cancelled(&self) -> bool {
        self.taken_back.load(Ordering::SeqCst)
    }

    /// For a call that leaves its place to others while it only waits.
    #[must_use]
    pub fn stepping_aside(self, aside: Arc<dyn Aside>) -> Self {
        Self {
            aside: Some(aside),
            ..self
        }
    }

    /// Whether both take back the same call.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.taken_back, &other.taken_back)
    }

    /// Runs `call`, which [`Cancel::cancel`] then takes back.
    pub fn cover<T>(&self, call: impl FnOnce() -> T) -> T {
        /// Puts back what covered the thread before, also when the call panics.
        struct Before(Option<Cancel>);
        impl Drop for Before {
            fn drop(&mut self) {
                COVERING.set(self.0.take());
            }
        }
        let _before = Before(COVERING.replace(Some(self.clone())));
        call()
    }

    /// Hands over what ends the call where it really runs, outside this process.
    pub fn steered_by(&self, elsewhere: &Arc<dyn Steering>) {
        *self.program() = Some(Arc::clone(elsewhere));
        // Taken back between the last look and now; whoever did found nothing to end.
        if self.is_cancelled() {
            elsewhere.cancel();
        }
    }

    fn program(&self) -> std::sync::MutexGuard<'_, Option<Arc<dyn Steering>>> {
        self.program.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Cancel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Cancel").field(&self.is_cancelled()).finish()
    }
}

/// Set once the call this thread is on is taken back. Whoever limits its time may set it as well.
pub(crate) fn flag() -> Arc<AtomicBool> {
    COVERING.with_borrow(|covering| {
        covering
            .as_ref()
            .map_or_else(Arc::default, |cancel| Arc::clone(&cancel.taken_back))
    })
}

/// The program of the call this thread is on has started.
#[expect(
    clippy::needless_pass_by_value,
    reason = "it is handed over like any other hook's"
)]
pub(crate) fn started(program: Arc<dyn Steering>) {
    COVERING.with_borrow(|covering| {
        let Some(cancel) = covering else {
            return;
        };
        cancel.steered_by(&program);
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use airlock_sandbox::launch::TerminalSize;
    use std::panic::AssertUnwindSafe;

    #[derive(Default)]
    struct Program(AtomicBool);

    impl Steering for Program {
        fn cancel(&self) {
            self.0.store(true, Ordering::SeqCst);
        }
        fn signal(&self, _: u8) {}
        fn resize(&self, _: TerminalSize) {}
    }

    #[test]
    fn a_program_is_stopped_whether_it_starts_before_or_after() {
        for before in [true, false] {
            let cancel = Cancel::new();
            let program = Arc::new(Program::default());
            cancel.cover(|| {
                if before {
                    cancel.cancel();
                }
                started(Arc::clone(&program) as Arc<dyn Steering>);
                assert_eq!(program.0.load(Ordering::SeqCst), before);
            });
            cancel.cancel();
            assert!(program.0.load(Ordering::SeqCst));
        }
    }

    #[test]
    fn a_sleep_ends_when_its_call_is_taken_back() {
        let cancel = Cancel::new();
        assert!(cancel.cover(|| sleep(Duration::from_millis(1))));
        let taken = cancel.clone();
        let thread = std::thread::spawn(move || taken.cover(|| sleep(Duration::from_mins(10))));
        cancel.cancel();
        assert!(!thread.join().unwrap());
    }

    #[derive(Default)]
    struct Place(AtomicBool);

    impl Aside for Place {
        fn leave(&self) -> bool {
            !self.0.swap(true, Ordering::SeqCst)
        }
        fn come_back(&self) {}
    }

    #[test]
    fn a_call_that_is_part_of_another_leaves_the_others_place_and_is_taken_back_by_itself() {
        let place = Arc::new(Place::default());
        let outer = Cancel::new().stepping_aside(Arc::clone(&place) as Arc<dyn Aside>);
        let part = Cancel::part_of(&outer);
        part.cover(|| drop(step_aside()));
        assert!(place.0.load(Ordering::SeqCst));
        part.cancel();
        assert!(!outer.is_cancelled());
    }

    #[test]
    fn only_the_covered_call_is_taken_back_and_only_while_it_lasts() {
        let (outer, inner) = (Cancel::new(), Cancel::new());
        outer.cover(|| {
            inner.cover(|| {
                inner.cancel();
                assert!(flag().load(Ordering::SeqCst));
            });
            assert!(!flag().load(Ordering::SeqCst));
        });
        outer.cancel();
        assert!(!flag().load(Ordering::SeqCst));
        let broken = AssertUnwindSafe(|| inner.cover(|| panic!("a call that panics")));
        let _ = std::panic::catch_unwind(broken);
        assert!(!flag().load(Ordering::SeqCst));
    }
}
