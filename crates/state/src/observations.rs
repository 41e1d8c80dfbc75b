//! What a session is to remember: text, where it came from, when. Its owner's, and nobody else's.

use crate::change::Change;
use crate::error::StateError;
use crate::fact::{Fact, Kind};
use crate::sessions::{Owner, own};
use crate::store::{Durable, State};
use airlock_core::{SessionId, Timestamp};
use serde::{Deserialize, Serialize};

/// Longest text, in bytes.
const TEXT: usize = 8 * 1024;
/// Longest origin, in bytes.
const ORIGIN: usize = 256;
/// Observations of one session.
const EACH: usize = 10_000;
/// Words a search looks for.
const WORDS: usize = 16;

/// One remembered fact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observation {
    /// Its name.
    pub id: String,
    /// Whose it is.
    pub owner: Owner,
    /// The session it belongs to.
    pub session: SessionId,
    /// What is remembered.
    pub text: String,
    /// Where it came from, such as `user`, `tool:fs.read` or `file:README.md`.
    pub origin: String,
    /// When.
    pub at: Timestamp,
}

impl State {
    /// Remembers `text` for the session `id` of `owner`; none if there is none.
    pub fn observe(
        &self,
        owner: &Owner,
        id: &SessionId,
        text: &str,
        origin: &str,
        now: Timestamp,
    ) -> Result<Option<Observation>, StateError> {
        for (long, what, most) in [
            (text.len() > TEXT, "the text is too long, in bytes", TEXT),
            (
                origin.len() > ORIGIN,
                "the origin is too long, in bytes",
                ORIGIN,
            ),
        ] {
            if long {
                return Err(StateError::Limit { what, most });
            }
        }
        self.write(Durable::Soon, |writer| {
            if own(writer.find(Kind::Session, id.as_str())?, owner).is_none() {
                return Ok(None);
            }
            if writer.count_below(Kind::Observation, id.as_str())? >= EACH {
                return Err(StateError::Limit {
                    what: "the session remembers too much",
                    most: EACH,
                });
            }
            let observation = Observation {
                id: uuid::Uuid::now_v7().to_string(),
                owner: owner.clone(),
                session: id.clone(),
                text: text.to_owned(),
                origin: origin.to_owned(),
                at: now,
            };
            let change = Change::Observed {
                observation: Box::new(observation.clone()),
            };
            writer.append(&change, now)?;
            Ok(Some(observation))
        })
    }

    /// What the session `id` of `owner` remembers that has every word of `query`, newest first, at
    /// most `limit`; none if there is no such session. Case does not matter.
    pub fn recall(
        &self,
        owner: &Owner,
        id: &SessionId,
        query: &str,
        limit: usize,
    ) -> Result<Option<Vec<Observation>>, StateError> {
        let words: Vec<String> = query
            .split_whitespace()
            .take(WORDS)
            .map(str::to_lowercase)
            .collect();
        self.read(|reader| {
            if own(reader.find(Kind::Session, id.as_str())?, owner).is_none() {
                return Ok(None);
            }
            let found = reader.below(Kind::Observation, id.as_str())?;
            let fits = |observation: &Observation| {
                let text = observation.text.to_lowercase();
                words.iter().all(|word| text.contains(word.as_str()))
            };
            Ok(Some(
                found
                    .into_iter()
                    .rev()
                    .filter_map(Fact::observation)
                    .filter(fits)
                    .take(limit)
                    .collect(),
            ))
        })
    }
}
