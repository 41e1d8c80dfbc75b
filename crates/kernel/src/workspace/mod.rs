//! A directory Airlock governs: its root, its identity, and where its state lives.
//!
//! State lives outside the workspace, so nothing that can write the workspace can reach it.

mod atomic;
mod pins;
mod state;
mod trust;

pub(crate) use atomic::{Existing, read_bounded, write_atomic, write_with};
pub(crate) use pins::KeptLog;
pub use state::{StateDir, StateError};
pub use trust::{FileDigest, Trust, TrustChange, TrustError, TrustReport};
pub(crate) use trust::{TrustStore, read_plain};

use crate::beneath::{Root, RootError};
use airlock_core::{Digest, IdError, WorkspaceId};
use std::io;
use std::path::{Component, Path, PathBuf};

/// Where the policy of a workspace stands, beneath its root.
pub const POLICY_FILE: &str = ".airlock/policy.yaml";
/// Where the configuration of a workspace stands, beneath its root.
pub const CONFIG_FILE: &str = ".airlock/config.yaml";
/// Where the plugins of a workspace stand, beneath its root.
pub const PLUGINS_DIR: &str = ".airlock/plugins";

/// Where the adapters, workflows and agents of a workspace stand, beneath its root.
pub const DEFINITION_DIRS: [&str; 3] =
    [".airlock/adapters", ".airlock/workflows", ".airlock/agents"];

/// Why a directory cannot be governed.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    /// The root cannot be opened.
    #[error("cannot open workspace `{path}`")]
    Root {
        /// The root.
        path: PathBuf,
        /// Why.
        #[source]
        source: RootError,
    },
    /// The state directory cannot be used.
    #[error(transparent)]
    State(#[from] StateError),
    /// No identity can be made of the root's name.
    #[error("cannot name the workspace")]
    Name(#[source] IdError),
    /// The state directory is inside the workspace, where an agent could reach it.
    #[error("the state directory `{state}` is inside the workspace `{root}`")]
    StateInside {
        /// The state directory.
        state: PathBuf,
        /// The workspace root.
        root: String,
    },
}

impl WorkspaceError {
    /// How to mend it.
    pub fn hint(&self) -> String {
        match self {
            Self::Root { .. } | Self::Name(_) => {
                "name an existing directory with --workspace DIR".to_owned()
            }
            Self::State(error) => error.hint(),
            Self::StateInside { .. } => {
                "point XDG_STATE_HOME at a directory outside the workspace".to_owned()
            }
        }
    }
}

/// An opened workspace.
#[derive(Debug)]
pub struct Workspace {
    id: WorkspaceId,
    root: Root,
    state: StateDir,
}

impl Workspace {
    /// Opens the workspace at `root`, with its state below `state_home`.
    pub fn open(root: &Path, state_home: &Path) -> Result<Self, WorkspaceError> {
        let (root, id, state) = locate(root, state_home)?;
        if resolve(&state)?.starts_with(root.path())
            || resolve(state_home)?.starts_with(root.path())
        {
            return Err(WorkspaceError::StateInside {
                state,
                root: root.path().to_owned(),
            });
        }
        let state = StateDir::create(state)?;
        Ok(Self { id, root, state })
    }

    /// Where the state of the workspace at `root` is, without making it.
    pub fn state_path(root: &Path, state_home: &Path) -> Result<PathBuf, WorkspaceError> {
        locate(root, state_home).map(|(_, _, state)| state)
    }

    /// The workspace's identity: its name and a digest of where it is.
    pub fn id(&self) -> &WorkspaceId {
        &self.id
    }

    /// The opened root.
    pub fn root(&self) -> &Root {
        &self.root
    }

    /// The state directory.
    pub fn state(&self) -> &StateDir {
        &self.state
    }

    /// What a person approved here, compared with what is there now.
    pub fn trust(&self) -> Result<Trust, TrustError> {
        TrustStore::new(self).load()
    }
}

fn locate(root: &Path, state_home: &Path) -> Result<(Root, WorkspaceId, PathBuf), WorkspaceError> {
    let root = Root::open(root).map_err(|source| WorkspaceError::Root {
        path: root.to_owned(),
        source,
    })?;
    let id = workspace_id(root.path())?;
    let state = state_home.join("airlock").join(id.as_str());
    Ok((root, id, state))
}

/// Where `path` really is, also if its last components do not exist yet: symlinks on the way and
/// the directory a relative path starts from count.
fn resolve(path: &Path) -> Result<PathBuf, StateError> {
    let failed = |source| StateError::Io {
        path: path.to_owned(),
        source,
    };
    let absolute = std::path::absolute(path).map_err(failed)?;
    for existing in absolute.ancestors() {
        match existing.canonicalize() {
            Ok(real) => {
                let missing = absolute.strip_prefix(existing).unwrap_or(Path::new(""));
                // What does not exist cannot be climbed out of.
                return if missing.components().any(|c| c == Component::ParentDir) {
                    Err(failed(io::ErrorKind::NotFound.into()))
                } else {
                    Ok(real.join(missing))
                };
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
        }
    }
    Err(failed(io::ErrorKind::NotFound.into()))
}

/// A readable, unique name for the workspace at the absolute path `root`.
fn workspace_id(root: &str) -> Result<WorkspaceId, WorkspaceError> {
    let name: String = root
        .rsplit('/')
        .next()
        .unwrap_or_default()
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || *c == '-' || *c == '_')
        .take(40)
        .collect();
    let name = name.trim_start_matches('-');
    let name = if name.is_empty() { "workspace" } else { name };
    let short: String = Digest::of(root.as_bytes())
        .to_string()
        .chars()
        .take(12)
        .collect();
    let id = format!("{name}-{short}");
    WorkspaceId::new(&id).map_err(WorkspaceError::Name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_readable_and_differ_by_place() {
        let id = workspace_id("/data/my project!").unwrap();
        assert!(id.as_str().starts_with("myproject-"), "{id}");
        assert_ne!(workspace_id("/a/x").unwrap(), workspace_id("/b/x").unwrap());
        for odd in [
            "/",
            "/-rf",
            "/\u{1b}[2J",
            "/日本",
            &format!("/{}", "x".repeat(500)),
        ] {
            assert!(workspace_id(odd).is_ok(), "{odd:?}");
        }
    }

    #[test]
    fn state_inside_the_workspace_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let error = Workspace::open(dir.path(), &dir.path().join("state")).unwrap_err();
        assert!(
            matches!(error, WorkspaceError::StateInside { .. }),
            "{error}"
        );
    }
}
