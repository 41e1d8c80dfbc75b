//! The run of the machine a moment belongs to, and what its clock says of it: noted when a stage
//! begins, to know later what the stamps of files are worth.
//!
//! The time since the machine was started goes on whatever the clock of the day is set to. So when it
//! was started, by that clock, changes only by as much as the clock is set.

use super::beneath::Stamp;
use airlock_core::Digest;
use rustix::time::{ClockId, Timespec, clock_gettime};
use serde::{Deserialize, Serialize};
use std::sync::OnceLock;

const SECOND: i128 = 1_000_000_000;
/// Two readings of a clock that was not set differ by less: another process may run in between.
const JITTER: i128 = SECOND / 20;
/// How often it is read until nothing ran in between.
const READINGS: usize = 5;

/// One run of the machine, from its start to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Boot(Digest);

impl Boot {
    /// The one that goes on; none where the system does not name it.
    pub(super) fn current() -> Option<Self> {
        static CURRENT: OnceLock<Option<Boot>> = OnceLock::new();
        *CURRENT.get_or_init(|| {
            let name = std::fs::read("/proc/sys/kernel/random/boot_id").ok()?;
            Some(Self(Digest::of(name.trim_ascii())))
        })
    }
}

/// How the clock of the day is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Clock {
    boot: Boot,
    /// When the machine was started, by the clock as it is set.
    started: Stamp,
}

/// What became of the clock since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Since {
    /// It was not set back.
    Onward,
    /// It was set back by so many nanoseconds.
    Back(i128),
    /// The machine was started anew since, at this moment by the clock as it is now.
    Restarted(Stamp),
}

impl Clock {
    /// As it is now; none where the system does not name its runs.
    pub(super) fn now() -> Option<Self> {
        Boot::current().map(|boot| Self {
            boot,
            started: started(),
        })
    }

    /// The run of the machine in which it was so set.
    pub(super) const fn boot(self) -> Boot {
        self.boot
    }

    /// What became of it until `now`.
    pub(super) fn until(self, now: Self) -> Since {
        if self.boot != now.boot {
            return Since::Restarted(now.started);
        }
        let back = nanoseconds(self.started) - nanoseconds(now.started);
        if back > JITTER {
            Since::Back(back + JITTER)
        } else {
            Since::Onward
        }
    }
}

/// `stamp`, by so many nanoseconds earlier.
pub(super) fn earlier(stamp: Stamp, by: i128) -> Stamp {
    as_stamp(nanoseconds(stamp) - by)
}

fn started() -> Stamp {
    let read = |clock| of_timespec(clock_gettime(clock));
    let readings = (0..READINGS).map(|_| {
        let before = read(ClockId::Boottime);
        let day = read(ClockId::Realtime);
        (read(ClockId::Boottime) - before, day - before)
    });
    let best = readings.min_by_key(|(took, _)| *took);
    as_stamp(best.map_or(0, |(_, started)| started))
}

fn of_timespec(time: Timespec) -> i128 {
    i128::from(time.tv_sec) * SECOND + i128::from(time.tv_nsec)
}

fn nanoseconds(stamp: Stamp) -> i128 {
    i128::from(stamp.seconds) * SECOND + i128::from(stamp.nanoseconds)
}

fn as_stamp(nanoseconds: i128) -> Stamp {
    Stamp {
        seconds: i64::try_from(nanoseconds.div_euclid(SECOND)).unwrap_or(i64::MIN),
        nanoseconds: u32::try_from(nanoseconds.rem_euclid(SECOND)).unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64, nanoseconds: u32) -> Stamp {
        Stamp {
            seconds,
            nanoseconds,
        }
    }

    fn clock(boot: &str, started: Stamp) -> Clock {
        Clock {
            boot: Boot(Digest::of(boot.as_bytes())),
            started,
        }
    }

    #[test]
    fn only_being_set_back_and_a_restart_are_told() {
        let then = clock("a", at(1_000, 0));
        for (case, now, want) in [
            ("the same", clock("a", at(1_000, 0)), Since::Onward),
            ("read late", clock("a", at(999, 960_000_000)), Since::Onward),
            ("set forward", clock("a", at(5_000, 0)), Since::Onward),
            (
                "set back",
                clock("a", at(990, 0)),
                Since::Back(10 * SECOND + JITTER),
            ),
            (
                "started anew",
                clock("b", at(990, 0)),
                Since::Restarted(at(990, 0)),
            ),
        ] {
            assert_eq!(then.until(now), want, "{case}");
        }
    }

    #[test]
    fn a_clock_that_nobody_sets_stands_where_it_stood() {
        let then = Clock::now().unwrap();
        for _ in 0..3 {
            assert_eq!(then.until(Clock::now().unwrap()), Since::Onward);
        }
    }

    #[test]
    fn earlier_is_earlier_across_seconds_and_before_the_epoch() {
        for (stamp, by, want) in [
            (at(5, 0), 1, at(4, 999_999_999)),
            (at(5, 10), 10, at(5, 0)),
            (at(0, 0), SECOND / 2, at(-1, 500_000_000)),
        ] {
            assert_eq!(earlier(stamp, by), want, "{stamp:?} {by}");
        }
    }
}
