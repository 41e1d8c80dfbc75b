//! Programs as they are.

use super::{Scenario, run};
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

pub(super) const SCENARIOS: &[(&str, Scenario)] =
    &[("shell", shell), ("python", python), ("git", git)];

#[expect(
    clippy::disallowed_methods,
    reason = "the programs are started by the guarded process"
)]
fn start(program: &str, arguments: &[&str], directory: &Path) -> Output {
    Command::new(program)
        .args(arguments)
        .current_dir(directory)
        // Whatever a hook of git's says in the environment is about another repository.
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("HOME", directory)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("`{program}` is needed: {error}"))
}

/// Runs a program that must succeed; gives what it writes.
pub(super) fn succeed(program: &str, arguments: &[&str], directory: &Path) -> String {
    let output = start(program, arguments, directory);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn shell(directory: &Path) {
    let script = "cat plain.txt; cat < plain.txt; echo made > made; cat made; \
        mkdir -p x/y && mv x z && ls -R z; cat secret.txt || echo refused $?; \
        (cat project/.env) 2>&1; echo x > later.txt; cat /dev/stdin < plain.txt; \
        mv deep shallow 2>&1; cat shallow/a/key; \
        cp -a open copied && cat copied/other.txt; echo | tee /dev/stderr >/dev/null; \
        mkfifo p && (echo piped > p &) && cat p";
    let text =
        String::from_utf8_lossy(&start("sh", &["-c", script], directory).stdout).into_owned();
    assert!(text.starts_with("plainplainmade\n"), "{text}");
    assert!(text.contains("refused 1\n"), "{text}");
    assert!(text.contains("project/.env: Permission denied"), "{text}");
    assert!(!text.contains("secret"), "{text}");
    assert!(text.contains("plain") && text.contains("other"), "{text}");
    assert!(text.ends_with("piped\n"), "{text}");
    assert!(!directory.join("later.txt").exists());
}

fn python(directory: &Path) {
    let script = "import json,os,tempfile,shutil,subprocess\n\
        for name in ['secret.txt','to-secret','vault/key','project/.env']:\n    \
        try: open(name).read(); raise SystemExit('read '+name)\n    \
        except PermissionError: pass\n\
        with tempfile.TemporaryDirectory(dir='.') as d:\n    \
        open(d+'/a','w').write('x'); shutil.copytree(d, 'copied')\n\
        shutil.rmtree('copied')\n\
        print(subprocess.run(['cat','plain.txt'],capture_output=True,text=True).stdout)\n\
        print(os.listdir('/proc/self/fd') != [])\n";
    let text = succeed("python3", &["-c", script], directory);
    assert_eq!(text, "plain\nTrue\n");
}

fn git(directory: &Path) {
    let work = directory.join("work");
    fs::create_dir(&work).unwrap();
    for number in 0..20 {
        fs::write(work.join(format!("{number}.txt")), "text").unwrap();
    }
    let git = |arguments: &[&str]| {
        let identity = ["-c", "user.name=x", "-c", "user.email=x@example.org"];
        succeed("git", &[&identity, arguments].concat(), &work)
    };
    git(&["init", "-q"]);
    git(&["add", "."]);
    git(&["commit", "-q", "-m", "first"]);
    fs::write(work.join("0.txt"), "changed").unwrap();
    git(&["commit", "-q", "-a", "-m", "second"]);
    git(&["gc", "-q"]);
    assert_eq!(git(&["log", "--format=%s"]), "second\nfirst\n");
    assert_eq!(git(&["status", "--porcelain"]), "");
    git(&["fsck"]);
}

#[test]
fn a_shell_works_and_is_refused_what_is_denied() {
    run("shell");
}

#[test]
fn python_works_and_is_refused_what_is_denied() {
    run("python");
}

#[test]
fn git_works() {
    run("git");
}
