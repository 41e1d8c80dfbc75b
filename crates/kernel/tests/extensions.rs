//! Extensions that cannot be asked: every decision that would ask one is a denial that says why.
//!
//! Extensions that answer need a program that is a worker: the tests of the `airlock` command.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod support;

use airlock_core::Digest;
use airlock_kernel::{Front, Kernel, PolicyOrigin, TrustChange, WorkerProgram};
use serde_json::json;
use std::fs;
use std::os::unix::fs::symlink;
use support::{Place, approved, denied, failed, records, review, submit, trust, update, word};

const SCRIPT: &str = "export default () => \"pass\";\n";
const FILE: &str = ".airlock/guard.js";

/// A policy that allows reading and lists one extension, with these other lines.
fn policy(file: &str, lines: &str) -> String {
    format!(
        "version: 1\nextensions:\n  - name: guard\n    file: {file}\n{lines}\
         rules:\n  - name: read\n    match: {{ effect: read, path_glob: \"**\" }}\n    \
         action: allow\n    reason: fine\n"
    )
}

fn place(lines: &str) -> Place {
    Place::governed(&policy(FILE, lines), &[(FILE, SCRIPT), ("a.txt", "a\n")])
}

/// The reason of the extension's denial.
fn refusal(kernel: &Kernel) -> String {
    let answer = submit(kernel, Front::Agent, "fs.read", json!({ "path": "a.txt" }));
    let decision = denied(answer).decision;
    let denials: Vec<_> = decision.deciding().collect();
    let [denial] = &denials[..] else {
        panic!("{denials:?}");
    };
    assert_eq!(&*denial.rule, "guard");
    denial.reason.to_string()
}

fn open_with(place: &Place, program: &str) -> Kernel {
    let mut config = place.config();
    config.worker = Some(WorkerProgram {
        path: program.into(),
        arguments: Vec::new(),
    });
    Kernel::open(config).unwrap()
}

#[test]
fn without_a_worker_a_listed_extension_is_a_denial() {
    let place = place("");
    let reason = refusal(&place.open());
    assert!(reason.contains("has no worker"), "{reason}");
    assert!(reason.contains("use the `airlock` command"), "{reason}");
}

#[test]
fn a_program_that_is_no_worker_is_a_denial_and_soon_disabled() {
    for (program, first) in [
        ("/bin/true", "crashed"),
        ("/bin/cat", "crashed"),
        ("/bin/none", "cannot be asked"),
    ] {
        let place = place("");
        let kernel = open_with(&place, program);
        let reason = refusal(&kernel);
        assert!(reason.contains(first), "{program}: {reason}");
        let again = refusal(&kernel);
        let last = if first == "crashed" {
            "is disabled"
        } else {
            first
        };
        assert!(again.contains(last), "{program}: {again}");
    }
}

#[test]
fn a_file_that_changed_while_the_kernel_runs_is_a_denial_until_it_is_put_back() {
    let place = place("");
    let kernel = open_with(&place, "/bin/none");
    let changed = SCRIPT.replace("pass", "allow");
    place.write(FILE, &changed);
    let reason = refusal(&kernel);
    assert!(reason.contains("is not what was approved"), "{reason}");
    assert!(reason.contains("`airlock trust`"), "{reason}");
    fs::remove_file(place.path(FILE)).unwrap();
    assert!(refusal(&kernel).contains("there is no"));
    symlink("../a.txt", place.path(FILE)).unwrap();
    assert!(refusal(&kernel).contains("is a symlink or a special file"));
    fs::remove_file(place.path(FILE)).unwrap();
    place.write(FILE, vec![b' '; 300 * 1024]);
    assert!(refusal(&kernel).contains("larger than 262144 bytes"));
    place.write(FILE, SCRIPT);
    let reason = refusal(&kernel);
    assert!(reason.contains("does not start"), "it was read: {reason}");
}

