//! Plain modules: memory and four functions out, five functions of `airlock` in.
//!
//! Texts are UTF-8 in the guest's memory, passed as a pointer and a length; where a function returns
//! one, both are packed into 64 bits, the pointer in the upper half.
//!
//! Guarantee: every pointer and length is checked against the memory as it is at that moment, and a
//! wild one ends the call with an error that names the function.

use super::failure::{LoadError, fault};
use super::guest::{ARGUMENT_BYTES, Guest, NAME_BYTES};
use super::{Context, Runtime};
use airlock_plugin::ToolDescription;
use airlock_plugin_wasm::message::{Fault, Level, Outcome, plain};
use serde_json::json;
use wasmtime::{
    Caller, Engine, ExternType, Instance, InstancePre, Linker, Memory, Module, Result, Store,
    TypedFunc, ValType,
};

/// The one module a guest imports from.
const AIRLOCK: &str = "airlock";
const MEMORY: &str = "memory";
const ALLOC: &str = "airlock_alloc";
const DESCRIBE: &str = "airlock_describe";
const EXECUTE: &str = "airlock_execute";
/// What some compilers want called before anything else.
const INITIALIZE: &str = "_initialize";

/// Longest description of all tools.
const DESCRIPTION_BYTES: usize = 1024 * 1024;

/// A function's type, parameters and results: `i` for 32 bits, `l` for 64.
type Signature = (&'static str, &'static str);

const EXPORTS: &[(&str, Signature)] = &[
    (ALLOC, ("i", "i")),
    (DESCRIBE, ("", "l")),
    (EXECUTE, ("ii", "l")),
];

/// The functions a guest may import.
const IMPORTS: &[(&str, Signature)] = &[
    ("call", ("iiii", "i")),
    ("take", ("ii", "i")),
    ("log", ("iii", "")),
    ("emit", ("ii", "i")),
    ("cancelled", ("", "i")),
];

/// A linked module.
pub(super) struct Program {
    module: Module,
    pre: InstancePre<Guest>,
    initializes: bool,
}

impl Program {
    pub(super) fn compile(engine: &Engine, bytes: &[u8]) -> Result<Self, LoadError> {
        let module = Module::new(engine, bytes).map_err(|error| LoadError::invalid(&error))?;
        Self::link(engine, module)
    }

    pub(super) fn link(engine: &Engine, module: Module) -> Result<Self, LoadError> {
        let linker = linker(engine).map_err(|error| LoadError::link(&error))?;
        imports_are_known(&module)?;
        exports_are_right(&module)?;
        let pre = linker
            .instantiate_pre(&module)
            .map_err(|error| LoadError::link(&error))?;
        let initializes = module
            .get_export(INITIALIZE)
            .is_some_and(|export| is_function(&export, ("", "")));
        Ok(Self {
            module,
            pre,
            initializes,
        })
    }

    pub(super) fn code(&self) -> Option<Vec<u8>> {
        self.module.serialize().ok()
    }

    pub(super) fn describe(
        &self,
        runtime: &Runtime,
        guest: Guest,
    ) -> Result<Vec<ToolDescription>, Fault> {
        let mut entered = self.enter(runtime, guest)?;
        let describe: TypedFunc<(), u64> = entered.function(DESCRIBE)?;
        let packed = describe
            .call(&mut entered.store, ())
            .map_err(|error| fault(&error))?;
        let text = entered.text(DESCRIBE, packed, DESCRIPTION_BYTES)?;
        serde_json::from_str(&text)
            .map_err(|error| Fault::Protocol(format!("its description of tools is wrong: {error}")))
    }

    pub(super) fn execute(
        &self,
        runtime: &Runtime,
        guest: Guest,
        tool: &str,
        arguments: &str,
        context: &Context,
    ) -> Result<Outcome, Fault> {
        let mut entered = self.enter(runtime, guest)?;
        let input = input(tool, arguments, context);
        let (pointer, length) = entered.put(input.as_bytes())?;
        let execute: TypedFunc<(u32, u32), u64> = entered.function(EXECUTE)?;
        let packed = execute
            .call(&mut entered.store, (pointer, length))
            .map_err(|error| fault(&error))?;
        let (_, said) = unpacked(packed);
        entered.store.data_mut().say(said)?;
        Ok(Outcome::Envelope(entered.text(EXECUTE, packed, said)?))
    }

