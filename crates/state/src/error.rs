//! Why the store cannot be used, or does not take a change.

use airlock_audit::SealError;
use rusqlite::ErrorCode;
use std::io;
use std::path::{Path, PathBuf};

/// Why the store cannot be used, or did not take a change. Nothing was changed then.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// A link could lead the store to a file somebody else controls.
    #[error("`{0}` is a symbolic link or not a regular file")]
    NotRegular(PathBuf),
    /// Written by a later version of Airlock.
    #[error("`{path}` has format {found}; this version reads formats up to {supported}")]
    Newer {
        /// The database.
        path: PathBuf,
        /// Its format.
        found: u32,
        /// The newest format this version knows.
        supported: u32,
    },
    /// A database, but of something else.
    #[error("`{0}` is not an Airlock state database")]
    Foreign(PathBuf),
    /// The content is wrong.
    #[error("`{path}` is damaged: {detail}")]
    Damaged {
        /// The database.
        path: PathBuf,
        /// What SQLite or the chain said.
        detail: String,
    },
    /// It would have to be recovered, but other processes are using it.
    #[error("`{0}` must be recovered, but another process has it open")]
    InUse(PathBuf),
    /// A file or directory failed.
    #[error("cannot use `{path}`: {source}")]
    Io {
        /// The path.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// There is no room, or it may not be written.
    #[error("cannot write `{path}`: {detail}")]
    Unwritable {
        /// The database.
        path: PathBuf,
        /// What SQLite said.
        detail: String,
    },
    /// Any other failure of the database.
    #[error("cannot use `{path}`: {source}")]
    Database {
        /// The database.
        path: PathBuf,
        /// What SQLite said.
        #[source]
        source: rusqlite::Error,
    },
    /// The event cannot be sealed.
    #[error("the change cannot be recorded: {0}")]
    Seal(#[from] SealError),
    /// More than the store takes.
    #[error("{what}: at most {most}")]
    Limit {
        /// What there is too much of.
        what: &'static str,
        /// How much there may be.
        most: usize,
    },
    /// The change does not fit what is stored.
    #[error("{0}")]
    Unfit(&'static str),
}

impl StateError {
    /// What would make it work.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NotRegular(_) => Some("remove the link; Airlock makes a new file in its place"),
            Self::Newer { .. } => Some("install the version of Airlock that wrote it"),
            Self::Foreign(_) => Some("move the file away, or use another state directory"),
            Self::Damaged { .. } => Some(
                "run any command that uses sessions or approvals: what can be read moves to a new file, and the damaged one is kept",
            ),
            Self::InUse(_) => Some("stop the other Airlock processes of this workspace and retry"),
            Self::Io { .. } | Self::Unwritable { .. } | Self::Database { .. } => {
                Some("check the free space and the permissions of the state directory")
            }
            Self::Seal(error) => Some(error.hint()),
            Self::Limit { .. } | Self::Unfit(_) => None,
        }
    }

    /// Whether the same may succeed later without anybody changing what is asked.
    pub fn retryable(&self) -> bool {
        match self {
            Self::InUse(_) | Self::Io { .. } | Self::Unwritable { .. } | Self::Database { .. } => {
                true
            }
            Self::NotRegular(_)
            | Self::Newer { .. }
            | Self::Foreign(_)
            | Self::Damaged { .. }
            | Self::Seal(_)
            | Self::Limit { .. }
            | Self::Unfit(_) => false,
        }
    }

    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }

    pub(crate) fn damaged(path: &Path, detail: impl Into<String>) -> Self {
        Self::Damaged {
            path: path.to_owned(),
            detail: detail.into(),
        }
    }

    /// Sorts SQLite's failures into damage, want of room, and the rest.
    pub(crate) fn sqlite(path: &Path, source: rusqlite::Error) -> Self {
        let path = path.to_owned();
        let detail = source.to_string();
        match kind(&source) {
            Kind::Damage => Self::Damaged { path, detail },
            Kind::Unwritable => Self::Unwritable { path, detail },
            Kind::Other => Self::Database { path, source },
        }
    }
}

enum Kind {
    Damage,
    Unwritable,
    Other,
}

fn kind(error: &rusqlite::Error) -> Kind {
    if let rusqlite::Error::SqliteFailure(inner, _) = error {
        if inner.extended_code == rusqlite::ffi::SQLITE_IOERR_SHORT_READ {
            return Kind::Damage;
        }
        let is = |codes: &[ErrorCode]| codes.contains(&inner.code);
        if is(&[ErrorCode::DatabaseCorrupt, ErrorCode::NotADatabase]) {
            return Kind::Damage;
        }
        let unwritable = is(&[
            ErrorCode::DiskFull,
            ErrorCode::ReadOnly,
            ErrorCode::SystemIoFailure,
        ]);
        return if unwritable {
            Kind::Unwritable
        } else {
            Kind::Other
        };
    }
    // A row that has not the shape the schema promises.
    let shape = matches!(
        error,
        rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::Utf8Error(..)
            // Every row that is asked for without a doubt was written with the file.
            | rusqlite::Error::QueryReturnedNoRows
    );
    if shape { Kind::Damage } else { Kind::Other }
}
