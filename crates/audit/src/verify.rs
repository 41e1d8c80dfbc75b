//! Checks a chain record by record. Pure, streaming: memory does not grow with the log.
//!
//! Finds every edit, gap, reordering and insertion, and names the first bad record. Against a
//! pinned checkpoint it also finds a cut-off tail and a chain written anew; without one it cannot,
//! because such a log is whole in itself. Checkpoints recorded in the chain are checked as they
//! pass, but somebody who rewrites a chain leaves them out: only pins show that.
//!
//! A checkpoint attests something only if its signer is expected: named by the caller, or the
//! signer of a pin. By anybody else it is a break; where nobody is expected it must still agree
//! with the chain, but attests nothing.
//!
//! Invariant: after the first [`Break`] a [`Verifier`] gives no other answer.

use crate::chain::{Head, Link, LogId, Stored, StoredError, are_intact};
use crate::checkpoint::{
    CHECKPOINT_METADATA, Checkpoint, CheckpointError, PublicKey, SignedCheckpoint,
};
use crate::encoding::{self, Checker, DecodeError};
use crate::{Entry, EventType};
use std::collections::VecDeque;

/// Where and how a chain does not hold. The first bad record is [`Break::seq`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Break {
    /// The chain does not begin where this log begins.
    #[error("the chain does not begin at the origin of log `{log}`")]
    Origin {
        /// The log it claims to be.
        log: LogId,
    },
    /// The stored bytes are no record.
    #[error("record {seq} cannot be read")]
    Unreadable {
        /// The record that should stand there.
        seq: u64,
        /// Why.
        #[source]
        error: StoredError,
    },
    /// The digest holds, but the entry is not in canonical form.
    #[error("record {seq} cannot be decoded")]
    Undecodable {
        /// The record.
        seq: u64,
        /// Why.
        #[source]
        error: DecodeError,
    },
    /// The contents do not match the digest.
    #[error("record {seq} was changed after it was sealed")]
    Edited {
        /// The record that should stand there.
        seq: u64,
    },
    /// Records are missing here, or stand further down.
    #[error("record {expected} is missing: record {found} stands in its place")]
    Gap {
        /// The record that should stand there.
        expected: u64,
        /// The record that does.
        found: u64,
    },
    /// A record stands too late: repeated, moved or inserted.
    #[error("record {found} stands where record {expected} should")]
    Reordered {
        /// The record that should stand there.
        expected: u64,
        /// The record that does.
        found: u64,
    },
    /// Whole in itself and rightly numbered, but sealed onto another predecessor.
    #[error("record {seq} does not continue the record before it")]
    Unlinked {
        /// The record.
        seq: u64,
    },
    /// The chain ends before a record that a checkpoint vouches for.
    #[error("the chain ends at record {last}; a checkpoint vouches for record {checkpoint}")]
    Truncated {
        /// The last record there is.
        last: u64,
        /// The record the checkpoint is about.
        checkpoint: u64,
    },
    /// The chain begins after a record that a pin vouches for, so it cannot be held against it.
    #[error(
        "the chain begins after record {start}; a pinned checkpoint is about record {checkpoint}"
    )]
    Unmet {
        /// The record before the first.
        start: u64,
        /// The record the pin is about.
        checkpoint: u64,
    },
    /// A checkpoint states another head: this is not the chain that was signed.
    #[error("the chain was rewritten: a signed checkpoint states another record {checkpoint}")]
    Rewritten {
        /// The record the checkpoint is about; the change is there or before.
        checkpoint: u64,
    },
    /// A checkpoint is damaged, forged or signed by an unexpected key.
    #[error("the checkpoint at record {seq} is not valid")]
    BadCheckpoint {
        /// The record that holds the checkpoint, or that it is about.
        seq: u64,
        /// Why.
        #[source]
        error: CheckpointError,
    },
    /// A valid checkpoint of another log.
    #[error("the checkpoint at record {seq} belongs to log `{log}`")]
    OtherLog {
        /// The record that holds the checkpoint, or that it is about.
        seq: u64,
        /// The log it belongs to.
        log: LogId,
    },
}

impl Break {
    /// The first record that is bad or missing; 0 means the origin.
    pub const fn seq(&self) -> u64 {
        match self {
            Self::Origin { .. } => 0,
            Self::Unreadable { seq, .. }
            | Self::Undecodable { seq, .. }
            | Self::Edited { seq }
            | Self::Unlinked { seq }
            | Self::BadCheckpoint { seq, .. }
            | Self::OtherLog { seq, .. } => *seq,
            Self::Gap { expected, .. } | Self::Reordered { expected, .. } => *expected,
            Self::Truncated { last, .. } => last.saturating_add(1),
            Self::Rewritten { checkpoint } | Self::Unmet { checkpoint, .. } => *checkpoint,
        }
    }

