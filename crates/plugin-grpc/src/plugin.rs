//! One running plugin.

use crate::execute::{self, Bounds, Stop};
use crate::fault;
use crate::output::Output;
use crate::ready::{Ready, check};
use crate::rpc::Rpc;
use crate::settings::Settings;
use airlock_plugin::boxed::Running;
use airlock_plugin::{CallError, Instance, Sink, ToolCall, ToolDescription};
use airlock_plugin_protocol::messages::airlock::{
    HealthRequest, Identity, Model, ShutdownRequest, plugin_lifecycle,
};
use airlock_plugin_protocol::messages::goplugin::{Empty, grpc_controller};
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tonic::{Code, Status};

/// Time in which a process that is told to end says so, where its connection is lost already.
const PATIENCE: Duration = Duration::from_secs(1);

/// A running plugin of this host. Dropped, it is ended.
pub struct GrpcPlugin {
    pub(crate) runtime: Arc<Engine>,
    pub(crate) running: Running,
    pub(crate) ready: Ready,
    pub(crate) output: Output,
    pub(crate) settings: Settings,
    /// Its connection is gone, or it was stopped: there is nothing more to be had of it.
    pub(crate) lost: AtomicBool,
}

/// The runtime all plugins of a host share.
pub(crate) struct Engine(Option<Runtime>);

impl Engine {
    pub(crate) fn new(runtime: Runtime) -> Self {
        Self(Some(runtime))
    }

    /// Waits for `work`. None if the runtime is gone, which only its drop can do.
    pub(crate) fn wait<F: Future>(&self, work: F) -> Option<F::Output> {
        self.0.as_ref().map(|runtime| runtime.block_on(work))
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // Without waiting: a callback may be under way that waits for whoever drops this.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl GrpcPlugin {
    /// What it printed last, on standard output and, where it streams that, on standard error.
    pub fn output(&self) -> String {
        let printed = self.output.text();
        let said = self.running.said();
        if printed.is_empty() {
            said
        } else {
            format!("{printed}{said}")
        }
    }

    /// Who a channel is on its other side.
    pub fn identity(&self) -> Option<&Identity> {
        self.ready.identity.as_ref()
    }

    /// The models of a provider.
    pub fn models(&self) -> &[Model] {
        &self.ready.models
    }

    /// Where it serves what it is for.
    pub(crate) fn serving(&self) -> &Rpc {
        &self.ready.serving
    }

    /// Runs `work` and says what its failure means.
    pub(crate) fn run<T>(
        &self,
        bounds: &Bounds<'_>,
        work: impl Future<Output = Result<T, Stop>>,
    ) -> Result<T, CallError> {
        if self.has_ended() {
            return Err(self.ended("it is gone"));
        }
        let ended = || Err(CallError::Ended("its host is gone".to_owned()));
        let done = self.runtime.wait(bounds.within(work));
        match done {
            None => ended(),
            Some(Ok(value)) => Ok(value),
            Some(Err(Stop::Rpc(status))) if fault::is_lost(&status) => {
                Err(self.broken(&status, bounds))
            }
            Some(Err(stop)) => Err(execute::settle(stop, bounds, self.settings.message_bytes)),
        }
    }

    /// What it means that a call was broken off: only the call, or the whole connection?
    fn broken(&self, status: &Status, bounds: &Bounds<'_>) -> CallError {
        let late = execute::settle(
            Stop::Rpc(status.clone()),
            bounds,
            self.settings.message_bytes,
        );
        if matches!(late, CallError::TimedOut(_)) {
            return late;
        }
        let well = self.runtime.wait(async {
            let question = tokio::time::timeout(PATIENCE, check(&self.ready.first));
            question.await.is_ok_and(|well| well.is_ok())
        });
        if well == Some(true) {
            return CallError::Protocol("it broke off the call".to_owned());
        }
        self.lost.store(true, Ordering::SeqCst);
        self.running.wait(PATIENCE);
        self.ended("the connection is lost")
    }

    /// How it ended, as an error.
    fn ended(&self, otherwise: &str) -> CallError {
        let Some(end) = self.running.end() else {
            return CallError::Ended(otherwise.to_owned());
        };
        end.limit()
            .map_or_else(|| CallError::Ended(end.to_string()), CallError::Limit)
    }

    /// Asks it to end, in Airlock's words and in go-plugin's.
    async fn ask_to_end(&self, grace: Duration) {
        let millis = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
        let rpc = &self.ready.first;
        let request = ShutdownRequest { grace_ms: millis };
        // A plugin that does not answer is ended all the same.
        let _told = rpc.ask(plugin_lifecycle::SHUTDOWN, request).await;
        let _told = rpc.ask(grpc_controller::SHUTDOWN, Empty {}).await;
    }
}

impl Instance for GrpcPlugin {
    fn tools(&self) -> &[ToolDescription] {
        &self.ready.tools
    }

    fn call(
        &self,
        call: &ToolCall,
        sink: &mut dyn Sink,
        cancelled: &AtomicBool,
    ) -> Result<Value, CallError> {
        let bounds = Bounds::new(call.deadline, cancelled);
        self.run(&bounds, execute::tool(self.serving(), call, sink, &bounds))
    }

    fn health(&self) -> Result<(), CallError> {
        let never = AtomicBool::new(false);
        let bounds = Bounds::new(self.settings.health, &never);
        self.run(&bounds, async {
            check(&self.ready.first).await?;
            let request = bounds.request(HealthRequest {});
            let health = match self
                .ready
                .first
                .ask(plugin_lifecycle::HEALTH, request)
                .await
            {
                Ok(health) => health,
                // It serves go-plugin's question only.
                Err(status) if status.code() == Code::Unimplemented => return Ok(()),
                Err(status) => return Err(status.into()),
            };
            if health.well {
                Ok(())
            } else {
                let reason = crate::output::shown(&health.reason);
                Err(CallError::Tool(format!("it says that it is not well: {reason}")).into())
            }
        })
    }

    fn has_ended(&self) -> bool {
        self.lost.load(Ordering::SeqCst) || self.running.has_ended()
    }

    fn report(&self) -> Value {
        self.running.report().clone()
    }

    fn output(&self) -> String {
        self.output()
    }

    fn stop(&self, grace: Duration) {
        let begun = Instant::now();
        if !self.lost.swap(true, Ordering::SeqCst) && !self.running.has_ended() {
            let asked = async { tokio::time::timeout(grace, self.ask_to_end(grace)).await };
            let _answered = self.runtime.wait(asked);
            self.running.wait(grace.saturating_sub(begun.elapsed()));
        }
        self.running.kill();
    }
}
