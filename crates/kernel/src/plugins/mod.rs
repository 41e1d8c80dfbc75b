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

mod control;
mod desk;
mod line;
mod names;
mod table;
mod tool;
mod vetted;

pub use line::{PluginRoad, PluginSockets};

use crate::kernel::Kernel;
use crate::policy_store::PolicyStore;
use crate::process::Machine;
use crate::tools::{Further, Registry, Tool};
use airlock_core::{PluginName, SandboxId, TagName};
#[cfg(target_os = "linux")]
use airlock_plugin::boxed::{Boxes, DISK, Ground};
use airlock_plugin::{
    Hosts, Kind, Listed, ManageError, Manager, Monotonic, Origin, Settings, Source, State,
    ToolDescription,
};
use airlock_policy::Enforcer;
use desk::Desk;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use table::Key;
use tool::PluginTool;

/// Below the home of all state, among what is Airlock's own and no sandbox may see: everything about
/// plugins of the person's.
const HOME: &str = "airlock/plugins";

/// Makes hosts, given the boxes of a machine.
#[cfg(target_os = "linux")]
pub type MakeHosts = Box<dyn FnOnce(&Arc<Boxes>) -> Hosts + Send>;

/// What hosts plugins in a kernel.
#[cfg(target_os = "linux")]
pub struct Hosting {
    /// Makes the hosts, given the boxes of this machine.
    pub hosts: MakeHosts,
    /// The configuration of each plugin, from the person's own files.
    pub configuration: BTreeMap<String, Value>,
}

#[cfg(target_os = "linux")]
impl Default for Hosting {
    fn default() -> Self {
        Self {
            hosts: Box::new(|boxes| Hosts {
                grpc: Some(Arc::new(airlock_plugin_grpc::GrpcHost::new(
                    Arc::clone(boxes),
                    airlock_plugin_grpc::Settings::default(),
                ))),
                mcp: Some(Arc::new(airlock_plugin_mcp::McpHost::new(Arc::clone(
                    boxes,
                )))),
                ..Hosts::default()
            }),
            configuration: BTreeMap::new(),
        }
    }
}

/// The plugins of one kernel. Nothing is looked at before somebody asks for one.
pub(crate) struct Plugins {
    home: PathBuf,
    store: Arc<PolicyStore>,
    desk: Arc<Desk>,
    machine: OnceLock<Machine>,
    #[cfg(target_os = "linux")]
    hosting: Mutex<Option<Hosting>>,
    manager: Mutex<Option<Arc<Manager>>>,
}

impl Plugins {
    pub(crate) fn new(
        state_home: &Path,
        store: &Arc<PolicyStore>,
        enforcer: &Arc<Enforcer>,
    ) -> Arc<Self> {
        let home = state_home.join(HOME);
        Arc::new(Self {
            desk: Arc::new(Desk::new(&home, store, enforcer)),
            home,
            store: Arc::clone(store),
            machine: OnceLock::new(),
            #[cfg(target_os = "linux")]
            hosting: Mutex::new(None),
            manager: Mutex::new(None),
        })
    }

    /// Adds the syscalls about plugins, and the plugins' own tools.
    pub(crate) fn register(self: &Arc<Self>, registry: &mut Registry) {
        control::register(registry, self);
        registry.add_further(Box::new(Tools(Arc::clone(self))));
    }

    pub(crate) fn on(&self, machine: &Machine) {
        let _first = self.machine.set(machine.clone());
    }

