//! What one call has: its limits, its meters, and its way out.

use airlock_plugin_wasm::Bounds;
use airlock_plugin_wasm::message::{Fault, Level, Limit, Replied};
use std::sync::Arc;
use std::time::Instant;
use wasmtime::{ResourceLimiter, Result, Store, UpdateDeadline};

/// Bytes of log one call may write; what is more is dropped.
const LOG_BYTES: usize = 64 * 1024;
/// Longest line of it.
const LINE_BYTES: usize = 4 * 1024;
/// Longest name of a syscall.
pub(super) const NAME_BYTES: usize = 256;
/// Longest arguments of one. Escaped they still fit a message.
pub(super) const ARGUMENT_BYTES: usize = 1024 * 1024;

/// The way out of a guest.
pub(crate) trait Outside: Send + Sync {
    /// Makes a syscall and waits for its result, but no longer than until `until`. The result is an
    /// envelope in JSON.
    fn ask(&self, name: &str, arguments: &str, until: Instant) -> Result<String, Fault>;
    /// Passes on output. False: nobody wants more.
    fn piece(&self, text: &str) -> Result<bool, Fault>;
    /// Passes on a line of the log.
    fn log(&self, level: Level, text: &str) -> Result<(), Fault>;
    /// Whether nobody wants the result any more.
    fn is_cancelled(&self) -> bool;
}

/// One call's data in its store.
pub(crate) struct Guest {
    bounds: Bounds,
    until: Instant,
    outside: Arc<dyn Outside>,
    /// Bytes of all memories together.
    memory: u64,
    output: usize,
    log: usize,
    /// What the last syscall gave, until the guest takes it.
    pub(super) reply: String,
}

impl Guest {
    /// A call that may take until `until` and say `output` bytes.
    pub(crate) fn new(
        bounds: Bounds,
        until: Instant,
        output: usize,
        outside: Arc<dyn Outside>,
    ) -> Self {
        Self {
            bounds,
            until,
            outside,
            memory: 0,
            output,
            log: LOG_BYTES,
            reply: String::new(),
        }
    }

    /// An empty store with everything that is limited.
    pub(super) fn into_store(self, engine: &wasmtime::Engine) -> Result<Store<Self>, Fault> {
        let fuel = self.bounds.fuel;
        let mut store = Store::new(engine, self);
        store.limiter(|guest| guest);
        store
            .set_fuel(fuel)
            .map_err(|error| super::failure::fault(&error))?;
        store.set_epoch_deadline(1);
        store.epoch_deadline_callback(|context| {
            context.data().may_go_on()?;
            Ok(UpdateDeadline::Continue(1))
        });
        Ok(store)
    }

    fn may_go_on(&self) -> Result<(), Fault> {
        if self.outside.is_cancelled() {
            return Err(Fault::Cancelled);
        }
        if Instant::now() >= self.until {
            return Err(Fault::TimedOut);
        }
        Ok(())
    }

    /// Counts `bytes` of output.
    pub(super) fn say(&mut self, bytes: usize) -> Result<(), Fault> {
        self.output = self.output.checked_sub(bytes).ok_or(Fault::TooMuch)?;
        Ok(())
    }

    pub(super) fn emit(&mut self, text: &str) -> Result<bool, Fault> {
        self.say(text.len())?;
        self.may_go_on()?;
        if text.is_empty() {
            return Ok(!self.outside.is_cancelled());
        }
        self.outside.piece(text)
    }

    pub(super) fn log(&mut self, level: Level, text: &str) -> Result<(), Fault> {
        self.may_go_on()?;
        let Some(left) = self.log.checked_sub(text.len().min(LINE_BYTES) + 1) else {
            return Ok(());
        };
        self.log = left;
        let end = text.floor_char_boundary(LINE_BYTES);
        let line = text.get(..end).unwrap_or_default();
        self.outside.log(level, line)
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.outside.is_cancelled()
    }

    /// Makes a syscall. The envelope is JSON that the host made.
    pub(super) fn ask(&self, name: &str, arguments: &str) -> Result<String, Fault> {
        for (what, bytes, most) in [
            ("name", name.len(), NAME_BYTES),
            ("arguments", arguments.len(), ARGUMENT_BYTES),
        ] {
            if bytes > most {
                return Err(Fault::Protocol(format!(
                    "the {what} of a syscall are {bytes} bytes; {most} is the most"
                )));
            }
        }
        self.may_go_on()?;
        self.outside.ask(name, arguments, self.until)
    }

    /// Makes a syscall, and reads what came.
    pub(super) fn ask_for_value(&self, name: &str, arguments: &str) -> Result<Replied, Fault> {
        let envelope = self.ask(name, arguments)?;
        serde_json::from_str(&envelope)
            .map_err(|_| Fault::Protocol("the host answered no envelope".to_owned()))
    }
}

impl ResourceLimiter for Guest {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> Result<bool> {
        let more = desired.saturating_sub(current) as u64;
        let memory = self.memory.saturating_add(more);
        if memory > self.bounds.memory {
            return Err(Fault::Limit(Limit::Memory).into());
        }
        self.memory = memory;
        Ok(true)
    }

    fn table_growing(
        &mut self,
        _current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> Result<bool> {
        if desired > self.bounds.tables as usize {
            return Err(Fault::Limit(Limit::Tables).into());
        }
        Ok(true)
    }
}
