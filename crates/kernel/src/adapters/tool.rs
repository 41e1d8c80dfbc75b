//! One adapter as a tool: its body is read when it is first needed.

use super::names::{lasting, spec};
use super::prepared::{Program, Unready};
use super::request::{Means, Request};
use crate::beneath::Root;
use crate::definitions::{AdapterEntry, DefinedBy};
use crate::fronts::Front;
use crate::policy_store::PolicyStore;
use crate::process::ExecRun;
use crate::tools::{InvalidArguments, Next, Prepared, Tool, ToolSpec};
use airlock_definitions::{Adapter, ArgumentError, How, Invocation, Sandbox, Status};
use airlock_plugin_mcp as mcp;
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Longest wait between two attempts.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// Failures after which another adapter would do no better, or nothing may be done at all.
const FINAL: &[&str] = &[
    "invalid_arguments",
    "unknown_tool",
    "identity",
    "audit_unavailable",
    "outcome_unrecorded",
    "cancelled",
    // Whoever answers must not choose by its words who is asked next.
    "flagged_output",
    "control_failed",
];

/// Failures after which nothing was run and nothing sent. After every other, something may have been
/// changed. None of these words is for a program or a host to say.
pub(super) const NOTHING_RAN: &[&str] = &[
    "busy",
    "check_failed",
    "command_not_listed",
    "limit_not_enforceable",
    "not_enforceable",
    NOT_STARTED,
    "plan_refused",
    "reads_denied",
    "stage_busy",
    "template_needs_rule",
    "template_unavailable",
    "tier_unavailable",
    "tool_unavailable",
    "unreachable",
];

/// The program could not be started.
pub(super) const NOT_STARTED: &str = "not_started";

/// An adapter's tool.
pub(super) struct AdapterTool {
    spec: &'static ToolSpec,
    entry: AdapterEntry,
    next: Option<String>,
    /// Whether it was switched on by name.
    on: bool,
    store: Arc<PolicyStore>,
    means: Means,
    body: OnceLock<Result<Arc<Adapter>, String>>,
}

impl AdapterTool {
    pub(super) fn new(
        name: &str,
        entry: &AdapterEntry,
        next: Option<String>,
        on: bool,
        (store, means): (&Arc<PolicyStore>, &Means),
    ) -> Self {
        Self {
            spec: spec(name, &entry.header),
            entry: entry.clone(),
            next,
            on,
            store: Arc::clone(store),
            means: means.clone(),
            body: OnceLock::new(),
        }
    }

    /// L2, read once.
    fn body(&self) -> Result<&Arc<Adapter>, &str> {
        let read = || {
            self.entry
                .text
                .adapter()
                .map(Arc::new)
                .map_err(|error| error.to_string())
        };
        self.body.get_or_init(read).as_ref().map_err(String::as_str)
    }

    /// Whether the file it was read from is still approved.
    fn is_approved(&self) -> bool {
        match self.entry.origin {
            DefinedBy::User => true,
            DefinedBy::Workspace => {
                let current = self.store.current();
                let mut files = current.definitions().iter();
                files.any(|(path, bytes)| {
                    *path == self.entry.file && **bytes == *self.entry.text.text().as_bytes()
                })
            }
        }
    }

    fn invalid(&self, error: ArgumentError) -> InvalidArguments {
        let _ = self;
        InvalidArguments {
            at: error.at,
            what: error.what,
            fix: error.fix,
        }
    }
}

