//! Whole arguments and results, where the policy says `audit.keep_content`.
//!
//! The log keeps summaries; a record that has more names it by its digest, and the digest is the name
//! of a file in the state directory. Kept is what the log and the caller may see: secrets are out.
//!
//! Guarantee: [`read`] gives back what the record was sealed with, or nothing. Non-guarantee: that it
//! is still there. Contents are forgotten with the archives' age and size, and like outcomes nobody
//! waits for the disk with them.

use airlock_audit::Retention;
use airlock_core::Digest;
use std::fs::{DirBuilder, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Below the state directory.
const DIRECTORY: &str = "contents";

/// The longest content that is kept: a call's arguments and results are far shorter.
const MOST: u64 = 64 * 1024 * 1024;

/// Keeps `value`, and says under which digest.
pub(crate) fn keep(state: &Path, value: &serde_json::Value) -> io::Result<Digest> {
    keep_in(&state.join(DIRECTORY), value.to_string().as_bytes())
}

/// What was kept under `digest`; an error if it is gone, or is something else by now.
pub(crate) fn read(state: &Path, digest: Digest) -> io::Result<String> {
    read_in(&state.join(DIRECTORY), digest, None)
}

/// Forgets what is older than the log's archives may be, and the oldest while there is more than the
/// log may have.
pub(crate) fn forget(state: &Path, retention: Retention) -> io::Result<()> {
    let age = Duration::from_secs(u64::from(retention.days) * 24 * 60 * 60);
    forget_in(&state.join(DIRECTORY), age, retention.bytes).map(drop)
}

/// Keeps `bytes` in `directory`, which is made if need be.
pub(crate) fn keep_in(directory: &Path, bytes: &[u8]) -> io::Result<Digest> {
    let digest = Digest::of(bytes);
    let path = directory.join(digest.to_string());
    if bytes.len() as u64 > MOST {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    if let Ok(kept) = File::options().write(true).open(&path) {
        // It is wanted for as long as this record is.
        kept.set_modified(SystemTime::now())?;
        return Ok(digest);
    }
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)?;
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    file.write_all(bytes)?;
    file.persist(&path).map_err(|error| error.error)?;
    Ok(digest)
}

/// What was kept in `directory`; an error also if it is older than `age`.
pub(crate) fn read_in(
    directory: &Path,
    digest: Digest,
    age: Option<Duration>,
) -> io::Result<String> {
    let mut bytes = Vec::new();
    let file = File::open(directory.join(digest.to_string()))?;
    let oldest = age.and_then(|age| SystemTime::now().checked_sub(age));
    let modified = file.metadata()?.modified()?;
    if oldest.is_some_and(|oldest| modified < oldest) {
        return Err(io::ErrorKind::NotFound.into());
    }
    file.take(MOST + 1).read_to_end(&mut bytes)?;
    if Digest::of(&bytes) != digest {
        let what = "the file is not what was recorded";
        return Err(io::Error::new(io::ErrorKind::InvalidData, what));
    }
    String::from_utf8(bytes).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// Forgets what in `directory` is older than `age`, and the oldest while there is more than `most`
/// bytes. So many are left.
pub(crate) fn forget_in(directory: &Path, age: Duration, most: u64) -> io::Result<u64> {
    let oldest = SystemTime::now().checked_sub(age);
    let mut kept = Vec::new();
    let listed = match std::fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        listed => listed?,
    };
    for entry in listed {
        let entry = entry?;
        let facts = match entry.metadata() {
            // Somebody else forgot it meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            facts => facts?,
        };
        kept.push((facts.modified()?, facts.len(), entry.path()));
    }
    kept.sort();
    let mut bytes: u64 = kept.iter().map(|(_, length, _)| length).sum();
    for (modified, length, path) in kept {
        let too_old = oldest.is_some_and(|oldest| modified < oldest);
        if !too_old && bytes <= most {
            break;
        }
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => bytes -= length,
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn place(state: &Path, digest: Digest) -> std::path::PathBuf {
        state.join(DIRECTORY).join(digest.to_string())
    }

    #[test]
    fn what_is_kept_reads_back_until_it_is_changed_too_old_or_too_much() {
        let place_ = tempfile::tempdir().unwrap();
        let state = place_.path();
        let (first, second) = (json!({ "text": "a".repeat(600) }), json!("other"));
        let kept = keep(state, &first).unwrap();
        assert_eq!(keep(state, &first).unwrap(), kept);
        assert_eq!(read(state, kept).unwrap(), first.to_string());
        let other = keep(state, &second).unwrap();
        let aged = |digest, days: u64| {
            let file = File::options().write(true).open(place(state, digest));
            let age = Duration::from_secs(days * 24 * 60 * 60);
            file.unwrap().set_modified(SystemTime::now() - age).unwrap();
        };
        aged(kept, 89);
        forget(state, Retention::default()).unwrap();
        assert!(read(state, kept).is_ok(), "not yet");
        let small = Retention {
            bytes: 300,
            ..Retention::default()
        };
        forget(state, small).unwrap();
        assert!(read(state, kept).is_err() && read(state, other).is_ok());
        std::fs::write(place(state, other), "\"othes\"").unwrap();
        let error = read(state, other).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        aged(other, 91);
        forget(state, Retention::default()).unwrap();
        let gone = read(state, other).unwrap_err();
        assert_eq!(gone.kind(), io::ErrorKind::NotFound);
    }
}
