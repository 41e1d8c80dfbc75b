//! The state directory of a workspace: private, outside the tree, one place for every store.

use std::fs::{DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Why the state directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// It cannot be created or read.
    #[error("cannot use the state directory `{path}`")]
    Io {
        /// The directory.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It belongs to somebody else, who could read or change it.
    #[error("the state directory `{path}` belongs to user {owner}, not to you")]
    ForeignOwner {
        /// The directory.
        path: PathBuf,
        /// Whose it is.
        owner: u32,
    },
    /// It is not a directory.
    #[error("`{path}` is not a directory")]
    NotADirectory {
        /// The path.
        path: PathBuf,
    },
}

impl StateError {
    /// How to mend it.
    pub fn hint(&self) -> String {
        match self {
            Self::Io { .. } => {
                "set XDG_STATE_HOME to a directory you can write, or free some space".to_owned()
            }
            Self::ForeignOwner { .. } | Self::NotADirectory { .. } => {
                "set XDG_STATE_HOME to a directory of your own".to_owned()
            }
        }
    }
}

/// Where a workspace's audit log, keys, backups and stages live.
#[derive(Debug, Clone)]
pub struct StateDir {
    path: PathBuf,
}

impl StateDir {
    /// Creates the directory, private to its owner, or checks that it already is.
    pub(crate) fn create(path: PathBuf) -> Result<Self, StateError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| StateError::Io { path, source }
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&path)
            .map_err(failed(&path))?;
        let metadata = std::fs::symlink_metadata(&path).map_err(failed(&path))?;
        if !metadata.is_dir() {
            return Err(StateError::NotADirectory { path });
        }
        let me = rustix::process::geteuid().as_raw();
        if metadata.uid() != me {
            return Err(StateError::ForeignOwner {
                path,
                owner: metadata.uid(),
            });
        }
        if metadata.mode() & 0o077 != 0 {
            std::fs::set_permissions(&path, Permissions::from_mode(0o700))
                .map_err(failed(&path))?;
        }
        for name in ["keys", "backups"] {
            let below = path.join(name);
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(&below)
                .map_err(failed(&below))?;
        }
        Ok(Self { path })
    }

    /// The directory itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Signing keys and the checkpoints they signed.
    pub fn keys(&self) -> PathBuf {
        self.path.join("keys")
    }

    /// Numbered copies of replaced policies.
    pub fn backups(&self) -> PathBuf {
        self.path.join("backups")
    }

    /// What a person approved.
    pub(crate) fn trust(&self) -> PathBuf {
        self.path.join("trust.json")
    }

    /// The text of the policy a person approved last.
    pub(crate) fn approved_policy(&self) -> PathBuf {
        self.path.join("approved-policy.yaml")
    }

    /// Held while the policy or the trust record changes.
    pub(crate) fn lock(&self) -> PathBuf {
        self.path.join("control.lock")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_directory_is_private_and_a_directory() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b");
        std::fs::create_dir_all(&path).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        let state = StateDir::create(path.clone()).unwrap();
        assert_eq!(
            std::fs::metadata(state.path()).unwrap().mode() & 0o777,
            0o700
        );

        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(matches!(
            StateDir::create(link),
            Err(StateError::NotADirectory { .. })
        ));
    }
}
