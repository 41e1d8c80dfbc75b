//! What runs in sandboxes, on the wire: each command's sandbox has a socket of its own.
//!
//! Guarantee: whoever comes through it is that sandbox and nobody else, whatever they say; what they
//! call takes the road as part of the command that runs there, and every connection ends with it.
//! Non-guarantee: processes of one sandbox are not told apart but by their number in the log.

use crate::answers::{self, covering};
use crate::caller::SANDBOX_FRONT;
use crate::methods::{CallParams, ListParams, Method, ShowParams, TokenText, params, some};
use airlock_core::Peer;
use airlock_kernel::{Call, Inside, Reception, Visitors};
use airlock_wire::{
    Answer, CancelToken, Event, Handler, Hello, Incoming, SandboxVisits, Server, ServerConfig,
    Visitor, WireError, code,
};
use serde_json::{Value, json};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, OnceLock};
use tokio::runtime::{Builder, Runtime};

/// Calls of all sandboxes that are waited for at once: each waits on a thread.
const THREADS: usize = 96;

/// Serves the sockets of sandboxes, on threads of its own that are made when somebody first comes.
#[derive(Default)]
pub struct SandboxReception {
    runtime: OnceLock<Option<Runtime>>,
}

impl SandboxReception {
    /// One that has nothing to do yet.
    pub fn new() -> Self {
        Self::default()
    }

    fn runtime(&self) -> Option<&Runtime> {
        let make = || {
            Builder::new_multi_thread()
                .worker_threads(1)
                .max_blocking_threads(THREADS)
                .thread_name("airlock-inside")
                .enable_all()
                .build()
                .ok()
        };
        self.runtime.get_or_init(make).as_ref()
    }
}

impl Drop for SandboxReception {
    fn drop(&mut self) {
        if let Some(Some(runtime)) = self.runtime.take() {
            // Every command has ended, and with it whatever was under way.
            runtime.shutdown_background();
        }
    }
}

impl Reception for SandboxReception {
    fn open(&self, inside: Inside) -> Box<dyn Visitors> {
        let Some(runtime) = self.runtime() else {
            return Box::new(Nobody);
        };
        // Who the processes of a sandbox are on this machine.
        let user = airlock_sandbox::stage_owner().uid;
        let sandbox = inside.sandbox().clone();
        let config = ServerConfig::new(env!("CARGO_PKG_VERSION"));
        let server = Server::new(Arc::new(Desk { inside }), config);
        Box::new(Served(server.visits(
            &sandbox,
            user,
            runtime.handle().clone(),
        )))
    }
}

struct Served(SandboxVisits<Desk>);

impl Visitors for Served {
    fn admit(&self, stream: UnixStream) {
        // One that cannot be waited for is closed.
        let _admitted = self.0.admit(stream);
    }
}

/// There are no threads to speak with anybody: connections are closed.
struct Nobody;

impl Visitors for Nobody {
    fn admit(&self, stream: UnixStream) {
        drop(stream);
    }
}

/// Answers whoever is in one sandbox.
struct Desk {
    inside: Inside,
}

fn refused(told: &str) -> WireError {
    WireError::new(code::REFUSED, told)
}

fn ended() -> WireError {
    WireError::new(code::CANCELLED, "the command this belongs to has ended")
}

impl Desk {
    fn call(
        &self,
        peer: Peer,
        asked: CallParams,
        cancel: &CancelToken,
    ) -> Result<Answer, WireError> {
        if asked.session.is_some() || asked.person.is_some() || asked.within.is_some() {
            let told = "a command's calls belong to the session that runs it, and to no other";
            return Err(refused(told));
        }
        let mut call = Call::new(asked.name, asked.arguments);
        call.unattended = asked.unattended;
        call.token = asked.token.as_ref().map(TokenText::presented);
        let told = self
            .inside
            .submit(peer, call, &covering(cancel), answers::result);
        told.ok_or_else(ended)?
    }
}

impl Handler for Desk {
    type Identity = Peer;

    fn greet(&self, visitor: &Visitor, hello: &Hello) -> Result<(Peer, Value), WireError> {
        if hello.name != SANDBOX_FRONT.as_str() {
            let told = format!("a sandbox acts as `{SANDBOX_FRONT}` and as nobody else");
            return Err(refused(&told));
        }
        let about = json!({
            "sandbox": self.inside.sandbox(),
            "workspace": self.inside.workspace(),
            "root": self.inside.root(),
        });
        Ok((visitor.peer, about))
    }

    fn call(
        &self,
        peer: &Peer,
        request: Incoming,
        cancel: &CancelToken,
    ) -> Result<Answer, WireError> {
        let Incoming {
            method,
            params: given,
            ..
        } = request;
        let front = self.inside.front();
        match Method::named(&method)? {
            Method::ToolsList => {
                let ListParams { full } = some(given)?;
                let told = self
                    .inside
                    .look(move |kernel| answers::list(kernel, front, full));
                told.ok_or_else(ended).map(Answer::Value)
            }
            Method::ToolsShow => {
                let ShowParams { name } = params(given)?;
                let told = self
                    .inside
                    .look(move |kernel| answers::show(kernel, front, &name));
                told.ok_or_else(ended)?.map(Answer::Value)
            }
            Method::Call => Desk::call(self, *peer, params(given)?, cancel),
            Method::Status
            | Method::Exec
            | Method::ExecSteer
            | Method::ApprovalsOpened
            | Method::ApprovalsElicited
            | Method::WorkflowsRun
            | Method::WorkflowsResume
            | Method::WorkflowsCancel
            | Method::LogFlush
            | Method::KernelStop
            | Method::KernelRenew => {
                let told = "from inside a sandbox tools can be listed and called, and nothing else";
                Err(refused(told))
            }
        }
    }

    fn subscribe(&self, _: &Peer, _: Option<u64>) -> Result<u64, WireError> {
        Err(refused("what runs in a sandbox does not follow the log"))
    }

    fn events(&self, _: &Peer, _: u64, _: usize) -> Result<Vec<Event>, WireError> {
        Ok(Vec::new())
    }
}
