//! Keeps track of plugins: which there are, which may run, which do.
//!
//! Guarantee: nothing runs but what somebody approved, byte for byte, registered with the kernel
//! before it runs and until it has ended; a call reaches one instance and is never repeated;
//! whatever one plugin does, the others and the manager are well. Non-guarantee: nothing is decided
//! here; whether a call or an installation may happen was decided before the manager is asked.
//!
//! Invariant: no lock is held while a plugin is called. A plugin is started, stopped and exchanged
//! under its own lock, dependencies before those that need them.

mod discover;
mod error;
mod files;
mod gone;
mod install;
mod launch;
mod leave;
mod order;
mod parts;
mod records;
mod restart;
mod run;
mod slot;

pub use discover::{Origin, Reason, Rejected, Source, manifest_text};
pub use error::{LaunchError, ManageError};
pub use files::{ApprovedFile, Contents, FilesError};
pub use gone::remove_plugin_directory;
pub use install::{Approval, Review};
pub use order::DependencyError;
pub use parts::{Clock, Hosts, Monotonic, Registrar};
pub use records::Approved;
pub use run::{Decided, Watch};

use crate::lifecycle::State;
use crate::manifest::Manifest;
use crate::tool::ToolDescription;
use airlock_core::{Digest, PluginName, TagName, closest};
use discover::{Discovery, Found};
use records::{Records, Stamp};
use semver::Version;
use serde_json::{Value, json};
use slot::{Now, Slot, locked};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, Weak};
use std::thread::JoinHandle;
use std::time::Instant;

/// The tag of whatever comes from elsewhere.
pub const THIRD_PARTY: &str = "third_party";
/// Tags that carry power wherever policy comes from. A manifest that lists one is not even found by
/// it.
const GIVEN_ONLY: &[&str] = &["core_plugin", "trusted_write", THIRD_PARTY];

/// Where a manager works.
pub struct Settings {
    /// The version of Airlock.
    pub engine: Version,
    /// Airlock's own directory for plugins, outside every workspace and sandbox: `installed/`,
    /// `data/` and the records of approvals are in it. It exists and is private.
    pub home: PathBuf,
    /// Further sources, after what is installed.
    pub sources: Vec<Source>,
}

/// All plugins.
pub struct Manager {
    engine: Version,
    home: PathBuf,
    sources: RwLock<Vec<Source>>,
    /// The hosts there are, or why there are none.
    hosts: RwLock<Result<Hosts, String>>,
    registrar: Arc<dyn Registrar>,
    clock: Arc<dyn Clock>,
    records: Records,
    /// The records as they were when they were last read.
    seen: Mutex<Stamp>,
    registry: RwLock<Registry>,
    /// Held by whoever looks which plugins there are.
    looking: Mutex<()>,
    /// Those that go by themselves.
    leaving: Mutex<Vec<JoinHandle<()>>>,
    /// Those whose name another has now, until nothing of them runs any more.
    replaced: Mutex<Vec<Arc<Plugin>>>,
    /// Everything ends: nothing is started any more.
    ending: AtomicBool,
    /// By when everything has ended, once that was said.
    last: OnceLock<Instant>,
    /// One went since it was last looked which there are.
    has_left: Arc<AtomicBool>,
    /// For threads that start plugins.
    me: Weak<Self>,
}

#[derive(Default)]
struct Registry {
    plugins: BTreeMap<PluginName, Arc<Plugin>>,
    /// In which they can start.
    order: Vec<PluginName>,
    rejected: Vec<Arc<Rejected>>,
}

/// One plugin that is known.
struct Plugin {
    name: PluginName,
    found: Mutex<Found>,
    approved: Mutex<Option<Approved>>,
    /// For one of a workspace: the files as they were when the workspace was trusted, where nobody
    /// else keeps that.
    trusted: Mutex<Option<Digest>>,
    disabled: AtomicBool,
    /// It counts no more: another has its name, or where it came from is no source any more.
    out: AtomicBool,
    /// A thread sees to its end.
    is_leaving: AtomicBool,
    /// A thread starts it again.
    is_reviving: AtomicBool,
    /// What had its name before, and may still be going.
    before: Mutex<Option<Arc<Plugin>>>,
    slot: Slot,
}

