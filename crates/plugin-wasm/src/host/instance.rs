//! One plugin that runs: its worker, and its calls.

use super::link::{Call, Link};
use super::place::{Loaded, Source};
use super::slots::{LOOK, NoSlot, Slot, Slots};
use super::spare::Workers;
use crate::limits::millis;
use crate::message::{Declined, Order, Replied, ToWorker, message};
use airlock_plugin::{
    CallError, Callback, CallbackError, Instance, Sink, ToolCall, ToolDescription,
};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

/// How much longer than a call's deadline its worker has to say that it is over.
const GRACE: Duration = Duration::from_secs(2);
/// How long a worker has to say that it is well.
const HEALTH: Duration = Duration::from_secs(5);

/// A running plugin.
pub(super) struct WasmInstance {
    workers: Arc<Workers>,
    slots: Arc<Slots>,
    callback: Arc<dyn Callback>,
}

impl WasmInstance {
    pub(super) fn new(source: Source, loaded: Loaded, callback: Arc<dyn Callback>) -> Self {
        Self {
            slots: Slots::new(source.limits.instances),
            workers: Workers::new(source, loaded),
            callback,
        }
    }

    /// Makes the syscall a guest asked for, on a thread of its own: the road may take longer than
    /// the call has. The place of the call stays taken until it is back, so there are no more such
    /// threads than places.
    fn submit(
        &self,
        asked: Asked,
        worker: &Arc<Loaded>,
        slot: &Arc<Slot>,
    ) -> Result<(), CallError> {
        // It does not keep its worker alive: nobody may want the reply by then.
        let (callback, worker) = (Arc::clone(&self.callback), Arc::downgrade(worker));
        let slot = Arc::clone(slot);
        let submitted = move || {
            let replied = asked.submit(&*callback);
            if let Some(worker) = worker.upgrade() {
                worker.link.send(reply(asked.id, &replied));
            }
            drop(slot);
        };
        thread::Builder::new()
            .name("wasm syscall".to_owned())
            .spawn(submitted)
            .map(|_detached| ())
            .map_err(|error| CallError::Protocol(format!("its syscall cannot be made: {error}")))
    }
}

fn order(id: u32, call: &ToolCall, deadline: Duration) -> Result<Vec<u8>, CallError> {
    let order = Order {
        id,
        action: call.action.clone(),
        tool: call.tool.clone(),
        arguments: call.arguments.to_string(),
        session: call.session.clone(),
        mode: call.mode.clone(),
        deadline_millis: millis(deadline),
        max_output: call.max_output,
    };
    message(&ToWorker::Call(order))
        .map_err(|error| CallError::Protocol(format!("the call cannot be sent: {error}")))
}

/// What a guest asks of the kernel.
struct Asked {
    id: u32,
    name: String,
    arguments: String,
    action: String,
}

impl Asked {
    fn submit(&self, callback: &dyn Callback) -> Replied {
        let submitted = serde_json::from_str(&self.arguments)
            .map_err(|error| CallbackError {
                code: "invalid_arguments".to_owned(),
                message: format!("the arguments are no JSON: {error}"),
                retryable: false,
            })
            .and_then(|arguments: Value| {
                callback.submit(&self.name, &arguments, Some(&self.action))
            });
        match submitted {
            Ok(value) => Replied::Ok(value),
            Err(CallbackError {
                code,
                message,
                retryable,
            }) => Replied::Error(Declined {
                code,
                message,
                retryable,
            }),
        }
    }
}

/// The frame of a reply; if it is too long, one that says so.
fn reply(id: u32, replied: &Replied) -> Vec<u8> {
    let sent = |replied: &Replied| {
        let envelope = serde_json::to_string(replied)?;
        message(&ToWorker::Reply { id, envelope })
    };
    let too_long = || {
        sent(&Replied::Error(Declined {
            code: "too_large".to_owned(),
            message: "the result is longer than a plugin can be given".to_owned(),
            retryable: false,
        }))
    };
    sent(replied).or_else(|_| too_long()).unwrap_or_default()
}

impl Instance for WasmInstance {
    fn tools(&self) -> &[ToolDescription] {
        &self.workers.tools
    }

