//! The kernel as a value: a workspace, the policy in force, the enforcer, the log, the tools.
//!
//! A short command opens one, submits a call and closes it; a long-lived process keeps one. Both
//! are this type and this road.

use crate::agents::{self, Agents};
use crate::book::Book;
use crate::clock::Clock;
use crate::content;
use crate::control::{self, Desk};
use crate::defined::{AdapterTools, Defined};
use crate::definitions::{DefinedBy, Definitions, OwnDefinitions, WorkflowEntry};
use crate::extensions::WorkerProgram;
use crate::fronts::{Front, Local, Whence};
use crate::hold::{LastCopies, StateHold};
use crate::plugins::Plugins;
use crate::policy_store::{PolicyInForce, PolicyStore};
use crate::process::{self, Machine, Reception, Sandboxes, Serving, StageHold, Warm};
use crate::results::{Results, SessionResult};
use crate::road::{Call, Turns};
use crate::sanitise::Sessions;
use crate::tokens::record_ends;
use crate::tools::Registry;
use crate::upkeep::{self, Keeper};
use crate::workflows;
use crate::workspace::{Trust, TrustError, Workspace, WorkspaceError};
use airlock_audit::{
    AppendError, Durability, Entry, EventType, Health, Log, LogConfig, Retention, Stage,
};
use airlock_core::{ActionId, ByteSize, Caller, Digest, IdError, PathError, PluginName, UserId};
use airlock_policy::capability::{CapabilitySet, PatternError};
use airlock_policy::token::TokenAuthority;
use airlock_policy::{CapabilityGrants, Enforcer, Imposed, LoadError};
use airlock_state::{Owner, State, StateError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How long a kernel is meant to live: what it does at start, at the end and in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lifetime {
    /// One command: quick to open and close, outcomes written as they come.
    Command,
    /// A process that stays: everything checked at start, outcomes gathered, signed at the end.
    Long,
}

/// What a kernel is opened for: it says what a broken log stops, where policy says that it stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Errand {
    /// Whatever policy allows. It does not start on a broken log.
    Work,
    /// To read the log, and to have a person approve another policy: it starts on a broken log and
    /// takes no other call then.
    WayOut,
}

/// What can be asked of a kernel that a broken log stops.
const WAY_OUT: [&str; 5] = [
    "audit.read",
    "approval.decide",
    "policy.update",
    "trust.approve",
    "trust.revoke",
];

/// How long a start waits for the log's verification where policy insists on it.
const HEALTH_PATIENCE: Duration = Duration::from_mins(1);

/// How often a kernel that stays looks whether the log needs upkeep.
const UPKEEP: Duration = Duration::from_mins(1);

/// Records between two signatures of short commands, at most: each of them verifies at its start what
/// came since the last.
const COMMAND_CHECKPOINT: u64 = 100;

/// How to open a kernel.
#[derive(Debug, Clone)]
pub struct KernelConfig {
    /// The workspace's root.
    pub workspace: PathBuf,
    /// Where state lives, outside every workspace.
    pub state_home: PathBuf,
    /// The time.
    pub clock: Clock,
    /// How long this kernel is meant to live.
    pub lifetime: Lifetime,
    /// Bytes of text a result may hold.
    pub output_bytes: usize,
    /// Threads a search may use; zero means one a processor.
    pub search_threads: usize,
    /// What runs the scripts of a policy; without it, decisions that would ask one are denials. The
    /// same program, given `file-worker` instead, changes files of a stage.
    pub worker: Option<WorkerProgram>,
}

