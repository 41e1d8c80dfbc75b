//! The passphrase of whoever answers approvals, where policy asks for one.
//!
//! Guarantee: only a salted, memory-hard digest is kept, readable by its owner alone. Non-guarantee:
//! whoever can write that file can put another in its place.

use argon2::Argon2;
use argon2::password_hash::{PasswordHasher, PasswordVerifier, phc::PasswordHash};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Fewer characters than this are guessed too soon.
const SHORTEST: usize = 8;
/// More than this is no passphrase.
const LONGEST: usize = 1_024;
/// A digest is a line.
const FILE_BYTES: u64 = 1_024;

/// Why a passphrase was not set, or does not count.
#[derive(Debug, thiserror::Error)]
pub enum PassphraseError {
    /// None was set.
    #[error("no passphrase is set")]
    Unset,
    /// It is not the one that was set.
    #[error("the passphrase is wrong")]
    Wrong,
    /// Guessed too soon.
    #[error("a passphrase has {SHORTEST} to {LONGEST} characters")]
    Length,
    /// Others could have put it there.
    #[error("`{0}` belongs to somebody else, or others can read or write it")]
    Loose(PathBuf),
    /// It is no digest.
    #[error("`{0}` holds no passphrase")]
    Unreadable(PathBuf),
    /// The file failed.
    #[error("cannot use `{path}`: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

impl PassphraseError {
    /// What would help.
    pub const fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Unset => Some("set one in a terminal: airlock approvals passphrase"),
            Self::Loose(_) | Self::Unreadable(_) => {
                Some("remove the file and set a passphrase anew: airlock approvals passphrase")
            }
            Self::Wrong | Self::Length | Self::Io { .. } => None,
        }
    }
}

/// Where the digest is kept.
#[derive(Debug, Clone)]
pub struct PassphraseFile {
    path: PathBuf,
}

impl PassphraseFile {
    /// In the state home, outside of every workspace: a person has one passphrase.
    pub fn below(state_home: &Path) -> Self {
        Self {
            path: state_home.join("airlock/passphrase"),
        }
    }

    fn io(&self, source: io::Error) -> PassphraseError {
        PassphraseError::Io {
            path: self.path.clone(),
            source,
        }
    }

    /// Whether one was set.
    pub fn is_set(&self) -> bool {
        std::fs::symlink_metadata(&self.path).is_ok()
    }

    /// Whether `text` is it.
    pub fn check(&self, text: &str) -> Result<(), PassphraseError> {
        let kept = self.read()?;
        let kept = PasswordHash::new(kept.trim())
            .map_err(|_| PassphraseError::Unreadable(self.path.clone()))?;
        if text.len() > 4 * LONGEST {
            return Err(PassphraseError::Wrong);
        }
        Argon2::default()
            .verify_password(text.as_bytes(), &kept)
            .map_err(|_| PassphraseError::Wrong)
    }

    /// Replaces it. `old` must be the one before, where there is one.
    pub fn set(&self, old: Option<&str>, new: &str) -> Result<(), PassphraseError> {
        if self.is_set() {
            self.check(old.unwrap_or_default())?;
        }
        if !(SHORTEST..=LONGEST).contains(&new.chars().count()) {
            return Err(PassphraseError::Length);
        }
        let digest = Argon2::default()
            .hash_password(new.as_bytes())
            .map_err(|_| PassphraseError::Length)?
            .to_string();
        let directory = self.path.parent().unwrap_or(Path::new("/"));
        std::os::unix::fs::DirBuilderExt::mode(&mut std::fs::DirBuilder::new(), 0o700)
            .recursive(true)
            .create(directory)
            .map_err(|error| self.io(error))?;
        // Readable by its owner alone from the first moment.
        let mut draft = tempfile::NamedTempFile::new_in(directory).map_err(|e| self.io(e))?;
        writeln!(draft, "{digest}")
            .and_then(|()| draft.as_file().sync_all())
            .map_err(|error| self.io(error))?;
        draft
            .persist(&self.path)
            .map(drop)
            .map_err(|error| self.io(error.error))
    }

    fn read(&self) -> Result<String, PassphraseError> {
        use std::io::Read;
        let nofollow = i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or(0);
        let opened = std::fs::OpenOptions::new()
            .read(true)
            .custom_flags(nofollow)
            .open(&self.path);
        let file = match opened {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(PassphraseError::Unset);
            }
            Err(error) => return Err(self.io(error)),
        };
        let found = file.metadata().map_err(|error| self.io(error))?;
        let mine = found.uid() == rustix::process::geteuid().as_raw();
        if !mine || !found.is_file() || found.permissions().mode() & 0o077 != 0 {
            return Err(PassphraseError::Loose(self.path.clone()));
        }
        let mut text = String::new();
        file.take(FILE_BYTES)
            .read_to_string(&mut text)
            .map_err(|_| PassphraseError::Unreadable(self.path.clone()))?;
        Ok(text)
    }
}
