//! Places for connections: some for strangers, some for clients that have shown the token.
//!
//! Guarantee: whoever does not show the token takes no place from those who do. When the strangers'
//! places are taken, the oldest of them is closed for the one that comes; a client is never closed
//! for anybody. Both kinds are bounded.
//! Non-guarantee: a client counts as a stranger until its first request is there, so one that takes
//! its time with it may have to connect again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// Connections that have not shown the token, the oldest first, each with what closes it.
#[derive(Default)]
struct Strangers {
    here: BTreeMap<u64, CancellationToken>,
    next: u64,
}

pub(super) struct Places {
    /// For strangers, and for those among them who showed the token and wait for a client's place.
    outside: Arc<Semaphore>,
    /// For clients.
    inside: Arc<Semaphore>,
    strangers: Mutex<Strangers>,
}

impl Places {
    pub(super) fn new(strangers: usize, clients: usize) -> Arc<Self> {
        Arc::new(Self {
            outside: Arc::new(Semaphore::new(strangers)),
            inside: Arc::new(Semaphore::new(clients)),
            strangers: Mutex::default(),
        })
    }

    /// A place for a connection that was just made; the oldest stranger's, where there is no other.
    /// One at a time: whoever comes second might find the place taken that was made for them.
    pub(super) async fn enter(self: &Arc<Self>) -> Option<Place> {
        if self.outside.available_permits() == 0 {
            self.close_oldest();
        }
        let outside = Arc::clone(&self.outside);
        let held = outside.acquire_owned().await.ok()?;
        let closed = CancellationToken::new();
        let mut strangers = self.strangers();
        let number = strangers.next;
        strangers.next += 1;
        strangers.here.insert(number, closed.clone());
        drop(strangers);
        Some(Place {
            places: Arc::clone(self),
            number,
            closed,
            held: Mutex::new(held),
        })
    }

    fn close_oldest(&self) {
        // Held meanwhile: whoever is not among the strangers is either closed or a client.
        let mut strangers = self.strangers();
        if let Some((_, closed)) = strangers.here.pop_first() {
            closed.cancel();
        }
    }

    fn strangers(&self) -> MutexGuard<'_, Strangers> {
        self.strangers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of one connection, a stranger's until it is admitted. It comes free when this is dropped.
pub(super) struct Place {
    places: Arc<Places>,
    number: u64,
    closed: CancellationToken,
    held: Mutex<OwnedSemaphorePermit>,
}

impl Place {
    /// Makes the connection a client's, once there is room for one more; one that is a client's stays
    /// so. False if it is closed for another: nothing may come of its request.
    pub(super) async fn admit(&self) -> bool {
        let stranger = self.places.strangers().here.remove(&self.number);
        if stranger.is_none() {
            return !self.closed.is_cancelled();
        }
        let inside = Arc::clone(&self.places.inside);
        let Ok(inside) = inside.acquire_owned().await else {
            return false;
        };
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = inside;
        true
    }

    /// Waits until the connection has to end for another.
    pub(super) async fn closed(&self) {
        self.closed.cancelled().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.strangers().here.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn enter(places: &Arc<Places>) -> Place {
        places.enter().await.unwrap()
    }

    #[tokio::test]
    async fn the_oldest_stranger_goes_for_a_new_one_and_clients_stay() {
        let places = Places::new(2, 1);
        let client = enter(&places).await;
        assert!(client.admit().await);
        let (first, second) = (enter(&places).await, enter(&places).await);
        let making_room = async {
            first.closed().await;
            assert!(!first.admit().await, "it is closed already");
            drop(first);
        };
        let (third, ()) = tokio::join!(places.enter(), making_room);
        let third = third.unwrap();
        for place in [&client, &second, &third] {
            assert!(!place.closed.is_cancelled());
        }
        assert!(client.admit().await, "a client stays one");
    }

    #[tokio::test]
    async fn who_showed_the_token_waits_for_a_clients_place_and_is_not_closed_for_strangers() {
        let places = Places::new(2, 1);
        let client = enter(&places).await;
        assert!(client.admit().await);
        let (waiting, stranger) = (enter(&places).await, enter(&places).await);
        let others = async {
            let making_room = async {
                stranger.closed().await;
                drop(stranger);
            };
            let (another, ()) = tokio::join!(places.enter(), making_room);
            assert_eq!(places.inside.available_permits(), 0);
            drop(client);
            another.unwrap()
        };
        let (let_in, another) = tokio::join!(waiting.admit(), others);
        assert!(let_in);
        assert!(!waiting.closed.is_cancelled() && !another.closed.is_cancelled());
        assert_eq!(places.outside.available_permits(), 1);
    }

    #[tokio::test]
    async fn a_connection_that_ends_gives_its_place_back() {
        let places = Places::new(1, 1);
        for _ in 0..3 {
            let place = enter(&places).await;
            assert!(place.admit().await);
            drop(place);
            drop(enter(&places).await);
        }
        assert!(places.strangers().here.is_empty());
    }
}
