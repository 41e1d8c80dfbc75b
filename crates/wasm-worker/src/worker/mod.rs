//! The worker: confines itself, takes one plugin, and runs its calls until its input ends.
//!
//! Guarantee: no byte of a plugin is read before `confine` succeeded. Everything after that needs
//! memory, threads, the clock and the two open descriptors, and nothing else of the system.
//!
//! One thread reads, one keeps time, and each call that runs has one.

mod calls;
mod ticker;
mod warm;

pub use warm::Warm;

use crate::engine::{Context, FromHost, Guest, LoadError, Outside, Program, Runtime};
use airlock_plugin::ToolDescription;
use airlock_plugin_wasm::message::{
    Fault, FromWorker, Kind, Level, Order, Setup, ToWorker, VERSION, frame, read_frame,
};
use calls::{Calls, Voice};
use std::io::{self, Read, Write};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;
use ticker::Ticker;

/// Native stack of a call's thread beside the guest's: host functions and the engine itself.
const HOST_STACK: usize = 2 * 1024 * 1024;

/// Why a worker ended early.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The host cannot be heard or told.
    #[error("the worker lost its host")]
    Pipe(#[from] io::Error),
    /// What the host sent makes no sense where it stands.
    #[error("the host said something else than was due")]
    Unexpected,
    /// The worker could not confine itself. Nothing was run.
    #[error("the worker cannot confine itself")]
    Confine(#[source] io::Error),
}

/// Serves one plugin over `input` and `output`.
///
/// `confine` is called once, after the settings arrived and before anything of a plugin does; it
/// must restrict the whole process. If it fails nothing is run.
pub fn serve(
    mut input: impl Read,
    output: impl Write + Send + 'static,
    confine: impl FnOnce() -> io::Result<()>,
) -> Result<(), ServeError> {
    let voice = Voice::new(output);
    let Some(first) = hear(&mut input)? else {
        return Ok(());
    };
    let ToWorker::Setup(setup) = first else {
        return Err(ServeError::Unexpected);
    };
    if let Err(error) = confine() {
        voice.say(&FromWorker::Unconfined(error.to_string()))?;
        return Err(ServeError::Confine(error));
    }
    let runtime = match Runtime::new(&setup.bounds) {
        Ok(runtime) => runtime,
        Err(error) => return Ok(voice.say(&FromWorker::Refused(error.to_string()))?),
    };
    let engine = runtime.fingerprint().to_string();
    let version = VERSION.to_owned();
    voice.say(&FromWorker::Hello { engine, version })?;
    let ticker = Ticker::new(runtime.clone())?;
    let Some(program) = load(&mut input, &voice, &setup, &runtime, &ticker)? else {
        return Ok(());
    };
    run(&mut input, &voice, &setup, &ticker, &program)
}

/// Reads a message. None where the host closed its end.
fn hear(input: &mut impl Read) -> Result<Option<ToWorker>, ServeError> {
    match read_frame(input)? {
        None => Ok(None),
        Some((Kind::Message, body)) => serde_json::from_slice(&body)
            .map(Some)
            .map_err(|_| ServeError::Unexpected),
        Some((Kind::Module | Kind::Code, _)) => Err(ServeError::Unexpected),
    }
}

/// Takes the plugin and tells the host what it is. None if it cannot be used, or nobody wants it.
fn load(
    input: &mut impl Read,
    voice: &Arc<Voice>,
    setup: &Setup,
    runtime: &Runtime,
    ticker: &Ticker,
) -> Result<Option<Program>, ServeError> {
    loop {
        let Some((kind, body)) = read_frame(input)? else {
            return Ok(None);
        };
        let (made, is_new) = match kind {
            Kind::Message => return Err(ServeError::Unexpected),
            Kind::Module => (runtime.compile(&body).map(Some), true),
            Kind::Code => (runtime.take(&FromHost::new(body)), false),
        };
        let program = match made {
            Ok(Some(program)) => program,
            Ok(None) => {
                voice.say(&FromWorker::Stale)?;
                continue;
            }
            Err(error) => {
                voice.say(&FromWorker::Refused(error.to_string()))?;
                return Ok(None);
            }
        };
        let tools = match describe(&program, setup, ticker) {
            Ok(tools) => tools,
            Err(error) => {
                voice.say(&FromWorker::Refused(error.to_string()))?;
                return Ok(None);
            }
        };
        if is_new
            && setup.wants_code
            && let Some(code) = program.code()
        {
            voice.send(&frame(Kind::Code, &code)?)?;
        }
        let form = program.form();
        voice.say(&FromWorker::Ready { form, tools })?;
        return Ok(Some(program));
    }
}

/// Asks the plugin for its tools, within the limits of a call. It cannot reach anything meanwhile.
fn describe(
    program: &Program,
    setup: &Setup,
    ticker: &Ticker,
) -> Result<Vec<ToolDescription>, LoadError> {
    struct Nothing;
    impl Outside for Nothing {
        fn ask(&self, _: &str, _: &str, _: Instant) -> Result<String, Fault> {
            let what = "it makes a syscall while it describes itself";
            Err(Fault::Protocol(what.to_owned()))
        }
        fn piece(&self, _: &str) -> Result<bool, Fault> {
            Ok(true)
        }
        fn log(&self, _: Level, _: &str) -> Result<(), Fault> {
            Ok(())
        }
        fn is_cancelled(&self) -> bool {
            false
        }
    }
    let until = Instant::now() + setup.bounds.deadline();
    let guest = Guest::new(setup.bounds, until, 0, Arc::new(Nothing));
    let _ticking = ticker.enter();
    // On a thread like those of calls: this one's stack may be smaller than what a guest may use.
    let described = thread::scope(|scope| {
        call_thread(setup)
            .spawn_scoped(scope, || program.describe(guest))
            .map(thread::ScopedJoinHandle::join)
    });
    match described {
        Ok(Ok(described)) => Ok(described?),
        Ok(Err(_panic)) => Err(Fault::Protocol("the worker failed on it".to_owned()).into()),
        Err(error) => Err(Fault::Protocol(error.to_string()).into()),
    }
}

fn call_thread(setup: &Setup) -> thread::Builder {
    let guest = usize::try_from(setup.bounds.stack).unwrap_or(usize::MAX / 2);
    thread::Builder::new()
        .name("call".to_owned())
        .stack_size(guest.saturating_add(HOST_STACK))
}

/// Runs calls until the host closes its end.
fn run(
    input: &mut impl Read,
    voice: &Arc<Voice>,
    setup: &Setup,
    ticker: &Ticker,
    program: &Program,
) -> Result<(), ServeError> {
    let calls = Calls::default();
    let (orders, waiting) = channel();
    let waiting = Mutex::new(waiting);
    thread::scope(|scope| {
        for _ in 0..setup.bounds.instances {
            let caller = || {
                while let Some(order) = next(&waiting) {
                    calls::carry_out(&order, setup, program, &calls, voice, ticker);
                }
            };
            call_thread(setup).spawn_scoped(scope, caller)?;
        }
        let ended = listen(input, voice, &calls, ticker, |order| {
            let _taken = orders.send(order);
        });
        // Nobody is there to be answered.
        drop(orders);
        calls.cancel_all();
        ended
    })
}

fn next(waiting: &Mutex<Receiver<Order>>) -> Option<Order> {
    let waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
    waiting.recv().ok()
}

fn listen(
    input: &mut impl Read,
    voice: &Arc<Voice>,
    calls: &Calls,
    ticker: &Ticker,
    order: impl Fn(Order),
) -> Result<(), ServeError> {
    while let Some(heard) = hear(input)? {
        match heard {
            ToWorker::Setup(_) => return Err(ServeError::Unexpected),
            ToWorker::Call(call) => {
                calls.begin(call.id, Arc::clone(voice));
                order(call);
            }
            ToWorker::Reply { id, envelope } => calls.reply(id, envelope),
            ToWorker::Cancel { id } => {
                calls.cancel(id);
                ticker.tick();
            }
            ToWorker::Ping => voice.say(&FromWorker::Pong)?,
        }
    }
    Ok(())
}
