//! Runs one script: an interpreter for each evaluation, made beforehand and thrown away after.
//!
//! Nothing of one evaluation can reach the next, because nothing of its interpreter is left. What
//! the interpreter lacks - files, network, clock, randomness, code from text - is taken away by a
//! list of what stays, so that a newer engine cannot bring anything in by itself.
//!
//! Time is held by the interpreter's own polling. Some of its built-in functions poll rarely; the
//! host ends a worker that such a call keeps busy.

use crate::answer::clean;
use crate::problem::Problem;
use crate::wire::{Fault, Judged, Word};
use rquickjs::context::intrinsic;
use rquickjs::promise::PromiseState;
use rquickjs::{CatchResultExt, CaughtError, Context, Ctx, Function, Module};
use rquickjs::{Object, Persistent, Promise, Runtime, Value};
use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// What a script may use, in bytes. The sandbox around the worker has twice that.
const HEAP_BYTES: usize = 64 * 1024 * 1024;
/// The native stack a script may use, in bytes: well below what any system gives a main thread.
const STACK_BYTES: usize = 512 * 1024;

/// Everything but `Date`, `Performance` and `WeakRef`, through which time and the collector show.
type Intrinsics = (
    intrinsic::Eval,
    intrinsic::RegExpCompiler,
    intrinsic::RegExp,
    intrinsic::Json,
    intrinsic::Proxy,
    intrinsic::MapSet,
    intrinsic::TypedArrays,
    intrinsic::Promise,
);

/// Takes away what is not listed. The compiler itself must stay in the interpreter, since the
/// script is compiled by it; the ways to reach it from a script are the global `eval` and the
/// constructors of the four kinds of functions.
const PRELUDE: &str = r#"(() => {
  const keep = new Set(("Object Array String Number Boolean Symbol BigInt Math JSON RegExp Map Set " +
    "WeakMap WeakSet Proxy Reflect Iterator Error AggregateError EvalError RangeError ReferenceError " +
    "SyntaxError TypeError URIError InternalError ArrayBuffer DataView Int8Array Uint8Array " +
    "Uint8ClampedArray Int16Array Uint16Array Int32Array Uint32Array BigInt64Array BigUint64Array " +
    "Float16Array Float32Array Float64Array parseInt parseFloat isNaN isFinite decodeURI " +
    "decodeURIComponent encodeURI encodeURIComponent globalThis undefined NaN Infinity").split(" "));
  for (const name of Reflect.ownKeys(globalThis))
    if (!keep.has(name)) delete globalThis[name];
  delete Math.random;
  for (const kind of [function () {}, function* () {}, async function () {}, async function* () {}])
    Object.defineProperty(Object.getPrototypeOf(kind), "constructor",
      { value: undefined, writable: false, configurable: false });
})()"#;

/// When the evaluation under way has to end.
struct Watch {
    deadline: Cell<Instant>,
    fired: Cell<bool>,
}

impl Watch {
    fn arm(&self, limit: Duration) {
        let now = Instant::now();
        self.deadline.set(now.checked_add(limit).unwrap_or(now));
        self.fired.set(false);
    }

    /// Whether time is up. Once it is, it stays so.
    fn expired(&self) -> bool {
        if Instant::now() >= self.deadline.get() {
            self.fired.set(true);
        }
        self.fired.get()
    }
}

/// An interpreter with the script loaded, good for one evaluation.
struct Prepared {
    // INVARIANT: before `context`, or the interpreter would go first and abort.
    function: Persistent<Function<'static>>,
    context: Context,
    watch: Rc<Watch>,
}

/// A script, and the interpreter for its next evaluation.
pub(crate) struct Engine {
    file: String,
    source: String,
    limit: Duration,
    next: Result<Prepared, Fault>,
}

impl Engine {
    /// `source`, plain JavaScript, of `file`. Nothing of it is run yet.
    pub(crate) fn new(file: &str, source: String, limit: Duration) -> Self {
        Self {
            file: file.to_owned(),
            source,
            limit,
            next: Err(Fault::Timeout),
        }
    }

    /// Makes the interpreter of the next evaluation, so that it does not have to wait for it.
    ///
    /// INVARIANT: called by `serve` alone. How deep a script may recurse counts from here, and must
    /// not differ between evaluations.
    #[inline(never)]
    pub(crate) fn prepare(&mut self) {
        self.next = self.load();
    }

    /// Whether preparing took too long, which a busy machine can be to blame for.
    pub(crate) fn is_late(&self) -> bool {
        matches!(self.next, Err(Fault::Timeout))
    }

