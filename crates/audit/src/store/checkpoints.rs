//! The signing key and the checkpoints file: kept outside the database, so that a database cut
//! short or written anew is caught.
//!
//! Non-guarantee: whoever can write both the database and this directory can forge everything;
//! against that, checkpoints must be pinned elsewhere.

use crate::chain::{Head, LogId};
use crate::checkpoint::{CheckpointError, PublicKey, SignedCheckpoint, SigningKey};
use crate::open::{nofollow, private_directory};
use airlock_core::Timestamp;
use std::cmp::Reverse;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

use super::Layout;

/// A line longer than this is no checkpoint; keeps a hostile file from filling memory.
const LINE_BYTES: u64 = 4_096;

/// Why the key or the checkpoints file cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CheckpointFileError {
    #[error("`{path}`: {source}")]
    Io {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("the key file `{0}` can be read by others")]
    LooseKey(PathBuf),
    #[error("the key file `{0}` does not hold a key")]
    NotAKey(PathBuf),
    #[error(transparent)]
    Sign(#[from] CheckpointError),
    #[error(transparent)]
    Directory(#[from] crate::open::OpenError),
}

/// The key, read when it is first needed, and the file of what it signed.
#[derive(Debug)]
pub(crate) struct CheckpointFile {
    layout: Layout,
    key: Option<SigningKey>,
}

impl CheckpointFile {
    pub(crate) fn new(layout: &Layout) -> Self {
        Self {
            layout: layout.clone(),
            key: None,
        }
    }

    pub(crate) fn sign(
        &mut self,
        log: LogId,
        head: Head,
        time: Timestamp,
    ) -> Result<SignedCheckpoint, CheckpointFileError> {
        if self.key.is_none() {
            private_directory(&self.layout.keys)?;
            self.key = Some(load_or_make_key(&self.layout.key())?);
        }
        match &self.key {
            Some(key) => Ok(key.sign(log, head, time)?),
            None => Err(CheckpointFileError::NotAKey(self.layout.key())),
        }
    }

    /// The newest checkpoint of `log` over record `least` or a later one, whoever signed it.
    pub(crate) fn newest_from(
        &self,
        log: LogId,
        least: u64,
    ) -> Result<Option<SignedCheckpoint>, CheckpointFileError> {
        let path = self.layout.checkpoints();
        let claims =
            Claims::read(&path, log).map_err(|source| CheckpointFileError::Io { path, source })?;
        Ok(claims.newest(|claim| claim.own && claim.seq >= least))
    }

    /// Adds a line for each and waits for the disk.
    pub(crate) fn append(
        &self,
        checkpoints: &[SignedCheckpoint],
    ) -> Result<(), CheckpointFileError> {
        let path = self.layout.checkpoints();
        let lines = checkpoints.iter().map(|signed| format!("{signed}\n"));
        append_lines(&path, &lines.collect::<String>())
            .map_err(|source| CheckpointFileError::Io { path, source })
    }
}

fn append_lines(path: &Path, lines: &str) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(nofollow())
        .open(path)?;
    file.lock()?;
    mend_end(&mut file)?;
    file.write_all(lines.as_bytes())?;
    file.sync_all()
}

/// Takes off what a killed writer left of its last line: a write is cut between two pages of the
/// file. Nobody was told that the checkpoint is kept, and a line begun after it would make a bad one
/// of it. A line that lacks nothing but its end gets that.
fn mend_end(file: &mut File) -> io::Result<()> {
    let length = file.seek(SeekFrom::End(0))?;
    let mut tail = Vec::new();
    file.seek(SeekFrom::Start(length.saturating_sub(LINE_BYTES)))?;
    file.take(LINE_BYTES).read_to_end(&mut tail)?;
    let last = tail.rsplit(|byte| *byte == b'\n').next().unwrap_or(&tail);
    if last.is_empty() {
        Ok(())
    } else if last.len() as u64 == LINE_BYTES || parsed(last).is_ok() {
        // What is longer than any line was written by nobody here: it stays to be seen.
        file.write_all(b"\n")
    } else {
        file.set_len(length - last.len() as u64)
    }
}

fn parsed(line: &[u8]) -> Result<SignedCheckpoint, String> {
    let text = std::str::from_utf8(line).map_err(|error| error.to_string())?;
    text.parse()
        .map_err(|error: CheckpointError| error.to_string())
}

