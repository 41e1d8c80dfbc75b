//! Opens the log's database: the one place in Airlock that opens SQLite.
//!
//! Guarantee: a connection from here has the pragmas durability needs, runs no code that arrives
//! with the file (triggers, views, extensions), and holds exactly the schema of a format this
//! version knows. A database of a newer format is refused, never guessed.
//!
//! Non-guarantee: the records in it may still be damaged or forged; the chain tells.

use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The newest database format this version reads and writes.
pub(crate) const FORMAT: u32 = 1;
/// Marks the file as an Airlock audit log: "ALog".
const APPLICATION: u32 = 0x414c_6f67;
/// How long a statement waits for another process's transaction. Writers hold the lock for one
/// fsync, so minutes of waiting would mean a hung disk.
const BUSY: Duration = Duration::from_secs(10);
/// The chain's own limit on a record, as SQLite counts; keeps one hostile row from filling memory.
const MAX_BODY_LIMIT: i32 = 8 * 1024 * 1024;

/// The page size of every database made here. Larger than SQLite's 4,096, because a verification
/// reads every page twice and pays by the page; smaller than would make a lone record expensive.
pub(crate) const PAGE_SIZE: u16 = 8_192;

const RECORDS: &str = "CREATE TABLE records(seq INTEGER PRIMARY KEY, stored BLOB NOT NULL) STRICT";
const META: &str =
    "CREATE TABLE meta(key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID, STRICT";

/// Why the log's database cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A link could lead the log to a file somebody else controls.
    #[error("`{0}` is a symbolic link or not a regular file")]
    NotRegular(PathBuf),
    /// Others could replace the database.
    #[error("`{path}` can be written by others (mode {mode:o})")]
    LooseDirectory {
        /// The directory.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
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
    /// A database, but not an audit log.
    #[error("`{path}` is not an Airlock audit log: {detail}")]
    Foreign {
        /// The database.
        path: PathBuf,
        /// What gave it away.
        detail: String,
    },
    /// There is no log here.
    #[error("there is no audit log at `{0}`")]
    Missing(PathBuf),
    /// The file cannot be read as a database any more.
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
    /// The directory or a file beside the database failed.
    #[error("cannot use `{path}`: {source}")]
    Io {
        /// The path.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The checkpoint key or the checkpoints file failed.
    #[error("cannot use the checkpoints in `{path}`: {detail}")]
    Checkpoints {
        /// The key directory.
        path: PathBuf,
        /// What is wrong.
        detail: String,
    },
    /// Any other failure of the database.
    #[error("cannot open `{path}`: {source}")]
    Database {
        /// The database.
        path: PathBuf,
        /// What SQLite said.
        #[source]
        source: rusqlite::Error,
    },
}

impl OpenError {
    /// What would make it work.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NotRegular(_) => Some("remove the link; Airlock makes a new file in its place"),
            Self::LooseDirectory { .. } => Some("run `chmod 0700` on the directory"),
            Self::Newer { .. } => Some("install the version of Airlock that wrote this log"),
            Self::Foreign { .. } => Some("move the file away, or use another state directory"),
            Self::Missing(_) => Some("the log begins with the first governed action"),
            Self::Damaged { .. } => Some(
                "open the log for writing: what can be read moves to a new file and the damaged one is kept",
            ),
            Self::InUse(_) => Some("stop the other Airlock processes of this workspace and retry"),
            Self::Checkpoints { .. } => Some(
                "restore the key directory from a backup; a new key cannot vouch for old records",
            ),
            Self::Io { .. } | Self::Database { .. } => {
                Some("check the free space and the permissions of the state directory")
            }
        }
    }

    /// Whether the content is at fault, so that recovery may help.
    pub(crate) fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged { .. })
    }

    pub(crate) fn io(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        if source.kind() == io::ErrorKind::NotFound {
            return Self::Missing(path);
        }
        Self::Io { path, source }
    }

    /// The same failure of another file.
    fn about(mut self, other: &Path) -> Self {
        let (Self::NotRegular(path)
        | Self::LooseDirectory { path, .. }
        | Self::Newer { path, .. }
        | Self::Foreign { path, .. }
        | Self::Missing(path)
        | Self::Damaged { path, .. }
        | Self::InUse(path)
        | Self::Io { path, .. }
        | Self::Checkpoints { path, .. }
        | Self::Database { path, .. }) = &mut self;
        other.clone_into(path);
        self
    }

    /// Sorts SQLite's failures into damage and the rest.
    pub(crate) fn sqlite(path: &Path, source: rusqlite::Error) -> Self {
        let path = path.to_owned();
        if is_damage(&source) {
            let detail = source.to_string();
            return Self::Damaged { path, detail };
        }
        Self::Database { path, source }
    }
}

