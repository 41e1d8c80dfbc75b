//! Policy scripts with real workers: this program, in its sandbox, on the kernel's road.

use crate::support::{World, whole};
use airlock_kernel::{
    Call, Clock, DEFAULT_OUTPUT_BYTES, Front, Kernel, KernelConfig, Lifetime, Outcome,
    PolicyOrigin, WorkerProgram,
};
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};

const FILE: &str = ".airlock/guard.js";

/// Denies `secret.txt`, allows `open.txt`, has no opinion on others.
const GUARD: &str = "export default ({ paths }) => {
  if (paths.includes('secret.txt')) return { decision: 'deny', reason: 'the guard says no' };
  return paths.includes('open.txt') ? 'allow' : 'pass';
};
";

const ALLOW: &str = "  - name: read
    match: { effect: read, path_glob: \"**\" }
    action: allow
    reason: fine
";
const DENY: &str = "  - name: no
    match: { effect: read, path_glob: \"**\" }
    action: deny
    reason: never
";

/// A workspace whose approved policy has `rules` and lists `script` for `fs.*` and searches.
fn world(rules: &str, script: &str) -> World {
    let world = World::project();
    for name in ["a.txt", "secret.txt", "open.txt"] {
        world.write(name, "needle\n");
    }
    world.write(FILE, script);
    let rules = if rules.is_empty() { " []" } else { rules };
    world.write(
        ".airlock/policy.yaml",
        format!(
            "version: 1\nextensions:\n  - name: guard\n    file: {FILE}\n    \
             syscall: [\"fs.*\", \"search.*\"]\nrules:\n{rules}"
        ),
    );
    let kernel = open(&world);
    let digest = kernel.workspace().trust().unwrap().digest();
    let call = Call::new("trust.approve", json!({ "digest": digest }));
    let Outcome::NeedsReview(mut review) = kernel.submit(Front::Cli, &call) else {
        panic!("trust needs a review");
    };
    let flags = rustix::pty::OpenptFlags::RDWR | rustix::pty::OpenptFlags::NOCTTY;
    let person = kernel.person(rustix::pty::openpt(flags).unwrap(), None);
    kernel.answer(person.unwrap(), &mut review, true).unwrap();
    let Outcome::Done(_) = kernel.submit(Front::Cli, &call) else {
        panic!("trust was approved");
    };
    world
}

/// A kernel that stays, with this program as its worker. Its workers carry the world's directory
/// among their arguments, by which they are found.
fn open(world: &World) -> Kernel {
    let workspace = world.workspace();
    let kernel = Kernel::open(KernelConfig {
        workspace: workspace.clone(),
        state_home: world.path("state"),
        clock: Clock::system(),
        lifetime: Lifetime::Long,
        output_bytes: DEFAULT_OUTPUT_BYTES,
        search_threads: 2,
        worker: Some(WorkerProgram {
            path: Path::new(whole()).canonicalize().unwrap(),
            arguments: vec![
                "--workspace".into(),
                workspace.into(),
                "script-worker".into(),
            ],
        }),
    });
    kernel.unwrap()
}

fn submit(kernel: &Kernel, name: &str, arguments: Value) -> Outcome {
    kernel.submit(Front::Agent, &Call::new(name, arguments))
}

/// `done`, or the reasons of the denial.
fn read(kernel: &Kernel, path: &str) -> String {
    match submit(kernel, "fs.read", json!({ "path": path })) {
        Outcome::Done(_) => "done".to_owned(),
        Outcome::Denied(denied) => {
            let reasons = denied.decision.deciding().map(|one| one.reason.to_string());
            reasons.collect::<Vec<_>>().join("; ")
        }
        other @ (Outcome::NeedsReview(_) | Outcome::Failed(_)) => panic!("{other:?}"),
    }
}

/// The workers of `world` that run now.
fn workers(world: &World) -> Vec<i32> {
    let mark = world.workspace().to_str().unwrap().to_owned();
    let processes = std::fs::read_dir("/proc").unwrap();
    processes
        .filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok())
        .filter(|pid: &i32| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).into_owned();
            line.contains(&mark) && line.contains("script-worker")
        })
        .collect()
}

fn only_worker(world: &World) -> i32 {
    let found = workers(world);
    assert_eq!(found.len(), 1, "{found:?}");
    found[0]
}

/// Kills the worker as the system would for lack of memory, and waits until it is gone.
fn murder(world: &World) -> i32 {
    let pid = only_worker(world);
    let process = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::KILL).unwrap();
    let begun = Instant::now();
    while workers(world).contains(&pid) {
        assert!(begun.elapsed() < Duration::from_secs(20), "{pid} lives on");
        std::thread::sleep(Duration::from_millis(5));
    }
    pid
}

