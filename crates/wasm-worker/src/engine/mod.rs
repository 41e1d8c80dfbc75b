//! The engine: compiles a plugin, and runs each of its calls in an instance of its own.
//!
//! Guarantees: what a guest imports is what is defined here, or it is not loaded. Whatever a guest
//! does ends in a value or a [`Fault`], within its fuel, time, memory, tables and stack. Nothing is
//! carried from one call to the next: memories and tables are those of a fresh instance.
//!
//! Instances come from a pool that is reserved at the start, so making one maps nothing. Traps of
//! compiled code are signals, which the engine takes; the filter of workers lets it. Images of
//! memories are copied instead of mapped, since mapping them needs a call that the filter refuses.

mod component;
mod failure;
mod guest;
mod module;
mod shape;
mod trusted;

pub(crate) use failure::LoadError;
pub(crate) use guest::{Guest, Outside};
pub(crate) use trusted::FromHost;

use airlock_core::{Digest, Hashing};
use airlock_plugin::ToolDescription;
use airlock_plugin_wasm::Bounds;
use airlock_plugin_wasm::message::{CODE_BYTES, Fault, Form, Outcome, TOOLS};
use std::hash::{Hash as _, Hasher};
use wasmtime::{Config, Engine, InstanceAllocationStrategy, PoolingAllocationConfig, Strategy};

/// What a call is given besides its arguments.
#[derive(Debug, Clone)]
pub(crate) struct Context {
    pub(crate) action: String,
    pub(crate) plugin: String,
    pub(crate) sandbox: Option<String>,
    pub(crate) session: Option<String>,
    pub(crate) mode: Option<String>,
    /// JSON.
    pub(crate) configuration: String,
}

/// Most core instances, memories and tables of one component, adapters included.
const PARTS: u32 = 16;
const MEMORIES: u32 = 4;
/// Most tables of one module.
const TABLES: u32 = 4;
/// The beginning of each memory that is wiped by hand after a call rather than given back to the
/// system: pages that a call touches anyway.
const KEPT_MEMORY: usize = 64 * 1024;
const KEPT_TABLE: usize = 4 * 1024;

/// An engine for one plugin.
#[derive(Clone)]
pub(crate) struct Runtime {
    engine: Engine,
}

impl Runtime {
    pub(crate) fn new(bounds: &Bounds) -> Result<Self, LoadError> {
        let engine = Engine::new(&config(bounds)).map_err(|error| LoadError::engine(&error))?;
        Ok(Self { engine })
    }

    /// A digest of everything that compiled code depends on: the engine's version, its settings,
    /// and the processor's features.
    pub(crate) fn fingerprint(&self) -> Digest {
        let mut hasher = Fingerprint(Hashing::new());
        self.engine
            .precompile_compatibility_hash()
            .hash(&mut hasher);
        hasher.0.finish()
    }

    /// Lets every running guest be asked whether it may go on.
    pub(crate) fn tick(&self) {
        self.engine.increment_epoch();
    }

    /// Compiles a module or a component.
    pub(crate) fn compile(&self, bytes: &[u8]) -> Result<Program, LoadError> {
        let program = match form_of(bytes) {
            Some(Form::Component) => {
                Inside::Component(component::Program::compile(&self.engine, bytes)?)
            }
            Some(Form::Module) => Inside::Module(module::Program::compile(&self.engine, bytes)?),
            None => return Err(LoadError::NotWasm),
        };
        Ok(self.program(program))
    }

    /// Takes code that [`Program::code`] gave. None if it is not for this engine.
    pub(crate) fn take(&self, code: &FromHost) -> Result<Option<Program>, LoadError> {
        let Some(trusted) = code.take(&self.engine) else {
            return Ok(None);
        };
        let program = match trusted {
            trusted::Code::Module(module) => {
                Inside::Module(module::Program::link(&self.engine, module)?)
            }
            trusted::Code::Component(component) => {
                Inside::Component(component::Program::link(&self.engine, component)?)
            }
        };
        Ok(Some(self.program(program)))
    }