    /// Why the script cannot be used, after it was prepared for the first time.
    pub(crate) fn problem(&self) -> Option<Problem> {
        self.next.as_ref().err().map(|fault| self.explain(fault))
    }

    /// Judges a request, given as JSON, and uses the interpreter up.
    #[inline(never)]
    pub(crate) fn judge(&mut self, request: &[u8]) -> Judged {
        let prepared = std::mem::replace(&mut self.next, Err(Fault::Timeout));
        let judged = prepared.and_then(|prepared| prepared.judge(request, self.limit));
        match judged {
            Ok((decision, reason)) => Judged::Answer { decision, reason },
            Err(fault) => Judged::Failed(fault),
        }
    }

    fn load(&self) -> Result<Prepared, Fault> {
        let watch = Rc::new(Watch {
            deadline: Cell::new(Instant::now()),
            fired: Cell::new(false),
        });
        watch.arm(self.limit);
        let context = interpreter(&watch).map_err(|_| Fault::Memory)?;
        let function = context.with(|ctx| {
            let loaded = prelude(&ctx).and_then(|()| exported(&ctx, &self.file, &self.source));
            let loaded = timed(&watch, loaded);
            loaded.map(|function| Persistent::save(&ctx, function))
        })?;
        Ok(Prepared {
            function,
            context,
            watch,
        })
    }

    fn explain(&self, fault: &Fault) -> Problem {
        let hint = match fault {
            Fault::Timeout | Fault::Memory => {
                "do less outside the function: it is done for each request"
            }
            Fault::Exception(_) => {
                "there are no modules, clock, randomness, timers or `eval` in a policy script"
            }
            Fault::BadAnswer(_) => "write `export default function (request) { return \"pass\" }`",
        };
        let message = match fault {
            Fault::BadAnswer(what) => what.clone(),
            Fault::Timeout | Fault::Memory | Fault::Exception(_) => {
                format!("loading the script {fault}")
            }
        };
        Problem::whole(&self.file, message, hint)
    }
}

impl Prepared {
    /// Consumes the interpreter: whatever the script left in it goes with it.
    fn judge(self, request: &[u8], limit: Duration) -> Result<(Word, String), Fault> {
        let Self {
            function,
            context,
            watch,
        } = self;
        watch.arm(limit);
        context.with(|ctx| {
            let answer = asked(&ctx, function, request);
            timed(&watch, answer)
        })
    }
}

/// A late result is a timeout, whatever it says: scripts cannot catch the end of their time, but
/// an interpreter's built-in function may swallow it.
fn timed<T>(watch: &Watch, result: Result<T, Fault>) -> Result<T, Fault> {
    if watch.expired() {
        Err(Fault::Timeout)
    } else {
        result
    }
}

fn interpreter(watch: &Rc<Watch>) -> rquickjs::Result<Context> {
    let runtime = Runtime::new()?;
    runtime.set_memory_limit(HEAP_BYTES);
    runtime.set_max_stack_size(STACK_BYTES);
    let watch = Rc::clone(watch);
    runtime.set_interrupt_handler(Some(Box::new(move || watch.expired())));
    Context::custom::<Intrinsics>(&runtime)
}

fn prelude(ctx: &Ctx<'_>) -> Result<(), Fault> {
    ctx.eval::<(), _>(PRELUDE)
        .catch(ctx)
        .map_err(|error| fault(&error))
}

/// Evaluates the script as a module and takes the function it exports.
fn exported<'js>(ctx: &Ctx<'js>, file: &str, source: &str) -> Result<Function<'js>, Fault> {
    let evaluated = Module::declare(ctx.clone(), file, source)
        .and_then(Module::eval)
        .catch(ctx);
    let (module, promise) = evaluated.map_err(|error| fault(&error))?;
    finished(ctx, &promise)?;
    let namespace = module
        .namespace()
        .catch(ctx)
        .map_err(|error| fault(&error))?;
    for name in ["default", "evaluate"] {
        let value: Value<'js> = namespace
            .get(name)
            .catch(ctx)
            .map_err(|error| fault(&error))?;
        if let Some(function) = value.into_function() {
            return Ok(function);
        }
    }
    Err(Fault::BadAnswer(
        "the script exports no function as `default` or `evaluate`".to_owned(),
    ))
}