    #[cfg(target_os = "linux")]
    pub(crate) fn host(&self, hosting: Hosting) {
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

    /// The manager, made when it is first needed.
    pub(crate) fn manager(&self) -> Result<Arc<Manager>, ManageError> {
        let mut manager = locked(&self.manager);
        if let Some(manager) = &*manager {
            return Ok(Arc::clone(manager));
        }
        let made = Arc::new(self.manage()?);
        *manager = Some(Arc::clone(&made));
        Ok(made)
    }

    fn manage(&self) -> Result<Manager, ManageError> {
        let records = |source| ManageError::Records {
            path: self.home.clone(),
            source,
        };
        make_private(&self.home).map_err(records)?;
        let settings = Settings {
            engine: semver::Version::parse(env!("CARGO_PKG_VERSION"))
                .unwrap_or(semver::Version::new(0, 0, 0)),
            home: self.home.clone(),
            sources: vec![Source {
                path: self.of_workspace(),
                origin: Origin::Workspace,
            }],
        };
        let registrar = Arc::clone(&self.desk);
        Manager::new(
            settings,
            self.hosts(),
            registrar,
            Arc::new(Monotonic::default()),
        )
    }

    /// The hosts, each held to what was approved. Without a machine to run on there are none.
    #[cfg(target_os = "linux")]
    fn hosts(&self) -> Hosts {
        let Hosting {
            hosts,
            configuration,
        } = locked(&self.hosting).take().unwrap_or_default();
        self.desk.configure(configuration);
        let Some(machine) = self.machine.get() else {
            return Hosts::default();
        };
        let ground = self.ground(machine);
        match ground.and_then(|ground| Boxes::new(ground).ok()) {
            Some(boxes) => vetted::all(hosts(&Arc::new(boxes)), &self.desk, &machine.home),
            None => Hosts::default(),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn hosts(&self) -> Hosts {
        Hosts::default()
    }

    #[cfg(target_os = "linux")]
    fn ground(&self, machine: &Machine) -> Option<Ground> {
        let workspace = self.store.workspace();
        let (mut surroundings, outfit) = crate::process::outfitted(machine, workspace).ok()?;
        // What is in the workspace is asked for on the road, where its policy holds.
        let root = airlock_sandbox::HostPath::new(workspace.root().path());
        surroundings.own.push(root.ok()?);
        Some(Ground {
            surroundings,
            outfit,
            launcher: airlock_sandbox::Launcher::Native,
            place: self.home.join("running"),
            disk: DISK,
        })
    }

    /// Whether what is `listed` may be used as things are.
    fn is_open(&self, listed: &Listed) -> bool {
        let answered_for = match listed.origin {
            Origin::User => listed.approved.is_some(),
            Origin::Workspace => self.desk.is_approved(&listed.path),
        };
        if !answered_for && listed.state == State::Running {
            self.dismiss(listed);
        }
        answered_for && !listed.disabled && listed.manifest.kind == Kind::Tool
    }

    /// Ends a plugin that nobody answers for any more. Whoever noticed does not wait for it.
    fn dismiss(&self, listed: &Listed) {
        let (manager, name) = (locked(&self.manager).clone(), listed.manifest.name.clone());
        std::thread::spawn(move || manager.map(|manager| manager.stop(name.as_str())));
    }

    fn key(&self, listed: &Listed) -> Key {
        self.desk.key(&listed.manifest.name, listed.origin)
    }

    fn tool(self: &Arc<Self>, listed: &Listed, tool: Arc<ToolDescription>) -> Arc<dyn Tool> {
        Arc::new(PluginTool::new(self, listed, tool))
    }

    /// The tags that a plugin was given when it was approved.
    pub(crate) fn tags(&self, plugin: &PluginName) -> Vec<TagName> {
        let manager = locked(&self.manager).clone();
        let listed = manager.and_then(|manager| manager.get(plugin.as_str()).ok());
        listed.map(|listed| listed.tags).unwrap_or_default()
    }

    /// Ends everything that runs.
    pub(crate) fn shutdown(&self) {
        let manager = locked(&self.manager).take();
        if let Some(manager) = manager {
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
    /// Lets plugins be hosted in other ways than by default, which leaves Wasm out.
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

    /// Ends every plugin that runs. They are started again by the next call of a tool of theirs.
    pub fn stop_plugins(&self) {
        self.plugins().shutdown();
    }
}
