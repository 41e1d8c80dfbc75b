//! The policy in force: where it comes from, how it changes, who is allowed what under it.
//!
//! Invariant 8 lives here: the workspace's file counts only while a person's approval holds, and
//! [`PolicyStore::update`] - reached only through the reviewed syscall - is the only writer.

use crate::extensions::{self, Approved, ExtensionProblem, Listed, WorkerProgram};
use crate::fronts::Front;
use crate::kernel::StartError;
use crate::policy_stamp::Stamp;
use crate::process::Commands;
use crate::starter::Starter;
use crate::workspace::{
    Existing, KeptLog, POLICY_FILE, TrustError, TrustStore, Workspace, write_atomic, write_with,
};
use airlock_core::{Digest, Request, TagName, Timestamp, UserId};
use airlock_plugin::ApprovedFile;
use airlock_policy::approval::AnswerRules;
use airlock_policy::capability::CapabilitySet;
use airlock_policy::token::Redeemed;
use airlock_policy::{
    BuiltIns, Decision, Document, Engine, Explanation, Generation, LoadError, Policy, Protected,
    Tag,
};
use arc_swap::ArcSwap;
use rustix::fs::{FlockOperation, flock};
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The role of the local user unless the policy gives another.
const OWNER: &str = "owner";

/// Most numbered backups of replaced policies; the oldest go first.
const BACKUPS: usize = 100;

/// Where the policy in force comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolicyOrigin {
    /// The workspace's own file, approved by a person.
    Workspace,
    /// Built-in defaults, because the workspace has no policy.
    Default,
    /// Built-in defaults, because the workspace's files are not approved.
    Untrusted,
    /// A policy that is only being tried on.
    Tried,
}

impl fmt::Display for PolicyOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Workspace => "workspace",
            Self::Default => "default",
            Self::Untrusted => "default (workspace files not approved)",
            Self::Tried => "tried on",
        })
    }
}

/// Why the policy could not be changed.
#[derive(Debug, thiserror::Error)]
pub enum UpdateError {
    /// There is a policy already.
    #[error("this workspace already has a policy, `{POLICY_FILE}`")]
    Exists,
    /// The policy a person approved is gone.
    #[error("this workspace had a policy that a person approved, and it is gone")]
    Gone,
    /// The files are not the ones a person looked at.
    #[error("the files changed while they were being reviewed")]
    Moved,
    /// Something below `.airlock/` is not what can be approved or replaced.
    #[error("the workspace's files cannot be used as they are")]
    Unusable(#[source] Arc<TrustError>),
    /// Approvals cannot be read or recorded.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// The text is no policy.
    #[error("the policy does not load")]
    Load(#[source] Box<LoadError>),
    /// The file cannot be written.
    #[error("cannot write `{path}`")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl UpdateError {
    /// How to mend it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Exists => "edit it and run `airlock policy update FILE`, or `airlock trust`",
            Self::Gone => {
                "bring it back, or have a new one reviewed: `airlock init --print > FILE`, then `airlock policy update FILE`"
            }
            Self::Moved => "look at them again and answer again",
            Self::Unusable(error) => error.hint(),
            Self::Trust(error) => error.hint(),
            Self::Load(_) => "check it with `airlock policy check FILE`",
            Self::Write { .. } => "make the directory writable, or free some space",
        }
    }
}

/// What an update did.
#[derive(Debug)]
pub(crate) struct Updated {
    pub(crate) generation: Generation,
    /// The name of the backup of the policy it replaced.
    pub(crate) backup: Option<String>,
    /// Whether it counts: other files of the workspace may still wait for approval.
    pub(crate) in_force: bool,
}

/// What an approval did.
#[derive(Debug)]
pub(crate) struct Trusted {
    /// How many files count by it.
    pub(crate) files: usize,
    /// The name of the backup of the policy that was approved before.
    pub(crate) backup: Option<String>,
}

