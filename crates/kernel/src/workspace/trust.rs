//! What of a workspace's own `.airlock/` a person approved.
//!
//! These files arrive with a clone or a pull, so they count only while every one of them has the
//! digest that was approved. One unknown, changed or missing file, and none of them counts.
//! Extensions belong to them, but for those whose digest the policy itself gives. Of a plugin's files
//! it counts as well whether they can be run.
//!
//! Guarantee: bytes are judged and used from one read; a file that changes in between is the one
//! that was judged. Symlinks, special files and oversized trees are never followed or read: with
//! one of them there, nothing counts and nothing can be approved, but the kernel starts.

use super::pins::{KeptLog, Pins, RECORD_VERSION};
use super::{
    CONFIG_FILE, DEFINITION_DIRS, PLUGINS_DIR, POLICY_FILE, Workspace, read_bounded, write_atomic,
};
use crate::beneath::{Kind, Listing, OpenError, Root};
use crate::extensions::SCRIPT_BYTES;
use airlock_core::{Digest, limits};
use airlock_plugin::{ApprovedFile, MANIFEST};
use airlock_script::Language;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;

/// Largest configuration or plugin file that can be trusted.
const FILE_BYTES: u64 = 64 * 1024 * 1024;
/// Most files below `.airlock/plugins`.
const PLUGIN_FILES: usize = 10_000;
/// Most bytes of all plugin files together: they are read at every start.
const PLUGIN_BYTES: u64 = 256 * 1024 * 1024;
/// Most bytes of all extensions that are pinned here: they are read at every start.
const EXTENSION_BYTES: u64 = 64 * 1024 * 1024;
/// Most bytes of all definitions together: they are kept in memory.
const DEFINITION_BYTES: u64 = 16 * 1024 * 1024;

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
    #[error(
        "a directory of `.airlock/` holds more than {PLUGIN_FILES} files or {PLUGIN_BYTES} bytes"
    )]
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
            Self::TooMany => "remove what is not a plugin or a definition",
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
    /// Whether it is a plugin's and can be run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub executable: bool,
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
    /// Whether it is a plugin's and can be run now.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub executable: bool,
}

/// The workspace's files, judged.
#[derive(Debug, Clone)]
pub struct Trust {
    files: Vec<FileDigest>,
    report: Vec<TrustReport>,
    policy: Option<Vec<u8>>,
    config: Option<Vec<u8>>,
    definitions: Vec<(String, Arc<[u8]>)>,
    manifests: Vec<(String, Vec<u8>)>,
    problems: Vec<Problem>,
    log: Option<KeptLog>,
    had_policy: bool,
}

/// Something below `.airlock/` that cannot be judged.
#[derive(Debug, Clone)]
struct Problem {
    path: String,
    error: Arc<TrustError>,
}

impl Trust {
    /// Whether there is nothing to trust.
    pub fn is_empty(&self) -> bool {
        self.report.is_empty()
    }

    /// Whether every file is as approved.
    pub fn holds(&self) -> bool {
        self.problems.is_empty()
            && self
                .report
                .iter()
                .all(|file| file.change == TrustChange::Same)
    }

    /// Whether all but the extensions is as approved. An extension is held to its digest whenever it
    /// is asked, and denies where it has another.
    pub(crate) fn settings_hold(&self) -> bool {
        let mut others = self
            .report
            .iter()
            .filter(|file| file.change != TrustChange::Same);
        others.all(|file| !is_setting(&file.path))
    }

    /// What cannot be judged, and so keeps everything else from being approved.
    pub fn problems(&self) -> impl Iterator<Item = &TrustError> {
        self.problems.iter().map(|problem| &*problem.error)
    }

    /// Fails if something here cannot be judged.
    pub(crate) fn check(&self) -> Result<(), Arc<TrustError>> {
        match self.problems.first() {
            Some(problem) => Err(Arc::clone(&problem.error)),
            None => Ok(()),
        }
    }

