//! Bringing plugins in from a local path, and taking them away.
//!
//! Guarantee: what is installed has the digest that was reviewed, whatever happens to the source
//! meanwhile, and appears as a whole or not at all: where an installation was killed on the way, the
//! next look puts the version back that was there. It is of unknown origin, so it may run in a
//! container only, unless whoever approved it said more. Non-guarantee: approving is not done here;
//! an [`Approval`] says that it was.

use super::discover::{Reason, compatible, manifest_in};
use super::error::ManageError;
use super::files::{Contents, FilesError};
use super::gone::remove_plugin_directory;
use super::records::{Approved, Book};
use super::{Manager, Origin, THIRD_PARTY};
use crate::manifest::{Kind, MANIFEST, Manifest};
use airlock_core::{Digest, PluginName, TagName, Tier};
use serde_json::{Value, json};
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What lies aside after this time is of no use to anybody.
const ASIDE: Duration = Duration::from_hours(24);
/// How the name of what lies aside begins until it is written down what took its place.
const BEFORE: &str = ".before-";

/// A plugin that somebody may want to install.
#[derive(Debug, Clone)]
pub struct Review {
    /// What it says of itself.
    pub manifest: Arc<Manifest>,
    /// Where it is.
    pub path: PathBuf,
    /// The digest of everything in it: what an approval approves.
    pub directory: Digest,
    /// The digest of what would run.
    pub entry: Digest,
    /// How many files it has.
    pub files: usize,
    /// The version that it would take the place of.
    pub replaces: Option<String>,
    /// Whether it wants to run nearer than what is of unknown origin may.
    pub needs_trust: bool,
}

impl Review {
    /// What a person has to see, as data.
    pub fn whole(&self) -> Value {
        json!({
            "manifest": self.manifest.effective(),
            "path": self.path.display().to_string(),
            "digest": self.directory,
            "entry_digest": self.entry,
            "files": self.files,
            "replaces": self.replaces,
            "needs_trust": self.needs_trust,
        })
    }
}

/// What somebody approved.
#[derive(Debug, Clone)]
pub struct Approval {
    directory: Digest,
    tier: Tier,
    tags: Vec<TagName>,
}

impl Approval {
    /// Approves these files, of unknown origin: for a container, as third party.
    pub fn of_unknown_origin(directory: Digest) -> Self {
        Self {
            directory,
            tier: Tier::Container,
            tags: TagName::new(THIRD_PARTY).into_iter().collect(),
        }
    }

    /// Approves them for `tier` as well.
    #[must_use]
    pub fn trusting(mut self, tier: Tier) -> Self {
        self.tier = tier;
        self
    }

    /// Gives it these tags instead.
    #[must_use]
    pub fn tagged(mut self, tags: Vec<TagName>) -> Self {
        self.tags = tags;
        self
    }
}

impl Manager {
    /// Looks at what is in `path`, for whoever is to approve it.
    pub fn review(&self, path: &Path) -> Result<Review, ManageError> {
        let path = resolved(path)?;
        let contents = Contents::of(&path).map_err(|error| files(&path, error))?;
        let (manifest, entry) = self.read_installable(&path, &path, &contents)?;
        let replaces = self.get(manifest.name.as_str()).ok();
        let needs_trust = needs_trust(&manifest, Tier::Container);
        Ok(Review {
            directory: contents.digest(),
            entry,
            files: contents.files().count(),
            replaces: replaces.map(|listed| listed.manifest.version.to_string()),
            needs_trust,
            manifest: Arc::new(manifest),
            path,
        })
    }

