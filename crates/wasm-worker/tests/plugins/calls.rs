//! What calls give, and what they carry over: nothing.

use crate::support::{Kernel, World, ask, call_of, packed, plugin, run, spawn};
use airlock_plugin::{CallError, Callback as _, CallbackError, Host as _};
use airlock_plugin_wasm::WasmHost;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// Answers with what it was given: `{"ok":`, the input, which is JSON itself, and `}`.
fn echo() -> String {
    plugin(
        "",
        r#"{"ok":}"#,
        "
        (local.set $n (call $alloc (i32.add (local.get $length) (i32.const 7))))
        (memory.copy (local.get $n) (i32.const 4096) (i32.const 6))
        (memory.copy (i32.add (local.get $n) (i32.const 6)) (local.get $in) (local.get $length))
        (i32.store8 (i32.add (local.get $n) (i32.add (local.get $length) (i32.const 6))) (i32.const 125))
        (i64.or
          (i64.shl (i64.extend_i32_u (local.get $n)) (i64.const 32))
          (i64.extend_i32_u (i32.add (local.get $length) (i32.const 7))))",
    )
}

#[test]
fn a_module_is_given_tool_arguments_and_context_and_answers() {
    let instance = World::wat(&echo()).start();
    assert_eq!(instance.tools().len(), 1);
    assert_eq!(instance.tools()[0].name, "try");
    assert!(instance.tools()[0].read_only);
    let arguments = json!({ "text": "a \"quoted\" ünïcode\n", "deep": [1, [2, { "x": null }]] });
    let given = run(&*instance, &call_of("try", arguments.clone())).unwrap();
    assert_eq!(
        given,
        json!({
            "tool": "try",
            "arguments": arguments,
            "context": {
                "action": "action-1",
                "plugin": "text-tools",
                "sandbox": "box-7",
                "session": "session-1",
                "mode": "strict",
                "configuration": { "greeting": "hello" },
            },
        })
    );
    let mut without = call_of("try", json!({}));
    without.session = None;
    without.mode = None;
    let given = run(&*instance, &without).unwrap();
    assert_eq!(given["context"]["session"], json!(null));
}

#[test]
fn nothing_is_carried_from_one_call_to_the_next() {
    // Writes to memory, a global and a table, and traps if any of them had been written before.
    let counting = plugin(
        "(global $seen (mut i32) (i32.const 0)) (table $t 4 funcref) (elem declare func $ok)",
        "",
        "
        (if (global.get $seen) (then unreachable))
        (if (i32.load (i32.const 100000)) (then unreachable))
        (if (i32.load (i32.const 20000)) (then unreachable))
        (if (i32.eqz (ref.is_null (table.get $t (i32.const 2)))) (then unreachable))
        (if (i32.ne (memory.size) (i32.const 2)) (then unreachable))
        (global.set $seen (i32.const 1))
        (i32.store (i32.const 100000) (i32.const 1))
        (i32.store (i32.const 20000) (i32.const 1))
        (table.set $t (i32.const 2) (ref.func $ok))
        (drop (memory.grow (i32.const 3)))
        (i32.store (i32.const 300000) (i32.const 1))
        (return (call $ok))",
    );
    let instance = World::wat(&counting).start();
    for _ in 0..50 {
        assert_eq!(ask(&*instance), Ok(json!("done")));
    }
}

#[test]
fn a_tool_that_says_it_failed_is_believed() {
    let text = r#"{"error":"the text is empty"}"#;
    let failing = plugin("", text, &format!("(i64.const {})", packed(4096, text)));
    let instance = World::wat(&failing).start();
    let failed = CallError::Tool("the text is empty".to_owned());
    assert_eq!(ask(&*instance), Err(failed));
}

#[test]
fn pieces_come_in_order_and_before_the_answer() {
    let text = "ab";
    let streaming = plugin(
        "",
        text,
        "
        (drop (call $emit (i32.const 4096) (i32.const 1)))
        (drop (call $emit (i32.const 4096) (i32.const 0)))
        (drop (call $emit (i32.const 4097) (i32.const 1)))
        (drop (call $emit (i32.const 4096) (i32.const 2)))
        (return (call $ok))",
    );
    let instance = World::wat(&streaming).start();
    let mut pieces = Vec::new();
    let go_on = AtomicBool::new(false);
    let said = instance.call(&call_of("try", json!({})), &mut pieces, &go_on);
    assert_eq!(said, Ok(json!("done")));
    assert_eq!(pieces.concat(), "abab");
}

