//! What an approval lets through: all of what was approved, and nothing beside it.

use super::phases::{git, with_repository};
use super::projects;
use super::support::{done, failed, put_back};
use super::work::{APP, DOUBLE, POLICY, Work};
use airlock_kernel::{Front, Outcome};
use serde_json::{Value, json};
use std::fs;

/// As far as the changes are approved.
fn approved(work: Work) -> Work {
    let call = work.call("phase.commit", json!({ "digest": work.digest() }));
    let done = work.place.approved(Front::Agent, &call);
    assert_eq!(done.value["state"], "committing");
    work
}

/// What `merge.apply` is to be called with.
fn merge(work: &Work) -> Value {
    work.done("phase.status", json!({})).value["merge"].clone()
}

fn is_asked(work: &Work, arguments: Value) {
    let told = arguments.to_string();
    let outcome = work.submit("merge.apply", arguments);
    assert!(
        matches!(outcome, Outcome::NeedsReview(_)),
        "{told}: {outcome:?}"
    );
}

/// Has somebody change the stage who is not held: the person at the command line.
fn beside(work: &Work, script: &str) {
    fs::write(work.place.real("script"), script).unwrap();
    let command = json!({ "command": ["sh", "script"] });
    let ran = done(work.place.submit(Front::Cli, "exec.run", command));
    assert_eq!(ran.value["exit"], 0, "{:?}", ran.value);
    assert_eq!(put_back(&ran), [""; 0]);
}

#[test]
fn a_part_of_what_was_approved_is_not_approved() {
    let work = approved(Work::python("strict").green());
    let whole = merge(&work);
    for (name, value) in [
        ("files", json!(["app.py"])),
        ("files", json!(["tests"])),
        ("overwrite", json!(true)),
    ] {
        let mut part = whole.clone();
        part[name] = value;
        is_asked(&work, part);
    }
    // Hunks are looked at as what they are: the digest of the whole does not speak of them.
    let mut part = whole.clone();
    part["hunks"] = json!({ "app.py": [1] });
    assert_eq!(
        failed(work.submit("merge.apply", part)).code,
        "invalid_arguments"
    );
    // A person may merge a part. What is left keeps the task from being done.
    let mut part = whole;
    part["files"] = json!(["app.py"]);
    let merged = work
        .place
        .approved(Front::Agent, &work.call("merge.apply", part))
        .value;
    assert_eq!(merged["left"], json!([]), "{merged}");
    assert_eq!(work.state(), "committing");
    let rest = merge(&work);
    is_asked(&work, rest.clone());
    let merged = work
        .place
        .approved(Front::Agent, &work.call("merge.apply", rest))
        .value;
    assert_eq!(merged["state"], "idle", "{merged}");
}

#[test]
fn a_commit_is_merged_with_all_that_it_is_of() {
    let work = Work::python("strict");
    with_repository(&work.place);
    let before = git(&work.place, &["rev-parse", "main"]);
    let work = approved(work.green());
    work.done("git.commit", json!({ "message": "Double" }));
    let whole = merge(&work);
    let without: Vec<&Value> = whole["files"].as_array().unwrap().iter().collect();
    let mut part = whole.clone();
    part["files"] = json!([".git"]);
    is_asked(&work, part.clone());
    part["files"] = without
        .into_iter()
        .filter(|path| *path != ".git")
        .cloned()
        .collect();
    is_asked(&work, part);
    assert_eq!(git(&work.place, &["rev-parse", "main"]), before);
    assert_eq!(work.done("merge.apply", whole).value["state"], "idle");
}

#[test]
fn what_a_pattern_says_of_gits_own_is_nothing_to_git() {
    for ignored in [".*\n", "*\n!*.py\n!tests\n!pytest.ini\n"] {
        let work = Work::python("strict");
        fs::write(work.place.real(".gitignore"), ignored).unwrap();
        with_repository(&work.place);
        let work = work.planned();
        let ran = work.sneak("echo 1 >.git/refs/heads/evil; echo 1 >.git/index");
        assert_eq!(
            put_back(&ran),
            [".git/index", ".git/refs/heads/evil"],
            "{ignored}"
        );
    }
}