#[test]
fn a_digest_in_the_policy_is_what_the_file_is_held_to() {
    let digest = Digest::of(SCRIPT.as_bytes());
    let place = place(&format!("    digest: {digest}\n"));
    let kernel = open_with(&place, "/bin/none");
    assert!(refusal(&kernel).contains("does not start"), "it is read");
    let trusted = kernel.workspace().trust().unwrap();
    let files: Vec<&str> = trusted.report().iter().map(|one| &*one.path).collect();
    assert_eq!(files, [".airlock/policy.yaml"], "the policy answers for it");
    drop(kernel);
    place.write(FILE, "export default () => \"allow\";\n");
    // The policy is as approved, so it stays in force, and denies.
    let kernel = open_with(&place, "/bin/none");
    assert_eq!(kernel.policy().origin(), PolicyOrigin::Workspace);
    assert!(refusal(&kernel).contains("is not what was approved"));
}

#[test]
fn modules_are_refused_until_something_runs_them() {
    let module = ".airlock/guard.wasm";
    let place = Place::governed(
        &policy(module, "    syscall: [fs.read]\n"),
        &[(module, "\0asm"), ("a.txt", "a\n")],
    );
    let kernel = open_with(&place, "/bin/none");
    assert!(refusal(&kernel).contains("Wasm module"));
    let exists = submit(
        &kernel,
        Front::Agent,
        "fs.exists",
        json!({ "path": "a.txt" }),
    );
    assert_eq!(word(&exists), "done", "it is not asked about this");
}

#[test]
fn an_extension_is_asked_about_what_the_policy_lists_and_nothing_else() {
    for (lines, read, exists) in [
        ("", "denied", "denied"),
        ("    syscall: \"*\"\n", "denied", "denied"),
        ("    syscall: fs.*\n", "denied", "denied"),
        ("    syscall: [search.grep, fs.read]\n", "denied", "done"),
        ("    syscall: fs.exists\n", "done", "denied"),
        ("    syscall: search.*\n", "done", "done"),
    ] {
        let place = place(lines);
        let kernel = place.open();
        let ask = |name| {
            word(&submit(
                &kernel,
                Front::Agent,
                name,
                json!({ "path": "a.txt" }),
            ))
        };
        assert_eq!(ask("fs.read"), read, "{lines}");
        assert_eq!(ask("fs.exists"), exists, "{lines}");
    }
}

#[test]
fn extensions_are_part_of_what_a_person_approves() {
    type Change = fn(&Place);
    let changes: &[(&str, Change)] = &[
        ("changed", |p| p.write(FILE, "export default () => 1;\n")),
        ("gone", |p| fs::remove_file(p.path(FILE)).unwrap()),
        ("a directory", |p| {
            fs::remove_file(p.path(FILE)).unwrap();
            fs::create_dir(p.path(FILE)).unwrap();
        }),
        ("behind a symlink", |p| {
            fs::rename(p.path(FILE), p.beside("kept.js")).unwrap();
            symlink(p.beside("kept.js"), p.path(FILE)).unwrap();
        }),
        ("too long", |p| p.write(FILE, vec![b' '; 300 * 1024])),
    ];
    for (case, change) in changes {
        let place = place("");
        assert_eq!(place.open().policy().origin(), PolicyOrigin::Workspace);
        change(&place);
        let kernel = place.open();
        assert_eq!(kernel.policy().origin(), PolicyOrigin::Untrusted, "{case}");
        let trusted = kernel.workspace().trust().unwrap();
        let file = trusted.report().iter().find(|file| file.path == FILE);
        assert_ne!(file.unwrap().change, TrustChange::Same, "{case}");
    }
}

#[test]
fn what_cannot_be_judged_cannot_be_approved() {
    let place = Place::new(&[
        ("a.txt", "a\n"),
        (".airlock/policy.yaml", &policy(FILE, "")),
    ]);
    symlink("../a.txt", place.path(FILE)).unwrap();
    let kernel = place.open();
    let digest = kernel.workspace().trust().unwrap().digest();
    let answer = approved(&kernel, "trust.approve", json!({ "digest": digest }));
    assert_eq!(failed(answer).code, "control_failed");
    assert_eq!(kernel.policy().origin(), PolicyOrigin::Untrusted);
}