/// One policy, with the sets and tags that follow from it for this user.
pub struct PolicyInForce {
    engine: Engine,
    origin: PolicyOrigin,
    workspace_allow: CapabilitySet,
    /// The kernel's own user, and what their roles permit.
    user: UserId,
    user_allow: CapabilitySet,
    /// What the roles of others permit whom the policy names; nothing for anybody else.
    others: BTreeMap<Arc<str>, CapabilitySet>,
    nothing: CapabilitySet,
    source: Arc<[u8]>,
    /// Compiled when the first program is run.
    commands: OnceLock<Commands>,
    extensions: Vec<Arc<Listed>>,
    definitions: Vec<(String, Arc<[u8]>)>,
    plugin_files: BTreeMap<String, ApprovedFile>,
    log: KeptLog,
}

/// Where a policy is in force, and for whom.
#[derive(Clone, Copy)]
struct Here<'a> {
    workspace: &'a Workspace,
    user: &'a UserId,
    worker: Option<&'a WorkerProgram>,
}

impl PolicyInForce {
    fn new(
        policy: Policy,
        origin: PolicyOrigin,
        source: &[u8],
        approved: &Approved,
        here: Here<'_>,
    ) -> Result<Self, StartError> {
        let Here {
            workspace,
            user,
            worker,
        } = here;
        let document = policy.document();
        let set =
            |patterns: &[Arc<str>]| CapabilitySet::parse(patterns).map_err(StartError::Manifest);
        let workspace_allow = set(&document.workspace.allow)?;
        let user_allow = set(&permissions(document, user))?;
        let others = document.users.iter();
        let others = others.map(|(name, roles)| -> Result<_, StartError> {
            // Only the kernel's own user owns what it works on.
            let roles: Vec<Arc<str>> = roles
                .iter()
                .filter(|role| ***role != *OWNER)
                .cloned()
                .collect();
            Ok((name.clone(), set(&permitted(document, &roles))?))
        });
        let others = others.collect::<Result<_, StartError>>()?;
        let built_ins = BuiltIns::standard(protected(workspace)?);
        let extensions = extensions::listed(&policy, approved, workspace, worker);
        let log = KeptLog::of(&document.audit);
        let engine = Engine::new(policy, built_ins, extensions::host(&extensions));
        Ok(Self {
            engine,
            origin,
            workspace_allow,
            user: user.clone(),
            user_allow,
            others,
            nothing: set(&[])?,
            source: source.into(),
            commands: OnceLock::new(),
            extensions,
            definitions: Vec::new(),
            plugin_files: BTreeMap::new(),
            log,
        })
    }

    /// The adapters, workflows and agents that were approved together with this policy.
    pub(crate) fn definitions(&self) -> &[(String, Arc<[u8]>)] {
        &self.definitions
    }

    /// The files of the workspace's plugins that were approved together with this policy.
    pub(crate) fn plugin_files(&self) -> &BTreeMap<String, ApprovedFile> {
        &self.plugin_files
    }

    /// How the log is kept. A policy that no longer counts still says how much is kept at least: what
    /// nobody approved must not delete records.
    pub(crate) fn kept_log(&self) -> KeptLog {
        self.log
    }

    /// Starts every extension and says which cannot be asked.
    pub fn extension_problems(&self) -> Vec<ExtensionProblem> {
        self.extensions
            .iter()
            .filter_map(|one| one.problem())
            .collect()
    }

