//! Guests that mean harm: each ends in an error of its own, and its worker goes on.

use crate::support::{World, ask, call_of, packed, plugin, run};
use airlock_plugin::{CallError, StartError};
use serde_json::json;
use std::time::{Duration, Instant};

/// Lets a guest do harm three times; after each, the same worker answers a harmless call.
fn contained(execute: &str, wanted: &CallError) {
    contained_with("", execute, wanted);
}

fn contained_with(more: &str, execute: &str, wanted: &CallError) {
    // A call with long arguments is the harmless one.
    let both = format!(
        "(if (i32.gt_u (local.get $length) (i32.const 260)) (then (return (call $ok))))
        {execute}"
    );
    let world = World::wat(&plugin(more, "text", &both)).limits(|limits| {
        limits.fuel = 50_000_000;
    });
    let instance = world.start();
    for _ in 0..3 {
        assert_eq!(ask(&*instance).as_ref(), Err(wanted), "{execute}");
        let harmless = call_of("try", json!({ "padding": "x".repeat(300) }));
        assert_eq!(run(&*instance, &harmless), Ok(json!("done")));
    }
    assert!(!instance.has_ended());
}

#[test]
fn an_infinite_loop_runs_out_of_fuel() {
    contained(
        "(loop $again (br $again)) unreachable",
        &CallError::Limit("fuel"),
    );
}

#[test]
fn an_infinite_loop_with_fuel_for_ages_runs_out_of_time() {
    let spinning = plugin("", "", "(loop $again (br $again)) unreachable");
    let instance = World::wat(&spinning)
        .limits(|limits| {
            limits.fuel = u64::MAX;
            limits.deadline = Duration::from_millis(100);
        })
        .start();
    let begun = Instant::now();
    let late = CallError::TimedOut(Duration::from_millis(100));
    assert_eq!(ask(&*instance), Err(late), "by its own limit");
    let mut call = call_of("try", json!({}));
    call.deadline = Duration::from_millis(20);
    let late = CallError::TimedOut(Duration::from_millis(20));
    assert_eq!(run(&*instance, &call), Err(late), "by the caller's");
    assert!(begun.elapsed() < Duration::from_secs(30));
    assert_eq!(instance.health(), Ok(()));
}

#[test]
fn deep_recursion_runs_out_of_stack() {
    contained_with(
        "(func $deep (param i64) (result i64) (i64.add (call $deep (i64.add (local.get 0) (i64.const 1))) (i64.const 1)))",
        "(return (call $deep (i64.const 0)))",
        &CallError::Limit("stack"),
    );
}

#[test]
fn memory_growth_runs_out_of_memory() {
    for pages in ["1", "10", "65535", "-1"] {
        contained(
            &format!(
                "(loop $again (drop (memory.grow (i32.const {pages}))) (br $again)) unreachable"
            ),
            &CallError::Limit("memory"),
        );
    }
}

#[test]
fn table_growth_runs_out_of_tables() {
    for elements in ["100", "10000000"] {
        contained_with(
            "(table $t 1 funcref)",
            &format!(
                "(loop $again (drop (table.grow $t (ref.null func) (i32.const {elements}))) (br $again)) unreachable"
            ),
            &CallError::Limit("tables"),
        );
    }
}

#[test]
fn traps_end_the_call_and_nothing_else() {
    for (execute, what) in [
        ("unreachable", "wasm `unreachable` instruction executed"),
        (
            "(drop (i32.load (i32.const -4))) unreachable",
            "out of bounds memory access",
        ),
        (
            "(drop (i32.load offset=4294967295 (i32.const -1))) unreachable",
            "out of bounds memory access",
        ),
        (
            "(memory.fill (i32.const 131000) (i32.const 0) (i32.const 1000)) unreachable",
            "out of bounds memory access",
        ),
        (
            "(drop (i32.div_u (i32.const 1) (local.get $n))) unreachable",
            "integer divide by zero",
        ),
    ] {
        let wanted = CallError::Tool(format!("it trapped: wasm trap: {what}"));
        contained(execute, &wanted);
    }
    contained_with(
        "(table $t 2 funcref) (type $f (func))",
        "(call_indirect $t (type $f) (i32.const 1)) unreachable",
        &CallError::Tool("it trapped: wasm trap: uninitialized element".to_owned()),
    );
}

