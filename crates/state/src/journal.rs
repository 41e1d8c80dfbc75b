//! The events and the facts, inside one transaction: reading, proving, appending.
//!
//! INVARIANT: [`Writer::append`] is the only writer of either table, and writes both.

use crate::change::{Change, Event};
use crate::error::StateError;
use crate::fact::{Fact, Kind, Row, subject};
use airlock_audit::{Head, LogId, Sealed, seal};
use airlock_core::{PluginName, Timestamp};
use airlock_policy::Generation;
use rusqlite::{Connection, OptionalExtension, params};
use std::path::Path;

/// A fact that its events prove, and the last of them.
#[derive(Debug, Clone)]
pub(crate) struct Proven {
    pub(crate) fact: Fact,
    seq: u64,
}

/// Whether table and chain agree on something.
#[derive(Debug)]
pub(crate) enum Proof {
    /// Neither knows of it.
    Absent,
    Holds(Box<Proven>),
    Differs,
}

/// Some of the approvals of `owner`: by [`RANK`], and of each the newest first.
pub(crate) struct Stretch<'a> {
    pub(crate) owner: &'a str,
    /// Only those of that rank.
    pub(crate) rank: Option<i64>,
    /// Only those after that one.
    pub(crate) after: Option<&'a str>,
    /// The policy in force.
    pub(crate) policy: Generation,
    pub(crate) now: Timestamp,
    pub(crate) most: usize,
}

/// How an approval stands at `?3` under the policy `?4`: it waits, it grants, or it is over. One that
/// was asked under another policy takes no yes any more, and a grant of another covers nothing.
const RANK: &str = "CASE WHEN due <= ?3 THEN 2 WHEN status = 'open' AND json_extract(body, '$.approval.request.binding.generation') = ?4 THEN 0 WHEN status = 'granted' AND json_extract(body, '$.approval.grant.binding.generation') = ?4 THEN 1 ELSE 2 END";

/// The shortest end of a name that stands for it.
const ENDING: i64 = 4;

/// Looks at one consistent state of the store.
pub(crate) struct Reader<'a> {
    pub(crate) db: &'a Connection,
    pub(crate) path: &'a Path,
}

