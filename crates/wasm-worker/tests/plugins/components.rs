//! Components of the world in `wit/`, made as any toolchain makes them: a core module that follows
//! the canonical ABI, with the world embedded, wrapped by the reference encoder.

use crate::support::{Kernel, World, ask, call_of, run};
use airlock_plugin::{CallError, StartError};
use serde_json::json;
use std::sync::atomic::AtomicBool;
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

const WIT: &str = include_str!("../../../../wit/airlock-plugin.wit");

/// A module of the canonical ABI. `execute` has `$p`, where its parameters lie: the tool's pointer
/// and length at 0, the arguments' at 8, then the context.
fn core(wanted: &str, execute: &str) -> String {
    format!(
        r#"(module
        {wanted}
        (memory (export "memory") 2)
        (global $free (mut i32) (i32.const 65536))
        (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
          (global.set $free (i32.and (i32.add (global.get $free) (i32.const 7)) (i32.const -8)))
          global.get $free
          (global.set $free (i32.add (global.get $free) (local.get 3))))
        (data (i32.const 16) "\20\00\00\00\01\00\00\00")
        (data (i32.const 32) "\40\00\00\00\03\00\00\00\44\00\00\00\06\00\00\00\50\00\00\00\11\00\00\00\01\00\00\00")
        (data (i32.const 64) "try\00Try it")
        (data (i32.const 80) "{{\22type\22:\22object\22}}")
        (data (i32.const 128) "fs.read{{\22path\22:\22a.txt\22}}some text\22done\22")
        (func (export "describe") (result i32) (i32.const 16))
        (func $answer (param $kind i32) (param $text i32) (param $length i32) (result i32)
          (i32.store (i32.const 1024) (local.get $kind))
          (i32.store (i32.const 1028) (local.get $text))
          (i32.store (i32.const 1032) (local.get $length))
          (i32.const 1024))
        (func (export "execute") (param $p i32) (result i32)
          {execute}))"#
    )
}

const ALL: &str = r#"
    (import "airlock:plugin/host@1.0.0" "call" (func $call (param i32 i32 i32 i32 i32)))
    (import "airlock:plugin/host@1.0.0" "log" (func $log (param i32 i32 i32)))
    (import "airlock:plugin/host@1.0.0" "emit" (func $emit (param i32 i32) (result i32)))
    (import "airlock:plugin/host@1.0.0" "cancelled" (func $cancelled (result i32)))"#;

fn component_of(wit: &str, module: &str) -> Vec<u8> {
    let mut resolve = Resolve::default();
    let package = resolve.push_str("airlock-plugin.wit", wit).unwrap();
    let world = resolve.select_world(&[package], Some("plugin")).unwrap();
    let mut module = wat::parse_str(module).unwrap();
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).unwrap();
    let encoder = ComponentEncoder::default().validate(true);
    encoder.module(&module).unwrap().encode().unwrap()
}

fn component(execute: &str) -> World {
    World::new(component_of(WIT, &core(ALL, execute)))
}

/// `{"arguments"}` as they came.
const ECHO: &str = "(call $answer (i32.const 0) (i32.load offset=8 (local.get $p)) (i32.load offset=12 (local.get $p)))";

#[test]
fn a_component_describes_its_tools_and_answers() {
    let instance = component(ECHO).start();
    assert_eq!(instance.report()["form"], "component");
    let tools = instance.tools();
    assert_eq!(tools.len(), 1);
    assert_eq!(tools[0].name, "try");
    assert_eq!(tools[0].summary, "Try it");
    assert_eq!(tools[0].schema, json!({ "type": "object" }));
    assert!(tools[0].read_only);
    let arguments = json!({ "a": [1, "ü"] });
    let call = call_of("try", arguments.clone());
    for _ in 0..20 {
        assert_eq!(run(&*instance, &call), Ok(arguments.clone()));
    }
}

