//! The kernel's side of a plugin's coming and going.
//!
//! Invariant: what a plugin may is registered with the enforcer before anything of it runs, and is
//! gone from there when nothing of it does. Whatever its manifest says, it may never steer Airlock.

use super::line::{Line, PluginRoad, PluginSockets, not_serving};
use super::names::is_reserved;
use super::table::{Key, Table};
use super::{locked, make_private};
use crate::fronts::Front;
use crate::policy_store::PolicyStore;
use airlock_core::{Digest, PluginName, SandboxId, SessionId};
use airlock_plugin::{CallbackError, Manifest, Origin, Reach, Registrar, ToolDescription};
use airlock_policy::capability::{CapabilitySet, Pattern};
use airlock_policy::{CapabilityGrants, Enforcer};
use serde_json::{Map, Value};
use std::any::Any;
use std::collections::{BTreeMap, HashMap};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};

/// Longest path of a directory in which a socket fits an address, with room for its name.
const REACH_BYTES: usize = 80;

/// One instance of a plugin, on the way or running.
struct Instance {
    plugin: PluginName,
    number: u64,
    sandbox: SandboxId,
    directory: PathBuf,
    // Closed with it.
    _socket: Option<Box<dyn Any + Send>>,
}

impl Drop for Instance {
    fn drop(&mut self) {
        // What the sandbox left in it is of no use to anybody.
        let _removed = std::fs::remove_dir_all(&self.directory);
    }
}

/// What the manager asks of the kernel, and what the kernel knows of running plugins.
pub(crate) struct Desk {
    store: Arc<PolicyStore>,
    enforcer: Arc<Enforcer>,
    table: Table,
    road: Arc<Mutex<Option<Weak<dyn PluginRoad>>>>,
    sockets: Mutex<Option<Arc<dyn PluginSockets>>>,
    configuration: Mutex<BTreeMap<String, Value>>,
    instances: Mutex<Vec<Instance>>,
    /// Who brought each that was started here, and where it is.
    origins: Mutex<HashMap<PluginName, (Origin, PathBuf)>>,
    /// The calls that are being served: by whom, in which session.
    serving: Mutex<HashMap<String, (PluginName, Option<SessionId>)>>,
}

impl Desk {
    pub(super) fn new(home: &Path, store: &Arc<PolicyStore>, enforcer: &Arc<Enforcer>) -> Self {
        Self {
            store: Arc::clone(store),
            enforcer: Arc::clone(enforcer),
            table: Table::new(home),
            road: Arc::default(),
            sockets: Mutex::default(),
            configuration: Mutex::default(),
            instances: Mutex::default(),
            origins: Mutex::default(),
            serving: Mutex::default(),
        }
    }

    pub(super) fn table(&self) -> &Table {
        &self.table
    }

    pub(super) fn connect(
        &self,
        road: Weak<dyn PluginRoad>,
        sockets: Option<Arc<dyn PluginSockets>>,
    ) {
        *locked(&self.road) = Some(road);
        *locked(&self.sockets) = sockets;
    }

    pub(super) fn disconnect(&self) {
        *locked(&self.road) = None;
        *locked(&self.sockets) = None;
    }

    #[cfg(target_os = "linux")]
    pub(super) fn configure(&self, configuration: BTreeMap<String, Value>) {
        *locked(&self.configuration) = configuration;
    }

    /// What a plugin is remembered by.
    pub(super) fn key(&self, plugin: &PluginName, origin: Origin) -> Key {
        match origin {
            Origin::User => format!("user:{plugin}"),
            Origin::Workspace => format!("{}:{plugin}", self.store.workspace().id()),
        }
    }

    /// Whether every file in `directory` of the workspace is one a person approved.
    pub(super) fn is_approved(&self, directory: &Path) -> bool {
        let current = self.store.current();
        let below = self.below(directory);
        below.is_some_and(|below| {
            let mut files = current.plugin_files().keys();
            files.any(|file| file.starts_with(&below))
        })
    }

    /// The digest a person approved of `file` in `directory` of the workspace.
    #[cfg(target_os = "linux")]
    pub(super) fn approved_digest(&self, directory: &Path, file: &str) -> Option<Digest> {
        let current = self.store.current();
        let path = format!("{}{file}", self.below(directory)?);
        current.plugin_files().get(&path).copied()
    }