impl Plugin {
    fn new(found: Found, trusted: Option<Digest>) -> Self {
        Self {
            name: found.manifest.name.clone(),
            trusted: Mutex::new(trusted),
            found: Mutex::new(found),
            approved: Mutex::new(None),
            disabled: AtomicBool::new(false),
            out: AtomicBool::new(false),
            is_leaving: AtomicBool::new(false),
            is_reviving: AtomicBool::new(false),
            before: Mutex::new(None),
            slot: Slot::new(),
        }
    }

    fn found(&self) -> Found {
        locked(&self.found).clone()
    }

    fn approved(&self) -> Option<Approved> {
        locked(&self.approved).clone()
    }

    fn is_disabled(&self) -> bool {
        self.disabled.load(Ordering::Acquire)
    }

    fn is_out(&self) -> bool {
        self.out.load(Ordering::Acquire)
    }

    /// The manifest in force: that of what runs, or of what would.
    fn manifest(&self) -> Arc<Manifest> {
        match self.slot.active() {
            Some(active) => Arc::clone(&active.manifest),
            None => self.found().manifest,
        }
    }

    /// The tags a person gave it.
    fn given(&self) -> Vec<TagName> {
        self.approved().map_or_else(
            || TagName::new(THIRD_PARTY).into_iter().collect(),
            |approved| approved.tags,
        )
    }

    /// The tags it is found by: those it was given, and those it gives itself.
    fn tags(&self) -> Vec<TagName> {
        let mut tags = self.given();
        let manifest = self.manifest();
        let own = manifest
            .tags
            .iter()
            .filter(|tag| !GIVEN_ONLY.contains(&tag.as_str()))
            .filter_map(|tag| TagName::new(tag).ok());
        for tag in own {
            if !tags.contains(&tag) {
                tags.push(tag);
            }
        }
        tags
    }
}

/// A plugin as it stands.
#[derive(Debug, Clone)]
pub struct Listed {
    /// The manifest in force.
    pub manifest: Arc<Manifest>,
    /// Where its files are.
    pub path: PathBuf,
    /// Who answered for it.
    pub origin: Origin,
    /// Where its instance stands.
    pub state: State,
    /// Whether it is switched off.
    pub disabled: bool,
    /// The tags it is found by. Those that it gives itself are among them: nothing may be decided
    /// by these.
    pub tags: Vec<TagName>,
    /// The tags that a person gave it, which rules may go by.
    pub given: Vec<TagName>,
    /// What was approved, if it was installed.
    pub approved: Option<Approved>,
    /// What went wrong, if something did.
    pub problem: Option<String>,
    /// The tools it has: those it described if it runs, those of its manifest otherwise.
    pub tools: Vec<ToolDescription>,
    /// What confines it, if it runs.
    pub confinement: Option<Value>,
}

impl Listed {
    /// One line of a list, as data.
    pub fn line(&self) -> Value {
        json!({
            "name": self.manifest.name.as_str(),
            "version": self.manifest.version.to_string(),
            "type": self.manifest.kind.as_str(),
            "tier": self.manifest.execution.tier.as_str(),
            "protocol": self.manifest.execution.protocol.as_str(),
            "origin": self.origin.as_str(),
            "state": self.state.as_str(),
            "disabled": self.disabled,
            "tags": self.tags,
            "problem": self.problem,
        })
    }

    /// All there is to know, as data.
    pub fn whole(&self) -> Value {
        let mut whole = self.line();
        if let Some(fields) = whole.as_object_mut() {
            let more = [
                ("path", json!(self.path.display().to_string())),
                ("manifest", self.manifest.effective()),
                ("approved", json!(self.approved)),
                ("tools", json!(self.tools)),
                ("confinement", json!(self.confinement)),
            ];
            fields.extend(more.map(|(name, value)| (name.to_owned(), value)));
        }
        whole
    }
}

