//! Verifies a log on disk: archives, database, checkpoints. Reads only, with flat memory.

use super::checkpoints::{Claims, KeptCheckpoints, public_key, read_checkpoints};
use super::judges::{Batch, Judges};
use super::reach::unreached;
use super::{Layout, log_id};
use crate::chain::{Head, Link, LogId, Stored};
use crate::encoding;
use crate::open::{Access, OpenError, is_damage, open_database};
use crate::segment::{ReadError, Segment, SegmentError, list_segments};
use crate::verify::{Break, Depth, Trust, Verified, Verifier};
use crate::writer::{Meta, decode_head, read_meta};
use crate::{CheckpointError, EventType, PublicKey, SignedCheckpoint};
use rusqlite::{Connection, ErrorCode};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Complaints of SQLite that are kept; one is enough to know.
const COMPLAINTS: usize = 20;

/// Steps among the rows that SQLite may make before its check is called off: far more than it makes
/// before and between its complaints about pages.
const ROW_STEPS: i64 = 10_000;

/// Pages SQLite keeps in memory during a verification.
const CACHE_PAGES: i32 = 32;

/// What a verification may rely on, and how closely it looks.
#[derive(Debug, Clone)]
pub struct VerifyOptions {
    /// Keys that may have signed; none means the log's own key, if it is there, and the signers of
    /// the pins.
    pub keys: Vec<PublicKey>,
    /// Checkpoints kept elsewhere.
    pub pins: Vec<SignedCheckpoint>,
    /// Whether every entry must decode.
    pub depth: Depth,
}

impl Default for VerifyOptions {
    fn default() -> Self {
        Self {
            keys: Vec::new(),
            pins: Vec::new(),
            depth: Depth::Entries,
        }
    }
}

/// Why a log could not be verified at all.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// The log cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A pinned checkpoint is not by an expected key.
    #[error(transparent)]
    Pin(#[from] CheckpointError),
    /// The verification was called off.
    #[error("the verification was called off")]
    Cancelled,
}

impl VerifyError {
    /// What to do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Open(error) => error.hint(),
            Self::Pin(error) => Some(error.hint()),
            Self::Cancelled => None,
        }
    }
}

/// What a verification found.
#[derive(Debug)]
#[must_use]
pub struct VerifyReport {
    /// Which log.
    pub log: LogId,
    /// What held, or where the chain breaks first.
    pub chain: Result<Verified, Break>,
    /// Damage to the files themselves: what SQLite and the archives say of their structure.
    pub structure: Vec<String>,
    /// The first record that could not be read at all.
    pub unreadable: Option<u64>,
    /// The log begins after this head, and no record says that what was before was deleted.
    pub unexplained_start: Option<Head>,
    /// Lines of the checkpoints file that are no valid checkpoint, or not by an expected key.
    pub bad_checkpoints: Vec<String>,
    /// The keys that were expected; none means that anybody's would do.
    pub expected_keys: Vec<PublicKey>,
    /// The keys of valid checkpoints that are not by an expected key.
    pub other_keys: Vec<PublicKey>,
    /// Pins given that are about records which retention deleted, as a record in the chain says:
    /// nothing here could be held against them. Without such a record they are a [`Break::Unmet`].
    pub deleted_pins: u64,
    /// Archives read.
    pub archives: usize,
    /// How many of the bad checkpoints are merely by another key.
    kept_by_others: usize,
    /// Whether SQLite cannot read the database, or says that its pages do not fit together.
    pub(super) is_database_damaged: bool,
}

impl VerifyReport {
    /// Whether nothing at all is wrong.
    pub fn is_intact(&self) -> bool {
        self.chain.is_ok()
            && self.structure.is_empty()
            && self.unreadable.is_none()
            && self.unexplained_start.is_none()
            && self.bad_checkpoints.is_empty()
    }

    /// Whether all that is wrong is who signed: whole checkpoints, by [`VerifyReport::other_keys`].
    pub fn is_by_another_key(&self) -> bool {
        let by_another = match &self.chain {
            Ok(_) => true,
            Err(broken) => unexpected_key(broken).is_some(),
        };
        by_another
            && !self.other_keys.is_empty()
            && self.structure.is_empty()
            && self.unreadable.is_none()
            && self.unexplained_start.is_none()
            && self.bad_checkpoints.len() == self.kept_by_others
    }

