//! Wasm plugins: a fresh instance and one call in it, and the whole way to a boxed worker.

use crate::failure::Failure;
use crate::measure;
use crate::options::Options;
use crate::programs;
use crate::table::Row;
use airlock_core::{ByteSize, Digest};
use airlock_plugin::{
    Callback, CallbackError, Execution, Grants, Host as _, Instance, Kind, LifecycleSettings,
    Manifest, Protocol, Reach, SandboxAsk, Start, Tier, ToolCall, WasmLimits,
};
use airlock_plugin_wasm::WasmHost;
use airlock_wasm_worker::Warm;
use measure::Samples;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use wasmtime::{Config, Engine, InstanceAllocationStrategy, InstancePre, Linker, Module, Store};

/// The example plugin: it takes a text and gives it back in upper case.
const SHOUT: &str = include_str!("../../../examples/plugins/text-wasm/shout.wat");
const ARGUMENTS: &str = r#"{"text":"hello, world"}"#;
/// What a guest is given for these arguments, as far as it reads.
const INPUT: &str = r#"{"tool":"shout","arguments":{"text":"hello, world"},"context":{"action":"measured","plugin":"measured","sandbox":null,"session":null,"mode":null,"configuration":{}}}"#;

const WARM: f64 = 30e3;

const LIMITS: WasmLimits = WasmLimits {
    fuel: 1_000_000_000,
    deadline: Duration::from_secs(10),
    memory: ByteSize::from_bytes(16 << 20),
    tables: 10_000,
    stack: ByteSize::from_bytes(512 << 10),
    instances: 3,
};

pub(super) fn run(options: &Options) -> Result<Vec<Row>, Failure> {
    let module = wat::parse_str(SHOUT)?;
    let mut rows = vec![instance_and_call(options, &module)?];
    rows.extend(boxed(options, &module)?);
    Ok(rows)
}

fn instance_and_call(options: &Options, module: &[u8]) -> Result<Row, Failure> {
    let warm = Warm::load(module, &LIMITS)?;
    let raw = Raw::new(module)?;
    let wanted = json!("HELLO, WORLD");
    if warm.call("shout", ARGUMENTS)? != wanted || raw.call()? != r#"{"ok":"HELLO, WORLD"}"# {
        return Err(Failure::new("the two sides give different answers"));
    }
    let mut ours = || drop(black_box(warm.call("shout", ARGUMENTS)));
    let mut theirs = || drop(black_box(raw.call()));
    let mut operations: [measure::Operation<'_>; 2] = [&mut ours, &mut theirs];
    let batches = measure::batches_in_turns(options.pick(1_000, 60), &mut operations);
    let [ours, theirs] = batches.as_slice() else {
        return Err(Failure::new("two sides were timed"));
    };
    let median = |batches: &[f64]| Samples::new(batches.to_vec()).median();
    let time = median(ours);
    Ok(Row::new("Wasm: fresh instance, one call, every limit on")
        .measured(measure::time_text(time))
        .against(format!(
            "{} raw wasmtime, pooled, no limits",
            measure::time_text(median(theirs))
        ))
        .ratio(measure::median_ratio(ours, theirs))
        .wanted("under 30 us", time < WARM))
}

/// The same with the engine alone, as it is fastest: instances linked ahead, from a pool, memories
/// mapped from images, nothing counted.
struct Raw {
    engine: Engine,
    pre: InstancePre<()>,
}

impl Raw {
    fn new(module: &[u8]) -> Result<Self, Failure> {
        let mut config = Config::new();
        config.allocation_strategy(InstanceAllocationStrategy::pooling());
        let failed = |error: wasmtime::Error| Failure::new(error.to_string());
        let engine = Engine::new(&config).map_err(failed)?;
        let module = Module::new(&engine, module).map_err(failed)?;
        let pre = Linker::new(&engine)
            .instantiate_pre(&module)
            .map_err(failed)?;
        Ok(Self { engine, pre })
    }

    fn call(&self) -> Result<String, Failure> {
        self.answer()
            .map_err(|error| Failure::new(error.to_string()))
    }

