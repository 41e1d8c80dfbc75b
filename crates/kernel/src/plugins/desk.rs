//! The kernel's side of a plugin's coming and going.
//!
//! Invariant: what a plugin may is registered with the enforcer before anything of it runs, and is
//! gone from there when nothing of it does. Whatever its manifest says, it may never steer Airlock.

use super::line::{Line, PluginRoad, PluginSockets, not_serving, serving_several};
use super::names::is_reserved;
use super::remarks::Remarks;
use super::secrets::{Secrets, Unheld};
use super::table::{Key, Table};
use super::{PluginSettings, homes, locked, make_private};
use crate::book::Book;
use crate::cancel::Cancel;
use crate::fronts::Front;
use crate::policy_store::PolicyStore;
use crate::sanitise::Held;
use airlock_core::{
    ActionId, PluginName, Request, SandboxId, SessionId, TagName, UserId, WorkspaceId,
};
use airlock_plugin::{
    ApprovedFile, CallbackError, HeldDirectory, Manifest, Origin, Reach, Registrar, Rejected,
    ToolDescription, secrets_of,
};
use airlock_policy::capability::{CapabilitySet, Pattern};
use airlock_policy::{CapabilityGate, CapabilityGrants, Contribution, Enforcer, Policy};
use serde_json::{Map, Value};
use std::any::Any;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Once, OnceLock, Weak};

/// Longest path of a directory in which a socket fits an address, with room for its name.
const REACH_BYTES: usize = 80;

/// One instance of a plugin, on the way or running.
struct Instance {
    plugin: PluginName,
    number: u64,
    sandbox: SandboxId,
    /// Another has taken its place.
    is_retired: bool,
    /// Where it was noted that it stands.
    noted: Option<Book>,
    // Closed with it, before its directory goes.
    _socket: Option<Box<dyn Any + Send>>,
    /// What it shares with the kernel. What the sandbox left in it is of no use to anybody.
    directory: HeldDirectory,
}

impl Drop for Instance {
    fn drop(&mut self) {
        if let Some(book) = &self.noted {
            book.destroyed(self.sandbox.as_str());
        }
    }
}

/// For whom, and in which session, a plugin was called: what it asks for the call is theirs.
#[derive(Debug, Clone)]
pub(super) struct OnBehalf {
    pub(super) user: UserId,
    pub(super) session: Option<SessionId>,
}

/// A call that is being served: by whom, for whom.
struct Served {
    by: PluginName,
    /// The number of the instance whose turn it is: another of the same name has no part in it.
    instance: Option<u64>,
    of: OnBehalf,
    /// What was asked of the kernel for it, and is not done.
    under_way: Vec<Cancel>,
}

/// What the manager asks of the kernel, and what the kernel knows of running plugins.
pub(crate) struct Desk {
    store: Arc<PolicyStore>,
    enforcer: Arc<Enforcer>,
    /// The person's home, where that is known.
    person_home: OnceLock<PathBuf>,
    table: Table,
    road: Arc<Mutex<Option<Weak<dyn PluginRoad>>>>,
    sockets: Mutex<Option<Arc<dyn PluginSockets>>>,
    settings: Mutex<Option<Arc<dyn PluginSettings>>>,
    /// The secrets among what is set for plugins.
    held: Arc<Held>,
    secrets: Secrets,
    remarks: Remarks,
    instances: Mutex<Vec<Instance>>,
    /// Where it is noted what becomes of their sandboxes.
    book: Book,
    /// Who brought each that was started here, and where it is.
    origins: Mutex<HashMap<PluginName, (Origin, PathBuf)>>,
    /// The calls that are being served.
    serving: Mutex<HashMap<ActionId, Served>>,
    /// Those that are about to end because nobody wants them any more.
    leaving: Mutex<HashSet<PluginName>>,
    /// Done once: what kernels that were killed left is removed.
    swept: Once,
}

impl Desk {
    pub(super) fn new(
        home: &Path,
        store: &Arc<PolicyStore>,
        enforcer: &Arc<Enforcer>,
        book: &Book,
    ) -> Self {
        let root = Path::new(store.workspace().root().path());
        let brought = root.join(crate::workspace::PLUGINS_DIR);
        Self {
            book: book.clone(),
            store: Arc::clone(store),
            enforcer: Arc::clone(enforcer),
            person_home: OnceLock::new(),
            table: Table::new(home),
            road: Arc::default(),
            sockets: Mutex::default(),
            settings: Mutex::default(),
            held: Arc::default(),
            secrets: Secrets::new(home.join("installed"), brought),
            remarks: Remarks(book.clone()),
            instances: Mutex::default(),
            origins: Mutex::default(),
            serving: Mutex::default(),
            leaving: Mutex::default(),
            swept: Once::new(),
        }
    }

