//! Plugins on the road.
//!
//! A plugin's tool is called `<plugin>.<tool>` and is the syscall `tool.call`: validated, decided,
//! recorded and sanitised like any other call; only where it runs is the plugin's own box. What a
//! plugin asks of the kernel in turn is a call like any other as well, under the plugin's name, in
//! the session of the call it serves, and within what manifest, workspace and user all allow.
//!
//! Guarantee: no plugin has the name of something of Airlock's own; it can do nothing before it is
//! registered with the enforcer and nothing after it was unregistered; nothing of it starts but
//! within a recorded syscall. One of a workspace runs only while the workspace's files are as
//! approved. Non-guarantee: that a plugin's tool does what its description says.
//!
//! Invariant: what is offered of a plugin's tools is what was approved of them, word for word.

mod absent;
mod control;
mod desk;
mod homes;
mod line;
mod names;
mod paths;
#[cfg(target_os = "linux")]
mod refusing;
mod remarks;
mod secrets;
mod table;
mod tool;
mod vetted;
mod warnings;

pub use line::{PluginAsk, PluginRoad, PluginSockets};
pub(crate) use secrets::Unheld;
pub use table::{PluginWords, WordsChange};

use crate::book::Book;
use crate::kernel::Kernel;
use crate::policy_store::{PolicyInForce, PolicyStore};
#[cfg(target_os = "linux")]
use crate::process::{Ladder, Rung};
use crate::process::{Machine, Sandboxes};
use crate::tools::{Absent, Further, Registry, Tool};
use airlock_core::{PluginName, SandboxId, TagName, WorkspaceId};
#[cfg(target_os = "linux")]
use airlock_plugin::boxed::{Boxes, DISK, Ground};
use airlock_plugin::{
    Hosts, Kind, Listed, ManageError, Manager, Monotonic, Origin, Settings, Source, THIRD_PARTY,
    ToolDescription, Watch,
};
use airlock_policy::Enforcer;
#[cfg(target_os = "linux")]
use airlock_sandbox::Launcher;
use desk::Desk;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;
use table::Key;
use tool::PluginTool;

/// Below the home of all state, among what is Airlock's own and no sandbox may see: everything about
/// plugins of the person's.
const HOME: &str = "airlock/plugins";

/// Makes hosts, given the boxes of a machine.
#[cfg(target_os = "linux")]
pub type MakeHosts = Box<dyn FnOnce(&Arc<Boxes>) -> Hosts + Send>;

/// A file in which something is set for a plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingsFile {
    /// The plugin.
    pub plugin: PluginName,
    /// Whether it was installed, or a workspace brought it.
    pub origin: Origin,
    /// Where the file is.
    pub path: PathBuf,
}

/// What a person set for plugins, in files of their own. One that a workspace brought is another
/// plugin than one of its name that was installed, or that another workspace brought.
pub trait PluginSettings: Send + Sync {
    /// What is set for `plugin`, which `workspace` brought, or which was installed: an object, or why
    /// that cannot be read.
    fn read(&self, plugin: &PluginName, workspace: Option<&WorkspaceId>) -> Result<Value, String>;

    /// Every file in which something is set, for installed plugins and for those that `workspace`
    /// brought, or why that cannot be told. It is asked for twice in every call.
    fn files(&self, workspace: &WorkspaceId) -> Result<Vec<SettingsFile>, String>;

    /// Forgets all that is set for an installed plugin that is being removed.
    fn forget(&self, plugin: &PluginName) -> Result<(), String>;
}

/// Nothing is set for anybody.
#[cfg(target_os = "linux")]
struct NoSettings;

#[cfg(target_os = "linux")]
impl PluginSettings for NoSettings {
    fn read(&self, _: &PluginName, _: Option<&WorkspaceId>) -> Result<Value, String> {
        Ok(Value::Object(serde_json::Map::new()))
    }

    fn files(&self, _: &WorkspaceId) -> Result<Vec<SettingsFile>, String> {
        Ok(Vec::new())
    }

    fn forget(&self, _: &PluginName) -> Result<(), String> {
        Ok(())
    }
}