    fn call(
        &self,
        call: &ToolCall,
        sink: &mut dyn Sink,
        cancelled: &AtomicBool,
    ) -> Result<Value, CallError> {
        let deadline = call.deadline.min(self.workers.source.limits.deadline);
        let until = Instant::now() + deadline;
        let slot = match self.slots.take(until, cancelled) {
            Ok(slot) => Arc::new(slot),
            Err(NoSlot::Late) => return Err(CallError::Limit("instances")),
            Err(NoSlot::Cancelled) => return Err(CallError::Cancelled),
        };
        let worker = self.workers.fetch(until, cancelled)?;
        let begun = Begun {
            link: &worker.link,
            call: worker.link.begin(call.max_output),
        };
        let left = until.saturating_duration_since(Instant::now());
        worker.link.send(order(begun.call.id, call, left)?);
        let mut waiting = Waiting {
            deadline,
            kill_at: until + GRACE,
            is_cancelled: false,
            begun: &begun,
        };
        loop {
            if cancelled.load(SeqCst) {
                waiting.cancel();
            }
            let heard = begun.call.fetch(LOOK);
            if !heard.text.is_empty() && !sink.piece(&heard.text) {
                waiting.cancel();
            }
            if let Some(outcome) = heard.outcome {
                return waiting.ended(outcome.read(deadline, call.max_output));
            }
            if let Some(why) = heard.ended {
                return waiting.ended(Err(CallError::Ended(why.to_owned())));
            }
            if let Some((name, arguments)) = heard.ask {
                let asked = Asked {
                    id: begun.call.id,
                    name,
                    arguments,
                    action: call.action.clone(),
                };
                self.submit(asked, &worker, &slot)?;
            }
            if Instant::now() >= waiting.kill_at {
                return waiting.give_up();
            }
        }
    }

    fn health(&self) -> Result<(), CallError> {
        let until = Instant::now() + HEALTH;
        let worker = self.workers.fetch(until, &AtomicBool::new(false))?;
        let ping = message(&ToWorker::Ping);
        worker
            .link
            .send(ping.map_err(|error| CallError::Protocol(error.to_string()))?);
        match (worker.link.word(HEALTH), worker.link.ended()) {
            (Some(_pong), _) => Ok(()),
            (None, Some(why)) => Err(CallError::Ended(why.to_owned())),
            (None, None) => Err(CallError::TimedOut(HEALTH)),
        }
    }

    fn has_ended(&self) -> bool {
        self.workers.has_ended()
    }

    fn report(&self) -> Value {
        let worker = self.workers.now();
        let limits = &self.workers.source.limits;
        json!({
            "tier": "wasm",
            "form": worker.form,
            "code": if worker.was_cached { "cached" } else { "compiled" },
            "engine": worker.engine,
            "limits": {
                "fuel": limits.fuel,
                "deadline_ms": millis(limits.deadline),
                "memory": limits.memory,
                "tables": limits.tables,
                "stack": limits.stack,
                "instances": limits.instances,
            },
            "sandbox": worker.link.report,
            "log": worker.log.to_value(),
        })
    }

    fn stop(&self, grace: Duration) {
        self.workers.close();
        // Somebody who waits less may end it meanwhile.
        let is_over = || self.workers.now().link.ended().is_some();
        self.slots.wait_for_all(grace, is_over);
        self.workers.kill();
    }
}

impl Drop for WasmInstance {
    fn drop(&mut self) {
        // At once, also where a syscall's thread is just about to send a reply.
        self.workers.kill();
    }
}

/// A call the worker knows of, until it is forgotten.
struct Begun<'a> {
    link: &'a Link,
    call: Arc<Call>,
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        self.link.forget(&self.call);
    }
}

/// How long a caller still waits, and for what.
struct Waiting<'a> {
    deadline: Duration,
    kill_at: Instant,
    is_cancelled: bool,
    begun: &'a Begun<'a>,
}

impl Waiting<'_> {
    /// Tells the worker once, which then has a little time to say that the call is over.
    fn cancel(&mut self) {
        if self.is_cancelled {
            return;
        }
        self.is_cancelled = true;
        self.kill_at = self.kill_at.min(Instant::now() + GRACE);
        let id = self.begun.call.id;
        if let Ok(cancel) = message(&ToWorker::Cancel { id }) {
            self.begun.link.send(cancel);
        }
    }

    fn ended(&self, result: Result<Value, CallError>) -> Result<Value, CallError> {
        if self.is_cancelled {
            return Err(CallError::Cancelled);
        }
        result
    }

    /// A worker that does not even say that a call is over is not one to go on with.
    fn give_up(&self) -> Result<Value, CallError> {
        self.begun.link.kill("its worker did not answer in time");
        self.ended(Err(CallError::TimedOut(self.deadline)))
    }
}
