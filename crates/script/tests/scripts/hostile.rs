//! Scripts that do their worst. Each is answered by a denial that says why, or by nothing worse
//! than a timeout, and the worker lives on.

use crate::support::{HASTY, PATIENT, ask, extension, javascript, read, said};
use airlock_policy::{Extension, ExtensionFailure, Opinion};
use airlock_script::{Limits, StartError};
use std::time::{Duration, Instant};

/// A script whose function has this body, or the script itself.
fn body(body: &str) -> String {
    if body.contains("export default") {
        return body.to_owned();
    }
    format!("export default function (request) {{ {body} }}")
}

/// A case, the body of a function or a whole script, and a part of the reason.
const NO_ANSWERS: &[(&str, &str, &str)] = &[
    ("nothing", "", "returned nothing"),
    ("null", "return null", "type `null`"),
    ("true", "return true", "type `bool`"),
    ("a number", "return 1", "type `int`"),
    ("a list", "return ['allow']", "type `array`"),
    ("a function", "return () => 'allow'", "type `function`"),
    ("another word", "return 'ALLOW'", "unknown decision `ALLOW`"),
    ("a word with more", "return 'allow\\n'", "unknown decision"),
    (
        "a String object",
        "return new String('allow')",
        "`decision` is nothing",
    ),
    ("an empty object", "return {}", "`decision` is nothing"),
    (
        "a decision that is an object",
        "return { decision: { toString: () => 'allow' } }",
        "`decision` is a value of type `object`",
    ),
    (
        "a reason that is no text",
        "return { decision: 'allow', reason: 1 }",
        "`reason` is a value of type `int`",
    ),
    (
        "a promise",
        "export default async function () { return 'allow' }",
        "must not be `async`",
    ),
    (
        "a promise by hand",
        "return (async () => 'allow')()",
        "must not be `async`",
    ),
    (
        "a generator",
        "export default function* () { return 'allow' }",
        "`decision` is nothing",
    ),
    (
        "a proxy",
        "return new Proxy({ decision: 'allow' }, {})",
        "returned a value of type",
    ),
    (
        "a revoked proxy",
        "const { proxy, revoke } = Proxy.revocable({}, {}); revoke(); return proxy",
        "returned a value of type",
    ),
    (
        "a lone surrogate as decision",
        "return '\\ud800'",
        "well-formed",
    ),
    (
        "a lone surrogate as reason",
        "return { decision: 'allow', reason: 'a\\udfffb' }",
        "well-formed",
    ),
    (
        "a throwing getter",
        "return { get decision() { throw new Error('boo') } }",
        "threw Error: boo",
    ),
    (
        "a throwing reason",
        "return { decision: 'allow', get reason() { throw 'boo' } }",
        "threw `boo`",
    ),
    (
        "an exception",
        "request.nothing.here",
        "threw TypeError: cannot read",
    ),
    (
        "an exception with its place",
        "\n\nexport default () => {\n  throw new RangeError('far') }",
        "RangeError: far at default (guard.js:4:13)",
    ),
    (
        "an exception that hides",
        "const e = new Error('x'); Object.defineProperty(e, 'message', { get() { throw e } }); throw e",
        "threw Error",
    ),
    (
        "a thrown object",
        "throw { toString() { throw 1 } }",
        "threw a value of type `object`",
    ),
    ("a thrown nothing", "throw undefined", "threw nothing"),
    (
        "endless recursion",
        "const f = () => f() + 1; return f()",
        "stack",
    ),
    (
        "recursion in a sort",
        "const f = () => [2, 1].sort(f) && 1; return f()",
        "stack",
    ),
    (
        "recursion in toString",
        "const a = { toString: () => `${a}` }; return `${a}`",
        "stack",
    ),
    (
        "a deep structure",
        "let a = []; for (let i = 0; i < 1e5; i++) a = [a]; return JSON.stringify(a)",
        "stack",
    ),
    ("eval", "return eval('\"allow\"')", "ReferenceError"),
    (
        "indirect eval",
        "return (0, globalThis.eval)('\"allow\"')",
        "TypeError",
    ),
    (
        "Function",
        "return Function('return \"allow\"')()",
        "ReferenceError",
    ),
    (
        "a function's constructor",
        "return (() => 1).constructor('return \"allow\"')()",
        "TypeError",
    ),
    (
        "a native function's constructor",
        "return [].map.constructor('return \"allow\"')()",
        "TypeError",
    ),
    (
        "a generator's constructor",
        "return (function* () {}).constructor('return \"allow\"')()",
        "TypeError",
    ),
    (
        "an async function's constructor",
        "return (async () => 1).constructor('return \"allow\"')()",
        "TypeError",
    ),
    (
        "an async generator's constructor",
        "return (async function* () {}).constructor('x')()",
        "TypeError",
    ),
    (
        "a prototype's constructor",
        "return Reflect.getPrototypeOf(Reflect.getPrototypeOf(async () => 1)).constructor('x')()",
        "TypeError",
    ),
    (
        "a class that extends it",
        "class F extends (() => 1).constructor {}; return new F('x')",
        "TypeError",
    ),
    (
        "putting it back",
        "Object.defineProperty(Object.getPrototypeOf(() => 1), 'constructor', { value: 1 })",
        "TypeError",
    ),
    ("setTimeout", "setTimeout(() => 1, 1)", "ReferenceError"),
    (
        "queueMicrotask",
        "queueMicrotask(() => 1)",
        "ReferenceError",
    ),
    ("Date", "return new Date().toString()", "ReferenceError"),
    ("performance", "return performance.now()", "ReferenceError"),
    ("Math.random", "return Math.random()", "TypeError"),
    (
        "Atomics",
        "Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)",
        "ReferenceError",
    ),
    ("require", "require('fs')", "ReferenceError"),
    ("process", "process.exit(0)", "ReferenceError"),
    ("std", "std.open('/etc/passwd')", "ReferenceError"),
];