    /// Where it comes from.
    pub fn origin(&self) -> PolicyOrigin {
        self.origin
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The compiled policy.
    pub fn policy(&self) -> Arc<Policy> {
        self.engine.policy()
    }

    /// The text it was loaded from.
    pub fn source(&self) -> &[u8] {
        &self.source
    }

    /// The programs tools may run.
    pub(crate) fn commands(&self) -> &Commands {
        self.commands
            .get_or_init(|| Commands::of(&self.engine.policy().document().commands))
    }

    /// Which policy it is.
    pub fn generation(&self) -> Generation {
        self.engine.policy().generation()
    }

    /// Decides `request` by built-in rules and this policy. Capabilities are the enforcer's.
    pub fn decide(&self, request: &Request, now: Timestamp) -> Decision {
        self.engine.decide(request, None, now)
    }

    /// The same with a token that was redeemed for it.
    pub(crate) fn decide_with(
        &self,
        request: &Request,
        token: Option<&Redeemed>,
        now: Timestamp,
    ) -> Decision {
        self.engine.decide(request, token, now)
    }

    /// The same for what is excepted from the rules on a session's state.
    pub(crate) fn decide_past_phases(
        &self,
        request: &Request,
        token: Option<&Redeemed>,
        now: Timestamp,
    ) -> Decision {
        self.engine.decide_past_phases(request, token, now)
    }

    /// Why `decision` came out as it did, and what would change it.
    pub fn explain(&self, request: &Request, decision: &Decision) -> Explanation {
        self.engine.explain(request, decision)
    }

    /// The tags policy gives to `plugin` acting for `user`. Of a tag that names users, the person's own
    /// commands alone hold it, unless it names the plugin too: what acts for somebody is not them.
    pub(crate) fn tags(&self, plugin: &str, user: &UserId) -> Vec<TagName> {
        let policy = self.engine.policy();
        let holds = |holders: &[Arc<str>], name: &str| holders.iter().any(|held| **held == *name);
        let given = |tag: &Tag| match (tag.plugin.is_empty(), tag.user.is_empty()) {
            (false, true) => holds(&tag.plugin, plugin),
            (true, false) => plugin == Front::Cli.as_str() && holds(&tag.user, user.as_str()),
            (false, false) => holds(&tag.plugin, plugin) && holds(&tag.user, user.as_str()),
            (true, true) => false,
        };
        policy
            .document()
            .tags
            .iter()
            .filter(|(_, tag)| given(tag))
            .filter_map(|(name, _)| TagName::new(name).ok())
            .collect()
    }

    /// Who may answer which review, and how.
    pub fn answer_rules(&self) -> AnswerRules {
        AnswerRules::of(&self.engine.policy().document().approvals)
    }

    pub(crate) fn workspace_allow(&self) -> &CapabilitySet {
        &self.workspace_allow
    }

    /// What `user` is permitted.
    pub(crate) fn user_allow(&self, user: &UserId) -> &CapabilitySet {
        if *user == self.user {
            return &self.user_allow;
        }
        self.others.get(user.as_str()).unwrap_or(&self.nothing)
    }

    /// What the kernel's own user is permitted.
    pub(crate) const fn own_allow(&self) -> &CapabilitySet {
        &self.user_allow
    }
}

impl fmt::Debug for PolicyInForce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PolicyInForce({}, {:?})", self.origin, self.generation())
    }
}

/// What the roles of `user` permit. The local user owns the machine's copy: without an entry of
/// their own they have the role `owner`, which permits everything unless the policy says otherwise.
fn permissions(document: &Document, user: &UserId) -> Vec<Arc<str>> {
    let owner = [Arc::from(OWNER)];
    let roles = document
        .users
        .get(user.as_str())
        .map_or(&owner[..], Vec::as_slice);
    permitted(document, roles)
}

/// What `roles` permit together.
fn permitted(document: &Document, roles: &[Arc<str>]) -> Vec<Arc<str>> {
    let everything = [Arc::from("*")];
    let of = |role: &Arc<str>| match document.roles.get(role) {
        Some(granted) => granted.clone(),
        None if **role == *OWNER => everything.to_vec(),
        None => Vec::new(),
    };
    roles.iter().flat_map(of).collect()
}

/// Our own programs, which lie in one directory.
const PROGRAMS: [&str; 4] = [
    "airlock",
    "airlock-main",
    "airlock-wasm",
    "airlock-bootstrap",
];

