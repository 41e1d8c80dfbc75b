//! Components of the world `airlock:plugin/plugin`.

use super::failure::{LoadError, fault};
use super::guest::Guest;
use super::{Context, Runtime, shape};
use airlock_plugin::ToolDescription;
use airlock_plugin_wasm::message::{Declined, Fault, Level, Outcome, Replied, plain};
use wasmtime::component::types::ComponentItem;
use wasmtime::component::{Component, ComponentExportIndex, Func, InstancePre, Linker, Val};
use wasmtime::{Engine, Result, Store, StoreContextMut};

const HOST: &str = "airlock:plugin/host@1.0.0";
/// Types alone: there is nothing to be had through it.
const TYPES: &str = "airlock:plugin/types@1.0.0";
const DESCRIBE: &str = "describe";
const EXECUTE: &str = "execute";

/// A linked component.
pub(super) struct Program {
    component: Component,
    pre: InstancePre<Guest>,
    describe: ComponentExportIndex,
    execute: ComponentExportIndex,
}

impl Program {
    pub(super) fn compile(engine: &Engine, bytes: &[u8]) -> Result<Self, LoadError> {
        let component =
            Component::new(engine, bytes).map_err(|error| LoadError::invalid(&error))?;
        Self::link(engine, component)
    }

    pub(super) fn link(engine: &Engine, component: Component) -> Result<Self, LoadError> {
        imports(engine, &component)?;
        let export = |name, signature: &shape::Signature| {
            let (item, index) = component.get_export(None, name)?;
            let fits =
                matches!(&item, ComponentItem::ComponentFunc(function) if signature.fits(function));
            fits.then_some(index)
        };
        let describe = export(DESCRIBE, &shape::DESCRIBE).ok_or(LoadError::Export(DESCRIBE))?;
        let execute = export(EXECUTE, &shape::EXECUTE).ok_or(LoadError::Export(EXECUTE))?;
        let linker = linker(engine).map_err(|error| LoadError::link(&error))?;
        let pre = linker
            .instantiate_pre(&component)
            .map_err(|error| LoadError::link(&error))?;
        Ok(Self {
            component,
            pre,
            describe,
            execute,
        })
    }

    pub(super) fn code(&self) -> Option<Vec<u8>> {
        self.component.serialize().ok()
    }

    pub(super) fn describe(
        &self,
        runtime: &Runtime,
        guest: Guest,
    ) -> Result<Vec<ToolDescription>, Fault> {
        let (mut store, function) = self.enter(runtime, guest, &self.describe)?;
        let mut described = [Val::Bool(false)];
        function
            .call(&mut store, &[], &mut described)
            .map_err(|error| fault(&error))?;
        match described {
            [Val::List(tools)] => tools.into_iter().map(description).collect(),
            _ => Err(strange()),
        }
    }

    pub(super) fn execute(
        &self,
        runtime: &Runtime,
        guest: Guest,
        tool: &str,
        arguments: &str,
        context: &Context,
    ) -> Result<Outcome, Fault> {
        let (mut store, function) = self.enter(runtime, guest, &self.execute)?;
        let given = [text(tool), text(arguments), given(context)];
        let mut said = [Val::Bool(false)];
        function
            .call(&mut store, &given, &mut said)
            .map_err(|error| fault(&error))?;
        let [Val::Result(said)] = said else {
            return Err(strange());
        };
        let (told, failed) = match said {
            Ok(Some(value)) => (string(*value)?, false),
            Err(Some(message)) => (string(*message)?, true),
            Ok(None) | Err(None) => return Err(strange()),
        };
        store.data_mut().say(told.len())?;
        Ok(if failed {
            Outcome::Failed(told)
        } else {
            Outcome::Value(told)
        })
    }

    fn enter(
        &self,
        runtime: &Runtime,
        guest: Guest,
        function: &ComponentExportIndex,
    ) -> Result<(Store<Guest>, Func), Fault> {
        let mut store = guest.into_store(&runtime.engine)?;
        let instance = self
            .pre
            .instantiate(&mut store)
            .map_err(|error| fault(&error))?;
        let function = instance.get_func(&mut store, function);
        Ok((store, function.ok_or_else(strange)?))
    }
}

/// What the types were checked for cannot come.
fn strange() -> Fault {
    Fault::Protocol("a value is not of the type that it was declared with".to_owned())
}

fn text(text: &str) -> Val {
    Val::String(text.to_owned())
}

