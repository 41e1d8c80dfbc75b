//! Whose turn it is: calls run at once unless one changes what another touches.
//!
//! Each call states what it touches when it arrives, and waits until nothing before it is in its
//! way. So calls that meet run in order of arrival, and no call holds one thing while it waits for
//! another: nobody can wait in a circle.
//!
//! A call that comes out of a command which another call runs is part of that one, whose turn it is
//! already: it waits for others out of the same command alone. Whoever arrived meanwhile and is in
//! the way waits for the command, and so for it.
//!
//! A call that waits and is taken back gives up its place at once. While it waits it has stepped aside
//! ([`crate::cancel::step_aside`]): whoever serves many callers runs those of others meanwhile.
//!
//! A call whose answer is for what its stage holds takes its turn before the answer is looked for:
//! nobody changes the stage between the two.
//!
//! Non-guarantee: other processes are not asked. A stage has a lock of its own against those.

use crate::cancel::{self, LOOK};
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// What is done to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

/// What one call touches in one stage. A path stands for everything beneath it; `.` for all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Touches {
    pub(crate) stage: String,
    pub(crate) paths: Vec<(String, Access)>,
    /// Whether it needs the stage's sandbox, which runs one thing at a time.
    pub(crate) runs: bool,
}

impl Touches {
    /// All of a stage.
    pub(crate) fn whole(stage: &str) -> Self {
        Self {
            stage: stage.to_owned(),
            paths: vec![(".".to_owned(), Access::Write)],
            runs: true,
        }
    }

    fn meets(&self, other: &Self) -> bool {
        if self.stage != other.stage {
            return false;
        }
        let meet = |(one, does): &(String, Access), (another, other_does): &(String, Access)| {
            (*does == Access::Write || *other_does == Access::Write) && overlap(one, another)
        };
        (self.runs && other.runs)
            || self
                .paths
                .iter()
                .any(|one| other.paths.iter().any(|another| meet(one, another)))
    }
}

/// Whether one path is the other, or lies beneath it.
fn overlap(one: &str, other: &str) -> bool {
    let within = |inner: &str, outer: &str| {
        outer == "."
            || inner
                .strip_prefix(outer)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    within(one, other) || within(other, one)
}

/// Everybody who has arrived and not gone yet.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    arrived: Mutex<Arrived>,
    gone: Condvar,
}

#[derive(Debug, Default)]
struct Arrived {
    next: u64,
    calls: BTreeMap<u64, Here>,
}

#[derive(Debug)]
struct Here {
    touches: Touches,
    /// The place of the call it is part of.
    within: Option<u64>,
}

impl Here {
    /// Whether it must be gone before `later` may go on.
    fn is_before(&self, later: &Self) -> bool {
        let counts = later.within.is_none() || self.within == later.within;
        counts && self.touches.meets(&later.touches)
    }
}