    /// Takes `~` of a manifest for `home`.
    pub(super) fn live_in(&self, home: &Path) {
        let _first = self.person_home.set(home.to_owned());
    }

    fn person_home(&self) -> Option<&Path> {
        self.person_home.get().map(PathBuf::as_path)
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
    pub(super) fn configure(&self, settings: Arc<dyn PluginSettings>) {
        *locked(&self.settings) = Some(settings);
    }

    /// The values that no result may show.
    pub(crate) fn held(&self) -> &Arc<Held> {
        &self.held
    }

    /// Holds every secret that is set for a plugin, started or not.
    pub(crate) fn hold_secrets(&self) -> Result<(), Unheld> {
        let settings = locked(&self.settings).clone();
        settings.map_or(Ok(()), |settings| {
            self.secrets.hold(&*settings, self.workspace(), &self.held)
        })
    }

    /// Which secret settings of a plugin are not taken out of results, and why. No value is in it.
    pub(super) fn not_held(&self, plugin: &Manifest, origin: Origin) -> BTreeSet<String> {
        let given = self.settings_of(&plugin.name, origin).unwrap_or_default();
        self.held.hold(&secrets_of(plugin, &given))
    }

    /// What the log has to say besides.
    pub(super) const fn remarks(&self) -> &Remarks {
        &self.remarks
    }

    /// What the person set for a plugin that came so.
    pub(super) fn settings_of(&self, plugin: &PluginName, origin: Origin) -> Result<Value, String> {
        let workspace = match origin {
            Origin::User => None,
            Origin::Workspace => Some(self.workspace()),
        };
        let settings = locked(&self.settings).clone();
        match settings {
            Some(settings) => settings.read(plugin, workspace),
            None => Ok(Value::Object(Map::new())),
        }
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
            let mut files = current.plugin_files().range(below.clone()..);
            files
                .next()
                .is_some_and(|(file, _)| file.starts_with(&below))
        })
    }

    /// The files in `directory` of the workspace that a person approved, by their paths in it.
    pub(super) fn files_approved_in(&self, directory: &Path) -> BTreeMap<String, ApprovedFile> {
        let Some(below) = self.below(directory) else {
            return BTreeMap::new();
        };
        let current = self.store.current();
        let files = current.plugin_files().range(below.clone()..);
        files
            .map_while(|(file, approved)| Some((file.strip_prefix(&below)?.to_owned(), *approved)))
            .collect()
    }

    /// Which of workspace and user does not allow all of `pattern`, if one does not.
    pub(super) fn closed(&self, pattern: &str) -> Option<CapabilityGate> {
        let current = self.store.current();
        let wanted = Pattern::parse(pattern);
        let covers =
            |allowed: &CapabilitySet| wanted.as_ref().is_ok_and(|wanted| allowed.covers(wanted));
        if !covers(current.workspace_allow()) {
            return Some(CapabilityGate::Workspace);
        }
        if !covers(current.own_allow()) {
            return Some(CapabilityGate::User);
        }
        None
    }

    /// Who among the rules in force says no to `request`.
    pub(super) fn objection(&self, request: &Request) -> Option<Contribution> {
        self.store.current().engine().objection(request)
    }

    /// Who says no to `request`, or wants a person to look.
    pub(super) fn reservation(&self, request: &Request) -> Option<Contribution> {
        self.store.current().engine().reservation(request)
    }

    /// The policy in force.
    pub(super) fn policy(&self) -> Arc<Policy> {
        self.store.current().policy()
    }

    pub(super) fn workspace(&self) -> &WorkspaceId {
        self.store.workspace().id()
    }

    /// The workspace's absolute root.
    pub(super) fn root(&self) -> &str {
        self.store.workspace().root().path()
    }

    /// The tags that policy gives to `plugin` when it acts for `user`.
    pub(super) fn tags_by_policy(&self, plugin: &PluginName, user: &UserId) -> Vec<TagName> {
        self.store.current().tags(plugin.as_str(), user)
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

    /// Whether what runs of a plugin in `sandbox` is about to end because nobody wants it any more.
    pub(super) fn is_leaving(&self, plugin: &PluginName, sandbox: Option<&SandboxId>) -> bool {
        let instances = locked(&self.instances);
        let mut there = instances.iter();
        there.any(|one| one.is_retired && sandbox == Some(&one.sandbox))
            || locked(&self.leaving).contains(plugin)
    }

    /// Notes what came of the start of the plugin that reaches the kernel in `directory`.
    #[cfg(target_os = "linux")]
    pub(super) fn note_start(&self, manifest: &Manifest, directory: &Path, failed: Option<&str>) {
        let origin = locked(&self.origins).get(&manifest.name).cloned();
        let origin = origin.map_or(Origin::User, |(origin, _)| origin);
        let not_held: Vec<String> = self.not_held(manifest, origin).into_iter().collect();
        let warning = not_held.join("; ");
        let mut notes = vec![
            ("plugin", manifest.name.as_str()),
            ("tier", manifest.execution.tier.as_str()),
        ];
        if !warning.is_empty() {
            notes.push(("warning", warning.as_str()));
        }
        if let Some(why) = failed {
            // Why it failed may be in its own words.
            return self.book.failed(&self.held.cleaned(why), &notes);
        }
        let mut instances = locked(&self.instances);
        let found = instances
            .iter_mut()
            .find(|one| one.directory.path() == directory);
        if let Some(instance) = found {
            self.book.created(instance.sandbox.as_str(), &notes);
            instance.noted = Some(self.book.clone());
        }
    }

    pub(super) fn plugin_in(&self, sandbox: &SandboxId) -> Option<PluginName> {
        let instances = locked(&self.instances);
        let found = instances.iter().find(|one| one.sandbox == *sandbox);
        found.map(|instance| instance.plugin.clone())
    }

    fn number_in(&self, sandbox: &SandboxId) -> Option<u64> {
        let instances = locked(&self.instances);
        let found = instances.iter().find(|one| one.sandbox == *sandbox);
        found.map(|instance| instance.number)
    }

    pub(super) fn serve(&self, action: &ActionId, plugin: &PluginName, of: &OnBehalf) {
        let served = Served {
            by: plugin.clone(),
            instance: None,
            of: of.clone(),
            under_way: Vec::new(),
        };
        locked(&self.serving).insert(action.clone(), served);
    }

    /// A call is over. What was asked of the kernel for it is taken back: whoever would have used it
    /// is gone, and it would act in the name of a call that is over.
    pub(super) fn served(&self, action: &ActionId) {
        let served = locked(&self.serving).remove(action);
        for one in served.into_iter().flat_map(|served| served.under_way) {
            one.cancel();
        }
    }

    /// Does what is asked for the call `action`, until it is done or that call is over.
    pub(super) fn while_serving<T>(
        &self,
        action: &ActionId,
        ask: impl FnOnce() -> T,
    ) -> Result<T, CallbackError> {
        // Whoever asks over a socket can take it back by itself.
        let cancel = crate::cancel::covering();
        match locked(&self.serving).get_mut(action) {
            Some(served) => served.under_way.push(cancel.clone()),
            None => return Err(not_serving()),
        }
        let asked = cancel.cover(ask);
        if let Some(served) = locked(&self.serving).get_mut(action) {
            let mine = |one: &Cancel| one.is_same(&cancel);
            if let Some(at) = served.under_way.iter().position(mine) {
                served.under_way.swap_remove(at);
            }
        }
        Ok(asked)
    }

    /// The call that the instance of `plugin` in `sandbox` serves by what it asks, and for whom: the one
    /// it names, or the only one it serves. Leaving the name out sheds nothing: with several calls it
    /// has to say which.
    pub(super) fn serves(
        &self,
        plugin: &PluginName,
        sandbox: Option<&SandboxId>,
        named: Option<&str>,
    ) -> Result<Option<(ActionId, OnBehalf)>, CallbackError> {
        let instance = sandbox.and_then(|sandbox| self.number_in(sandbox));
        let serving = locked(&self.serving);
        let is_its = |served: &Served| {
            served.by == *plugin && instance.is_some() && served.instance == instance
        };
        let mut own = serving.iter().filter(|(_, served)| is_its(served));
        let found = if let Some(named) = named {
            let found = own.find(|(action, _)| action.to_string() == named);
            Some(found.ok_or_else(not_serving)?)
        } else {
            let first = own.next();
            if own.next().is_some() {
                return Err(serving_several());
            }
            first
        };
        Ok(found.map(|(action, served)| (action.clone(), served.of.clone())))
    }

    /// A short directory for sockets, which nobody else can enter.
    fn reach_directory(&self) -> std::io::Result<HeldDirectory> {
        let own = self.store.workspace().state().path().join("run/p");
        // Where state lies too deep for an address, a private directory in the usual place.
        let (place, prefix) = if own.as_os_str().len() <= REACH_BYTES {
            make_private(&own)?;
            (own, String::new())
        } else {
            let own = format!("airlock-{}-", rustix::process::geteuid().as_raw());
            (PathBuf::from("/tmp"), own)
        };
        self.swept
            .call_once(|| HeldDirectory::sweep(&place, &prefix));
        let name = format!("{prefix}{:08x}", rand::random::<u32>());
        HeldDirectory::make(&place, &name)
    }
}