/// Why a kernel does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The workspace cannot be opened.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// What was approved cannot be told.
    #[error("cannot tell whether this workspace's files are trusted")]
    Trust(#[source] TrustError),
    /// The policy does not load; nothing runs without one.
    #[error("the policy does not load")]
    Policy {
        /// Every problem.
        error: LoadError,
        /// The text they point into.
        source_text: String,
    },
    /// The audit log cannot be opened.
    #[error("cannot open the audit log")]
    Audit(#[source] airlock_audit::OpenError),
    /// The chain is broken, and policy says that nothing starts then.
    #[error("the audit log is broken, and the policy says `audit.stop_on_break`: {0}")]
    Broken(String),
    /// The start could not be recorded, so there is none.
    #[error("the audit log cannot record the start")]
    Unrecorded(#[source] AppendError),
    /// The operating system's identity cannot be named.
    #[error("cannot tell who is asking")]
    Identity(#[source] IdError),
    /// A path of our own cannot be protected.
    #[error("cannot tell which paths to protect")]
    Protected(#[source] PathError),
    /// A manifest of our own is wrong.
    #[error("a built-in manifest is wrong")]
    Manifest(#[source] PatternError),
}

/// One opened kernel.
pub struct Kernel {
    store: Arc<PolicyStore>,
    enforcer: Arc<Enforcer>,
    plugins: Arc<Plugins>,
    agents: Arc<Agents>,
    hold: Arc<StateHold>,
    tokens: Arc<TokenAuthority>,
    state_home: PathBuf,
    registry: Registry,
    // Before the log, which it copies.
    copies: LastCopies,
    log: Arc<Log>,
    book: Book,
    keeper: Option<Keeper>,
    local: Local,
    clock: Clock,
    output_bytes: usize,
    search_threads: usize,
    notice: Option<String>,
    /// What is wrong with the log, if that stops everything but the way out.
    stopped: Option<String>,
    lifetime: Lifetime,
    machine: Option<Machine>,
    defined: Option<Arc<Defined>>,
    file_worker: Option<WorkerProgram>,
    turns: Arc<Turns>,
    warm: Arc<Warm>,
    sanitisers: Arc<Sessions>,
    results: Results,
    reception: Option<Arc<dyn Reception>>,
    serving: Serving,
    #[cfg(target_os = "linux")]
    sweeper: Option<process::Sweeper>,
    // Last: waits for what is still being taken down.
    sandboxes: Sandboxes,
}

impl Kernel {
    /// Opens the workspace, its trusted policy and its log.
    pub fn open(config: KernelConfig) -> Result<Self, StartError> {
        let workspace = Workspace::open(&config.workspace, &config.state_home)?;
        Self::open_in(workspace, config)
    }

    /// The same in a workspace that is open: the one `config` names.
    pub fn open_in(workspace: Workspace, config: KernelConfig) -> Result<Self, StartError> {
        Self::open_for(Errand::Work, workspace, config)
    }

    /// The same for `errand`.
    pub fn open_for(
        errand: Errand,
        workspace: Workspace,
        config: KernelConfig,
    ) -> Result<Self, StartError> {
        let local = Local::detect().map_err(StartError::Identity)?;
        let store = Arc::new(PolicyStore::open(
            workspace,
            local.user(),
            config.worker.clone(),
        )?);
        let log = Arc::new(open_log(&store, &config).map_err(StartError::Audit)?);
        let stopped = stopped_by(&log, &store, errand)?;
        let hold = Arc::new(StateHold::new(
            store.workspace().state().path().to_owned(),
            config.clock.clone(),
        ));
        let book = Book::new(&config.clock);
        let enforcer = Arc::new(enforcer()?);
        let plugins = Plugins::new(&config.state_home, &store, &enforcer, &book);
        let state = store.workspace().state().path();
        let sanitisers = Arc::new(Sessions::holding(plugins.desk().held(), state));
        let desk = Desk {
            store: Arc::clone(&store),
            hold: Arc::clone(&hold),
            clock: config.clock.clone(),
            sanitisers: Arc::clone(&sanitisers),
        };
        let notice = if stopped.is_some() {
            // Nothing is finished, archived or deleted on a log that stops everything.
            None
        } else {
            let recovered = control::merge::recover(&desk, &log);
            let kept = keep_log(&log, &store, &config.clock);
            recovered.or(kept)
        };
        if config.lifetime == Lifetime::Long {
            note(&log, &config.clock, EventType::KernelStart).map_err(StartError::Unrecorded)?;
        }
        let tokens = Arc::new(TokenAuthority::new(rand::random()));
        let mut keeper = None;
        if config.lifetime == Lifetime::Long {
            book.tell(&log);
            keeper = keeper_of(&log, &store, &hold, &tokens, &config.clock);
        }
        let mut registry = Registry::built_in();
        control::register(&mut registry, &desk);
        let results = Results::of(store.workspace().state().path()).by(&config.clock);
        registry.add(Box::new(SessionResult(results.clone())));
        let warm = Arc::new(Warm::default());
        process::register(&mut registry, &store, &warm);
        workflows::register(&mut registry);
        let agents = Arc::new(Agents::default());
        agents::register(&mut registry, &agents);
        plugins.register(&mut registry);
        let kernel = Self {
            store,
            enforcer,
            plugins,
            agents,
            tokens,
            state_home: config.state_home,
            registry,
            copies: LastCopies::new(&hold, &log),
            hold,
            log,
            book,
            keeper,
            local,
            clock: config.clock,
            output_bytes: config.output_bytes,
            search_threads: config.search_threads,
            notice,
            stopped,
            lifetime: config.lifetime,
            machine: None,
            defined: None,
            file_worker: config.worker.as_ref().map(WorkerProgram::for_files),
            turns: Arc::default(),
            warm,
            sanitisers,
            results,
            reception: None,
            serving: Serving::default(),
            #[cfg(target_os = "linux")]
            sweeper: None,
            sandboxes: Sandboxes::default(),
        };
        kernel.sandboxes.note_in(&kernel.book);
        if config.lifetime == Lifetime::Long {
            // Checked, and recovered if need be, before anybody waits for it. One that cannot be
            // opened tells the first call that needs it.
            let verified = kernel.state().is_ok_and(|state| state.is_verified());
            if !verified || !kernel.log.open_report().unclean.is_empty() {
                kernel.hold.look_through();
            }
        }
        Ok(kernel)
    }

    /// Lets this kernel run programs, in sandboxes on `machine`.
    #[must_use]
    pub fn on(mut self, machine: Machine) -> Self {
        self.plugins.on(&machine);
        self.machine = Some(machine);
        if self.lifetime == Lifetime::Long && !self.sandboxes.has_reserve() {
            self.sandboxes = Sandboxes::in_reserve(None);
            self.sandboxes.note_in(&self.book);
        }
        #[cfg(target_os = "linux")]
        if self.lifetime == Lifetime::Long {
            let registries = process::registries(self.store.workspace());
            let all = registries.into_iter().chain([self.plugins.boxes()]);
            self.sweeper = Some(process::Sweeper::new(all.collect(), process::EVERY));
        }
        self
    }

    /// What sandboxes of killed supervisors left that cannot be taken away, and why. A kernel that
    /// lasts tries again each minute.
    pub fn left_behind(&self) -> Vec<String> {
        #[cfg(target_os = "linux")]
        let left = self.sweeper.as_ref().map(process::Sweeper::troubles);
        #[cfg(not(target_os = "linux"))]
        let left: Option<Vec<String>> = None;
        left.unwrap_or_default()
    }

    /// Lets it use sandboxes that were made ahead.
    #[must_use]
    pub fn with_sandboxes(mut self, sandboxes: Sandboxes) -> Self {
        self.plugins.by(&sandboxes);
        sandboxes.note_in(&self.book);
        self.sandboxes = sandboxes;
        self
    }

    /// Lets what runs in its sandboxes ask it, by sockets of their own that `reception` serves.
    #[must_use]
    pub fn receiving(mut self, reception: Arc<dyn Reception>) -> Self {
        self.reception = Some(reception);
        self
    }

    /// Gives this kernel the adapters, workflows and agents of the person and of the workspace, as
    /// far as those are approved. An adapter never takes the name of a tool there is.
    #[must_use]
    pub fn defining(mut self, own: &OwnDefinitions) -> Self {
        let worker = self.file_worker.as_ref();
        let defined = Arc::new(Defined::new(own, &self.store, worker, &self.registry));
        self.agents.define(&defined);
        let adapters = Box::new(AdapterTools(Arc::clone(&defined)));
        self.registry.add_further_first(adapters);
        self.defined = Some(defined);
        self
    }

    /// Whether what a workflow was read from is still approved.
    pub(crate) fn is_approved(&self, entry: &WorkflowEntry) -> bool {
        self.still_stands(entry.origin, &entry.file, entry.digest)
    }

    /// Whether a definition that was read from `file` is still the person's own or approved.
    pub(crate) fn still_stands(&self, origin: DefinedBy, file: &str, digest: Digest) -> bool {
        match origin {
            DefinedBy::User => true,
            DefinedBy::Workspace => {
                let current = self.store.current();
                let mut files = current.definitions().iter();
                files.any(|(path, bytes)| *path == file && Digest::of(bytes) == digest)
            }
        }
    }

    /// The adapters, workflows and agents there are now.
    pub fn definitions(&self) -> Arc<Definitions> {
        let defined = self.defined.as_ref();
        defined.map_or_else(Arc::default, |defined| defined.now())
    }

    /// Those there would be if the workspace's files were approved as they stand in `trust`: to check,
    /// never to use.
    pub fn definitions_if_approved(&self, trust: &Trust) -> Definitions {
        let defined = self.defined.as_ref();
        defined.map_or_else(Definitions::default, |defined| defined.if_approved(trust))
    }

    /// The workspace.
    pub fn workspace(&self) -> &Workspace {
        self.store.workspace()
    }

    /// The policy in force now.
    pub fn policy(&self) -> Arc<PolicyInForce> {
        self.store.current()
    }

    /// The policy that the last call found in force: to say of it what it was.
    pub fn policy_of_last_call(&self) -> Arc<PolicyInForce> {
        self.store.last_seen()
    }

    /// The tools.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The log. Reading it is the syscall `audit.read`: submit that first.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// What a record names by `digest`: arguments or a result, whole. Reading it is reading the log,
    /// the syscall `audit.read`: submit that first.
    pub fn content(&self, digest: Digest) -> std::io::Result<String> {
        content::read(self.workspace().state().path(), digest)
    }

    /// The stages. Looking at them is the syscall `stage.read`: submit that first.
    pub fn stages(&self) -> StageHold<'_> {
        StageHold(self.workspace())
    }

    /// What is wrong with the log, if that stops everything but the way out: see [`Errand::WayOut`].
    pub fn stopped(&self) -> Option<&str> {
        self.stopped.as_deref()
    }

    /// Whether a broken log keeps this kernel from looking at a call of `name`.
    pub(crate) fn stops(&self, name: &str) -> bool {
        self.stopped.is_some() && !WAY_OUT.contains(&name)
    }

    /// What went wrong at start without keeping it from starting.
    pub fn notice(&self) -> Option<&str> {
        self.notice.as_deref()
    }

    /// The clock.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Ends sandboxes that only wait for another command, so that their stages are free.
    pub fn release_idle(&self) {
        self.warm.release_all();
    }

    /// Flushes the log. Dropping does the same but cannot report a failure.
    pub fn close(self) -> Result<(), AppendError> {
        self.plugins.shutdown();
        self.warm.release_all();
        self.sandboxes.settle();
        drop(self.keeper);
        drop(self.copies);
        let ended = self.tokens.end_all();
        let ended = record_ends(&self.log, &ended, self.clock.now());
        let told = ended.and(self.book.close(&self.log));
        if self.lifetime == Lifetime::Long {
            note(&self.log, &self.clock, EventType::KernelShutdown)?;
        }
        // Nobody else has it once the book is closed and the keeper gone.
        let closed = Arc::into_inner(self.log).map_or(Ok(()), Log::close);
        told.and(closed)
    }

    pub(crate) fn store(&self) -> &PolicyStore {
        &self.store
    }

    pub(crate) fn store_shared(&self) -> Arc<PolicyStore> {
        Arc::clone(&self.store)
    }

    pub(crate) fn hold_shared(&self) -> Arc<StateHold> {
        Arc::clone(&self.hold)
    }

    pub(crate) fn enforcer(&self) -> &Enforcer {
        &self.enforcer
    }

    pub(crate) fn plugins(&self) -> &Arc<Plugins> {
        &self.plugins
    }

    pub(crate) fn agents(&self) -> &Agents {
        &self.agents
    }

    /// A fresh name for one action.
    pub(crate) fn next_action() -> ActionId {
        ActionId::from_uuid(uuid::Uuid::now_v7())
    }

    pub(crate) fn tokens(&self) -> &TokenAuthority {
        &self.tokens
    }

    /// What became of sandboxes, for the log.
    pub(crate) const fn book(&self) -> &Book {
        &self.book
    }

    pub(crate) fn hold(&self) -> &StateHold {
        &self.hold
    }

    /// The store of sessions and approvals. That an earlier one was damaged is recorded first.
    pub(crate) fn state(&self) -> Result<Arc<State>, StateError> {
        let state = self.hold.get()?;
        self.hold.record_loss(&self.log);
        Ok(state)
    }

    /// What was found out since the start that the person should know; told once.
    pub fn late_notice(&self) -> Option<String> {
        self.hold.take_notice()
    }

    pub(crate) fn state_home(&self) -> &Path {
        &self.state_home
    }

    /// For whom this kernel works.
    pub(crate) fn owner(&self) -> Owner {
        Owner {
            tenant: self.local.tenant().clone(),
            user: self.local.user().clone(),
        }
    }

    pub(crate) fn user(&self) -> &UserId {
        self.local.user()
    }

    /// How long a result may be: as long as policy allows, within `room` or what a model is given.
    pub(crate) fn output_budget(&self, imposed: &Imposed, room: Option<usize>) -> usize {
        let limit = imposed.max_output.map_or(u64::MAX, ByteSize::as_bytes);
        usize::try_from(limit)
            .unwrap_or(usize::MAX)
            .min(room.unwrap_or(self.output_bytes))
    }

    pub(crate) fn sanitisers(&self) -> &Sessions {
        &self.sanitisers
    }

    /// Results that were cut or withheld.
    pub(crate) const fn results(&self) -> &Results {
        &self.results
    }

    pub(crate) fn sanitisers_shared(&self) -> Arc<Sessions> {
        Arc::clone(&self.sanitisers)
    }

    pub(crate) fn machine(&self) -> Option<&Machine> {
        self.machine.as_ref()
    }

    pub(crate) fn file_worker(&self) -> Option<&WorkerProgram> {
        self.file_worker.as_ref()
    }

    pub(crate) fn turns(&self) -> &Arc<Turns> {
        &self.turns
    }

    /// Where sandboxes are kept for the next command, if this kernel lives long enough for one.
    pub(crate) fn warm(&self) -> Option<&Arc<Warm>> {
        (self.lifetime == Lifetime::Long).then_some(&self.warm)
    }

    /// Calls from inside that plugins serve.
    pub(crate) const fn serving(&self) -> &Serving {
        &self.serving
    }

    pub(crate) fn reception(&self) -> Option<&Arc<dyn Reception>> {
        self.reception.as_ref()
    }

    pub(crate) fn sandboxes(&self) -> &Sandboxes {
        &self.sandboxes
    }

    pub(crate) fn search_threads(&self) -> usize {
        self.search_threads
    }

    pub(crate) fn identify(
        &self,
        front: Front,
        whence: &Whence,
        call: &Call,
        policy: &PolicyInForce,
    ) -> Result<Caller, IdError> {
        let user = self.local.user_of(whence)?;
        let tags = match (front, &whence.plugin) {
            (Front::Plugin, Some(plugin)) => {
                let mut tags = policy.tags(plugin.as_str(), &user);
                tags.extend(self.plugins.tags(plugin));
                tags
            }
            (Front::Cli | Front::Agent | Front::Mcp | Front::Server | Front::Plugin, _) => {
                policy.tags(front.as_str(), &user)
            }
        };
        self.local.caller(
            front,
            whence,
            self.workspace().id(),
            call.session.clone(),
            tags,
        )
    }
}

/// The enforcer with every built-in front registered.
fn enforcer() -> Result<Enforcer, StartError> {
    let enforcer = Enforcer::new();
    for front in Front::ALL {
        let set = |patterns: &[&str]| CapabilitySet::parse(patterns).map_err(StartError::Manifest);
        let name = PluginName::new(front.as_str()).map_err(StartError::Identity)?;
        let grants = CapabilityGrants {
            allow: set(front.allow())?,
            deny: set(front.deny())?,
        };
        // The names of the fronts differ, so none can be registered already.
        let _registered = enforcer.register(name, grants);
    }
    Ok(enforcer)
}

fn open_log(store: &PolicyStore, config: &KernelConfig) -> Result<Log, airlock_audit::OpenError> {
    let state = store.workspace().state();
    let audit = store.current().policy().document().audit;
    let mut log = LogConfig::new(state.path(), &state.keys(), config.clock.shared());
    log.checkpoint_every = u64::from(audit.checkpoint_every);
    match config.lifetime {
        Lifetime::Long => log = log.long_lived(),
        Lifetime::Command => log.checkpoint_every = log.checkpoint_every.min(COMMAND_CHECKPOINT),
    }
    log.retention = retention(store);
    log.stop_on_break = store.current().kept_log().stop_on_break;
    Log::open(log)
}

/// How much of the log the policy in force keeps.
fn retention(store: &PolicyStore) -> Retention {
    let current = store.current();
    let kept = current.kept_log();
    Retention {
        days: kept.days,
        bytes: kept.bytes,
        segment: current.policy().document().audit.segment,
    }
}

/// Does the log's upkeep if it is due; gives back what the person should know.
fn keep_log(log: &Log, store: &PolicyStore, clock: &Clock) -> Option<String> {
    let state = store.workspace().state();
    upkeep::keep(log, state.path(), retention(store), clock.now())
}

/// Keeps after the log, the sessions and the tokens of a kernel that stays. Where there is no thread
/// for it, the next start does.
fn keeper_of(
    log: &Arc<Log>,
    store: &Arc<PolicyStore>,
    hold: &Arc<StateHold>,
    tokens: &Arc<TokenAuthority>,
    clock: &Clock,
) -> Option<Keeper> {
    let (log, store, clock) = (Arc::downgrade(log), Arc::clone(store), clock.clone());
    let (hold, tokens) = (Arc::clone(hold), Arc::clone(tokens));
    let keeper = Keeper::start(UPKEEP, move || {
        if let Some(log) = log.upgrade() {
            let now = clock.now();
            // What fails is tried again, and told by the next start. A token whose end cannot be
            // recorded is over all the same.
            let _told = keep_log(&log, &store, &clock);
            hold.keep(&log);
            let _recorded = record_ends(&log, &tokens.take_expired(now), now);
        }
    });
    keeper.ok()
}

/// What is wrong with the log, where policy says that a break stops everything; an error where `errand`
/// is not the way out.
fn stopped_by(
    log: &Log,
    store: &PolicyStore,
    errand: Errand,
) -> Result<Option<String>, StartError> {
    if !store.current().kept_log().stop_on_break {
        return Ok(None);
    }
    match (broken(log), errand) {
        (Some(detail), Errand::Work) => Err(StartError::Broken(detail)),
        (broken, Errand::Work | Errand::WayOut) => Ok(broken),
    }
}

/// Waits for the check that opening began; a chain that is not known to hold counts as broken.
fn broken(log: &Log) -> Option<String> {
    match log.wait_for_health(HEALTH_PATIENCE) {
        Health::Verified { .. } => None,
        Health::Broken { detail, .. } | Health::Unknown { detail } => Some(detail),
        Health::Verifying => Some("it could not be verified in time".to_owned()),
    }
}

/// Records the beginning or the end of a kernel that stays.
fn note(log: &Log, clock: &Clock, event: EventType) -> Result<(), AppendError> {
    let entry = Entry::new(clock.now(), event, Stage::Note);
    log.append(&entry, Durability::Buffered).map(drop)
}
