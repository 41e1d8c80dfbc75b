//! Which plugins there are.
//!
//! Guarantee: every subdirectory of a source is either found or rejected with its reason; one that
//! is broken, unreadable or hostile costs no other its place. No link is followed. Non-guarantee:
//! nothing of what was found may run for that; whether it is what somebody approved is looked at
//! when it starts.

use super::order::{DependencyError, order};
use crate::manifest::{API_VERSION, MANIFEST, Manifest};
use airlock_core::{Digest, PluginName};
use airlock_yaml::{BYTES, DefinitionError};
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use semver::Version;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The most that may lie in the directory of a workspace's plugins: whoever brought it must not say
/// how much is read before anybody trusted it.
const NAMES: usize = 2_000;

/// Where plugins come from, and so who answered for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Origin {
    /// A person installed each by itself.
    User,
    /// They came with a workspace that a person trusts as a whole. Whoever makes a source of it
    /// knows that this holds.
    Workspace,
}

impl Origin {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Workspace => "workspace",
        }
    }
}

/// A directory with a subdirectory for each plugin.
#[derive(Debug, Clone)]
pub struct Source {
    /// The directory. One that does not exist has no plugins.
    pub path: PathBuf,
    /// Who answered for what is in it.
    pub origin: Origin,
}

/// Why what looks like a plugin is none.
#[derive(Debug, thiserror::Error)]
pub enum Reason {
    /// There is more in it than is looked at.
    #[error("there is more in it than {NAMES} names")]
    TooMany,
    /// It is a link.
    #[error("it is a link, and links are not followed")]
    Link,
    /// It cannot be read.
    #[error("it cannot be read: {0}")]
    Unreadable(#[source] io::Error),
    /// It has no manifest.
    #[error("it has no `{MANIFEST}`")]
    NoManifest,
    /// Its manifest is no regular file.
    #[error("its `{MANIFEST}` is no regular file")]
    OddManifest,
    /// Its manifest has problems.
    #[error("its `{MANIFEST}` has problems: {error}")]
    Manifest {
        /// All of them.
        #[source]
        error: DefinitionError,
        /// The text, for showing them.
        text: String,
    },
    /// Others say that they are the same plugin.
    #[error("`{name}` is also in `{}`", .other.display())]
    Duplicate {
        /// The name they share.
        name: PluginName,
        /// Where another is.
        other: PathBuf,
    },
    /// It is for other versions of Airlock.
    #[error("it is for Airlock {wanted}; this is {found}")]
    Engine {
        /// Which versions it is for.
        wanted: String,
        /// Which version this is.
        found: Version,
    },
    /// It is for another plugin interface.
    #[error("it is for version {0} of the plugin interface; this is version {API_VERSION}")]
    ApiVersion(u32),
    /// What it needs is not there.
    #[error(transparent)]
    Dependency(DependencyError),
}

impl Reason {
    /// How to mend it.
    pub fn hint(&self) -> String {
        match self {
            Self::TooMany => "remove what is no plugin".to_owned(),
            Self::Link => "put the plugin's own directory there".to_owned(),
            Self::Unreadable(_) => "make it readable".to_owned(),
            Self::NoManifest => format!("write a `{MANIFEST}`, or remove the directory"),
            Self::OddManifest => "replace it by a file".to_owned(),
            Self::Manifest { error, .. } => error.hint().unwrap_or_default().to_owned(),
            Self::Duplicate { .. } => "remove or rename all but one".to_owned(),
            Self::Engine { .. } | Self::ApiVersion(_) => {
                "get a version of the plugin for this Airlock".to_owned()
            }
            Self::Dependency(_) => "install what it needs, in a version that fits".to_owned(),
        }
    }
}

/// Something that is no plugin.
#[derive(Debug)]
pub struct Rejected {
    /// Where it is.
    pub path: PathBuf,
    /// Its name, if it got as far as saying one.
    pub name: Option<PluginName>,
    /// Why.
    pub reason: Reason,
}

impl Rejected {
    /// What tells it from others that were rejected, and from itself for another reason.
    pub(super) fn told(&self) -> (PathBuf, String) {
        (self.path.clone(), self.reason.to_string())
    }

