//! The calls a worker runs, and what they say.

use super::ticker::Ticker;
use super::{Context, Guest, Order, Outside, Program, Setup};
use airlock_plugin_wasm::message::{Fault, FromWorker, Level, Outcome, message, write};
use serde::Serialize;
use std::collections::HashMap;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The one way to the host, for all threads: a frame is written whole.
pub(super) struct Voice(Mutex<Box<dyn Write + Send>>);

impl Voice {
    pub(super) fn new(output: impl Write + Send + 'static) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Box::new(output))))
    }

    pub(super) fn say(&self, what: &impl Serialize) -> io::Result<()> {
        self.send(&message(what)?)
    }

    pub(super) fn send(&self, frame: &[u8]) -> io::Result<()> {
        let mut output = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        write(&mut *output, frame)
    }
}

/// Calls by their ids.
#[derive(Default)]
pub(super) struct Calls(Mutex<HashMap<u32, Arc<Call>>>);

impl Calls {
    fn calls(&self) -> MutexGuard<'_, HashMap<u32, Arc<Call>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a call before it runs, so that it can be cancelled while it waits for a thread.
    pub(super) fn begin(&self, id: u32, voice: Arc<Voice>) {
        let call = Call {
            id,
            voice,
            state: Mutex::default(),
            changed: Condvar::new(),
        };
        self.calls().insert(id, Arc::new(call));
    }

    fn find(&self, id: u32) -> Option<Arc<Call>> {
        self.calls().get(&id).cloned()
    }

    pub(super) fn reply(&self, id: u32, envelope: String) {
        // A call that has ended meanwhile has no use for it.
        if let Some(call) = self.find(id) {
            call.state().reply = Some(envelope);
            call.changed.notify_all();
        }
    }

    pub(super) fn cancel(&self, id: u32) {
        if let Some(call) = self.find(id) {
            call.cancel();
        }
    }

    pub(super) fn cancel_all(&self) {
        for call in self.calls().values() {
            call.cancel();
        }
    }
}

#[derive(Default)]
struct State {
    is_cancelled: bool,
    reply: Option<String>,
}

/// One call's way out.
struct Call {
    id: u32,
    voice: Arc<Voice>,
    state: Mutex<State>,
    changed: Condvar,
}

impl Call {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cancel(&self) {
        self.state().is_cancelled = true;
        self.changed.notify_all();
    }

    fn say(&self, what: &FromWorker) -> Result<(), Fault> {
        // Without a host there is nobody who wants the call to go on.
        self.voice.say(what).map_err(|_| Fault::Cancelled)
    }
}

impl Outside for Call {
    fn ask(&self, name: &str, arguments: &str, until: Instant) -> Result<String, Fault> {
        self.say(&FromWorker::Ask {
            id: self.id,
            name: name.to_owned(),
            arguments: arguments.to_owned(),
        })?;
        let mut state = self.state();
        loop {
            if let Some(reply) = state.reply.take() {
                return Ok(reply);
            }
            if state.is_cancelled {
                return Err(Fault::Cancelled);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Fault::TimedOut);
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn piece(&self, text: &str) -> Result<bool, Fault> {
        self.say(&FromWorker::Piece {
            id: self.id,
            text: text.to_owned(),
        })?;
        Ok(!self.is_cancelled())
    }

    fn log(&self, level: Level, text: &str) -> Result<(), Fault> {
        self.say(&FromWorker::Log {
            level,
            text: text.to_owned(),
        })
    }

    fn is_cancelled(&self) -> bool {
        self.state().is_cancelled
    }
}

/// Runs one call to its end and tells the host how it ended.
pub(super) fn carry_out(
    order: &Order,
    setup: &Setup,
    program: &Program,
    calls: &Calls,
    voice: &Voice,
    ticker: &Ticker,
) {
    let Some(call) = calls.find(order.id) else {
        return;
    };
    let _ticking = ticker.enter();
    // An engine that fails on one call has left nothing behind that another call would use.
    let ran = catch_unwind(AssertUnwindSafe(|| execute(order, setup, program, call)));
    let outcome = match ran {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(fault)) => Outcome::Fault(fault),
        Err(_panic) => Outcome::Fault(Fault::Protocol("the worker failed on the call".to_owned())),
    };
    calls.calls().remove(&order.id);
    let id = order.id;
    if voice.say(&FromWorker::Answer { id, outcome }).is_err() {
        // Too long to be said, or nobody there. The first is an answer, too.
        let outcome = Outcome::Fault(Fault::TooMuch);
        let _gone = voice.say(&FromWorker::Answer { id, outcome });
    }
}

fn execute(
    order: &Order,
    setup: &Setup,
    program: &Program,
    call: Arc<Call>,
) -> Result<Outcome, Fault> {
    let time = Duration::from_millis(order.deadline_millis).min(setup.bounds.deadline());
    let context = Context {
        action: order.action.clone(),
        plugin: setup.plugin.clone(),
        sandbox: setup.sandbox.clone(),
        session: order.session.clone(),
        mode: order.mode.clone(),
        configuration: setup.configuration.to_string(),
    };
    let guest = Guest::new(setup.bounds, Instant::now() + time, order.max_output, call);
    program.execute(guest, &order.tool, &order.arguments, &context)
}
