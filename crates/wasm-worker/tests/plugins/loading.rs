//! What is loaded and what is not.

use crate::support::{DESCRIPTION, World, ask, call_of, packed, plugin, run, spawn};
use airlock_core::Digest;
use airlock_plugin::{CallError, Host as _, StartError, ToolDescription};
use airlock_plugin_wasm::WasmHost;
use proptest::prelude::*;
use serde_json::json;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn good() -> String {
    plugin("", "", "(return (call $ok))")
}

fn refusal(text: &str) -> String {
    let refused = World::wat(text).try_start().err().expect(text);
    assert!(matches!(refused, StartError::Protocol(_)), "{refused}");
    refused.to_string()
}

#[test]
fn an_import_of_anything_else_is_refused_by_its_name() {
    for (import, name) in [
        (
            r#"(import "wasi_snapshot_preview1" "fd_write" (func (param i32 i32 i32 i32) (result i32)))"#,
            "wasi_snapshot_preview1.fd_write",
        ),
        (r#"(import "env" "memory" (memory 1))"#, "env.memory"),
        (r#"(import "airlock" "open" (func))"#, "airlock.open"),
        (r#"(import "Airlock" "call" (func))"#, "Airlock.call"),
        (r#"(import "airlock" "" (func))"#, "airlock."),
    ] {
        let said = refusal(&format!("(module {import})"));
        assert!(
            said.contains(&format!("it imports `{name}`, which")),
            "{said}"
        );
    }
    for (import, name) in [
        (r#"(import "airlock" "call" (func))"#, "airlock.call"),
        (
            r#"(import "airlock" "log" (func (param i32 i32 i64)))"#,
            "airlock.log",
        ),
        (r#"(import "airlock" "take" (global i32))"#, "airlock.take"),
        (r#"(import "airlock" "emit" (memory 1))"#, "airlock.emit"),
    ] {
        let said = refusal(&format!("(module {import})"));
        assert!(
            said.contains(&format!("`{name}` with another type")),
            "{said}"
        );
    }
}

#[test]
fn a_module_without_the_interface_is_refused_by_what_it_lacks() {
    for lacking in [
        "memory",
        "airlock_alloc",
        "airlock_describe",
        "airlock_execute",
    ] {
        let text = good().replace(&format!(r#"(export "{lacking}")"#), "");
        let said = refusal(&text);
        assert!(said.contains(&format!("`{lacking}`")), "{said}");
    }
    let text = good().replace(
        r#"(func (export "airlock_describe") (result i64)"#,
        r#"(func (export "airlock_describe") (param i32) (result i64)"#,
    );
    assert!(refusal(&text).contains("`airlock_describe`"));
}

#[test]
fn bytes_that_are_no_module_are_refused() {
    let whole = wat::parse_str(good()).unwrap();
    for (case, bytes) in [
        ("nothing", Vec::new()),
        ("text", b"(module)".to_vec()),
        (
            "an ELF program",
            std::fs::read("/proc/self/exe").unwrap()[..4096].to_vec(),
        ),
        (
            "a header alone of a newer version",
            b"\0asm\x02\0\0\0".to_vec(),
        ),
        ("half of one", whole[..whole.len() / 2].to_vec()),
    ] {
        let refused = World::new(bytes).try_start().err().expect(case);
        assert!(
            matches!(refused, StartError::Protocol(_)),
            "{case}: {refused}"
        );
    }
}

#[test]
fn a_huge_module_is_not_even_sent() {
    let mut bytes = b"\0asm\x01\0\0\0".to_vec();
    bytes.resize((16 << 20) + 1, 0);
    let world = World::new(bytes);
    let refused = world.try_start().err().unwrap();
    assert!(matches!(refused, StartError::Entry { .. }), "{refused}");
    assert_eq!(world.workers.started.load(SeqCst), 0);
}

#[test]
fn only_the_approved_bytes_are_started() {
    let world = World::wat(&good());
    let start = |entry: Digest| {
        let mut what = world.what();
        what.entry = entry;
        world.host().start(what)
    };
    let other = start(Digest::of(b"something else")).err().unwrap();
    assert!(matches!(other, StartError::Entry { .. }), "{other}");
    assert_eq!(world.workers.started.load(SeqCst), 0);
    assert!(start(Digest::of(&world.module)).is_ok());
    for (case, make) in [
        ("absent", (|path| drop(path)) as fn(std::path::PathBuf)),
        ("a directory", |path| std::fs::create_dir(path).unwrap()),
        ("a pipe", |path| {
            let mode = rustix::fs::Mode::from(0o600);
            rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0)
                .unwrap();
        }),
    ] {
        let what = world.what();
        let path = what.directory.join("plugin.wasm");
        std::fs::remove_file(&path).unwrap();
        make(path.clone());
        let refused = world.host().start(what).err().expect(case);
        assert!(
            matches!(refused, StartError::Entry { .. }),
            "{case}: {refused}"
        );
        let _ = std::fs::remove_dir(&path);
        let _ = std::fs::remove_file(&path);
    }
}

#[test]
fn a_manifest_that_describes_tools_is_held_to_them() {
    let world = World::wat(&good());
    let described: Vec<ToolDescription> = serde_json::from_str(DESCRIPTION).unwrap();
    let start = |tools: Vec<ToolDescription>| {
        let mut what = world.what();
        Arc::get_mut(&mut what.manifest).unwrap().tools = tools;
        world.host().start(what)
    };
    assert!(start(described.clone()).is_ok());
    let mut other = described.clone();
    other[0].read_only = false;
    let refused = start(other).err().unwrap();
    assert!(refused.to_string().contains("other tools"), "{refused}");
    assert!(start([described.clone(), described].concat()).is_err());
}

#[test]
fn descriptions_that_are_wrong_are_refused() {
    let many = format!(
        "[{}]",
        vec![r#"{"name":"a","summary":"","schema":{}}"#; 257].join(",")
    );
    for (text, why) in [
        ("", "EOF"),
        ("{}", "wrong"),
        (r#"[{"name":1}]"#, "wrong"),
        (
            r#"[{"name":"a","summary":"","schema":{},"steers":true}]"#,
            "unknown field",
        ),
        (&many, "257 tools"),
    ] {
        let module = plugin("", text, "(return (call $ok))").replace(
            &format!("(i64.const {})", packed(1024, DESCRIPTION)),
            &format!("(i64.const {})", packed(4096, text)),
        );
        let said = refusal(&module);
        assert!(said.contains(why), "{text}: {said}");
    }
}

#[test]
fn a_worker_that_cannot_confine_itself_runs_nothing() {
    let mut world = World::wat(&good());
    world.confine = "fails";
    let refused = world.try_start().err().unwrap();
    let StartError::Confinement(why) = &refused else {
        panic!("{refused}");
    };
    assert_eq!(why, "no filter [2J here");
}

#[test]
fn a_program_that_does_not_start_is_no_plugin() {
    let host =
        airlock_plugin_wasm::WasmHost::new(|| Err(std::io::Error::other("no such program")), None);
    let refused = host.start(World::wat(&good()).what()).err().unwrap();
    assert!(matches!(refused, StartError::Confinement(_)), "{refused}");
}

#[test]
fn features_that_are_not_offered_are_refused() {
    for text in [
        "(module (memory i64 1))",
        "(module (memory 1) (memory 1))",
        "(module (memory 1 1 shared))",
    ] {
        let said = refusal(text);
        assert!(said.contains("not valid"), "{text}: {said}");
    }
}

#[test]
fn a_reactor_is_initialised_before_anything_else() {
    let text = plugin(
        r#"(global $ready (mut i32) (i32.const 0))
           (func (export "_initialize") (global.set $ready (i32.const 1)))"#,
        "",
        "(if (i32.eqz (global.get $ready)) (then unreachable)) (return (call $ok))",
    );
    assert_eq!(ask(&*World::wat(&text).start()), Ok(json!("done")));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 0, ..ProptestConfig::default() })]

    /// Mutations of a good plugin, and whole modules of all shapes: loaded or refused, and when
    /// loaded every call ends. Either way the host goes on.
    #[test]
    fn malformed_modules_are_refused_and_odd_ones_end(
        at in any::<prop::sample::Index>(),
        bytes in prop::collection::vec(any::<u8>(), 1..8),
    ) {
        let mut module = wat::parse_str(good()).unwrap();
        let at = at.index(module.len() - 8) + 8;
        for (place, byte) in module.iter_mut().skip(at).zip(&bytes) {
            *place = *byte;
        }
        if let Ok(instance) = World::new(module).limits(|limits| limits.fuel = 1_000_000).try_start() {
            let _ended = ask(&*instance);
            prop_assert!(!instance.has_ended());
        }
    }
}

#[test]
fn a_call_waits_for_the_next_worker_no_longer_than_it_has_and_nobody_else_waits() {
    let mut world = World::wat(&plugin("", "", "(return (call $ok))"));
    // What it says when it is loaded is half of what it may: each call wants another.
    world.most = 64;
    let (workers, held) = (Arc::clone(&world.workers), Arc::new(Mutex::new(())));
    let waits = Arc::clone(&held);
    let host = WasmHost::new(
        move || {
            drop(waits.lock());
            spawn(&workers, "strict", 64)
        },
        None,
    );
    let instance = host.start(world.what()).unwrap();
    let guard = held.lock().unwrap();
    let mut short = call_of("try", json!({}));
    short.deadline = Duration::from_millis(50);
    let late = run(&*instance, &short).unwrap_err();
    assert!(matches!(late, CallError::TimedOut(_)), "{late}");
    let unwanted = AtomicBool::new(true);
    let cancelled = instance.call(&call_of("try", json!({})), &mut Vec::new(), &unwanted);
    assert_eq!(cancelled.unwrap_err(), CallError::Cancelled);
    // Whoever looks after it is told at once.
    assert!(!instance.has_ended());
    assert!(instance.report()["limits"].is_object());
    drop(guard);
    assert_eq!(ask(&*instance).unwrap(), json!("done"));
    instance.stop(Duration::ZERO);
    assert!(instance.has_ended());
}