    /// The first bad record, where one can be named.
    pub fn first_bad(&self) -> Option<u64> {
        let broken = self.chain.as_ref().err().map(Break::seq);
        [broken, self.unreadable].into_iter().flatten().min()
    }
}

/// Verifies the log in `directory`, with its own checkpoints from `keys`.
pub fn verify_database(
    directory: &Path,
    keys: &Path,
    options: &VerifyOptions,
) -> Result<VerifyReport, VerifyError> {
    let never = AtomicBool::new(false);
    verify_layout(&Layout::new(directory, keys), options, &never)
}

pub(super) fn verify_layout(
    layout: &Layout,
    options: &VerifyOptions,
    cancel: &AtomicBool,
) -> Result<VerifyReport, VerifyError> {
    let path = layout.database();
    let db = open_database(&path, Access::Read)?;
    let sqlite = |source| OpenError::sqlite(&path, source);
    small_cache(&db).map_err(sqlite)?;
    // The structure and the chain each need every page, and the checkpoints' signatures take their
    // time, too: side by side they take the time of the longest.
    std::thread::scope(|scope| {
        let structure = scope.spawn(|| check_structure(&path));
        let kept = kept_checkpoints(layout)?;
        // One snapshot for everything: rows may be archived while this runs, and the archives are
        // listed after the snapshot began, so nothing falls between.
        db.execute_batch("BEGIN").map_err(sqlite)?;
        let log = log_id(&db).map_err(sqlite)?;
        let mut walk = Walk::new(layout, &db, (log, kept), options, cancel)?;
        walk.archives();
        walk.copies(&db, &layout.segments());
        walk.strays(&db);
        let mut judges = Judges::start(scope, options.depth);
        walk.rows(&db, &mut judges);
        // The judges end when nobody can hand in any more.
        drop(judges);
        let complaints = structure.join().unwrap_or_else(|_| {
            vec!["the check of the database's structure did not finish".to_owned()]
        });
        walk.report.is_database_damaged |= !complaints.is_empty();
        walk.report.structure.extend(complaints);
        if cancel.load(Ordering::Relaxed) {
            return Err(VerifyError::Cancelled);
        }
        Ok(walk.finish())
    })
}

/// That the chain reaches the newest of the checkpoints in `claims`, and the chain after it, or all of
/// it without one. Of the report only these count: the chain, and what of it could not be read.
///
/// INVARIANT: the claims were read before, and a checkpoint is kept only after its records: whatever
/// others sign meanwhile, what is claimed is there in a chain that is whole.
pub(super) fn verify_tail(
    layout: &Layout,
    claims: &Claims,
    cancel: &AtomicBool,
) -> Result<VerifyReport, VerifyError> {
    let path = layout.database();
    let db = open_database(&path, Access::Read)?;
    let sqlite = |source| OpenError::sqlite(&path, source);
    let kept = claims.newest_kept();
    db.execute_batch("BEGIN").map_err(sqlite)?;
    let log = log_id(&db).map_err(sqlite)?;
    let own = kept.valid.iter().rfind(|kept| kept.checkpoint().log == log);
    let signed = own.map(SignedCheckpoint::head);
    let options = VerifyOptions {
        depth: Depth::Digests,
        ..VerifyOptions::default()
    };
    let mut walk = Walk::new(layout, &db, (log, kept), &options, cancel)?;
    if let Some(signed) = signed {
        let in_archives = walk.segments.last().map_or(0, |archive| archive.last.seq);
        if let Some(broken) = unreached(&db, &signed, in_archives).map_err(sqlite)? {
            walk.broken = Some(broken);
            return Ok(walk.finish());
        }
    }
    let oldest: Option<i64> = db
        .query_row("SELECT min(seq) FROM records", [], |row| row.get(0))
        .map_err(sqlite)?;
    let attested = walk.newest_attested.filter(|head| {
        oldest.is_some_and(|oldest| oldest.cast_unsigned() <= head.seq.saturating_add(1))
    });
    if let Some(head) = attested {
        walk.restart_at(head);
    } else {
        walk.archives();
    }
    // A tail is short: threads would cost more than they save.
    walk.rows(&db, &mut Judges::none(options.depth));
    if cancel.load(Ordering::Relaxed) {
        return Err(VerifyError::Cancelled);
    }
    Ok(walk.finish())
}