fn finished<'js>(ctx: &Ctx<'js>, promise: &Promise<'js>) -> Result<(), Fault> {
    match promise.state() {
        PromiseState::Resolved => Ok(()),
        PromiseState::Pending => Err(Fault::BadAnswer(
            "the script waits outside its function; there is nothing to wait for".to_owned(),
        )),
        PromiseState::Rejected => {
            let rejected = promise
                .result::<Value<'js>>()
                .unwrap_or(Err(rquickjs::Error::Unknown));
            rejected.catch(ctx).map(drop).map_err(|error| fault(&error))
        }
    }
}

fn asked(
    ctx: &Ctx<'_>,
    function: Persistent<Function<'static>>,
    request: &[u8],
) -> Result<(Word, String), Fault> {
    let called = function.restore(ctx).and_then(|function| {
        let request = ctx.json_parse(request)?;
        function.call::<_, Value<'_>>((request,))
    });
    let value = called.catch(ctx).map_err(|error| fault(&error))?;
    read(ctx, &value)
}

/// The answer in what the script returned. Reading properties may run the script's code; it is
/// still within its time.
fn read<'js>(ctx: &Ctx<'js>, value: &Value<'js>) -> Result<(Word, String), Fault> {
    if let Some(word) = value.as_string() {
        return Ok((word_of(&text(word)?)?, String::new()));
    }
    let bad = |what: &str| Err(Fault::BadAnswer(what.to_owned()));
    let Some(object) = value.as_object().filter(|_| is_plain(value)) else {
        return bad(&describe(value));
    };
    let decision = property(ctx, object, "decision")?;
    let Some(decision) = decision.as_string() else {
        return bad(&format!(
            "an object whose `decision` is {}",
            describe(&decision)
        ));
    };
    let word = word_of(&text(decision)?)?;
    let reason = property(ctx, object, "reason")?;
    if reason.is_undefined() || reason.is_null() {
        return Ok((word, String::new()));
    }
    match reason.as_string() {
        Some(reason) => Ok((word, clean(&text(reason)?))),
        None => bad(&format!(
            "an object whose `reason` is {}",
            describe(&reason)
        )),
    }
}

fn is_plain(value: &Value<'_>) -> bool {
    !(value.is_array() || value.is_function() || value.is_promise() || value.is_proxy())
}

fn property<'js>(ctx: &Ctx<'js>, object: &Object<'js>, name: &str) -> Result<Value<'js>, Fault> {
    object.get(name).catch(ctx).map_err(|error| fault(&error))
}

fn text(value: &rquickjs::String<'_>) -> Result<String, Fault> {
    value
        .to_string()
        .map_err(|_| Fault::BadAnswer("text that is not well-formed Unicode".to_owned()))
}

fn word_of(text: &str) -> Result<Word, Fault> {
    match text {
        "allow" => Ok(Word::Allow),
        "deny" => Ok(Word::Deny),
        "require_review" => Ok(Word::RequireReview),
        "pass" => Ok(Word::Pass),
        other => {
            let shown: String = other.chars().take(40).collect();
            Err(Fault::BadAnswer(format!(
                "the unknown decision `{}`",
                clean(&shown)
            )))
        }
    }
}

fn describe(value: &Value<'_>) -> String {
    if value.is_promise() {
        return "a promise; the function must not be `async`".to_owned();
    }
    if value.is_undefined() {
        return "nothing".to_owned();
    }
    format!("a value of type `{}`", value.type_name())
}

/// What an error of the interpreter means. Reading the message may run the script's code, which is
/// still within its time; what that code throws is dropped.
fn fault(error: &CaughtError<'_>) -> Fault {
    match error {
        CaughtError::Error(rquickjs::Error::Allocation) => Fault::Memory,
        CaughtError::Error(error) => Fault::Exception(clean(&error.to_string())),
        CaughtError::Value(value) => {
            let said = value.as_string().and_then(|text| text.to_string().ok());
            let said = said.map_or_else(|| describe(value), |said| format!("`{said}`"));
            Fault::Exception(clean(&said))
        }
        CaughtError::Exception(exception) => {
            let message = exception.message().unwrap_or_default();
            let name: Option<String> = exception.as_object().get("name").ok();
            let name = name.unwrap_or_else(|| "Error".to_owned());
            if name == "InternalError" && message == "out of memory" {
                return Fault::Memory;
            }
            let stack = exception.stack().unwrap_or_default();
            let place = stack.lines().next().unwrap_or_default().trim();
            Fault::Exception(clean(&format!("{name}: {message} {place}")))
        }
    }
}