    /// One word for the kind of break, the same in every verifier of this format.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Origin { .. } => "origin",
            Self::Unreadable { .. } => "unreadable",
            Self::Undecodable { .. } => "undecodable",
            Self::Edited { .. } => "edited",
            Self::Gap { .. } => "gap",
            Self::Reordered { .. } => "reordered",
            Self::Unlinked { .. } => "unlinked",
            Self::Truncated { .. } => "truncated",
            Self::Unmet { .. } => "unmet",
            Self::Rewritten { .. } => "rewritten",
            Self::BadCheckpoint { .. } => "bad_checkpoint",
            Self::OtherLog { .. } => "other_log",
        }
    }

    /// What to do about it.
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::Origin { .. } | Self::OtherLog { .. } => {
                "check that log, archive and checkpoints belong together"
            }
            Self::Unreadable { .. }
            | Self::Undecodable { .. }
            | Self::Edited { .. }
            | Self::Gap { .. }
            | Self::Reordered { .. }
            | Self::Unlinked { .. } => {
                "trust nothing from this record on; compare with an archive or a backup"
            }
            Self::Truncated { .. } | Self::Rewritten { .. } => {
                "trust nothing in this log; compare with an archive or a backup"
            }
            Self::Unmet { .. } => {
                "verify an export that begins before the pin, or pin a later checkpoint"
            }
            Self::BadCheckpoint { .. } => "check which key you expect, and who could use it",
        }
    }
}

/// How closely to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// Digests, numbers, links and checkpoints: everything that proves integrity.
    Digests,
    /// The same, and every entry must decode.
    Entries,
}

/// What the verifier may rely on: keys to expect and checkpoints kept elsewhere.
#[derive(Debug, Clone, Default)]
pub struct Trust {
    keys: Vec<PublicKey>,
    pins: Vec<SignedCheckpoint>,
}

impl Trust {
    /// Expects signatures by one of `keys` (by a signer of `pins`, if there are none) and the chain
    /// to agree with every one of `pins`. Fails if a pin is itself signed by an unexpected key.
    pub fn new(
        mut keys: Vec<PublicKey>,
        mut pins: Vec<SignedCheckpoint>,
    ) -> Result<Self, CheckpointError> {
        for pin in &pins {
            pin.check_signer(&keys)?;
        }
        if keys.is_empty() {
            keys.extend(pins.iter().map(|pin| pin.checkpoint().key));
        }
        pins.sort_by_key(|pin| pin.checkpoint().seq);
        Ok(Self { keys, pins })
    }

    /// The same, but if nobody is expected yet, expects `key`.
    pub(crate) fn or_key(mut self, key: Option<PublicKey>) -> Self {
        if self.keys.is_empty() {
            self.keys.extend(key);
        }
        self
    }
}

/// What held, from where to where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Verified {
    /// The head before the first record.
    pub start: Head,
    /// The head after the last.
    pub head: Head,
    /// Records checked.
    pub records: u64,
    /// Checkpoints that agreed with the chain, pinned, recorded and appended ones together.
    pub checkpoints: u64,
    /// The last of these by an expected key: the tail after it could be cut off unnoticed.
    pub attested: Option<Checkpoint>,
    /// Pins over records before the start: nothing here could be held against them. Only a log on
    /// disk may have such, its own from before records were deleted.
    pub pins_before_start: u64,
}

/// Checks records one after another.
#[derive(Debug)]
pub struct Verifier {
    log: LogId,
    depth: Depth,
    keys: Vec<PublicKey>,
    /// Ascending, all of them over records that have not passed yet.
    pins: VecDeque<SignedCheckpoint>,
    /// The pin that was met last; the chain's own copy of it needs no second look at the signature.
    met: Option<SignedCheckpoint>,
    checker: Checker,
    so_far: Verified,
    broken: Option<Break>,
}

impl Verifier {
    /// A verifier of `log` for the records after `start`, which is [`Head::genesis`] or the head
    /// of the part verified before. A pin over an earlier record is a break.
    pub fn new(log: LogId, start: Head, depth: Depth, trust: Trust) -> Result<Self, Break> {
        let verifier = Self::begin(log, start, depth, trust)?;
        verifier.check_pins_reach_start()?;
        verifier.meeting_pins()
    }

    /// The same, but passes over pins before `start`: whether they may be is for the caller to say.
    pub(crate) fn resume(
        log: LogId,
        start: Head,
        depth: Depth,
        trust: Trust,
    ) -> Result<Self, Break> {
        let mut verifier = Self::begin(log, start, depth, trust)?;
        verifier.skip_pins_before_start();
        verifier.meeting_pins()
    }