/// Whether SQLite's failure means that the file's content is wrong.
pub(crate) fn is_damage(error: &rusqlite::Error) -> bool {
    if let rusqlite::Error::SqliteFailure(inner, _) = error {
        return matches!(
            inner.code,
            // No row is as long as SQLite may come to think of a damaged one.
            ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::TooBig
        ) || inner.extended_code == rusqlite::ffi::SQLITE_IOERR_SHORT_READ;
    }
    // A row that has not the shape the schema promises.
    matches!(
        error,
        rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::Utf8Error(..)
    )
}

/// How a database is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// For the writer; the file is made if it is missing.
    Write,
    /// For readers; works in a directory that cannot be written.
    Read,
}

/// Makes `path` a directory only its owner can use, and refuses one that others can write.
pub(crate) fn private_directory(path: &Path) -> Result<(), OpenError> {
    match DirBuilder::new().recursive(true).mode(0o700).create(path) {
        Ok(()) => {}
        Err(source) => {
            return Err(OpenError::Io {
                path: path.to_owned(),
                source,
            });
        }
    }
    let mode = fs::metadata(path)
        .map_err(|source| OpenError::io(path, source))?
        .permissions()
        .mode();
    if mode & 0o022 != 0 {
        return Err(OpenError::LooseDirectory {
            path: path.to_owned(),
            mode: mode & 0o7777,
        });
    }
    Ok(())
}

/// Opens the log's database at `path`.
pub(crate) fn open_database(path: &Path, access: Access) -> Result<Connection, OpenError> {
    // SQLite's own check refuses links anywhere in the path, so the directory is resolved first:
    // a linked home is ordinary, a linked database file is an attack.
    let directory = path.parent().unwrap_or(Path::new("/"));
    let directory =
        fs::canonicalize(directory).map_err(|source| OpenError::io(directory, source))?;
    let path = &directory.join(path.file_name().unwrap_or_default());
    prepare_file(path, access)?;
    let connection = match access {
        Access::Write => connect(path, access, false)?,
        Access::Read => connect_reader(path)?,
    };
    Ok(connection)
}

fn prepare_file(path: &Path, access: Access) -> Result<(), OpenError> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_file() => Ok(()),
        Ok(_) => Err(OpenError::NotRegular(path.to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => match access {
            Access::Read => Err(OpenError::Missing(path.to_owned())),
            // A write-ahead log without its database: SQLite drops it if it finds an empty file,
            // but would take its pages for those of a new one.
            Access::Write if beside(path, "-wal").exists() => make_file(path, false),
            Access::Write => make_database(path),
        },
        Err(source) => Err(OpenError::io(path, source)),
    }
}

fn make_file(path: &Path, new: bool) -> Result<(), OpenError> {
    OpenOptions::new()
        .write(true)
        .create(true)
        .create_new(new)
        .truncate(false)
        .mode(0o600)
        .custom_flags(nofollow())
        .open(path)
        .map(drop)
        .map_err(|source| OpenError::Io {
            path: path.to_owned(),
            source,
        })
}

/// Makes the database whole under another name and then links it: whoever opens the log while it
/// is being made sees no file or all of it, and of several makers the first wins.
fn make_database(path: &Path) -> Result<(), OpenError> {
    let draft = beside(path, &format!(".new-{}", uuid::Uuid::new_v4().simple()));
    let made = make_file(&draft, true)
        .and_then(|()| write_draft(&draft))
        // Nobody knows the draft; it is the log that cannot be made.
        .map_err(|error| error.about(path))
        .and_then(|()| publish(&draft, path));
    for rest in ["", "-wal", "-shm"] {
        // A draft that stays behind is a file nobody opens.
        let _ = fs::remove_file(beside(&draft, rest));
    }
    made
}

