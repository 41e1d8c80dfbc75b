//! Attempts to get something past the road: trust nobody gave, content policy denies, secrets in
//! results and records, calls that stall. Each test is one attempt that must fail.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod support;

use airlock_core::{Digest, Timestamp};
use airlock_kernel::{
    Call, Clock, Front, Kernel, KernelConfig, Lifetime, Outcome, PolicyOrigin, Workspace,
    sanitise_line,
};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

struct Place {
    _outer: tempfile::TempDir,
    root: PathBuf,
    state: PathBuf,
}

impl Place {
    fn new(files: &[(&str, &str)]) -> Self {
        let outer = tempfile::tempdir().unwrap();
        let place = Self {
            root: outer.path().join("w"),
            state: outer.path().join("state"),
            _outer: outer,
        };
        fs::create_dir(&place.root).unwrap();
        for (path, text) in files {
            place.write(path, text);
        }
        place
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn open(&self) -> Kernel {
        Kernel::open(KernelConfig {
            workspace: self.root.clone(),
            state_home: self.state.clone(),
            clock: Clock::from_fn(|| Timestamp::from_micros(1_767_225_600_000_000)),
            lifetime: Lifetime::Command,
            output_bytes: 16_000,
            search_threads: 2,
            worker: None,
        })
        .unwrap()
    }

    /// A kernel with `policy` in force, which a person approved.
    fn governed(files: &[(&str, &str)], policy: &str) -> (Self, Kernel) {
        let place = Self::new(files);
        place.write(".airlock/policy.yaml", policy);
        let kernel = place.open();
        let digest: Digest = kernel.workspace().trust().unwrap().digest();
        let call = Call::new("trust.approve", json!({ "digest": digest }));
        let Outcome::NeedsReview(mut review) = kernel.submit(Front::Cli, &call) else {
            panic!("trusting files is reviewed")
        };
        support::answer(&kernel, &mut review, true).unwrap();
        let done = kernel.submit(Front::Cli, &call);
        assert!(matches!(done, Outcome::Done(_)), "{done:?}");
        (place, kernel)
    }
}

fn call(kernel: &Kernel, name: &str, arguments: Value) -> Outcome {
    kernel.submit(Front::Agent, &Call::new(name, arguments))
}

fn shown(outcome: &Outcome) -> String {
    format!("{outcome:?}")
}

fn token() -> String {
    format!("ghp_{}", "aB1".repeat(12))
}

fn everything_logged(kernel: &Kernel) -> String {
    let mut bytes = Vec::new();
    kernel
        .log()
        .export(&mut bytes, airlock_audit::ExportFormat::Jsonl)
        .unwrap();
    String::from_utf8(bytes).unwrap()
}

const READ_ALL: &str = "  - { name: r, match: { effect: read, path_glob: '**' }, action: allow }\n";

#[test]
fn a_starter_policy_approves_nothing_but_itself() {
    let place = Place::new(&[
        (".airlock/config.yaml", "anything: here\n"),
        (".airlock/plugins/evil/run.js", "evil()\n"),
    ]);
    let kernel = place.open();
    let done = kernel.submit(Front::Cli, &Call::new("policy.init", json!({})));
    let trust = kernel.workspace().trust().unwrap();
    assert!(
        trust.config().is_none(),
        "nobody approved the configuration"
    );
    assert!(!trust.holds(), "nobody approved the plugin: {done:?}");
    assert_ne!(kernel.policy().origin(), PolicyOrigin::Workspace);
}

#[test]
fn a_policy_update_approves_nothing_but_the_policy() {
    let (place, kernel) = Place::governed(&[], &format!("version: 1\nrules:\n{READ_ALL}"));
    place.write(".airlock/plugins/evil/run.js", "evil()\n");
    let text = format!("version: 1\n# new\nrules:\n{READ_ALL}");
    let update = Call::new("policy.update", json!({ "text": text }));
    let Outcome::NeedsReview(mut review) = kernel.submit(Front::Cli, &update) else {
        panic!("a policy update is reviewed")
    };
    support::answer(&kernel, &mut review, true).unwrap();
    let _ = kernel.submit(Front::Cli, &update);
    let trust = kernel.workspace().trust().unwrap();
    let evil = ".airlock/plugins/evil/run.js";
    let report = trust
        .report()
        .iter()
        .find(|file| file.path == evil)
        .unwrap();
    assert_eq!(report.change, airlock_kernel::TrustChange::New);
}

#[test]
fn the_owner_role_a_policy_narrows_binds_the_local_user() {
    let policy =
        format!("version: 1\nroles: {{ owner: [audit.read, trust.manage] }}\nrules:\n{READ_ALL}");
    let (_place, kernel) = Place::governed(&[("a.txt", "x\n")], &policy);
    let outcome = call(&kernel, "fs.read", json!({ "path": "a.txt" }));
    assert!(matches!(outcome, Outcome::Denied(_)), "{outcome:?}");
}

#[test]
fn what_may_not_be_read_cannot_be_searched() {
    let policy = format!(
        "version: 1\nrules:\n{READ_ALL}  - {{ name: d, match: {{ syscall: fs.read, path_glob: secret.txt }}, action: deny }}\n"
    );
    let (_place, kernel) = Place::governed(&[("secret.txt", "the-content\n")], &policy);
    let read = call(&kernel, "fs.read", json!({ "path": "secret.txt" }));
    assert!(matches!(read, Outcome::Denied(_)), "{read:?}");
    for arguments in [
        json!({ "pattern": "the-c" }),
        json!({ "pattern": "the-c", "path": "secret.txt" }),
    ] {
        let found = shown(&call(&kernel, "search.grep", arguments));
        assert!(!found.contains("the-content"), "{found}");
    }
}

#[test]
fn a_pattern_does_not_probe_the_names_of_withheld_files() {
    let place = Place::new(&[(".env.production", "x\n"), ("a.txt", "x\n")]);
    let kernel = place.open();
    let hidden = |pattern: &str| match call(
        &kernel,
        "search.glob",
        json!({ "pattern": pattern, "all": true }),
    ) {
        Outcome::Done(done) => done.hidden,
        other @ (Outcome::Denied(_) | Outcome::NeedsReview(_) | Outcome::Failed(_)) => {
            panic!("{other:?}")
        }
    };
    assert_eq!(hidden(".env.prod*"), hidden(".env.stag*"));
}

const KEY_BODY: &str = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSj";

fn key_file() -> String {
    format!(
        "set -e\n-----BEGIN {0} PRIVATE KEY-----\n{KEY_BODY}\nAgEAAoIBAQC7VJTUt9Us8cKj\n-----END {0} PRIVATE KEY-----\n",
        "RSA"
    )
}

#[test]
fn a_private_key_read_whole_is_replaced() {
    let place = Place::new(&[("deploy.sh", &key_file())]);
    let kernel = place.open();
    let read = shown(&call(&kernel, "fs.read", json!({ "path": "deploy.sh" })));
    assert!(!read.contains(KEY_BODY), "{read}");
}

#[test]
fn a_private_key_read_in_parts_is_replaced_too() {
    let place = Place::new(&[("deploy.sh", &key_file())]);
    let kernel = place.open();
    for (tool, arguments) in [
        ("fs.read", json!({ "path": "deploy.sh", "offset_line": 3 })),
        ("search.grep", json!({ "pattern": "MII" })),
    ] {
        let text = shown(&call(&kernel, tool, arguments));
        assert!(!text.contains(KEY_BODY), "{tool}: {text}");
    }
}

#[test]
fn a_token_cut_off_by_a_limit_is_replaced_too() {
    let token = token();
    let place = Place::new(&[("t.txt", &format!("{token}\n"))]);
    let kernel = place.open();
    let arguments = json!({ "path": "t.txt", "max_bytes": token.len() - 1 });
    let text = shown(&call(&kernel, "fs.read", arguments));
    let most: String = token.chars().take(30).collect();
    assert!(!text.contains(&most), "{text}");
}

#[test]
fn a_token_behind_an_escape_is_replaced() {
    for text in [
        format!(r#"{{"env":"A=1\n{}"}}"#, token()),
        format!("A%3D{}", token()),
        format!("key_{}", token()),
    ] {
        let line = sanitise_line(&text, 500);
        assert!(!line.contains(&token()), "{line}");
    }
}

#[test]
fn no_secret_reaches_the_log_by_way_of_a_path_or_an_escaped_argument() {
    let place = Place::new(&[]);
    let kernel = place.open();
    let _ = call(&kernel, "fs.read", json!({ "path": token() }));
    let _ = call(
        &kernel,
        "fs.read",
        json!({ "path": format!("x\n{}", token()) }),
    );
    let logged = everything_logged(&kernel);
    assert!(!logged.contains(&token()));
}

#[test]
fn an_argument_full_of_key_headers_does_not_stall_the_road() {
    let header = format!("-----BEGIN {}-----\n", "PRIVATE KEY");
    let begin = Instant::now();
    let _ = sanitise_line(&header.repeat(16_000), 500);
    let took = begin.elapsed();
    assert!(took < Duration::from_secs(2), "{took:?}");
}

#[test]
fn state_inside_the_workspace_is_refused_however_it_is_spelt() {
    let place = Place::new(&[("sub/a", "")]);
    let odd = place.root.join("../w/state");
    assert!(Workspace::open(&place.root, &odd).is_err());
    let link = place.state.join("airlock");
    fs::create_dir_all(&place.state).unwrap();
    std::os::unix::fs::symlink(place.root.join("sub"), &link).unwrap();
    assert!(Workspace::open(&place.root, &place.state).is_err());
}

#[test]
fn a_limit_on_time_binds_a_search() {
    let policy = "version: 1\nrules:\n  - { name: r, match: { effect: read, path_glob: '**' }, action: allow, constraints: { max_duration: 1ms } }\n";
    let line = format!("{}\n", "a".repeat(200)).repeat(20_000);
    let files: Vec<(String, &str)> = (0..8).map(|n| (format!("f{n}"), &*line)).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (&**name, *text)).collect();
    let (_place, kernel) = Place::governed(&files, policy);
    let arguments = json!({ "pattern": "(a|aa|aaa)*b" });
    let outcome = call(&kernel, "search.grep", arguments);
    assert!(!matches!(outcome, Outcome::Done(_)), "{outcome:?}");
}

#[test]
fn a_denied_file_cannot_be_told_from_one_that_is_not_there() {
    let place = Place::new(&[(".env", "x\n"), ("d/.ssh/id", "x\n")]);
    std::os::unix::fs::symlink(".env", place.root.join("link")).unwrap();
    std::os::unix::fs::symlink(".env.absent", place.root.join("dangling")).unwrap();
    let kernel = place.open();
    let kinds = |path: &str| {
        ["fs.read", "fs.exists", "fs.list", "search.grep"].map(|tool| {
            let arguments = match tool {
                "search.grep" => json!({ "pattern": "x", "path": path }),
                _ => json!({ "path": path }),
            };
            matches!(call(&kernel, tool, arguments), Outcome::Denied(_))
        })
    };
    for path in [
        ".env",
        ".env.absent",
        "link",
        "dangling",
        "d/.ssh/id",
        "d/.ssh/absent",
        "./d/../.env",
    ] {
        assert_eq!(kinds(path), [true; 4], "{path}");
    }
}

#[test]
fn an_agent_reaches_no_syscall_that_steers_airlock() {
    let place = Place::new(&[]);
    let kernel = place.open();
    for (name, arguments) in [
        ("policy.init", json!({})),
        ("policy.update", json!({ "text": "version: 1\n" })),
        ("trust.revoke", json!({})),
        ("audit.read", json!({ "purpose": "log" })),
        ("trust.approve", json!({ "digest": "0".repeat(64) })),
    ] {
        for front in [Front::Agent, Front::Mcp, Front::Server] {
            let outcome = kernel.submit(front, &Call::new(name, arguments.clone()));
            assert!(matches!(outcome, Outcome::Denied(_)), "{name}: {outcome:?}");
        }
    }
    assert!(!Path::new(&place.root).join(".airlock").exists());
}

#[test]
fn every_attempt_on_an_odd_path_outside_is_recorded() {
    let place = Place::new(&[]);
    let kernel = place.open();
    for path in [
        format!("/{}", "\u{1}".repeat(2_000)),
        format!("/x/.\u{7}./{}", token()),
    ] {
        let before = everything_logged(&kernel).lines().count();
        let outcome = call(&kernel, "fs.read", json!({ "path": path }));
        assert!(matches!(outcome, Outcome::Denied(_)), "{outcome:?}");
        assert!(everything_logged(&kernel).lines().count() > before);
    }
}

#[test]
fn a_call_full_of_key_headers_is_answered_quickly() {
    let place = Place::new(&[]);
    let kernel = place.open();
    let header = format!("-----BEGIN {}-----\n", "PRIVATE KEY");
    let begin = Instant::now();
    let arguments = json!({ "path": header.repeat(16_000) });
    let _ = call(&kernel, "fs.read", arguments);
    let took = begin.elapsed();
    assert!(took < Duration::from_secs(2), "{took:?}");
}