/// The public half of the log's key, if there is one yet.
pub(crate) fn public_key(layout: &Layout) -> Result<Option<PublicKey>, CheckpointFileError> {
    let path = layout.key();
    match read_key(&path) {
        Ok(key) => Ok(Some(key.public())),
        Err(CheckpointFileError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn load_or_make_key(path: &Path) -> Result<SigningKey, CheckpointFileError> {
    let io = |source| CheckpointFileError::Io {
        path: path.to_owned(),
        source,
    };
    match read_key(path) {
        Err(CheckpointFileError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
        }
        other => return other,
    }
    let mut secret = Zeroizing::new([0u8; 32]);
    rand::fill(&mut *secret);
    // Made whole under another name and then linked: two processes agree on whichever was first,
    // and nobody ever sees half a key.
    let draft = path.with_extension(uuid::Uuid::new_v4().simple().to_string());
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&draft)
        .map_err(io)?;
    let made = file
        .write_all(&*secret)
        .and_then(|()| file.sync_all())
        .and_then(|()| match fs::hard_link(&draft, path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            other => other,
        });
    // A draft that stays behind is a key nobody uses.
    let _ = fs::remove_file(&draft);
    made.map_err(io)?;
    read_key(path)
}

fn read_key(path: &Path) -> Result<SigningKey, CheckpointFileError> {
    let io = |source| CheckpointFileError::Io {
        path: path.to_owned(),
        source,
    };
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(nofollow())
        .open(path)
        .map_err(io)?;
    let metadata = file.metadata().map_err(io)?;
    if !metadata.is_file() || metadata.len() != 32 {
        return Err(CheckpointFileError::NotAKey(path.to_owned()));
    }
    if metadata.permissions().mode() & 0o077 != 0 {
        return Err(CheckpointFileError::LooseKey(path.to_owned()));
    }
    let mut secret = Zeroizing::new([0u8; 32]);
    (&file).read_exact(&mut *secret).map_err(io)?;
    Ok(SigningKey::from_secret(&secret))
}

/// What the checkpoints file holds.
#[derive(Debug, Default)]
pub(crate) struct KeptCheckpoints {
    /// Valid ones, by number.
    pub(crate) valid: Vec<SignedCheckpoint>,
    /// The number of the line and what is wrong with it.
    pub(crate) bad_lines: Vec<(usize, String)>,
}

/// How every line of the file begins; the log, the number and the rest follow.
const LINE: &[u8] = b"{\"type\":\"checkpoint\",\"version\":1,\"log\":\"";
const LINE_NUMBER: &[u8] = b"\",\"seq\":";
/// Digits of a log's id.
const LOG_DIGITS: usize = 32;

/// What a line says it vouches for. Whether its signature holds is not looked at.
#[derive(Debug)]
struct Claim {
    seq: u64,
    /// Whether it is about the log in question.
    own: bool,
    /// Where the line begins.
    at: u64,
}

/// The claims of every line, the highest number first: a pass over the text, without the signatures
/// of years.
#[derive(Debug)]
pub(super) struct Claims {
    file: Option<File>,
    claims: Vec<Claim>,
}

impl Claims {
    /// Those of the file at `path`; a missing one makes none.
    pub(super) fn read(path: &Path, log: LogId) -> io::Result<Self> {
        let mut claims = Vec::new();
        let file = open_kept(path)?;
        if let Some(file) = &file {
            let own = log.to_string();
            let mut reader = BufReader::with_capacity(64 * 1024, file);
            let (mut line, mut at) = (Vec::new(), 0);
            loop {
                line.clear();
                let read = (&mut reader)
                    .take(LINE_BYTES)
                    .read_until(b'\n', &mut line)?;
                if read == 0 {
                    break;
                }
                claims.extend(claimed(&line).map(|(log, seq)| Claim {
                    seq,
                    own: log == own.as_bytes(),
                    at,
                }));
                at += read as u64;
            }
        }
        claims.sort_unstable_by_key(|claim| Reverse((claim.seq, claim.at)));
        Ok(Self { file, claims })
    }

    /// The highest number named for the log, be the signature good or not: enough to know that nothing
    /// has to be looked at more closely.
    pub(super) fn highest(&self) -> u64 {
        let own = self.claims.iter().find(|claim| claim.own);
        own.map_or(0, |claim| claim.seq)
    }

    /// The newest checkpoint of the log, and the newest of any other, which has no business here.
    pub(super) fn newest_kept(&self) -> KeptCheckpoints {
        let newest = [
            self.newest(|claim| !claim.own),
            self.newest(|claim| claim.own),
        ];
        let mut kept = KeptCheckpoints::default();
        kept.valid.extend(newest.into_iter().flatten());
        kept.valid.sort_by_key(|signed| signed.head().seq);
        kept
    }

    /// The newest checkpoint that is `wanted` and whose signature holds.
    fn newest(&self, wanted: impl Fn(&Claim) -> bool) -> Option<SignedCheckpoint> {
        let file = self.file.as_ref()?;
        let mut wanted = self.claims.iter().filter(|claim| wanted(claim));
        wanted.find_map(|claim| checkpoint_at(file, claim.at))
    }
}

/// The log and the number that `line` names, if it is spelled as a checkpoint is.
fn claimed(line: &[u8]) -> Option<(&[u8], u64)> {
    let (log, rest) = line.strip_prefix(LINE)?.split_at_checked(LOG_DIGITS)?;
    let number = rest.strip_prefix(LINE_NUMBER)?.iter();
    let mut digits = number.take_while(|digit| digit.is_ascii_digit());
    let seq = digits.try_fold(0_u64, |seq, digit| {
        seq.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
    })?;
    Some((log, seq))
}

fn checkpoint_at(mut file: &File, at: u64) -> Option<SignedCheckpoint> {
    file.seek(SeekFrom::Start(at)).ok()?;
    let mut line = Vec::new();
    BufReader::new(file.take(LINE_BYTES))
        .read_until(b'\n', &mut line)
        .ok()?;
    parsed(line.strip_suffix(b"\n").unwrap_or(&line)).ok()
}

/// The checkpoints file, if there is one.
fn open_kept(path: &Path) -> io::Result<Option<File>> {
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(nofollow())
        .open(path);
    match opened {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads the checkpoints file; a missing one is empty. A last line cut by a crash is passed over.
pub(crate) fn read_checkpoints(path: &Path) -> io::Result<KeptCheckpoints> {
    let Some(file) = open_kept(path)? else {
        return Ok(KeptCheckpoints::default());
    };
    let mut reader = BufReader::new(file);
    let mut kept = KeptCheckpoints::default();
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        if (&mut reader)
            .take(LINE_BYTES)
            .read_until(b'\n', &mut line)?
            == 0
        {
            break;
        }
        let whole = line.pop_if(|last| *last == b'\n').is_some();
        if line.is_empty() {
            continue;
        }
        match parsed(&line) {
            Ok(checkpoint) => kept.valid.push(checkpoint),
            Err(_) if !whole => {}
            Err(problem) => kept.bad_lines.push((number, problem)),
        }
    }
    kept.valid.sort_by_key(|signed| signed.head().seq);
    Ok(kept)
}
