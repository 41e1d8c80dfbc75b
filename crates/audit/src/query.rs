//! Reads records back: filters, newest or oldest first, following, statistics.
//!
//! Every filter scans: the stored record is the only truth, and an index could be made to lie
//! about it. Memory stays flat whatever the log's size. A record whose digest does not match its
//! contents, or that SQLite cannot read, is an error, never an answer; whoever asks on gets those
//! behind it. After any other failure there are no more.

use crate::chain::Sealed;
use crate::segment::{ReadError, Row, Source};
use crate::store::Layout;
use crate::{Entry, EventType};
use airlock_core::Timestamp;
use std::collections::BTreeMap;

/// Which records are wanted. Every field that is set must match.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// The caller's session.
    pub session: Option<String>,
    /// The event.
    pub event: Option<EventType>,
    /// The verdict: `allow`, `deny` or `require_review`.
    pub verdict: Option<String>,
    /// The caller's plugin.
    pub plugin: Option<String>,
    /// A path of the request, or a directory above it.
    pub path: Option<String>,
    /// The request's host.
    pub host: Option<String>,
    /// The action that joins attempt and outcome.
    pub action: Option<String>,
    /// Not before.
    pub since: Option<Timestamp>,
    /// Not after.
    pub until: Option<Timestamp>,
    /// A text that occurs in any of the record's texts, in whatever case.
    pub text: Option<String>,
    /// The first number of interest.
    pub first: Option<u64>,
    /// The last number of interest.
    pub last: Option<u64>,
    /// At most this many.
    pub limit: Option<u64>,
    /// The newest first.
    pub newest_first: bool,
}

impl Filter {
    /// Whether `entry` is wanted; numbers and the limit are the reader's to mind.
    pub fn matches(&self, entry: &Entry) -> bool {
        let caller = entry.caller.as_ref();
        let request = entry.request.as_deref();
        let same = |wanted: &Option<String>, found: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| found == Some(wanted))
        };
        self.event.is_none_or(|event| event == entry.event)
            && self.since.is_none_or(|since| entry.time >= since)
            && self.until.is_none_or(|until| entry.time <= until)
            && same(
                &self.session,
                caller.and_then(|caller| caller.session.as_ref().map(AsRef::as_ref)),
            )
            && same(&self.plugin, caller.map(|caller| caller.plugin.as_str()))
            && same(
                &self.verdict,
                entry.decision.as_ref().map(|decision| &*decision.verdict),
            )
            && same(&self.action, entry.action.as_ref().map(AsRef::as_ref))
            && same(
                &self.host,
                request.and_then(|request| request.host.as_deref()),
            )
            && self.path.as_deref().is_none_or(|wanted| {
                let paths = request.into_iter().flat_map(|request| &request.paths);
                paths
                    .into_iter()
                    .any(|path| is_within(path.as_str(), wanted))
            })
            && self
                .text
                .as_deref()
                .is_none_or(|text| mentions(entry, text))
    }
}

fn is_within(path: &str, wanted: &str) -> bool {
    let wanted = wanted.trim_end_matches('/');
    path.strip_prefix(wanted)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn mentions(entry: &Entry, text: &str) -> bool {
    let text = text.to_lowercase();
    let holds = |field: &str| field.to_lowercase().contains(&text);
    let plain = [
        &entry.syscall,
        &entry.tool,
        &entry.token,
        &entry.reason,
        &entry.input,
        &entry.output,
    ];
    let request = entry.request.as_deref();
    let sandbox = entry.sandbox.as_ref();
    plain.into_iter().flatten().any(|field| holds(field))
        || holds(entry.event.as_str())
        || sandbox.is_some_and(|sandbox| holds(sandbox.as_str()))
        || entry
            .metadata
            .iter()
            .any(|(name, value)| holds(name) || holds(value))
        || entry
            .decision
            .iter()
            .any(|decision| decision.rules.iter().any(|rule| holds(rule)))
        || request.is_some_and(|request| {
            request.command.iter().any(|word| holds(word))
                || request.paths.iter().any(|path| holds(path.as_str()))
                || request.host.as_deref().is_some_and(holds)
        })
}

/// One record with what it says.
#[derive(Debug, Clone)]
pub struct Record {
    /// The sealed form: number, digests, bytes.
    pub sealed: Sealed,
    /// What it says.
    pub entry: Entry,
}

/// The records a filter lets through, one at a time.
#[derive(Debug)]
pub struct Records {
    source: Source,
    filter: Filter,
    left: u64,
}

impl Records {
    pub(crate) fn new(source: Source, filter: Filter) -> Self {
        let left = filter.limit.unwrap_or(u64::MAX);
        Self {
            source,
            filter,
            left,
        }
    }

    /// Has `layout`'s next opener look at every page, should this reader come upon damaged ones.
    pub(crate) fn noting_damage(mut self, layout: &Layout) -> Self {
        self.source.note_damage(layout);
        self
    }

    /// The next record as it is stored, whether or not its contents can be read. No filter is asked.
    pub(crate) fn next_stored(&mut self) -> Result<Option<Row>, ReadError> {
        self.source.next_row()
    }

    fn advance(&mut self) -> Result<Option<Record>, ReadError> {
        while self.left > 0 {
            let Some((seq, stored)) = self.source.next_row()? else {
                break;
            };
            let record = parse(seq, stored)?;
            if self.filter.matches(&record.entry) {
                self.left -= 1;
                return Ok(Some(record));
            }
        }
        Ok(None)
    }
}

impl Iterator for Records {
    type Item = Result<Record, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.advance().transpose()
    }
}

fn parse(seq: u64, stored: Vec<u8>) -> Result<Record, ReadError> {
    let bad = |detail: String| ReadError::Record { seq, detail };
    let sealed = Sealed::from_stored(stored).map_err(|error| bad(error.to_string()))?;
    if sealed.seq() != seq {
        return Err(bad(format!("record {} stands in its place", sealed.seq())));
    }
    let entry = sealed.entry().map_err(|error| bad(error.to_string()))?;
    Ok(Record { sealed, entry })
}

/// What the log holds, in numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stats {
    /// Records in database and archives that can be read.
    pub records: u64,
    /// Records that cannot be read, and are counted nowhere else.
    pub unreadable: u64,
    /// How many of each event.
    pub events: BTreeMap<&'static str, u64>,
    /// How many of each verdict.
    pub verdicts: BTreeMap<String, u64>,
    /// Number and time of the oldest record.
    pub first: Option<(u64, Timestamp)>,
    /// Number and time of the newest record.
    pub last: Option<(u64, Timestamp)>,
    /// Bytes of stored records, before compression.
    pub record_bytes: u64,
    /// Bytes of the database and its archives on disk.
    pub disk_bytes: u64,
    /// Checkpoints beside the key.
    pub checkpoints: usize,
    /// Archives.
    pub archives: usize,
}

impl Stats {
    pub(crate) fn count(&mut self, record: &Record) {
        self.records += 1;
        *self.events.entry(record.entry.event.as_str()).or_default() += 1;
        if let Some(decision) = &record.entry.decision {
            *self.verdicts.entry(decision.verdict.clone()).or_default() += 1;
        }
        let place = (record.sealed.seq(), record.entry.time);
        self.first.get_or_insert(place);
        self.last = Some(place);
        self.record_bytes += record.sealed.stored().len() as u64;
    }
}
