//! What the connections of one socket have together, and may not exceed together.

use super::lock;
use crate::limits::Limits;
use crate::peer::Via;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tokio::net::unix::UCred;
use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore, watch};

/// How many requests run at once, beside all others, that wait for none of them.
const FIRST: usize = 4;

/// Who has places together: a process of the server's own user, or another user with all of theirs.
///
/// Non-guarantee: a user who starts many processes has the places of many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Party {
    Process(i32),
    User(u32),
}

impl Party {
    /// Whom the system calls `told`. Who has no number is nobody's visitor, and soon gone.
    pub(crate) fn of(told: UCred) -> Self {
        if told.uid() == rustix::process::geteuid().as_raw() {
            Self::Process(told.pid().unwrap_or_default())
        } else {
            Self::User(told.uid())
        }
    }
}

/// One socket's share of the server.
#[derive(Debug)]
pub(crate) struct Share {
    pub(crate) limits: Limits,
    pub(crate) users: Vec<u32>,
    pub(crate) via: Via,
    workers: Semaphore,
    /// Places of those that come first.
    first: Semaphore,
    closed: watch::Sender<bool>,
    connections: AtomicUsize,
    /// How many of them each has who has any.
    parties: Mutex<HashMap<Party, usize>>,
    waiting: AtomicUsize,
    long_bytes: AtomicUsize,
    left: Notify,
}

impl Share {
    pub(crate) fn new(limits: Limits, users: Vec<u32>, via: Via) -> Self {
        Self {
            limits,
            users,
            via,
            workers: Semaphore::new(limits.workers),
            first: Semaphore::new(FIRST),
            closed: watch::Sender::new(false),
            connections: AtomicUsize::new(0),
            parties: Mutex::default(),
            waiting: AtomicUsize::new(0),
            long_bytes: AtomicUsize::new(0),
            left: Notify::new(),
        }
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// A place among the connections, if one is free that `party` may have: nobody takes every place,
    /// and the last ones are for those who have few.
    pub(crate) fn enter(self: &Arc<Self>, party: Party) -> Option<Place> {
        let limits = self.limits;
        let most = match party {
            Party::Process(_) => limits.process_connections,
            Party::User(_) => limits.user_connections,
        };
        let mut parties = lock(&self.parties);
        let has = parties.get(&party).copied().unwrap_or_default();
        let kept = if has < Limits::FEW {
            0
        } else {
            limits.spare_connections
        };
        let open = limits.connections.saturating_sub(kept);
        if has >= most || !take(&self.connections, 1, open) {
            return None;
        }
        parties.insert(party, has + 1);
        Some(Place {
            share: Arc::clone(self),
            party,
        })
    }

    /// Room for a frame of `bytes`. A short one always has it.
    pub(crate) fn reserve(self: &Arc<Self>, bytes: usize) -> Option<Reservation> {
        let share = Arc::clone(self);
        if bytes <= Limits::SHORT {
            return Some(Reservation { share, bytes: 0 });
        }
        take(&self.long_bytes, bytes, self.limits.long_bytes).then(|| Reservation { share, bytes })
    }

    /// The places of requests that run; those that come first have their own.
    pub(crate) const fn workers(&self, first: bool) -> &Semaphore {
        if first { &self.first } else { &self.workers }
    }

    /// A request that runs only waits for others from now on, and another may run; false if too many
    /// do. [`Share::come_back`] ends it.
    pub(crate) fn leave(&self) -> bool {
        let room = take(&self.waiting, 1, self.limits.waiting);
        if room {
            self.workers.add_permits(1);
        }
        room
    }

    /// A request that waited goes on, once fewer run than may. Blocks this thread, on `runtime`.
    pub(crate) fn come_back(&self, runtime: &Handle) {
        // Whoever holds the place meanwhile runs, and waits for nobody here.
        if let Ok(place) = runtime.block_on(self.workers.acquire()) {
            place.forget();
        }
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }

    /// Ends every connection.
    pub(crate) fn close(&self) {
        self.closed.send_replace(true);
    }

    /// Whether every connection is to end.
    pub(crate) fn is_closed(&self) -> bool {
        *self.closed.borrow()
    }

    /// Waits until the socket is closed from our side.
    pub(crate) async fn closing(&self) {
        let mut closed = self.closed.subscribe();
        // The sender is `self`'s own: it outlives this.
        let _ = closed.wait_for(|closed| *closed).await;
    }

    /// Waits until nobody is connected.
    pub(crate) async fn emptied(&self) {
        loop {
            let left = self.left.notified();
            if self.connections() == 0 {
                return;
            }
            left.await;
        }
    }
}

/// Adds `more` to `count` unless it would be over `most`.
fn take(count: &AtomicUsize, more: usize, most: usize) -> bool {
    count
        .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |now| {
            now.checked_add(more).filter(|then| *then <= most)
        })
        .is_ok()
}

