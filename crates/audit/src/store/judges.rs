//! Threads that look at the contents of records while one thread reads them and checks their order.
//!
//! A record's digest covers the digest of its predecessor as the record states it, so each can be
//! recomputed alone; whether what it states is true is the one thing left to check in order.
//!
//! A judge that panicked would lose its batch; the scope it runs in then panics too, so that never
//! looks like a log that holds.
//!
//! Guarantee: batches come back in the order they were handed in, and there are never more than a
//! few for each judge: memory does not grow with the log.

use crate::chain::Link;
use crate::verify::{Depth, Soundness, TOGETHER};
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::Scope;

/// Bytes after which a batch is full: large enough that handing it over costs nothing beside
/// hashing it, small enough to stay in a processor's cache.
const BATCH_BYTES: usize = 128 * 1024;
/// More judges than this would wait for the one reader.
const MOST: usize = 4;
/// Batches a judge has at once: so many that it seldom has to be woken.
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

struct Judge {
    work: SyncSender<Batch>,
    done: Receiver<Batch>,
}

/// The judges, and whose turn it is.
pub(super) struct Judges {
    threads: Vec<Judge>,
    handed: usize,
    returned: usize,
    spare: VecDeque<Batch>,
}

impl Judges {
    /// Starts the threads; fewer than wanted if the system gives no more, perhaps none.
    pub(super) fn start<'scope>(scope: &'scope Scope<'scope, '_>, depth: Depth) -> Self {
        let wanted = std::thread::available_parallelism().map_or(1, usize::from);
        let judges = (0..wanted.min(MOST)).map_while(|_| start_judge(scope, depth).ok());
        Self {
            threads: judges.collect(),
            handed: 0,
            returned: 0,
            spare: VecDeque::new(),
        }
    }

    /// Nobody: the verifier looks at everything itself.
    pub(super) const fn none() -> Self {
        Self {
            threads: Vec::new(),
            handed: 0,
            returned: 0,
            spare: VecDeque::new(),
        }
    }

    /// An empty batch to fill.
    pub(super) fn empty(&mut self) -> Batch {
        self.spare.pop_front().unwrap_or_default()
    }

    /// Hands in a batch; gives back the oldest one if there is no room for more.
    pub(super) fn hand_in(&mut self, batch: Batch) -> Option<Batch> {
        let Some(count) = std::num::NonZeroUsize::new(self.threads.len()) else {
            // Nobody called it sound, so the verifier looks at everything itself.
            return Some(batch);
        };
        let room = self.handed - self.returned < count.get() * EACH;
        let oldest = if room { None } else { self.take_back() };
        let judge = self.threads.get(self.handed % count);
        if let Some(judge) = judge
            && judge.work.send(batch).is_ok()
        {
            self.handed += 1;
        }
        oldest
    }

    /// The oldest batch that is still out, once it is judged.
    pub(super) fn take_back(&mut self) -> Option<Batch> {
        let count = std::num::NonZeroUsize::new(self.threads.len())?;
        if self.handed == self.returned {
            return None;
        }
        let judge = self.threads.get(self.returned % count)?;
        self.returned += 1;
        judge.done.recv().ok()
    }

    /// Keeps the memory of a batch that is done with.
    pub(super) fn recycle(&mut self, batch: Batch) {
        self.spare.push_back(batch.cleared());
    }
}

fn start_judge<'scope>(scope: &'scope Scope<'scope, '_>, depth: Depth) -> std::io::Result<Judge> {
    let (work, batches) = sync_channel::<Batch>(EACH);
    let (results, done) = sync_channel(EACH);
    std::thread::Builder::new()
        .name("audit-judge".to_owned())
        .spawn_scoped(scope, move || {
            let mut soundness = Soundness::new(depth);
            for mut batch in batches {
                batch.judge(&mut soundness);
                // The reader stopped at a break and wants no more.
                if results.send(batch).is_err() {
                    break;
                }
            }
        })?;
    Ok(Judge { work, done })
}