    /// One line of a list, as data.
    pub fn line(&self) -> Value {
        json!({
            "path": self.path.display().to_string(),
            "name": self.name,
            "reason": self.reason.to_string(),
            "fix": self.reason.hint(),
        })
    }
}

/// A plugin whose manifest was read.
#[derive(Debug, Clone)]
pub(super) struct Found {
    pub(super) manifest: Arc<Manifest>,
    /// The digest of the bytes that the manifest was read from.
    pub(super) digest: Digest,
    pub(super) path: PathBuf,
    pub(super) origin: Origin,
}

/// All that was found, in an order in which it can start.
#[derive(Debug, Default)]
pub(super) struct Discovery {
    pub(super) found: Vec<Found>,
    pub(super) rejected: Vec<Rejected>,
}

/// Looks through `sources`. Where two have a plugin of one name, that of the earlier one counts. The
/// names of those that were `installed` are theirs, each in its place, also while one of them cannot
/// be used: whoever broke it must not get its name by that.
pub(super) fn discover(
    sources: &[Source],
    engine: &Version,
    installed: &BTreeMap<PluginName, PathBuf>,
) -> Discovery {
    let mut discovery = Discovery::default();
    let mut taken: BTreeMap<PluginName, Found> = BTreeMap::new();
    for source in sources {
        let mut here: BTreeMap<PluginName, Vec<Found>> = BTreeMap::new();
        for found in look_into(source, &mut discovery.rejected) {
            let name = found.manifest.name.clone();
            here.entry(name).or_default().push(found);
        }
        for (name, claims) in here {
            let earlier = taken.get(&name).map(|found| &found.path);
            let held = match source.origin {
                Origin::User => None,
                Origin::Workspace => installed.get(&name),
            };
            match single(&name, claims, earlier.or(held)) {
                Ok(found) => {
                    taken.insert(name, found);
                }
                Err(mut rejected) => discovery.rejected.append(&mut rejected),
            }
        }
    }
    taken.retain(|name, found| match compatible(&found.manifest, engine) {
        Ok(()) => true,
        Err(reason) => {
            discovery.rejected.push(reject(name, found, reason));
            false
        }
    });
    let manifests = taken
        .iter()
        .map(|(name, found)| (name.clone(), found.manifest.as_ref()));
    let order = order(&manifests.collect());
    for (name, why) in order.refused {
        if let Some(found) = taken.get(&name) {
            let reason = Reason::Dependency(why);
            discovery.rejected.push(reject(&name, found, reason));
        }
    }
    let names = order.names.iter();
    discovery.found = names.filter_map(|name| taken.remove(name)).collect();
    discovery.rejected.sort_by(|a, b| a.path.cmp(&b.path));
    discovery
}

fn reject(name: &PluginName, found: &Found, reason: Reason) -> Rejected {
    Rejected {
        path: found.path.clone(),
        name: Some(name.clone()),
        reason,
    }
}

/// The one plugin of a name. Several in one source are all refused: which of them was meant cannot
/// be known, and whoever could add one could otherwise put it before the others.
fn single(
    name: &PluginName,
    claims: Vec<Found>,
    earlier: Option<&PathBuf>,
) -> Result<Found, Vec<Rejected>> {
    let paths: Vec<PathBuf> = claims.iter().map(|found| found.path.clone()).collect();
    if let (None, Ok([found])) = (earlier, <[Found; 1]>::try_from(claims.clone())) {
        return Ok(found);
    }
    let duplicate = |found: Found| {
        let other = earlier.into_iter().chain(&paths);
        let other = other.into_iter().find(|path| **path != found.path);
        let reason = Reason::Duplicate {
            name: name.clone(),
            other: other.cloned().unwrap_or_default(),
        };
        reject(name, &found, reason)
    };
    Err(claims.into_iter().map(duplicate).collect())
}

/// Whether `manifest` is for this Airlock.
pub(super) fn compatible(manifest: &Manifest, engine: &Version) -> Result<(), Reason> {
    if !manifest.engine.matches(engine) {
        return Err(Reason::Engine {
            wanted: manifest.engine.to_string(),
            found: engine.clone(),
        });
    }
    if manifest.api_version != API_VERSION {
        return Err(Reason::ApiVersion(manifest.api_version));
    }
    Ok(())
}

/// The plugins of one source, by the names of their directories.
fn look_into(source: &Source, rejected: &mut Vec<Rejected>) -> Vec<Found> {
    let mut refuse = |path: PathBuf, reason| {
        rejected.push(Rejected {
            path,
            name: None,
            reason,
        });
    };
    let most = match source.origin {
        Origin::User => usize::MAX,
        Origin::Workspace => NAMES,
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let listed = rustix::fs::open(&source.path, flags, Mode::empty())
        .map_err(io::Error::from)
        .and_then(|root| Ok((names(&root, most)?, root)));
    let (names, root) = match listed {
        Ok((names, _)) if names.len() > most => {
            refuse(source.path.clone(), Reason::TooMany);
            return Vec::new();
        }
        Ok(listed) => listed,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Vec::new(),
        Err(error) => {
            refuse(source.path.clone(), Reason::Unreadable(error));
            return Vec::new();
        }
    };
    let mut found = Vec::new();
    for name in names {
        let path = source.path.join(&name);
        match look_at(&root, &name) {
            Ok(Some((manifest, digest))) => found.push(Found {
                manifest: Arc::new(manifest),
                digest,
                path,
                origin: source.origin,
            }),
            Ok(None) => {}
            Err(reason) => refuse(path, reason),
        }
    }
    found
}

/// What lies there, or a little more than `most` of it.
fn names(root: &OwnedFd, most: usize) -> io::Result<Vec<std::ffi::OsString>> {
    use std::os::unix::ffi::OsStrExt as _;
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::read_from(root)? {
        let name = entry?.file_name().to_bytes().to_vec();
        // What begins with a dot is ours while it is being put there, or somebody's leftovers.
        if names.len() > most {
            break;
        }
        if !name.starts_with(b".") {
            names.push(std::ffi::OsStr::from_bytes(&name).to_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// The manifest in the subdirectory `name`; none if it is no directory at all.
fn look_at(root: &OwnedFd, name: &std::ffi::OsStr) -> Result<Option<(Manifest, Digest)>, Reason> {
    let unreadable = |error: rustix::io::Errno| Reason::Unreadable(error.into());
    let looked = rustix::fs::statat(root, name, AtFlags::SYMLINK_NOFOLLOW).map_err(unreadable)?;
    let kind = FileType::from_raw_mode(looked.st_mode);
    if kind == FileType::Symlink {
        return Err(Reason::Link);
    }
    if kind != FileType::Directory {
        return Ok(None);
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = rustix::fs::openat(root, name, flags, Mode::empty()).map_err(unreadable)?;
    read_manifest(&directory).map(Some)
}

/// Reads the manifest of the plugin in `path`.
pub(super) fn manifest_in(path: &Path) -> Result<(Manifest, Digest), Reason> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = rustix::fs::open(path, flags, Mode::empty())
        .map_err(|error| Reason::Unreadable(error.into()))?;
    read_manifest(&directory)
}

fn read_manifest(directory: &OwnedFd) -> Result<(Manifest, Digest), Reason> {
    let bytes = read_bounded(directory, Path::new(MANIFEST))?;
    match Manifest::parse(&bytes) {
        Ok(manifest) => Ok((manifest, Digest::of(&bytes))),
        Err(error) => Err(Reason::Manifest {
            error,
            text: String::from_utf8_lossy(&bytes).into_owned(),
        }),
    }
}

/// The text of a manifest in `file`, unchecked. Neither a link, a pipe nor a device is read, and of
/// a file that is too long for a manifest only as much as tells that.
pub fn manifest_text(file: &Path) -> Result<Vec<u8>, Reason> {
    read_bounded(rustix::fs::CWD, file)
}

fn read_bounded(directory: impl AsFd, file: &Path) -> Result<Vec<u8>, Reason> {
    let flags =
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(directory, file, flags, Mode::empty()) {
        Ok(file) => file,
        Err(rustix::io::Errno::NOENT) => return Err(Reason::NoManifest),
        Err(rustix::io::Errno::LOOP | rustix::io::Errno::NXIO) => return Err(Reason::OddManifest),
        Err(error) => return Err(Reason::Unreadable(error.into())),
    };
    let looked = rustix::fs::fstat(&file).map_err(|error| Reason::Unreadable(error.into()))?;
    if FileType::from_raw_mode(looked.st_mode) != FileType::RegularFile {
        return Err(Reason::OddManifest);
    }
    let mut bytes = Vec::new();
    // One byte more than fits is enough to know that it does not.
    let most = BYTES as u64 + 1;
    let mut limited = File::from(file).take(most);
    limited
        .read_to_end(&mut bytes)
        .map_err(Reason::Unreadable)?;
    Ok(bytes)
}