    /// Installs what is in `path`, if it is what was approved. It is switched on, not started; a
    /// version that runs goes on until it is reloaded.
    pub fn install(&self, path: &Path, approval: &Approval) -> Result<PluginName, ManageError> {
        let path = resolved(path)?;
        let installed = self.installed();
        let made = DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&installed);
        made.map_err(|source| self.records_failed(source))?;
        let incoming = Aside(aside(&installed, "incoming"));
        let contents = Contents::copy(&path, &incoming.0).map_err(|error| files(&path, error))?;
        let found = contents.digest();
        if found != approval.directory {
            return Err(ManageError::NotReviewed { path, found });
        }
        let (manifest, entry) = self.read_installable(&path, &incoming.0, &contents)?;
        if needs_trust(&manifest, approval.tier) {
            return Err(ManageError::NeedsTrust {
                plugin: manifest.name,
                wants: manifest.execution.tier,
            });
        }
        let approved = Approved {
            directory: found,
            entry,
            tier: approval.tier,
            tags: approval.tags.clone(),
        };
        let name = manifest.name;
        let place = installed.join(name.as_str());
        let before = aside(&installed, &format!("before-{name}"));
        let put = |book: &mut Book| {
            match std::fs::rename(&place, &before) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Err(_) | Ok(()) => {}
            }
            std::fs::rename(&incoming.0, &place).inspect_err(|_| {
                // What was there stays; if not even that can be done, its files lie aside.
                let _back = std::fs::rename(&before, &place);
            })?;
            book.approved.insert(name.clone(), approved);
            book.disabled.remove(&name);
            Ok(())
        };
        let put_back = || {
            let _away = std::fs::rename(&place, &incoming.0);
            let _back = std::fs::rename(&before, &place);
        };
        self.records
            .change_or(put, put_back)
            .map_err(|source| self.records_failed(source))?;
        // What is left there is for the next look.
        let _gone = std::fs::rename(&before, aside(&installed, "gone"));
        self.refresh()?;
        Ok(name)
    }

    /// Puts the version back whose place another took that was never written down: whoever installed it
    /// was killed on the way.
    pub(super) fn mend(&self) {
        let installed = self.installed();
        if put_aside(&installed).is_empty() {
            return;
        }
        // Under the lock nobody is on the way. What cannot be put back now is tried again.
        let _mended = self.records.change(|book| {
            for (name, before) in put_aside(&installed) {
                let approved = book.approved.get(&name).map(|approved| approved.directory);
                let is_approved = |path: &Path| {
                    let contents = Contents::of(path);
                    contents.is_ok_and(|contents| approved == Some(contents.digest()))
                };
                let place = installed.join(name.as_str());
                let gone = aside(&installed, "gone");
                if is_approved(&place) || !is_approved(&before) {
                    std::fs::rename(&before, &gone)?;
                    continue;
                }
                match std::fs::rename(&place, &gone) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    Err(_) | Ok(()) => {}
                }
                std::fs::rename(&before, &place)?;
            }
            Ok(())
        });
    }

    /// Stops a plugin that was installed, and removes it with its approval, its settings and its data:
    /// whoever has its name next must not find them. One that cannot be used any more can still be removed.
    pub fn remove(&self, name: &str) -> Result<(), ManageError> {
        let plugin = match self.plugin(name) {
            Ok(plugin) => plugin,
            Err(error) => {
                let Ok(name) = PluginName::new(name) else {
                    return Err(error);
                };
                return self.remove_broken(&name, error);
            }
        };
        let found = plugin.found();
        if found.origin == Origin::Workspace {
            return Err(ManageError::OfWorkspace(plugin.name.clone()));
        }
        {
            self.not_needed(&plugin.name)?;
            let _operation = self.put_down(&plugin, || true)?;
            self.take_away(&plugin.name, &found.path)?;
        }
        self.refresh()
    }

    /// Removes what is left of a plugin that is none any more; `unusable` says why it is none.
    fn remove_broken(&self, name: &PluginName, unusable: ManageError) -> Result<(), ManageError> {
        let path = self.installed().join(name.as_str());
        let book = self.records.read().map_err(|e| self.records_failed(e))?;
        let is_known = book.approved.contains_key(name) || book.disabled.contains(name);
        if !is_known && std::fs::symlink_metadata(&path).is_err() {
            return Err(unusable);
        }
        self.take_away(name, &path)?;
        self.refresh()
    }

    fn take_away(&self, name: &PluginName, path: &Path) -> Result<(), ManageError> {
        let gone = aside(&self.installed(), "gone");
        let data = self.home.join("data").join(name.as_str());
        // Under a name that no plugin has, so that the next of this name does not find it even if
        // it cannot be removed.
        let gone_data = aside(&self.home.join("data"), "gone");
        let take = |book: &mut Book| {
            // First: if it cannot be forgotten, everything stays as it is.
            self.registrar.forget(name).map_err(io::Error::other)?;
            match std::fs::rename(&data, &gone_data) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Err(_) | Ok(()) => {}
            }
            match std::fs::rename(path, &gone) {
                // Somebody took the files away; the rest goes now.
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Err(_) | Ok(()) => {}
            }
            book.approved.remove(name);
            book.disabled.remove(name);
            Ok(())
        };
        self.records
            .change(take)
            .map_err(|source| self.records_failed(source))?;
        drop(Aside(gone));
        // Another process may still run it, and let it write; it is swept away another day.
        let _removed = remove_plugin_directory(&gone_data);
        Ok(())
    }

    /// The manifest and the digest of the entry of what is in `at`, which messages call `path`.
    fn read_installable(
        &self,
        path: &Path,
        at: &Path,
        contents: &Contents,
    ) -> Result<(Manifest, Digest), ManageError> {
        let no_plugin = |reason: Reason| ManageError::NoPlugin {
            path: path.to_owned(),
            reason,
        };
        let (manifest, digest) = manifest_in(at).map_err(no_plugin)?;
        compatible(&manifest, &self.engine).map_err(no_plugin)?;
        if contents.file(MANIFEST) != Some(digest) {
            return Err(ManageError::NotReviewed {
                path: path.to_owned(),
                found: contents.digest(),
            });
        }
        let wanted = &manifest.execution.entry;
        let entry = contents.file(wanted).ok_or_else(|| ManageError::NoEntry {
            path: path.to_owned(),
            entry: wanted.clone(),
        })?;
        Ok((manifest, entry))
    }

    /// Removes what earlier versions and broken installations left. What was put aside lately may
    /// still be in use by a plugin that runs.
    pub(super) fn sweep(&self) {
        let data = std::fs::read_dir(self.home.join("data"));
        for entry in data.into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(".gone-") {
                // Nobody finds it under this name; what cannot be removed yet is tried again.
                let _removed = remove_plugin_directory(&entry.path());
            }
        }
        let Ok(entries) = std::fs::read_dir(self.installed()) else {
            return;
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let ours = name
                .to_str()
                .is_some_and(|name| name.starts_with(".incoming-") || name.starts_with(".gone-"));
            // Renaming sets this time, so it says since when it lies aside.
            let since = entry.metadata().ok().and_then(|looked| {
                let changed = u64::try_from(looked.ctime()).ok()?;
                let changed = UNIX_EPOCH + Duration::from_secs(changed);
                SystemTime::now().duration_since(changed).ok()
            });
            if ours && since.is_some_and(|since| since > ASIDE) {
                drop(Aside(entry.path()));
            }
        }
    }
}

