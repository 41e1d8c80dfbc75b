//! git in a sandbox: nothing a repository names is run, and nothing denied is shown.

use super::support::{Place, done, failed};
use serde_json::json;
use std::path::Path;
use std::process::Command;

const POLICY: &str = "\
version: 1
commands:
  - executable: git
  - executable: cat
rules:
  - name: read
    match: { effect: read, path_glob: \"**\" }
    action: allow
  - name: env
    match: { effect: read, path_glob: [\"**/.env\", \"**/*.key\"] }
    action: deny
  - name: run
    match: { syscall: [exec.run, git.status, git.diff, git.log] }
    action: allow
  - name: change
    match: { effect: [write, delete], path_glob: [\"**\", \"!.env\"] }
    action: allow
";

#[expect(clippy::disallowed_methods, reason = "a repository is made with git")]
fn git(directory: &Path, words: &[&str]) {
    let ran = Command::new("git")
        .current_dir(directory)
        // Whatever a hook of git's says in the environment is about another repository.
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .args(["-c", "user.name=Ada", "-c", "user.email=ada@example.org"])
        .args(words)
        .output()
        .unwrap();
    assert!(
        ran.status.success(),
        "{words:?}: {}",
        String::from_utf8_lossy(&ran.stderr)
    );
}

fn place() -> Place {
    let place = Place::new(
        POLICY,
        &[("a", "one\n"), ("b c", "b\n"), ("x.key", "old-key\n")],
    );
    let root = place.real("");
    git(&root, &["init", "-q", "-b", "main"]);
    git(&root, &["add", "a", "b c", "x.key"]);
    git(
        &root,
        &["commit", "-q", "-m", "First | with \\ odd \"words\""],
    );
    std::fs::write(place.real("a"), "two\n").unwrap();
    std::fs::write(place.real("x.key"), "new-key\n").unwrap();
    std::fs::write(place.real("new"), "new\n").unwrap();
    std::fs::write(place.real(".env"), "password\n").unwrap();
    place
}

#[test]
fn a_repository_without_commits_has_an_empty_log() {
    let place = Place::new(POLICY, &[]);
    git(&place.real(""), &["init", "-q", "-b", "main"]);
    let log = done(place.call("git.log", json!({}))).value;
    assert_eq!(log, json!({ "commits": [] }));
    let failed = failed(place.call("git.log", json!({ "from": "nowhere" })));
    assert!(failed.what.contains("nowhere"), "{}", failed.what);
}

#[test]
fn status_diff_and_log_are_told_without_what_is_denied() {
    let place = place();
    let status = done(place.call("git.status", json!({}))).value;
    assert_eq!(status["branch"], "main", "{status}");
    let paths: Vec<&str> = status["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["path"].as_str().unwrap())
        .collect();
    assert!(paths.contains(&"a") && paths.contains(&"new"), "{status}");
    assert!(!status.to_string().contains(".env") && !status.to_string().contains("x.key"));
    let diff = done(place.call("git.diff", json!({ "path": "a" }))).value;
    assert_eq!(diff["files"], json!(["a"]), "{diff}");
    assert!(
        diff["patch"].as_str().unwrap().contains("-one\n+two\n"),
        "{diff}"
    );
    let all = done(place.call("git.diff", json!({ "from": "HEAD" }))).value;
    assert!(
        !all.to_string().contains("old-key") && !all.to_string().contains("new-key"),
        "{all}"
    );
    let log = done(place.call("git.log", json!({ "limit": 5 }))).value;
    assert_eq!(
        log["commits"][0]["subject"], "First | with \\ odd \"words\"",
        "{log}"
    );
    assert_eq!(log["commits"][0]["author"], "Ada");
    // The stage is what is compared.
    done(place.call("fs.write", json!({ "path": "b c", "text": "staged\n" })));
    let diff = done(place.call("git.diff", json!({ "path": "b c" }))).value;
    assert!(
        diff["patch"].as_str().unwrap().contains("+staged"),
        "{diff}"
    );
    let control = done(place.call(
        "exec.run",
        json!({ "command": ["git", "show", "HEAD:x.key"] }),
    ));
    assert_eq!(
        control.value["stdout"], "old-key\n",
        "history itself is readable in a sandbox"
    );
}

/// A repository in the middle of a merge: `a` has become a link, `s` is changed, `z` is in conflict.
fn in_conflict() -> Place {
    let place = Place::new(POLICY, &[("a", "one\n"), ("s", "s\n"), ("z", "z\n")]);
    let root = place.real("");
    let commit = |text: &str, message: &str| {
        std::fs::write(place.real("z"), text).unwrap();
        git(&root, &["commit", "-q", "-m", message, "z"]);
    };
    git(&root, &["init", "-q", "-b", "main"]);
    git(&root, &["add", "a", "s", "z"]);
    git(&root, &["commit", "-q", "-m", "First"]);
    git(&root, &["checkout", "-q", "-b", "other"]);
    commit("theirs\n", "Theirs");
    git(&root, &["checkout", "-q", "main"]);
    commit("ours\n", "Ours");
    // What cannot be merged is left to be looked at, with an exit code that says so.
    git(
        &root,
        &["config", "alias.try", "!git merge -q other || true"],
    );
    git(&root, &["try"]);
    std::fs::remove_file(place.real("a")).unwrap();
    std::os::unix::fs::symlink("s", place.real("a")).unwrap();
    std::fs::write(place.real("s"), "changed\n").unwrap();
    git(&root, &["add", "a", "s"]);
    std::fs::write(place.real("s"), "again\n").unwrap();
    place
}

#[test]
fn retyped_files_and_conflicts_are_told_each_under_its_own_name() {
    let place = in_conflict();
    for (case, arguments, files, unmerged, sections) in [
        (
            "the index",
            json!({ "staged": true }),
            json!(["a", "s", "z"]),
            json!(["z"]),
            3,
        ),
        ("the stage", json!({}), json!(["s", "z"]), json!(["z"]), 2),
        (
            "a commit",
            json!({ "from": "HEAD" }),
            json!(["a", "s", "z"]),
            json!([]),
            4,
        ),
        (
            "one path",
            json!({ "staged": true, "path": "z" }),
            json!(["z"]),
            json!(["z"]),
            0,
        ),
    ] {
        let diff = done(place.call("git.diff", arguments)).value;
        assert_eq!(
            (&diff["files"], &diff["unmerged"]),
            (&files, &unmerged),
            "{case}: {diff}"
        );
        let patch = diff["patch"].as_str().unwrap();
        assert_eq!(
            patch.matches("diff --git ").count(),
            sections,
            "{case}: {patch}"
        );
        assert!(!patch.contains("Unmerged"), "{case}: {patch}");
    }
    let diff = done(place.call("git.diff", json!({}))).value;
    assert!(
        diff["patch"].as_str().unwrap().contains("+theirs"),
        "{diff}"
    );
}

#[test]
fn no_program_that_a_repository_names_is_run() {
    let place = place();
    let program = "sh -c 'echo ran >>marks; cat'";
    let root = place.real("");
    for (key, value) in [
        ("core.fsmonitor", program),
        ("core.hooksPath", "hooks"),
        ("core.pager", program),
        ("pager.log", program),
        ("pager.status", program),
        ("diff.external", program),
        ("diff.evil.textconv", program),
        ("diff.evil.command", program),
        ("filter.evil.clean", program),
        ("filter.evil.process", program),
        ("gpg.program", program),
        ("log.showSignature", "true"),
        ("alias.status", "!sh -c 'echo ran >>marks'"),
        ("core.sshCommand", program),
        ("credential.helper", program),
        ("include.path", "../evil.config"),
        ("core.attributesFile", "evil.attributes"),
    ] {
        git(&root, &["config", key, value]);
    }
    let hook = "#!/bin/sh\necho ran >>marks\n";
    for (path, text) in [
        ("hooks/post-index-change", hook),
        (".git/hooks/post-index-change", hook),
        (".gitattributes", "* filter=evil diff=evil\n"),
        (".git/info/attributes", "* filter=evil diff=evil\n"),
        ("evil.attributes", "* filter=evil diff=evil\n"),
        (
            "evil.config",
            "[core]\nfsmonitor = \"sh -c 'echo ran >>marks'\"\n",
        ),
    ] {
        std::fs::create_dir_all(place.real(path).parent().unwrap()).unwrap();
        std::fs::write(place.real(path), text).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(place.real(path), mode).unwrap();
    }
    for (tool, arguments) in [
        ("git.status", json!({})),
        ("git.diff", json!({ "path": "a" })),
        ("git.diff", json!({ "from": "HEAD", "staged": true })),
        ("git.log", json!({})),
        ("git.log", json!({ "path": "a" })),
    ] {
        done(place.call(tool, arguments));
        assert!(
            !place.real("marks").exists(),
            "{tool} ran a program on the host"
        );
        let seen = done(place.call("exec.run", json!({ "command": ["cat", "marks"] })));
        assert_ne!(
            seen.value["exit"], 0,
            "{tool} ran a program: {}",
            seen.value
        );
    }
    // The control: git itself does run them, in the same sandbox.
    done(place.call("exec.run", json!({ "command": ["git", "diff", "a"] })));
    let seen = done(place.call("exec.run", json!({ "command": ["cat", "marks"] })));
    assert_eq!(
        seen.value["exit"], 0,
        "the control proves nothing: {}",
        seen.value
    );
}

#[test]
fn no_argument_becomes_an_option_or_leads_out() {
    let place = place();
    for (tool, arguments) in [
        ("git.diff", json!({ "from": "--no-index" })),
        ("git.diff", json!({ "from": "--output=x" })),
        ("git.diff", json!({ "from": "a b" })),
        ("git.diff", json!({ "from": "HEAD..HEAD" })),
        ("git.diff", json!({ "to": "HEAD" })),
        ("git.diff", json!({ "path": "../state" })),
        ("git.log", json!({ "from": "-p" })),
        ("git.log", json!({ "limit": 0 })),
        ("git.status", json!({ "all": true })),
    ] {
        let failure = failed(place.call(tool, arguments.clone()));
        assert_eq!(failure.code, "invalid_arguments", "{tool} {arguments}");
    }
    let missing = failed(place.call("git.log", json!({ "from": "nothing" })));
    assert_eq!(missing.code, "output_not_understood", "{}", missing.what);
    let magic = done(place.call("git.diff", json!({ "path": ":(exclude)a" }))).value;
    assert_eq!(magic["files"], json!([]), "a path is data");
    std::fs::remove_dir_all(place.real(".git")).unwrap();
    std::fs::write(place.real(".git"), "gitdir: /tmp/elsewhere\n").unwrap();
    let linked = failed(place.call("git.status", json!({})));
    assert!(
        linked.what.contains("no repository here"),
        "{}",
        linked.what
    );
}
