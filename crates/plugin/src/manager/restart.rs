//! When a plugin that ended by itself is started again: soon, later, then not any more. Pure.

use std::collections::VecDeque;
use std::time::Duration;

/// Within this time starts are counted.
const WINDOW: Duration = Duration::from_mins(5);
/// How long each of them is waited for; there are no more than these within the window.
const BACK_OFF: [Duration; 3] = [
    Duration::from_millis(100),
    Duration::from_secs(1),
    Duration::from_secs(5),
];

/// What follows a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It may be started again from then on.
    At(Duration),
    /// It stays down.
    GiveUp,
}

/// The restarts of one plugin.
#[derive(Debug, Default)]
pub(super) struct Restarts {
    starts: VecDeque<Duration>,
    gave_up: bool,
}

impl Restarts {
    /// It ended by itself at `now`, which never goes back.
    pub(super) fn crashed(&mut self, now: Duration) -> Verdict {
        while self.starts.front().is_some_and(|at| *at + WINDOW <= now) {
            self.starts.pop_front();
        }
        let wait = BACK_OFF.get(self.starts.len());
        self.gave_up = wait.is_none();
        wait.map_or(Verdict::GiveUp, |wait| {
            self.starts.push_back(now);
            Verdict::At(now + *wait)
        })
    }

    /// Whether it stays down until a person starts it anew.
    pub(super) const fn gave_up(&self) -> bool {
        self.gave_up
    }

    /// A person started it anew: what was before does not count.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Verdict::{At, GiveUp};

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn three_restarts_in_five_minutes_and_no_fourth() {
        let mut restarts = Restarts::default();
        assert_eq!(restarts.crashed(ms(0)), At(ms(100)));
        assert_eq!(restarts.crashed(ms(200)), At(ms(1_200)));
        assert_eq!(restarts.crashed(ms(2_000)), At(ms(7_000)));
        assert!(!restarts.gave_up());
        assert_eq!(restarts.crashed(ms(8_000)), GiveUp);
        assert_eq!(restarts.crashed(ms(299_999)), GiveUp);
        // The first is five minutes old now, and counts no more.
        assert_eq!(restarts.crashed(ms(300_000)), At(ms(305_000)));
        assert_eq!(restarts.crashed(ms(300_001)), GiveUp);
        assert!(restarts.gave_up());
        restarts.forget();
        assert!(!restarts.gave_up());
        assert_eq!(restarts.crashed(ms(300_002)), At(ms(300_102)));
    }

    #[test]
    fn rare_crashes_are_restarted_for_ever() {
        let mut restarts = Restarts::default();
        for hour in 0..100 {
            let now = Duration::from_secs(3_600 * hour);
            assert_eq!(restarts.crashed(now), At(now + ms(100)));
        }
    }
}
