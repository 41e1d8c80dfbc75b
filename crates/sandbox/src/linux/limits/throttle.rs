//! How long a tree must stand still so that it uses no more than its processors, where no cgroup
//! holds them. Pure: whoever samples the tree also stops it.
//!
//! Guarantees the average: over any time, what was used is no more than the share of it plus one
//! burst and what runs between two looks. Sees what a [`super::Meter`] does.

use std::time::Duration;

/// What may be used at once after a time of little use: as much as a cgroup gives in a period.
const BURST: Duration = Duration::from_millis(100);

/// An account of processor time.
#[derive(Debug)]
pub(crate) struct Throttle {
    /// Thousandths of a processor.
    cpus: u32,
    /// What may be used now; negative if more was used.
    credit: i128,
    /// What had been used in all at the last look.
    used: Duration,
}

impl Throttle {
    /// An account for `cpus` thousandths of a processor.
    pub(crate) fn new(cpus: u32) -> Self {
        let cpus = cpus.max(1);
        Self {
            cpus,
            credit: share(BURST, cpus),
            used: Duration::ZERO,
        }
    }

    /// The part of `time` that may be used.
    pub(crate) fn share(&self, time: Duration) -> Duration {
        let nanos = share(time, self.cpus);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Notes that in all `used` was used, `passed` after the last time this was asked: how long to
    /// stand still now.
    pub(crate) fn rest(&mut self, passed: Duration, used: Duration) -> Duration {
        let earned = self.credit + share(passed, self.cpus);
        // A total that shrank says nothing new.
        let spent = used.saturating_sub(self.used);
        self.used = self.used.max(used);
        self.credit = (earned - nanos(spent)).min(share(BURST, self.cpus));
        let debt = (-self.credit).max(0) * 1_000 / i128::from(self.cpus);
        Duration::from_nanos(u64::try_from(debt).unwrap_or(u64::MAX))
    }
}

/// The part of `time` that `cpus` thousandths are, in nanoseconds.
fn share(time: Duration, cpus: u32) -> i128 {
    nanos(time) * i128::from(cpus) / 1_000
}

fn nanos(time: Duration) -> i128 {
    i128::try_from(time.as_nanos()).unwrap_or(i128::MAX / 8_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn what_is_over_the_share_is_paid_back_by_standing_still() {
        let mut throttle = Throttle::new(500);
        assert_eq!(throttle.rest(ms(50), ms(25)), ms(0), "just its share");
        assert_eq!(throttle.rest(ms(50), ms(75)), ms(0), "out of the burst");
        // Half a processor, 50 ms used in 50 ms: 25 ms too many, now that the burst is used up.
        assert_eq!(throttle.rest(ms(50), ms(125)), ms(0));
        assert_eq!(throttle.rest(ms(50), ms(175)), ms(50));
        assert_eq!(throttle.rest(ms(50), ms(175)), ms(0), "paid");
    }

    #[test]
    fn idling_saves_up_one_burst_and_no_more() {
        let mut throttle = Throttle::new(1_000);
        assert_eq!(throttle.rest(Duration::from_mins(10), ms(0)), ms(0));
        assert_eq!(throttle.rest(ms(0), ms(300)), ms(200));
    }

    #[test]
    fn no_time_is_earned_by_a_total_that_shrinks() {
        let mut throttle = Throttle::new(1_000);
        assert_eq!(throttle.rest(ms(100), ms(200)), ms(0));
        assert_eq!(throttle.rest(ms(0), ms(10)), ms(0));
        assert_eq!(throttle.rest(ms(0), ms(200)), ms(0));
        assert_eq!(throttle.rest(ms(0), ms(210)), ms(10));
    }

    proptest! {
        #[test]
        fn whoever_rests_as_told_stays_within_its_share(
            cpus in 100_u32..4_000,
            looks in proptest::collection::vec((1_u64..60, 0_u64..300), 1..60),
        ) {
            let mut throttle = Throttle::new(cpus);
            let (mut elapsed, mut used, mut rest) = (0_u128, Duration::ZERO, Duration::ZERO);
            for (between, work) in looks {
                let passed = rest + ms(between);
                used += ms(work);
                elapsed += passed.as_nanos();
                rest = throttle.rest(passed, used);
                let allowed = (elapsed + rest.as_nanos() + BURST.as_nanos()) * u128::from(cpus);
                // A nanosecond is lost to rounding at each look.
                prop_assert!(used.as_nanos() * 1_000 <= allowed + 60 * u128::from(cpus) * 2);
            }
        }
    }
}
