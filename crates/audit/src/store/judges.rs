//! Threads that look at the contents of records while one thread reads them and checks their order.
//!
//! A record's digest covers the digest of its predecessor as the record states it, so each can be
//! recomputed alone; whether what it states is true is the one thing left to check in order.
//!
//! Judges take the next batch when they are through with one, and the reader takes one itself instead of
//! waiting: so no processor has to wait for another that somebody else is busy on.
//!
//! A judge that panicked would lose its batch; the scope it runs in then panics too, so that never
//! looks like a log that holds.
//!
//! Guarantee: batches come back in the order they were handed in, and there are never more than a
//! few for each judge: memory does not grow with the log.

use crate::chain::Link;
use crate::verify::{Depth, Soundness, TOGETHER};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Scope;

/// Bytes after which a batch is full: large enough that handing it over costs nothing beside
/// hashing it, small enough to stay in a processor's cache.
const BATCH_BYTES: usize = 128 * 1024;
/// More judges than this would wait for the one reader.
const MOST: usize = 4;
/// Batches for each judge that are out at once: so many that it seldom has to be woken.
const EACH: usize = 8;

/// Records in a row, and what was found out about them.
#[derive(Debug, Default)]
pub(super) struct Batch {
    bytes: Vec<u8>,
    rows: Vec<Row>,
}

#[derive(Debug, Clone, Copy)]
struct Row {
    seq: u64,
    end: usize,
    /// Its place, once a judge found that there is nothing else to look at.
    link: Option<Link>,
}

impl Batch {
    /// Adds the record stored under `seq`.
    pub(super) fn push(&mut self, seq: u64, stored: &[u8]) {
        self.bytes.extend_from_slice(stored);
        self.rows.push(Row {
            seq,
            end: self.bytes.len(),
            link: None,
        });
    }

    pub(super) const fn is_full(&self) -> bool {
        self.bytes.len() >= BATCH_BYTES
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Number, stored form and link of each record, in order.
    pub(super) fn records(&self) -> impl Iterator<Item = (u64, &[u8], Option<Link>)> {
        let mut start = 0;
        self.rows.iter().map(move |row| {
            let stored = self.bytes.get(start..row.end).unwrap_or_default();
            start = row.end;
            (row.seq, stored, row.link)
        })
    }

    /// Looks at several records together, which takes less time than one by one.
    fn judge(&mut self, soundness: &mut Soundness) {
        let mut start = 0;
        for some in self.rows.chunks_mut(TOGETHER) {
            let mut ends = some.iter().map(|row| row.end);
            let stored = [(); TOGETHER].map(|()| {
                let end = ends.next().unwrap_or(start);
                let stored = self.bytes.get(start..end).unwrap_or_default();
                start = end;
                stored
            });
            let links = soundness.links(stored);
            for (row, link) in some.iter_mut().zip(links) {
                row.link = link;
            }
        }
    }

    fn cleared(mut self) -> Self {
        self.bytes.clear();
        self.rows.clear();
        self
    }
}

/// What the reader and the judges share.
#[derive(Debug, Default)]
struct Desk {
    state: Mutex<State>,
    work: Condvar,
    judged: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Handed in and with nobody yet, with the numbers of their places in `out`.
    waiting: VecDeque<(usize, Batch)>,
    /// Places of all that are out, the oldest first, and what was judged of them.
    out: VecDeque<Option<Batch>>,
    /// The number of the first of these places.
    first: usize,
    /// Judges that wait for work.
    asleep: usize,
    /// Nothing more will be handed in.
    closed: bool,
    /// A judge is gone with its batch.
    lost: bool,
}

impl State {
    fn put_back(&mut self, number: usize, batch: Batch) {
        if let Some(place) = self.out.get_mut(number - self.first) {
            *place = Some(batch);
        }
    }
}

impl Desk {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One judge's work, until nothing more will come.
    fn serve(&self, depth: Depth) {
        let _presence = Presence(self);
        let mut soundness = Soundness::new(depth);
        let mut state = self.lock();
        loop {
            if let Some((number, mut batch)) = state.waiting.pop_front() {
                drop(state);
                batch.judge(&mut soundness);
                state = self.lock();
                state.put_back(number, batch);
                // The reader waits for the oldest alone.
                if number == state.first {
                    self.judged.notify_one();
                }
            } else if state.closed {
                break;
            } else {
                state.asleep += 1;
                state = wait(&self.work, state);
                state.asleep -= 1;
            }
        }
    }
}

fn wait<'a>(until: &Condvar, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
    until.wait(state).unwrap_or_else(PoisonError::into_inner)
}

/// Lets nobody wait for a judge that panicked.
struct Presence<'a>(&'a Desk);

impl Drop for Presence<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.lock().lost = true;
            self.0.judged.notify_one();
        }
    }
}

/// The reader's side.
pub(super) struct Judges {
    desk: Arc<Desk>,
    /// How many there are.
    threads: usize,
    /// What the reader judges with.
    soundness: Soundness,
    spare: VecDeque<Batch>,
}