    fn enter(&self, runtime: &Runtime, guest: Guest) -> Result<Entered, Fault> {
        let mut store = guest.into_store(&runtime.engine)?;
        let instance = self
            .pre
            .instantiate(&mut store)
            .map_err(|error| fault(&error))?;
        let memory = instance
            .get_memory(&mut store, MEMORY)
            .ok_or_else(|| Fault::Protocol("it has no memory".to_owned()))?;
        let mut entered = Entered {
            store,
            instance,
            memory,
        };
        if self.initializes {
            let initialize: TypedFunc<(), ()> = entered.function(INITIALIZE)?;
            initialize
                .call(&mut entered.store, ())
                .map_err(|error| fault(&error))?;
        }
        Ok(entered)
    }
}

/// A fresh instance.
struct Entered {
    store: Store<Guest>,
    instance: Instance,
    memory: Memory,
}

impl Entered {
    fn function<P: wasmtime::WasmParams, R: wasmtime::WasmResults>(
        &mut self,
        name: &str,
    ) -> Result<TypedFunc<P, R>, Fault> {
        let function = self.instance.get_typed_func(&mut self.store, name);
        function.map_err(|error| fault(&error))
    }

    /// Copies `bytes` into memory that the guest gives for it.
    fn put(&mut self, bytes: &[u8]) -> Result<(u32, u32), Fault> {
        let length = u32::try_from(bytes.len())
            .map_err(|_| Fault::Protocol("the arguments are too long".to_owned()))?;
        let alloc: TypedFunc<u32, u32> = self.function(ALLOC)?;
        let pointer = alloc
            .call(&mut self.store, length)
            .map_err(|error| fault(&error))?;
        self.memory
            .write(&mut self.store, pointer as usize, bytes)
            .map_err(|_| wild(ALLOC))?;
        Ok((pointer, length))
    }

    fn text(&self, function: &'static str, packed: u64, most: usize) -> Result<String, Fault> {
        let (start, length) = unpacked(packed);
        if length > most {
            return Err(Fault::TooMuch);
        }
        let bytes = part(self.memory.data(&self.store), start, length);
        utf8(function, bytes.ok_or_else(|| wild(function))?).map(ToOwned::to_owned)
    }
}

/// What a guest is given. `arguments` is JSON already, made by the host.
fn input(tool: &str, arguments: &str, context: &Context) -> String {
    let Context {
        action,
        plugin,
        sandbox,
        session,
        mode,
        configuration,
    } = context;
    let rest = json!({
        "action": action, "plugin": plugin, "sandbox": sandbox, "session": session, "mode": mode,
    });
    let rest = rest.to_string();
    let tool = json!(tool);
    // Both are JSON, and neither is copied through a parser on its way.
    let open = rest.strip_suffix('}').unwrap_or(&rest);
    format!(
        r#"{{"tool":{tool},"arguments":{arguments},"context":{open},"configuration":{configuration}}}}}"#
    )
}

fn unpacked(packed: u64) -> (usize, usize) {
    let half = |bits: u64| usize::try_from(bits & u64::from(u32::MAX)).unwrap_or(usize::MAX);
    (half(packed >> 32), half(packed))
}

fn part(memory: &[u8], start: usize, length: usize) -> Option<&[u8]> {
    memory.get(start..start.checked_add(length)?)
}

fn wild(function: &str) -> Fault {
    Fault::Protocol(format!("`{function}` names memory that is not there"))
}

fn utf8<'a>(function: &str, bytes: &'a [u8]) -> Result<&'a str, Fault> {
    std::str::from_utf8(bytes)
        .map_err(|_| Fault::Protocol(format!("`{function}` names text that is not UTF-8")))
}

fn imports_are_known(module: &Module) -> Result<(), LoadError> {
    for import in module.imports() {
        let name = || plain(&format!("{}.{}", import.module(), import.name()));
        let known = IMPORTS
            .iter()
            .find(|(known, _)| import.module() == AIRLOCK && *known == import.name());
        let (_, signature) = known.ok_or_else(|| LoadError::Import(name()))?;
        if !is_function(&import.ty(), *signature) {
            return Err(LoadError::ImportType(name()));
        }
    }
    Ok(())
}