#[test]
fn a_component_that_imports_nothing_is_a_plugin_too() {
    let world = World::new(component_of(WIT, &core("", ECHO)));
    assert_eq!(ask(&*world.start()), Ok(json!({})));
}

#[test]
fn the_context_is_the_calls_own() {
    // Where each lies, and what it is to be; given back as a failure, which is plain text.
    for (offset, wanted) in [
        (16, "action-1"),
        (24, "text-tools"),
        (36, "box-7"),
        (48, "session-1"),
        (60, "strict"),
    ] {
        let length = offset + 4;
        let failing = format!(
            "(call $answer (i32.const 1) (i32.load offset={offset} (local.get $p)) (i32.load offset={length} (local.get $p)))"
        );
        let said = ask(&*component(&failing).start());
        assert_eq!(said, Err(CallError::Tool(wanted.to_owned())));
    }
    let configuration = "(call $answer (i32.const 0) (i32.load offset=68 (local.get $p)) (i32.load offset=72 (local.get $p)))";
    let said = ask(&*component(configuration).start());
    assert_eq!(said, Ok(json!({ "greeting": "hello" })));
    let mut without = call_of("try", json!({}));
    without.session = None;
    let absent = "(if (i32.load8_u offset=44 (local.get $p)) (then unreachable)) (call $answer (i32.const 0) (i32.const 160) (i32.const 6))";
    let said = run(&*component(absent).start(), &without);
    assert_eq!(said, Ok(json!("done")));
}

/// Makes the syscall and gives back what came: the value, or the failure's message.
const ASK: &str = "
    (call $call (i32.const 128) (i32.const 7) (i32.const 135) (i32.const 16) (i32.const 2048))
    (if (result i32) (i32.load8_u (i32.const 2048))
      (then (call $answer (i32.const 1) (i32.load (i32.const 2060)) (i32.load (i32.const 2064))))
      (else (call $answer (i32.const 0) (i32.load (i32.const 2052)) (i32.load (i32.const 2056)))))";

#[test]
fn a_component_makes_syscalls_and_is_denied_them() {
    let mut world = component(ASK);
    let said = ask(&*world.start());
    let denied = "the plugin's manifest does not ask for `fs.read`";
    assert_eq!(said, Err(CallError::Tool(denied.to_owned())));
    world.kernel = Kernel::new(|_, arguments| Ok(json!({ "read": arguments })));
    let said = ask(&*world.start());
    assert_eq!(said, Ok(json!({ "read": { "path": "a.txt" } })));
}

#[test]
fn a_component_streams_and_logs() {
    let talking = "
        (call $log (i32.const 3) (i32.const 151) (i32.const 4))
        (drop (call $emit (i32.const 151) (i32.const 9)))
        (if (call $cancelled) (then unreachable))
        (call $answer (i32.const 0) (i32.const 160) (i32.const 6))";
    let instance = component(talking).start();
    let mut pieces = Vec::new();
    let call = call_of("try", json!({}));
    let said = instance.call(&call, &mut pieces, &AtomicBool::new(false));
    assert_eq!(said, Ok(json!("done")));
    assert_eq!(pieces.concat(), "some text");
    let log = &instance.report()["log"];
    assert_eq!(*log, json!([{ "level": "error", "text": "some" }]));
}

