//! What the person set for plugins: a file for each below their own configuration, private to them.
//!
//! Guarantee: a workspace has no say in it, and no value is printed. What is set for an installed
//! plugin is never that of another of its name that a workspace brought, nor the other way round, and
//! goes with the plugin when that is removed. A change is on disk as a whole or not at all.
//! Non-guarantee: comments in a file are gone once a value in it is set here.

use crate::failure::{Failure, Kind, cause};
use crate::place::Place;
use crate::reading::{self, ReadError};
use crate::writing::Making;
use airlock_core::{PluginName, WorkspaceId};
#[cfg(target_os = "linux")]
use airlock_kernel::{PluginSettings, SettingsFile};
#[cfg(target_os = "linux")]
use airlock_plugin::Origin;
use airlock_plugin::{MANIFEST, Manifest, check_configuration, manifest_text, secrets_of};
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

/// What the names of such settings begin with.
const PREFIX: &str = "plugins.";
/// The largest file.
const BYTES: u64 = 256 << 10;

/// A setting of a plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) plugin: PluginName,
    pub(crate) setting: String,
}

/// The setting of a plugin that `key` names; none if it names none of a plugin.
pub(crate) fn key(key: &str) -> Option<Result<Key, Failure>> {
    let rest = key.strip_prefix(PREFIX)?;
    let parts = rest.split_once('.');
    let named = parts.and_then(|(plugin, setting)| Some((PluginName::new(plugin).ok()?, setting)));
    Some(match named {
        Some((plugin, setting)) if !setting.is_empty() => Ok(Key {
            plugin,
            setting: setting.to_owned(),
        }),
        Some(_) | None => {
            let key = airlock_kernel::sanitise_line(key, 80);
            let what = format!("`{key}` is no setting of a plugin");
            Err(Failure::new(Kind::Usage, what).fix("write it as plugins.NAME.SETTING"))
        }
    })
}

/// The settings of all plugins, as kernels ask for them.
#[cfg(target_os = "linux")]
pub(crate) struct Stored {
    pub(crate) config_home: PathBuf,
}

#[cfg(target_os = "linux")]
impl PluginSettings for Stored {
    fn read(&self, plugin: &PluginName, workspace: Option<&WorkspaceId>) -> Result<Value, String> {
        read(&path_of(&self.config_home, plugin, workspace))
    }

    fn files(&self, workspace: &WorkspaceId) -> Result<Vec<SettingsFile>, String> {
        let mut files = Vec::new();
        for (whose, origin) in [(None, Origin::User), (Some(workspace), Origin::Workspace)] {
            // The second lies in the first: where that is not there, neither is.
            let Some(found) = files_in(&directory_of(&self.config_home, whose))? else {
                break;
            };
            files.extend(found.into_iter().map(|(plugin, path)| SettingsFile {
                plugin,
                origin,
                path,
            }));
        }
        Ok(files)
    }