    fn program(&self, inside: Inside) -> Program {
        Program {
            runtime: self.clone(),
            inside,
        }
    }
}

/// A plugin that can be called.
pub(crate) struct Program {
    runtime: Runtime,
    inside: Inside,
}

enum Inside {
    Module(module::Program),
    Component(component::Program),
}

impl Program {
    pub(crate) const fn form(&self) -> Form {
        match self.inside {
            Inside::Module(_) => Form::Module,
            Inside::Component(_) => Form::Component,
        }
    }

    /// Its code, to be kept, unless there is too much of it.
    pub(crate) fn code(&self) -> Option<Vec<u8>> {
        let code = match &self.inside {
            Inside::Module(module) => module.code(),
            Inside::Component(component) => component.code(),
        };
        code.filter(|code| code.len() <= CODE_BYTES)
    }

    /// The tools it says it has.
    pub(crate) fn describe(&self, guest: Guest) -> Result<Vec<ToolDescription>, Fault> {
        let tools = match &self.inside {
            Inside::Module(module) => module.describe(&self.runtime, guest),
            Inside::Component(component) => component.describe(&self.runtime, guest),
        }?;
        if tools.len() > TOOLS {
            let count = tools.len();
            return Err(Fault::Protocol(format!(
                "it describes {count} tools; {TOOLS} is the most"
            )));
        }
        Ok(tools)
    }

    /// Runs one tool. `arguments` is JSON.
    pub(crate) fn execute(
        &self,
        guest: Guest,
        tool: &str,
        arguments: &str,
        context: &Context,
    ) -> Result<Outcome, Fault> {
        match &self.inside {
            Inside::Module(module) => {
                module.execute(&self.runtime, guest, tool, arguments, context)
            }
            Inside::Component(component) => {
                component.execute(&self.runtime, guest, tool, arguments, context)
            }
        }
    }
}

/// What the first bytes say the rest is.
fn form_of(bytes: &[u8]) -> Option<Form> {
    match bytes.get(..8)? {
        b"\0asm\x01\0\0\0" => Some(Form::Module),
        b"\0asm\x0d\0\x01\0" => Some(Form::Component),
        _ => None,
    }
}

fn config(bounds: &Bounds) -> Config {
    let mut config = Config::new();
    config
        .strategy(Strategy::Cranelift)
        .consume_fuel(true)
        .epoch_interruption(true)
        .max_wasm_stack(whole(bounds.stack))
        .memory_init_cow(false)
        // A guest cannot be debugged here, and its names are nobody's business.
        .wasm_backtrace_max_frames(None)
        .generate_address_map(false)
        .native_unwind_info(false)
        .wasm_memory64(false)
        .wasm_multi_memory(false)
        .wasm_relaxed_simd(false)
        .allocation_strategy(InstanceAllocationStrategy::Pooling(pool(bounds)));
    config
}

fn pool(bounds: &Bounds) -> PoolingAllocationConfig {
    let calls = bounds.instances;
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(calls)
        .total_core_instances(calls * PARTS)
        .total_memories(calls * MEMORIES)
        .total_tables(calls * PARTS)
        .max_core_instances_per_component(PARTS)
        .max_memories_per_component(MEMORIES)
        .max_tables_per_component(PARTS)
        .max_memories_per_module(1)
        .max_tables_per_module(TABLES)
        .max_memory_size(whole(bounds.memory))
        .table_elements(bounds.tables as usize)
        .linear_memory_keep_resident(KEPT_MEMORY)
        .table_keep_resident(KEPT_TABLE);
    pool
}

fn whole(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Takes what would be hashed for a table into a digest that outlives the process.
struct Fingerprint(Hashing);

impl Hasher for Fingerprint {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        0
    }
}
