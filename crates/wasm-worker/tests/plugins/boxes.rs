//! Workers in real boxes.

use crate::support::{World, ask, call_of, plugin, run};
use airlock_plugin::{CallError, Host as _, Instance};
use airlock_plugin_wasm::WasmHost;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Only a program that calls `serve` and nothing else can be put in a box.
fn host(world: &World) -> WasmHost {
    WasmHost::boxed(program(), Vec::new(), &world.home.path().join("state"))
}

fn program() -> PathBuf {
    let built = Path::new(env!("CARGO_BIN_EXE_airlock-wasm"));
    built.canonicalize().unwrap()
}

fn started(text: &str) -> (World, Arc<dyn Instance>) {
    let world = World::wat(text);
    let instance = host(&world).start(world.what());
    (world, instance.unwrap_or_else(|error| panic!("{error}")))
}

#[test]
fn a_boxed_plugin_answers_and_its_box_is_reported_in_full() {
    let (world, instance) = started(&plugin("", "", "(return (call $ok))"));
    for _ in 0..10 {
        assert_eq!(ask(&*instance), Ok(json!("done")));
    }
    assert_eq!(instance.health(), Ok(()));
    let report = instance.report();
    let text = report["sandbox"].to_string();
    for wall in ["seccomp", "network_namespace", "landlock"] {
        assert!(text.contains(wall), "{text}");
    }
    assert!(text.contains("strict"), "{text}");
    // A second one takes its code from the disk, into a box of its own.
    let second = host(&world)
        .start(world.what())
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(second.report()["code"], "cached");
    assert_eq!(ask(&*second), Ok(json!("done")));
    instance.stop(Duration::from_secs(5));
    assert_eq!(ask(&*second), Ok(json!("done")), "boxes are apart");
}

#[test]
fn limits_hold_in_a_box_before_the_box_has_to() {
    let greedy = plugin(
        "(func $deep (param i64) (result i64) (i64.add (call $deep (i64.add (local.get 0) (i64.const 1))) (i64.const 1)))",
        "",
        "
        (if (i32.lt_u (local.get $length) (i32.const 250)) (then
          (loop $again (drop (memory.grow (i32.const 1)))
            (memory.fill (i32.sub (i32.shl (memory.size) (i32.const 16)) (i32.const 65536)) (i32.const 1) (i32.const 65536))
            (br $again))))
        (if (i32.lt_u (local.get $length) (i32.const 1000)) (then (return (call $deep (i64.const 0)))))
        (return (call $ok))",
    );
    let mut world = World::wat(&greedy);
    world.limits.memory = airlock_core::ByteSize::from_bytes(32 << 20);
    let instance = host(&world)
        .start(world.what())
        .unwrap_or_else(|error| panic!("{error}"));
    let padded = |bytes: usize| call_of("try", json!({ "padding": "x".repeat(bytes) }));
    for _ in 0..2 {
        assert_eq!(ask(&*instance), Err(CallError::Limit("memory")));
        assert_eq!(
            run(&*instance, &padded(500)),
            Err(CallError::Limit("stack"))
        );
        assert_eq!(run(&*instance, &padded(2_000)), Ok(json!("done")));
    }
}