#[test]
fn what_is_no_answer_is_a_denial_that_says_why() {
    for (case, script, want) in NO_ANSWERS {
        let extension = javascript(&body(script), PATIENT);
        let (opinion, reason) = said(&extension);
        assert_eq!(opinion, Opinion::Deny, "{case}: {reason}");
        assert!(
            reason.starts_with("the extension `guard` "),
            "{case}: {reason}"
        );
        assert!(reason.contains(want), "{case}: {reason}");
        assert_eq!(
            said(&extension),
            (opinion, reason),
            "{case}: the same again"
        );
    }
}

#[test]
fn scripts_that_use_too_much_memory_are_denied_and_leave_nothing_behind() {
    for (case, script) in [
        ("an array", "const a = []; for (;;) a.push({ a })"),
        ("a string", "let a = 'x'; for (;;) a += a"),
        ("a repeated string", "return 'x'.repeat(2 ** 29)"),
        (
            "an array buffer",
            "return new ArrayBuffer(2 ** 30).byteLength",
        ),
        (
            "many buffers",
            "const a = []; for (;;) a.push(new Uint8Array(1e6).fill(1))",
        ),
        (
            "a map",
            "const a = new Map(); for (let i = 0; ; i++) a.set(i, [i])",
        ),
        ("a big number", "let a = 2n; for (;;) a *= a"),
    ] {
        let (extension, workers) = extension("guard.js", &body(script));
        for _ in 0..2 {
            let (opinion, reason) = said(&extension);
            assert_eq!(opinion, Opinion::Deny, "{case}: {reason}");
            let told = ["ran out of memory", "type `null`", "too "];
            assert!(
                told.iter().any(|word| reason.contains(word)),
                "{case}: {reason}"
            );
        }
        assert_eq!(workers.started(), 1, "{case}");
        let most = workers.status("VmHWM");
        let kibibytes: u64 = most.trim_end_matches(" kB").parse().unwrap();
        // The sandbox around a worker holds 128 MiB.
        assert!(kibibytes < 110 * 1024, "{case}: {most}");
    }
}