/// Read before the database: a checkpoint signed in between would seem to vouch for records that
/// the snapshot lacks.
fn kept_checkpoints(layout: &Layout) -> Result<KeptCheckpoints, OpenError> {
    let path = layout.checkpoints();
    read_checkpoints(&path).map_err(|source| OpenError::io(&path, source))
}

struct Walk<'a> {
    log: LogId,
    trust: Trust,
    depth: Depth,
    verifier: Option<Verifier>,
    broken: Option<Break>,
    segments: Vec<Segment>,
    start: Head,
    explained: bool,
    /// The records that the given pins are about, ascending.
    given: Vec<u64>,
    newest_attested: Option<Head>,
    cancel: &'a AtomicBool,
    report: Findings,
}

#[derive(Default)]
struct Findings {
    structure: Vec<String>,
    unreadable: Option<u64>,
    bad_checkpoints: Vec<String>,
    expected_keys: Vec<PublicKey>,
    other_keys: Vec<PublicKey>,
    kept_by_others: usize,
    is_database_damaged: bool,
    archives: usize,
}

impl Findings {
    /// A checkpoint of the file is not by an expected key.
    fn kept_by_another(&mut self, signed: &SignedCheckpoint, error: &CheckpointError) {
        self.bad_checkpoints.push(error.to_string());
        self.kept_by_others += 1;
        self.saw_key(signed.checkpoint().key);
    }

    fn saw_key(&mut self, key: PublicKey) {
        if !self.other_keys.contains(&key) {
            self.other_keys.push(key);
        }
    }
}

impl<'a> Walk<'a> {
    fn new(
        layout: &Layout,
        db: &Connection,
        (log, kept): (LogId, KeptCheckpoints),
        options: &VerifyOptions,
        cancel: &'a AtomicBool,
    ) -> Result<Self, VerifyError> {
        let mut report = Findings::default();
        let mut keys = options.keys.clone();
        if keys.is_empty() {
            match public_key(layout) {
                Ok(key) => keys.extend(key),
                Err(error) => report.bad_checkpoints.push(error.to_string()),
            }
            keys.extend(options.pins.iter().map(|pin| pin.checkpoint().key));
        }
        for (line, problem) in kept.bad_lines {
            report
                .bad_checkpoints
                .push(format!("line {line}: {problem}"));
        }
        let mut pins = options.pins.clone();
        let mut given: Vec<_> = pins.iter().map(|pin| pin.checkpoint().seq).collect();
        given.sort_unstable();
        for signed in kept.valid {
            match signed.check_signer(&keys) {
                Ok(()) => pins.push(signed),
                Err(error) => report.kept_by_another(&signed, &error),
            }
        }
        report.expected_keys.clone_from(&keys);
        let newest_attested = pins
            .iter()
            .filter(|pin| pin.checkpoint().log == log)
            .map(SignedCheckpoint::head)
            .max_by_key(|head| head.seq);
        let trust = Trust::new(keys, pins)?;
        let segments = open_segments(layout, &mut report)?;
        let archived = read_meta(db, Meta::Archived)
            .map_err(|source| OpenError::sqlite(&layout.database(), source))?
            .and_then(|bytes| decode_head(&bytes));
        let start = segments
            .first()
            .map(|segment| segment.previous)
            .or(archived)
            .unwrap_or_else(|| Head::genesis(&log));
        let mut walk = Self {
            log,
            trust,
            depth: options.depth,
            verifier: None,
            broken: None,
            segments,
            start,
            explained: false,
            given,
            newest_attested,
            cancel,
            report,
        };
        walk.restart_at(start);
        Ok(walk)
    }

    fn restart_at(&mut self, start: Head) {
        self.start = start;
        match Verifier::resume(self.log, start, self.depth, self.trust.clone()) {
            Ok(verifier) => self.verifier = Some(verifier),
            Err(broken) => self.broken = Some(broken),
        }
    }

    fn expected(&self) -> u64 {
        self.verifier
            .as_ref()
            .map_or(1, |verifier| verifier.head().seq.saturating_add(1))
    }

    /// Checks one record; false once nothing more can be learnt.
    fn push(&mut self, stored: &[u8]) -> bool {
        let Some(verifier) = &mut self.verifier else {
            return false;
        };
        if let Err(broken) = verifier.push(stored) {
            self.broken = Some(broken);
            return false;
        }
        if !self.explained && self.start.seq > 0 {
            self.explained = explains(stored, &self.start);
        }
        true
    }