fn write_draft(draft: &Path) -> Result<(), OpenError> {
    let fail = |source| OpenError::sqlite(draft, source);
    let flags = OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW
        | OpenFlags::SQLITE_OPEN_READ_WRITE;
    let connection = bare(draft, flags).map_err(fail)?;
    create_schema(&connection).map_err(fail)?;
    // One file to link: nothing of it may stay in the write-ahead log.
    let busy: i64 = connection
        .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))
        .map_err(fail)?;
    if busy != 0 {
        let locked = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY);
        return Err(fail(rusqlite::Error::SqliteFailure(locked, None)));
    }
    Ok(())
}

fn publish(draft: &Path, path: &Path) -> Result<(), OpenError> {
    match fs::hard_link(draft, path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        // A file system without hard links: the schema is made in place.
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::PermissionDenied | io::ErrorKind::Unsupported
            ) =>
        {
            make_file(path, false)
        }
        linked => linked
            .and_then(|()| fs::File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all())
            .map_err(|source| OpenError::Io {
                path: path.to_owned(),
                source,
            }),
    }
}

/// The path with `end` added to its last name.
fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    PathBuf::from(name)
}

pub(crate) fn nofollow() -> i32 {
    i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or(0)
}

/// So that a pipe in the place of a file keeps nobody waiting.
pub(crate) fn nonblocking() -> i32 {
    i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or(0)
}

/// Opens for reading, also where SQLite may not create its shared-memory file.
fn connect_reader(path: &Path) -> Result<Connection, OpenError> {
    match connect(path, Access::Read, false) {
        Err(OpenError::Database { source, .. }) if needs_immutable(&source) && !has_wal(path) => {
            connect(path, Access::Read, true)
        }
        other => other,
    }
}

fn needs_immutable(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly | ErrorCode::PermissionDenied)
    )
}

/// Whether committed records may still be only in the write-ahead log.
fn has_wal(path: &Path) -> bool {
    fs::metadata(beside(path, "-wal")).is_ok_and(|metadata| metadata.len() > 0)
}

fn connect(path: &Path, access: Access, immutable: bool) -> Result<Connection, OpenError> {
    let fail = |source| OpenError::sqlite(path, source);
    let mut flags = OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    flags |= match access {
        Access::Write => OpenFlags::SQLITE_OPEN_READ_WRITE,
        Access::Read => OpenFlags::SQLITE_OPEN_READ_ONLY,
    };
    let mut name = path.to_owned();
    if immutable {
        flags |= OpenFlags::SQLITE_OPEN_URI;
        name = immutable_uri(path);
    }
    let connection = bare(&name, flags).map_err(fail)?;
    check_format(&connection, path, access)?;
    if access == Access::Write {
        configure_writer(&connection).map_err(fail)?;
    }
    check_schema(&connection, path)?;
    Ok(connection)
}

fn immutable_uri(path: &Path) -> PathBuf {
    use std::fmt::Write as _;
    use std::os::unix::ffi::OsStrExt;
    let mut uri = "file:".to_owned();
    for byte in path.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || b"/._-".contains(byte) {
            uri.push(char::from(*byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(uri, "%{byte:02X}");
        }
    }
    uri.push_str("?immutable=1");
    PathBuf::from(uri)
}

fn harden(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(BUSY)?;
    for (config, on) in [
        (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
        (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_FKEY, true),
        (DbConfig::SQLITE_DBCONFIG_DQS_DML, false),
        (DbConfig::SQLITE_DBCONFIG_DQS_DDL, false),
        // Two or three fsyncs at the end of every short command would cost more than the command.
        (DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true),
    ] {
        connection.set_db_config(config, on)?;
    }
    for (limit, value) in [
        (Limit::SQLITE_LIMIT_LENGTH, 2 * MAX_BODY_LIMIT),
        (Limit::SQLITE_LIMIT_SQL_LENGTH, 4_096),
        (Limit::SQLITE_LIMIT_COLUMN, 16),
        (Limit::SQLITE_LIMIT_EXPR_DEPTH, 32),
        (Limit::SQLITE_LIMIT_ATTACHED, 0),
        (Limit::SQLITE_LIMIT_TRIGGER_DEPTH, 1),
        (Limit::SQLITE_LIMIT_WORKER_THREADS, 0),
    ] {
        connection.set_limit(limit, value)?;
    }
    // A page whose cells do not add up is an error instead of a wrong answer.
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.set_prepared_statement_cache_capacity(16);
    Ok(())
}

fn configure_writer(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))?;
    // The writer checkpoints by its own count; it must not happen inside somebody's append.
    connection.pragma_update_and_check(None, "wal_autocheckpoint", 0, |_| Ok(()))?;
    connection.pragma_update(None, "synchronous", "FULL")
}