#[test]
fn scripts_that_do_not_end_are_timeouts_and_cost_little_more_than_their_time() {
    for (case, script) in [
        ("a loop", "for (;;);"),
        ("a loop that catches", "for (;;) try { for (;;); } catch {}"),
        (
            "a loop that catches last",
            "try { for (;;); } catch { return 'allow' }",
        ),
        (
            "a loop in finally",
            "try { for (;;); } finally { return 'allow' }",
        ),
        (
            "a loop in a getter",
            "return { get decision() { for (;;); } }",
        ),
        (
            "a loop in toString",
            "return `${{ toString() { for (;;); } }}`",
        ),
        (
            "a loop in a comparator",
            "return Array(100).fill(1).sort(() => { for (;;); })",
        ),
        (
            "a loop in toJSON",
            "return JSON.stringify({ toJSON() { for (;;); } })",
        ),
        (
            "a loop in a message",
            "const e = new Error('x'); Object.defineProperty(e, 'message', { get() { for (;;); } }); throw e",
        ),
        (
            "an endless iterator",
            "return [...(function* () { for (;;) yield* []; })()]",
        ),
        (
            "an answer too late",
            "let i = 0; try { for (;;) i++ } catch {} return 'allow'",
        ),
        (
            "backtracking",
            "return /^(a+)+$/.test('a'.repeat(40) + 'b') ? 'deny' : 'allow'",
        ),
        (
            "backtracking in replace",
            "return 'a'.repeat(40).replace(/(a|a)*c/, 'x')",
        ),
    ] {
        let extension = javascript(&body(script), HASTY);
        // The worker ends it by itself, so the second evaluation meets the same worker.
        extension.start().unwrap();
        for _ in 0..2 {
            let begun = Instant::now();
            let answer = ask(&extension);
            assert_eq!(answer, Err(ExtensionFailure::Timeout), "{case}");
            assert!(begun.elapsed() >= HASTY.evaluation, "{case}");
            assert!(begun.elapsed() < Duration::from_secs(10), "{case}");
        }
    }
}

/// Some built-in functions of the interpreter do not look at the time.
#[test]
fn a_worker_stuck_in_a_built_in_function_is_killed_and_replaced() {
    let source = "export default (r) => {
        if (r.paths[0] !== 'a') return 'allow';
        const endless = Object.defineProperty(new Uint8Array(1), 'length', { value: 2 ** 50 });
        Array.prototype.fill.call(endless, 0);
    }";
    let (extension, workers) = extension("guard.js", source);
    let extension = extension.with_limits(Limits {
        evaluation: Duration::from_millis(250),
        margin: Duration::from_secs(1),
        ..PATIENT
    });
    extension.start().unwrap();
    let begun = Instant::now();
    assert_eq!(ask(&extension), Err(ExtensionFailure::Timeout));
    assert!(begun.elapsed() < Duration::from_secs(20));
    assert_eq!((workers.started(), workers.killed()), (1, 1));
    let answer = extension.evaluate(&read("b")).unwrap();
    assert_eq!(answer.opinion, Opinion::Allow);
    assert_eq!(workers.started(), 2);
}

#[test]
fn overriding_what_is_built_in_does_not_reach_the_answer() {
    for (case, script, want) in [
        (
            "JSON",
            "JSON.parse = () => ({}); JSON.stringify = () => 'x'; return request.paths[0] === 'a' ? 'allow' : 'deny'",
            Opinion::Allow,
        ),
        (
            "Array",
            "globalThis.Array = null; Array.prototype",
            Opinion::Deny,
        ),
        (
            "a setter on all objects",
            "Object.defineProperty(Object.prototype, 'decision', { set() { throw 1 }, get: () => 'allow' }); return { decision: 'deny' }",
            Opinion::Deny,
        ),
        (
            "String",
            "String.prototype.toString = () => 'allow'; return 'deny'",
            Opinion::Deny,
        ),
        (
            "a symbol",
            "return { [Symbol.toPrimitive]: () => 'allow', decision: 'deny' }",
            Opinion::Deny,
        ),
    ] {
        let (opinion, reason) = said(&javascript(&body(script), PATIENT));
        assert_eq!(opinion, want, "{case}: {reason}");
    }
}