#[test]
fn wild_pointers_and_lengths_are_errors_that_name_the_function() {
    let wild = |function: &str| {
        CallError::Protocol(format!("`{function}` names memory that is not there"))
    };
    // Memory is two pages: 131072 bytes.
    for (pointer, length) in [
        ("131072", "1"),
        ("131071", "2"),
        ("0", "131073"),
        ("-1", "1"),
        ("-1", "-1"),
        ("0", "-1"),
        ("4096", "-4096"),
        ("2147483648", "2147483648"),
    ] {
        let text = format!("(i32.const {pointer}) (i32.const {length})");
        contained(
            &format!("(call $log (i32.const 1) {text}) unreachable"),
            &wild("log"),
        );
        contained(
            &format!("(drop (call $emit {text})) unreachable"),
            &wild("emit"),
        );
    }
    contained(
        "(drop (call $call (i32.const -9) (i32.const 8) (i32.const 0) (i32.const 2))) unreachable",
        &wild("call"),
    );
    contained(
        "(drop (call $call (i32.const 4096) (i32.const 4) (i32.const 131070) (i32.const 9))) unreachable",
        &wild("call"),
    );
    contained(
        "(drop (call $call (i32.const 4096) (i32.const 4) (i32.const 2050) (i32.const 1)))
         (drop (call $take (i32.const -1) (i32.const -1))) unreachable",
        &wild("take"),
    );
    contained("(i64.const -1)", &CallError::TooMuch(100_000));
    contained(
        "(i64.const 0x0001_ffff_0000_1000)",
        &wild("airlock_execute"),
    );
    contained(
        "(call $log (i32.const 9) (i32.const 0) (i32.const 0)) unreachable",
        &CallError::Protocol("`log` knows the levels 0 to 3, not 9".to_owned()),
    );
}

#[test]
fn long_names_and_arguments_of_syscalls_are_refused() {
    contained(
        "(drop (call $call (i32.const 0) (i32.const 257) (i32.const 0) (i32.const 0))) unreachable",
        &CallError::Protocol("`call` is given 257 bytes; 256 is the most".to_owned()),
    );
    contained(
        "(drop (call $call (i32.const 0) (i32.const 1) (i32.const 0) (i32.const 1048577))) unreachable",
        &CallError::Protocol("`call` is given 1048577 bytes; 1048576 is the most".to_owned()),
    );
}

#[test]
fn a_buffer_that_is_too_small_gets_nothing() {
    contained(
        "(local.set $n (call $call (i32.const 4096) (i32.const 4) (i32.const 2050) (i32.const 1)))
         (if (i32.eqz (call $take (i32.const 70000) (i32.sub (local.get $n) (i32.const 1))))
           (then (if (i32.eqz (i32.load (i32.const 70000))) (then (loop $l (br $l))))))
         unreachable",
        &CallError::Limit("fuel"),
    );
}