/// A connection's place, until it and everything it began are gone.
#[derive(Debug)]
pub(crate) struct Place {
    share: Arc<Share>,
    party: Party,
}

impl Place {
    pub(crate) const fn share(&self) -> &Arc<Share> {
        &self.share
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Entry::Occupied(mut has) = lock(&self.share.parties).entry(self.party) {
            *has.get_mut() -= 1;
            if *has.get() == 0 {
                has.remove();
            }
        }
        self.share.connections.fetch_sub(1, Ordering::SeqCst);
        self.share.left.notify_waiters();
    }
}

/// Bytes of a long frame, counted until its request is done.
#[derive(Debug)]
pub(crate) struct Reservation {
    share: Arc<Share>,
    bytes: usize,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.share
            .long_bytes
            .fetch_sub(self.bytes, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_and_bytes_are_bounded_and_come_back() {
        let limits = Limits {
            connections: 1,
            long_bytes: 100 * 1024,
            ..Limits::SANDBOX
        };
        let share = Arc::new(Share::new(limits, Vec::new(), Via::Main));
        let party = Party::Process(7);
        let place = share.enter(party);
        assert!(place.is_some() && share.enter(party).is_none());
        drop(place);
        assert!(share.enter(party).is_some());
        let held = share.reserve(90 * 1024);
        assert!(held.is_some() && share.reserve(90 * 1024).is_none());
        assert!(share.reserve(Limits::SHORT).is_some(), "short ones pass");
        drop(held);
        assert!(share.reserve(90 * 1024).is_some());
    }

    /// As many places as `party` gets.
    fn all(share: &Arc<Share>, party: Party) -> Vec<Place> {
        std::iter::from_fn(|| share.enter(party)).collect()
    }

    #[test]
    fn nobody_takes_every_place() {
        let share = Arc::new(Share::new(Limits::MAIN, Vec::new(), Via::Main));
        let (one, two) = (Party::Process(1), Party::Process(2));
        let greedy = all(&share, one);
        assert_eq!(greedy.len(), 256, "half of them, for one process");
        let stranger = all(&share, Party::User(9));
        assert_eq!(stranger.len(), 32, "whatever number its processes have");
        let second = all(&share, two);
        assert_eq!(second.len(), 160, "and the last ones are kept");
        assert!(share.enter(Party::User(9)).is_none());
        // Whoever has few still gets some, of any user: a supervisor, a command.
        for newcomer in [Party::Process(3), Party::User(10)] {
            assert_eq!(all(&share, newcomer).len(), Limits::FEW);
        }
        drop(greedy);
        assert_eq!(all(&share, two).len(), 256 - 160);
        drop((stranger, second));
        assert_eq!(share.connections(), 0);
        assert!(lock(&share.parties).is_empty(), "nobody is remembered");
    }

    #[test]
    fn a_sandbox_has_all_the_places_of_its_socket() {
        let share = Arc::new(Share::new(Limits::SANDBOX, Vec::new(), Via::Main));
        for party in [Party::Process(1), Party::User(9)] {
            assert_eq!(all(&share, party).len(), 8);
        }
    }

    #[test]
    fn whoever_waits_leaves_its_place_to_another_and_takes_it_again() {
        let limits = Limits {
            workers: 1,
            waiting: 1,
            ..Limits::SANDBOX
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let share = Share::new(limits, Vec::new(), Via::Main);
        let running = share.workers.try_acquire().unwrap();
        assert!(share.workers.try_acquire().is_err());
        assert!(share.leave());
        let other = share.workers.try_acquire().unwrap();
        assert!(!share.leave(), "as many wait as may");
        drop(other);
        share.come_back(runtime.handle());
        assert!(share.workers.try_acquire().is_err(), "the place is taken");
        drop(running);
        assert_eq!(share.workers.available_permits(), 1);
        assert!(share.workers.try_acquire().is_ok() && share.leave());
    }
}
