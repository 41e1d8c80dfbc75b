//! What of a workspace's own `.airlock/` a person approved.
//!
//! These files arrive with a clone or a pull, so they count only while every one of them has the
//! digest that was approved. One unknown, changed or missing file, and none of them counts.
//!
//! Guarantee: bytes are judged and used from one read; a file that changes in between is the one
//! that was judged. Symlinks, special files and oversized trees are refused, never followed.

use super::{CONFIG_FILE, PLUGINS_DIR, POLICY_FILE, Workspace, read_bounded, write_atomic};
use crate::beneath::{Kind, Listing, OpenError, Root};
use airlock_core::{Digest, limits};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

/// Largest configuration or plugin file that can be trusted.
const FILE_BYTES: u64 = 64 * 1024 * 1024;
/// Most files below `.airlock/plugins`.
const PLUGIN_FILES: usize = 10_000;

/// Why trust cannot be established or recorded.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// A file cannot be read.
    #[error("cannot read `{path}`")]
    Read {
        /// The file, beneath the workspace.
        path: String,
        /// Why.
        #[source]
        source: OpenError,
    },
    /// A file is not what it seems.
    #[error("`{path}` is a symlink or a special file")]
    Odd {
        /// The file, beneath the workspace.
        path: String,
    },
    /// There is too much to review.
    #[error("`{PLUGINS_DIR}` holds more than {PLUGIN_FILES} files")]
    TooMany,
    /// The record of approvals cannot be read or written.
    #[error("cannot use the trust record `{path}`")]
    Store {
        /// The record.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl TrustError {
    /// How to mend it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Read { .. } => "make the file readable, or remove it",
            Self::Odd { .. } => "replace it by a regular file",
            Self::TooMany => "remove what is not a plugin",
            Self::Store { .. } => {
                "make the state directory writable; a damaged record can be deleted and approved anew"
            }
        }
    }
}

/// One file and its digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileDigest {
    /// The file, beneath the workspace.
    pub path: String,
    /// Its content.
    pub digest: Digest,
    /// Its size in bytes.
    pub bytes: u64,
}

/// How a file differs from what was approved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TrustChange {
    /// Not there when it was approved.
    New,
    /// Not what was approved.
    Changed,
    /// Approved, but gone.
    Missing,
    /// As approved.
    Same,
}

/// Each file with how it compares.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TrustReport {
    /// The file, beneath the workspace.
    pub path: String,
    /// How it compares with what was approved.
    pub change: TrustChange,
    /// Its digest now; `None` if it is gone.
    pub digest: Option<Digest>,
    /// Its size now.
    pub bytes: u64,
}

/// The workspace's files, judged.
#[derive(Debug, Clone)]
pub struct Trust {
    files: Vec<FileDigest>,
    report: Vec<TrustReport>,
    policy: Option<Vec<u8>>,
    config: Option<Vec<u8>>,
}

impl Trust {
    /// Whether there is nothing to trust.
    pub fn is_empty(&self) -> bool {
        self.report.is_empty()
    }

    /// Whether every file is as approved.
    pub fn holds(&self) -> bool {
        self.report
            .iter()
            .all(|file| file.change == TrustChange::Same)
    }

    /// Each file with how it compares.
    pub fn report(&self) -> &[TrustReport] {
        &self.report
    }

    /// One digest over all files as they are now: what an approval is bound to.
    pub fn digest(&self) -> Digest {
        let text: Vec<String> = self
            .files
            .iter()
            .map(|file| format!("{}\0{}", file.digest, file.path))
            .collect();
        Digest::of(text.join("\n").as_bytes())
    }

    /// The policy, if everything is as approved.
    pub fn policy(&self) -> Option<&[u8]> {
        self.policy.as_deref().filter(|_| self.holds())
    }

    /// The policy as it stands in the workspace, trusted or not: to show, never to obey.
    pub fn untrusted_policy(&self) -> Option<&[u8]> {
        self.policy.as_deref()
    }

    /// The configuration, if everything is as approved.
    pub fn config(&self) -> Option<&[u8]> {
        self.config.as_deref().filter(|_| self.holds())
    }

    fn pins(&self) -> Pins {
        Pins {
            version: 1,
            files: self
                .files
                .iter()
                .map(|file| (file.path.clone(), file.digest))
                .collect(),
        }
    }
}

/// What was approved, as stored.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Pins {
    version: u32,
    files: BTreeMap<String, Digest>,
}

/// The record of approvals of one workspace.
pub(crate) struct TrustStore<'w> {
    workspace: &'w Workspace,
}

impl<'w> TrustStore<'w> {
    pub(crate) fn new(workspace: &'w Workspace) -> Self {
        Self { workspace }
    }