#[test]
fn a_branch_that_no_commit_of_the_session_moved_goes_with_no_approval() {
    let moves = "cat .git/refs/heads/main >.git/refs/heads/evil";
    let work = Work::python("strict");
    with_repository(&work.place);
    let work = approved(work.green());
    beside(&work, moves);
    let refused = work.refused("git.commit", json!({ "message": "Double" }));
    assert!(refused.what.contains("references"), "{}", refused.what);
    let mut with = merge(&work);
    with["files"].as_array_mut().unwrap().push(json!(".git"));
    is_asked(&work, with);

    for script in [moves, "rm .git/index", "echo 1 >.git/objects/more"] {
        let work = Work::python("strict");
        with_repository(&work.place);
        let work = approved(work.green());
        work.done("git.commit", json!({ "message": "Double" }));
        beside(&work, script);
        is_asked(&work, merge(&work));
    }
}

#[test]
fn the_mode_of_a_directory_is_part_of_what_is_approved() {
    let policy = POLICY.replace("rules:", "merge: { automatic: true }\nrules:");
    let own = [("app.py", APP), ("src/sub/keys.py", "KEY = 1\n")];
    let files = projects::with(projects::PYTHON, &own);
    let work = Work::new(&policy, &files, "strict").red();
    work.wrote("app.py", DOUBLE);
    assert_eq!(put_back(&work.sneak("chmod 777 src/sub")), [""; 0]);
    work.advance();
    let phase = work.test()["phase"].clone();
    assert_eq!(phase["state"], "reviewing", "{phase}");
    let changes = work.done("phase.status", json!({})).value["changes"].clone();
    let listed = changes["source"].as_array().unwrap();
    assert!(listed.contains(&json!("src/sub")), "{changes}");
    let outcome = work.submit("phase.commit", json!({ "digest": work.digest() }));
    let Outcome::NeedsReview(review) = outcome else {
        panic!("not asked: {outcome:?}");
    };
    let mut why = review.approval.why.iter().map(|one| one.reason.to_string());
    assert!(why.any(|why| why.contains("`src/sub` gets another mode")));

    // Nor does it come to it afterwards.
    let work = approved(Work::new(POLICY, &files, "strict").green());
    beside(&work, "chmod 777 src/sub");
    let mut with = merge(&work);
    with["files"].as_array_mut().unwrap().push(json!("src/sub"));
    is_asked(&work, with);
}

#[test]
fn tests_that_fail_while_it_is_reviewed_keep_it_from_being_committed() {
    // What git ignores is free to be written, and is not part of what was tested.
    let test = "import os\nfrom app import double\n\n\ndef test_double():\n    assert double(4) == 8\n    assert not os.path.exists('lcov.info')\n";
    let work = Work::python("strict").planned();
    work.wrote("tests/test_double.py", test);
    work.test();
    work.advance();
    work.wrote("app.py", DOUBLE);
    work.advance();
    let phase = work.test()["phase"].clone();
    assert_eq!(phase["state"], "reviewing", "{phase}");
    work.sneak("touch lcov.info");
    assert_ne!(work.test()["phase"]["proof"], "green");
    let call = work.call("phase.commit", json!({ "digest": work.digest() }));
    let Outcome::NeedsReview(mut review) = work.place.kernel().submit(Front::Agent, &call) else {
        panic!("not asked");
    };
    let flags = rustix::pty::OpenptFlags::RDWR | rustix::pty::OpenptFlags::NOCTTY;
    let terminal = rustix::pty::openpt(flags).unwrap();
    let person = work.place.kernel().person(&terminal, None).unwrap();
    work.place
        .kernel()
        .answer(person, &mut review, true)
        .unwrap();
    let refused = failed(work.place.kernel().submit(Front::Agent, &call));
    assert!(refused.what.contains("guard `green`"), "{}", refused.what);
    assert_eq!(work.state(), "reviewing");
}
