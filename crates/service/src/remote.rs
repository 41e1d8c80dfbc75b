//! A running kernel, seen from a command.

use crate::caller::SANDBOX_FRONT;
use crate::lock::running;
use crate::methods::{
    CallParams, CallResult, ElicitedParams, ExecParams, Person, Size, SteerParams,
};
use crate::renewal::Renewal;
use crate::service::Settings;
use crate::workflows::{RunAsk, RunResult};
use airlock_core::{Digest, WorkspaceId};
use airlock_kernel::{Call, Cancel, Front, Outcome, Steering};
use airlock_policy::approval::{ApprovalId, Gate};
use airlock_sandbox::launch::TerminalSize;
use airlock_wire::{Canceller, Client, ClientError, Hello, code};
use serde_json::{Value, json};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How long a kernel may take to say hello before it counts as none.
const PATIENCE: Duration = Duration::from_secs(2);

/// A connection to a running kernel.
#[derive(Debug)]
pub struct Remote {
    client: Client,
}

/// A kernel that was said hello to, and has not said yet what it is.
#[derive(Debug)]
pub struct Hailed(airlock_wire::Hailed);

impl Hailed {
    /// The kernel, if it answers, serves `workspace` and was opened with `settings`. One whose directory
    /// was replaced since serves what is there no more.
    pub fn found(self, workspace: &WorkspaceId, settings: &Settings) -> Option<Remote> {
        let remote = self.greeted()?;
        let about = remote.client.greeting().get("about")?;
        // It holds the directory it began with, and what it starts goes by the path.
        let same = about.get("workspace") == Some(&json!(workspace))
            && about.get("in_place") == Some(&json!(true));
        (same && remote.was_opened_with(settings)).then_some(remote)
    }

    fn greeted(self) -> Option<Remote> {
        let client = self.0.greeted().ok()?;
        Some(Remote { client })
    }
}

/// The streams of a command the person typed: the kernel's ends.
#[derive(Debug, Clone, Copy)]
pub struct Ends<'a> {
    /// What it reads, if anything.
    pub stdin: Option<BorrowedFd<'a>>,
    /// A pipe that takes its standard output.
    pub stdout: BorrowedFd<'a>,
    /// A pipe that takes its standard error.
    pub stderr: BorrowedFd<'a>,
    /// The size of its terminal, if it gets one.
    pub terminal: Option<TerminalSize>,
}

impl Remote {
    /// The kernel that runs for the workspace whose state is in `state`, if one answers, speaks this
    /// version, serves `workspace` and was opened with `settings`. One whose directory was replaced since
    /// serves what is there no more.
    pub fn find(
        state: &Path,
        workspace: &WorkspaceId,
        front: Front,
        settings: &Settings,
    ) -> Option<Self> {
        Self::hail(state, front)?.found(workspace, settings)
    }

    /// Says hello to the kernel that runs for the workspace whose state is in `state`, if one does.
    pub fn hail(state: &Path, front: Front) -> Option<Hailed> {
        let notice = running(state)?;
        let hello = Hello::new(front.as_str(), env!("CARGO_PKG_VERSION"));
        let hailed = Client::hail(&notice.socket, &hello, PATIENCE).ok()?;
        Some(Hailed(hailed))
    }

    /// Whether it was.
    pub fn was_opened_with(&self, settings: &Settings) -> bool {
        let told = self.client.greeting().pointer("/about/settings");
        told.is_some() && told == serde_json::to_value(settings).ok().as_ref()
    }

    /// The same whatever it serves, and however: to ask how it is, and to end it.
    pub fn any(state: &Path, front: Front) -> Option<Self> {
        Self::hail(state, front)?.greeted()
    }

    /// The kernel that runs the sandbox this process is in, by the socket that it put there.
    pub fn inside(socket: &Path) -> Result<Self, ClientError> {
        let hello = Hello::new(SANDBOX_FRONT.as_str(), env!("CARGO_PKG_VERSION"));
        let client = Client::connect_inside(socket, &hello, PATIENCE)?;
        Ok(Self { client })
    }

    /// What it says of itself.
    pub fn status(&mut self) -> Result<Value, ClientError> {
        self.client.call("status", Value::Null)
    }

    /// Has it write what it has kept back of the log, so that others see it.
    pub fn flush(&mut self) -> Result<(), ClientError> {
        self.client.call("log.flush", Value::Null).map(drop)
    }

    /// The workspace's root.
    pub fn root(&self) -> Option<&str> {
        self.client.greeting().get("about")?.get("root")?.as_str()
    }

    /// Ends it. Gives back what the road said, where that does not let it.
    pub fn stop(&mut self) -> Result<Option<Outcome>, ClientError> {
        let refused = match self.client.call("kernel.stop", Value::Null) {
            Ok(_) => return Ok(None),
            Err(ClientError::Answer(error)) => error,
            Err(error) => return Err(error),
        };
        let told = refused.details.get("outcome").cloned();
        let told = told.and_then(|told| serde_json::from_value(told).ok());
        told.map_or_else(|| Err(ClientError::Answer(refused)), |told| Ok(Some(told)))
    }

    /// Has it take up settings that have changed since it was opened.
    pub fn renew(&mut self) -> Result<Renewal, ClientError> {
        let told = match self.client.call("kernel.renew", Value::Null) {
            Err(ClientError::Answer(error)) if error.code == code::REFUSED => {
                return Ok(Renewal::Unusable(error.message));
            }
            told => told?,
        };
        serde_json::from_value(told).map_err(|error| ClientError::Nonsense(error.to_string()))
    }

