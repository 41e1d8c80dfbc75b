//! Somebody edits the log, or cuts off its tail. Both on a copy; both caught.

use super::scene::Scene;
use crate::failure::{Failure, Kind};
use airlock_audit::{Depth, SignedCheckpoint, VerifyOptions, VerifyReport, verify_database};
use airlock_kernel::StateDir;
use std::fs;
use std::io;
use std::path::Path;

pub(super) fn show(
    scene: &mut Scene<'_>,
    state: &StateDir,
    checkpoint: &SignedCheckpoint,
    room: &Path,
) -> Result<(), Failure> {
    scene.title("The log proves itself");
    let report = verify(state.path(), None)?;
    let records = report.chain.as_ref().map_or(0, |verified| verified.records);
    scene.result(
        report.is_intact(),
        &format!("{records} records, chain whole"),
    );

    scene.title("Somebody rewrites a denial in a copy of it");
    let edited = room.join("edited");
    copy(state.path(), &edited).map_err(|error| failed(&error))?;
    let changed = replace_in(&edited.join("audit.db"), b".env", b".enx").map_err(|e| failed(&e))?;
    let report = verify(&edited, None)?;
    let caught = changed && !report.is_intact() && report.first_bad().is_some();
    let text = report.first_bad().map_or_else(
        || "not noticed".to_owned(),
        |seq| format!("caught: record {seq} is not what was sealed"),
    );
    scene.result(caught, &text);

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
    scene.result(report.chain.is_err(), &text);
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
    Failure::new(Kind::Failed, "the demo cannot copy its log").why(error)
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// Overwrites the last occurrence of `old` in the file; both have one length.
fn replace_in(path: &Path, old: &[u8], new: &[u8]) -> io::Result<bool> {
    let mut bytes = fs::read(path)?;
    let found = bytes.windows(old.len()).rposition(|window| window == old);
    let Some(place) = found.and_then(|at| bytes.get_mut(at..at + old.len())) else {
        return Ok(false);
    };
    place.copy_from_slice(new);
    fs::write(path, bytes)?;
    Ok(true)
}