/// Whether code of unknown origin would run nearer than `approved` says. A skill has no code.
fn needs_trust(manifest: &Manifest, approved: Tier) -> bool {
    manifest.kind != Kind::Skill && !manifest.execution.tier.satisfies(approved)
}

/// A link that a person names is theirs to follow; no other is.
fn resolved(path: &Path) -> Result<PathBuf, ManageError> {
    std::fs::canonicalize(path).map_err(|source| ManageError::NoPlugin {
        path: path.to_owned(),
        reason: Reason::Unreadable(source),
    })
}

fn files(path: &Path, error: FilesError) -> ManageError {
    ManageError::Files {
        path: path.to_owned(),
        error,
    }
}

/// What lies aside until it is written down what took its place, with the plugins' names.
fn put_aside(installed: &Path) -> Vec<(PluginName, PathBuf)> {
    let entries = std::fs::read_dir(installed);
    let named = |path: PathBuf| {
        let own = path.file_name()?.to_str()?.strip_prefix(BEFORE)?;
        // Three numbers follow the name, as `aside` puts them there.
        let name = PluginName::new(own.rsplitn(4, '-').nth(3)?).ok()?;
        Some((name, path))
    };
    let entries = entries.into_iter().flatten().flatten();
    entries.filter_map(|entry| named(entry.path())).collect()
}

/// A name beside the plugins that is no plugin's.
fn aside(installed: &Path, what: &str) -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    let time = SystemTime::now().duration_since(UNIX_EPOCH);
    let time = time.map_or(0, |time| time.as_nanos());
    installed.join(format!(".{what}-{}-{time}-{next}", std::process::id()))
}

/// A directory that goes when it is not wanted any more.
struct Aside(PathBuf);

impl Drop for Aside {
    fn drop(&mut self) {
        // After a rename nothing is there; and what stays is swept another day. A link is removed,
        // not followed.
        if std::fs::remove_dir_all(&self.0).is_err() {
            let _ = std::fs::remove_file(&self.0);
        }
    }
}