    /// Checks the place of a record that a judge found sound.
    fn push_link(&mut self, link: &Link) -> bool {
        let Some(verifier) = &mut self.verifier else {
            return false;
        };
        self.broken = verifier.push_link(link).err();
        self.broken.is_none()
    }

    fn is_over(&self) -> bool {
        self.broken.is_some() || self.cancel.load(Ordering::Relaxed)
    }

    fn archives(&mut self) {
        for mut segment in std::mem::take(&mut self.segments) {
            self.report.archives += 1;
            if segment.log != self.log {
                let path = segment.path().display();
                let text = format!("the archive `{path}` belongs to log {}", segment.log);
                self.report.structure.push(text);
            }
            if let Err(error) = segment.check() {
                self.report.structure.push(error.to_string());
            }
            for index in 0..segment.blocks() {
                if self.is_over() {
                    return;
                }
                let records = match segment.block(index) {
                    Ok(records) => records,
                    Err(error) => return self.unreadable(error.to_string()),
                };
                if !records.iter().all(|stored| self.push(stored)) {
                    return;
                }
            }
        }
    }

    /// Rows that an archive holds too, left by a crash, must be the same: readers may see either.
    fn copies(&mut self, db: &Connection, segments: &Path) {
        let archived = self.expected() - 1;
        if self.report.archives == 0 || self.is_over() {
            return;
        }
        match differing_copy(db, segments, archived) {
            Ok(None) => {}
            Ok(Some(seq)) => {
                let text = format!("row {seq} differs from the archive's copy");
                self.report.structure.push(text);
                self.report.unreadable.get_or_insert(seq);
            }
            Err(error) => self.report.structure.push(error.to_string()),
        }
    }

    /// Rows in front of the first record there can be: no reader shows them, and no link leads to them.
    fn strays(&mut self, db: &Connection) {
        let found = db.query_row("SELECT max(seq) FROM records WHERE seq < 1", [], |row| {
            row.get::<_, Option<i64>>(0)
        });
        // One that cannot be told is no row to read either: whoever reads them says so.
        if let Ok(Some(seq)) = found {
            let text = format!("row {seq} is none of the log's: its first record is 1");
            self.report.structure.push(text);
        }
    }

    fn unreadable(&mut self, problem: String) {
        self.report.structure.push(problem);
        self.report.unreadable = Some(self.expected());
    }

    fn rows(&mut self, db: &Connection, judges: &mut Judges) {
        if self.is_over() || self.report.unreadable.is_some() {
            return;
        }
        let after = self.expected() - 1;
        let read = self.read_rows(db, after, judges);
        // Whatever was read before a failure is judged first: a break there comes earlier.
        while let Some(batch) = judges.take_back() {
            self.push_batch(&batch);
        }
        if self.is_over() || self.report.unreadable.is_some() {
            return;
        }
        if let Err(error) = read {
            let is_damaged = is_damage(&error);
            self.report.is_database_damaged |= is_damaged;
            let word = if is_damaged { "damaged" } else { "failing" };
            self.unreadable(format!("the database is {word}: {error}"));
        }
    }