impl Manager {
    /// A manager of what is installed in `settings.home` and what the other sources have. Nothing
    /// runs yet.
    pub fn new(
        settings: Settings,
        hosts: Hosts,
        registrar: Arc<dyn Registrar>,
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<Self>, ManageError> {
        let installed = Source {
            path: settings.home.join("installed"),
            origin: Origin::User,
        };
        let manager = Arc::new_cyclic(|me| Self {
            engine: settings.engine,
            records: Records::new(settings.home.clone()),
            sources: RwLock::new(std::iter::once(installed).chain(settings.sources).collect()),
            home: settings.home,
            hosts: RwLock::new(Ok(hosts)),
            registrar,
            clock,
            seen: Mutex::default(),
            registry: RwLock::new(Registry::default()),
            looking: Mutex::new(()),
            leaving: Mutex::default(),
            replaced: Mutex::default(),
            ending: AtomicBool::new(false),
            last: OnceLock::new(),
            has_left: Arc::default(),
            me: Weak::clone(me),
        });
        manager.sweep();
        manager.refresh()?;
        Ok(manager)
    }

    /// Takes these hosts from now on, or says why there are none. What runs goes on where it is.
    pub fn host(&self, hosts: Result<Hosts, String>) {
        *self.hosts.write().unwrap_or_else(PoisonError::into_inner) = hosts;
    }

    /// Looks again which plugins there are, if another process installed, removed or switched one
    /// since. What runs goes on as it is.
    pub fn follow(&self) -> Result<(), ManageError> {
        if self.records.stamp() == *locked(&self.seen) {
            return Ok(());
        }
        self.refresh()
    }

    /// Looks again which plugins there are. What runs goes on as it is.
    pub fn refresh(&self) -> Result<(), ManageError> {
        // One at a time: each plugin that is new is made once.
        let looking = locked(&self.looking);
        self.mend();
        // Before reading: what changes meanwhile is noticed the next time.
        let stamp = self.records.stamp();
        let book = self.records.read().map_err(|e| self.records_failed(e))?;
        let sources = self.sources.read().unwrap_or_else(PoisonError::into_inner);
        let place = |name: &PluginName| (name.clone(), self.installed().join(name.as_str()));
        let installed = book.approved.keys().map(place).collect();
        let Discovery { found, rejected } = discover::discover(&sources, &self.engine, &installed);
        drop(sources);
        // Made before anybody has to wait: the files of a workspace's plugins are read for it.
        let known = self.read(|registry| registry.plugins.clone());
        let plugins: Vec<(Found, Arc<Plugin>)> = found
            .into_iter()
            .map(|one| {
                let plugin = match known.get(&one.manifest.name) {
                    Some(plugin) if plugin.found().origin == one.origin && !plugin.is_out() => {
                        Arc::clone(plugin)
                    }
                    Some(other) => {
                        // Another plugin has its name now: it goes, and that one starts once it has.
                        self.replaced(other);
                        let plugin = Plugin::new(one.clone(), self.trusted(&one));
                        *locked(&plugin.before) = Some(Arc::clone(other));
                        Arc::new(plugin)
                    }
                    None => Arc::new(Plugin::new(one.clone(), self.trusted(&one))),
                };
                (one, plugin)
            })
            .collect();
        let mut registry = self
            .registry
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let mut before = std::mem::take(&mut registry.plugins);
        registry.order = plugins.iter().map(|(_, one)| one.name.clone()).collect();
        for (found, plugin) in plugins {
            before.remove(&plugin.name);
            *locked(&plugin.found) = found;
            registry.plugins.insert(plugin.name.clone(), plugin);
        }
        // Files that are gone do not end what runs from them. One that leaves is known until it has
        // left: another of its name waits for that.
        before.retain(|_, plugin| {
            plugin.is_leaving.load(Ordering::Acquire) || !plugin.slot.is_idle()
        });
        registry.order.extend(before.keys().cloned());
        registry.plugins.append(&mut before);
        for (name, plugin) in &registry.plugins {
            *locked(&plugin.approved) = match plugin.found().origin {
                Origin::User => book.approved.get(name).cloned(),
                // What was said of an installed one is not said of another that has its name.
                Origin::Workspace => None,
            };
            let disabled = book.disabled.contains(name);
            plugin.disabled.store(disabled, Ordering::Release);
        }
        let told = std::mem::take(&mut registry.rejected);
        registry.rejected = rejected.into_iter().map(Arc::new).collect();
        let told: BTreeSet<_> = told.iter().map(|one| one.told()).collect();
        let rejected = registry.rejected.iter();
        let new = rejected.filter(|one| !told.contains(&one.told())).cloned();
        let new: Vec<Arc<Rejected>> = new.collect();
        drop(registry);
        if !new.is_empty() {
            self.registrar.skipped(&new);
        }
        *locked(&self.seen) = stamp;
        drop(looking);
        Ok(())
    }

    /// Takes these sources beside what is installed: a workspace was trusted, or is not any more.
    /// Its plugins count as they are now; those that do not count any more are stopped.
    pub fn set_sources(&self, sources: Vec<Source>) -> Result<(), ManageError> {
        {
            let mut known = self.sources.write().unwrap_or_else(PoisonError::into_inner);
            known.truncate(1);
            known.extend(sources);
        }
        for plugin in self.all() {
            let found = plugin.found();
            if found.origin == Origin::Workspace {
                // Whoever starts it meanwhile is not waited for: it may be waiting for us.
                *locked(&plugin.trusted) = self.trusted(&found);
                if !self.is_source_of(&found.path) {
                    plugin.out.store(true, Ordering::Release);
                    self.dismiss(&plugin);
                }
            }
        }
        self.refresh()
    }

    /// What a plugin of a trusted workspace has to stay, for as long as that trust holds. Where the
    /// kernel keeps a record of that, nothing is read for it: whoever brought the workspace chose how
    /// much there is to read.
    fn trusted(&self, found: &Found) -> Option<Digest> {
        let is_kept = || {
            self.registrar
                .approved_files(found.origin, &found.path)
                .is_some()
        };
        if found.origin == Origin::User || is_kept() {
            return None;
        }
        Contents::of(&found.path).ok().map(|all| all.digest())
    }

    fn is_source_of(&self, path: &Path) -> bool {
        let sources = self.sources.read().unwrap_or_else(PoisonError::into_inner);
        let mut sources = sources.iter();
        sources.any(|source| path.parent() == Some(&source.path))
    }

    /// The plugin of that name, as it stands.
    pub fn get(&self, name: &str) -> Result<Listed, ManageError> {
        self.plugin(name).map(|plugin| listed(&plugin))
    }

    /// Every plugin, by name.
    pub fn list(&self) -> Vec<Listed> {
        let mut plugins = self.all();
        plugins.retain(|plugin| !plugin.is_out());
        plugins.iter().map(|plugin| listed(plugin)).collect()
    }

    /// The plugins that have `tag`, by name.
    pub fn by_tag(&self, tag: &TagName) -> Vec<Listed> {
        let mut listed = self.list();
        listed.retain(|one| one.tags.contains(tag));
        listed
    }

    /// What looked like a plugin and is none, by path.
    pub fn rejected(&self) -> Vec<Arc<Rejected>> {
        self.read(|registry| registry.rejected.clone())
    }

    /// The names of all plugins, each after what it needs.
    pub fn order(&self) -> Vec<PluginName> {
        self.read(|registry| registry.order.clone())
    }

    /// Switches a plugin on. It is not started.
    pub fn enable(&self, name: &str) -> Result<(), ManageError> {
        let plugin = self.plugin(name)?;
        self.keep_disabled(&plugin, false)?;
        self.registrar.stays(&plugin.name);
        Ok(())
    }

    /// Switches a plugin off, and stops it if it runs. One that cannot be used as it is stays off
    /// when it can.
    pub fn disable(&self, name: &str) -> Result<(), ManageError> {
        let plugin = match self.plugin(name) {
            Ok(plugin) => plugin,
            Err(broken @ ManageError::Broken { .. }) => {
                let name = PluginName::new(name).map_err(|_| broken)?;
                return self.note_disabled(&name, true);
            }
            Err(error) => return Err(error),
        };
        self.not_needed(&plugin.name)?;
        self.keep_disabled(&plugin, true)?;
        drop(self.put_down(&plugin, || plugin.is_disabled())?);
        Ok(())
    }

    fn keep_disabled(&self, plugin: &Plugin, disabled: bool) -> Result<(), ManageError> {
        self.note_disabled(&plugin.name, disabled)?;
        plugin.disabled.store(disabled, Ordering::Release);
        Ok(())
    }

    fn note_disabled(&self, name: &PluginName, disabled: bool) -> Result<(), ManageError> {
        let change = |book: &mut records::Book| {
            if disabled {
                book.disabled.insert(name.clone());
            } else {
                book.disabled.remove(name);
            }
            Ok(())
        };
        let changed = self.records.change(change);
        changed.map_err(|error| self.records_failed(error))
    }

    /// Fails if a plugin that runs needs `name`.
    fn not_needed(&self, name: &PluginName) -> Result<(), ManageError> {
        let needs = |plugin: &Arc<Plugin>| {
            let active = plugin.slot.active()?;
            let needed = active.manifest.dependencies.contains_key(name);
            needed.then(|| plugin.name.clone())
        };
        match self.all().iter().find_map(needs) {
            Some(by) => Err(ManageError::Needed {
                plugin: name.clone(),
                by,
            }),
            None => Ok(()),
        }
    }

    fn plugin(&self, name: &str) -> Result<Arc<Plugin>, ManageError> {
        self.read(|registry| {
            let found = PluginName::new(name)
                .ok()
                .and_then(|name| registry.plugins.get(&name).cloned())
                .filter(|plugin| !plugin.is_out());
            found.ok_or_else(|| {
                if let Some(rejected) = self.rejected_as(registry, name) {
                    return ManageError::Broken {
                        name: airlock_yaml::shown(name),
                        rejected,
                    };
                }
                let names = registry.plugins.keys().map(PluginName::as_str);
                let near = closest(name, names).and_then(|near| PluginName::new(near).ok());
                let name = airlock_yaml::shown(name);
                ManageError::Unknown { name, near }
            })
        })
    }

    /// What would be the plugin of that name, if it were one: what says so, or was installed so.
    fn rejected_as(&self, registry: &Registry, name: &str) -> Option<Arc<Rejected>> {
        let installed = self.installed();
        let is_it = |one: &Rejected| match &one.name {
            Some(own) => own.as_str() == name,
            None => PluginName::new(name).is_ok() && one.path == installed.join(name),
        };
        let rejected = registry.rejected.iter().filter(|one| is_it(one));
        // What was installed has the name, whatever else claims it.
        rejected
            .min_by_key(|one| !one.path.starts_with(&installed))
            .cloned()
    }

    fn all(&self) -> Vec<Arc<Plugin>> {
        self.read(|registry| registry.plugins.values().cloned().collect())
    }

    fn read<T>(&self, read: impl FnOnce(&Registry) -> T) -> T {
        read(&self.registry.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn records_failed(&self, source: io::Error) -> ManageError {
        let path = self.records.path();
        ManageError::Records { path, source }
    }

    fn installed(&self) -> PathBuf {
        self.home.join("installed")
    }
}

fn listed(plugin: &Plugin) -> Listed {
    let found = plugin.found();
    let now = plugin.slot.now();
    let (state, problem) = match &now {
        Now::Off(state) => (*state, None),
        Now::Changing => (State::Loading, None),
        Now::Serving(active) if active.instance.has_ended() => (State::Error, None),
        Now::Serving(active) => (active.lifecycle.state(), None),
        Now::Waiting { why, .. } | Now::Failed { why } => (State::Error, Some(why.clone())),
    };
    let active = plugin.slot.active();
    let manifest = plugin.manifest();
    Listed {
        path: Path::to_owned(&found.path),
        origin: found.origin,
        state,
        disabled: plugin.is_disabled(),
        tags: plugin.tags(),
        given: plugin.given(),
        approved: plugin.approved(),
        problem,
        tools: active.as_ref().map_or_else(
            || manifest.tools.clone(),
            |active| active.instance.tools().to_vec(),
        ),
        confinement: active.map(|active| active.instance.report()),
        manifest,
    }
}