/// What no request may write, whatever the policy: state, keys and our own programs.
fn protected(workspace: &Workspace) -> Result<Protected, StartError> {
    let mut paths = vec![workspace.state().path().display().to_string()];
    let binary = std::env::current_exe()
        .ok()
        .and_then(|path| path.canonicalize().ok());
    if let Some(binary) = binary {
        let named = PROGRAMS.map(|name| binary.with_file_name(name));
        // And what they are where they are links.
        let real = named.iter().filter_map(|path| path.canonicalize().ok());
        let all: Vec<PathBuf> = real.chain([binary]).collect();
        let all = named.iter().chain(&all);
        paths.extend(all.map(|path| path.display().to_string()));
    }
    Protected::new(workspace.root().path(), paths.iter().map(String::as_str))
        .map_err(StartError::Protected)
}

/// The workspace with the policy in force in it.
pub(crate) struct PolicyStore {
    workspace: Workspace,
    user: UserId,
    worker: Option<WorkerProgram>,
    current: ArcSwap<PolicyInForce>,
    stamp: ArcSwap<Stamp>,
    loading: Mutex<()>,
}

impl PolicyStore {
    /// Loads the policy a person approved, or the built-in one. A policy that is approved and does
    /// not load stops the start.
    pub(crate) fn open(
        workspace: Workspace,
        user: &UserId,
        worker: Option<WorkerProgram>,
    ) -> Result<Self, StartError> {
        // Before loading: what changes meanwhile is noticed at the first call.
        let stamp = Stamp::of(&workspace);
        let current = load(Here {
            workspace: &workspace,
            user,
            worker: worker.as_ref(),
        })?;
        let store = Self {
            workspace,
            user: user.clone(),
            worker,
            current: ArcSwap::from_pointee(current),
            stamp: ArcSwap::from_pointee(stamp),
            loading: Mutex::new(()),
        };
        store.keep_text();
        Ok(store)
    }

    /// Keeps the text of the policy in force where only its digest is on record, as it was before
    /// texts were kept, or after a crash. One that cannot be kept is in force all the same.
    fn keep_text(&self) {
        let current = self.current.load();
        let trust = TrustStore::new(&self.workspace);
        if current.origin() != PolicyOrigin::Workspace || trust.keeps(current.source()) {
            return;
        }
        // Whoever has it keeps a text of their own.
        let Ok(_held) = self.lock_by(FlockOperation::NonBlockingLockExclusive) else {
            return;
        };
        let pinned = trust.approved().unwrap_or_default();
        // Another process may have approved another one since.
        if pinned.get(POLICY_FILE) == Some(&Digest::of(current.source())) {
            trust.keep(current.source());
        }
    }

    pub(crate) fn workspace(&self) -> &Workspace {
        &self.workspace
    }