fn string(value: Val) -> Result<String, Fault> {
    if let Val::String(text) = value {
        Ok(text)
    } else {
        Err(strange())
    }
}

fn record<const N: usize>(fields: [(&str, Val); N]) -> Val {
    let fields = fields.map(|(name, value)| (name.to_owned(), value));
    Val::Record(fields.into())
}

fn given(context: &Context) -> Val {
    let option = |value: &Option<String>| Val::Option(value.as_deref().map(text).map(Box::new));
    record([
        ("action", text(&context.action)),
        ("plugin", text(&context.plugin)),
        ("sandbox", option(&context.sandbox)),
        ("session", option(&context.session)),
        ("mode", option(&context.mode)),
        ("configuration", text(&context.configuration)),
    ])
}

fn description(tool: Val) -> Result<ToolDescription, Fault> {
    let Val::Record(fields) = tool else {
        return Err(strange());
    };
    let mut fields = fields.into_iter().map(|(_, value)| value);
    let mut next = || fields.next().ok_or_else(strange);
    let (name, summary, schema) = (string(next()?)?, string(next()?)?, string(next()?)?);
    let Val::Bool(read_only) = next()? else {
        return Err(strange());
    };
    let schema = serde_json::from_str(&schema).map_err(|error| {
        let name = plain(&name);
        Fault::Protocol(format!("the schema of `{name}` is no JSON: {error}"))
    })?;
    Ok(ToolDescription {
        name,
        summary,
        schema,
        read_only,
    })
}

/// Refuses what imports anything that is not there, or with another type than it has.
fn imports(engine: &Engine, component: &Component) -> Result<(), LoadError> {
    for (name, import) in component.component_type().imports(engine) {
        let of_host = match name {
            HOST => true,
            TYPES => false,
            _ => return Err(LoadError::Import(plain(name))),
        };
        let ComponentItem::ComponentInstance(instance) = import.ty else {
            return Err(LoadError::ImportType(plain(name)));
        };
        for (function, item) in instance.exports(engine) {
            let named = || format!("{name}#{}", plain(function));
            let ComponentItem::ComponentFunc(item) = item.ty else {
                // A type: what is made of it is seen where it is used.
                continue;
            };
            let known = shape::HOST.iter().find(|(known, _)| *known == function);
            match known.filter(|_| of_host) {
                Some((_, signature)) if signature.fits(&item) => {}
                Some(_) => return Err(LoadError::ImportType(named())),
                None => return Err(LoadError::Import(named())),
            }
        }
    }
    Ok(())
}

fn linker(engine: &Engine) -> Result<Linker<Guest>> {
    let mut linker = Linker::new(engine);
    linker.instance(TYPES)?;
    let mut host = linker.instance(HOST)?;
    host.func_new("call", |store, _, given, told| {
        let [Val::String(name), Val::String(arguments)] = given else {
            return Err(strange().into());
        };
        let answer = call(&store, name, arguments)?;
        tell(told, answer)
    })?;
    host.func_new("log", |mut store, _, given, _| {
        let [Val::Enum(level), Val::String(text)] = given else {
            return Err(strange().into());
        };
        let level = match level.as_str() {
            "debug" => Level::Debug,
            "info" => Level::Info,
            "warn" => Level::Warn,
            "error" => Level::Error,
            _ => return Err(strange().into()),
        };
        Ok(store.data_mut().log(level, text)?)
    })?;
    host.func_new("emit", |mut store, _, given, told| {
        let [Val::String(text)] = given else {
            return Err(strange().into());
        };
        let wanted = store.data_mut().emit(text)?;
        tell(told, Val::Bool(wanted))
    })?;
    host.func_new("cancelled", |store, _, _, told| {
        tell(told, Val::Bool(store.data().is_cancelled()))
    })?;
    Ok(linker)
}

fn tell(told: &mut [Val], value: Val) -> Result<()> {
    let [place] = told else {
        return Err(strange().into());
    };
    *place = value;
    Ok(())
}

fn call(store: &StoreContextMut<'_, Guest>, name: &str, arguments: &str) -> Result<Val> {
    let replied = store.data().ask_for_value(name, arguments)?;
    Ok(Val::Result(match replied {
        Replied::Ok(value) => Ok(Some(Box::new(Val::String(value.to_string())))),
        Replied::Error(Declined {
            code,
            message,
            retryable,
        }) => Err(Some(Box::new(record([
            ("code", Val::String(code)),
            ("message", Val::String(message)),
            ("retryable", Val::Bool(retryable)),
        ])))),
    }))
}