    /// Which of workspace and user does not allow all of `pattern`, if one does not.
    #[cfg(target_os = "linux")]
    pub(super) fn closed(&self, pattern: &str) -> Option<&'static str> {
        let current = self.store.current();
        let wanted = Pattern::parse(pattern);
        let covers =
            |allowed: &CapabilitySet| wanted.as_ref().is_ok_and(|wanted| allowed.covers(wanted));
        if !covers(current.workspace_allow()) {
            return Some("workspace");
        }
        if !covers(current.user_allow()) {
            return Some("user");
        }
        None
    }

    /// `directory` as the trust record calls it, with a slash at the end; none outside the workspace.
    fn below(&self, directory: &Path) -> Option<String> {
        let root = Path::new(self.store.workspace().root().path());
        let below = directory.strip_prefix(root).ok()?.to_str()?;
        Some(format!("{below}/"))
    }

    /// Notes who brought a plugin that is about to start, by where it is.
    #[cfg(target_os = "linux")]
    pub(super) fn brought(&self, plugin: &PluginName, directory: &Path) -> Origin {
        let origin = match self.below(directory) {
            Some(_) => Origin::Workspace,
            None => Origin::User,
        };
        let whence = (origin, directory.to_owned());
        locked(&self.origins).insert(plugin.clone(), whence);
        origin
    }

    /// Whether whoever answered for a plugin that runs still does.
    pub(super) fn is_welcome(&self, plugin: &PluginName) -> bool {
        let brought = locked(&self.origins).get(plugin).cloned();
        match brought {
            Some((Origin::Workspace, directory)) => self.is_approved(&directory),
            Some((Origin::User, _)) | None => true,
        }
    }

    pub(super) fn plugin_in(&self, sandbox: &SandboxId) -> Option<PluginName> {
        let instances = locked(&self.instances);
        let found = instances.iter().find(|one| one.sandbox == *sandbox);
        found.map(|instance| instance.plugin.clone())
    }

    pub(super) fn serve(&self, action: &str, plugin: &PluginName, session: Option<SessionId>) {
        let serving = (plugin.clone(), session);
        locked(&self.serving).insert(action.to_owned(), serving);
    }

    pub(super) fn served(&self, action: &str) {
        locked(&self.serving).remove(action);
    }

    /// The session of the call `action`, if `plugin` is the one that serves it.
    pub(super) fn session_of(
        &self,
        plugin: &PluginName,
        action: &str,
    ) -> Result<Option<SessionId>, CallbackError> {
        match locked(&self.serving).get(action) {
            Some((by, session)) if by == plugin => Ok(session.clone()),
            Some(_) | None => Err(not_serving()),
        }
    }

    /// A short directory for sockets, which nobody else can enter.
    fn reach_directory(&self) -> std::io::Result<PathBuf> {
        let name = format!("{:08x}", rand::random::<u32>());
        let own = self.store.workspace().state().path().join("run/p");
        // Where state lies too deep for an address, a private directory in the usual place.
        let directory = if own.as_os_str().len() <= REACH_BYTES {
            own.join(name)
        } else {
            let own = format!("airlock-{}", rustix::process::geteuid().as_raw());
            Path::new("/tmp").join(format!("{own}-{name}"))
        };
        if let Some(parent) = directory.parent().filter(|parent| *parent == own) {
            make_private(parent)?;
        }
        std::fs::DirBuilder::new().mode(0o700).create(&directory)?;
        Ok(directory)
    }
}

/// The grants, without what no plugin has whatever its manifest says.
fn narrowed(grants: CapabilityGrants) -> Result<CapabilityGrants, String> {
    let never = Front::Plugin.deny().iter().map(|text| Pattern::parse(text));
    let never: Vec<Pattern> = never
        .collect::<Result<_, _>>()
        .map_err(|error| error.to_string())?;
    let deny = grants.deny.patterns().iter().cloned().chain(never);
    Ok(CapabilityGrants {
        deny: CapabilitySet::compile(deny),
        allow: grants.allow,
    })
}

impl Registrar for Desk {
    fn register(&self, plugin: &Manifest, grants: CapabilityGrants) -> Result<(), String> {
        if is_reserved(plugin.name.as_str()) {
            return Err(format!("`{}` is a name of Airlock's own", plugin.name));
        }
        let grants = narrowed(grants)?;
        let registered = self.enforcer.register(plugin.name.clone(), grants);
        registered.map_err(|error| error.to_string())
    }

    fn replace(&self, plugin: &PluginName, grants: CapabilityGrants) -> Result<(), String> {
        let replaced = self.enforcer.replace(plugin, narrowed(grants)?);
        replaced.map_err(|error| error.to_string())
    }

    fn unregister(&self, plugin: &PluginName) {
        // One that is not registered can do nothing, which is all that is wanted.
        let _known = self.enforcer.unregister(plugin);
    }

    fn reach(&self, plugin: &Manifest, instance: u64) -> Result<Reach, String> {
        let failed = |error: std::io::Error| format!("cannot make its reach directory: {error}");
        let directory = self.reach_directory().map_err(failed)?;
        let name = format!("plugin-{}-{}", plugin.name, uuid::Uuid::new_v4());
        let sandbox = SandboxId::new(&name).map_err(|error| error.to_string())?;
        let sockets = locked(&self.sockets).clone();
        let socket = sockets.map(|sockets| sockets.open(&sandbox, &directory));
        let socket = match socket.transpose() {
            Ok(socket) => socket,
            Err(why) => {
                let _removed = std::fs::remove_dir_all(&directory);
                return Err(why);
            }
        };
        locked(&self.instances).push(Instance {
            plugin: plugin.name.clone(),
            number: instance,
            sandbox: sandbox.clone(),
            directory: directory.clone(),
            _socket: socket,
        });
        let callback = Line {
            plugin: plugin.name.clone(),
            sandbox,
            road: Arc::clone(&self.road),
        };
        Ok(Reach {
            directory,
            callback: Arc::new(callback),
        })
    }

    fn close(&self, plugin: &PluginName, instance: u64) {
        let gone = |one: &Instance| one.plugin == *plugin && one.number == instance;
        let mut instances = locked(&self.instances);
        let mut closed = Vec::new();
        while let Some(at) = instances.iter().position(gone) {
            closed.push(instances.swap_remove(at));
        }
        // Closing waits for connections: not while others wait for the list.
        drop(instances);
        drop(closed);
    }

    fn configuration(&self, plugin: &PluginName) -> Value {
        let configuration = locked(&self.configuration);
        let own = configuration.get(plugin.as_str()).cloned();
        own.unwrap_or_else(|| Value::Object(Map::new()))
    }

    fn serving(&self, plugin: &PluginName, tools: &[ToolDescription]) {
        let origin = locked(&self.origins).get(plugin).map(|(origin, _)| *origin);
        let key = self.key(plugin, origin.unwrap_or(Origin::User));
        // What cannot be kept is not offered.
        let _kept = self.table.hear(&key, tools);
    }
}
