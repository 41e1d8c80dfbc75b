//! A kernel behind the wire: each method, and who may use it.

use crate::answers::{self, covering};
use crate::caller::Identity;
use crate::events::Following;
use crate::exec::Runs;
use crate::methods::{
    CallParams, ElicitedParams, ListParams, Method, Person, ShowParams, TokenText, none, params,
    some,
};
use crate::renewal::{Afresh, Renewal, UnderWay};
use crate::running::Stopper;
use crate::workflows::RunAsk;
use airlock_audit::AppendError;
use airlock_core::Digest;
use airlock_kernel::{Call, Front, Kernel, Machine, Outcome, PluginAsk, PluginRoad, Whence};
use airlock_plugin::CallbackError;
use airlock_policy::approval::{Channel, Gate, may_answer};
use airlock_wire::{
    Answer, CancelToken, Event, Handler, Hello, Incoming, Visitor, WireError, code,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use tokio::sync::Notify;

/// What a kernel was opened with that shows in results: a command that would open one otherwise
/// does not use this one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Bytes of text a result may hold.
    pub output_bytes: usize,
    /// Threads a search may use.
    pub search_threads: usize,
    /// The person's own definitions, and what is switched on and trusted with them, as one digest.
    pub definitions: Digest,
    /// The program that serves: another build may answer otherwise.
    pub program: Program,
    /// The person's models, as their configuration names them.
    pub models: Digest,
    /// Who is served, and with frames of what length.
    pub serving: Digest,
}

/// A program: not a path alone, behind which another may have been put since.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    path: PathBuf,
    /// Device, inode, seconds and nanoseconds of its last change.
    file: [i64; 4],
}

impl Program {
    /// The one that runs this.
    pub fn own() -> io::Result<Self> {
        let path = std::env::current_exe()?;
        // The file that runs, not one that has its name by now.
        let running = std::fs::metadata("/proc/self/exe");
        let facts = running.or_else(|_| std::fs::metadata(&path))?;
        Ok(Self::of(path, &facts))
    }

    /// The one at `path`, as one of that file would say of itself.
    pub fn at(path: &Path) -> io::Result<Self> {
        let path = path.canonicalize()?;
        let facts = std::fs::metadata(&path)?;
        Ok(Self::of(path, &facts))
    }

    fn of(path: PathBuf, facts: &Metadata) -> Self {
        Self {
            path,
            file: [
                facts.dev().cast_signed(),
                facts.ino().cast_signed(),
                facts.mtime(),
                facts.mtime_nsec(),
            ],
        }
    }
}

/// Serves one kernel.
pub(crate) struct Service {
    pub(crate) kernel: Kernel,
    /// Airlock's own directories, which no program may reach.
    pub(crate) own: Vec<PathBuf>,
    pub(crate) settings: Settings,
    pub(crate) runs: Runs,
    begun: Instant,
    calls: AtomicU64,
    stopper: Stopper,
    afresh: Option<Afresh>,
    under_way: UnderWay,
    renew: Notify,
}

impl Service {
    pub(crate) fn new(kernel: Kernel, own: Vec<PathBuf>, settings: Settings) -> Self {
        Self {
            kernel,
            own,
            settings,
            runs: Runs::default(),
            begun: Instant::now(),
            calls: AtomicU64::new(0),
            stopper: Stopper::default(),
            afresh: None,
            under_way: UnderWay::default(),
            renew: Notify::new(),
        }
    }

    /// The same, ended by `stopper`, and opened again when its settings change, if somebody asks for
    /// that.
    pub(crate) fn steered_by(mut self, stopper: &Stopper, afresh: Option<Afresh>) -> Self {
        self.stopper = stopper.clone();
        self.afresh = afresh;
        self
    }

    /// Waits until it is to be opened again.
    pub(crate) async fn told_to_renew(&self) {
        self.renew.notified().await;
    }