/// Refuses other people's databases and newer formats; makes the schema in an empty file.
fn check_format(connection: &Connection, path: &Path, access: Access) -> Result<(), OpenError> {
    let fail = |source| OpenError::sqlite(path, source);
    let (application, version, empty) = marks(connection).map_err(fail)?;
    if application == 0 && version == 0 && empty {
        return begin(connection, path, access);
    }
    if application != APPLICATION {
        return Err(OpenError::Foreign {
            path: path.to_owned(),
            detail: format!("its application id is {application:#010x}"),
        });
    }
    if version == 0 {
        return Err(OpenError::Damaged {
            path: path.to_owned(),
            detail: "its format version is missing".to_owned(),
        });
    }
    if version > FORMAT {
        return Err(OpenError::Newer {
            path: path.to_owned(),
            found: version,
            supported: FORMAT,
        });
    }
    Ok(())
}

/// What an empty file becomes.
fn begin(connection: &Connection, path: &Path, access: Access) -> Result<(), OpenError> {
    match access {
        Access::Write => {
            create_schema(connection).map_err(|source| OpenError::sqlite(path, source))
        }
        Access::Read => Err(OpenError::Damaged {
            path: path.to_owned(),
            detail: "the file is empty".to_owned(),
        }),
    }
}

/// Application id, format version, and whether there is no table: of one moment, because another
/// process may be making the schema, which brings all three together.
fn marks(connection: &Connection) -> rusqlite::Result<(u32, u32, bool)> {
    let moment = connection.unchecked_transaction()?;
    let application: i32 = moment.query_row("PRAGMA application_id", [], |row| row.get(0))?;
    let version: i32 = moment.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    let empty = is_empty(&moment)?;
    Ok((application.cast_unsigned(), version.cast_unsigned(), empty))
}

fn is_empty(connection: &Connection) -> rusqlite::Result<bool> {
    let objects: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    Ok(objects == 0)
}

fn create_schema(connection: &Connection) -> rusqlite::Result<()> {
    // Only before the first page is written; in a file another process began it changes nothing.
    connection.pragma_update(None, "page_size", PAGE_SIZE)?;
    connection.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))?;
    connection.execute_batch("BEGIN IMMEDIATE")?;
    // Another process may have been first while this one waited for the lock.
    let made = is_empty(connection).and_then(|empty| {
        if empty {
            connection.execute_batch(&format!(
                "{RECORDS}; {META}; PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {FORMAT};"
            ))?;
        }
        connection.execute_batch("COMMIT")
    });
    if made.is_err() {
        // The transaction's own failure is what gets reported.
        let _ = connection.execute_batch("ROLLBACK");
    }
    made
}

/// The schema must be ours to the letter: anything added could change what statements mean.
fn check_schema(connection: &Connection, path: &Path) -> Result<(), OpenError> {
    let fail = |source| OpenError::sqlite(path, source);
    let mut statement = connection
        .prepare("SELECT sql FROM sqlite_schema ORDER BY name LIMIT 3")
        .map_err(fail)?;
    let found: Vec<Option<String>> = statement
        .query_map([], |row| row.get(0))
        .and_then(Iterator::collect)
        .map_err(fail)?;
    if found.iter().flatten().ne([META, RECORDS]) || found.len() != 2 {
        return Err(OpenError::Damaged {
            path: path.to_owned(),
            detail: "its schema is not the log's".to_owned(),
        });
    }
    Ok(())
}

/// Opens the bare file for the rescue of rows: no schema is expected.
pub(crate) fn open_for_rescue(path: &Path) -> Result<Connection, OpenError> {
    let fail = |source| OpenError::sqlite(path, source);
    let flags = OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_READ_WRITE;
    bare(path, flags).map_err(fail)
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one place that opens a database"
)]
fn bare(path: &Path, flags: OpenFlags) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(path, flags)?;
    harden(&connection)?;
    Ok(connection)
}