#[test]
fn text_that_is_not_utf8_and_answers_that_are_no_envelope_are_errors() {
    let bad = CallError::Protocol("`emit` names text that is not UTF-8".to_owned());
    contained(
        "(i32.store (i32.const 5000) (i32.const -1)) (drop (call $emit (i32.const 5000) (i32.const 2))) unreachable",
        &bad,
    );
    for text in [
        "",
        "nonsense",
        "null",
        "{}",
        r#"{"ok":1,"error":"x"}"#,
        r#"{"ok":1} trailing"#,
        r#"{"other":1}"#,
        r#"{"error":{"deep":1}}"#,
    ] {
        let answer = plugin("", text, &format!("(i64.const {})", packed(4096, text)));
        let instance = World::wat(&answer).start();
        let said = ask(&*instance);
        assert!(
            matches!(said, Err(CallError::Protocol(_))),
            "{text}: {said:?}"
        );
        assert_eq!(instance.health(), Ok(()));
    }
    let deep = format!(r#"{{"ok":{}1{}}}"#, "[".repeat(10_000), "]".repeat(10_000));
    let answer = plugin("", &deep, &format!("(i64.const {})", packed(4096, &deep)));
    let said = ask(&*World::wat(&answer).start());
    assert!(matches!(said, Err(CallError::Protocol(_))), "{said:?}");
}

#[test]
fn a_flood_of_output_ends_the_call_at_what_is_kept() {
    contained(
        "(loop $again (drop (call $emit (i32.const 4096) (i32.const 4))) (br $again)) unreachable",
        &CallError::TooMuch(100_000),
    );
    contained(
        "(drop (call $emit (i32.const 5000) (i32.const 100001))) unreachable",
        &CallError::TooMuch(100_000),
    );
    // Together, streamed and answered.
    contained(
        "(drop (call $emit (i32.const 5000) (i32.const 99999))) (return (call $ok))",
        &CallError::TooMuch(100_000),
    );
}

#[test]
fn a_flood_of_log_lines_is_cut_and_the_last_lines_are_kept() {
    let flood = plugin(
        "",
        "line\u{1b}[2J",
        "
        (loop $again
          (call $log (i32.const 2) (i32.const 4096) (i32.const 8))
          (br_if $again (i32.lt_u (local.tee $n (i32.add (local.get $n) (i32.const 1))) (i32.const 50000))))
        (return (call $ok))",
    );
    let instance = World::wat(&flood).start();
    assert_eq!(ask(&*instance), Ok(json!("done")));
    let report = instance.report();
    let lines = report["log"].as_array().unwrap();
    assert_eq!(lines.len(), 100);
    assert_eq!(lines[0], json!({ "level": "warn", "text": "line [2J" }));
}

#[test]
fn a_start_function_that_loops_or_grows_does_not_get_far() {
    let starting = |body: &str| {
        let text = plugin(
            &format!("(func $start {body}) (start $start)"),
            "",
            "(return (call $ok))",
        );
        World::wat(&text)
            .limits(|limits| limits.fuel = 10_000_000)
            .try_start()
            .err()
            .unwrap()
            .to_string()
    };
    for (body, why) in [
        ("(loop $again (br $again))", "its limit of fuel"),
        (
            "(drop (memory.grow (i32.const 100)))",
            "its limit of memory",
        ),
        ("unreachable", "wasm `unreachable` instruction executed"),
        (
            "(drop (call $call (i32.const 0) (i32.const 1) (i32.const 0) (i32.const 1)))",
            "it makes a syscall while it describes itself",
        ),
    ] {
        let said = starting(body);
        assert!(said.contains(why), "{body}: {said}");
    }
}

#[test]
fn a_table_or_memory_that_begins_over_its_limit_is_not_loaded() {
    let text = plugin("(table 100000 funcref)", "", "(return (call $ok))");
    let refused = World::wat(&text).try_start().err().unwrap();
    assert!(matches!(refused, StartError::Protocol(_)), "{refused}");
    let text = plugin("", "", "(return (call $ok))").replace(r#""memory") 2)"#, r#""memory") 17)"#);
    let refused = World::wat(&text).try_start().err().unwrap();
    assert!(matches!(refused, StartError::Protocol(_)), "{refused}");
    assert!(refused.to_string().contains("memory"), "{refused}");
}

#[test]
fn an_allocator_that_lies_is_an_error() {
    for pointer in ["-1", "131072", "131000"] {
        let text = plugin("", "", "(return (call $ok))").replace(
            "global.get $free\n",
            &format!("(return (i32.const {pointer}))\n"),
        );
        let instance = World::wat(&text).start();
        let wild = CallError::Protocol("`airlock_alloc` names memory that is not there".to_owned());
        assert_eq!(ask(&*instance), Err(wild), "{pointer}");
    }
}

#[test]
fn the_worker_is_confined_before_it_reads_a_plugin_and_stays_so() {
    let world = World::wat(&plugin("", "", "(return (call $ok))"));
    let instance = world.start();
    assert_eq!(world.workers.status("Seccomp"), "2", "a filter");
    assert_eq!(world.workers.status("NoNewPrivs"), "1");
    assert_eq!(ask(&*instance), Ok(json!("done")));
    // The box has five threads for it.
    let threads: u32 = world.workers.status("Threads").parse().unwrap();
    assert!(threads <= 5 + 1, "{threads}: one is the test harness's own");
}