impl Reader<'_> {
    pub(crate) fn fail(&self, source: rusqlite::Error) -> StateError {
        StateError::sqlite(self.path, source)
    }

    pub(crate) fn damaged(&self, detail: impl Into<String>) -> StateError {
        StateError::damaged(self.path, detail)
    }

    pub(crate) fn log(&self) -> Result<LogId, StateError> {
        let bytes: Vec<u8> = self
            .db
            .query_row("SELECT value FROM meta WHERE key = 'log'", [], |row| {
                row.get(0)
            })
            .map_err(|source| self.fail(source))?;
        let bytes: [u8; 16] = bytes
            .try_into()
            .map_err(|_| self.damaged("its name is not one"))?;
        Ok(LogId::from_bytes(bytes))
    }

    /// Where the chain stands: the last event there is, which must be the one last written.
    pub(crate) fn head(&self) -> Result<Head, StateError> {
        let last: Option<Vec<u8>> = self
            .db
            .prepare_cached("SELECT stored FROM events ORDER BY seq DESC LIMIT 1")
            .and_then(|mut statement| statement.query_row([], |row| row.get(0)).optional())
            .map_err(|source| self.fail(source))?;
        let head = match last {
            None => Head::genesis(&self.log()?),
            Some(stored) => Sealed::from_stored(stored)
                .map_err(|error| self.damaged(error.to_string()))?
                .head(),
        };
        let written: Option<Vec<u8>> = self
            .db
            .prepare_cached("SELECT value FROM meta WHERE key = 'head'")
            .and_then(|mut statement| statement.query_row([], |row| row.get(0)).optional())
            .map_err(|source| self.fail(source))?;
        let is_last = written.map_or(head.seq == 0, |written| written == head_bytes(&head));
        if is_last {
            Ok(head)
        } else {
            Err(self.damaged("its last events are missing"))
        }
    }

    /// The fact of that name, as the table has it.
    pub(crate) fn find(&self, kind: Kind, id: &str) -> Result<Option<Fact>, StateError> {
        let body: Option<String> = self
            .db
            .prepare_cached("SELECT body FROM facts WHERE kind = ?1 AND id = ?2")
            .and_then(|mut statement| {
                statement
                    .query_row(params![kind.as_str(), id], |row| row.get(0))
                    .optional()
            })
            .map_err(|source| self.fail(source))?;
        body.map(|body| self.fact(&body)).transpose()
    }

    fn fact(&self, body: &str) -> Result<Fact, StateError> {
        serde_json::from_str(body).map_err(|_| self.damaged("a row cannot be read"))
    }

    fn facts(&self, sql: &str, values: impl rusqlite::Params) -> Result<Vec<Fact>, StateError> {
        let bodies: Vec<String> = self
            .db
            .prepare_cached(sql)
            .and_then(|mut statement| {
                statement
                    .query_map(values, |row| row.get(0))?
                    .collect::<rusqlite::Result<_>>()
            })
            .map_err(|source| self.fail(source))?;
        bodies.iter().map(|body| self.fact(body)).collect()
    }

    /// Every fact of `owner`.
    pub(crate) fn owned(&self, kind: Kind, owner: &str) -> Result<Vec<Fact>, StateError> {
        self.facts(
            "SELECT body FROM facts WHERE kind = ?1 AND owner = ?2 ORDER BY seq",
            params![kind.as_str(), owner],
        )
    }

    /// The approvals of a stretch, and how many come after them. None if it is to begin after one
    /// that there is not.
    ///
    /// A name begins with the time it was made at: that never changes, as the last event does.
    pub(crate) fn approvals(
        &self,
        of: &Stretch<'_>,
    ) -> Result<Option<(Vec<Fact>, u64)>, StateError> {
        let now = of.now.as_micros();
        let policy = of.policy.digest().to_string();
        let mut from = None;
        if let Some(after) = of.after {
            let sql = format!(
                "SELECT {RANK} FROM facts WHERE kind = 'approval' AND owner = ?1 AND id = ?2"
            );
            let rank: Option<i64> = self
                .db
                .prepare_cached(&sql)
                .and_then(|mut statement| {
                    statement
                        .query_row(params![of.owner, after, now, policy], |row| row.get(0))
                        .optional()
                })
                .map_err(|source| self.fail(source))?;
            let Some(rank) = rank else {
                return Ok(None);
            };
            // One that stands otherwise by now still says how far the pages of its rank went.
            from = Some(of.rank.unwrap_or(rank));
        }
        let which = format!(
            "FROM facts WHERE kind = 'approval' AND owner = ?1 AND (?2 IS NULL OR {RANK} = ?2) AND (?5 IS NULL OR {RANK} > ?5 OR ({RANK} = ?5 AND id < ?6))"
        );
        let all: i64 = self
            .db
            .prepare_cached(&format!("SELECT count(*) {which}"))
            .and_then(|mut statement| {
                statement.query_row(
                    params![of.owner, of.rank, now, policy, from, of.after],
                    |row| row.get(0),
                )
            })
            .map_err(|source| self.fail(source))?;
        let most = i64::try_from(of.most).unwrap_or(i64::MAX);
        let facts = self.facts(
            &format!("SELECT body {which} ORDER BY {RANK}, id DESC LIMIT ?7"),
            params![of.owner, of.rank, now, policy, from, of.after, most],
        )?;
        let more = all.unsigned_abs().saturating_sub(facts.len() as u64);
        Ok(Some((facts, more)))
    }

    /// The names that `owner` has of that kind and that are `end`, or end with it.
    pub(crate) fn ending(
        &self,
        kind: Kind,
        owner: &str,
        end: &str,
    ) -> Result<Vec<String>, StateError> {
        self.db
            .prepare_cached(
                "SELECT id FROM facts WHERE kind = ?1 AND owner = ?2 AND (id = ?3 OR (length(?3) >= ?4 AND substr(id, -length(?3)) = ?3)) ORDER BY id",
            )
            .and_then(|mut statement| {
                statement
                    .query_map(params![kind.as_str(), owner, end, ENDING], |row| row.get(0))?
                    .collect::<rusqlite::Result<_>>()
            })
            .map_err(|source| self.fail(source))
    }

    /// Every fact that belongs to `parent`, in order of their events.
    pub(crate) fn below(&self, kind: Kind, parent: &str) -> Result<Vec<Fact>, StateError> {
        self.facts(
            "SELECT body FROM facts WHERE kind = ?1 AND parent = ?2 ORDER BY seq",
            params![kind.as_str(), parent],
        )
    }

    pub(crate) fn count_below(&self, kind: Kind, parent: &str) -> Result<usize, StateError> {
        self.db
            .query_row(
                "SELECT count(*) FROM facts WHERE kind = ?1 AND parent = ?2",
                params![kind.as_str(), parent],
                |row| row.get::<_, i64>(0),
            )
            .map(|count| usize::try_from(count).unwrap_or(usize::MAX))
            .map_err(|source| self.fail(source))
    }

    pub(crate) fn count_active_sessions(&self, owner: &str) -> Result<usize, StateError> {
        self.db
            .query_row(
                "SELECT count(*) FROM facts WHERE kind = 'session' AND owner = ?1 AND status <> 'archived'",
                params![owner],
                |row| row.get::<_, i64>(0),
            )
            .map(|count| usize::try_from(count).unwrap_or(usize::MAX))
            .map_err(|source| self.fail(source))
    }

    /// Every fact of that kind that is due at `now`.
    pub(crate) fn due(&self, kind: Kind, now: Timestamp) -> Result<Vec<Fact>, StateError> {
        self.facts(
            "SELECT body FROM facts WHERE kind = ?1 AND due <= ?2 ORDER BY seq",
            params![kind.as_str(), now.as_micros()],
        )
    }

    /// What belongs to `parent` in that status and is not over at `now`, in order of their events.
    pub(crate) fn standing(
        &self,
        kind: Kind,
        parent: &str,
        status: &str,
        now: Timestamp,
    ) -> Result<Vec<Fact>, StateError> {
        self.facts(
            "SELECT body FROM facts WHERE kind = ?1 AND parent = ?2 AND status = ?3 AND due > ?4 ORDER BY seq",
            params![kind.as_str(), parent, status, now.as_micros()],
        )
    }

    /// How many questions `front` has open at `now` for `owner` under `policy`, whatever its sessions.
    pub(crate) fn count_open(
        &self,
        owner: &str,
        front: &PluginName,
        policy: Generation,
        now: Timestamp,
    ) -> Result<usize, StateError> {
        // The last part of who asks, which no other part can pass for.
        let end = format!("/{front}");
        let policy = policy.digest().to_string();
        self.db
            .query_row(
                "SELECT count(*) FROM facts WHERE kind = 'approval' AND owner = ?1 AND status = 'open' AND due > ?2 AND substr(parent, -length(?3)) = ?3 AND json_extract(body, '$.approval.request.binding.generation') = ?4",
                params![owner, now.as_micros(), end, policy],
                |row| row.get::<_, i64>(0),
            )
            .map(|count| usize::try_from(count).unwrap_or(usize::MAX))
            .map_err(|source| self.fail(source))
    }

    /// What `owner` asked and is open or granted at `now`, in order of their events.
    pub(crate) fn unsettled(&self, owner: &str, now: Timestamp) -> Result<Vec<Fact>, StateError> {
        self.facts(
            "SELECT body FROM facts WHERE kind = 'approval' AND owner = ?1 AND status IN ('open', 'granted') AND due > ?2 ORDER BY seq",
            params![owner, now.as_micros()],
        )
    }

    /// What belongs to `parent` and has that mark, newest first.
    pub(crate) fn marked(
        &self,
        kind: Kind,
        parent: &str,
        mark: &str,
    ) -> Result<Vec<Fact>, StateError> {
        self.facts(
            "SELECT body FROM facts WHERE kind = ?1 AND parent = ?2 AND mark = ?3 ORDER BY seq DESC LIMIT 10",
            params![kind.as_str(), parent, mark],
        )
    }

    /// The last few that belong to `parent`, newest first.
    pub(crate) fn newest(&self, kind: Kind, parent: &str) -> Result<Vec<Fact>, StateError> {
        self.facts(
            "SELECT body FROM facts WHERE kind = ?1 AND parent = ?2 ORDER BY seq DESC LIMIT 20",
            params![kind.as_str(), parent],
        )
    }

    /// The fact of that name, made anew from its events, if table and chain agree on it.
    ///
    /// Each event must be intact, stand on the one before it in the chain, and name the event
    /// before it about the same thing.
    pub(crate) fn prove(&self, kind: Kind, id: &str) -> Result<Option<Fact>, StateError> {
        Ok(match self.prove_from(kind, id, None)? {
            Proof::Holds(proven) => Some(proven.fact),
            Proof::Absent | Proof::Differs => None,
        })
    }

    /// The same, going on from what was proven before.
    pub(crate) fn prove_from(
        &self,
        kind: Kind,
        id: &str,
        before: Option<Proven>,
    ) -> Result<Proof, StateError> {
        let shown = self.find(kind, id)?;
        let after = before.as_ref().map_or(0, |before| before.seq);
        let stored: Vec<(i64, Vec<u8>, Option<Vec<u8>>)> = self
            .db
            .prepare_cached(
                "SELECT e.seq, e.stored, (SELECT stored FROM events WHERE seq = e.seq - 1) FROM events e WHERE e.subject = ?1 AND e.seq > ?2 ORDER BY e.seq",
            )
            .and_then(|mut statement| {
                statement
                    .query_map(params![subject(kind, id), after.cast_signed()], |row| {
                        Ok((row.get(0)?, row.get(1)?, row.get(2)?))
                    })?
                    .collect::<rusqlite::Result<_>>()
            })
            .map_err(|source| self.fail(source))?;
        let mut previous = before.as_ref().map(|before| before.seq);
        let mut proven = before.map(|before| before.fact);
        for (seq, stored, before) in stored {
            let Some(event) = self.linked(seq, stored, before)? else {
                return Ok(Proof::Differs);
            };
            if event.previous != previous || event.change.subject() != (kind, id.to_owned()) {
                return Ok(Proof::Differs);
            }
            previous = Some(seq.unsigned_abs());
            let Ok(facts) = event.change.apply(proven.take(), event.at) else {
                return Ok(Proof::Differs);
            };
            proven = facts.into_iter().find(|fact| fact.name().0 == kind);
        }
        Ok(match (proven, previous) {
            (Some(fact), Some(seq)) if Some(&fact) == shown.as_ref() => {
                Proof::Holds(Box::new(Proven { fact, seq }))
            }
            (None, None) if shown.is_none() => Proof::Absent,
            (_, _) => Proof::Differs,
        })
    }

    /// The event in `stored`, if it is intact, numbered `seq` and stands on `before`.
    fn linked(
        &self,
        seq: i64,
        stored: Vec<u8>,
        before: Option<Vec<u8>>,
    ) -> Result<Option<Event>, StateError> {
        let Ok(sealed) = Sealed::from_stored(stored) else {
            return Ok(None);
        };
        let expected = match before {
            None => Head::genesis(&self.log()?).digest,
            Some(before) => match Sealed::from_stored(before) {
                Ok(before) => *before.digest(),
                Err(_) => return Ok(None),
            },
        };
        if sealed.seq() != seq.unsigned_abs() || *sealed.previous() != expected {
            return Ok(None);
        }
        Ok(sealed.entry().ok().and_then(|entry| Event::read(&entry)))
    }
}