/// Makes the syscall `fs.read` and answers with the envelope it got.
fn asking() -> String {
    let text = r#"fs.read{"path":"a.txt"}{"ok":}"#;
    plugin(
        "",
        text,
        "
        (local.set $n (call $call (i32.const 4096) (i32.const 7) (i32.const 4103) (i32.const 16)))
        (memory.copy (i32.const 70000) (i32.const 4119) (i32.const 6))
        (if (i32.eqz (call $take (i32.const 70006) (local.get $n))) (then unreachable))
        (i32.store8 (i32.add (i32.const 70006) (local.get $n)) (i32.const 125))
        (i64.or
          (i64.const 300647710720000)
          (i64.extend_i32_u (i32.add (local.get $n) (i32.const 7))))",
    )
}

#[test]
fn a_syscall_is_submitted_within_the_action_and_its_result_comes_back() {
    let mut world = World::wat(&asking());
    world.kernel = Kernel::new(|_, arguments| Ok(json!({ "text": "hello", "of": arguments })));
    let instance = world.start();
    let answered = ask(&*instance).unwrap();
    let result = json!({ "text": "hello", "of": { "path": "a.txt" } });
    assert_eq!(answered, json!({ "ok": result }));
    let asked = world.kernel.asked.lock().unwrap();
    let within = Some("action-1".to_owned());
    assert_eq!(
        *asked,
        [("fs.read".to_owned(), json!({ "path": "a.txt" }), within)]
    );
}

#[test]
fn a_capability_that_is_denied_is_denied_inside_too() {
    let world = World::wat(&asking());
    let instance = world.start();
    assert_eq!(
        ask(&*instance).unwrap(),
        json!({ "error": {
            "code": "denied",
            "message": "the plugin's manifest does not ask for `fs.read`",
            "retryable": false,
        } })
    );
    assert_eq!(world.kernel.asked.lock().unwrap().len(), 1);
}

#[test]
fn a_result_that_is_longer_than_a_message_is_refused_to_the_plugin() {
    let mut world = World::wat(&asking());
    world.kernel = Kernel::new(|_, _| Ok(json!("x".repeat(9 << 20))));
    let answered = ask(&*world.start()).unwrap();
    assert_eq!(answered["error"]["code"], "too_large");
}

#[test]
fn a_call_ends_in_time_though_the_kernel_does_not_answer() {
    let mut world = World::wat(&asking());
    let (open, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    world.kernel = Kernel::new(move |_, _| {
        let _ = wait.lock().unwrap().recv();
        Err(CallbackError {
            code: "late".to_owned(),
            message: String::new(),
            retryable: true,
        })
    });
    let instance = world.start();
    let mut call = call_of("try", json!({}));
    call.deadline = Duration::from_millis(100);
    let late = Err(CallError::TimedOut(call.deadline));
    assert_eq!(run(&*instance, &call), late);
    assert!(!instance.has_ended(), "the worker is well");
    // The syscall still holds its place, so that syscalls cannot pile up behind the clock.
    assert_eq!(run(&*instance, &call), late);
    assert_eq!(run(&*instance, &call), Err(CallError::Limit("instances")));
    drop(open);
    let kernel = Arc::clone(&world.kernel);
    assert!(kernel.submit("a", &json!({}), None).is_err());
    let patient = call_of("try", json!({}));
    assert_eq!(run(&*instance, &patient).unwrap()["error"]["code"], "late");
}

fn spinning() -> String {
    plugin("", "", "(loop $again (br $again)) unreachable")
}

#[test]
fn a_cancelled_call_ends_soon_and_its_worker_goes_on() {
    let instance = World::wat(&spinning()).start();
    let cancelled = AtomicBool::new(false);
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let running =
            scope.spawn(|| instance.call(&call_of("try", json!({})), &mut Vec::new(), &cancelled));
        std::thread::sleep(Duration::from_millis(50));
        cancelled.store(true, SeqCst);
        assert_eq!(running.join().unwrap(), Err(CallError::Cancelled));
    });
    assert!(begun.elapsed() < Duration::from_secs(30));
    assert_eq!(instance.health(), Ok(()));
    // Before it even began.
    let call = call_of("try", json!({}));
    let said = instance.call(&call, &mut Vec::new(), &AtomicBool::new(true));
    assert_eq!(said, Err(CallError::Cancelled));
}