    fn begin(log: LogId, start: Head, depth: Depth, trust: Trust) -> Result<Self, Break> {
        if start.seq == 0 && start != Head::genesis(&log) {
            return Err(Break::Origin { log });
        }
        let verifier = Self {
            log,
            depth,
            keys: trust.keys,
            pins: trust.pins.into(),
            met: None,
            checker: Checker::default(),
            so_far: Verified {
                start,
                head: start,
                records: 0,
                checkpoints: 0,
                attested: None,
                pins_before_start: 0,
            },
            broken: None,
        };
        verifier.check_pinned_logs()?;
        Ok(verifier)
    }

    fn meeting_pins(mut self) -> Result<Self, Break> {
        self.meet_pins()?;
        Ok(self)
    }

    /// The head so far.
    pub const fn head(&self) -> Head {
        self.so_far.head
    }

    /// Checks the next stored record.
    pub fn push(&mut self, stored: &[u8]) -> Result<(), Break> {
        self.guarded(|verifier| {
            let seq = verifier.expected();
            let record = Stored::parse(stored).map_err(|error| Break::Unreadable { seq, error })?;
            verifier.check_link(&record)?;
            if verifier.depth == Depth::Entries {
                let checked = verifier.checker.check(record.body);
                checked.map_err(|error| Break::Undecodable { seq, error })?;
            }
            verifier.accept_stored(&record)
        })
    }

    /// Checks the place of the next record, whose contents are sound and ask for nothing else.
    ///
    /// INVARIANT: [`Soundness::links`] gave the link, at the depth of this verifier.
    pub(crate) fn push_link(&mut self, link: &Link) -> Result<(), Break> {
        self.guarded(|verifier| {
            verifier.check_place(link)?;
            verifier.move_on(link.head)
        })
    }

    /// Checks the next record, whose entry the caller decoded already.
    pub(crate) fn push_decoded(&mut self, record: &Stored<'_>, entry: &Entry) -> Result<(), Break> {
        self.guarded(|verifier| {
            verifier.check_link(record)?;
            verifier.accept(record, Some(entry))
        })
    }

    /// Checks a checkpoint about the record that was pushed last.
    pub fn push_checkpoint(&mut self, signed: &SignedCheckpoint) -> Result<(), Break> {
        self.guarded(|verifier| {
            let seq = verifier.so_far.head.seq;
            verifier.attest(seq, signed, verifier.so_far.head)
        })
    }

    /// The verdict, once every record was pushed: a pin beyond the last one means a cut-off tail.
    pub fn finish(mut self) -> Result<Verified, Break> {
        if let Some(broken) = self.broken.take() {
            return Err(broken);
        }
        match self.pins.back() {
            Some(pin) => Err(Break::Truncated {
                last: self.so_far.head.seq,
                checkpoint: pin.checkpoint().seq,
            }),
            None => Ok(self.so_far),
        }
    }

    const fn expected(&self) -> u64 {
        self.so_far.head.seq.saturating_add(1)
    }

    /// Runs one check unless the chain is broken already, and remembers if it broke.
    fn guarded(&mut self, check: impl FnOnce(&mut Self) -> Result<(), Break>) -> Result<(), Break> {
        if let Some(broken) = &self.broken {
            return Err(broken.clone());
        }
        let result = check(self);
        self.broken = result.as_ref().err().cloned();
        result
    }

    /// Moves on to a record that fits, once the checkpoint it may hold agrees.
    fn accept(&mut self, record: &Stored<'_>, entry: Option<&Entry>) -> Result<(), Break> {
        if let Some(entry) = entry
            && entry.event == EventType::Checkpoint
        {
            // It is about the record before it.
            self.check_recorded(record.seq, entry, self.so_far.head)?;
        }
        self.move_on(record.head())
    }

    fn move_on(&mut self, head: Head) -> Result<(), Break> {
        self.so_far.head = head;
        self.so_far.records += 1;
        self.meet_pins()
    }

    /// Decodes the entry if it is the verifier's business, and moves on.
    fn accept_stored(&mut self, record: &Stored<'_>) -> Result<(), Break> {
        if encoding::event_of(record.body) != Some(EventType::Checkpoint) {
            return self.accept(record, None);
        }
        let seq = record.seq;
        let entry = encoding::decode(record.body);
        let entry = entry.map_err(|error| Break::Undecodable { seq, error })?;
        self.accept(record, Some(&entry))
    }

    /// Digest first: a record that is not intact says nothing about its place.
    fn check_link(&self, record: &Stored<'_>) -> Result<(), Break> {
        if !record.is_intact() {
            return Err(Break::Edited {
                seq: self.expected(),
            });
        }
        self.check_place(&record.link())
    }