impl Tool for AdapterTool {
    fn spec(&self) -> &'static ToolSpec {
        self.spec
    }

    fn open_to(&self, _front: Front) -> bool {
        self.is_approved()
    }

    fn says_read_only(&self) -> bool {
        let body = self.body();
        body.is_ok_and(|adapter| adapter.interface.read_only)
    }

    fn schema(&self) -> Cow<'_, Value> {
        self.body().map_or_else(
            |_| Cow::Borrowed(self.spec.schema.get()),
            |adapter| Cow::Owned(adapter.interface.input.to_json()),
        )
    }

    fn after(&self, code: &str, attempt: u32) -> Next {
        let Ok(adapter) = self.body() else {
            return Next::Stop;
        };
        if let Some(retry) = &adapter.retry
            && attempt < retry.attempts
            && retry.on.iter().any(|known| known == code)
        {
            let doubled = 1_u64 << attempt.saturating_sub(1).min(10);
            let wait = Duration::from_millis(retry.backoff.as_millis().saturating_mul(doubled));
            return Next::Again(wait.min(LONGEST_WAIT));
        }
        // What may have run and changed something is not done again in another way. A word that the
        // definition has for an end says that something ran, whatever word it is.
        let own = adapter.errors.iter().any(|case| case.code == code);
        let harmless = adapter.interface.idempotent || (!own && NOTHING_RAN.contains(&code));
        match &self.next {
            Some(next) if harmless && !FINAL.contains(&code) => Next::Instead(next.clone()),
            Some(_) | None => Next::Stop,
        }
    }

    fn prepare(&self, given: &Value, root: &Root) -> Result<Box<dyn Prepared>, InvalidArguments> {
        let tool = lasting(&self.entry.header.tool);
        let adapter = self.body().map_err(|what| InvalidArguments {
            at: String::new(),
            what: format!(
                "the adapter `{}` does not load: {what}",
                self.entry.header.id
            ),
            fix: Some(format!("mend `{}`", self.entry.file)),
        })?;
        let arguments = adapter
            .interface
            .arguments(given)
            .map_err(|error| self.invalid(error))?;
        let inner = self.made(tool, adapter, arguments, root)?;
        if adapter.summary.status == Status::Experimental && !self.on {
            let id = &adapter.header.id;
            return Ok(Box::new(Unready {
                inner,
                tool,
                why: format!("the adapter `{id}` is experimental and not switched on"),
                fix: "switch it on: `airlock config set adapters.experimental ID`",
            }));
        }
        Ok(inner)
    }
}

impl AdapterTool {
    /// The call for checked `arguments`.
    fn made(
        &self,
        tool: &'static str,
        adapter: &Arc<Adapter>,
        arguments: Map<String, Value>,
        root: &Root,
    ) -> Result<Box<dyn Prepared>, InvalidArguments> {
        match &adapter.how {
            How::Cli(cli) => {
                let made = cli
                    .invocation(&arguments)
                    .map_err(|error| self.invalid(error))?;
                let inner = ExecRun.prepare(&contract(made, &adapter.sandbox), root)?;
                Ok(Box::new(Program::new(tool, adapter, inner, None)))
            }
            How::Mcp(server) => {
                let made = Invocation {
                    command: server.command.clone(),
                    stdin: None,
                    directory: None,
                    environment: std::collections::BTreeMap::new(),
                };
                let inner = ExecRun.prepare(&contract(made, &adapter.sandbox), root)?;
                let call = mcp::Asked {
                    tool: server.tool.clone(),
                    arguments: Value::Object(arguments),
                };
                Ok(Box::new(Program::new(tool, adapter, inner, Some(call))))
            }
            How::Api(api) => {
                let call = api.call(&arguments).map_err(|error| self.invalid(error))?;
                let means = &self.means;
                Ok(Box::new(Request::new(tool, adapter, api, call, means)))
            }
        }
    }
}

/// The arguments of `exec.run` that are the same thing.
fn contract(made: Invocation, sandbox: &Sandbox) -> Value {
    let mut fields = Map::new();
    let mut put = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            fields.insert(name.to_owned(), value);
        }
    };
    put("command", Some(json!(made.command)));
    put("stdin", made.stdin.map(Value::String));
    put("directory", made.directory.map(Value::String));
    put("environment", Some(json!(made.environment)));
    put(
        "timeout",
        sandbox.timeout.map(|limit| json!(limit.to_string())),
    );
    put(
        "memory",
        sandbox.memory.map(|limit| json!(limit.to_string())),
    );
    put("cpus", sandbox.cpus.map(|limit| json!(limit)));
    put(
        "child_processes",
        sandbox.child_processes.map(|limit| json!(limit)),
    );
    Value::Object(fields)
}