#[test]
fn hostile_components_are_contained_like_modules() {
    for (execute, wanted) in [
        ("(loop $l (br $l)) unreachable", CallError::Limit("fuel")),
        (
            "(loop $l (drop (memory.grow (i32.const 1))) (br $l)) unreachable",
            CallError::Limit("memory"),
        ),
        (
            "unreachable",
            CallError::Tool(
                "it trapped: wasm trap: wasm `unreachable` instruction executed".to_owned(),
            ),
        ),
        (
            "(drop (call $emit (i32.const 2100) (i32.const 60000))) (drop (call $emit (i32.const 2100) (i32.const 60000))) unreachable",
            CallError::TooMuch(100_000),
        ),
    ] {
        let instance = component(execute)
            .limits(|limits| limits.fuel = 50_000_000)
            .start();
        assert_eq!(ask(&*instance), Err(wanted), "{execute}");
        assert_eq!(instance.health(), Ok(()));
    }
    // Pointers out of its memory, in what it gives and in what it passes.
    for execute in [
        "(i32.const -4)",
        "(call $answer (i32.const 0) (i32.const -1) (i32.const 10))",
        "(call $answer (i32.const 7) (i32.const 0) (i32.const 0))",
        "(call $log (i32.const 1) (i32.const 131072) (i32.const 1)) unreachable",
        "(call $log (i32.const 9) (i32.const 0) (i32.const 1)) unreachable",
        "(call $call (i32.const 0) (i32.const -1) (i32.const 0) (i32.const 0) (i32.const 2048)) unreachable",
        "(call $call (i32.const 128) (i32.const 7) (i32.const 135) (i32.const 16) (i32.const -8)) unreachable",
    ] {
        let instance = component(execute).start();
        let said = ask(&*instance);
        let is_typed = matches!(said, Err(CallError::Protocol(_) | CallError::Tool(_)));
        assert!(is_typed, "{execute}: {said:?}");
        assert_eq!(instance.health(), Ok(()), "{execute}");
    }
}

#[test]
fn a_component_that_imports_anything_else_is_refused_by_its_name() {
    let wit = WIT.replace(
        "import host;",
        "import host;\n  import clock: interface { now: func() -> u64; }",
    );
    let wanted = format!(r#"{ALL} (import "clock" "now" (func (result i64)))"#);
    let refused = World::new(component_of(&wit, &core(&wanted, ECHO))).try_start();
    let refused = refused.err().unwrap();
    assert!(matches!(refused, StartError::Protocol(_)), "{refused}");
    assert!(
        refused.to_string().contains("it imports `clock`"),
        "{refused}"
    );
    // A function more in the interface that there is.
    let wit = WIT.replace(
        "cancelled: func() -> bool;",
        "cancelled: func() -> bool;\n  open: func();",
    );
    let wanted = format!(r#"{ALL} (import "airlock:plugin/host@1.0.0" "open" (func))"#);
    let refused = World::new(component_of(&wit, &core(&wanted, ECHO))).try_start();
    let refused = refused.err().unwrap().to_string();
    assert!(refused.contains("open"), "{refused}");
}

#[test]
fn a_component_without_the_interface_is_refused() {
    let empty = wat::parse_str("(component)").unwrap();
    let refused = World::new(empty).try_start().err().unwrap();
    assert!(refused.to_string().contains("`describe`"), "{refused}");
    // Exports of the right names that are of another type.
    let odd = wat::parse_str(
        r#"(component
          (core module $m (func (export "f")))
          (core instance $i (instantiate $m))
          (func $f (canon lift (core func $i "f")))
          (export "describe" (func $f))
          (export "execute" (func $f)))"#,
    );
    let refused = World::new(odd.unwrap()).try_start().err().unwrap();
    assert!(matches!(refused, StartError::Protocol(_)), "{refused}");
}

#[test]
fn a_component_of_too_many_instances_is_refused() {
    let module = "(core module $m (memory 1))";
    let instance = "(core instance (instantiate $m))".repeat(40);
    let text = format!("(component {module} {instance})");
    let refused = World::new(wat::parse_str(text).unwrap())
        .try_start()
        .err()
        .unwrap();
    assert!(matches!(refused, StartError::Protocol(_)), "{refused}");
}

#[test]
fn code_of_components_is_kept_as_well() {
    let mut world = component(ECHO);
    world.is_cached = true;
    assert_eq!(world.start().report()["code"], "compiled");
    let instance = world.start();
    assert_eq!(instance.report()["code"], "cached");
    assert_eq!(ask(&*instance), Ok(json!({})));
}