#[test]
fn a_file_swapped_during_the_review_is_not_approved() {
    let place = Place::new(&[
        ("a.txt", "a\n"),
        (".airlock/policy.yaml", &policy(FILE, "")),
        (FILE, SCRIPT),
    ]);
    let kernel = place.open();
    let shown = kernel.workspace().trust().unwrap().digest();
    place.write(FILE, "export default () => \"allow\";\n");
    let answer = approved(&kernel, "trust.approve", json!({ "digest": shown }));
    assert_eq!(failed(answer).code, "control_failed");
    assert_eq!(kernel.policy().origin(), PolicyOrigin::Untrusted);
}

#[test]
fn a_new_policy_brings_no_unapproved_script_into_force_and_an_old_one_does_not_linger() {
    let plain = "version: 1\nrules: []\n";
    let place = Place::governed(plain, &[(FILE, SCRIPT), ("a.txt", "a\n")]);
    let kernel = place.open();
    let result = update(&kernel, &policy(FILE, ""));
    assert_eq!(
        result.value["in_force"], false,
        "nobody approved the script"
    );
    assert_eq!(kernel.policy().origin(), PolicyOrigin::Untrusted);
    trust(&kernel);
    assert_eq!(kernel.policy().origin(), PolicyOrigin::Workspace);
    // The extension's own denial does not keep a person from changing the policy by hand.
    place.write(".airlock/policy.yaml", plain);
    fs::remove_file(place.path(FILE)).unwrap();
    let kernel = place.open();
    trust(&kernel);
    assert_eq!(kernel.policy().origin(), PolicyOrigin::Workspace);
}

#[test]
fn a_policy_that_no_longer_lists_a_script_does_not_depend_on_it() {
    let place = place("    syscall: fs.read\n");
    let kernel = place.open();
    let result = update(&kernel, "version: 1\nrules: []\n");
    assert_eq!(result.value["in_force"], true);
    fs::remove_file(place.path(FILE)).unwrap();
    assert_eq!(place.open().policy().origin(), PolicyOrigin::Workspace);
}

#[test]
fn a_policy_that_is_tried_on_runs_no_script_that_nobody_approved() {
    let place = Place::new(&[(FILE, SCRIPT), ("a.txt", "a\n")]);
    let kernel = open_with(&place, "/bin/none");
    let tried = |text: &str| {
        let loaded = airlock_policy::Policy::load("tried", text.as_bytes()).unwrap();
        let tried = kernel.policy_like(loaded.policy).unwrap();
        let problems = tried.extension_problems();
        problems.first().unwrap().explanation.to_string()
    };
    let reason = tried(&policy(FILE, ""));
    assert!(
        reason.contains("nobody approved `.airlock/guard.js`"),
        "{reason}"
    );
    let digest = Digest::of(SCRIPT.as_bytes());
    let reason = tried(&policy(FILE, &format!("    digest: {digest}\n")));
    assert!(reason.contains("does not start"), "it was read: {reason}");
    assert_eq!(records(&kernel).len(), 0, "a preview leaves no record");
}

#[test]
fn a_review_of_trust_is_asked_of_extensions_too() {
    // A policy whose extension cannot be asked lets nobody approve anything under it, but editing
    // the file brings back the defaults, under which a person can.
    let place = place("");
    let kernel = place.open();
    let digest = kernel.workspace().trust().unwrap().digest();
    let answer = submit(
        &kernel,
        Front::Cli,
        "trust.approve",
        json!({ "digest": digest }),
    );
    assert_eq!(word(&answer), "denied");
    place.write(".airlock/policy.yaml", "version: 1\nrules: []\n");
    let kernel = place.open();
    let digest = kernel.workspace().trust().unwrap().digest();
    let asked = submit(
        &kernel,
        Front::Cli,
        "trust.approve",
        json!({ "digest": digest }),
    );
    review(asked);
}