    fn forget(&self, plugin: &PluginName) -> Result<(), String> {
        let path = path_of(&self.config_home, plugin, None);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(format!("{}: {error}", path.display()))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

/// Where the settings of a plugin are that `workspace` brought, or that was installed.
fn path_of(config_home: &Path, plugin: &PluginName, workspace: Option<&WorkspaceId>) -> PathBuf {
    let directory = directory_of(config_home, workspace);
    directory.join(format!("{plugin}.yaml"))
}

fn directory_of(config_home: &Path, workspace: Option<&WorkspaceId>) -> PathBuf {
    let all = config_home.join("airlock/plugins");
    match workspace {
        None => all,
        Some(workspace) => all.join("workspaces").join(workspace.as_str()),
    }
}

/// The files of settings in a directory, each with the plugin it is for, in order; none where there is
/// no such directory.
fn files_in(directory: &Path) -> Result<Option<Vec<(PluginName, PathBuf)>>, String> {
    let failed = |error: io::Error| format!("{}: {error}", directory.display());
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let mut files = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        let plugin = name.to_str().and_then(|name| name.strip_suffix(".yaml"));
        if let Some(plugin) = plugin.and_then(|name| PluginName::new(name).ok()) {
            files.push((plugin, entry.path()));
        }
    }
    files.sort();
    Ok(Some(files))
}

/// Whether there is nothing of that name.
fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// What is set in a file: an object, empty if there is none.
fn read(path: &Path) -> Result<Value, String> {
    let text = match reading::text(path, BYTES) {
        Ok(text) => text,
        Err(ReadError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(Value::Object(Map::new()));
        }
        Err(error) => return Err(format!("{}: {error}", path.display())),
    };
    if text.trim().is_empty() {
        return Ok(Value::Object(Map::new()));
    }
    // What a parser says of a mistake may quote the line, and the line may hold a secret.
    let value: Value =
        serde_saphyr::from_str(&text).map_err(|_| format!("{}: it is no YAML", path.display()))?;
    match value {
        Value::Object(_) => Ok(value),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Err(format!("{}: it is no mapping of settings", path.display()))
        }
    }
}

/// Sets one value, or takes it out, and gives what is still wrong with the plugin's settings, and why
/// results will show a value that is a secret. It is for the installed plugin, or where there is none
/// for the one that `workspace` brings.
pub(crate) fn change(
    place: &Place,
    workspace: &WorkspaceId,
    key: &Key,
    value: Option<&str>,
) -> Result<Vec<String>, Failure> {
    let (manifest, brought) = manifest_of(place, &key.plugin);
    let whose = brought.then_some(workspace);
    let path = path_of(&place.config_home, &key.plugin, whose);
    let old = read(&path).map_err(|why| {
        Failure::new(Kind::Failed, "cannot read the plugin's settings")
            .why(why)
            .fix("mend the file, or remove it and set its values again")
    })?;
    let mut values = match old {
        Value::Object(values) => values,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Map::new()
        }
    };
    match value {
        None => {
            values.remove(&key.setting);
        }
        Some(text) => {
            let value = meant(manifest.as_ref(), &key.setting, text);
            values.insert(key.setting.clone(), value);
        }
    }
    let values = Value::Object(values);
    let mut left = Vec::new();
    match &manifest {
        Some(manifest) => {
            let (own, others) = split(check_configuration(manifest, &values), &key.setting);
            if let (Some(_), false) = (value, own.is_empty()) {
                let what = format!("`{}` of `{}` cannot be that", key.setting, key.plugin);
                return Err(Failure::new(Kind::Usage, what)
                    .why(own.join("; "))
                    .fix(format!(
                        "`airlock plugin show {}` says what there is to set",
                        key.plugin
                    )));
            }
            left = others;
            left.extend(not_held(manifest, &key.setting, &values));
        }
        None => left.push(format!(
            "there is no plugin `{}` here; the value counts once one is installed",
            key.plugin
        )),
    }
    write(&path, &values)?;
    Ok(left)
}

/// Why results will show what is set for one setting, where that is a secret. No value is in it.
fn not_held(manifest: &Manifest, setting: &str, values: &Value) -> BTreeSet<String> {
    let Some(value) = values.get(setting) else {
        return BTreeSet::new();
    };
    let mut own = Map::new();
    own.insert(setting.to_owned(), value.clone());
    airlock_kernel::not_held(&secrets_of(manifest, &Value::Object(own)))
}

/// The problems of one setting, and those of others.
fn split(problems: Vec<airlock_plugin::Mismatch>, setting: &str) -> (Vec<String>, Vec<String>) {
    let is_own = |problem: &airlock_plugin::Mismatch| {
        let rest = problem.at.strip_prefix(setting);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            || (problem.at.is_empty() && problem.what.contains("no settings"))
    };
    let (own, others): (Vec<_>, Vec<_>) = problems.into_iter().partition(is_own);
    let texts = |problems: Vec<airlock_plugin::Mismatch>| {
        let texts = problems.iter().map(ToString::to_string);
        texts.collect()
    };
    (texts(own), texts(others))
}

