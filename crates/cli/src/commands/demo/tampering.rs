//! Somebody edits the log, or swaps it for a fresh one. Both on copies; both caught.

use super::scene::Scene;
use crate::failure::{Failure, Kind};
use airlock_audit::{
    Depth, SignedCheckpoint, Trust, VerifyOptions, VerifyReport, verify_database, verify_export,
};
use airlock_kernel::StateDir;
use std::fs;
use std::io;
use std::path::Path;

pub(super) fn show(
    scene: &mut Scene<'_>,
    state: &StateDir,
    export: &[u8],
    checkpoint: &SignedCheckpoint,
    room: &Path,
) -> Result<(), Failure> {
    scene.title("The log proves itself");
    let report = verify(state.path(), None)?;
    let records = report.chain.as_ref().map_or(0, |verified| verified.records);
    scene.holds(
        report.is_intact(),
        &format!("{records} records, chain whole"),
    );

    scene.title("Somebody rewrites a denial in an export of it");
    let honest = verify_export(export, Trust::default());
    let edited = replace(export, b"\".env\"", b"\".enx\"");
    let text = match verify_export(edited.as_slice(), Trust::default()) {
        Ok(_) => None,
        Err(error) => error.seq(),
    };
    let text = text.map(|seq| format!("caught: record {seq} is not what was sealed"));
    let caught = honest.is_ok() && edited != export && text.is_some();
    scene.holds(caught, text.as_deref().unwrap_or("not noticed"));

    scene.title("Somebody throws the log away and starts a fresh one");
    let fresh = room.join("fresh");
    fs::create_dir(&fresh).map_err(|error| failed(&error))?;
    let log = airlock_audit::Log::open(airlock_audit::LogConfig::new(
        &fresh,
        &fresh.join("keys"),
        airlock_kernel::Clock::system().shared(),
    ))
    .map_err(|error| Failure::of(Kind::Failed, &error))?;
    log.close()
        .map_err(|error| Failure::of(Kind::Failed, &error))?;
    let report = verify(&fresh, Some(checkpoint))?;
    let text = match &report.chain {
        Err(error) => format!("caught by the pinned checkpoint: {error}"),
        Ok(_) => "not noticed".to_owned(),
    };
    scene.holds(report.chain.is_err(), &text);
    Ok(())
}

fn verify(directory: &Path, pin: Option<&SignedCheckpoint>) -> Result<VerifyReport, Failure> {
    let options = VerifyOptions {
        keys: Vec::new(),
        pins: pin.copied().into_iter().collect(),
        depth: Depth::Entries,
    };
    verify_database(directory, &directory.join("keys"), &options)
        .map_err(|error| Failure::of(Kind::Failed, &error).maybe_fix(error.hint()))
}

fn failed(error: &io::Error) -> Failure {
    Failure::new(Kind::Failed, "the demo cannot make a fresh log").why(error)
}

/// `bytes` with the first `old` replaced by `new`.
fn replace(bytes: &[u8], old: &[u8], new: &[u8]) -> Vec<u8> {
    let found = bytes.windows(old.len()).position(|window| window == old);
    let Some((before, after)) = found.and_then(|at| bytes.split_at_checked(at)) else {
        return bytes.to_vec();
    };
    [before, new, after.get(old.len()..).unwrap_or_default()].concat()
}