    /// Takes `call` down its road.
    pub fn call(&mut self, call: &Call, person: Option<Person>) -> Result<CallResult, ClientError> {
        let params = CallParams::of(call, person);
        let value = self.client.call("call", told(&params))?;
        CallResult::heard(value, &call.arguments)
    }

    /// The same, until `cancel` takes it back.
    pub fn covered(&mut self, call: &Call, cancel: &Cancel) -> Result<CallResult, ClientError> {
        let params = CallParams::of(call, None);
        let id = self.client.send("call", told(&params), &[])?;
        let steer: Arc<dyn Steering> = Arc::new(Steer {
            canceller: self.client.canceller(),
            id,
            run: 0,
        });
        cancel.steered_by(&steer);
        let value = self.client.answer(id)?;
        CallResult::heard(value, &call.arguments)
    }

    /// Asks about a run of a workflow.
    pub fn ask_run(&mut self, asked: &RunAsk) -> Result<RunResult, ClientError> {
        let value = self.client.call(asked.method().as_str(), told(asked))?;
        serde_json::from_value(value).map_err(|error| ClientError::Nonsense(error.to_string()))
    }

    /// The tools its front may know of, each with its arguments' schema and examples. Where they do not
    /// fit into one answer, each is asked for by itself; one that does not fit even so is left out.
    pub fn tools(&mut self) -> Result<Vec<Value>, ClientError> {
        match self.client.call("tools.list", json!({ "full": true })) {
            Err(ClientError::Answer(error)) if error.code == code::ANSWER_TOO_LONG => {
                self.tools_by_name()
            }
            listed => list(listed?),
        }
    }

    fn tools_by_name(&mut self) -> Result<Vec<Value>, ClientError> {
        let listed = list(self.client.call("tools.list", Value::Null)?)?;
        let mut tools = Vec::with_capacity(listed.len());
        for tool in listed {
            let name = tool.get("name");
            match self.client.call("tools.show", json!({ "name": name })) {
                Ok(shown) => tools.push(shown),
                // It is too long, or gone by now.
                Err(ClientError::Answer(error))
                    if matches!(&*error.code, code::ANSWER_TOO_LONG | code::INVALID_PARAMS) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(tools)
    }

    /// The gates whose questions an MCP server may put to the user of its client.
    pub fn opened(&mut self) -> Result<Vec<Gate>, ClientError> {
        let opened = self.client.call("approvals.opened", Value::Null)?;
        serde_json::from_value(opened).map_err(|error| ClientError::Nonsense(error.to_string()))
    }

    /// Hands in what the user of an MCP client said to the question `approval` about the action
    /// with the digest `shown`.
    pub fn elicited(
        &mut self,
        approval: &ApprovalId,
        shown: Digest,
        approved: bool,
    ) -> Result<(), ClientError> {
        let params = ElicitedParams {
            approval: approval.clone(),
            shown,
            approved,
        };
        let answered = self.client.call("approvals.elicited", told(&params));
        answered.map(drop)
    }

    /// Runs a command the person typed, and gives what the kernel answers, to be read by
    /// [`CallResult::heard`]. `begun` is handed what steers it; `wait` returns when what it is handed can
    /// be read, and does meanwhile what else there is to do.
    pub fn exec(
        &mut self,
        arguments: &Value,
        person: Option<Person>,
        ends: Ends<'_>,
        begun: impl FnOnce(Steer),
        mut wait: impl FnMut(BorrowedFd<'_>),
    ) -> Result<Value, ClientError> {
        let run = 1;
        let params = ExecParams {
            arguments: arguments.clone(),
            stdin: ends.stdin.is_some(),
            terminal: ends.terminal.map(size),
            person,
            run,
        };
        let mut passed: Vec<BorrowedFd<'_>> = ends.stdin.iter().map(AsFd::as_fd).collect();
        passed.extend([ends.stdout, ends.stderr]);
        let id = self.client.send("exec", told(&params), &passed)?;
        begun(Steer {
            canceller: self.client.canceller(),
            id,
            run,
        });
        loop {
            wait(self.client.as_fd());
            if let Some(value) = self.client.take_in(id)? {
                return Ok(value);
            }
        }
    }
}

/// Steers a command that a running kernel runs.
#[derive(Debug, Clone)]
pub struct Steer {
    canceller: Canceller,
    id: u64,
    run: u64,
}

impl Steer {
    fn tell(&self, signal: Option<u8>, size: Option<Size>) {
        let run = self.run;
        let params = told(&SteerParams { run, signal, size });
        // If the kernel is gone so is the command.
        let _ = self.canceller.tell("exec.steer", params);
    }
}

impl Steering for Steer {
    fn cancel(&self) {
        let _ = self.canceller.cancel(self.id);
    }

    fn signal(&self, number: u8) {
        self.tell(Some(number), None);
    }

    fn resize(&self, new: TerminalSize) {
        self.tell(None, Some(size(new)));
    }
}

const fn size(size: TerminalSize) -> Size {
    Size {
        rows: size.rows,
        columns: size.columns,
    }
}

fn list(value: Value) -> Result<Vec<Value>, ClientError> {
    serde_json::from_value(value).map_err(|error| ClientError::Nonsense(error.to_string()))
}

fn told(params: &impl serde::Serialize) -> Value {
    serde_json::to_value(params).unwrap_or_default()
}