    fn here(&self) -> Here<'_> {
        Here {
            workspace: &self.workspace,
            user: &self.user,
            worker: self.worker.as_ref(),
        }
    }

    /// The policy in force, also if another process changed what is approved, or somebody a file that
    /// was: what is not as approved does not count, whenever it came to be so.
    pub(crate) fn current(&self) -> Arc<PolicyInForce> {
        if !self.stamp.load().holds() {
            self.look_again();
        }
        self.current.load_full()
    }

    /// The policy that whoever looked last found in force.
    pub(crate) fn last_seen(&self) -> Arc<PolicyInForce> {
        self.current.load_full()
    }

    /// `policy` as it would be in force here, without putting it in force.
    pub(crate) fn try_on(&self, policy: Policy) -> Result<PolicyInForce, StartError> {
        self.tried(policy, &[])
    }

    fn tried(&self, policy: Policy, source: &[u8]) -> Result<PolicyInForce, StartError> {
        let approved = TrustStore::new(&self.workspace).approved();
        let approved = approved.map_err(StartError::Trust)?;
        PolicyInForce::new(policy, PolicyOrigin::Tried, source, &approved, self.here())
    }

    /// The policy whose approval is on record, where built-in defaults hold because files were
    /// changed since; none where it is not known any more.
    pub(crate) fn last_approved(&self) -> Option<PolicyInForce> {
        if self.current().origin() != PolicyOrigin::Untrusted {
            return None;
        }
        let source = TrustStore::new(&self.workspace).approved_policy().ok()??;
        let loaded = Policy::load(POLICY_FILE, &source).ok()?;
        self.tried(loaded.policy, &source).ok()
    }

    /// Approves exactly the files whose common digest is `shown`: those the person looked at. A
    /// policy that takes the place of another leaves that one as a numbered backup.
    pub(crate) fn approve(&self, shown: Digest) -> Result<Trusted, UpdateError> {
        let _held = self.lock()?;
        let trust = self.workspace.trust()?;
        if trust.digest() != shown {
            return Err(UpdateError::Moved);
        }
        trust.check().map_err(UpdateError::Unusable)?;
        if let Some(bytes) = trust.untrusted_policy() {
            Policy::load(POLICY_FILE, bytes).map_err(|error| UpdateError::Load(Box::new(error)))?;
        }
        let store = TrustStore::new(&self.workspace);
        let old = store.approved_policy()?.or_else(|| store.kept());
        let old = old.filter(|old| Some(&**old) != trust.untrusted_policy());
        let backup = old.map(|old| self.back_up(&old)).transpose()?;
        store.approve(&trust)?;
        self.reload()?;
        Ok(Trusted {
            files: trust.report().len(),
            backup,
        })
    }

    /// Withdraws every approval.
    pub(crate) fn revoke(&self) -> Result<(), UpdateError> {
        let _held = self.lock()?;
        TrustStore::new(&self.workspace).revoke()?;
        self.reload()
    }

    /// Writes and approves the starter policy, unless there is a policy, or was one: who takes away
    /// what a person approved does not choose what takes its place.
    pub(crate) fn initialise(&self) -> Result<Starter, UpdateError> {
        let _held = self.lock()?;
        let trust = self.workspace.trust()?;
        trust
            .check_file(POLICY_FILE)
            .map_err(UpdateError::Unusable)?;
        if trust.untrusted_policy().is_some() {
            return Err(UpdateError::Exists);
        }
        if trust.had_policy() {
            return Err(UpdateError::Gone);
        }
        let starter = Starter::detect(self.workspace.root());
        let text = starter.policy();
        self.try_text(text.as_bytes())?;
        self.write(text.as_bytes(), Existing::Keep)?;
        Ok(starter)
    }

    /// Replaces the policy `replaced` and approves the new one. The one that was approved before is
    /// kept as a numbered backup, and so is what somebody wrote over it since.
    ///
    /// If another process changed the policy meanwhile, what the person agreed to is no longer
    /// what would happen.
    pub(crate) fn update(
        &self,
        bytes: &[u8],
        replaced: Generation,
    ) -> Result<Updated, UpdateError> {
        let _held = self.lock()?;
        if self.current().generation() != replaced {
            return Err(UpdateError::Moved);
        }
        let generation = self.try_text(bytes)?;
        let trust = self.workspace.trust()?;
        // What cannot be backed up is not overwritten.
        trust
            .check_file(POLICY_FILE)
            .map_err(UpdateError::Unusable)?;
        let store = TrustStore::new(&self.workspace);
        let approved = store.approved_policy()?.or_else(|| store.kept());
        let is_lost = |text: &[u8]| text != bytes;
        let draft = trust
            .untrusted_policy()
            .filter(|text| is_lost(text) && approved.as_deref() != Some(*text));
        let draft = draft.map(|text| self.back_up(text)).transpose()?;
        let approved = approved.filter(|text| is_lost(text));
        let approved = approved.map(|text| self.back_up(&text)).transpose()?;
        let backup = approved.or(draft);
        self.write(bytes, Existing::Replace)?;
        let current = self.current();
        Ok(Updated {
            generation,
            backup,
            in_force: current.origin() == PolicyOrigin::Workspace
                && current.generation() == generation,
        })
    }

    /// Checks in memory that `bytes` could be in force here.
    fn try_text(&self, bytes: &[u8]) -> Result<Generation, UpdateError> {
        let loaded =
            Policy::load(POLICY_FILE, bytes).map_err(|error| UpdateError::Load(Box::new(error)))?;
        let tried = self
            .try_on(loaded.policy)
            .map_err(|error| self.not_loaded(error))?;
        Ok(tried.generation())
    }

    /// Writes the file, approves those very bytes, loads it. A crash in between leaves a file that
    /// nobody approved yet: built-in defaults hold until it is looked at.
    ///
    /// Nothing else is approved: a configuration or plugins that came along, or a file swapped in
    /// meanwhile, are for a person to look at.
    fn write(&self, bytes: &[u8], existing: Existing) -> Result<(), UpdateError> {
        let path = Path::new(self.workspace.root().path()).join(POLICY_FILE);
        let failed = |source| UpdateError::Write {
            path: path.clone(),
            source,
        };
        let directory = path.parent().unwrap_or(&path);
        match std::fs::create_dir(directory) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(failed(error));
            }
            Ok(()) | Err(_) => {}
        }
        // Through the open directory, so that a symlink put in its place leads nowhere.
        let directory = self
            .workspace
            .root()
            .open_directory(".airlock")
            .map_err(|error| failed(io::Error::other(error)))?;
        let place = directory.path_of("policy.yaml");
        let place = place.ok_or_else(|| failed(io::ErrorKind::NotFound.into()))?;
        // Whoever asks meanwhile waits for the approval: it is the file that comes first.
        let _one = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
        write_with(&place, bytes, 0o644, existing).map_err(|error| {
            if error.kind() == io::ErrorKind::AlreadyExists {
                UpdateError::Exists
            } else {
                failed(error)
            }
        })?;
        TrustStore::new(&self.workspace).approve_policy(bytes)?;
        self.load_alone()
    }

    /// Loads what stands there now. What cannot be loaded is not trusted: built-in defaults hold until
    /// it can. They are part of the program, and load wherever a policy did.
    ///
    /// One at a time from the first look to the last: who failed must not put the defaults over what
    /// another has loaded since, for its stamp would keep them there.
    fn look_again(&self) {
        let _one = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
        if self.stamp.load().holds() {
            return;
        }
        if self.look_alone().is_err()
            && let Ok(defaults) = defaults(self.here())
        {
            self.current.store(Arc::new(defaults));
        }
    }

    /// Loads what stands there now, unless that is what is in force: extensions that were started,
    /// or disabled, stay so.
    fn look_alone(&self) -> Result<(), UpdateError> {
        let stamp = Stamp::of(&self.workspace);
        let in_force = self.current.load().origin() == PolicyOrigin::Workspace;
        if in_force
            && stamp.has_record_of(&self.stamp.load())
            && self.workspace.trust()?.settings_hold()
        {
            self.stamp.store(Arc::new(stamp));
            return Ok(());
        }
        self.load_alone()
    }

    fn reload(&self) -> Result<(), UpdateError> {
        // One at a time, or an older policy could replace a newer one.
        let _one = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
        self.load_alone()
    }

    /// The same for whoever keeps others from it.
    fn load_alone(&self) -> Result<(), UpdateError> {
        let stamp = Stamp::of(&self.workspace);
        let next = load(self.here()).map_err(|error| self.not_loaded(error))?;
        self.current.store(Arc::new(next));
        self.stamp.store(Arc::new(stamp));
        Ok(())
    }

    fn not_loaded(&self, error: StartError) -> UpdateError {
        match error {
            StartError::Policy { error, .. } => UpdateError::Load(Box::new(error)),
            StartError::Trust(error) => UpdateError::Trust(error),
            other @ (StartError::Workspace(_)
            | StartError::Audit(_)
            | StartError::Broken(_)
            | StartError::Unrecorded(_)
            | StartError::Identity(_)
            | StartError::Protected(_)
            | StartError::Manifest(_)) => UpdateError::Write {
                path: self.workspace.state().path().to_owned(),
                source: io::Error::other(other.to_string()),
            },
        }
    }

    fn back_up(&self, bytes: &[u8]) -> Result<String, UpdateError> {
        let directory = self.workspace.state().backups();
        let failed = |source| UpdateError::Write {
            path: directory.clone(),
            source,
        };
        let mut numbers = backup_numbers(&directory).map_err(failed)?;
        numbers.sort_unstable();
        let next = numbers.last().map_or(1, |last| last.saturating_add(1));
        let name = format!("policy-{next:04}.yaml");
        write_atomic(&directory.join(&name), bytes, 0o600).map_err(failed)?;
        for old in numbers
            .iter()
            .take((numbers.len() + 1).saturating_sub(BACKUPS))
        {
            // A backup that stays behind costs a little space and harms nobody.
            let _ = std::fs::remove_file(directory.join(format!("policy-{old:04}.yaml")));
        }
        Ok(name)
    }

    /// Held while policy or approvals change, across processes.
    fn lock(&self) -> Result<File, UpdateError> {
        self.lock_by(FlockOperation::LockExclusive)
    }

    fn lock_by(&self, operation: FlockOperation) -> Result<File, UpdateError> {
        let path = self.workspace.state().lock();
        let failed = |source| UpdateError::Write {
            path: path.clone(),
            source,
        };
        let file = File::create(&path).map_err(failed)?;
        flock(&file, operation).map_err(|error| failed(error.into()))?;
        Ok(file)
    }
}

