//! Holds the chain against itself, and the facts against the chain.

use crate::change::Event;
use crate::error::StateError;
use crate::fact::{Fact, Kind, Row, subject};
use crate::journal::Reader;
use crate::open::open;
use crate::store::{Durable, Layout, State};
use airlock_audit::{Break, Depth, Head, Sealed, Trust, Verifier};
use rusqlite::{OptionalExtension, params};
use std::collections::BTreeMap;
use std::path::Path;

/// What held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateVerified {
    /// Where the chain stands.
    pub head: Head,
    /// Facts that agree with it.
    pub facts: usize,
}

/// What does not hold.
#[derive(Debug, thiserror::Error)]
pub enum StateBreak {
    /// An event was changed, removed, moved or inserted.
    #[error("the events do not hold: {0}")]
    Chain(#[source] Break),
    /// An event is intact, but could not have followed those before it.
    #[error("event {seq} does not fit those before it")]
    Event {
        /// The event.
        seq: u64,
    },
    /// A row was changed, removed or inserted without an event.
    #[error("the row of {kind} `{id}` is not what the events say")]
    Facts {
        /// What it is about.
        kind: &'static str,
        /// Its name.
        id: String,
    },
    /// It could not be looked at.
    #[error(transparent)]
    Store(#[from] StateError),
}

type Known = BTreeMap<(Kind, String), (Fact, u64)>;

/// Looks at every page and every index.
pub(crate) const INTEGRITY: &str = "PRAGMA integrity_check(1)";

/// Whether SQLite finds the file whole, by `check`.
pub(crate) fn whole_file(reader: &Reader<'_>, check: &str) -> Result<(), StateError> {
    let answer: String = reader
        .db
        .query_row(check, [], |row| row.get(0))
        .map_err(|source| reader.fail(source))?;
    if answer == "ok" {
        return Ok(());
    }
    Err(reader.damaged(answer))
}

/// Every event and every fact.
pub(crate) fn whole(reader: &Reader<'_>) -> Result<StateVerified, StateBreak> {
    let (known, head) = fold(reader)?;
    compare(reader, &known)?;
    Ok(StateVerified {
        head,
        facts: known.len(),
    })
}

impl StateBreak {
    /// Whether the store itself is at fault, and not that it could not be looked at.
    pub const fn is_damage(&self) -> bool {
        match self {
            Self::Chain(_)
            | Self::Event { .. }
            | Self::Facts { .. }
            | Self::Store(StateError::Damaged { .. }) => true,
            Self::Store(_) => false,
        }
    }
}

impl State {
    /// Checks every event and every fact.
    pub fn verify(&self) -> Result<StateVerified, StateBreak> {
        self.read(|reader| match whole(reader) {
            Err(StateBreak::Store(error)) => Err(error),
            looked => Ok(looked),
        })?
    }

    /// Checks the file in `directory`, every event and every fact, while others use the store:
    /// nobody waits for it. What is found is mended by whoever opens it after [`State::suspect`].
    pub fn check_apart(directory: &Path) -> Result<StateVerified, StateBreak> {
        let layout = Layout {
            directory: directory.to_owned(),
        };
        let path = layout.database();
        let db = open(&path)?;
        let moment = db
            .unchecked_transaction()
            .map_err(|source| StateError::sqlite(&path, source))?;
        let reader = Reader {
            db: &moment,
            path: &path,
        };
        whole_file(&reader, INTEGRITY)?;
        whole(&reader)
    }

    /// Makes the facts anew from the events.
    pub(crate) fn rebuild(&self) -> Result<(), StateError> {
        self.write(Durable::Disk, |writer| {
            let known = match fold(writer) {
                Ok((known, _)) => known,
                Err(StateBreak::Store(error)) => return Err(error),
                Err(broken) => return Err(writer.damaged(broken.to_string())),
            };
            writer
                .db
                .execute("DELETE FROM facts", [])
                .map_err(|source| writer.fail(source))?;
            for (fact, seq) in known.values() {
                let row = fact
                    .row()
                    .map_err(|_| writer.damaged("a fact has no row"))?;
                writer.put(&row, *seq)?;
            }
            Ok(())
        })
    }
}

/// Every fact, as the events make it; the chain is verified on the way.
fn fold(reader: &Reader<'_>) -> Result<(Known, Head), StateBreak> {
    let log = reader.log()?;
    let origin = Head::genesis(&log);
    let mut verifier =
        Verifier::new(log, origin, Depth::Entries, Trust::default()).map_err(StateBreak::Chain)?;
    let mut known = Known::new();
    let mut latest: BTreeMap<String, u64> = BTreeMap::new();
    let fail = |source| StateBreak::Store(reader.fail(source));
    let mut statement = reader
        .db
        .prepare("SELECT seq, stored, subject FROM events ORDER BY seq")
        .map_err(fail)?;
    let mut rows = statement.query([]).map_err(fail)?;
    while let Some(row) = rows.next().map_err(fail)? {
        let stored: Vec<u8> = row.get(1).map_err(fail)?;
        let name: String = row.get(2).map_err(fail)?;
        verifier.push(&stored).map_err(StateBreak::Chain)?;
        let seq = verifier.head().seq;
        let own: i64 = row.get(0).map_err(fail)?;
        let event = Sealed::from_stored(stored)
            .ok()
            .and_then(|sealed| sealed.entry().ok())
            .and_then(|entry| Event::read(&entry))
            .filter(|event| {
                own.unsigned_abs() == seq && event.previous == latest.get(&name).copied()
            })
            .ok_or(StateBreak::Event { seq })?;
        latest.insert(name.clone(), seq);
        take(&mut known, event, &name, seq)?;
    }
    let head = reader.head()?;
    verifier.finish().map(drop).map_err(StateBreak::Chain)?;
    Ok((known, head))
}

fn take(known: &mut Known, event: Event, name: &str, seq: u64) -> Result<(), StateBreak> {
    let unfit = StateBreak::Event { seq };
    let key = event.change.subject();
    if subject(key.0, &key.1) != name {
        return Err(unfit);
    }
    let old = known.remove(&key).map(|(fact, _)| fact);
    let Ok(facts) = event.change.apply(old, event.at) else {
        return Err(unfit);
    };
    for fact in facts {
        known.insert(fact.name(), (fact, seq));
    }
    Ok(())
}

/// Whether the table says what the events say, and nothing else.
fn compare(reader: &Reader<'_>, known: &Known) -> Result<(), StateBreak> {
    let fail = |source| StateBreak::Store(reader.fail(source));
    let wrong = |kind: Kind, id: &str| StateBreak::Facts {
        kind: kind.as_str(),
        id: id.to_owned(),
    };
    let mut statement = reader
        .db
        .prepare("SELECT owner, parent, status, due, mark, seq, body FROM facts WHERE kind = ?1 AND id = ?2")
        .map_err(fail)?;
    for ((kind, id), (fact, seq)) in known {
        let row = fact.row().map_err(|_| wrong(*kind, id))?;
        let same = statement
            .query_row(params![kind.as_str(), id], |found| same(&row, *seq, found))
            .optional()
            .map_err(fail)?;
        if same != Some(true) {
            return Err(wrong(*kind, id));
        }
    }
    let rows: i64 = reader
        .db
        .query_row("SELECT count(*) FROM facts", [], |row| row.get(0))
        .map_err(fail)?;
    if usize::try_from(rows) == Ok(known.len()) {
        return Ok(());
    }
    Err(StateBreak::Facts {
        kind: "something",
        id: "no event tells of".to_owned(),
    })
}

fn same(row: &Row, seq: u64, found: &rusqlite::Row<'_>) -> rusqlite::Result<bool> {
    Ok(found.get::<_, String>(0)? == row.owner
        && found.get::<_, String>(1)? == row.parent
        && found.get::<_, String>(2)? == row.status
        && found.get::<_, i64>(3)? == row.due
        && found.get::<_, String>(4)? == row.mark
        && found.get::<_, i64>(5)? == seq.cast_signed()
        && found.get::<_, String>(6)? == row.body)
}
