//! The audit log: every attempt and outcome, sealed into a hash chain.
//!
//! The chain, its encoding and its verification are pure; the store keeps sealed records in SQLite.
//! Nothing here decides anything: a writer that cannot write says so, and the kernel refuses.

mod chain;
mod checkpoint;
mod encoding;
mod export;
mod open;
mod query;
mod record;
mod recovery;
mod segment;
mod store;
mod verify;
mod writer;

pub use chain::{
    FrameError, Head, LogId, ParseLogIdError, Sealed, StoredError, read_stored, seal, write_stored,
};
pub use checkpoint::{
    CHECKPOINT_METADATA, Checkpoint, CheckpointError, PublicKey, SignedCheckpoint, SigningKey,
};
pub use encoding::{DecodeError, DecodeProblem, FORMAT_VERSION, MAX_BODY, SealError};
pub use export::{ExportBreak, ExportError, ExportFormat, ExportHeader, Exporter, verify_export};
pub use open::OpenError;
pub use query::{Filter, Record, Records, Stats};
pub use record::{DecisionSummary, Entry, EventType, Stage};
pub use recovery::{RecoveryReport, carve_records, recover};
pub use segment::{MaintainError, MaintenanceReport, ReadError, Retention, SegmentError};
pub use store::{
    Buffering, Clock, Durability, ExportLogError, Exported, Health, Log, LogConfig, OpenReport,
    Receipt, StartupCheck, Ticket, UncleanWriter, UnfinishedAttempt, VerifyError, VerifyOptions,
    VerifyReport, log_stats, read_log, verify_database,
};
pub use verify::{Break, Depth, Trust, Verified, Verifier};
pub use writer::{AppendError, Late, Written};