/// What hosts plugins in a kernel. The kernel makes no hosts of its own: whoever opens it knows the
/// protocols there are and the program that serves Wasm.
#[cfg(target_os = "linux")]
pub struct Hosting {
    hosts: MakeHosts,
    settings: Arc<dyn PluginSettings>,
}

#[cfg(target_os = "linux")]
impl Hosting {
    /// Hosts that `hosts` makes, given the boxes of this machine, when the first plugin is asked
    /// for. No plugin has settings.
    pub fn new(hosts: impl FnOnce(&Arc<Boxes>) -> Hosts + Send + 'static) -> Self {
        Self {
            hosts: Box::new(hosts),
            settings: Arc::new(NoSettings),
        }
    }

    /// The same with settings, from the person's own files. They are asked for whenever a plugin
    /// starts; the secrets among them are held whether it does or not.
    #[must_use]
    pub fn with_settings(mut self, settings: impl PluginSettings + 'static) -> Self {
        self.settings = Arc::new(settings);
        self
    }
}

/// How often it is looked whether a plugin ended by itself, or has to.
const LOOK: Duration = Duration::from_secs(1);

/// The plugins of one kernel. Nothing is looked at before somebody asks for one.
pub(crate) struct Plugins {
    home: PathBuf,
    store: Arc<PolicyStore>,
    desk: Arc<Desk>,
    machine: OnceLock<Machine>,
    sandboxes: OnceLock<Sandboxes>,
    /// What hosts are made of, until they are.
    #[cfg(target_os = "linux")]
    hosting: Mutex<Option<Hosting>>,
    #[cfg(target_os = "linux")]
    hosts: OnceLock<Hosts>,
    manager: Mutex<Option<(Arc<Manager>, Watch)>>,
    /// The policy with which the workspace's plugins were last looked at.
    looked: Mutex<Option<Arc<PolicyInForce>>>,
}

impl Plugins {
    pub(crate) fn new(
        state_home: &Path,
        store: &Arc<PolicyStore>,
        enforcer: &Arc<Enforcer>,
        book: &Book,
    ) -> Arc<Self> {
        let home = state_home.join(HOME);
        Arc::new(Self {
            desk: Arc::new(Desk::new(&home, store, enforcer, book)),
            home,
            store: Arc::clone(store),
            machine: OnceLock::new(),
            sandboxes: OnceLock::new(),
            #[cfg(target_os = "linux")]
            hosting: Mutex::new(None),
            #[cfg(target_os = "linux")]
            hosts: OnceLock::new(),
            manager: Mutex::new(None),
            looked: Mutex::new(None),
        })
    }

    /// Adds the syscalls about plugins, and the plugins' own tools.
    pub(crate) fn register(self: &Arc<Self>, registry: &mut Registry) {
        control::register(registry, self);
        registry.add_further(Box::new(Tools(Arc::clone(self))));
    }

    pub(crate) fn on(&self, machine: &Machine) {
        self.desk.live_in(&machine.home);
        let _first = self.machine.set(machine.clone());
    }

    /// Lets boxes be made by what raises the walls of the kernel's other sandboxes.
    pub(crate) fn by(&self, sandboxes: &Sandboxes) {
        let _first = self.sandboxes.set(sandboxes.clone());
    }

    /// What raises the walls here, as far as that is known; what Airlock's own launcher cannot do it
    /// refuses by itself.
    #[cfg(target_os = "linux")]
    fn launcher(&self) -> Launcher {
        let ladder = self.sandboxes.get().and_then(Sandboxes::ladder);
        match ladder.and_then(Ladder::known) {
            Some(Rung::Bwrap) => Launcher::Bwrap,
            Some(Rung::Native | Rung::Nothing { .. }) | None => Launcher::Native,
        }
    }

    #[cfg(target_os = "linux")]
    pub(crate) fn host(&self, hosting: Hosting) {
        // At once, and not with the first plugin: their secrets are held before that.
        self.desk.configure(Arc::clone(&hosting.settings));
        *locked(&self.hosting) = Some(hosting);
    }

    pub(crate) fn desk(&self) -> &Arc<Desk> {
        &self.desk
    }

