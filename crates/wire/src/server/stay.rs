//! A thread that stays with a connection for a while: it answers a request where it was read, and
//! waits there for the next.
//!
//! Handing a request to another thread, or the connection to another listener, wakes somebody, which
//! costs more than most calls do. Requests that come one after the other are answered by one thread,
//! which wakes nobody but whoever asked.
//!
//! Guarantee: a call that takes long holds up nothing else on its connection. Somebody looks after
//! the thread meanwhile ([`relieve`]), and takes the listening from it within two [`TICK`]s.

use super::Handler;
use super::connection::{Begun, Listening, Ran};
use rustix::event::Timespec;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::runtime::Handle;

/// How often somebody looks after a thread that stays.
const TICK: Duration = Duration::from_millis(5);
/// How long a thread waits for another request before it leaves.
const LINGER: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 5_000_000,
};

/// Who has the listening.
enum Held<H: Handler> {
    /// Nobody: the thread that stays runs its call of that number.
    Free(u64, Box<Listening<H>>),
    /// The thread, which waits for a request.
    Thread,
    /// Somebody else. The thread has left, or was relieved.
    Elsewhere,
}

/// What a thread that stays and whoever looks after it share.
struct Post<H: Handler>(Mutex<Held<H>>);

/// What whoever looks after a thread finds.
enum Found<H: Handler> {
    /// It runs its call of that number.
    Running(u64),
    Waiting,
    /// It has left.
    Nobody,
    /// It has run the same call for too long.
    Stuck(Box<Listening<H>>),
}

impl<H: Handler> Post<H> {
    fn lock(&self) -> MutexGuard<'_, Held<H>> {
        // Nothing is left half done under this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread begins its call of that number.
    fn leave_free(&self, number: u64, listening: Box<Listening<H>>) {
        *self.lock() = Held::Free(number, listening);
    }

    /// The thread goes on listening, if nobody else does.
    fn take_back(&self) -> Option<Box<Listening<H>>> {
        let mut held = self.lock();
        match std::mem::replace(&mut *held, Held::Thread) {
            Held::Free(_, listening) => Some(listening),
            Held::Thread | Held::Elsewhere => {
                *held = Held::Elsewhere;
                None
            }
        }
    }

    /// Looks, having seen the call of that number before.
    fn look(&self, seen: Option<u64>) -> Found<H> {
        let mut held = self.lock();
        match std::mem::replace(&mut *held, Held::Elsewhere) {
            Held::Free(number, listening) if seen == Some(number) => Found::Stuck(listening),
            Held::Free(number, listening) => {
                *held = Held::Free(number, listening);
                Found::Running(number)
            }
            Held::Thread => {
                *held = Held::Thread;
                Found::Waiting
            }
            Held::Elsewhere => Found::Nobody,
        }
    }
}

/// The thread leaves, whatever the reason: nobody needs to look after it.
struct Leaving<'a, H: Handler>(&'a Post<H>);

impl<H: Handler> Drop for Leaving<'_, H> {
    fn drop(&mut self) {
        if let Some(listening) = self.0.take_back() {
            tokio::spawn(listening.go_on());
        }
        *self.0.lock() = Held::Elsewhere;
    }
}

/// Runs `begun`, and what comes after it, on this thread, which may block. Gives back what is left to
/// write of the last answer.
pub(super) fn stay<H: Handler>(listening: Listening<H>, mut begun: Begun) -> Option<(Begun, Ran)> {
    let (inner, connection) = (
        Arc::clone(&listening.inner),
        Arc::clone(&listening.connection),
    );
    if !may_stay(&listening, &begun) {
        return Some(run_relieved(listening, begun));
    }
    let post = Arc::new(Post(Mutex::new(Held::Thread)));
    let leaving = Leaving(&post);
    tokio::spawn(relieve(Arc::clone(&post)));
    let mut listening = Box::new(listening);
    for number in 0.. {
        post.leave_free(number, listening);
        let ran = begun.run(&inner, &connection);
        if !matches!(ran, Ok(None)) {
            return Some((begun, ran));
        }
        begun.finished(&connection);
        listening = post.take_back()?;
        begun = match next(&mut listening) {
            Ok(Some(begun)) if may_stay(&listening, &begun) => begun,
            Ok(Some(begun)) => {
                drop(leaving);
                return Some(run_relieved(*listening, begun));
            }
            Ok(None) => {
                drop(leaving);
                tokio::spawn(listening.go_on());
                return None;
            }
            Err(end) => {
                listening.end(end);
                return None;
            }
        };
    }
    None
}

/// Whether nobody needs to listen while `begun` is run.
fn may_stay<H: Handler>(listening: &Listening<H>, begun: &Begun) -> bool {
    !listening.inlet.has_more() && !begun.lasts(&listening.inner)
}

/// Runs `begun`, while somebody else listens.
fn run_relieved<H: Handler>(listening: Listening<H>, mut begun: Begun) -> (Begun, Ran) {
    let (inner, connection) = (
        Arc::clone(&listening.inner),
        Arc::clone(&listening.connection),
    );
    tokio::spawn(listening.go_on());
    let ran = begun.run(&inner, &connection);
    (begun, ran)
}

/// The next request, if one comes soon.
fn next<H: Handler>(listening: &mut Listening<H>) -> Result<Option<Begun>, super::inlet::End> {
    if listening.is_ending() {
        return Ok(None);
    }
    match listening.inlet.frame_here(&LINGER)? {
        Some(frame) if !listening.is_ending() => Handle::current().block_on(listening.take(frame)),
        Some(_) | None => Ok(None),
    }
}

/// Looks after a thread that stays, and has another listen where a call takes it long.
async fn relieve<H: Handler>(post: Arc<Post<H>>) {
    let mut seen = None;
    loop {
        tokio::time::sleep(TICK).await;
        seen = match post.look(seen) {
            Found::Running(number) => Some(number),
            Found::Waiting => None,
            Found::Nobody => return,
            Found::Stuck(listening) => {
                tokio::spawn(listening.go_on());
                return;
            }
        };
    }
}
