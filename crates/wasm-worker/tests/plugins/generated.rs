//! Modules nobody wrote, made by `wasm-smith` from fixed seeds: refused or run, and nothing in between.

use crate::support::{WIDE, World, ask, plugin};
use airlock_core::ByteSize;
use airlock_plugin::{CallError, StartError, WasmLimits};
use airlock_wasm_worker::Warm;
use serde_json::json;
use wasm_smith::{Config, Module};

/// Modules of each kind, and bytes that each is made from: a budget that does not change.
const MODULES: u64 = 48;
const SEED_BYTES: usize = 4_096;

/// What a plugin has to export, and may import.
const INTERFACE: &str = r#"(module
    (memory (export "memory") 2 16)
    (func (export "airlock_alloc") (param i32) (result i32) unreachable)
    (func (export "airlock_describe") (result i64) unreachable)
    (func (export "airlock_execute") (param i32 i32) (result i64) unreachable))"#;
const IMPORTS: &str = r#"(module
    (import "airlock" "call" (func (param i32 i32 i32 i32) (result i32)))
    (import "airlock" "take" (func (param i32 i32) (result i32)))
    (import "airlock" "log" (func (param i32 i32 i32)))
    (import "airlock" "emit" (func (param i32 i32) (result i32)))
    (import "airlock" "cancelled" (func (result i32))))"#;

const LIMITS: WasmLimits = WasmLimits {
    fuel: 1_000_000,
    memory: ByteSize::from_bytes(1 << 20),
    ..WIDE
};

/// Bytes that are the same on every machine and look like none: splitmix64.
fn seed(number: u64) -> Vec<u8> {
    let mut state = number;
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    };
    (0..SEED_BYTES / 8)
        .flat_map(|_| next().to_le_bytes())
        .collect()
}

fn made(number: u64, config: Config) -> Option<Vec<u8>> {
    let bytes = seed(number);
    let mut seed = arbitrary::Unstructured::new(&bytes);
    Some(Module::new(config, &mut seed).ok()?.to_bytes())
}

/// Modules with the interface of plugins, of what the engine offers.
fn plugins() -> Config {
    let wat = |text: &str| Some(wat::parse_str(text).unwrap());
    Config {
        exports: wat(INTERFACE),
        available_imports: wat(IMPORTS),
        // The one of the interface is all a plugin may have.
        max_memories: 0,
        max_tables: 2,
        max_table_elements: 500,
        max_tags: 0,
        min_funcs: 8,
        max_instructions: 200,
        memory64_enabled: false,
        multi_value_enabled: true,
        exceptions_enabled: false,
        gc_enabled: false,
        reference_types_enabled: false,
        relaxed_simd_enabled: false,
        threads_enabled: false,
        ..Config::default()
    }
}

#[test]
fn modules_of_any_shape_are_refused_by_a_typed_error() {
    let mut refused = 0;
    for number in 0..MODULES {
        let Some(module) = made(number, Config::default()) else {
            continue;
        };
        // None of them has the interface.
        let error = World::new(module).try_start().err().unwrap();
        assert!(
            matches!(error, StartError::Protocol(_)),
            "{number}: {error}"
        );
        refused += 1;
    }
    assert!(refused > MODULES / 2, "only {refused} could be made");
}

#[test]
fn modules_with_the_interface_run_in_a_worker_to_a_typed_end() {
    let mut ran = 0;
    let well = World::wat(&plugin("", "", "(return (call $ok))"));
    let neighbour = well.start();
    for number in 0..MODULES {
        let Some(module) = made(number, plugins()) else {
            continue;
        };
        let mut world = World::new(module);
        world.limits = LIMITS;
        match world.try_start() {
            // Its code ran, and what it says of its tools is nonsense, or it trapped.
            Err(StartError::Protocol(why)) => {
                let is_loaded = why.contains("it does not say what its tools are");
                assert!(is_loaded, "{number}: it was not even loaded: {why}");
            }
            Err(other) => panic!("{number}: {other}"),
            Ok(instance) => {
                let _ended = ask(&*instance);
                assert_eq!(instance.health(), Ok(()), "{number}");
            }
        }
        ran += 1;
    }
    assert!(ran > MODULES / 2, "only {ran} could be made");
    assert_eq!(ask(&*neighbour), Ok(json!("done")), "others go on");
}

/// Without a worker around it: what would bring one down would bring this test down.
#[test]
fn calls_of_modules_with_the_interface_end_within_their_limits() {
    let mut ends = std::collections::BTreeMap::<&str, u32>::new();
    for number in 0..MODULES {
        let Some(module) = made(number, plugins()) else {
            continue;
        };
        let warm = Warm::load(&module, &LIMITS).unwrap_or_else(|error| panic!("{number}: {error}"));
        for tool in ["try", ""] {
            let end = match warm.call(tool, r#"{"a":[1,2,3]}"#) {
                Ok(_) => "a value",
                Err(CallError::Limit(limit)) => limit,
                Err(CallError::Tool(_)) => "a trap",
                Err(CallError::Protocol(_)) => "nonsense",
                Err(CallError::TooMuch(_)) => "too much",
                Err(other) => panic!("{number}: {other}"),
            };
            *ends.entry(end).or_default() += 1;
        }
    }
    // They do different things: the generator reaches past the first instruction.
    assert!(ends.len() > 1, "{ends:?}");
    assert!(ends.values().sum::<u32>() > 40, "{ends:?}");
}