#[test]
fn a_sink_that_wants_no_more_cancels() {
    struct Full;
    impl airlock_plugin::Sink for Full {
        fn piece(&mut self, _: &str) -> bool {
            false
        }
    }
    let talking = plugin(
        "",
        "x",
        "(loop $again (br_if $again (call $emit (i32.const 4096) (i32.const 1)))) (return (call $ok))",
    );
    let instance = World::wat(&talking).start();
    let said = instance.call(
        &call_of("try", json!({})),
        &mut Full,
        &AtomicBool::new(false),
    );
    assert_eq!(said, Err(CallError::Cancelled));
    assert_eq!(instance.health(), Ok(()));
}

#[test]
fn calls_from_many_threads_all_get_their_own_answers() {
    let world = World::wat(&echo()).limits(|limits| limits.instances = 3);
    let instance = world.start();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let instance = &instance;
            scope.spawn(move || {
                for number in 0..20 {
                    let arguments = json!({ "thread": thread, "number": number });
                    let call = call_of("try", arguments.clone());
                    assert_eq!(run(&**instance, &call).unwrap()["arguments"], arguments);
                }
            });
        }
    });
    assert_eq!(world.workers.started.load(SeqCst), 1);
}

#[test]
fn a_worker_that_has_said_nearly_all_it_may_is_replaced_unnoticed() {
    let mut world = World::wat(&echo());
    world.most = 20_000;
    let instance = world.start();
    let text = "x".repeat(2_000);
    for _ in 0..20 {
        let call = call_of("try", json!({ "text": text }));
        assert_eq!(
            run(&*instance, &call).unwrap()["arguments"]["text"],
            text.as_str()
        );
    }
    let started = world.workers.started.load(SeqCst);
    assert!((3..=10).contains(&started), "{started}");
    drop(instance);
    assert_eq!(world.workers.killed.load(SeqCst), started);
}

#[test]
fn a_worker_that_could_not_be_replaced_is_tried_anew_by_the_next_call() {
    let mut world = World::wat(&echo());
    world.most = 20_000;
    let workers = Arc::clone(&world.workers);
    let failed = Arc::<AtomicU32>::default();
    let (most, fails) = (world.most, Arc::clone(&failed));
    let spawned = move || match fails.fetch_add(1, SeqCst) {
        // Later than whoever waits for it has time.
        1 => {
            std::thread::sleep(Duration::from_millis(2_500));
            fails.fetch_add(10, SeqCst);
            Err(std::io::Error::other("not today"))
        }
        // And worse.
        12 => panic!("not today either"),
        _ => spawn(&workers, "strict", most),
    };
    let instance = WasmHost::new(spawned, None).start(world.what()).unwrap();
    let text = "x".repeat(2_000);
    let call = call_of("try", json!({ "text": text }));
    while failed.load(SeqCst) < 2 {
        let mut short = call.clone();
        short.deadline = Duration::from_secs(1);
        if let Err(error) = run(&*instance, &short) {
            assert!(matches!(error, CallError::TimedOut(_)), "{error}");
        }
    }
    while failed.load(SeqCst) < 12 {
        std::thread::sleep(Duration::from_millis(5));
    }
    // Until what went wrong is noted.
    std::thread::sleep(Duration::from_millis(200));
    let error = run(&*instance, &call).unwrap_err();
    assert!(error.to_string().contains("cannot be loaded"), "{error}");
    let answer = run(&*instance, &call).unwrap();
    assert_eq!(answer["arguments"]["text"], text.as_str());
}

#[test]
fn a_stopped_plugin_finishes_its_calls_and_takes_no_more() {
    let instance = World::wat(&echo()).start();
    let report = instance.report();
    assert_eq!(report["form"], "module");
    assert_eq!(report["limits"]["memory"], "1MiB");
    assert_eq!(report["sandbox"]["seccomp"], "strict");
    instance.stop(Duration::from_secs(1));
    assert!(instance.has_ended());
    assert!(matches!(ask(&*instance), Err(CallError::Ended(_))));
    assert!(matches!(instance.health(), Err(CallError::Ended(_))));
}

#[test]
fn a_worker_that_dies_ends_its_calls_and_says_so() {
    let world = World::wat(&spinning());
    let instance = world.start();
    std::thread::scope(|scope| {
        let running = scope.spawn(|| ask(&*instance));
        std::thread::sleep(Duration::from_millis(100));
        world.workers.murder();
        assert!(matches!(running.join().unwrap(), Err(CallError::Ended(_))));
    });
    assert!(instance.has_ended());
    assert!(matches!(ask(&*instance), Err(CallError::Ended(_))));
}