    /// Has it opened again, where that would make a difference and nothing is under way. Asking is
    /// looking; only what is done takes the road.
    fn renew(&self, identity: &Identity, front: Front) -> Result<Renewal, WireError> {
        let Some(afresh) = &self.afresh else {
            return Ok(Renewal::Current);
        };
        if self.under_way.is_closed() {
            return Ok(Renewal::Begun);
        }
        match afresh() {
            Ok(settings) if settings == self.settings => return Ok(Renewal::Current),
            Ok(_) => {}
            Err(why) => return Ok(Renewal::Unusable(why)),
        }
        if let Err(under_way) = self.under_way.close() {
            return Ok(Renewal::Busy(under_way));
        }
        let told = "the kernel may not be opened again";
        self.leave(Method::KernelRenew, identity, front, told)
            .inspect_err(|_| self.under_way.open())?;
        self.renew.notify_one();
        Ok(Renewal::Begun)
    }

    /// Whether the road lets `identity` do what `method` is called after; else `told`.
    fn leave(
        &self,
        method: Method,
        identity: &Identity,
        front: Front,
        told: &str,
    ) -> Result<(), WireError> {
        let asked = Call::new(method.as_str(), json!({}));
        let whence = identity.whence(None);
        let leave = self.kernel.submit_from(front, &whence, &asked, None);
        answers::leave(leave, told)
    }

