//! Components of the world `airlock:plugin/plugin`.

use super::failure::{LoadError, fault};
use super::guest::Guest;
use super::{Context, Runtime};
use crate::message::{Declined, Fault, Level, Outcome, Replied, plain};
use airlock_plugin::ToolDescription;
use wasmtime::component::{
    Component, ComponentExportIndex, ComponentType, InstancePre, Lift, Linker, Lower,
};
use wasmtime::{Engine, Result, Store, StoreContextMut};

const HOST: &str = "airlock:plugin/host@1.0.0";
/// Types alone: there is nothing to be had through it.
const TYPES: &str = "airlock:plugin/types@1.0.0";
const DESCRIBE: &str = "describe";
const EXECUTE: &str = "execute";

#[derive(ComponentType, Lift)]
#[component(record)]
struct Tool {
    name: String,
    summary: String,
    schema: String,
    #[component(name = "read-only")]
    read_only: bool,
}

#[derive(ComponentType, Lower)]
#[component(record)]
struct Given<'a> {
    action: &'a str,
    plugin: &'a str,
    sandbox: Option<&'a str>,
    session: Option<&'a str>,
    mode: Option<&'a str>,
    configuration: &'a str,
}

#[derive(ComponentType, Lower)]
#[component(record)]
struct Failure {
    code: String,
    message: String,
    retryable: bool,
}

#[derive(Clone, Copy, ComponentType, Lift)]
#[component(enum)]
#[repr(u8)]
#[expect(dead_code, reason = "only lifting makes one")]
enum Severity {
    #[component(name = "debug")]
    Debug,
    #[component(name = "info")]
    Info,
    #[component(name = "warn")]
    Warn,
    #[component(name = "error")]
    Error,
}

impl From<Severity> for Level {
    fn from(severity: Severity) -> Self {
        match severity {
            Severity::Debug => Self::Debug,
            Severity::Info => Self::Info,
            Severity::Warn => Self::Warn,
            Severity::Error => Self::Error,
        }
    }
}

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
        for (name, _) in component.component_type().imports(engine) {
            if name != HOST && name != TYPES {
                return Err(LoadError::Import(plain(name)));
            }
        }
        let export = |name| {
            component
                .get_export_index(None, name)
                .ok_or(LoadError::Export(name))
        };
        let (describe, execute) = (export(DESCRIBE)?, export(EXECUTE)?);
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
        let (mut store, instance) = self.enter(runtime, guest)?;
        let described: Result<(Vec<Tool>,)> = instance
            .get_typed_func::<(), (Vec<Tool>,)>(&mut store, &self.describe)
            .and_then(|function| function.call(&mut store, ()));
        let (tools,) = described.map_err(|error| fault(&error))?;
        tools.into_iter().map(description).collect()
    }

    pub(super) fn execute(
        &self,
        runtime: &Runtime,
        guest: Guest,
        tool: &str,
        arguments: &str,
        context: &Context,
    ) -> Result<Outcome, Fault> {
        let (mut store, instance) = self.enter(runtime, guest)?;
        let given = Given {
            action: &context.action,
            plugin: &context.plugin,
            sandbox: context.sandbox.as_deref(),
            session: context.session.as_deref(),
            mode: context.mode.as_deref(),
            configuration: &context.configuration,
        };
        let function = instance
            .get_typed_func::<(&str, &str, Given<'_>), (Result<String, String>,)>(
                &mut store,
                &self.execute,
            )
            .map_err(|error| fault(&error))?;
        let (said,) = function
            .call(&mut store, (tool, arguments, given))
            .map_err(|error| fault(&error))?;
        let bytes = match &said {
            Ok(text) | Err(text) => text.len(),
        };
        store.data_mut().say(bytes)?;
        Ok(match said {
            Ok(value) => Outcome::Value(value),
            Err(message) => Outcome::Failed(message),
        })
    }

    fn enter(
        &self,
        runtime: &Runtime,
        guest: Guest,
    ) -> Result<(Store<Guest>, wasmtime::component::Instance), Fault> {
        let mut store = guest.into_store(&runtime.engine)?;
        let instance = self
            .pre
            .instantiate(&mut store)
            .map_err(|error| fault(&error))?;
        Ok((store, instance))
    }
}

fn description(tool: Tool) -> Result<ToolDescription, Fault> {
    let schema = serde_json::from_str(&tool.schema).map_err(|error| {
        let name = plain(&tool.name);
        Fault::Protocol(format!("the schema of `{name}` is no JSON: {error}"))
    })?;
    Ok(ToolDescription {
        name: tool.name,
        summary: tool.summary,
        schema,
        read_only: tool.read_only,
    })
}

fn linker(engine: &Engine) -> Result<Linker<Guest>> {
    let mut linker = Linker::new(engine);
    linker.instance(TYPES)?;
    let mut host = linker.instance(HOST)?;
    host.func_wrap("call", call)?;
    host.func_wrap(
        "log",
        |mut store: StoreContextMut<'_, Guest>, (level, text): (Severity, String)| {
            Ok(store.data_mut().log(level.into(), &text)?)
        },
    )?;
    host.func_wrap(
        "emit",
        |mut store: StoreContextMut<'_, Guest>, (text,): (String,)| {
            Ok((store.data_mut().emit(&text)?,))
        },
    )?;
    host.func_wrap("cancelled", |store: StoreContextMut<'_, Guest>, (): ()| {
        Ok((store.data().is_cancelled(),))
    })?;
    Ok(linker)
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "host functions are given what they are called with"
)]
fn call(
    store: StoreContextMut<'_, Guest>,
    (name, arguments): (String, String),
) -> Result<(Result<String, Failure>,)> {
    let replied = store.data().ask_for_value(&name, &arguments)?;
    Ok((match replied {
        Replied::Ok(value) => Ok(value.to_string()),
        Replied::Error(Declined {
            code,
            message,
            retryable,
        }) => Err(Failure {
            code,
            message,
            retryable,
        }),
    },))
}
