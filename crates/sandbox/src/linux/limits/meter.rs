//! How much processor time a tree has used in all, counted from look to look. Pure: whoever looks
//! at the tree says what there is.
//!
//! Guarantee: what was seen to be used stays counted, whether anybody waits for who used it or not,
//! and what passes on to whoever waits is counted once.
//!
//! Not guaranteed: what a process used between the last look at it and its end, if nobody waits for
//! it. A parent that ignores its children's ends gets that for nothing; ticks of the clock are the
//! smallest there is, so children shorter than one are never seen to use anything.

use super::proc::Stat;
use std::collections::BTreeMap;
use std::time::Duration;

/// What a tree has used since the first look at it.
#[derive(Debug)]
pub(crate) struct Meter {
    ticks_a_second: u64,
    /// Everybody at the last look, by number.
    last: BTreeMap<u32, Stat>,
    used: u64,
}

impl Meter {
    /// Begins at nothing.
    pub(crate) fn new() -> Self {
        Self {
            ticks_a_second: rustix::param::clock_ticks_per_second().max(1),
            last: BTreeMap::new(),
            used: 0,
        }
    }

    /// Counts everybody there is now, the first of all first: what that one and those it waited for
    /// had used before the first look is somebody else's.
    pub(crate) fn count(&mut self, tree: impl Iterator<Item = (u32, Stat)>) -> Duration {
        let mut tree = tree.peekable();
        if self.last.is_empty() {
            self.last.extend(tree.peek().copied());
        }
        let now: BTreeMap<u32, Stat> = tree.collect();
        let mut passed_on = self.gone(&now);
        for (pid, stat) in &now {
            let before = self.last.get(pid).filter(|before| is_same(before, stat));
            let (own, waited) = before.map_or((0, 0), |before| (before.own, before.waited));
            let known = passed_on.remove(pid).unwrap_or(0);
            let inherited = stat.waited.saturating_sub(waited).saturating_sub(known);
            let fresh = stat.own.saturating_sub(own).saturating_add(inherited);
            self.used = self.used.saturating_add(fresh);
        }
        self.last = now;
        Duration::from_millis(self.used.saturating_mul(1_000) / self.ticks_a_second)
    }

    /// What those had used who are gone, by who is left to wait for them: it was counted when it was
    /// seen.
    fn gone(&self, now: &BTreeMap<u32, Stat>) -> BTreeMap<u32, u64> {
        let stays = |pid: u32, stat: &Stat| now.get(&pid).is_some_and(|now| is_same(now, stat));
        let mut gone = BTreeMap::new();
        for (_, stat) in self.last.iter().filter(|(pid, stat)| !stays(**pid, stat)) {
            let mut heir = stat.parent;
            // Bounded, though no tree has a circle: numbers can have passed on to others.
            for _ in 0..self.last.len() {
                match self.last.get(&heir) {
                    Some(parent) if !stays(heir, parent) => heir = parent.parent,
                    Some(_) | None => break,
                }
            }
            *gone.entry(heir).or_insert(0) += stat.own + stat.waited;
        }
        gone
    }
}

/// Whether a number still is the same process.
const fn is_same(one: &Stat, other: &Stat) -> bool {
    one.start_time == other.start_time
}

#[cfg(test)]
mod tests {
    use super::*;

    const INIT: u32 = 1;

    /// A process: its number, its parent, what it used and what those it waited for did.
    const fn one(pid: u32, parent: u32, own: u64, waited: u64) -> (u32, Stat) {
        let stat = Stat {
            parent,
            threads: 1,
            own,
            waited,
            start_time: 7,
            pages: 0,
        };
        (pid, stat)
    }

    fn ticks(count: u64) -> Duration {
        let second = rustix::param::clock_ticks_per_second().max(1);
        Duration::from_millis(count * 1_000 / second)
    }

    #[test]
    fn what_was_seen_is_counted_once_whoever_waits() {
        for (case, looks, used) in [
            (
                "what init used before is not this command's",
                vec![vec![one(INIT, 0, 100, 900)], vec![one(INIT, 0, 101, 900)]],
                1,
            ),
            (
                "a child",
                vec![
                    vec![one(INIT, 0, 0, 0), one(2, INIT, 5, 0)],
                    vec![one(INIT, 0, 0, 0), one(2, INIT, 9, 0)],
                ],
                9,
            ),
            (
                "a child that is waited for",
                vec![
                    vec![one(INIT, 0, 0, 0), one(2, INIT, 5, 0)],
                    vec![one(INIT, 0, 0, 8)],
                ],
                8,
            ),
            (
                "children nobody waits for, one after the other",
                vec![
                    vec![one(INIT, 0, 0, 0), one(2, INIT, 1, 0), one(3, 2, 50, 0)],
                    vec![one(INIT, 0, 0, 0), one(2, INIT, 1, 0), one(4, 2, 50, 0)],
                    vec![one(INIT, 0, 0, 0), one(2, INIT, 1, 0), one(5, 2, 50, 0)],
                ],
                151,
            ),
            (
                "a number that passed on to another",
                vec![
                    vec![one(INIT, 0, 0, 0), one(2, INIT, 50, 0)],
                    vec![
                        one(INIT, 0, 0, 50),
                        (
                            2,
                            Stat {
                                start_time: 8,
                                ..one(2, INIT, 3, 0).1
                            },
                        ),
                    ],
                ],
                53,
            ),
            (
                "a whole branch ends and each waited for the next",
                vec![
                    vec![one(INIT, 0, 0, 0), one(2, INIT, 10, 0), one(3, 2, 20, 0)],
                    vec![one(INIT, 0, 0, 34)],
                ],
                34,
            ),
            (
                "one that was waited for and one that was not",
                vec![
                    vec![
                        one(INIT, 0, 0, 0),
                        one(2, INIT, 0, 0),
                        one(3, INIT, 0, 0),
                        one(4, 2, 10, 0),
                        one(5, 3, 10, 0),
                    ],
                    vec![one(INIT, 0, 0, 0), one(2, INIT, 0, 0), one(3, INIT, 0, 14)],
                ],
                24,
            ),
        ] {
            let mut meter = Meter::new();
            let mut counted = Duration::ZERO;
            for look in looks {
                counted = meter.count(look.into_iter());
            }
            assert_eq!(counted, ticks(used), "{case}");
        }
    }

    #[test]
    fn parents_in_a_circle_are_no_endless_loop() {
        let mut meter = Meter::new();
        let circle = [one(INIT, 0, 0, 0), one(2, 3, 1, 0), one(3, 2, 1, 0)];
        meter.count(circle.into_iter());
        assert_eq!(meter.count([one(INIT, 0, 0, 0)].into_iter()), ticks(2));
    }
}