/// The socket of a plugin where there is none for it.
#[cfg(target_os = "linux")]
fn refusing(directory: &Path) -> Result<Option<Box<dyn Any + Send>>, String> {
    let path = directory.join(airlock_plugin::boxed::KERNEL_SOCKET);
    match super::refusing::Refusing::at(&path) {
        Ok(socket) => Ok(Some(Box::new(socket))),
        Err(error) => Err(format!("there is no socket for it: {error}")),
    }
}

#[cfg(not(target_os = "linux"))]
fn refusing(_directory: &Path) -> Result<Option<Box<dyn Any + Send>>, String> {
    Ok(None)
}

/// The grants in the person's home, without what no plugin has whatever its manifest says.
fn narrowed(grants: &CapabilityGrants, home: Option<&Path>) -> Result<CapabilityGrants, String> {
    let grants = homes::placed(grants, home)?;
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
        let grants = narrowed(&grants, self.person_home())?;
        self.stays(&plugin.name);
        let registered = self.enforcer.register(plugin.name.clone(), grants);
        registered.map_err(|error| error.to_string())
    }

    fn replace(&self, plugin: &PluginName, grants: CapabilityGrants) -> Result<(), String> {
        let grants = narrowed(&grants, self.person_home())?;
        let replaced = self.enforcer.replace(plugin, grants);
        replaced.map_err(|error| error.to_string())
    }

    fn unregister(&self, plugin: &PluginName) {
        // One that is not registered can do nothing, which is all that is wanted.
        let _known = self.enforcer.unregister(plugin);
        self.stays(plugin);
    }

    fn leaves(&self, plugin: &PluginName) {
        locked(&self.leaving).insert(plugin.clone());
    }

    fn stays(&self, plugin: &PluginName) {
        locked(&self.leaving).remove(plugin);
    }

    fn reach(&self, plugin: &Manifest, instance: u64) -> Result<Reach, String> {
        let failed = |error: std::io::Error| format!("cannot make its reach directory: {error}");
        let directory = self.reach_directory().map_err(failed)?;
        let name = format!("plugin-{}-{}", plugin.name, uuid::Uuid::new_v4());
        let sandbox = SandboxId::new(&name).map_err(|error| error.to_string())?;
        let sockets = locked(&self.sockets).clone();
        let socket = match sockets {
            Some(sockets) => sockets.open(&sandbox, directory.path()).map(Some),
            None => refusing(directory.path()),
        }?;
        let path = directory.path().to_owned();
        locked(&self.instances).push(Instance {
            plugin: plugin.name.clone(),
            number: instance,
            sandbox: sandbox.clone(),
            is_retired: false,
            noted: None,
            _socket: socket,
            directory,
        });
        let callback = Line {
            plugin: plugin.name.clone(),
            sandbox,
            road: Arc::clone(&self.road),
        };
        Ok(Reach {
            directory: path,
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

    fn forget(&self, plugin: &PluginName) -> Result<(), String> {
        let settings = locked(&self.settings).clone();
        settings.map_or(Ok(()), |settings| settings.forget(plugin))?;
        let forgotten = self.table.forget(&self.key(plugin, Origin::User));
        forgotten.map_err(|error| format!("what its tools were cannot be forgotten: {error}"))
    }

    fn configuration(&self, plugin: &Manifest, origin: Origin) -> Result<Value, String> {
        let given = self.settings_of(&plugin.name, origin)?;
        // Before anything of it runs: from its first word on they are taken out of what it says. What
        // is not held is told with its start.
        let _told = self.held.hold(&secrets_of(plugin, &given));
        Ok(given)
    }

    fn approved_files(
        &self,
        origin: Origin,
        path: &Path,
    ) -> Option<BTreeMap<String, ApprovedFile>> {
        match origin {
            Origin::User => None,
            Origin::Workspace => Some(self.files_approved_in(path)),
        }
    }

    fn is_answered_for(&self, _plugin: &PluginName, origin: Origin, path: &Path) -> bool {
        match origin {
            Origin::User => true,
            Origin::Workspace => self.is_approved(path),
        }
    }

    fn retires(&self, plugin: &PluginName, instance: u64) {
        let mut instances = locked(&self.instances);
        let is_it = |one: &&mut Instance| one.plugin == *plugin && one.number == instance;
        if let Some(retired) = instances.iter_mut().find(is_it) {
            retired.is_retired = true;
        }
    }

    fn takes(&self, action: &str, instance: u64) {
        let mut serving = locked(&self.serving);
        let action = ActionId::new(action).ok();
        if let Some(served) = action.and_then(|action| serving.get_mut(&action)) {
            served.instance = Some(instance);
        }
    }

    fn skipped(&self, rejected: &[Arc<Rejected>]) {
        self.remarks.skipped(rejected);
    }

    fn serving(&self, plugin: &PluginName, tools: &[ToolDescription]) {
        let origin = locked(&self.origins).get(plugin).map(|(origin, _)| *origin);
        let key = self.key(plugin, origin.unwrap_or(Origin::User));
        // What cannot be kept is not offered.
        let _kept = self.table.hear(&key, tools);
    }
}