impl Judges {
    /// Starts the threads, one for each processor but the reader's; fewer than wanted if the system gives
    /// no more, perhaps none.
    pub(super) fn start<'scope>(scope: &'scope Scope<'scope, '_>, depth: Depth) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let desk = Arc::new(Desk::default());
        let start = || {
            let desk = Arc::clone(&desk);
            std::thread::Builder::new()
                .name("audit-judge".to_owned())
                .spawn_scoped(scope, move || desk.serve(depth))
        };
        let wanted = processors.saturating_sub(1).clamp(1, MOST);
        let threads = (0..wanted).map_while(|_| start().ok()).count();
        Self {
            desk,
            threads,
            soundness: Soundness::new(depth),
            spare: VecDeque::new(),
        }
    }

    /// Nobody: the verifier looks at everything itself.
    pub(super) fn none(depth: Depth) -> Self {
        Self {
            desk: Arc::default(),
            threads: 0,
            soundness: Soundness::new(depth),
            spare: VecDeque::new(),
        }
    }

    /// An empty batch to fill.
    pub(super) fn empty(&mut self) -> Batch {
        self.spare.pop_front().unwrap_or_default()
    }

    /// Hands in a batch; gives back the oldest one if there is no room for more.
    pub(super) fn hand_in(&mut self, batch: Batch) -> Option<Batch> {
        if self.threads == 0 {
            // Nobody called it sound, so the verifier looks at everything itself.
            return Some(batch);
        }
        let mut state = self.desk.lock();
        if state.lost {
            // The scope panics at its end: nothing more is kept until then.
            return None;
        }
        let number = state.first + state.out.len();
        state.out.push_back(None);
        state.waiting.push_back((number, batch));
        let is_full = state.out.len() > self.threads * EACH;
        let wake = state.asleep > 0;
        drop(state);
        if wake {
            self.desk.work.notify_one();
        }
        if is_full { self.take_back() } else { None }
    }

    /// The oldest batch that is still out, once it is judged.
    pub(super) fn take_back(&mut self) -> Option<Batch> {
        let mut state = self.desk.lock();
        loop {
            // Every batch is out once, so what is there is the oldest.
            if let Some(batch) = state.out.front_mut()?.take() {
                state.out.pop_front();
                state.first += 1;
                return Some(batch);
            }
            if let Some((number, mut batch)) = state.waiting.pop_front() {
                drop(state);
                batch.judge(&mut self.soundness);
                state = self.desk.lock();
                state.put_back(number, batch);
            } else if state.lost {
                return None;
            } else {
                state = wait(&self.desk.judged, state);
            }
        }
    }

    /// Keeps the memory of a batch that is done with.
    pub(super) fn recycle(&mut self, batch: Batch) {
        self.spare.push_back(batch.cleared());
    }
}

impl Drop for Judges {
    fn drop(&mut self) {
        let mut state = self.desk.lock();
        state.closed = true;
        // The reader stopped at a break and wants no more.
        state.waiting.clear();
        drop(state);
        self.desk.work.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::{Head, LogId};
    use crate::{Entry, EventType, Stage, seal};
    use airlock_core::Timestamp;

    fn stored() -> Vec<u8> {
        let time = Timestamp::from_micros(1);
        let entry = Entry::new(time, EventType::ToolResult, Stage::Note);
        let head = Head::genesis(&LogId::from_bytes([7; 16]));
        seal(&head, &entry).unwrap().into_stored()
    }

    #[test]
    fn batches_come_back_judged_and_in_order_whoever_judged_them() {
        let (good, bad) = (stored(), b"no record".to_vec());
        let handed = 500;
        let mut back = Vec::new();
        std::thread::scope(|scope| {
            let mut judges = Judges::start(scope, Depth::Entries);
            let mut take = |judges: &mut Judges, batch: Batch| {
                for (seq, _, link) in batch.records() {
                    back.push((seq, link.is_some()));
                }
                judges.recycle(batch);
            };
            for seq in 0..handed {
                let mut batch = judges.empty();
                // One has more to look at than another.
                for _ in 0..=seq % 7 {
                    batch.push(seq, if seq % 3 == 0 { &bad } else { &good });
                }
                if let Some(oldest) = judges.hand_in(batch) {
                    take(&mut judges, oldest);
                }
            }
            while let Some(oldest) = judges.take_back() {
                take(&mut judges, oldest);
            }
        });
        let wanted = (0..handed).flat_map(|seq| (0..=seq % 7).map(move |_| (seq, seq % 3 != 0)));
        assert_eq!(back, wanted.collect::<Vec<_>>());
    }

    #[test]
    fn judges_end_with_a_reader_that_wants_no_more() {
        std::thread::scope(|scope| {
            let mut judges = Judges::start(scope, Depth::Entries);
            for seq in 0..100 {
                let mut batch = judges.empty();
                batch.push(seq, b"no record");
                if judges.hand_in(batch).is_some() {
                    break;
                }
            }
        });
    }
}