    /// Reads the files and compares them with the record.
    pub(crate) fn load(&self) -> Result<Trust, TrustError> {
        let root = self.workspace.root();
        let (mut files, mut contents) = (Vec::new(), Vec::new());
        for path in [POLICY_FILE, CONFIG_FILE] {
            let limit = limits::POLICY_BYTES as u64;
            let bytes = read_plain(root, path, limit)?;
            if let Some(bytes) = &bytes {
                files.push(digest_of(path, bytes));
            }
            contents.push(bytes);
        }
        for path in plugin_files(root)? {
            if let Some(bytes) = read_plain(root, &path, FILE_BYTES)? {
                files.push(digest_of(&path, &bytes));
            }
        }
        let report = compare(&files, &self.pins()?);
        let config = contents.pop().flatten();
        let policy = contents.pop().flatten();
        Ok(Trust {
            files,
            report,
            policy,
            config,
        })
    }

    /// Approves exactly the files `trust` holds.
    pub(crate) fn approve(&self, trust: &Trust) -> Result<(), TrustError> {
        self.save(&trust.pins())
    }

    /// Withdraws every approval.
    pub(crate) fn revoke(&self) -> Result<(), TrustError> {
        self.save(&Pins {
            version: 1,
            files: BTreeMap::new(),
        })
    }

    fn pins(&self) -> Result<Pins, TrustError> {
        let path = self.workspace.state().trust();
        let failed = |source| TrustError::Store {
            path: path.clone(),
            source,
        };
        match std::fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| failed(error.into())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Pins::default()),
            Err(error) => Err(failed(error)),
        }
    }

    fn save(&self, pins: &Pins) -> Result<(), TrustError> {
        let path = self.workspace.state().trust();
        let failed = |source| TrustError::Store {
            path: path.clone(),
            source,
        };
        let mut bytes = serde_json::to_vec_pretty(pins).map_err(|error| failed(error.into()))?;
        bytes.push(b'\n');
        write_atomic(&path, &bytes, 0o600).map_err(failed)
    }
}

fn digest_of(path: &str, bytes: &[u8]) -> FileDigest {
    FileDigest {
        path: path.to_owned(),
        digest: Digest::of(bytes),
        bytes: bytes.len() as u64,
    }
}

fn compare(files: &[FileDigest], pins: &Pins) -> Vec<TrustReport> {
    let present = files.iter().map(|file| TrustReport {
        path: file.path.clone(),
        change: match pins.files.get(&file.path) {
            None => TrustChange::New,
            Some(digest) if *digest == file.digest => TrustChange::Same,
            Some(_) => TrustChange::Changed,
        },
        digest: Some(file.digest),
        bytes: file.bytes,
    });
    let gone = pins
        .files
        .keys()
        .filter(|path| !files.iter().any(|file| file.path == **path));
    let missing = gone.map(|path| TrustReport {
        path: path.clone(),
        change: TrustChange::Missing,
        digest: None,
        bytes: 0,
    });
    present.chain(missing).collect()
}

/// Reads a file that must be where it seems to be: no symlink anywhere on its path.
fn read_plain(root: &Root, path: &str, limit: u64) -> Result<Option<Vec<u8>>, TrustError> {
    let read = |source| TrustError::Read {
        path: path.to_owned(),
        source,
    };
    let file = match root.open_file(path) {
        Ok(file) => file,
        Err(OpenError::NotFound | OpenError::NotADirectory) => return Ok(None),
        Err(OpenError::Escapes | OpenError::NotAFile) => {
            return Err(TrustError::Odd {
                path: path.to_owned(),
            });
        }
        Err(source) => return Err(read(source)),
    };
    read_bounded(file, limit)
        .map(Some)
        .map_err(|error| read(OpenError::Io(error)))
}

/// Every file below the plugin directory, sorted.
fn plugin_files(root: &Root) -> Result<Vec<String>, TrustError> {
    let mut waiting = vec![PLUGINS_DIR.to_owned()];
    let mut files = Vec::new();
    let mut listing = Listing::default();
    while let Some(directory) = waiting.pop() {
        let read = |source| TrustError::Read {
            path: directory.clone(),
            source,
        };
        let odd = || TrustError::Odd {
            path: directory.clone(),
        };
        match root
            .open_directory(&directory)
            .and_then(|open| open.list(&mut listing))
        {
            Ok(()) => {}
            Err(OpenError::NotFound) => continue,
            Err(OpenError::Escapes | OpenError::NotADirectory) => return Err(odd()),
            Err(source) => return Err(read(source)),
        }
        for (name, kind) in listing.iter() {
            let name = std::str::from_utf8(name).map_err(|_| odd())?;
            let path = format!("{directory}/{name}");
            match kind {
                Kind::Directory => waiting.push(path),
                Kind::File => files.push(path),
                Kind::Symlink | Kind::Other => return Err(TrustError::Odd { path }),
            }
            if files.len() + waiting.len() > PLUGIN_FILES {
                return Err(TrustError::TooMany);
            }
        }
    }
    files.sort();
    Ok(files)
}
