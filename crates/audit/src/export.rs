//! Takes records out of the log: JSON Lines to verify elsewhere, CSV and OCSF for other tools.
//!
//! Only JSON Lines can be verified: the verifier rebuilds every record's canonical bytes from the
//! fields it shows, and each line has one spelling, so no byte of an export can change unnoticed.
//! CSV and OCSF leave fields out and prove nothing. Everything streams, both ways.

mod csv;
mod jsonl;
mod ocsf;
mod read;
mod spelling;
mod write;

pub use jsonl::ExportHeader;
pub use read::{ExportBreak, verify_export};
pub use write::{ExportError, ExportFormat, Exporter};
