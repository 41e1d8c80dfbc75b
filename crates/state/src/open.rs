//! Opens the store's database: the one place of this crate that opens SQLite.
//!
//! Guarantee: a connection from here waits for other processes, runs no code that arrives with the
//! file, and holds exactly this version's schema. A newer format is refused, never guessed.

use crate::error::StateError;
use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection, OpenFlags};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The newest format this version reads and writes.
pub(crate) const FORMAT: u32 = 1;
/// Marks the file as an Airlock state database: "ASta".
const APPLICATION: u32 = 0x4153_7461;
/// Writers hold the lock for one fsync; far longer would mean a hung disk.
const BUSY: Duration = Duration::from_secs(10);
/// The page size of the audit log, whose carver reads damaged files of both.
const PAGE_SIZE: u16 = 8_192;

/// Every object of the schema, in the order of their names.
const SCHEMA: [&str; 5] = [
    "CREATE TABLE events(seq INTEGER PRIMARY KEY, stored BLOB NOT NULL, subject TEXT NOT NULL) STRICT",
    "CREATE INDEX events_subject ON events(subject)",
    "CREATE TABLE facts(kind TEXT NOT NULL, id TEXT NOT NULL, owner TEXT NOT NULL, parent TEXT NOT NULL, status TEXT NOT NULL, due INTEGER NOT NULL, mark TEXT NOT NULL, seq INTEGER NOT NULL, body TEXT NOT NULL, PRIMARY KEY(kind, id)) STRICT, WITHOUT ROWID",
    "CREATE INDEX facts_parent ON facts(kind, parent, status)",
    "CREATE TABLE meta(key TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT, WITHOUT ROWID",
];

/// The database at `path`, made if it is missing.
pub(crate) fn open_or_make(path: &Path) -> Result<Connection, StateError> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_file() => {}
        Ok(_) => return Err(StateError::NotRegular(path.to_owned())),
        // SQLite would take the pages of a log left behind for those of the new file.
        Err(error) if error.kind() == io::ErrorKind::NotFound && beside(path, "-wal").exists() => {
            return Err(StateError::damaged(
                path,
                "the file is gone, but not its write-ahead log",
            ));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => make(path)?,
        Err(error) => return Err(StateError::io(path)(error)),
    }
    open(path)
}

/// The database at `path`, which must be whole and of a known format.
pub(crate) fn open(path: &Path) -> Result<Connection, StateError> {
    let db = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    check_format(&db, path)?;
    Ok(db)
}

/// Makes the database whole under another name: whoever looks sees no file, or all of it, and of
/// several makers the first wins.
fn make(path: &Path) -> Result<(), StateError> {
    let directory = path.parent().unwrap_or(Path::new("/"));
    let draft = tempfile::Builder::new()
        .prefix("state.db.new-")
        .tempfile_in(directory)
        .map_err(|error| StateError::io(path)(plain(&error)))?;
    write_schema(draft.path())?;
    match draft.persist_noclobber(path) {
        Ok(_) => {}
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(StateError::io(path)(error.error)),
    }
    sync_directory(directory)
}

/// The failure without the temporary name it was met under.
fn plain(error: &io::Error) -> io::Error {
    error.raw_os_error().map_or_else(
        || io::Error::from(error.kind()),
        io::Error::from_raw_os_error,
    )
}

/// The path with `end` added to its last name.
pub(crate) fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    PathBuf::from(name)
}

pub(crate) fn sync_directory(directory: &Path) -> Result<(), StateError> {
    fs::File::open(directory)
        .and_then(|directory| directory.sync_all())
        .map_err(StateError::io(directory))
}

/// Makes the schema in the empty file at `path`.
pub(crate) fn write_schema(path: &Path) -> Result<(), StateError> {
    let fail = |source| StateError::sqlite(path, source);
    let db = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    db.pragma_update(None, "page_size", PAGE_SIZE)
        .map_err(fail)?;
    db.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))
        .map_err(fail)?;
    let log: [u8; 16] = rand::random();
    db.execute_batch(&format!(
        "BEGIN IMMEDIATE; {}; PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {FORMAT};",
        SCHEMA.join(";")
    ))
    .map_err(fail)?;
    db.execute(
        "INSERT INTO meta(key, value) VALUES ('log', ?1)",
        [log.as_slice()],
    )
    .map_err(fail)?;
    db.execute_batch("COMMIT").map_err(fail)?;
    // The last connection to close leaves one file, with nothing beside it.
    db.close().map_err(|(_, source)| fail(source))
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one place that opens the state database"
)]
fn connect(path: &Path, flags: OpenFlags) -> Result<Connection, StateError> {
    let fail = |source| StateError::sqlite(path, source);
    let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let db = Connection::open_with_flags(resolved(path)?, flags).map_err(fail)?;
    harden(&db).map_err(fail)?;
    Ok(db)
}

/// SQLite refuses links anywhere in the path: a linked home is ordinary, a linked file is an attack.
fn resolved(path: &Path) -> Result<PathBuf, StateError> {
    let directory = path.parent().unwrap_or(Path::new("/"));
    let directory = fs::canonicalize(directory).map_err(StateError::io(directory))?;
    Ok(directory.join(path.file_name().unwrap_or_default()))
}

fn harden(db: &Connection) -> rusqlite::Result<()> {
    db.busy_timeout(BUSY)?;
    for (config, on) in [
        (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
        (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false),
        (DbConfig::SQLITE_DBCONFIG_DQS_DML, false),
        (DbConfig::SQLITE_DBCONFIG_DQS_DDL, false),
    ] {
        db.set_db_config(config, on)?;
    }
    for (limit, value) in [
        (Limit::SQLITE_LIMIT_LENGTH, 32 * 1024 * 1024),
        (Limit::SQLITE_LIMIT_SQL_LENGTH, 4_096),
        (Limit::SQLITE_LIMIT_ATTACHED, 0),
        (Limit::SQLITE_LIMIT_TRIGGER_DEPTH, 1),
    ] {
        db.set_limit(limit, value)?;
    }
    db.pragma_update(None, "cell_size_check", true)
}

fn check_format(db: &Connection, path: &Path) -> Result<(), StateError> {
    let fail = |source| StateError::sqlite(path, source);
    let number = |name: &str| -> Result<u32, StateError> {
        db.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, i32>(0))
            .map(i32::cast_unsigned)
            .map_err(fail)
    };
    match number("application_id")? {
        APPLICATION => {}
        0 => return Err(StateError::damaged(path, "its mark is missing")),
        _ => return Err(StateError::Foreign(path.to_owned())),
    }
    match number("user_version")? {
        0 => Err(StateError::damaged(path, "its format version is missing")),
        found if found > FORMAT => Err(StateError::Newer {
            path: path.to_owned(),
            found,
            supported: FORMAT,
        }),
        _ => check_schema(db, path),
    }
}

/// The schema must be ours to the letter: anything added could change what statements mean.
fn check_schema(db: &Connection, path: &Path) -> Result<(), StateError> {
    let fail = |source| StateError::sqlite(path, source);
    let mut statement = db
        .prepare("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name LIMIT 9")
        .map_err(fail)?;
    let found: Vec<String> = statement
        .query_map([], |row| row.get(0))
        .and_then(Iterator::collect)
        .map_err(fail)?;
    if found == SCHEMA {
        return Ok(());
    }
    Err(StateError::damaged(path, "its schema is not Airlock's"))
}