    /// Reads on until the end or the first break; what is still with the judges is not pushed yet.
    fn read_rows(
        &mut self,
        db: &Connection,
        after: u64,
        judges: &mut Judges,
    ) -> rusqlite::Result<()> {
        let mut statement =
            db.prepare("SELECT seq, stored FROM records WHERE seq > ?1 ORDER BY seq")?;
        let mut rows = statement.query([after.cast_signed()])?;
        let mut batch = judges.empty();
        let mut goes_on = true;
        let read = loop {
            match next_row(&mut rows, &mut batch) {
                Ok(true) if !batch.is_full() => {}
                Ok(true) => {
                    if let Some(judged) = judges.hand_in(batch) {
                        goes_on = self.push_batch(&judged);
                        judges.recycle(judged);
                    }
                    batch = judges.empty();
                    if !goes_on {
                        break Ok(());
                    }
                }
                Ok(false) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        if goes_on
            && !batch.is_empty()
            && let Some(judged) = judges.hand_in(batch)
        {
            self.push_batch(&judged);
        }
        read
    }

    /// Checks the records of a batch in order; false once nothing more can be learnt.
    fn push_batch(&mut self, batch: &Batch) -> bool {
        if self.is_over() || self.report.unreadable.is_some() {
            return false;
        }
        batch
            .records()
            .all(|(seq, stored, link)| self.push_row(seq, stored, link))
    }

    fn push_row(&mut self, seq: u64, stored: &[u8], link: Option<Link>) -> bool {
        let expected = self.expected();
        // Without a link the verifier looks at everything itself, and says what is wrong.
        let holds = match link {
            Some(link) => self.push_link(&link),
            None => self.push(stored),
        };
        if !holds {
            return false;
        }
        if seq != expected {
            // The chain holds, but the table finds the record under another number.
            let text = format!("row {seq} holds record {expected}");
            self.report.structure.push(text);
            self.report.unreadable = Some(expected);
            return false;
        }
        true
    }

    fn finish(mut self) -> VerifyReport {
        let chain = match (self.broken.take(), self.verifier.take()) {
            (Some(broken), _) => Err(broken),
            (None, Some(verifier)) => verifier.finish(),
            (None, None) => Err(Break::Origin { log: self.log }),
        };
        let another = chain.as_ref().err().and_then(unexpected_key);
        if let Some(key) = another {
            self.report.saw_key(key);
        }
        let unexplained = self.start.seq > 0 && !self.explained;
        let start = self.start.seq;
        let early = self.given.partition_point(|seq| *seq < start);
        // Where the start is explained, the pins are merely older than what is kept.
        let chain = match self.given.first() {
            Some(&checkpoint) if early > 0 && unexplained => {
                chain.and(Err(Break::Unmet { start, checkpoint }))
            }
            Some(_) | None => chain,
        };
        VerifyReport {
            log: self.log,
            chain,
            structure: self.report.structure,
            unreadable: self.report.unreadable,
            unexplained_start: unexplained.then_some(self.start),
            bad_checkpoints: self.report.bad_checkpoints,
            expected_keys: self.report.expected_keys,
            other_keys: self.report.other_keys,
            kept_by_others: self.report.kept_by_others,
            is_database_damaged: self.report.is_database_damaged,
            deleted_pins: if unexplained { 0 } else { early as u64 },
            archives: self.report.archives,
        }
    }
}

/// The key of the checkpoint at which the chain breaks, if it is whole and that is all.
fn unexpected_key(broken: &Break) -> Option<PublicKey> {
    match broken {
        Break::BadCheckpoint {
            error: CheckpointError::UnexpectedKey { key, .. },
            ..
        } => Some(*key),
        Break::BadCheckpoint { .. }
        | Break::Origin { .. }
        | Break::Unreadable { .. }
        | Break::Undecodable { .. }
        | Break::Edited { .. }
        | Break::Gap { .. }
        | Break::Reordered { .. }
        | Break::Unlinked { .. }
        | Break::Truncated { .. }
        | Break::Unmet { .. }
        | Break::Rewritten { .. }
        | Break::OtherLog { .. } => None,
    }
}

/// Adds the next row to `batch`; false at the end.
fn next_row(rows: &mut rusqlite::Rows<'_>, batch: &mut Batch) -> rusqlite::Result<bool> {
    let Some(row) = rows.next()? else {
        return Ok(false);
    };
    let seq = row.get::<_, i64>(0)?.cast_unsigned();
    batch.push(seq, row.get_ref(1)?.as_blob()?);
    Ok(true)
}

/// What SQLite says of the file's structure, if it is not well.
fn check_structure(path: &Path) -> Vec<String> {
    let complaints = open_database(path, Access::Read)
        .map_err(|error| error.to_string())
        .and_then(|mut db| complaints(&mut db).map_err(|error| error.to_string()));
    match complaints {
        Ok(complaints) => complaints,
        Err(error) => vec![error],
    }
}

/// Each page is read once and in order: more than a processor's cache holds only slows that down.
fn small_cache(db: &Connection) -> rusqlite::Result<()> {
    db.pragma_update(None, "cache_size", CACHE_PAGES)
}

/// Has SQLite check every page, and then the rows of `meta`.
///
/// Its check of the whole database goes through the pages first - the trees, the order of their
/// keys, free pages, pages used twice - and says what it found before it reads all rows once more,
/// to compare their types with the schema. The walk sees every row of `records` with its type, so
/// that second part is called off; `meta` is small and checked to the end.
fn complaints(db: &mut Connection) -> rusqlite::Result<Vec<String>> {
    small_cache(db)?;
    let mut found = tree_complaints(db)?;
    found.extend(answers(db, "PRAGMA integrity_check(meta)")?);
    found.truncate(COMPLAINTS);
    Ok(found)
}

fn tree_complaints(db: &mut Connection) -> rusqlite::Result<Vec<String>> {
    let pages: i64 = db.pragma_query_value(None, "page_count", |row| row.get(0))?;
    // SQLite makes two steps for each page, and two for each that it complains about: whoever has
    // made more is among the rows. A database of more steps than it can count is read to the end.
    let steps = pages.saturating_mul(2).saturating_add(ROW_STEPS);
    let limit = i32::try_from(steps).ok();
    db.progress_handler(limit.unwrap_or(0), limit.map(|_| || true))?;
    let found = answers(db, "PRAGMA integrity_check(20)");
    db.progress_handler(0, None::<fn() -> bool>)?;
    found
}

/// What a check answers other than that all is well, until it ends or is called off.
fn answers(db: &Connection, check: &str) -> rusqlite::Result<Vec<String>> {
    let mut statement = db.prepare(check)?;
    let mut rows = statement.query([])?;
    let mut answers = Vec::new();
    loop {
        match rows.next() {
            Ok(Some(row)) => answers.push(row.get::<_, String>(0)?),
            Ok(None) => break,
            Err(error) if was_called_off(&error) => break,
            Err(error) => return Err(error),
        }
    }
    answers.retain(|answer| answer != "ok");
    Ok(answers)
}

fn was_called_off(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted)
}

fn differing_copy(
    db: &Connection,
    segments: &Path,
    archived: u64,
) -> Result<Option<u64>, ReadError> {
    let mut statement =
        db.prepare("SELECT seq, stored FROM records WHERE seq <= ?1 ORDER BY seq")?;
    let mut rows = statement.query([archived.cast_signed()])?;
    let mut names = list_segments(segments)?.into_iter();
    let mut block = Vec::<Vec<u8>>::new().into_iter();
    let mut segment: Option<(Segment, usize)> = None;
    while let Some(row) = rows.next()? {
        let seq = row.get::<_, i64>(0)?.cast_unsigned();
        let stored = row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?;
        // Both sides ascend, so one pass over the archives is enough.
        let copy = loop {
            match block.next() {
                Some(copy) if number(&copy) < seq => {}
                Some(copy) => break Some(copy),
                None => match &mut segment {
                    Some((open, next)) if *next < open.blocks() => {
                        block = open.block(*next)?.into_iter();
                        *next += 1;
                    }
                    _ => match names.find(|name| name.last >= seq) {
                        Some(name) => {
                            let open = Segment::open(&name.path)?;
                            let first = open.block_of(seq);
                            segment = Some((open, first));
                        }
                        None => break None,
                    },
                },
            }
        };
        if copy.as_deref() != Some(stored) {
            return Ok(Some(seq));
        }
    }
    Ok(None)
}

fn number(stored: &[u8]) -> u64 {
    Stored::parse(stored).map_or(0, |record| record.seq)
}

fn open_segments(layout: &Layout, report: &mut Findings) -> Result<Vec<Segment>, OpenError> {
    let names = list_segments(&layout.segments()).map_err(|error| OpenError::Damaged {
        path: layout.segments(),
        detail: error.to_string(),
    })?;
    let mut segments = Vec::with_capacity(names.len());
    for name in names {
        match Segment::open(&name.path) {
            Ok(segment) => segments.push(segment),
            // Deleted by maintenance since it was listed.
            Err(SegmentError::Io { source, .. })
                if source.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => {
                report.structure.push(error.to_string());
                report.unreadable.get_or_insert(name.first);
            }
        }
    }
    Ok(segments)
}

/// Whether the record says that everything up to `start` was deleted.
fn explains(stored: &[u8], start: &Head) -> bool {
    let Ok(record) = Stored::parse(stored) else {
        return false;
    };
    if encoding::event_of(record.body) != Some(EventType::AuditArchiveDeleted) {
        return false;
    }
    encoding::decode(record.body).is_ok_and(|entry| {
        entry
            .metadata
            .get("last")
            .is_some_and(|last| *last == start.seq.to_string())
            && entry
                .metadata
                .get("head")
                .is_some_and(|head| *head == start.digest.to_string())
    })
}
