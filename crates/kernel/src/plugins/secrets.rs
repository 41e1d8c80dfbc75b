//! The secrets among what is set for plugins, held whether those run or not.
//!
//! Guarantee: what is set when a call begins is held before anything of the call is kept or shown, and
//! what is set meanwhile before its result is. Where that cannot be read nothing is kept or shown. Of a
//! plugin whose manifest cannot be read every setting counts as secret. Non-guarantee: what is set for
//! a plugin that is not there is not held, for nobody says what of it is secret.
//!
//! Where nothing is set for any plugin, it costs what it takes to see that.

use super::{PluginSettings, SettingsFile, locked};
use crate::policy_stamp::Seen;
use crate::sanitise::Held;
use airlock_core::WorkspaceId;
use airlock_plugin::{MANIFEST, Manifest, Origin, manifest_text, secrets_of, texts_of};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::SystemTime;

/// The most directories of a workspace's plugins that are looked into: no plugin is found among more.
const DIRECTORIES: usize = 2_000;

/// Why it is not known which secrets plugins were given.
#[derive(Debug, thiserror::Error)]
#[error("the settings of plugins cannot be read, so their secrets cannot be taken out: {0}")]
pub(crate) struct Unheld(String);

impl Unheld {
    /// What to do about it.
    pub(crate) const FIX: &'static str = "mend the file, or remove it and set its values again";
}

/// A file, and how it stood.
type Mark = (PathBuf, Option<Seen>);

/// What says of the settings of plugins which are secret.
pub(super) struct Secrets {
    /// Where installed plugins are.
    installed: PathBuf,
    /// Where those are that the workspace brings.
    brought: PathBuf,
    /// How everything stood that is held; none where it has to be looked at again in any case.
    looked: Mutex<Option<Vec<Mark>>>,
}

impl Secrets {
    pub(super) fn new(installed: PathBuf, brought: PathBuf) -> Self {
        Self {
            installed,
            brought,
            looked: Mutex::default(),
        }
    }

    /// Has `held` hold every secret among `settings`, if anything changed since that was done last.
    pub(super) fn hold(
        &self,
        settings: &dyn PluginSettings,
        workspace: &WorkspaceId,
        held: &Held,
    ) -> Result<(), Unheld> {
        let files = settings.files(workspace).map_err(Unheld)?;
        if files.is_empty() {
            return Ok(());
        }
        // Whoever comes meanwhile waits: it must not go on before they are held.
        let mut looked = locked(&self.looked);
        // Taken before anything is read: what changes meanwhile is noticed the next time.
        let now = self.marks(&files);
        if looked.as_ref() == Some(&now) {
            return Ok(());
        }
        *looked = None;
        for file in &files {
            let found = self.find(file);
            if matches!(found, Found::Nothing) {
                continue;
            }
            let whose = match file.origin {
                Origin::User => None,
                Origin::Workspace => Some(workspace),
            };
            let given = settings.read(&file.plugin, whose).map_err(Unheld)?;
            // What is too short to be held is told when it is set, and when the plugin starts.
            let _told = held.hold(&found.secrets(&given));
        }
        *looked = (!has_fresh(&now)).then_some(now);
        Ok(())
    }

    /// How everything stands that decides on what is held for `files`.
    fn marks(&self, files: &[SettingsFile]) -> Vec<Mark> {
        let mut marks = Vec::new();
        for file in files {
            marks.push((file.path.clone(), Seen::through(&file.path)));
            marks.extend(self.manifests(file).map(|path| {
                let seen = Seen::of(&path);
                (path, seen)
            }));
        }
        marks
    }

    /// Where the manifest of a plugin may be that something is set for.
    fn manifests(&self, file: &SettingsFile) -> impl Iterator<Item = PathBuf> {
        let directories = match file.origin {
            Origin::User => vec![self.installed.join(file.plugin.as_str())],
            Origin::Workspace => directories_in(&self.brought),
        };
        let manifest = |directory: PathBuf| directory.join(MANIFEST);
        directories.into_iter().map(manifest)
    }

    /// The plugin that something is set for.
    fn find(&self, file: &SettingsFile) -> Found {
        let (mut manifests, mut is_unreadable) = (Vec::new(), false);
        for path in self.manifests(file) {
            if !path.parent().is_some_and(Path::is_dir) {
                continue;
            }
            let text = manifest_text(&path).ok();
            match text.and_then(|text| Manifest::parse(&text).ok()) {
                Some(manifest) if manifest.name == file.plugin => manifests.push(manifest),
                Some(_) => {}
                None => is_unreadable = true,
            }
        }
        if !manifests.is_empty() {
            Found::Plugin(manifests)
        } else if is_unreadable {
            Found::Unreadable
        } else {
            Found::Nothing
        }
    }
}

/// What there is of a plugin.
enum Found {
    Nothing,
    /// It cannot be told what its settings are.
    Unreadable,
    /// Its manifest. A workspace may have several of one name, none of which is used then.
    Plugin(Vec<Manifest>),
}

impl Found {
    /// What of `given` is secret.
    fn secrets(&self, given: &Value) -> Vec<(String, String)> {
        match self {
            Self::Nothing => Vec::new(),
            Self::Unreadable => texts_of(given),
            Self::Plugin(manifests) => {
                let secrets = |manifest: &Manifest| secrets_of(manifest, given);
                manifests.iter().flat_map(secrets).collect()
            }
        }
    }
}

/// Whether any of these changed so lately that another change may not show.
fn has_fresh(marks: &[Mark]) -> bool {
    let now = SystemTime::now();
    let mut seen = marks.iter().filter_map(|(_, seen)| seen.as_ref());
    seen.any(|seen| seen.is_fresh(now))
}

/// The directories in `directory`, in order. Links are none: no plugin is found behind one.
fn directories_in(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory);
    let entries = entries.into_iter().flatten().flatten();
    let directories = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let paths = directories.take(DIRECTORIES).map(|entry| entry.path());
    let mut paths: Vec<PathBuf> = paths.collect();
    paths.sort();
    paths
}