impl Turns {
    /// Takes a place in the order of arrival; as part of the call with the place `within`, if it is
    /// part of one.
    pub(crate) fn arrive(self: &Arc<Self>, touches: Touches, within: Option<u64>) -> Turn {
        let mut arrived = self.lock();
        let place = arrived.next;
        arrived.next += 1;
        arrived.calls.insert(place, Here { touches, within });
        Turn {
            turns: Arc::clone(self),
            place,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Arrived> {
        // Nothing is left half done under this lock.
        self.arrived.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why a call does not get its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoTurn {
    /// Whoever made it took it back.
    #[error("the call was cancelled while it waited for its turn")]
    TakenBack,
    /// More calls wait than whoever serves them has room for.
    #[error("others use what it touches, and too many calls wait for their turn already")]
    Crowded,
}

/// One call's place, until it is dropped.
#[derive(Debug)]
#[must_use = "a call that gave up its place may meet another"]
pub(crate) struct Turn {
    turns: Arc<Turns>,
    place: u64,
}

impl Turn {
    /// Which place it is.
    pub(crate) const fn place(&self) -> u64 {
        self.place
    }

    /// Whether nobody before this call is in its way.
    pub(crate) fn has_come(&self) -> bool {
        !self.is_blocked(&self.turns.lock())
    }

    /// Waits until nobody before this call is in its way. Says whether somebody was.
    pub(crate) fn wait(&self) -> Result<bool, NoTurn> {
        if self.has_come() {
            return Ok(false);
        }
        // Given up last, outside the lock: coming back may take a while.
        let _aside = cancel::step_aside().ok_or(NoTurn::Crowded)?;
        let mut arrived = self.turns.lock();
        while self.is_blocked(&arrived) {
            if cancel::is_set() {
                return Err(NoTurn::TakenBack);
            }
            let gone = &self.turns.gone;
            let woken = gone.wait_timeout(arrived, LOOK);
            (arrived, _) = woken.unwrap_or_else(PoisonError::into_inner);
        }
        Ok(true)
    }

    fn is_blocked(&self, arrived: &Arrived) -> bool {
        let Some(own) = arrived.calls.get(&self.place) else {
            return false;
        };
        let mut before = arrived.calls.range(..self.place);
        before.any(|(_, earlier)| earlier.is_before(own))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.turns.lock().calls.remove(&self.place);
        self.turns.gone.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;
    use std::time::Duration;

    fn touches(paths: &[(&str, Access)]) -> Touches {
        Touches {
            stage: "s".to_owned(),
            paths: paths
                .iter()
                .map(|(path, does)| ((*path).to_owned(), *does))
                .collect(),
            runs: false,
        }
    }

    #[test]
    fn only_a_change_to_what_another_touches_is_in_the_way() {
        use Access::{Read, Write};
        for (one, other, want) in [
            (("a", Read), ("a", Read), false),
            (("a", Write), ("a", Read), true),
            (("a", Read), ("a", Write), true),
            (("a", Write), ("b", Write), false),
            (("a", Write), ("a/b", Read), true),
            (("a/b", Write), ("a", Read), true),
            (("a", Write), ("ab", Write), false),
            ((".", Write), ("a", Read), true),
            ((".", Read), ("a", Write), true),
            ((".", Read), (".", Read), false),
        ] {
            assert_eq!(
                touches(&[one]).meets(&touches(&[other])),
                want,
                "{one:?} {other:?}"
            );
        }
        let elsewhere = Touches {
            stage: "t".to_owned(),
            ..touches(&[("a", Write)])
        };
        assert!(!elsewhere.meets(&touches(&[("a", Write)])));
        let run = |paths: &[(&str, Access)]| Touches {
            runs: true,
            ..touches(paths)
        };
        assert!(run(&[("a", Write)]).meets(&run(&[("b", Write)])));
        // Who has a stage to itself meets everybody in it, and nobody elsewhere.
        for one in [touches(&[("a", Read)]), touches(&[]), run(&[("a", Write)])] {
            let met = !one.paths.is_empty();
            assert_eq!(Touches::whole("s").meets(&one), met, "{one:?}");
            assert!(!Touches::whole("t").meets(&one), "{one:?}");
        }
        assert!(Touches::whole("s").meets(&Touches::whole("s")));
        assert!(!run(&[("a", Write)]).meets(&touches(&[("b", Read)])));
    }

    #[test]
    fn calls_that_meet_run_in_order_of_arrival_and_others_at_once() {
        let turns = Arc::new(Turns::default());
        let first = turns.arrive(touches(&[("a", Access::Write)]), None);
        assert_eq!(first.wait(), Ok(false));
        let apart = turns.arrive(touches(&[("b", Access::Write)]), None);
        assert_eq!(apart.wait(), Ok(false));
        let (told, order) = mpsc::channel();
        let later: Vec<Turn> = (0..8)
            .map(|n| {
                let does = if n % 2 == 0 {
                    Access::Write
                } else {
                    Access::Read
                };
                turns.arrive(touches(&[("a/x", does)]), None)
            })
            .collect();
        let threads: Vec<_> = later
            .into_iter()
            .enumerate()
            .rev()
            .map(|(n, turn)| {
                let told = told.clone();
                std::thread::spawn(move || {
                    assert_eq!(turn.wait(), Ok(true));
                    told.send(n).unwrap();
                })
            })
            .collect();
        assert!(
            order.recv_timeout(Duration::from_millis(50)).is_err(),
            "nobody runs yet"
        );
        drop(first);
        for thread in threads {
            thread.join().unwrap();
        }
        drop(told);
        let order: Vec<usize> = order.iter().collect();
        assert_eq!(order, [0, 1, 2, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn what_is_part_of_a_call_waits_for_its_like_and_for_nobody_who_waits_for_the_call() {
        let turns = Arc::new(Turns::default());
        let all = Touches {
            runs: true,
            ..touches(&[(".", Access::Write)])
        };
        let command = turns.arrive(all.clone(), None);
        assert_eq!(command.wait(), Ok(false));
        let other = turns.arrive(touches(&[("a", Access::Write)]), None);
        let part = |does| turns.arrive(touches(&[("a", does)]), Some(command.place()));
        let blocked = |turn: &Turn| turn.is_blocked(&turns.lock());
        let first = part(Access::Write);
        assert!(!blocked(&first), "neither the command nor who waits for it");
        let second = part(Access::Read);
        assert!(blocked(&second), "its like, which writes what it reads");
        let elsewhere = turns.arrive(touches(&[("a", Access::Read)]), Some(other.place()));
        assert!(!blocked(&elsewhere), "parts of another call");
        drop(first);
        assert!(!blocked(&second));
        assert!(blocked(&other), "the command is not over");
        drop(command);
        assert!(!blocked(&other));
    }

    #[test]
    fn a_call_that_is_taken_back_waits_no_longer_and_is_in_nobodys_way() {
        let turns = Arc::new(Turns::default());
        let first = turns.arrive(touches(&[("a", Access::Write)]), None);
        let waiting = turns.arrive(touches(&[("a", Access::Write)]), None);
        let last = turns.arrive(touches(&[("a", Access::Write)]), None);
        let cancel = cancel::Cancel::new();
        let taken = cancel.clone();
        let thread = std::thread::spawn(move || taken.cover(|| waiting.wait()));
        std::thread::sleep(2 * LOOK);
        cancel.cancel();
        assert_eq!(thread.join().unwrap(), Err(NoTurn::TakenBack));
        drop(first);
        assert_eq!(last.wait(), Ok(false));
    }

    #[test]
    fn whoever_waits_has_stepped_aside_and_where_there_is_no_room_nobody_waits() {
        /// Room for so many, and how many went and came back.
        struct Room(AtomicUsize, AtomicUsize);
        impl cancel::Aside for Room {
            fn leave(&self) -> bool {
                let most = self.0.load(Ordering::SeqCst);
                most > 0 && self.0.swap(most - 1, Ordering::SeqCst) > 0
            }
            fn come_back(&self) {
                self.1.fetch_add(1, Ordering::SeqCst);
            }
        }
        let turns = Arc::new(Turns::default());
        let room = Arc::new(Room(AtomicUsize::new(1), AtomicUsize::new(0)));
        let cover =
            || cancel::Cancel::new().stepping_aside(Arc::clone(&room) as Arc<dyn cancel::Aside>);
        let first = turns.arrive(touches(&[("a", Access::Write)]), None);
        assert_eq!(cover().cover(|| first.wait()), Ok(false));
        assert_eq!(room.0.load(Ordering::SeqCst), 1, "it need not wait");
        let second = turns.arrive(touches(&[("a", Access::Write)]), None);
        let third = turns.arrive(touches(&[("a", Access::Write)]), None);
        let covered = cover();
        let thread = std::thread::spawn(move || covered.cover(|| second.wait()));
        while room.0.load(Ordering::SeqCst) > 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(cover().cover(|| third.wait()), Err(NoTurn::Crowded));
        drop(first);
        assert_eq!(thread.join().unwrap(), Ok(true));
        assert_eq!(room.1.load(Ordering::SeqCst), 1, "it came back");
    }
}