    fn check_place(&self, link: &Link) -> Result<(), Break> {
        let (expected, found) = (self.expected(), link.head.seq);
        match found.cmp(&expected) {
            std::cmp::Ordering::Greater => Err(Break::Gap { expected, found }),
            std::cmp::Ordering::Less => Err(Break::Reordered { expected, found }),
            std::cmp::Ordering::Equal if link.previous != self.so_far.head.digest => {
                Err(Break::Unlinked { seq: expected })
            }
            std::cmp::Ordering::Equal => Ok(()),
        }
    }

    fn check_recorded(&mut self, seq: u64, entry: &Entry, about: Head) -> Result<(), Break> {
        let text = entry.metadata.get(CHECKPOINT_METADATA);
        let text = text.map_or("", String::as_str);
        let known = self.met.filter(|met| met.to_string() == text);
        let signed = known.map_or_else(|| text.parse(), Ok);
        let signed = signed.map_err(|error| Break::BadCheckpoint { seq, error })?;
        self.attest(seq, &signed, about)
    }

    /// Holds a checkpoint found at record `seq` against the head it should be about.
    fn attest(&mut self, seq: u64, signed: &SignedCheckpoint, about: Head) -> Result<(), Break> {
        let checkpoint = *signed.checkpoint();
        if checkpoint.log != self.log {
            let log = checkpoint.log;
            return Err(Break::OtherLog { seq, log });
        }
        signed
            .check_signer(&self.keys)
            .map_err(|error| Break::BadCheckpoint { seq, error })?;
        if signed.head() != about {
            return Err(Break::Rewritten {
                checkpoint: about.seq,
            });
        }
        self.so_far.checkpoints += 1;
        if !self.keys.is_empty() {
            self.so_far.attested = Some(checkpoint);
        }
        Ok(())
    }

    fn check_pinned_logs(&self) -> Result<(), Break> {
        let mut pinned = self.pins.iter().map(SignedCheckpoint::checkpoint);
        match pinned.find(|checkpoint| checkpoint.log != self.log) {
            Some(&Checkpoint { seq, log, .. }) => Err(Break::OtherLog { seq, log }),
            None => Ok(()),
        }
    }

    fn check_pins_reach_start(&self) -> Result<(), Break> {
        let start = self.so_far.start.seq;
        match self.pins.front().map(|pin| pin.checkpoint().seq) {
            Some(checkpoint) if checkpoint < start => Err(Break::Unmet { start, checkpoint }),
            Some(_) | None => Ok(()),
        }
    }

    fn skip_pins_before_start(&mut self) {
        let start = self.so_far.head.seq;
        let before = |pin: &mut SignedCheckpoint| pin.checkpoint().seq < start;
        while self.pins.pop_front_if(before).is_some() {
            self.so_far.pins_before_start += 1;
        }
    }

    fn meet_pins(&mut self) -> Result<(), Break> {
        let head = self.so_far.head;
        while let Some(pin) = self
            .pins
            .pop_front_if(|pin| pin.checkpoint().seq == head.seq)
        {
            self.attest(head.seq, &pin, head)?;
            self.met = Some(pin);
        }
        Ok(())
    }
}

/// Records that are looked at together.
pub(crate) const TOGETHER: usize = 4;

/// Says of one record after another whether its contents are sound, whatever its place: so far
/// apart from the chain that several threads can share the work.
#[derive(Debug)]
pub(crate) struct Soundness {
    depth: Depth,
    checker: Checker,
}

impl Soundness {
    pub(crate) fn new(depth: Depth) -> Self {
        Self {
            depth,
            checker: Checker::default(),
        }
    }

    /// The links of some records, where each is nothing but a link: it can be read, its digest is
    /// right, its entry is what `depth` asks for, and it says nothing about the chain itself.
    pub(crate) fn links(&mut self, stored: [&[u8]; TOGETHER]) -> [Option<Link>; TOGETHER] {
        let parsed = stored.map(|stored| Stored::parse(stored).ok());
        let [Some(one), Some(two), Some(three), Some(four)] = parsed else {
            return parsed.map(|record| {
                let record = record?;
                self.link_if(record.is_intact(), &record)
            });
        };
        let records = [one, two, three, four];
        let mut intact = are_intact(&records).into_iter();
        records.map(|record| self.link_if(intact.next().unwrap_or(false), &record))
    }

    fn link_if(&mut self, intact: bool, record: &Stored<'_>) -> Option<Link> {
        let sound =
            intact && (self.depth == Depth::Digests || self.checker.check(record.body).is_ok());
        let of_chain = || {
            matches!(
                encoding::event_of(record.body),
                Some(EventType::Checkpoint | EventType::AuditArchiveDeleted)
            )
        };
        (sound && !of_chain()).then(|| record.link())
    }
}