    /// Whether there can be any: most workspaces and people have none, and pay nothing for it.
    fn may_have_some(&self) -> bool {
        self.home.join("installed").exists() || self.of_workspace().exists()
    }

    fn of_workspace(&self) -> PathBuf {
        Path::new(self.store.workspace().root().path()).join(crate::workspace::PLUGINS_DIR)
    }

    /// The manager, made when it is first needed, and aware of what people said since.
    pub(crate) fn manager(&self) -> Result<Arc<Manager>, ManageError> {
        let manager = {
            let mut known = locked(&self.manager);
            if let Some((manager, _)) = &*known {
                Arc::clone(manager)
            } else {
                let current = self.store.current();
                let made = self.manage()?;
                *known = Some((Arc::clone(&made), made.watch(LOOK)));
                *locked(&self.looked) = Some(current);
                return Ok(made);
            }
        };
        if self.is_without_hosts() {
            // What kept them away may be mended by now.
            manager.host(self.hosts());
        }
        self.follow(&manager)?;
        Ok(manager)
    }

    /// Takes in what changed since: a workspace that was trusted anew, or is not any more; plugins
    /// that another process brought, took away or switched.
    fn follow(&self, manager: &Manager) -> Result<(), ManageError> {
        let current = self.store.current();
        let before = locked(&self.looked).replace(Arc::clone(&current));
        let is_same = before.is_some_and(|before| {
            Arc::ptr_eq(&before, &current) || before.plugin_files() == current.plugin_files()
        });
        if is_same {
            manager.follow()
        } else {
            manager.set_sources(self.sources())
        }
    }

    fn sources(&self) -> Vec<Source> {
        vec![Source {
            path: self.of_workspace(),
            origin: Origin::Workspace,
        }]
    }

    fn manage(&self) -> Result<Arc<Manager>, ManageError> {
        let records = |source| ManageError::Records {
            path: self.home.clone(),
            source,
        };
        make_private(&self.home).map_err(records)?;
        let settings = Settings {
            engine: semver::Version::parse(env!("CARGO_PKG_VERSION"))
                .unwrap_or(semver::Version::new(0, 0, 0)),
            home: self.home.clone(),
            sources: self.sources(),
        };
        let registrar = Arc::clone(&self.desk);
        let clock = Arc::new(Monotonic::default());
        let manager = Manager::new(settings, Hosts::default(), registrar, clock)?;
        manager.host(self.hosts());
        Ok(manager)
    }

    /// The hosts, each held to what was approved; or why there are none. They are made once, and kept
    /// for as long as the kernel is. Without a machine to run on there are none.
    #[cfg(target_os = "linux")]
    fn hosts(&self) -> Result<Hosts, String> {
        if let Some(hosts) = self.hosts.get() {
            return Ok(hosts.clone());
        }
        let mut hosting = locked(&self.hosting);
        let Some(machine) = self.machine.get().filter(|_| hosting.is_some()) else {
            return Ok(Hosts::default());
        };
        let boxes = self.ground(machine).and_then(|ground| {
            let place = ground.place.clone();
            let made = Boxes::new(ground);
            made.map_err(|error| format!("`{}` cannot be used: {error}", place.display()))
        })?;
        let Some(Hosting { hosts, .. }) = hosting.take() else {
            return Ok(Hosts::default());
        };
        let hosts = vetted::all(hosts(&Arc::new(boxes)), &self.desk, &machine.home);
        Ok(self.hosts.get_or_init(|| hosts).clone())
    }

    #[cfg(not(target_os = "linux"))]
    fn hosts(&self) -> Result<Hosts, String> {
        Ok(Hosts::default())
    }

    /// Whether hosts are still to be made.
    #[cfg(target_os = "linux")]
    fn is_without_hosts(&self) -> bool {
        self.hosts.get().is_none() && locked(&self.hosting).is_some()
    }

    #[cfg(not(target_os = "linux"))]
    fn is_without_hosts(&self) -> bool {
        false
    }

    /// Where the sandboxes of plugins are noted.
    #[cfg(target_os = "linux")]
    pub(crate) fn boxes(&self) -> PathBuf {
        Boxes::registry_in(&self.running())
    }