    /// Fails if what stands at `path` cannot be judged.
    pub(crate) fn check_file(&self, path: &str) -> Result<(), Arc<TrustError>> {
        match self.problems.iter().find(|problem| problem.path == path) {
            Some(problem) => Err(Arc::clone(&problem.error)),
            None => Ok(()),
        }
    }

    /// Each file with how it compares.
    pub fn report(&self) -> &[TrustReport] {
        &self.report
    }

    /// One digest over all files as they are now: what an approval is bound to.
    pub fn digest(&self) -> Digest {
        let files = self.files.iter();
        let problems = self.problems.iter();
        let text: Vec<String> = files
            .map(|file| {
                let kind = if file.executable { "\0program" } else { "" };
                format!("{}\0{}{kind}", file.digest, file.path)
            })
            .chain(problems.map(|problem| format!("unusable\0{}", problem.path)))
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

    /// The configuration, the manifests of plugins and the definitions as they stand in the
    /// workspace, each with its place, trusted or not: to show, never to obey.
    pub fn untrusted_files(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let config = self.config.iter().map(|bytes| (CONFIG_FILE, &**bytes));
        let manifests = self.manifests.iter();
        let definitions = self.definitions.iter();
        config
            .chain(manifests.map(|(path, bytes)| (path.as_str(), &**bytes)))
            .chain(definitions.map(|(path, bytes)| (path.as_str(), &**bytes)))
    }

    /// Adapters, workflows and agents as they stand in the workspace, each with its place, trusted or
    /// not: to check, never to use.
    pub fn untrusted_definitions(&self) -> &[(String, Arc<[u8]>)] {
        &self.definitions
    }

    /// The configuration, if everything is as approved.
    pub fn config(&self) -> Option<&[u8]> {
        self.config.as_deref().filter(|_| self.holds())
    }

    /// Adapters, workflows and agents, each with its place, if everything is as approved.
    pub(crate) fn definitions(&self) -> &[(String, Arc<[u8]>)] {
        if self.holds() { &self.definitions } else { &[] }
    }

    /// The files of plugins, if everything is as approved.
    pub(crate) fn plugin_files(&self) -> BTreeMap<String, ApprovedFile> {
        let directory = format!("{PLUGINS_DIR}/");
        let files = self.files.iter().filter(|_| self.holds());
        files
            .filter(|file| file.path.starts_with(&directory))
            .map(|file| {
                let approved = ApprovedFile {
                    digest: file.digest,
                    executable: file.executable,
                };
                (file.path.clone(), approved)
            })
            .collect()
    }

    /// The digests a person approved, of the files that still have them.
    pub(crate) fn approved(&self) -> BTreeMap<String, Digest> {
        let same = |file: &&TrustReport| file.change == TrustChange::Same;
        let files = self.report.iter().filter(same);
        files
            .filter_map(|file| Some((file.path.clone(), file.digest?)))
            .collect()
    }

    /// What the policy that was approved last says of the log, whether or not it still counts.
    pub(crate) fn kept_log(&self) -> Option<KeptLog> {
        self.log
    }

    /// Whether a person ever approved a policy here, whatever became of it.
    pub(crate) fn had_policy(&self) -> bool {
        self.had_policy
    }

    fn pins(&self) -> Pins {
        Pins {
            version: RECORD_VERSION,
            files: self
                .files
                .iter()
                .map(|file| (file.path.clone(), file.digest))
                .collect(),
            executable: self
                .files
                .iter()
                .filter(|file| file.executable)
                .map(|file| file.path.clone())
                .collect(),
            log: self
                .policy
                .as_deref()
                .and_then(KeptLog::of_text)
                .or(self.log),
        }
    }
}

/// Whether the policy, the configuration, a plugin or a definition stands at `path`.
pub(super) fn is_setting(path: &str) -> bool {
    let within = |directory: &str| {
        let rest = path.strip_prefix(directory);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    [POLICY_FILE, CONFIG_FILE].contains(&path)
        || [PLUGINS_DIR].into_iter().chain(DEFINITION_DIRS).any(within)
}

/// Whether `path` is the file in a plugin's directory that says what the plugin is.
fn is_manifest(path: &str) -> bool {
    let below = path.strip_prefix(PLUGINS_DIR).unwrap_or_default();
    let parts: Vec<&str> = below.split('/').skip(1).collect();
    matches!(parts.as_slice(), [_, name] if *name == MANIFEST)
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
        let mut pins = self.pins()?;
        let had_policy = pins.had_policy();
        let mut judged = Judged::default();
        let root = self.workspace.root();
        let policy = judged.settings(root, POLICY_FILE);
        let config = judged.settings(root, CONFIG_FILE);
        if let Err(error) = judged.plugins(root) {
            judged.problem(PLUGINS_DIR, error);
        }
        let definitions = judged.definitions(root);
        let extensions = policy.as_deref().map(extension_files).unwrap_or_default();
        judged.extensions(root, &extensions);
        pins.forget_unlisted(&extensions);
        Ok(Trust {
            report: compare(&judged, &pins),
            files: judged.files,
            policy,
            config,
            definitions,
            manifests: judged.manifests,
            log: pins.log,
            had_policy,
            problems: judged.problems,
        })
    }

    /// Approves exactly the files `trust` holds.
    pub(crate) fn approve(&self, trust: &Trust) -> Result<(), TrustError> {
        self.save(&trust.pins())?;
        match trust.untrusted_policy() {
            Some(policy) => self.keep(policy),
            None => {
                // One that stays behind is backed up once more, and harms nobody.
                let _gone = std::fs::remove_file(self.workspace.state().approved_policy());
            }
        }
        Ok(())
    }

    /// Approves `bytes` as the policy and leaves every other approval as it is.
    pub(crate) fn approve_policy(&self, bytes: &[u8]) -> Result<(), TrustError> {
        let mut pins = self.pins()?;
        pins.version = RECORD_VERSION;
        pins.files.insert(POLICY_FILE.to_owned(), Digest::of(bytes));
        pins.log = KeptLog::of_text(bytes).or(pins.log);
        self.save(&pins)?;
        self.keep(bytes);
        Ok(())
    }

    /// The text of the policy that was approved last, as it was kept: to show and to back up. Whether
    /// it is the one on record is for [`Self::approved_policy`] to say.
    pub(crate) fn kept(&self) -> Option<Vec<u8>> {
        let file = File::open(self.workspace.state().approved_policy()).ok()?;
        read_bounded(file, limits::POLICY_BYTES as u64).ok()
    }

    /// Whether `policy` is kept.
    pub(crate) fn keeps(&self, policy: &[u8]) -> bool {
        self.kept().is_some_and(|kept| kept == policy)
    }

    /// Keeps the text of a policy that was approved: the workspace's file is whoever's can write it.
    ///
    /// After the record, never before: a crash in between leaves an approved file, whose text is kept
    /// at the next start. One that cannot be kept is approved all the same.
    pub(crate) fn keep(&self, policy: &[u8]) {
        let path = self.workspace.state().approved_policy();
        let _kept = write_atomic(&path, policy, 0o600);
    }

    /// The text of the policy whose approval is on record, whatever became of the workspace's file;
    /// none where there is no such approval, or no text that has its digest.
    pub(crate) fn approved_policy(&self) -> Result<Option<Vec<u8>>, TrustError> {
        let Some(pinned) = self.pins()?.files.remove(POLICY_FILE) else {
            return Ok(None);
        };
        let stands = read_plain(
            self.workspace.root(),
            POLICY_FILE,
            limits::POLICY_BYTES as u64,
        );
        let texts = [self.kept(), stands.ok().flatten()];
        let mut texts = texts.into_iter().flatten();
        Ok(texts.find(|text| Digest::of(text) == pinned))
    }

    /// Every digest a person approved, whatever the files are now.
    pub(crate) fn approved(&self) -> Result<BTreeMap<String, Digest>, TrustError> {
        self.pins().map(|pins| pins.files)
    }

    /// Withdraws every approval. A record that cannot be read is replaced as well: nothing is
    /// approved by it. How the log is kept stays as it was approved, or as it is kept at most where
    /// that cannot be told.
    pub(crate) fn revoke(&self) -> Result<(), TrustError> {
        let log = match self.pins() {
            Ok(pins) if pins.had_policy() => pins.log.or(Some(KeptLog::EVERYTHING)),
            Ok(_) => None,
            Err(_) => Some(KeptLog::EVERYTHING),
        };
        self.save(&Pins {
            version: RECORD_VERSION,
            log,
            ..Pins::default()
        })
    }

    fn pins(&self) -> Result<Pins, TrustError> {
        let path = self.workspace.state().trust();
        let failed = |source| TrustError::Store {
            path: path.clone(),
            source,
        };
        match std::fs::read(&path) {
            Ok(bytes) => {
                let pins: Pins =
                    serde_json::from_slice(&bytes).map_err(|error| failed(error.into()))?;
                if pins.version == RECORD_VERSION {
                    Ok(pins)
                } else {
                    let what = format!("version {} is not known", pins.version);
                    Err(failed(io::Error::new(io::ErrorKind::InvalidData, what)))
                }
            }
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
        executable: false,
    }
}

/// What was found, in the making.
#[derive(Default)]
struct Judged {
    files: Vec<FileDigest>,
    /// Those of plugins that say what the plugin is.
    manifests: Vec<(String, Vec<u8>)>,
    problems: Vec<Problem>,
}

impl Judged {
    /// A policy or configuration file: its bytes, if it can be judged.
    fn settings(&mut self, root: &Root, path: &str) -> Option<Vec<u8>> {
        match read_plain(root, path, limits::POLICY_BYTES as u64) {
            Ok(Some(bytes)) => {
                self.files.push(digest_of(path, &bytes));
                Some(bytes)
            }
            Ok(None) => None,
            Err(error) => {
                self.problem(path, error);
                None
            }
        }
    }

    fn plugins(&mut self, root: &Root) -> Result<(), TrustError> {
        let mut left = PLUGIN_BYTES;
        for path in files_below(root, PLUGINS_DIR)? {
            match read_program(root, &path, FILE_BYTES.min(left)) {
                Ok(Some((bytes, executable))) => {
                    left = left.saturating_sub(bytes.len() as u64);
                    self.files.push(FileDigest {
                        executable,
                        ..digest_of(&path, &bytes)
                    });
                    if is_manifest(&path) && bytes.len() <= limits::POLICY_BYTES {
                        self.manifests.push((path, bytes));
                    }
                }
                Ok(None) => {}
                Err(_) if left < FILE_BYTES => return Err(TrustError::TooMany),
                Err(error) => self.problem(&path, error),
            }
        }
        Ok(())
    }

    /// Every file of the directories of definitions, with its bytes.
    fn definitions(&mut self, root: &Root) -> Vec<(String, Arc<[u8]>)> {
        let mut kept = Vec::new();
        let mut left = DEFINITION_BYTES;
        for directory in DEFINITION_DIRS {
            let files = match files_below(root, directory) {
                Ok(files) => files,
                Err(error) => {
                    self.problem(directory, error);
                    continue;
                }
            };
            for path in files {
                match read_plain(root, &path, left) {
                    Ok(Some(bytes)) => {
                        left = left.saturating_sub(bytes.len() as u64);
                        self.files.push(digest_of(&path, &bytes));
                        kept.push((path, bytes.into()));
                    }
                    Ok(None) => {}
                    Err(error) => self.problem(&path, error),
                }
            }
        }
        kept
    }

    /// The files of extensions, unless they are among those of plugins.
    fn extensions(&mut self, root: &Root, paths: &BTreeSet<String>) {
        let mut left = EXTENSION_BYTES;
        for path in paths {
            let known = self.files.iter().any(|file| file.path == *path)
                || self.problems.iter().any(|problem| problem.path == *path);
            if known {
                continue;
            }
            let limit = match Language::of_file(path) {
                Some(_) => SCRIPT_BYTES.min(left),
                None => left,
            };
            match read_plain(root, path, limit) {
                Ok(Some(bytes)) => {
                    left = left.saturating_sub(bytes.len() as u64);
                    self.files.push(digest_of(path, &bytes));
                }
                Ok(None) => {}
                Err(error) => self.problem(path, error),
            }
        }
    }

    fn problem(&mut self, path: &str, error: TrustError) {
        self.problems.push(Problem {
            path: path.to_owned(),
            error: Arc::new(error),
        });
    }
}

fn compare(judged: &Judged, pins: &Pins) -> Vec<TrustReport> {
    let files = &judged.files;
    let unusable = judged.problems.iter().map(|problem| TrustReport {
        path: problem.path.clone(),
        change: if pins.files.contains_key(&problem.path) {
            TrustChange::Changed
        } else {
            TrustChange::New
        },
        digest: None,
        bytes: 0,
        executable: false,
    });
    let present = files.iter().map(|file| TrustReport {
        path: file.path.clone(),
        change: if pins.holds(file) {
            TrustChange::Same
        } else if pins.files.contains_key(&file.path) {
            TrustChange::Changed
        } else {
            TrustChange::New
        },
        digest: Some(file.digest),
        bytes: file.bytes,
        executable: file.executable,
    });
    let known: HashSet<&str> = files
        .iter()
        .map(|file| file.path.as_str())
        .chain(judged.problems.iter().map(|problem| problem.path.as_str()))
        .collect();
    let gone = pins
        .files
        .keys()
        .filter(|path| !known.contains(path.as_str()));
    let missing = gone.map(|path| TrustReport {
        path: path.clone(),
        change: TrustChange::Missing,
        digest: None,
        bytes: 0,
        executable: false,
    });
    present.chain(unusable).chain(missing).collect()
}

/// The files of the extensions `policy` lists without a digest of its own. None of a policy that
/// does not load: it cannot be approved either.
///
/// A policy that spells the word otherwise hides its extensions from approval, and so from use.
fn extension_files(policy: &[u8]) -> BTreeSet<String> {
    if memchr::memmem::find(policy, b"extensions").is_none() {
        return BTreeSet::new();
    }
    let document = airlock_policy::read_document(policy).map(|(document, _)| document);
    let listed = document
        .map(|document| document.extensions)
        .unwrap_or_default();
    listed
        .iter()
        .filter(|extension| extension.digest.is_none())
        .map(|extension| extension.file.to_string())
        .collect()
}

/// Reads a file that must be where it seems to be: no symlink anywhere on its path.
pub(crate) fn read_plain(
    root: &Root,
    path: &str,
    limit: u64,
) -> Result<Option<Vec<u8>>, TrustError> {
    match open_plain(root, path)? {
        Some(file) => read_open(file, path, limit).map(Some),
        None => Ok(None),
    }
}

/// The same, and whether the file can be run.
fn read_program(
    root: &Root,
    path: &str,
    limit: u64,
) -> Result<Option<(Vec<u8>, bool)>, TrustError> {
    let Some(file) = open_plain(root, path)? else {
        return Ok(None);
    };
    let looked = file.metadata().map_err(|error| unreadable(path, error))?;
    let executable = looked.permissions().mode() & 0o100 != 0;
    read_open(file, path, limit).map(|bytes| Some((bytes, executable)))
}

fn open_plain(root: &Root, path: &str) -> Result<Option<File>, TrustError> {
    match root.open_file(path) {
        Ok(file) => Ok(Some(file)),
        Err(OpenError::NotFound | OpenError::NotADirectory) => Ok(None),
        Err(OpenError::Escapes | OpenError::NotAFile) => Err(TrustError::Odd {
            path: path.to_owned(),
        }),
        Err(source) => Err(TrustError::Read {
            path: path.to_owned(),
            source,
        }),
    }
}

fn read_open(file: File, path: &str, limit: u64) -> Result<Vec<u8>, TrustError> {
    read_bounded(file, limit).map_err(|error| unreadable(path, error))
}

fn unreadable(path: &str, error: io::Error) -> TrustError {
    TrustError::Read {
        path: path.to_owned(),
        source: OpenError::Io(error),
    }
}

/// Every file below a directory, sorted.
fn files_below(root: &Root, directory: &str) -> Result<Vec<String>, TrustError> {
    let mut waiting = vec![directory.to_owned()];
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