#[test]
fn reasons_are_bounded_and_plain() {
    let long = javascript(
        &body("return { decision: 'require_review', reason: 'é'.repeat(1e6) }"),
        PATIENT,
    );
    let (opinion, reason) = said(&long);
    assert_eq!(
        (opinion, reason.chars().count()),
        (Opinion::RequireReview, 500)
    );
    let loud = javascript(
        &body(r"return { decision: 'allow', reason: '\x1b[2J\nsudo\u202e' }"),
        PATIENT,
    );
    assert_eq!(said(&loud), (Opinion::Allow, "[2J sudo".to_owned()));
    let silent = javascript(&body("return { decision: 'deny' }"), PATIENT);
    assert_eq!(said(&silent).1, "the extension `guard` denies this");
    let thrown = javascript(
        &body("throw new Error('\\u001b]0;x\\u0007' + 'y'.repeat(1e5))"),
        PATIENT,
    );
    let (_, reason) = said(&thrown);
    assert!(
        reason.chars().count() <= 500 && !reason.contains('\u{1b}'),
        "{reason}"
    );
}

#[test]
fn scripts_that_cannot_be_used_deny_with_the_place_and_start_no_second_worker() {
    for (case, file, source, want) in [
        (
            "a syntax error",
            "guard.ts",
            "export default () => {\n  return 'allow' 'deny'\n}",
            "guard.ts:2:17: ",
        ),
        (
            "an import",
            "guard.ts",
            "import fs from 'fs'",
            "guard.ts:1:1: a policy script is one file",
        ),
        (
            "a dynamic import",
            "guard.js",
            "export default () => import('fs')",
            "guard.js:1:22: a policy script",
        ),
        (
            "an enum",
            "guard.ts",
            "enum A { B }",
            "guard.ts:1:1: an `enum`",
        ),
        (
            "no export",
            "guard.js",
            "const a = 1",
            "exports no function",
        ),
        (
            "an export that is no function",
            "guard.js",
            "export default 'allow'",
            "exports no function",
        ),
        (
            "an error while loading",
            "guard.js",
            "null.x; export default () => 'allow'",
            "loading the script threw TypeError",
        ),
        (
            "a NUL, after which a part could be hidden",
            "guard.js",
            "export default () => 'allow' // \0\n",
            "guard.js",
        ),
        (
            "a redeclaration",
            "guard.js",
            "let a; let a; export default () => 'allow'",
            "guard.js",
        ),
        (
            "a loop while loading",
            "guard.js",
            "for (;;); export default () => 'allow'",
            "loading the script did not answer in time",
        ),
        (
            "waiting while loading",
            "guard.js",
            "await new (async () => 1)().constructor(() => 1); export default () => 'allow'",
            "guard.js",
        ),
        (
            "a promise never kept",
            "guard.js",
            "await { then() {} }; export default () => 'allow'",
            "waits outside its function",
        ),
    ] {
        let (extension, workers) = extension(file, source);
        let ends = !source.contains("for (;;)");
        let extension = extension.with_limits(if ends { PATIENT } else { HASTY });
        for _ in 0..3 {
            let (opinion, reason) = said(&extension);
            assert_eq!(opinion, Opinion::Deny, "{case}");
            assert!(
                reason.contains("cannot be used: ") && reason.contains(want),
                "{case}: {reason}"
            );
        }
        assert_eq!(workers.started(), 1, "{case}");
        let error = extension.start().expect_err(case);
        assert!(
            matches!(error, StartError::Script(_)) && !error.hint().is_empty(),
            "{case}"
        );
    }
}

#[test]
fn scripts_that_overflow_the_parser_or_the_limit_do_not_start() {
    let deep = format!(
        "export default () => {}1{}",
        "(".repeat(60_000),
        ")".repeat(60_000)
    );
    let (extension, _) = extension("guard.ts", &deep);
    let error = extension.start().expect_err("too deep");
    assert!(
        matches!(error, StartError::Worker(_) | StartError::Script(_)),
        "{error}"
    );
    let long = format!("export default () => 'allow' // {}", "x".repeat(300_000));
    let extension = javascript(&long, PATIENT);
    assert_eq!(said(&extension).0, Opinion::Deny);
    assert!(matches!(extension.start(), Err(StartError::TooLong { .. })));
}