/// A head as it is kept beside the events.
pub(crate) fn head_bytes(head: &Head) -> Vec<u8> {
    let mut bytes = head.seq.to_be_bytes().to_vec();
    bytes.extend_from_slice(head.digest.as_bytes());
    bytes
}

/// Changes the store, inside the one write transaction there can be.
pub(crate) struct Writer<'a> {
    reader: Reader<'a>,
    head: Head,
}

impl<'a> std::ops::Deref for Writer<'a> {
    type Target = Reader<'a>;

    fn deref(&self) -> &Self::Target {
        &self.reader
    }
}

impl<'a> Writer<'a> {
    pub(crate) fn begin(reader: Reader<'a>) -> Result<Self, StateError> {
        let head = reader.head()?;
        Ok(Self { reader, head })
    }

    /// Seals `change` onto the chain and brings the facts up to it.
    pub(crate) fn append(&mut self, change: &Change, now: Timestamp) -> Result<(), StateError> {
        let (kind, id) = change.subject();
        let name = subject(kind, &id);
        let previous: Option<i64> = self
            .db
            .prepare_cached("SELECT max(seq) FROM events WHERE subject = ?1")
            .and_then(|mut statement| statement.query_row([&name], |row| row.get(0)))
            .map_err(|source| self.fail(source))?;
        let event = Event {
            change: change.clone(),
            previous: previous.map(i64::unsigned_abs),
            at: now,
        };
        let old = self.find(kind, &id)?;
        let facts = event
            .change
            .clone()
            .apply(old, now)
            .map_err(|_| StateError::Unfit("the change does not fit what is stored"))?;
        let unwritable = |_| StateError::Unfit("the change cannot be written as JSON");
        let sealed = seal(&self.head, &event.entry().map_err(unwritable)?)?;
        self.insert(&sealed, &name)?;
        for fact in facts {
            self.put(&fact.row().map_err(unwritable)?, sealed.seq())?;
        }
        self.head = sealed.head();
        Ok(())
    }

    fn insert(&self, sealed: &Sealed, subject: &str) -> Result<(), StateError> {
        let written = self
            .db
            .prepare_cached("INSERT INTO events(seq, stored, subject) VALUES (?1, ?2, ?3)")
            .and_then(|mut statement| {
                statement.execute(params![
                    sealed.seq().cast_signed(),
                    sealed.stored(),
                    subject
                ])
            })
            .and_then(|_| {
                self.db
                    .prepare_cached("INSERT OR REPLACE INTO meta(key, value) VALUES ('head', ?1)")?
                    .execute([head_bytes(&sealed.head())])
            });
        written.map(drop).map_err(|source| self.fail(source))
    }

    pub(crate) fn put(&self, row: &Row, seq: u64) -> Result<(), StateError> {
        self.db
            .prepare_cached("INSERT OR REPLACE INTO facts(kind, id, owner, parent, status, due, mark, seq, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)")
            .and_then(|mut statement| {
                statement.execute(params![
                    row.kind.as_str(),
                    row.id,
                    row.owner,
                    row.parent,
                    row.status,
                    row.due,
                    row.mark,
                    seq.cast_signed(),
                    row.body,
                ])
            })
            .map(drop)
            .map_err(|source| self.fail(source))
    }
}
