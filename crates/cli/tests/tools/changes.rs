//! What a program does to its stage is judged when it has ended, and put back where it may not be.

use super::support::{Place, done, put_back};
use airlock_kernel::Front;
use serde_json::json;

const POLICY: &str = "\
version: 1
commands:
  - executable: cat
  - executable: sh
rules:
  - name: read
    match: { effect: read, path_glob: \"**\" }
    action: allow
  - name: run
    match: { syscall: exec.run }
    action: allow
  - name: change
    match: { effect: [write, delete], path_glob: [\"src/**\", \"script\"] }
    action: allow
    constraints: { max_file_size: 1KiB }
  - name: keep
    match: { effect: [write, delete], path_glob: [\"**/keep\", \"**/*.secret\"] }
    action: deny
    reason: it is kept
  - name: stay
    match: { syscall: fs.move, path_glob: \"src/stay/**\" }
    action: deny
  - name: person
    match: { plugin: cli, effect: [write, delete], path_glob: \"**\" }
    action: allow
";

fn place() -> Place {
    Place::new(
        POLICY,
        &[
            (".gitignore", "/target/\n*.log\n"),
            ("src/a", "a\n"),
            ("src/d/keep", "kept\n"),
            ("src/d/b", "b\n"),
            ("src/stay/s", "s\n"),
            ("other", "other\n"),
            (".git/config", "[core]\n"),
            (".git/HEAD", "ref: refs/heads/main\n"),
        ],
    )
}

#[test]
fn what_no_rule_allows_is_put_back_and_told() {
    let place = place();
    let ran =
        place.script("echo x >other; echo new >new; echo y >src/a; rm src/d/keep; rm src/d/b");
    assert_eq!(
        put_back(&ran),
        ["new", "other", "src/d/keep"],
        "{}",
        ran.value
    );
    let told = &ran.value["put_back"][2];
    assert_eq!(
        (&told["change"], &told["reason"]),
        (&json!("fs.delete"), &json!("keep: it is kept"))
    );
    let recorded = place.last_outcome();
    assert_eq!(
        recorded.metadata["put_back"],
        r#"["new","other","src/d/keep"]"#
    );
    for (path, want) in [
        ("other", Some("other\n")),
        ("new", None),
        ("src/a", Some("y\n")),
        ("src/d/keep", Some("kept\n")),
        ("src/d/b", None),
    ] {
        assert_eq!(place.staged(path).as_deref(), want, "{path}");
    }
    assert_eq!(std::fs::read_to_string(place.real("src/a")).unwrap(), "a\n");
}

#[test]
fn hostile_ways_to_change_what_is_kept_all_end_the_same() {
    for script in [
        "rm -r src/d",
        "rm -r src/d; mkdir src/d; echo evil >src/d/keep",
        "rm -r src/d; ln -s /tmp src/d",
        "rm -r src/d; echo file >src/d",
        "mv src/d src/e",
        "mv src/d/keep src/d/x; echo evil >src/d/keep",
        "ln src/d/keep src/x; echo evil >>src/x",
        "echo evil >src/x; ln -f src/x src/d/keep",
        "ln -sf ../a src/d/keep",
        "chmod 000 src/d/keep",
        "echo evil >src/d/keep; chmod 000 src/d",
        "rm -r src/d; mkdir src/d; chmod 000 src/d",
        "echo evil >src/d/keep; chmod 000 src/d src .",
        "echo evil >src/d/keep; chmod 311 src/d src .",
        "rm src/d/keep; mkdir src/d/keep; echo x >src/d/keep/x",
        "rm src/d/keep; mkfifo src/d/keep",
        "truncate -s 5 src/d/keep",
        "(sleep 0.2; echo evil >src/d/keep) & exit 0",
        "setsid sh -c 'while :; do echo evil >src/d/keep; done' & sleep 0.2",
        "echo '/src/d/' >>.gitignore; echo evil >src/d/keep",
        "echo '*' >src/d/.gitignore; echo evil >src/d/keep",
        "printf '[core]\\nexcludesFile = /x' >.git/config; echo evil >src/d/keep",
    ] {
        let place = place();
        let ran = place.script(script);
        let seen = place.script("cat src/d/keep; stat -c '%a %F' src/d/keep");
        let want = "kept\n644 regular file\n";
        // A background process is ended before it can write, so there may be nothing to put back.
        assert_eq!(
            seen.value["stdout"], want,
            "{script}: {} {}",
            ran.value, seen.value
        );
        assert_eq!(
            std::fs::read_to_string(place.real("src/d/keep")).unwrap(),
            "kept\n"
        );
    }
}

#[test]
fn what_the_real_tree_ignores_needs_no_rule_but_a_denial_holds() {
    let place = place();
    let ran = place.script(
        "mkdir -p target/debug src/x; echo o >target/debug/o; echo l >build.log; \
         echo k >target/keep; echo s >target/a.secret; echo n >no.txt; printf '*.txt\\n' >.gitignore; \
         printf '*.txt\\n' >src/.gitignore; echo t >src/t.txt; mkdir odir; echo q >odir/q.txt",
    );
    let told = put_back(&ran);
    let want = [
        ".gitignore",
        "no.txt",
        "odir",
        "odir/q.txt",
        "target/a.secret",
        "target/keep",
    ];
    assert_eq!(told, want, "{}", ran.value);
    assert_eq!(place.staged("target/debug/o").as_deref(), Some("o\n"));
    assert_eq!(place.staged("build.log").as_deref(), Some("l\n"));
    // The ignore file of the stage, where it may be written, frees nothing either.
    let again = place.script(
        "echo z >src/.gitignore; echo x >z; mkdir sub; cp src/.gitignore sub; echo x >sub/z",
    );
    assert!(put_back(&again).contains(&"z") && put_back(&again).contains(&"sub/z"));
}

#[test]
fn built_in_protections_hold_for_programs_too() {
    let place = place();
    let ran = place.script(
        "echo x >>.airlock/policy.yaml; mkdir -p src/.git; echo x >src/.git/config; \
         echo x >src/.bashrc; echo x >src/CLAUDE.md; mkdir -p src/.vscode; echo {} >src/.vscode/tasks.json",
    );
    // The policy cannot even be opened.
    assert_eq!(
        ran.value["refusals"].as_array().unwrap().len(),
        1,
        "{}",
        ran.value
    );
    let told = put_back(&ran);
    for path in [
        "src/.git/config",
        "src/.bashrc",
        "src/CLAUDE.md",
        "src/.vscode/tasks.json",
    ] {
        assert!(told.contains(&path), "{path}: {}", ran.value);
    }
    let left = place.script("ls -A src");
    assert_eq!(left.value["stdout"], "a\nd\nstay\n", "{}", ran.value);
}

#[test]
fn sizes_and_moves_are_judged_like_calls() {
    let place = place();
    let ran = place.script("head -c 5000 /dev/zero >src/big; head -c 500 /dev/zero >src/small");
    assert_eq!(put_back(&ran), ["src/big"], "{}", ran.value);
    let ran = place.script("mv src/stay/s src/moved; mv src/a src/b");
    assert_eq!(put_back(&ran), ["src/moved", "src/stay/s"], "{}", ran.value);
    assert_eq!(place.staged("src/stay/s").as_deref(), Some("s\n"));
    assert_eq!(place.staged("src/b").as_deref(), Some("a\n"));
}

#[test]
fn somebody_elses_changes_are_kept_and_ones_own_may_change() {
    let place = place();
    let own =
        json!({ "command": ["sh", "-c", "echo mine >other; echo theirs >src/a; echo n >notes"] });
    let ran = done(place.submit(Front::Cli, "exec.own", own));
    assert_eq!(put_back(&ran), Vec::<&str>::new(), "{}", ran.value);
    let ran = place.script("echo evil >other; rm notes; echo agent >src/a");
    assert_eq!(put_back(&ran), ["notes", "other"]);
    assert_eq!(place.staged("other").as_deref(), Some("mine\n"));
    assert_eq!(place.staged("notes").as_deref(), Some("n\n"));
    assert_eq!(place.staged("src/a").as_deref(), Some("agent\n"));
    let keep = json!({ "command": ["sh", "-c", "echo x >src/d/keep"] });
    let ran = done(place.submit(Front::Cli, "exec.own", keep));
    assert_eq!(put_back(&ran), ["src/d/keep"]);
}

#[test]
fn a_copy_that_changes_nothing_is_not_told() {
    let place = place();
    let ran = place.script("touch other; : >>other; echo kept >src/d/keep");
    assert_eq!(put_back(&ran), Vec::<&str>::new(), "{}", ran.value);
}

#[test]
fn names_no_rule_can_judge_do_not_stay() {
    let place = place();
    let ran = place
        .script("printf x >\"$(printf 'src/\\377bad')\"; printf x >\"$(printf 'src/new\\nline')\"");
    assert_eq!(put_back(&ran).len(), 1, "{}", ran.value);
    let left = place.script("ls src | wc -l");
    assert_eq!(left.value["stdout"].as_str().unwrap().trim(), "5");
}

#[test]
fn a_run_that_was_never_judged_is_judged_before_the_next() {
    let place = place();
    place.script("echo y >src/a");
    // What a supervisor killed in the middle leaves: its note, and what the program did.
    let stage = place
        .kernel()
        .workspace()
        .state()
        .path()
        .join("stages/default");
    let caller = place.last_outcome().caller.unwrap();
    std::fs::create_dir(stage.join("aside")).unwrap();
    let index = json!({ "note": { "caller": caller, "template": "code-executor" }, "entries": [] });
    std::fs::write(stage.join("aside/index.json"), index.to_string()).unwrap();
    std::fs::write(stage.join("upper/other"), "evil\n").unwrap();
    std::fs::write(stage.join("upper/evil"), "evil\n").unwrap();
    assert_eq!(place.staged("other").as_deref(), Some("other\n"));
    assert_eq!(place.staged("evil"), None);
    assert_eq!(place.staged("src/a").as_deref(), Some("y\n"));
    assert!(!stage.join("aside").exists());
}
