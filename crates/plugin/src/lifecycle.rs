//! Where one instance of a plugin stands.
//!
//! Guarantee: only the transitions of [`State::may_become`] happen; of any number of threads that
//! want one, exactly one gets it, and every other is told where the plugin stands instead. A refused
//! transition changes nothing. Non-guarantee: nothing is started or stopped here.
//!
//! Invariant: a final state is never left; what runs again is a new instance with a life of its own.

use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};

/// A state of a plugin's instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum State {
    /// Its files were found.
    Discovered,
    /// What was found is being checked.
    Validating,
    /// It is being started.
    Loading,
    /// It takes calls.
    Running,
    /// It ends the calls it has and gets no new ones.
    Draining,
    /// It is being ended.
    Stopping,
    /// It ended as it should.
    Stopped,
    /// It ended as it should not.
    Error,
}

impl State {
    /// Every state, in the order of a life.
    pub const ALL: &'static [Self] = &[
        Self::Discovered,
        Self::Validating,
        Self::Loading,
        Self::Running,
        Self::Draining,
        Self::Stopping,
        Self::Stopped,
        Self::Error,
    ];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Discovered => "discovered",
            Self::Validating => "validating",
            Self::Loading => "loading",
            Self::Running => "running",
            Self::Draining => "draining",
            Self::Stopping => "stopping",
            Self::Stopped => "stopped",
            Self::Error => "error",
        }
    }

    /// The one state that regularly follows.
    const fn next(self) -> Option<Self> {
        match self {
            Self::Discovered => Some(Self::Validating),
            Self::Validating => Some(Self::Loading),
            Self::Loading => Some(Self::Running),
            Self::Running => Some(Self::Draining),
            Self::Draining => Some(Self::Stopping),
            Self::Stopping => Some(Self::Stopped),
            Self::Stopped | Self::Error => None,
        }
    }

    /// Whether `to` may follow.
    pub fn may_become(self, to: Self) -> bool {
        let fails = match self {
            Self::Validating | Self::Loading | Self::Running | Self::Draining | Self::Stopping => {
                to == Self::Error
            }
            Self::Discovered | Self::Stopped | Self::Error => false,
        };
        fails || self.next() == Some(to)
    }

    /// Whether nothing follows.
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Stopped | Self::Error)
    }

    fn of(number: u8) -> Self {
        // Only numbers of states are ever stored; any other would be the end of it.
        let found = Self::ALL.get(usize::from(number));
        found.copied().unwrap_or(Self::Error)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A transition there is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a plugin that is {from} cannot become {to}")]
pub struct Refused {
    /// Where it stands.
    pub from: State,
    /// What was wanted.
    pub to: State,
}

/// The life of one instance.
#[derive(Debug)]
pub struct Lifecycle(AtomicU8);

impl Default for Lifecycle {
    fn default() -> Self {
        Self::new()
    }
}

impl Lifecycle {
    /// A life that begins.
    pub const fn new() -> Self {
        Self(AtomicU8::new(State::Discovered as u8))
    }

    /// Where it stands.
    pub fn state(&self) -> State {
        State::of(self.0.load(Ordering::Acquire))
    }

    /// Goes to `to`, from wherever it stands when that becomes true.
    pub fn advance(&self, to: State) -> Result<(), Refused> {
        let mut seen = self.0.load(Ordering::Acquire);
        loop {
            let wanted = step(seen, to)?;
            match self
                .0
                .compare_exchange(seen, wanted, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return Ok(()),
                Err(now) => seen = now,
            }
        }
    }
}

/// What to store for `to`, if it may follow what was `seen`.
fn step(seen: u8, to: State) -> Result<u8, Refused> {
    let from = State::of(seen);
    if from.may_become(to) {
        Ok(to as u8)
    } else {
        Err(Refused { from, to })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use State::{Discovered, Draining, Error, Loading, Running, Stopped, Stopping, Validating};
    use std::sync::Barrier;
    use std::sync::atomic::AtomicUsize;

    const LEGAL: &[(State, State)] = &[
        (Discovered, Validating),
        (Validating, Loading),
        (Loading, Running),
        (Running, Draining),
        (Draining, Stopping),
        (Stopping, Stopped),
        (Validating, Error),
        (Loading, Error),
        (Running, Error),
        (Draining, Error),
        (Stopping, Error),
    ];

    fn at(state: State) -> Lifecycle {
        Lifecycle(AtomicU8::new(state as u8))
    }

    #[test]
    fn exactly_the_listed_transitions_happen_and_a_refusal_changes_nothing() {
        for &from in State::ALL {
            for &to in State::ALL {
                let life = at(from);
                let legal = LEGAL.contains(&(from, to));
                let want = if legal {
                    Ok(())
                } else {
                    Err(Refused { from, to })
                };
                assert_eq!(life.advance(to), want);
                assert_eq!(life.state(), if legal { to } else { from });
            }
            let dead_end = LEGAL.iter().all(|(start, _)| *start != from);
            assert_eq!(from.is_final(), dead_end, "{from}");
        }
        assert_eq!(Lifecycle::new().state(), Discovered);
    }

    #[test]
    fn of_a_hundred_racing_threads_exactly_one_wins_each_transition() {
        for (from, to) in LEGAL {
            let (life, won) = (at(*from), AtomicUsize::new(0));
            let barrier = Barrier::new(100);
            std::thread::scope(|scope| {
                for _ in 0..100 {
                    scope.spawn(|| {
                        barrier.wait();
                        if life.advance(*to).is_ok() {
                            won.fetch_add(1, Ordering::Relaxed);
                        }
                    });
                }
            });
            assert_eq!(won.into_inner(), 1, "{from} to {to}");
            assert_eq!(life.state(), *to);
        }
    }

    /// One thread in `advance`, between its atomic accesses.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
    enum Thread {
        Fresh,
        Saw(u8),
        Won(State),
        Lost,
    }

    /// Runs every interleaving of the atomic accesses of threads that want `wanted`, and hands each
    /// way it can end to `judge`, with the states passed through.
    fn explore(
        state: u8,
        threads: &[(Thread, State)],
        passed: &mut Vec<u8>,
        judge: &mut impl FnMut(&[(Thread, State)], &[u8]),
    ) {
        let mut moved = false;
        for index in 0..threads.len() {
            let (thread, to) = threads[index];
            let (next, stored) = match thread {
                Thread::Fresh => (Thread::Saw(state), None),
                Thread::Saw(seen) => match step(seen, to) {
                    Err(_) => (Thread::Lost, None),
                    Ok(wanted) if seen == state => (Thread::Won(to), Some(wanted)),
                    Ok(_) => (Thread::Saw(state), None),
                },
                Thread::Won(_) | Thread::Lost => continue,
            };
            moved = true;
            let mut after = threads.to_vec();
            after[index].0 = next;
            passed.extend(stored);
            explore(stored.unwrap_or(state), &after, passed, judge);
            passed.truncate(passed.len() - usize::from(stored.is_some()));
        }
        if !moved {
            judge(threads, passed);
        }
    }

    #[test]
    fn in_every_interleaving_each_transition_is_won_once_and_follows_the_table() {
        for &start in State::ALL {
            for &one in State::ALL {
                for &other in State::ALL {
                    let threads = [one, one, other].map(|to| (Thread::Fresh, to));
                    let mut ways = 0;
                    explore(
                        start as u8,
                        &threads,
                        &mut vec![start as u8],
                        &mut |ended, passed| {
                            ways += 1;
                            for pair in passed.windows(2) {
                                let (from, to) = (State::of(pair[0]), State::of(pair[1]));
                                assert!(LEGAL.contains(&(from, to)), "{from} to {to}");
                            }
                            let won = ended
                                .iter()
                                .filter(|(end, _)| matches!(end, Thread::Won(_)));
                            assert_eq!(won.count(), passed.len() - 1, "{ended:?}");
                            let twice =
                                |to| ended.iter().filter(move |(end, _)| *end == Thread::Won(to));
                            assert!(twice(one).count() <= 1 && twice(other).count() <= 1);
                        },
                    );
                    assert!(ways >= 90, "{ways}: too few to be every interleaving");
                }
            }
        }
    }
}