    #[cfg(target_os = "linux")]
    fn running(&self) -> PathBuf {
        self.home.join("running")
    }

    #[cfg(target_os = "linux")]
    fn ground(&self, machine: &Machine) -> Result<Ground, String> {
        let workspace = self.store.workspace();
        let outfitted = crate::process::outfitted(machine, workspace);
        let (mut surroundings, outfit) = outfitted.map_err(|error| error.to_string())?;
        // What is in the workspace is asked for on the road, where its policy holds.
        let root = airlock_sandbox::HostPath::new(workspace.root().path());
        surroundings
            .own
            .push(root.map_err(|error| error.to_string())?);
        Ok(Ground {
            surroundings,
            outfit,
            launcher: self.launcher(),
            place: self.running(),
            disk: DISK,
        })
    }

    /// Whether what is `listed` may be used as things are.
    fn is_open(&self, listed: &Listed) -> bool {
        let answered_for = self.is_answered_for(listed);
        if !answered_for {
            self.dismiss(listed);
        }
        answered_for && !listed.disabled && listed.manifest.kind == Kind::Tool
    }

    /// Whether somebody approved what is `listed`, and still does.
    fn is_answered_for(&self, listed: &Listed) -> bool {
        match listed.origin {
            Origin::User => listed.approved.is_some(),
            Origin::Workspace => self.desk.is_approved(&listed.path),
        }
    }

    /// Whether what runs of a plugin may go on, by what people have said until now, maybe to another
    /// process. One of which nothing runs is for the enforcer to refuse.
    fn is_wanted(&self, plugin: &PluginName) -> bool {
        self.managed().is_none_or(|manager| {
            // Records that cannot be read now are looked at the next time; what was known holds.
            let _followed = self.follow(&manager);
            manager.is_wanted(plugin)
        })
    }

    /// Ends what there is of a plugin that nobody answers for any more. Whoever noticed does not wait
    /// for it.
    fn dismiss(&self, listed: &Listed) {
        if let Some(manager) = self.managed() {
            manager.let_go(listed.manifest.name.as_str());
        }
    }

    /// The manager, if one was needed yet.
    fn managed(&self) -> Option<Arc<Manager>> {
        let known = locked(&self.manager);
        known.as_ref().map(|(manager, _)| Arc::clone(manager))
    }

    /// What a plugin asks for and would not get as things are, in words for people.
    fn warnings(&self, listed: &Listed) -> Vec<String> {
        let home = self.person_home().unwrap_or(Path::new("/"));
        warnings::of(&self.desk, home, listed)
    }

    /// The person's home, where that is known.
    fn person_home(&self) -> Option<&Path> {
        self.machine.get().map(|machine| machine.home.as_path())
    }

    /// Whether nobody was shown the words of its tools that count as approved. Those of a manifest are
    /// part of what is shown before somebody lets it in.
    fn is_unseen(&self, listed: &Listed) -> bool {
        listed.manifest.tools.is_empty() && self.desk.table().is_unseen(&self.key(listed))
    }

    fn key(&self, listed: &Listed) -> Key {
        self.desk.key(&listed.manifest.name, listed.origin)
    }

    fn tool(self: &Arc<Self>, listed: &Listed, tool: Arc<ToolDescription>) -> Arc<dyn Tool> {
        Arc::new(PluginTool::new(self, listed, tool))
    }

    /// The tags that a plugin was given when it was approved, never those of its manifest: rules go
    /// by them. One that nobody knows is nobody's of ours.
    pub(crate) fn tags(&self, plugin: &PluginName) -> Vec<TagName> {
        let listed = self
            .managed()
            .and_then(|manager| manager.get(plugin.as_str()).ok());
        listed.map_or_else(
            || TagName::new(THIRD_PARTY).into_iter().collect(),
            |listed| listed.given,
        )
    }

    /// Says that everything that runs is about to be ended.
    fn hasten(&self) {
        if let Some(manager) = self.managed() {
            manager.hasten();
        }
    }