    fn answer(&self) -> wasmtime::Result<String> {
        let mut store = Store::new(&self.engine, ());
        let instance = self.pre.instantiate(&mut store)?;
        let memory = instance
            .get_memory(&mut store, "memory")
            .ok_or_else(|| wasmtime::Error::msg("no memory"))?;
        let alloc = instance.get_typed_func::<u32, u32>(&mut store, "airlock_alloc")?;
        let length = u32::try_from(INPUT.len())?;
        let place = alloc.call(&mut store, length)?;
        memory.write(&mut store, place as usize, INPUT.as_bytes())?;
        let execute = instance.get_typed_func::<(u32, u32), u64>(&mut store, "airlock_execute")?;
        let packed = execute.call(&mut store, (place, length))?;
        let (start, length) = (packed >> 32, packed & u64::from(u32::MAX));
        let mut answer = vec![0; usize::try_from(length)?];
        memory.read(&store, usize::try_from(start)?, &mut answer)?;
        Ok(String::from_utf8(answer)?)
    }
}

/// A worker in its box, by the program beside this one.
fn boxed(options: &Options, module: &[u8]) -> Result<Vec<Row>, Failure> {
    const CALL: &str = "Wasm: a whole call to a boxed worker, p50";
    const START: &str = "Wasm: start of a boxed plugin, code cached, p50";
    let program = programs::handed_out("airlock-wasm")?;
    if !program.is_file() {
        return Ok(vec![
            Row::missing(CALL, "", programs::NOT_BUILT),
            Row::missing(START, "", programs::NOT_BUILT),
        ]);
    }
    let home = tempfile::tempdir()?;
    let path = home.path();
    std::fs::write(path.join("shout.wasm"), module)?;
    let program = program.canonicalize()?;
    let host = WasmHost::boxed(program, Vec::new(), &path.join("state"));
    let instance = host.start(start(path, module)?)?;
    let call = call();
    if shout(&*instance, &call)? != json!("HELLO, WORLD") {
        return Err(Failure::new("the boxed worker gives another answer"));
    }
    let calls = measure::each(options.pick(2_000, 200), || {
        drop(black_box(shout(&*instance, &call)));
    });
    let mut nanos = Vec::new();
    for _ in 0..options.pick(30, 5) {
        let begun = std::time::Instant::now();
        let started = host.start(start(path, module)?)?;
        nanos.push(measure::nanos(begun.elapsed()));
        drop(started);
    }
    Ok(vec![
        Row::new(CALL).measured(measure::time_text(calls.median())),
        Row::new(START).measured(measure::time_text(Samples::new(nanos).median())),
    ])
}

fn shout(instance: &dyn Instance, call: &ToolCall) -> Result<Value, Failure> {
    Ok(instance.call(call, &mut Vec::new(), &AtomicBool::new(false))?)
}

fn call() -> ToolCall {
    ToolCall {
        action: "measured".to_owned(),
        tool: "shout".to_owned(),
        arguments: json!({ "text": "hello, world" }),
        session: None,
        mode: None,
        deadline: Duration::from_secs(10),
        max_output: 100_000,
    }
}

struct Nobody;

impl Callback for Nobody {
    fn submit(&self, _: &str, _: &Value, _: Option<&str>) -> Result<Value, CallbackError> {
        Err(CallbackError {
            code: "denied".to_owned(),
            message: "nobody is there".to_owned(),
            retryable: false,
        })
    }
}

fn start(home: &Path, module: &[u8]) -> Result<Start, Failure> {
    let manifest = Manifest {
        name: "shout".parse()?,
        version: semver::Version::new(1, 0, 0),
        kind: Kind::Tool,
        engine: semver::VersionReq::STAR,
        api_version: 1,
        license: None,
        capabilities: Vec::new(),
        deny_capabilities: Vec::new(),
        execution: Execution {
            tier: Tier::Wasm,
            protocol: Protocol::Wasm,
            entry: "shout.wasm".to_owned(),
            arguments: Vec::new(),
            tls: true,
            sandbox: SandboxAsk::default(),
            limits: LIMITS,
            image: None,
        },
        config_schema: None,
        dependencies: BTreeMap::new(),
        tags: Vec::new(),
        lifecycle: LifecycleSettings {
            hot_reload: false,
            graceful_shutdown_timeout: Duration::from_secs(5),
        },
        tools: Vec::new(),
        effects: BTreeMap::new(),
    };
    Ok(Start {
        manifest: Arc::new(manifest),
        directory: home.to_owned(),
        entry: Digest::of(module),
        data: home.join("data"),
        grants: Grants::default(),
        configuration: json!({}),
        reach: Reach {
            directory: home.join("reach"),
            callback: Arc::new(Nobody),
        },
    })
}