fn exports_are_right(module: &Module) -> Result<(), LoadError> {
    if !matches!(module.get_export(MEMORY), Some(ExternType::Memory(_))) {
        return Err(LoadError::Export(MEMORY));
    }
    for (name, signature) in EXPORTS {
        let right = module
            .get_export(name)
            .is_some_and(|export| is_function(&export, *signature));
        if !right {
            return Err(LoadError::Export(name));
        }
    }
    Ok(())
}

fn is_function(found: &ExternType, (parameters, results): Signature) -> bool {
    let ExternType::Func(function) = found else {
        return false;
    };
    let letters = |types: Vec<ValType>| -> Option<String> { types.iter().map(letter).collect() };
    letters(function.params().collect()).as_deref() == Some(parameters)
        && letters(function.results().collect()).as_deref() == Some(results)
}

fn letter(found: &ValType) -> Option<char> {
    if found.is_i32() {
        Some('i')
    } else if found.is_i64() {
        Some('l')
    } else {
        None
    }
}

fn linker(engine: &Engine) -> Result<Linker<Guest>> {
    let mut linker = Linker::new(engine);
    linker.func_wrap(AIRLOCK, "call", call)?;
    linker.func_wrap(AIRLOCK, "take", take)?;
    linker.func_wrap(AIRLOCK, "log", log)?;
    linker.func_wrap(AIRLOCK, "emit", emit)?;
    linker.func_wrap(AIRLOCK, "cancelled", |caller: Caller<'_, Guest>| {
        u32::from(caller.data().is_cancelled())
    })?;
    Ok(linker)
}

/// Makes a syscall; the length of what `take` then gives.
fn call(
    mut caller: Caller<'_, Guest>,
    name: u32,
    name_length: u32,
    arguments: u32,
    arguments_length: u32,
) -> Result<u32> {
    let name = argument(&mut caller, "call", (name, name_length), NAME_BYTES)?;
    let arguments = (arguments, arguments_length);
    let arguments = argument(&mut caller, "call", arguments, ARGUMENT_BYTES)?;
    let reply = caller.data().ask(&name, &arguments)?;
    let length = u32::try_from(reply.len())?;
    caller.data_mut().reply = reply;
    Ok(length)
}

/// Copies the last reply to `pointer`, if `length` has room for it: 1, else 0.
fn take(mut caller: Caller<'_, Guest>, pointer: u32, length: u32) -> Result<u32> {
    let memory = memory(&mut caller, "take")?;
    let (data, guest) = memory.data_and_store_mut(&mut caller);
    if guest.reply.len() > length as usize {
        return Ok(0);
    }
    let reply = std::mem::take(&mut guest.reply);
    let start = pointer as usize;
    let end = start.checked_add(reply.len());
    let place = end.and_then(|end| data.get_mut(start..end));
    place
        .ok_or_else(|| wild("take"))?
        .copy_from_slice(reply.as_bytes());
    Ok(1)
}

fn log(mut caller: Caller<'_, Guest>, level: u32, pointer: u32, length: u32) -> Result<()> {
    let level = match level {
        0 => Level::Debug,
        1 => Level::Info,
        2 => Level::Warn,
        3 => Level::Error,
        other => {
            let what = format!("`log` knows the levels 0 to 3, not {other}");
            return Err(Fault::Protocol(what).into());
        }
    };
    let text = argument(&mut caller, "log", (pointer, length), usize::MAX)?;
    Ok(caller.data_mut().log(level, &text)?)
}

fn emit(mut caller: Caller<'_, Guest>, pointer: u32, length: u32) -> Result<u32> {
    let text = argument(&mut caller, "emit", (pointer, length), usize::MAX)?;
    Ok(u32::from(caller.data_mut().emit(&text)?))
}

fn argument(
    caller: &mut Caller<'_, Guest>,
    function: &'static str,
    (pointer, length): (u32, u32),
    most: usize,
) -> Result<String, Fault> {
    let memory = memory(caller, function)?;
    if length as usize > most {
        let what = format!("`{function}` is given {length} bytes; {most} is the most");
        return Err(Fault::Protocol(what));
    }
    let bytes = part(memory.data(&caller), pointer as usize, length as usize);
    utf8(function, bytes.ok_or_else(|| wild(function))?).map(ToOwned::to_owned)
}

fn memory(caller: &mut Caller<'_, Guest>, function: &str) -> Result<Memory, Fault> {
    let memory = caller.get_export(MEMORY);
    memory
        .and_then(wasmtime::Extern::into_memory)
        .ok_or_else(|| wild(function))
}