fn load(here: Here<'_>) -> Result<PolicyInForce, StartError> {
    let trust = here.workspace.trust().map_err(StartError::Trust)?;
    let (bytes, name, origin) = match trust.policy() {
        Some(bytes) => (bytes, POLICY_FILE, PolicyOrigin::Workspace),
        None if trust.is_empty() || trust.holds() => (
            airlock_policy::DEFAULT_POLICY.as_bytes(),
            "default",
            PolicyOrigin::Default,
        ),
        None => (
            airlock_policy::DEFAULT_POLICY.as_bytes(),
            "default",
            PolicyOrigin::Untrusted,
        ),
    };
    let loaded = Policy::load(name, bytes).map_err(|error| StartError::Policy {
        error,
        source_text: String::from_utf8_lossy(bytes).into_owned(),
    })?;
    let mut current = PolicyInForce::new(loaded.policy, origin, bytes, &trust.approved(), here)?;
    current.definitions = trust.definitions().to_vec();
    current.plugin_files = trust.plugin_files();
    if origin != PolicyOrigin::Workspace {
        let unknown = trust.had_policy().then_some(KeptLog::EVERYTHING);
        let approved = trust.kept_log().or(unknown);
        current.log = approved.map_or(current.log, |approved| current.log.and(approved));
    }
    Ok(current)
}

/// The built-in policy, where the workspace's own cannot be told to be trusted.
fn defaults(here: Here<'_>) -> Result<PolicyInForce, StartError> {
    let bytes = airlock_policy::DEFAULT_POLICY.as_bytes();
    let loaded = Policy::load("default", bytes).map_err(|error| StartError::Policy {
        error,
        source_text: airlock_policy::DEFAULT_POLICY.to_owned(),
    })?;
    let nothing = Approved::new();
    let origin = PolicyOrigin::Untrusted;
    let mut current = PolicyInForce::new(loaded.policy, origin, bytes, &nothing, here)?;
    current.log = KeptLog::EVERYTHING;
    Ok(current)
}

fn backup_numbers(directory: &Path) -> io::Result<Vec<u32>> {
    let mut numbers = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let name = entry?.file_name();
        let number: Option<u32> = name.to_str().and_then(|name| {
            name.strip_prefix("policy-")?
                .strip_suffix(".yaml")?
                .parse()
                .ok()
        });
        numbers.extend(number);
    }
    Ok(numbers)
}