/// What the system says about a process, under `key`.
fn status(pid: i32, key: &str) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    lines
        .find(|(name, _)| *name == key)
        .unwrap()
        .1
        .trim()
        .to_owned()
}

#[test]
fn the_normative_cases_hold_with_real_workers() {
    for (case, rules, path, want, started) in [
        (
            "5: allowed, the extension denies",
            ALLOW,
            "secret.txt",
            "the guard says no",
            1,
        ),
        (
            "11: denied, the extension would allow",
            DENY,
            "open.txt",
            "never",
            0,
        ),
        ("17: allowed twice", ALLOW, "open.txt", "done", 1),
        ("allowed by the extension alone", "", "open.txt", "done", 1),
        (
            "no opinion from anybody",
            "",
            "a.txt",
            "no rule allows this",
            1,
        ),
    ] {
        let world = world(rules, GUARD);
        let kernel = open(&world);
        assert_eq!(workers(&world).len(), 0, "{case}: nothing asked yet");
        assert_eq!(read(&kernel, path), want, "{case}");
        assert_eq!(workers(&world).len(), started, "{case}");
    }
}

#[test]
fn a_killed_worker_is_a_denial_and_is_started_again_once() {
    let world = world(ALLOW, GUARD);
    let kernel = open(&world);
    assert_eq!(read(&kernel, "a.txt"), "done");
    let first = murder(&world);
    // Case 20.
    assert_eq!(read(&kernel, "a.txt"), "the extension `guard` crashed");
    assert_ne!(only_worker(&world), first, "started again");
    assert_eq!(read(&kernel, "a.txt"), "done");
    assert_eq!(read(&kernel, "secret.txt"), "the guard says no");
    murder(&world);
    assert_eq!(read(&kernel, "a.txt"), "the extension `guard` crashed");
    let disabled = "the extension `guard` is disabled until it is reloaded";
    assert_eq!(read(&kernel, "a.txt"), disabled);
    assert_eq!(workers(&world).len(), 0, "not started a second time");
}

#[test]
fn a_worker_is_warm_confined_and_gone_with_its_kernel() {
    let world = world(ALLOW, GUARD);
    let kernel = open(&world);
    read(&kernel, "a.txt");
    let worker = only_worker(&world);
    for (key, want) in [
        ("NoNewPrivs", "1"),
        ("Seccomp", "2"),
        ("Seccomp_filters", "2"),
        ("CapEff", "0000000000000000"),
        ("CapBnd", "0000000000000000"),
        ("Threads", "1"),
    ] {
        assert_eq!(status(worker, key), want, "{key}");
    }
    for _ in 0..5 {
        assert_eq!(read(&kernel, "a.txt"), "done");
    }
    assert_eq!(only_worker(&world), worker, "the same one answers");
    let init = status(worker, "PPid");
    assert!(Path::new("/proc").join(&init).exists());
    drop(kernel);
    assert_eq!(workers(&world).len(), 0);
    assert!(!Path::new("/proc").join(&init).exists(), "its sandbox too");
}

#[test]
fn hostile_scripts_get_nothing_but_denials() {
    let names = "require process module Deno Bun std os fetch XMLHttpRequest WebSocket eval \
                 Function Promise setTimeout performance crypto print load read scriptArgs";
    let looks = format!(
        "export default () => {{
           const found = '{names}'.split(' ').filter((name) => name in globalThis);
           return {{ decision: 'deny', reason: 'found [' + found + ']' }};
         }};"
    );
    for (case, script, want) in [
        ("looks for a way out", looks.as_str(), "found []"),
        (
            "imports",
            "import { open } from 'os'; export default () => 'allow';",
            "cannot be asked: .airlock/guard.js:1:1",
        ),
        (
            "loops",
            "export default () => { for (;;); };",
            "did not answer in time",
        ),
        ("loops while it loads", "for (;;);", "cannot be asked"),
        // Out of memory or out of time, whichever comes first.
        (
            "bombs memory",
            "export default () => { const all = []; for (;;) all.push(new Array(1e6).fill(1)); };",
            "the extension `guard` ",
        ),
        (
            "bombs memory in one piece",
            "export default () => new ArrayBuffer(2 ** 31).byteLength ? 'allow' : 'allow';",
            "the extension `guard` ",
        ),
        (
            "never stops calling",
            "const f = () => f() + 1; export default f;",
            "threw",
        ),
        (
            "throws",
            "export default () => { throw new Error('no\\u001b[2J'); };",
            "threw",
        ),
        ("says nonsense", "export default () => 'ALLOW';", "returned"),
        (
            "promises",
            "export default async () => 'allow';",
            "the extension `guard` ",
        ),
        (
            "does not parse",
            "export default (",
            "cannot be asked: .airlock/guard.js:",
        ),
    ] {
        let world = world(ALLOW, script);
        let kernel = open(&world);
        let reason = read(&kernel, "a.txt");
        assert!(reason.contains(want), "{case}: {reason}");
        assert!(!reason.contains('\u{1b}'), "{case}: {reason:?}");
        let again = read(&kernel, "a.txt");
        assert!(again.contains(want), "{case}, asked again: {again}");
        drop(kernel);
        assert_eq!(workers(&world).len(), 0, "{case}");
    }
}