/// What the person means by `text`: where a text is wanted it is one, whatever it looks like.
fn meant(manifest: Option<&Manifest>, setting: &str, text: &str) -> Value {
    let schema = manifest.and_then(|manifest| manifest.config_schema.as_ref());
    let schema = schema.and_then(|schema| schema.get("properties")?.get(setting));
    let wanted = schema.and_then(|schema| schema.get("type")?.as_str());
    let parsed = serde_json::from_str(text).ok();
    match (wanted, parsed) {
        (Some("string"), _) | (_, None | Some(Value::Null | Value::String(_))) => {
            Value::String(text.to_owned())
        }
        (_, Some(value)) => value,
    }
}

/// The manifest of an installed plugin, or of one that the workspace brings, and whether it is that.
/// The name of one that is installed is its own, also while it cannot be read.
fn manifest_of(place: &Place, plugin: &PluginName) -> (Option<Manifest>, bool) {
    let read = |directory: &Path| {
        let bytes = manifest_text(&directory.join(MANIFEST)).ok()?;
        let manifest = Manifest::parse(&bytes).ok()?;
        (manifest.name == *plugin).then_some(manifest)
    };
    let installed = place.state_home.join("airlock/plugins/installed");
    let installed = installed.join(plugin.as_str());
    if std::fs::symlink_metadata(&installed).is_ok() {
        return (read(&installed), false);
    }
    let brought = place.workspace.join(airlock_kernel::PLUGINS_DIR);
    let entries = std::fs::read_dir(brought).into_iter().flatten().flatten();
    let mut directories = entries.map(|entry| entry.path());
    let manifest = directories.find_map(|directory| read(&directory));
    let is_brought = manifest.is_some();
    (manifest, is_brought)
}

/// Each setting on a line of its own, readable to the person alone.
fn write(path: &Path, values: &Value) -> Result<(), Failure> {
    let failed = |error: io::Error| {
        Failure::new(Kind::Failed, format!("cannot write {}", path.display()))
            .why(cause(&error))
            .fix("make the directory writable, or set XDG_CONFIG_HOME to one that is")
    };
    let mut text = String::new();
    for (name, value) in values.as_object().into_iter().flatten() {
        let _ = writeln!(text, "{}: {value}", Value::String(name.clone()));
    }
    let directory = path.parent().unwrap_or(path);
    std::fs::create_dir_all(directory).map_err(failed)?;
    // Such a file is its owner's alone from the moment it is there.
    Making::of(path, text.as_bytes()).map_err(|error| failed(error.into()))
}

/// Every setting of a plugin that is set here, by name. No value.
pub(crate) fn names(config_home: &Path, workspace: &WorkspaceId) -> Vec<String> {
    let mut names = names_in(&directory_of(config_home, None));
    names.extend(names_in(&directory_of(config_home, Some(workspace))));
    names.sort();
    names.dedup();
    names
}

/// The settings that an installed plugin of that name finds. No value.
pub(crate) fn names_of(place: &Place, plugin: &PluginName) -> Vec<String> {
    let values = read(&path_of(&place.config_home, plugin, None)).unwrap_or_default();
    let settings = values.as_object().into_iter().flat_map(Map::keys);
    settings.cloned().collect()
}

fn names_in(directory: &Path) -> Vec<String> {
    let files = files_in(directory).ok().flatten();
    let mut names = Vec::new();
    for (plugin, path) in files.into_iter().flatten() {
        let values = read(&path).unwrap_or_default();
        let settings = values.as_object().into_iter().flat_map(Map::keys);
        names.extend(settings.map(|setting| format!("{PREFIX}{plugin}.{setting}")));
    }
    names
}