    fn status(&self) -> Value {
        let policy = self.kernel.policy();
        let left_behind = self.kernel.left_behind();
        json!({
            "pid": std::process::id(),
            "version": env!("CARGO_PKG_VERSION"),
            "workspace": self.kernel.workspace().id(),
            "root": self.kernel.workspace().root().path(),
            "in_place": self.kernel.workspace().root().is_in_place(),
            "policy": policy.generation().digest(),
            "untrusted": answers::untrusted(&self.kernel),
            "broken": answers::broken(&self.kernel),
            "left_behind": left_behind,
            "up_ms": u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX),
            "calls": self.calls.load(Ordering::Relaxed),
        })
    }

    /// What the person's own programs may be given of theirs; nobody else has a say in it.
    pub(crate) fn machine(
        &self,
        identity: &Identity,
        person: Option<Person>,
    ) -> Result<Option<Machine>, WireError> {
        let Some(Person { home, environment }) = person else {
            return Ok(None);
        };
        if !identity.is_person() {
            let told = "only the command line has a person's environment";
            return Err(WireError::new(code::REFUSED, told));
        }
        let pair = |(name, value)| (OsString::from(name), OsString::from(value));
        Ok(Some(Machine {
            home,
            own: self.own.clone(),
            environment: environment
                .into_iter()
                .map(pair)
                .collect::<std::collections::BTreeMap<OsString, OsString>>(),
        }))
    }

    fn call(
        &self,
        identity: &Identity,
        front: Front,
        asked: CallParams,
        cancel: &CancelToken,
    ) -> Result<Answer, WireError> {
        if let Identity::Plugin { .. } = identity {
            return self.call_for_plugin(identity, &asked, cancel);
        }
        if asked.within.is_some() {
            let told = "only a plugin makes calls as part of one it serves";
            return Err(WireError::new(code::REFUSED, told));
        }
        let mut call = Call::new(asked.name, asked.arguments);
        call.session = asked.session;
        call.token = asked.token.as_ref().map(TokenText::presented);
        call.unattended = asked.unattended;
        let origin = identity.whence(self.machine(identity, asked.person)?);
        if call.name == "session.log" {
            // What whoever asks was just told is in it; where it cannot be, the call itself says so.
            let _flushed = self.kernel.log().flush();
        }
        let covering = covering(cancel);
        let outcome = covering.cover(|| self.kernel.submit_from(front, &origin, &call, None));
        // Their answer alone is about it; nobody else has a use for what was looked at for them.
        let question = outcome
            .question(&call.arguments)
            .filter(|_| identity.is_person())
            .cloned();
        self.count();
        answers::asking(&self.kernel, outcome, question)
    }

    /// A plugin acts in the session of the call it serves, unattended, and has no person.
    fn call_for_plugin(
        &self,
        identity: &Identity,
        asked: &CallParams,
        cancel: &CancelToken,
    ) -> Result<Answer, WireError> {
        if asked.session.is_some() || asked.person.is_some() {
            let told = "a plugin names the call it serves by `within`, and no session";
            return Err(WireError::new(code::REFUSED, told));
        }
        let whence = identity.whence(None);
        let token = asked.token.as_ref().map(TokenText::presented);
        let ask = PluginAsk {
            name: &asked.name,
            arguments: &asked.arguments,
            within: asked.within.as_deref(),
            token: token.as_ref(),
        };
        let submit = || self.kernel.submit_for(&whence, ask);
        let outcome = covering(cancel).cover(submit);
        let outcome = outcome.map_err(|error| WireError::new(code::REFUSED, error.message))?;
        self.result(outcome)
    }

    /// The gates whose questions policy lets an MCP client put to its user.
    fn opened(&self) -> Value {
        let rules = self.kernel.policy().answer_rules();
        let open = |gate: &&Gate| may_answer(**gate, &Channel::McpElicitation, &rules).is_ok();
        json!(Gate::ALL.iter().filter(open).collect::<Vec<_>>())
    }

    /// What the user of an MCP client said to a question.
    fn elicited(&self, answer: &ElicitedParams) -> Result<Value, WireError> {
        let ElicitedParams {
            approval,
            shown,
            approved,
        } = answer;
        let taken = self.kernel.answer_elicited(approval, *shown, *approved);
        taken.map(|_| Value::Null).map_err(|error| {
            WireError::new(code::REFUSED, error.to_string()).details(json!({ "fix": error.hint() }))
        })
    }

    /// An outcome, with what whoever asked should know besides.
    pub(crate) fn result(&self, outcome: Outcome) -> Result<Answer, WireError> {
        self.count();
        answers::result(&self.kernel, outcome)
    }

    /// One more call has come to its end.
    pub(crate) fn count(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` gives")]
fn unrecorded(error: AppendError) -> WireError {
    WireError::new(code::INTERNAL, error.to_string())
}

/// Calls that are over before another thread could take over listening.
const QUICK: &[&str] = &["fs.read", "fs.list", "fs.exists"];

/// Calls by which a person ends what runs.
const FIRST: &[&str] = &["plugin.disable", "plugin.remove"];

impl Handler for Service {
    type Identity = Client;

    fn greet(&self, visitor: &Visitor, hello: &Hello) -> Result<(Client, Value), WireError> {
        let plugin_in = |sandbox: &_| self.kernel.plugin_in(sandbox);
        let identity = Identity::of(visitor, hello, plugin_in)?;
        let about = json!({
            "pid": std::process::id(),
            "workspace": self.kernel.workspace().id(),
            "root": self.kernel.workspace().root().path(),
            "in_place": self.kernel.workspace().root().is_in_place(),
            "settings": self.settings,
        });
        let number = self.runs.next_client();
        let following = Following::default();
        let client = Client {
            identity,
            number,
            following,
        };
        Ok((client, about))
    }

    fn lasts(&self, request: &Incoming) -> bool {
        let name = request.params.get("name").and_then(Value::as_str);
        match request.method.as_str() {
            "call" => !name.is_some_and(|name| QUICK.contains(&name)),
            "exec" | "workflows.run" | "workflows.resume" => true,
            _ => false,
        }
    }

    fn comes_first(&self, client: &Client, request: &Incoming) -> bool {
        let ends = match request.method.as_str() {
            "call" => {
                let name = request.params.get("name").and_then(Value::as_str);
                name.is_some_and(|name| FIRST.contains(&name))
            }
            "status" | "log.flush" | "workflows.cancel" | "kernel.stop" | "kernel.renew" => true,
            _ => false,
        };
        ends && client.identity.is_person()
    }

    fn call(
        &self,
        client: &Client,
        request: Incoming,
        cancel: &CancelToken,
    ) -> Result<Answer, WireError> {
        let Incoming {
            method,
            params: given,
            descriptors,
        } = request;
        let (identity, method) = (&client.identity, Method::named(&method)?);
        if method == Method::Status {
            return none(&given).map(|()| self.status().into());
        }
        // What ends it, and what ends with it anyway, is in nobody's way.
        let aside = [Method::KernelRenew, Method::KernelStop, Method::LogFlush];
        let counts = !aside.contains(&method);
        let _under_way = counts.then(|| self.under_way.begin()).transpose()?;
        let front = identity.front().ok_or_else(|| {
            WireError::new(code::REFUSED, "a supervisor asks for `ping` and `status`")
        })?;
        let answer = match method {
            Method::Call => return Service::call(self, identity, front, params(given)?, cancel),
            Method::Exec => return self.exec(client, params(given)?, descriptors, cancel),
            Method::WorkflowsRun if identity.is_person() => {
                return self.ask_run(identity, &RunAsk::Begin(params(given)?), cancel);
            }
            Method::WorkflowsResume if identity.is_person() => {
                return self.ask_run(identity, &RunAsk::Resume(params(given)?), cancel);
            }
            Method::WorkflowsCancel if identity.is_person() => {
                return self.ask_run(identity, &RunAsk::Cancel(params(given)?), cancel);
            }
            Method::Status => none(&given).map(|()| self.status()),
            Method::ToolsList => {
                let ListParams { full } = some(given)?;
                Ok(answers::list(&self.kernel, front, full))
            }
            Method::ToolsShow => {
                answers::show(&self.kernel, front, &params::<ShowParams>(given)?.name)
            }
            Method::ExecSteer => self.steer(client, &params(given)?),
            Method::ApprovalsOpened => none(&given).map(|()| self.opened()),
            Method::ApprovalsElicited if identity.is_mcp_server() => self.elicited(&params(given)?),
            Method::ApprovalsElicited => {
                let told = "only an MCP server asks the user of its client";
                Err(WireError::new(code::REFUSED, told))
            }
            Method::LogFlush if identity.is_person() => {
                none(&given)?;
                self.kernel.release_idle();
                let flushed = self.kernel.log().flush().map_err(unrecorded);
                flushed.map(|()| Value::Null)
            }
            Method::KernelStop if identity.is_person() => {
                none(&given)?;
                self.leave(method, identity, front, "the kernel may not be ended")?;
                self.stopper.stop();
                Ok(Value::Null)
            }
            Method::KernelRenew if identity.is_person() => {
                none(&given)?;
                Ok(json!(self.renew(identity, front)?))
            }
            Method::KernelStop
            | Method::KernelRenew
            | Method::LogFlush
            | Method::WorkflowsRun
            | Method::WorkflowsResume
            | Method::WorkflowsCancel => {
                let told = "only the command line asks for that";
                Err(WireError::new(code::REFUSED, told))
            }
        };
        answer.map(Answer::Value)
    }

    fn answered(&self) {
        self.kernel.log().catch_up();
    }

    fn subscribe(&self, client: &Client, after: Option<u64>) -> Result<u64, WireError> {
        client
            .following
            .begin(&self.kernel, &client.identity, after)
    }

    fn events(&self, client: &Client, after: u64, most: usize) -> Result<Vec<Event>, WireError> {
        let (kernel, identity) = (&self.kernel, &client.identity);
        client.following.go_on(kernel, identity, after, most)
    }
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) identity: Identity,
    /// Tells the runs of connections apart.
    pub(crate) number: u64,
    following: Following,
}

pub(crate) type Shared = Arc<Service>;

/// In the process itself, plugins' calls take the same way.
impl PluginRoad for Service {
    fn submit_for(&self, whence: &Whence, ask: PluginAsk<'_>) -> Result<Outcome, CallbackError> {
        let _under_way = self.under_way.begin().map_err(|error| CallbackError {
            code: error.code.into_owned(),
            message: error.message,
            retryable: error.retryable,
        })?;
        self.kernel.submit_for(whence, ask)
    }
}
