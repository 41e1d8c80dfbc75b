//! How many calls run at once, and who waits.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often whoever waits looks whether it is still wanted.
pub(super) const LOOK: Duration = Duration::from_millis(10);

/// Places for calls.
pub(super) struct Slots {
    all: u32,
    free: Mutex<u32>,
    freed: Condvar,
}

/// One place, taken.
pub(super) struct Slot(Arc<Slots>);

/// Why there was no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoSlot {
    /// None came free in time.
    Late,
    /// The call was cancelled meanwhile.
    Cancelled,
}

impl Slots {
    pub(super) fn new(all: u32) -> Arc<Self> {
        Arc::new(Self {
            all,
            free: Mutex::new(all),
            freed: Condvar::new(),
        })
    }

    fn free(&self) -> MutexGuard<'_, u32> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place, waiting until `until` at most.
    pub(super) fn take(
        self: &Arc<Self>,
        until: Instant,
        cancelled: &AtomicBool,
    ) -> Result<Slot, NoSlot> {
        let mut free = self.free();
        loop {
            if let Some(fewer) = free.checked_sub(1) {
                *free = fewer;
                return Ok(Slot(Arc::clone(self)));
            }
            if cancelled.load(Ordering::SeqCst) {
                return Err(NoSlot::Cancelled);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(NoSlot::Late);
            }
            let waited = self.freed.wait_timeout(free, left.min(LOOK));
            free = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits until no call runs or it is over with them, for `grace` at most.
    pub(super) fn wait_for_all(&self, grace: Duration, is_over: impl Fn() -> bool) {
        let until = Instant::now() + grace;
        let mut free = self.free();
        while *free < self.all && !is_over() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = self.freed.wait_timeout(free, left.min(LOOK));
            free = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        *self.0.free() += 1;
        self.0.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_than_all_are_taken_and_a_freed_one_is_taken_again() {
        let slots = Slots::new(2);
        let go_on = AtomicBool::new(false);
        let soon = || Instant::now() + Duration::from_millis(30);
        let one = slots.take(soon(), &go_on).ok().unwrap();
        let two = slots.take(soon(), &go_on).ok().unwrap();
        assert_eq!(slots.take(soon(), &go_on).err(), Some(NoSlot::Late));
        drop(one);
        let three = slots.take(soon(), &go_on).ok().unwrap();
        let cancelled = AtomicBool::new(true);
        let far = Instant::now() + Duration::from_mins(1);
        assert_eq!(slots.take(far, &cancelled).err(), Some(NoSlot::Cancelled));
        drop((two, three));
        slots.wait_for_all(Duration::from_mins(1), || false);
        assert_eq!(*slots.free(), 2);
        let _four = slots.take(far, &go_on).ok().unwrap();
        slots.wait_for_all(Duration::from_hours(1), || true);
    }
}