#[test]
fn a_changed_script_is_never_run() {
    let world = world(ALLOW, GUARD);
    let (cold, warm) = (open(&world), open(&world));
    assert_eq!(read(&warm, "secret.txt"), "the guard says no");
    world.write(FILE, "export default () => 'allow';");
    let reason = read(&cold, "secret.txt");
    assert!(reason.contains("is not what was approved"), "{reason}");
    assert!(reason.contains("`airlock trust`"), "{reason}");
    // What runs is what was approved, also after it had to be started again.
    assert_eq!(read(&warm, "secret.txt"), "the guard says no");
    murder(&world);
    assert_eq!(read(&warm, "secret.txt"), "the extension `guard` crashed");
    assert_eq!(read(&warm, "secret.txt"), "the guard says no");
    assert_eq!(open(&world).policy().origin(), PolicyOrigin::Untrusted);
}

#[test]
fn searches_show_nothing_the_script_denies() {
    let world = world(ALLOW, GUARD);
    let kernel = open(&world);
    let answer = submit(&kernel, "search.grep", json!({ "pattern": "needle" }));
    let Outcome::Done(done) = answer else {
        panic!("{answer:?}");
    };
    let text = done.value.to_string();
    assert!(
        text.contains("a.txt") && text.contains("open.txt"),
        "{text}"
    );
    assert!(!text.contains("secret.txt"), "{text}");
}

/// What comes of reading `path` once the machine has a moment for the script.
fn read_in_time(kernel: &Kernel, path: &str) -> String {
    let mut told = String::new();
    for _ in 0..50 {
        told = read(kernel, path);
        if told != "the extension `guard` did not answer in time" {
            break;
        }
    }
    told
}

#[test]
fn many_threads_ask_one_worker() {
    let world = world(ALLOW, GUARD);
    let kernel = open(&world);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..2 {
                    assert_eq!(read_in_time(&kernel, "a.txt"), "done");
                    assert_eq!(read_in_time(&kernel, "secret.txt"), "the guard says no");
                }
            });
        }
    });
    only_worker(&world);
}

#[test]
fn commands_explain_test_and_check_with_the_script() {
    let world = world(ALLOW, GUARD);
    let explained = world.quiet(&["policy", "explain", "fs.read", "--path", "secret.txt"]);
    assert_eq!(explained.code, Some(3), "{explained:?}");
    assert!(
        explained.stdout.contains("the guard says no"),
        "{explained:?}"
    );
    let called = world.quiet(&["tool", "call", "fs.read", "path=secret.txt"]);
    assert_eq!(called.code, Some(3), "{called:?}");
    assert!(called.stderr.contains("the guard says no"), "{called:?}");
    world.write(
        "tests.yaml",
        "tests:\n  - request: { syscall: fs.read, path: secret.txt }\n    expect: deny\n    \
         rule: guard\n  - request: { syscall: fs.read, path: a.txt }\n    expect: allow\n",
    );
    let tested = world.quiet(&["policy", "test", "tests.yaml"]);
    assert_eq!(tested.code, Some(0), "{tested:?}");
    let checked = world.quiet(&["policy", "check"]);
    assert_eq!(checked.code, Some(0), "{checked:?}");
}

#[test]
fn a_check_names_the_place_at_which_a_script_does_not_load() {
    let broken = world(ALLOW, "const a = 1;\nexport default ( => 'pass';\n");
    let checked = broken.quiet(&["policy", "check"]);
    assert_eq!(checked.code, Some(2), "{checked:?}");
    assert!(
        checked.stderr.contains(".airlock/guard.js:2:"),
        "{checked:?}"
    );
    // Nothing of a workspace runs before it is trusted.
    broken.write(FILE, "also not what was approved (");
    let checked = broken.quiet(&["policy", "check"]);
    assert_eq!(checked.code, Some(0), "{checked:?}");
    assert!(checked.stderr.contains("airlock trust"), "{checked:?}");
}

#[test]
fn a_worker_that_is_given_nonsense_ends_with_an_error() {
    let world = World::new();
    let mut command = world.command(&["script-worker"]);
    let ran = crate::support::fed(&mut command, "hello, worker\n");
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert_eq!(ran.stdout, "");
}
