//! What was found out, kept until it may have changed.
//!
//! A record counts only for the boot, kernel, program and user it was made by. One that is damaged,
//! too large, a link, or that anybody else could have written is as good as none: the machine is
//! then probed again.

use super::feature::Findings;
use crate::kept;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What a record holds for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheKey {
    boot: String,
    release: String,
    program: String,
    user: u32,
}

#[derive(Deserialize)]
struct Record {
    key: CacheKey,
    findings: Findings,
}

#[derive(Serialize)]
struct RecordOf<'a> {
    key: &'a CacheKey,
    findings: &'a Findings,
}

impl CacheKey {
    /// That of now, for `program`.
    pub fn now(program: &Path) -> io::Result<Self> {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
        let release = rustix::system::uname();
        let metadata = fs::metadata(program)?;
        let program = format!(
            "{}:{}:{}:{}.{}",
            metadata.dev(),
            metadata.ino(),
            metadata.len(),
            metadata.mtime(),
            metadata.mtime_nsec()
        );
        Ok(Self {
            boot: boot.trim().to_owned(),
            release: release.release().to_string_lossy().into_owned(),
            program,
            user: rustix::process::geteuid().as_raw(),
        })
    }
}

/// What the record in `file` says, if it holds for `key`.
pub fn cached(file: &Path, key: &CacheKey) -> Option<Findings> {
    let bytes = kept::read(file, key.user)?;
    let record: Record = serde_json::from_slice(&bytes).ok()?;
    (record.key == *key).then_some(record.findings)
}

/// Keeps `findings` in `file`, whole or not at all.
pub fn remember(file: &Path, key: &CacheKey, findings: &Findings) -> io::Result<()> {
    let bytes = serde_json::to_vec(&RecordOf { key, findings })?;
    kept::write(file, &bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kept::MOST;
    use crate::linux::probe::feature::{Feature, Finding, Rung, State, Step};
    use std::os::unix::fs::PermissionsExt;

    fn findings() -> Findings {
        Findings {
            findings: vec![Finding {
                feature: Feature::Landlock,
                state: State::Limited,
                how: "looked".to_owned(),
                fix: None,
            }],
            rung: Some(Step::Native),
            ladder: vec![Rung {
                launcher: Step::Native,
                state: State::Works,
                reason: "it held".to_owned(),
            }],
        }
    }

    fn key() -> CacheKey {
        CacheKey::now(&std::env::current_exe().unwrap()).unwrap()
    }

    #[test]
    fn a_record_comes_back_for_its_own_key_alone() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("doctor.json");
        assert_eq!(cached(&file, &key()), None);
        remember(&file, &key(), &findings()).unwrap();
        assert_eq!(cached(&file, &key()), Some(findings()));
        let changed: [fn(&mut CacheKey); 4] = [
            |key| key.boot.push('x'),
            |key| key.release.push('x'),
            |key| key.program.push('x'),
            |key| key.user += 1,
        ];
        for change in changed {
            let mut other = key();
            change(&mut other);
            assert_eq!(cached(&file, &other), None, "{other:?}");
        }
        let left = fs::read_dir(directory.path()).unwrap().count();
        assert_eq!(left, 1, "nothing else is left behind");
    }

    #[test]
    fn what_is_damaged_or_could_be_anybody_elses_is_ignored() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("doctor.json");
        remember(&file, &key(), &findings()).unwrap();
        let whole = fs::read(&file).unwrap();
        for bad in [&b""[..], b"{}", b"\xff\xfe", &whole[..whole.len() - 1]] {
            fs::write(&file, bad).unwrap();
            assert_eq!(cached(&file, &key()), None);
        }
        let mut large = whole.clone();
        large.resize(usize::try_from(MOST).unwrap() + 1, b' ');
        fs::write(&file, large).unwrap();
        assert_eq!(cached(&file, &key()), None, "too large");
        fs::write(&file, &whole).unwrap();
        assert_eq!(cached(&file, &key()), Some(findings()), "the control");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o620)).unwrap();
        assert_eq!(cached(&file, &key()), None, "others may write it");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert_eq!(cached(&link, &key()), None, "a link");
        assert_eq!(cached(directory.path(), &key()), None, "a directory");
    }
}