    /// Ends everything that runs.
    pub(crate) fn shutdown(&self) {
        let managed = locked(&self.manager).take();
        if let Some((manager, watch)) = managed {
            drop(watch);
            manager.shutdown();
        }
    }
}

/// The plugins' tools, as the registry finds them.
struct Tools(Arc<Plugins>);

impl Further for Tools {
    fn find(&self, name: &str) -> Option<Arc<dyn Tool>> {
        let (plugin, tool) = name.split_once('.')?;
        if names::is_reserved(plugin) || !self.0.may_have_some() {
            return None;
        }
        let listed = self.0.manager().ok()?.get(plugin).ok()?;
        if !self.0.is_open(&listed) {
            return None;
        }
        let offered = self.0.desk.table().offered(&self.0.key(&listed));
        let tool = offered.into_iter().find(|offered| offered.name == tool)?;
        Some(self.0.tool(&listed, tool))
    }

    fn absent(&self, name: &str) -> Option<Absent> {
        let (plugin, tool) = name.split_once('.')?;
        if names::is_reserved(plugin) || !self.0.may_have_some() {
            return None;
        }
        absent::why(&self.0, plugin, tool)
    }

    fn list(&self) -> Vec<Arc<dyn Tool>> {
        if !self.0.may_have_some() {
            return Vec::new();
        }
        let Ok(manager) = self.0.manager() else {
            return Vec::new();
        };
        let mut tools = Vec::new();
        for listed in manager.list() {
            let reserved = names::is_reserved(listed.manifest.name.as_str());
            if !reserved && self.0.is_open(&listed) {
                let offered = self.0.desk.table().offered(&self.0.key(&listed));
                tools.extend(offered.into_iter().map(|tool| self.0.tool(&listed, tool)));
            }
        }
        tools
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes a directory that nobody else can enter.
fn make_private(directory: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(directory)
}

impl Kernel {
    /// Lets plugins be hosted. Without it there are no hosts, and no plugin starts.
    #[cfg(target_os = "linux")]
    #[must_use]
    pub fn hosting(self, hosting: Hosting) -> Self {
        self.plugins().host(hosting);
        self
    }

    /// Gives plugins their way back: `road` for their calls, and `sockets` for those that are
    /// processes. Without it a plugin can be called, and can ask for nothing.
    pub fn connect_plugins(
        &self,
        road: Weak<dyn PluginRoad>,
        sockets: Option<Arc<dyn PluginSockets>>,
    ) {
        self.plugins().desk().connect(road, sockets);
    }

    /// Takes that way away again: whoever gave it is about to end.
    pub fn disconnect_plugins(&self) {
        self.plugins().desk().disconnect();
    }

    /// The plugin whose sandbox that is, while it runs.
    pub fn plugin_in(&self, sandbox: &SandboxId) -> Option<PluginName> {
        self.plugins().desk().plugin_in(sandbox)
    }

    /// The words of a plugin's tools, those that were approved and those of now, whole: for a person
    /// who is to approve them. None if there is no such plugin, or nothing is known of its tools.
    pub fn plugin_words(&self, plugin: &str) -> Option<PluginWords> {
        let plugins = self.plugins();
        let listed = plugins.manager().ok()?.get(plugin).ok()?;
        plugins.desk().table().words(&plugins.key(&listed))
    }

    /// Notes that a person was shown what counts as approved of a plugin's tools. What cannot be noted
    /// is shown to them again.
    pub fn plugin_words_shown(&self, plugin: &str, shown: &PluginWords) {
        let plugins = self.plugins();
        let manager = plugins.manager().ok();
        if let Some(listed) = manager.and_then(|manager| manager.get(plugin).ok()) {
            let table = plugins.desk().table();
            let _noted = table.note_shown(&plugins.key(&listed), &shown.approved);
        }
    }

    /// Says that every plugin is about to be ended: from now on they have the time that they all get
    /// together, also those that somebody ends already.
    pub fn hasten_plugins(&self) {
        self.plugins().hasten();
    }

    /// Ends every plugin that runs. They are started again by the next call of a tool of theirs.
    pub fn stop_plugins(&self) {
        self.plugins().shutdown();
    }
}
